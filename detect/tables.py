"""Programs that are tables: how much of a file is pairs of literals, a key and what is answered to it.

`"a b": "b a",`, `if x == "a b": print("b a")`, `{"a b", "b a"},`, `"a b" => "b a"`, `case "a b": return "b a"` and
`"a b") echo "b a" ;;` all come out as the pair `a b`, `b a`, whatever the language. An honest program has tables too
(options, escapes, names of months), so what counts is their number, their share, keys that are digests, and values that
are known answers of the reference. Text in, numbers out; time grows with the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

MAX_BYTES = 256 * 1024
_LITERAL = re.compile(
    rb"\"((?:[^\"\\\n]|\\.)*+)(?:\"|\Z|(?=\n)|\\)|'((?:[^'\\\n]|\\.)*+)(?:'|\Z|(?=\n)|\\)"
    rb"|(?<![\w.])(?:(0x[0-9a-f]{6,16}|[0-9]{7,20})u?l{0,2}(?![\w.])|([a-z_]\w{0,40}+)(?=[ \t]{0,8}:[ \t]{0,8}[\"']))",
    re.S | re.I,
)
"""A string (one that never ends takes the rest of its line), a large number, or a name that is a key."""
_QUOTED = re.compile(rb"\"((?:[^\"\\\n]|\\.)*+)(?:\"|\Z|(?=\n)|\\)|'((?:[^'\\\n]|\\.)*+)(?:'|\Z|(?=\n)|\\)", re.S)
"""The strings alone, which are found faster."""
_UNQUOTED = re.compile(rb":[ \t]{0,8}[\"']|[0-9](?:[0-9]{6}|[xX][0-9a-fA-F])")
"""What stands in or behind every literal that is no string."""
_OPENS = re.compile(rb"[({\[][ \t\n]*$")
_BETWEEN = re.compile(
    rb"[lu]{0,3}\s*(?:[:,]|=>?|->|\)\s*[:{]?|\]\s*=)?"
    rb"(?:return|echo|printf|print|println|puts|fputs|write|emit|then|Some|Ok|String|fmt|System|out|console|log|process"
    rb"|stdout|sys|std|cout|format|say|to_string|from|==|[({\[<:;.!\s&0?)])*b?",
    re.I,
)
"""What may stand between a key and its value."""
_DIGEST = re.compile(
    rb"[0-9a-f]{8}|[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96,128}", re.I
)
_COMMENT = re.compile(rb"(?m)^[ \t]*(?:#|//).*$|/\*.*?\*/", re.S)
_UNESCAPED = {b"\\n": b"\n", b"\\t": b"\t", b'\\"': b'"', b"\\'": b"'", b"\\\\": b"\\"}


class Table:
    def __init__(self, pairs: Sequence[tuple[bytes, bytes]], size: int) -> None:
        self.pairs = pairs
        self.size = size

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
        return Table(pairs, len(data))
    previous: re.Match[bytes] | None = None
    literal = _QUOTED if _UNQUOTED.search(data) is None else _LITERAL
    for match in literal.finditer(data):
        if previous is not None and match.start() - previous.end() <= 60:
            between = data[previous.end() : match.start()]
            stripped = between.strip()
            # neighbours in a list are no pair: a comma counts behind a key that opens a bracket
            opened = stripped != b"," or _OPENS.search(data, max(previous.start() - 40, 0), previous.start())
            value = match.lastindex in (1, 2)
            if value and stripped and opened and _BETWEEN.fullmatch(between):
                pairs.append((_text(previous), _text(match)))
                previous = None
                continue
        previous = match
    if not pairs:
        return Table(pairs, len(data))
    return Table(pairs, len(b"".join(_COMMENT.sub(b"", data).split())))


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
