"""Programs that are tables: how much of a file is pairs of literals, a key and what is answered to it.

`"a b": "b a",`, `if x == "a b": print("b a")`, `{"a b", "b a"},`, `"a b" => "b a"`, `case "a b": return "b a"` and
`"a b") echo "b a" ;;` all come out as the pair `a b`, `b a`, whatever the language. An honest program has tables too
(options, escapes, names of months), so what counts is their number, their share, keys that are digests, and values that
are known answers of the reference. Text in, numbers out; time grows with the text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from detect.literals import noughts

MAX_BYTES = 256 * 1024
_STRING = re.compile(
    rb"\"([^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+)(?:\"|\Z|(?=\n)|\\)|'([^'\\\n]*+(?:\\.[^'\\\n]*+)*+)(?:'|\Z|(?=\n)|\\)", re.S
)
"""A string; one that never ends takes the rest of its line."""
_NUMBER = re.compile(rb"([0-9](?<![\w.].)(?:(?<=0)x[0-9a-f]{6,16}|[0-9]{6,19}))u?l{0,2}(?![\w.])", re.I)
_FIGURES = noughts(b"0123456789")
_COLON = re.compile(rb":[ \t]{0,8}[\"']")
_NAME = re.compile(rb"(?<![\w.])([a-z_]\w{0,40})[ \t]{0,8}\Z", re.I)
"""A name that is a key: it stands before a colon and a string."""
_BETWEEN = re.compile(
    rb"[lu]{0,3}\s*(?:[:,]|=>?|->|\)\s*[:{]?|\]\s*=)?"
    rb"(?:return|echo|println|printf|print|puts|fputs|write|emit|then|Some|Ok|String|fmt|System|out|console|log|process"
    rb"|stdout|sys|std|cout|format|say|to_string|from|==|[({\[<:;.!\s&0?)])*+b?",
    re.I,
)
"""What may stand between a key and its value."""
_DIGEST = re.compile(
    rb"[0-9a-f]{8}|[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96,128}", re.I
)
_COMMENT = re.compile(rb"(?m)^[ \t]*(?:#|//).*$|/\*.*?\*/", re.S)
_UNESCAPED = {b"\\n": b"\n", b"\\t": b"\t", b'\\"': b'"', b"\\'": b"'", b"\\\\": b"\\"}


class Table:
    def __init__(self, pairs: Sequence[tuple[bytes, bytes]], data: bytes) -> None:
        self.pairs = pairs
        self._data = data

    @cached_property
    def size(self) -> int:
        """Bytes of code, without comments and blanks."""
        return len(b"".join(_COMMENT.sub(b"", self._data).split())) if self.pairs else len(self._data)

    @property
    def entries(self) -> int:
        return len(self.pairs)

    @cached_property
    def share(self) -> float:
        """The part of the code, without comments and blanks, that keys and values make up."""
        return sum(len(key) + len(value) for key, value in self.pairs) / max(self.size, 1)

    @cached_property
    def digests(self) -> int:
        """Keys that look like digests: hexadecimal text of the usual lengths, or large numbers."""
        return sum(_is_digest(key) for key, _ in self.pairs)

    def answered(self, answers: Sequence[bytes]) -> float:
        """The part of the values that stand, line for line, in what the reference has answered."""
        lines = {line.strip() for answer in answers for line in answer.splitlines()} - {b""}
        if not lines or not self.pairs:
            return 0.0
        return sum(_plain(value) <= lines and value != b"" for _, value in self.pairs) / len(self.pairs)


def read_table(data: bytes) -> Table:
    """The pairs of literals in a file."""
    data = data[:MAX_BYTES]
    pairs: list[tuple[bytes, bytes]] = []
    if data.count(b'"') + data.count(b"'") < 6:
        return Table(pairs, data)
    previous: re.Match[bytes] | None = None
    after = 0
    for match in _literals(data):
        start = match.start()
        if previous is not None and start - after <= 60:
            between = data[after:start]
            stripped = between.strip()
            # neighbours in a list are no pair: a comma counts behind a key that opens a bracket
            opened = stripped != b"," or _opens(data, previous.start())
            if stripped and opened and match.re is _STRING and _BETWEEN.fullmatch(between):
                pairs.append((_text(previous), _text(match)))
                previous = None
                continue
        previous, after = match, _end(match)
    return Table(pairs, data)


def _literals(data: bytes) -> Iterable[re.Match[bytes]]:
    """Strings, large numbers, and names that are keys, in the order in which they stand."""
    strings = _STRING.finditer(data)
    others: list[re.Match[bytes]] = []
    if b"0x" in data or b"0X" in data or b"0000000" in data.translate(_FIGURES):
        others += _NUMBER.finditer(data)
    for colon in _COLON.finditer(data):
        name = _NAME.search(data, max(colon.start() - 50, 0), colon.start())
        if name is not None:
            others.append(name)
    if not others:
        return strings
    found = list(strings)
    starts = [match.start() for match in found]

    def outside(match: re.Match[bytes]) -> bool:
        before = bisect.bisect(starts, match.start())
        return not before or found[before - 1].end() <= match.start()

    return sorted([*found, *filter(outside, others)], key=re.Match.start)


def _opens(data: bytes, place: int) -> bool:
    """Whether nothing stands between an opening bracket and `place`."""
    return data[max(place - 40, 0) : place].rstrip(b" \t\n").endswith((b"(", b"{", b"["))


def _end(match: re.Match[bytes]) -> int:
    """Where a literal ends; blanks between a name and its colon are not the name's."""
    return match.end(1) if match.re is _NAME else match.end()


def _text(match: re.Match[bytes]) -> bytes:
    return match[match.lastindex or 0]


def _is_digest(key: bytes) -> bool:
    if key[:2] == b"0x" or (key.isdigit() and len(key) >= 7):
        return True
    # eight letters of a to f may be a word: a digest has figures and letters
    return _DIGEST.fullmatch(key) is not None and not key.isalpha()


def _plain(value: bytes) -> set[bytes]:
    for escaped, char in _UNESCAPED.items():
        value = value.replace(escaped, char)
    return {line.strip() for line in value.splitlines()} - {b""}
