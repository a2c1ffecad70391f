"""The hidden cases of one grading, run one by one, or in several sandboxes at once where that is worth it.

Comes in: a sandbox in which a submission is built and sealed. Goes out: what the submission did in each case, in their
order. A case runs in a folder, scratch and IPC namespace of its own while nothing else of the submission is alive in
that sandbox; cases that run at the same time are in different containers. How many sandboxes there were changes no
outcome: which cases are not tried any more is decided by the order of the cases.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from sandbox.hidden import WORKSPACE, HiddenTask
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost, WorkspaceError

log = logging.getLogger(__name__)

MAX_TIMEOUTS = 3
"""After so many cases that ran into the time limit the others are not tried: they count as failed."""
MAX_LONGEST_CASES = 10
"""So many times one case's time limit is what all cases together may take: a submission that is slow on every case,
and late for none, must not keep a grader from everybody else."""
HELP_PAYS_S = 0.5
"""Other sandboxes are asked for when the cases that are left promise to take longer than this."""
REPLICA_BYTES = 32 << 20
REPLICA_FILES = 4096


class _Queue:
    """Which case is next, and what came of those before."""

    def __init__(self, hidden: HiddenTask) -> None:
        self.outcomes: list[CommandResult | None] = [None] * len(hidden.cases)
        self._hidden = hidden
        self._next = 0
        self._returned: list[int] = []

    async def run_next(self, sandbox: Sandbox) -> bool:
        """Run one case in `sandbox`; False when none is left. The case of a lost sandbox goes back."""
        number = self._take()
        if number is None:
            return False
        case, hidden = self._hidden.cases[number], self._hidden
        try:
            self.outcomes[number] = await sandbox.run_case(
                (*hidden.run, *case.argv),
                stdin=case.stdin,
                files=case.files,
                limits=hidden.case_limits,
                patience_s=PATIENCE * hidden.case_limits.wall_s,
            )
        except BaseException:
            self._returned.append(number)
            raise
        return True

    def _take(self) -> int | None:
        if self._returned:
            return self._returned.pop()
        known = [outcome for outcome in self.outcomes[: self._next] if outcome is not None]
        if self._next == len(self.outcomes) or _enough(self._hidden, known):
            return None
        self._next += 1
        return self._next - 1

    def left_s(self) -> float:
        """About how long the cases that were not begun will take."""
        took = [outcome.wall_s for outcome in self.outcomes if outcome is not None]
        return (len(self.outcomes) - self._next) * sum(took) / max(len(took), 1)

    def in_order(self) -> list[CommandResult | None]:
        """The outcomes; None for a case that would not have been tried in a single sandbox either."""
        tried: list[CommandResult] = []
        for outcome in self.outcomes:
            if outcome is None or _enough(self._hidden, tried):
                break
            tried.append(outcome)
        return [*tried, *[None] * (len(self.outcomes) - len(tried))]


PATIENCE = 2.0
"""A case may wait so many times its `wall_s` for a core, on top of `wall_s`: a busy machine must not fail it."""


def _enough(hidden: HiddenTask, outcomes: list[CommandResult]) -> bool:
    timeouts = sum(outcome.status == "timeout" for outcome in outcomes)
    longest = MAX_LONGEST_CASES * hidden.case_limits.wall_s
    return timeouts >= MAX_TIMEOUTS or sum(map(held_s, outcomes)) > longest


def held_s(outcome: CommandResult) -> float:
    """How long a case kept a core from others. Threads that wait for each other have it while they are starved."""
    return max(outcome.wall_s - outcome.starved_s, outcome.cpu_s)


async def run_cases(pool: Pool, sandbox: Sandbox, hidden: HiddenTask, *, lanes: int) -> list[CommandResult | None]:
    """Every case, in at most `lanes` sandboxes of `pool` of which `sandbox` is one. Raises `SandboxLost` when that one
    is lost; another one that is lost, or does not come, is done without."""
    queue = _Queue(hidden)
    helpers: list[_Helper] = []
    try:
        while await queue.run_next(sandbox):
            if lanes > 1 and not helpers and queue.left_s() > HELP_PAYS_S:
                helpers = await _helpers(pool, sandbox, hidden, queue, min(lanes, pool.size) - 1)
                lanes = 1  # asked for once
        for helper in helpers:
            await helper.finish()
        while await queue.run_next(sandbox):  # what a helper has lost
            pass
    finally:
        for helper in helpers:
            helper.task.cancel()
        await asyncio.gather(*(helper.task for helper in helpers), return_exceptions=True)
    return queue.in_order()


async def _helpers(pool: Pool, sandbox: Sandbox, hidden: HiddenTask, queue: _Queue, count: int) -> list[_Helper]:
    """None when the built workspace cannot be copied as it is: too large, or links and empty folders in it."""
    try:
        files = await sandbox.pack(max_bytes=REPLICA_BYTES, max_files=REPLICA_FILES, whole=True)
    except WorkspaceError:
        return []
    files = tuple(msgspec.structs.replace(file, path=f"{WORKSPACE}/{file.path}") for file in files)
    return [_Helper(pool, hidden, files, queue) for _ in range(count)]


class _Helper:
    """Another sandbox that takes cases from the queue, once the pool has one to spare."""

    def __init__(self, pool: Pool, hidden: HiddenTask, files: tuple[File, ...], queue: _Queue) -> None:
        self._working = False
        self.task = asyncio.create_task(self._work(pool, hidden, files, queue))

    async def _work(self, pool: Pool, hidden: HiddenTask, files: tuple[File, ...], queue: _Queue) -> None:
        try:
            async with pool.lease() as sandbox:
                self._working = True
                await sandbox.open(CellSpec(files=files, masked=hidden.masked), hidden.limits)
                await sandbox.seal()
                while await queue.run_next(sandbox):
                    pass
        except (SandboxLost, WorkspaceError) as error:
            log.warning("a case goes on in another sandbox: %s", error.what)

    async def finish(self) -> None:
        """Wait for what it is doing; one that has no sandbox yet is not needed any more."""
        if not self._working:
            self.task.cancel()
        await asyncio.wait([self.task])
