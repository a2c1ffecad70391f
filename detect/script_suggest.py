"""What CPython 3.11 asks after a name that is not there: "Did you mean: ...?"

The cost of an edit is 2, of another case of a letter 1; at most a third of the letters may have to change.
"""

from __future__ import annotations

from collections.abc import Iterable

_MOVE, _CASE = 2, 1
_MAX_SIZE, _MAX_NAMES = 40, 750


def hint(name: str, *known: Iterable[str]) -> str:
    """The end of the message, from the first of the lists of names that has one close enough; mostly empty."""
    for names in known:
        if (found := _closest(name, list(names))) is not None:
            return f". Did you mean: '{found}'?"
    return ""


def _closest(name: str, names: list[str]) -> str | None:
    if len(names) >= _MAX_NAMES or len(name) > _MAX_SIZE:
        return None
    best, least = None, 1 << 30
    for item in names:
        if item == name or len(item) > _MAX_SIZE:
            continue
        allowed = min((len(name) + len(item) + 3) * _MOVE // 6, least - 1)
        cost = _distance(name, item)
        if cost <= allowed:
            best, least = item, cost
    return best


def _substituted(a: str, b: str) -> int:
    return 0 if a == b else _CASE if a.lower() == b.lower() else _MOVE


def _distance(a: str, b: str) -> int:
    row = [n * _MOVE for n in range(len(b) + 1)]
    for at, char in enumerate(a, 1):
        above, row[0] = row[0], at * _MOVE
        for to, other in enumerate(b, 1):
            cost = min(above + _substituted(char, other), row[to] + _MOVE, row[to - 1] + _MOVE)
            above, row[to] = row[to], cost
    return row[-1]
