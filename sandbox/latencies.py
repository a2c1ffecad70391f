"""How long real actions took lately on this worker, so that a fake failure is not told by its speed.

What an action has its sandbox do decides how long it takes: whoever can read scripts says how long that would be on an
idle machine. What is remembered is how much longer it took, by kind of action (compiling, starting an interpreter,
plain shell, writing a file). A fake takes a quantile of that, tail included, times what it pretends to do; the action
itself says which quantile, so the same action among the same others takes the same time. Time that a script sleeps is
taken off what is remembered and added to what is drawn.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import deque
from collections.abc import Callable

from queues.messages import Action

FIRST_S = 0.02
"""A write, before anything has been written."""
ENOUGH = 5
"""With fewer times of its own kind, an action is taken for one of any kind."""
MAX_SLEEP_S = 30.0
MAX_READ = 16 * 1024
"""Bytes of a script beyond which it is not read for what it does."""

_COMPILES = re.compile(rb"\b(gcc|cc|g\+\+|c\+\+|clang|make|cmake|cargo|rustc|go (build|run|test)|javac|ld)\b")
_INTERPRETS = re.compile(rb"\b(python3?|pytest|node|java|reference)\b")
_SLEEP = re.compile(rb"(?:^|[;&|\n(]|\bdo|\bthen)[ \t]*sleep[ \t]+(\d{1,4}(?:\.\d{1,3})?|\.\d{1,3})(?=[\s;&|)]|\Z)")
_UNREAD_S = {"compile": 0.045, "interpret": 0.018, "shell": 0.007}
"""What a script is taken to need that is not understood."""


class Latencies:
    """How much longer than on an idle machine actions took, by kind, of which the latest `keep` count."""

    def __init__(
        self, rng: random.Random, *, idle_s: Callable[[str], float | None] = lambda script: None, keep: int = 64
    ) -> None:
        """`idle_s`: how long a script takes on an idle machine, None where it is not understood."""
        self._idle_s = idle_s
        self._seed = rng.randbytes(16)
        self._keep = keep
        self._recent: dict[str, deque[float]] = {}

    def add(self, action: Action, seconds: float) -> None:
        slower = max(seconds - _slept(action), 0.0) / self._expected_s(action)
        for kind in {_kind(action), action.kind}:
            self._recent.setdefault(kind, deque(maxlen=self._keep)).append(slower)

    def draw(self, action: Action, expected_s: float | None = None) -> float:
        """`expected_s`: what a fake pretends to do, idle; what the action's text says where that is not known."""
        recent = self._recent.get(_kind(action), ())
        if len(recent) < ENOUGH:
            recent = self._recent.get(action.kind, ()) or (1.0,)
        digest = hashlib.sha256(self._seed + repr((action.kind, action.path)).encode() + action.body).digest()
        slower = _quantile(sorted(recent), int.from_bytes(digest[:8], "big") / 2**64)
        return slower * (self._expected_s(action) if expected_s is None else expected_s) + _slept(action)

    def _expected_s(self, action: Action) -> float:
        if action.kind == "write":
            return FIRST_S
        known = self._idle_s(action.body.decode("latin-1")) if len(action.body) <= MAX_READ else None
        return _UNREAD_S[_kind(action)] if known is None else known


def _quantile(ordered: list[float], u: float) -> float:
    """The `u`-quantile of sorted times, between neighbours by linear interpolation."""
    place = u * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _kind(action: Action) -> str:
    if action.kind == "write":
        return "write"
    if _COMPILES.search(action.body):
        return "compile"
    return "interpret" if _INTERPRETS.search(action.body) else "shell"


def _slept(action: Action) -> float:
    if action.kind != "run":
        return 0.0
    return min(sum(float(match) for match in _SLEEP.findall(action.body)), MAX_SLEEP_S)
