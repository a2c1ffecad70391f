"""Started sandboxes, ready to be leased: an image in, one sandbox per lease out, worn and dead ones replaced.

A lease gives a sandbox to one episode, grading or oracle call at a time. Afterwards its cell is closed; a sandbox that
died, does not answer, or has served `max_cells` cells is ended, and another one is started in the background. A sandbox
is never handed out unless it answers. When all are leased, a lease waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from audit.errors import EctypeError
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.sandbox import Sandbox, SandboxLost

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_GIVE_UP_AFTER = 5


class PoolClosed(EctypeError):
    """The pool is closed; nothing can be leased any more."""


class Pool:
    """At most `size` sandboxes of one image. Starts them in the background once it is first used."""

    def __init__(
        self,
        apptainer: Apptainer,
        image: Path,
        isolation: Isolation,
        size: int,
        *,
        max_cells: int = 200,
        start_concurrency: int = 2,
    ) -> None:
        self.image = image
        self.size = size
        self._apptainer = apptainer
        self._isolation = isolation
        self._max_cells = max_cells
        self._starting = asyncio.Semaphore(start_concurrency)
        self._idle: list[Sandbox] = []
        self._leased: set[Sandbox] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: EctypeError | None = None
        self._changed = asyncio.Condition()
        self._closed = False

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def leased(self) -> int:
        return len(self._leased)

    async def warm(self, count: int | None = None) -> None:
        """Wait until `count` sandboxes (default: all) are there. Raises what keeps them from starting."""
        wanted = self.size if count is None else count
        async with self._changed:
            self._fill()
            await self._changed.wait_for(lambda: self._failure or self._closed or self.idle + self.leased >= wanted)
            self._raise_if_unusable()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Sandbox]:
        """A sandbox for the caller alone. Waits while all are leased; raises ImageBroken when none can be started."""
        sandbox = await self._take()
        try:
            yield sandbox
        finally:
            await asyncio.shield(self._give_back(sandbox))

    async def _take(self) -> Sandbox:
        while True:
            async with self._changed:
                self._fill()
                await self._changed.wait_for(lambda: self._idle or self._hopeless or self._closed)
                if self._closed or not self._idle:
                    self._raise_if_unusable()
                sandbox = self._idle.pop()
                self._leased.add(sandbox)
            try:
                await sandbox.ping()
                return sandbox
            except SandboxLost as error:
                log.warning("an idle sandbox was lost: %s", error.what)
                await self._give_back(sandbox)
            except BaseException:
                await asyncio.shield(self._give_back(sandbox))
                raise

    @property
    def _hopeless(self) -> bool:
        """Nothing can be started, and nothing that is leased will come back."""
        return self._failure is not None and not self._leased

    def _raise_if_unusable(self) -> None:
        if self._closed:
            raise PoolClosed("the pool of sandboxes is closed")
        if self._failure is not None:
            failure, self._failure = self._failure, None  # the next lease tries again
            raise failure

    async def _give_back(self, sandbox: Sandbox) -> None:
        if sandbox.alive and sandbox.cells < self._max_cells and not self._closed:
            try:
                await sandbox.close_cell()
            except SandboxLost as error:
                log.warning("a sandbox was lost when it was given back: %s", error.what)
        reusable = sandbox.alive and sandbox.cells < self._max_cells and not self._closed
        if not reusable:
            await sandbox.kill()
        async with self._changed:
            self._leased.discard(sandbox)
            if reusable:
                self._idle.append(sandbox)
            self._failure = None
            self._fill()
            self._changed.notify_all()

    def _fill(self) -> None:
        while not self._closed and self._failure is None and self._count() < self.size:
            task = asyncio.create_task(self._start())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _count(self) -> int:
        return len(self._tasks) + self.idle + self.leased

    async def _start(self) -> None:
        """Start one sandbox, with growing pauses after failures. Its place in the pool is this task until it is up."""
        pause = _FIRST_PAUSE_S
        for attempt in range(_GIVE_UP_AFTER):
            try:
                async with self._starting:
                    sandbox = await Sandbox.start(self._apptainer, self.image, self._isolation)
                break
            except EctypeError as error:
                log.warning("a sandbox did not start: %s", error.what)
                if attempt == _GIVE_UP_AFTER - 1:
                    self._failure = error
                    await self._leave_starting()
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        self._idle.append(sandbox)  # at once: should this task be cancelled now, `close` finds it there
        await self._leave_starting()

    async def _leave_starting(self) -> None:
        """The current task no longer counts as a sandbox that is being started."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """End every sandbox, also the leased ones (their users get SandboxLost)."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # they end what they were starting
        sandboxes = [*self._idle, *self._leased]
        self._idle.clear()
        await asyncio.gather(*(sandbox.kill() for sandbox in sandboxes))
