"""Which labelled samples a judge learns from, and which it is measured on.

The side of a sample follows from its pattern alone: its text without names, numbers, strings and encoded data. So
samples that differ in nothing else are on one side, the same files give the same split, and a sample stays on its side
while the store of samples grows: a judge that was tuned earlier was never shown what a later one is measured on. What
is nearly the same as a held-out pattern is not learnt from either.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

Side = Literal["train", "validation", "held_out"]
SHINGLE = 5
ALIKE = 0.7
"""Share of common runs of five characters (Jaccard) from which two patterns are nearly the same."""

_STRING = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_ENCODED = re.compile(r"(?=[a-z+/=]*[0-9])[a-z0-9+/=]{16,}")
_PATH = re.compile(r"[\w.~*?$-]*/[\w./*?~$-]*|\b[\w-]+\.[a-z]\w{0,5}\b")
_OPTION = re.compile(r"(?<!\S)--?[\w-]+")
_NUMBER = re.compile(r"\d+")

T = TypeVar("T")


def pattern(text: str) -> str:
    """What is left of an action when everything is taken out that two of a kind would differ in."""
    text = text.lower()
    for expression, placeholder in (
        (_STRING, "S"), (_ENCODED, "B"), (_PATH, "P"), (_OPTION, ""), (_NUMBER, "")
    ):  # fmt: skip
        text = expression.sub(placeholder, text)
    return " ".join(text.split())


def side(of_pattern: str, *, held_out: float, validation: float) -> Side:
    """`held_out` and `validation` are shares of all patterns; the second may change without moving a held-out one."""
    digest = hashlib.sha256(of_pattern.encode("utf-8", "surrogatepass")).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < held_out:
        return "held_out"
    return "validation" if place < held_out + validation else "train"


def nearly_among(patterns: Sequence[str], others: Iterable[str]) -> list[bool]:
    """For each pattern whether it is nearly the same as one of the others."""
    known = [shingles(other) for other in sorted(set(others))]
    holders: dict[str, list[int]] = defaultdict(list)
    for number, parts in enumerate(known):
        for part in parts:
            holders[part].append(number)
    found = []
    for one in patterns:
        parts = shingles(one)
        common = Counter(number for part in parts for number in holders.get(part, ()))
        found.append(any(n / (len(parts) + len(known[i]) - n) >= ALIKE for i, n in common.items()))
    return found


def shingles(text: str) -> frozenset[str]:
    padded = f" {text} ".ljust(SHINGLE)
    return frozenset(padded[i : i + SHINGLE] for i in range(len(padded) - SHINGLE + 1))


def matched(samples: Sequence[T], limit: int, *, cheat: Callable[[T], bool], kind: Callable[[T], str]) -> list[T]:
    """At most `limit` samples in which every kind (language) has as many cheats as honest samples: else a judge that
    knows which language cheats are written in would look good. Which ones follows from `samples`' order."""
    kinds: dict[str, tuple[list[T], list[T]]] = defaultdict(lambda: ([], []))
    for one in samples:
        kinds[kind(one)][cheat(one)].append(one)
    pairs = [
        (number / min(len(a), len(b)), name, number)
        for name, (a, b) in kinds.items()
        for number in range(min(len(a), len(b)))
    ]
    chosen = sorted(pairs)[: limit // 2]
    return [one for _, name, number in chosen for one in (kinds[name][0][number], kinds[name][1][number])]
