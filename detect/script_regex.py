"""Regular expressions of grep, sed and awk as Python has them; those that may take long are not known."""

from __future__ import annotations

import re

from detect.script_world import Unsure

MAX_SIZE = 200
_CLASSES = {
    "[:alpha:]": "a-zA-Z", "[:digit:]": "0-9", "[:alnum:]": "a-zA-Z0-9", "[:space:]": r" \t\n\r\f\v",
    "[:blank:]": r" \t",
    "[:upper:]": "A-Z", "[:lower:]": "a-z", "[:punct:]": r"!-/:-@\[-`{-~", "[:xdigit:]": "0-9A-Fa-f",
}  # fmt: skip
_SLOW = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+|][^)]*\)[*+{]|\\\d")


def compiled(pattern: str, *, extended: bool, ignore: bool = False) -> re.Pattern:
    """Raises Unsure."""
    made = translated(pattern, extended=extended)
    if len(made) > MAX_SIZE or _SLOW.search(made):
        raise Unsure
    try:
        return re.compile(made, re.I if ignore else 0)
    except re.error:
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
