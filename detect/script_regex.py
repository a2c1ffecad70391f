"""Regular expressions of grep, sed and awk as Python has them; those that may take long are not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

from detect.script_world import Unsure

MAX_SIZE = 200
_CLASSES = {
    "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:alnum:]": "a-zA-Z0-9", "[:space:]": r" \t\n\r\f\v",
    "[:blank:]": r" \t",
    "[:upper:]": "A-Z", "[:lower:]": "a-z", "[:punct:]": r"!-/:-@\[-`{-~", "[:xdigit:]": "0-9A-Fa-f",
}  # fmt: skip
_SLOW = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+|][^)]*\)[*+{]|\\\d")


_MOST_WAYS = 3e6
_REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT)


def within(pattern: re.Pattern[str], text: str) -> None:
    """Raises Unsure where the pattern may be tried in too many ways on a text of that length."""
    if (len(text) + 1) * _ways(parser.parse(pattern.pattern, pattern.flags), len(text)) > _MOST_WAYS:
        raise Unsure


def _ways(items: Sequence, size: int) -> float:
    """In how many ways a part of a pattern may match from one place on, at most."""
    ways = 1.0
    for kind, given in items:
        if kind in _REPEATS:
            least, most, inner = given
            most = min(most, size)
            of_one = _ways(inner, size)
            ways *= max(most - least, 0) + 1 if of_one <= 1 else of_one ** min(most, 60) + 1
        elif kind is constants.BRANCH:
            ways *= sum(_ways(branch, size) for branch in given[1])
        elif kind is constants.SUBPATTERN:
            ways *= _ways(given[-1], size)
        elif kind in (constants.ASSERT, constants.ASSERT_NOT):
            ways *= _ways(given[1], size)
        elif kind not in _SINGLE:
            raise Unsure
        if ways > _MOST_WAYS:
            return ways
    return ways


_SINGLE = (
    constants.LITERAL, constants.NOT_LITERAL, constants.ANY, constants.IN, constants.AT, constants.CATEGORY,
)  # fmt: skip


class Bounded:
    """A compiled pattern that is only tried where that cannot take long. Everything raises Unsure."""

    def __init__(self, made: re.Pattern[str]) -> None:
        self.made = made
        self.pattern = made.pattern
        self.flags = made.flags

    def on(self, text: str) -> re.Pattern[str]:
        within(self.made, text)
        return self.made

    def search(self, text: str) -> re.Match[str] | None:
        return self.on(text).search(text)

    def sub(self, change: Callable[[re.Match[str]], str], text: str) -> str:
        return self.on(text).sub(change, text)

    def subn(self, change: Callable[[re.Match[str]], str], text: str, count: int = 0) -> tuple[str, int]:
        return self.on(text).subn(change, text, count)

    def split(self, text: str) -> list[str]:
        return self.on(text).split(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.on(text).finditer(text)


def compiled(pattern: str, *, extended: bool, ignore: bool = False) -> Bounded:
    """Raises Unsure."""
    made = translated(pattern, extended=extended)
    if len(made) > MAX_SIZE or _SLOW.search(made):
        raise Unsure
    try:
        return Bounded(re.compile(made, re.I if ignore else 0))
    except (re.error, OverflowError, RecursionError):
        raise Unsure from None


def translated(pattern: str, *, extended: bool) -> str:
    made, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            end = _class_end(pattern, at)
            inside = pattern[at:end]
            for name, chars in _CLASSES.items():
                inside = inside.replace(name, chars)
            if "[:" in inside or "[." in inside or "[=" in inside:
                raise Unsure
            head = 2 if inside[1] == "^" else 1
            body = re.sub(r"\\(?![tnrfv\[\]])", r"\\\\", inside[head:-1])
            body = body if body[:1] != "]" else "\\" + body
            made += inside[:head] + re.sub(r"(?<!\\)\[", r"\\[", body) + "]"
            at = end
            continue
        if char == "\\" and at + 1 < len(pattern):
            following = pattern[at + 1]
            at += 2
            if following in "(){}|+?":
                made += "\\" + following if extended else following
            elif following in "<>":
                made += r"\b"
            elif following in "nt" or following in "wWsSbB" or following.isdigit():
                made += "\\" + following
            else:
                made += re.escape(following)
            continue
        if char in "(){}|+?" and not extended:
            made += "\\" + char
        elif char == "*" and (not made or made.endswith(("(", "|")) or made == "^"):
            made += r"\*"
        elif char == "^" and at and not extended and not pattern[:at].endswith((r"\(", r"\|")):
            made += r"\^"
        elif char == "$" and at + 1 < len(pattern) and not extended and pattern[at + 1 : at + 3] not in (r"\)", r"\|"):
            made += r"\$"
        elif char == "$":
            made += r"\Z"
        else:
            made += char
        at += 1
    return made


def _class_end(pattern: str, at: int) -> int:
    end = at + 1
    if pattern[end : end + 1] == "^":
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end):
            end = pattern.find(":]", end) + 1
            if not end:
                raise Unsure
        end += 1
    if end >= len(pattern):
        raise Unsure
    return end + 1
