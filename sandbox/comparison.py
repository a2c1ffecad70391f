"""When the output of a submission counts as that of the reference: one declared comparison per case or task.

Comes in: what a case expects and what a program did. Goes out: whether they agree. All comparisons demand the exit
status that the reference had; standard error never matters. Pure functions on bytes: any bytes are compared, nothing is
decoded, and the time is linear in the length of both.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from audit.errors import EctypeError
from queues.messages import Record

Kind = Literal["exact", "sorted_lines", "float", "exit_status"]
MOST_DIGITS = 400
"""A number of more characters is compared as text."""

_NUMBER = re.compile(
    rb"(?<![\w.])[+-]?(?:nan|inf(?:inity)?)(?![\w.])|[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    re.IGNORECASE,
)
_BLANKS = re.compile(rb"[ \t]+")
_WORD = re.compile(rb"[+-]?[ni]", re.IGNORECASE)


class ComparisonError(EctypeError):
    """A comparison that means nothing."""


class Comparison(Record, frozen=True):
    """How standard output is compared.

    `exact`: byte for byte. `sorted_lines`: the same lines, each as often, in any order; whether the last one ends with
    a newline counts. `float`: numbers agree when |a - b| <= max(absolute, relative * |expected|); `nan` agrees with
    `nan`, an infinity with that of its sign, -0 with 0; what is between numbers must be equal, but for the width of
    blanks and for blanks at the start and end of lines. `exit_status`: output does not matter.
    """

    kind: Kind = "exact"
    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        given = (self.absolute, self.relative)
        if self.kind != "float" and any(given):
            raise ComparisonError(
                f"a comparison of kind {self.kind} has no tolerance", remedy='leave it out, or say kind = "float"'
            )
        if self.kind == "float" and not all(math.isfinite(t) and t >= 0 for t in given):
            raise ComparisonError(f"not a tolerance: {given}", remedy="give numbers of 0 or more")
        if self.kind == "float" and not any(given):
            raise ComparisonError(
                "a comparison of kind float without a tolerance", remedy="give `absolute`, `relative`, or both"
            )


EXACT = Comparison()


def agree(how: Comparison, expected: bytes, actual: bytes) -> bool:
    """Whether `actual` is as good as `expected`. What is exactly equal always agrees."""
    if how.kind == "exit_status" or expected == actual:
        return True
    if how.kind == "sorted_lines":
        return _lines(expected) == _lines(actual)
    return how.kind == "float" and _numbers_agree(how, expected, actual)


def _lines(data: bytes) -> tuple[bool, list[bytes]]:
    return data.endswith(b"\n"), sorted(data.removesuffix(b"\n").split(b"\n"))


def _numbers_agree(how: Comparison, expected: bytes, actual: bytes) -> bool:
    expected, actual = _narrow(expected), _narrow(actual)
    if _NUMBER.sub(b"0", expected) != _NUMBER.sub(b"0", actual):
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(actual), strict=True)
    return all(one == other or _close(how, one, other) for one, other in pairs)


def _narrow(data: bytes) -> bytes:
    """Runs of blanks are one blank, and none at the start or the end of a line."""
    return b"\n".join(line.strip(b" ") for line in _BLANKS.sub(b" ", data).split(b"\n"))


def _close(how: Comparison, expected: bytes, actual: bytes) -> bool:
    words = [_WORD.match(text) is not None for text in (expected, actual)]
    if words[0] != words[1] or max(len(expected), len(actual)) > MOST_DIGITS:
        return False
    a, b = float(expected), float(actual)
    if words[0]:
        return (math.isnan(a) and math.isnan(b)) or a == b
    if math.isinf(a) or math.isinf(b):  # digits beyond what a double holds
        return False
    return abs(a - b) <= max(how.absolute, how.relative * abs(a))
