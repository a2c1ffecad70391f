"""How much memory of tensors a call needs at its worst."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile


def allocated(call: Callable[[], object]) -> int:
    """Most bytes that torch's CPU allocator held during `call`, beyond what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    now = most = 0
    results: Any = profiled.profiler
    for event in results.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
