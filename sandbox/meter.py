"""What a worker and its sandboxes use of their node, written to the audit log and the metrics file at regular times.

Comes in: the worker's pools. Goes out: an event `sandbox_ended` for every container that has ended, with what its
commands have used in its life, an event `resources` per sample, and the same numbers as a line of metrics. What one
command has used is in its own `action` event. It only looks, and holds nothing up.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from typing import Any

from audit.events import AuditLog
from audit.metrics import MetricsLog, read_metrics
from containers.processes import used_by
from sandbox.pool import Pool

EVERY_S = 30.0


class Meter:
    """`pools` by name. Samples are numbered on from those that `metrics` has already."""

    def __init__(
        self,
        pools: dict[str, Pool],
        audit: AuditLog,
        metrics: MetricsLog | None = None,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pools = pools
        self._audit = audit
        self._metrics = metrics
        self._every_s = every_s
        self._clock = clock
        self._started = clock()
        self._samples = 0 if metrics is None else len(read_metrics(metrics.path))
        self._peak_bytes = 0

    async def run(self) -> None:
        """Take a sample every `every_s` seconds, until cancelled. Raises AuditError and MetricsError."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.sample()

    async def sample(self) -> None:
        for name, pool in self._pools.items():
            for ended in pool.take_ended():
                self._audit.write(
                    "sandbox_ended",
                    pool=name,
                    why=ended.why,
                    cells=ended.cells,
                    age_s=round(ended.age_s, 3),
                    **_rounded(ended.usage.numbers()),
                )
        numbers = await asyncio.to_thread(self._look)
        self._audit.write("resources", **numbers)
        if self._metrics is not None:
            self._metrics.write(self._samples, **numbers)
        self._samples += 1

    def _look(self) -> dict[str, Any]:
        """The worker as a whole: itself, its live containers, and those that have ended."""
        own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        live = [used_by(pid) for pool in self._pools.values() for pid in pool.pids()]
        memory = _resident() + sum(used.memory_bytes for used in live)
        self._peak_bytes = max(self._peak_bytes, memory)
        numbers: dict[str, float] = {
            "up_s": self._clock() - self._started,
            "cpu_s": sum(u.ru_utime + u.ru_stime for u in (own, ended)) + sum(used.cpu_s for used in live),
            "memory_bytes": memory,
            "memory_peak_bytes": self._peak_bytes,
            "processes": 1 + sum(used.processes for used in live),
        }
        for name, pool in self._pools.items():
            numbers |= {f"{name}_{key}": value for key, value in pool.usage().numbers().items()}
            numbers |= {f"{name}_{key}": getattr(pool, key) for key in ("idle", "leased", "started", "failed")}
            numbers |= {f"{name}_ended_{why}": count for why, count in pool.ended.items()}
        return _rounded(numbers)


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _rounded(numbers: dict[str, float]) -> dict[str, Any]:
    return {key: round(value, 6) for key, value in numbers.items()}
