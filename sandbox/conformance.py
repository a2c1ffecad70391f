"""What every implementation of a sandbox must do, as one suite of checks, and how the suite is run.

Comes in: a `Subject`, which opens fresh sandboxes; `Ours` is the one made of this project's own. Goes out: an `Outcome`
for each check. The checks speak of bytes, files, statuses and time; they know nothing about how a sandbox is made. A
check whose status is not the one named there is a failure, however plausible: a reward depends on the difference.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox import conformance_commands, conformance_files, conformance_limits, conformance_streams
from sandbox.conformance_frame import CHECKS, Check, NotConformant, Subject, ended, same
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox

__all__ = ["CHECKS", "TOPICS", "Check", "NotConformant", "Ours", "Outcome", "Subject", "ended", "layers", "run", "same"]

TOPICS = (conformance_commands, conformance_streams, conformance_files, conformance_limits)


class Outcome(msgspec.Struct, frozen=True):
    """`message` is empty when the sandbox conforms."""

    check: str
    layers: str
    message: str
    seconds: float


class Ours:
    """One container for all checks, with a fresh cell for each."""

    def __init__(self, apptainer: Apptainer, image: Path, isolation: Isolation) -> None:
        self._start = (apptainer, image, isolation)
        self.sandbox: Sandbox

    async def begin(self) -> None:
        self.sandbox = await Sandbox.start(*self._start)

    async def fresh(self) -> None:
        """A fresh cell; in another container where the check before has lost its own."""
        if not self.sandbox.alive:
            await self.begin()
        await self.sandbox.open(CellSpec(), Limits())

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Sandbox]:
        sandbox = await Sandbox.start(*self._start)
        try:
            await sandbox.open(CellSpec(), Limits())
            yield sandbox
        finally:
            await sandbox.kill()


def layers(offered: Isolation) -> dict[str, Isolation]:
    """What sandboxes are to be tried with on a machine that offers these network layers: all, and each alone."""
    alone = {"netns": Isolation(netns=True, seccomp=False), "seccomp": Isolation(netns=False, seccomp=True)}
    if offered == Isolation():
        return {"both": offered, **alone}
    return {name: isolation for name, isolation in alone.items() if isolation == offered}


async def run(
    apptainer: Apptainer,
    image: Path,
    tried: dict[str, Isolation],
    checks: Sequence[Check],
    *,
    done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Every check with every choice of layers; `done` is told each outcome as it comes. A failure stops nothing."""
    outcomes = []
    for name, isolation in tried.items():
        subject = Ours(apptainer, image, isolation)
        await subject.begin()
        try:
            for check in checks:
                started = time.monotonic()
                message = await _failure(subject, check)
                outcomes.append(Outcome(check.name, name, message, round(time.monotonic() - started, 3)))
                done(outcomes[-1])
        finally:
            await subject.sandbox.kill()
    return outcomes


async def _failure(subject: Ours, check: Check) -> str:
    try:
        await subject.fresh()
        await check.run(subject)
    except Exception as error:  # whatever it is, a sandbox that conforms does not raise it
        return f"{type(error).__name__}: {error}"
    return "" if subject.sandbox.alive else "the sandbox was lost"
