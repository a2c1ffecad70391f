"""Started sandboxes, ready to be leased: an image in, one sandbox per lease out, as many as the load asks for.

A lease gives a sandbox to one episode, grading or oracle call at a time. Afterwards its cell is closed; a sandbox that
died, does not answer, has served `max_cells` cells or is `max_age_s` old is ended, and another one is started where it
is wanted. A sandbox is never handed out unless it answers. The pool grows with its users, up to `size`, and shrinks to
`least` when nobody has needed a sandbox for `idle_s`. When all are leased, a lease waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.errors import EctypeError
from containers.apptainer import Apptainer, ImageBroken
from containers.isolation import Isolation
from sandbox.packages import Packages
from sandbox.pool_size import Backoff, Bounds
from sandbox.sandbox import Sandbox, SandboxLost, Usage

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_GIVE_UP_AFTER = 5
"""After so many failed starts in a row, whoever waits for a sandbox is told why there is none."""

_ENDED_KEPT = 4096

Why = Literal["worn", "old", "idle", "lost", "closed"]


class PoolClosed(EctypeError):
    """The pool is closed; nothing can be leased any more."""


@dataclass(frozen=True)
class Ended:
    """A sandbox that was ended, and what its commands have used in its life."""

    why: Why
    cells: int
    age_s: float
    usage: Usage


@dataclass(eq=False)
class _Member:
    sandbox: Sandbox
    born: float
    idle_since: float
    ended: bool = False


class Pool:
    """`least` to `size` sandboxes of one image, started in the background once the pool is first used.

    `spare` of them are kept beside those in use. `starts` bounds how many are started at once; several pools of one
    worker may share it. `clock` is monotonic, in seconds.
    """

    def __init__(
        self,
        apptainer: Apptainer,
        image: Path,
        isolation: Isolation,
        size: int,
        *,
        least: int = 0,
        spare: int = 1,
        max_cells: int = 200,
        max_age_s: float = 3600.0,
        idle_s: float = 300.0,
        starts: asyncio.Semaphore | None = None,
        packages: Packages | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.image = image
        self.size = size
        self.started = 0
        self.failed = 0
        self.ended: dict[Why, int] = {"worn": 0, "old": 0, "idle": 0, "lost": 0, "closed": 0}
        """Why sandboxes were ended, counted."""
        self._ended: deque[Ended] = deque(maxlen=_ENDED_KEPT)
        self._ended_usage = Usage()
        self._apptainer = apptainer
        self._isolation = isolation
        self._packages = packages
        self._bounds = Bounds(most=size, least=min(least, size), spare=spare)
        self._max_cells = max_cells
        self._max_age_s = max_age_s
        self._idle_s = idle_s
        self._starts = starts or asyncio.Semaphore(2)
        self._clock = clock
        self._idle: deque[_Member] = deque()
        """The one that was used last is at the end, and is used next: those at the front can go."""
        self._leased: set[_Member] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._backoff = Backoff(first_s=_FIRST_PAUSE_S, longest_s=_LONGEST_PAUSE_S)
        self._failure: EctypeError | None = None
        self._waiting = 0
        self._warming: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Condition()
        self._closed = False

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def leased(self) -> int:
        return len(self._leased)

    def usage(self) -> Usage:
        """What the commands of all sandboxes have used, also of those that have ended."""
        total = self._ended_usage
        for member in (*self._idle, *self._leased):
            if not member.ended:
                total = total.plus(member.sandbox.usage)
        return total

    def pids(self) -> list[int]:
        """Processes of the containers that are up."""
        return [member.sandbox.pid for member in (*self._idle, *self._leased)]

    def take_ended(self) -> list[Ended]:
        """The sandboxes that were ended since the last call, at most the last 4096."""
        ended = list(self._ended)
        self._ended.clear()
        return ended

    async def warm(self, count: int | None = None) -> None:
        """Wait until `count` sandboxes (default: all) are there. Raises what keeps them from starting."""
        wanted = self.size if count is None else min(count, self.size)
        failed = self.failed
        async with self._changed:
            self._warming.append(wanted)
            try:
                self._settle()
                await self._changed.wait_for(
                    lambda: self._closed or self.idle + self.leased >= wanted or self._given_up(failed)
                )
                if self.idle + self.leased < wanted:
                    self._raise_why()
            finally:
                self._warming.remove(wanted)
                self._settle()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Sandbox]:
        """A sandbox for the caller alone, without a cell. Waits while all are leased; raises ImageBroken when none can
        be started."""
        member = await self._take()
        try:
            yield member.sandbox
        finally:
            await asyncio.shield(self._give_back(member))

    async def _take(self) -> _Member:
        while True:
            member = await self._next()
            try:
                await member.sandbox.ping()
                return member
            except SandboxLost as error:
                log.warning("an idle sandbox was lost: %s", error.what)
                await self._give_back(member)
            except BaseException:
                await asyncio.shield(self._give_back(member))
                raise

    async def _next(self) -> _Member:
        failed = self.failed
        async with self._changed:
            self._waiting += 1
            try:
                self._settle()
                await self._changed.wait_for(
                    lambda: self._idle or self._closed or (not self._leased and self._given_up(failed))
                )
                if self._closed or not self._idle:
                    self._raise_why()
                member = self._idle.pop()
                self._leased.add(member)
                return member
            finally:
                self._waiting -= 1
                self._settle()

    def _given_up(self, failed: int) -> bool:
        """Starts fail one after the other, and one has failed since there were `failed` of them."""
        return self._backoff.failures >= _GIVE_UP_AFTER and self.failed > failed

    def _raise_why(self) -> None:
        if self._closed:
            raise PoolClosed("the pool of sandboxes is closed")
        assert self._failure is not None
        raise self._failure

    async def _give_back(self, member: _Member) -> None:
        sandbox = member.sandbox
        if sandbox.alive and not self._worn(member):
            try:
                await sandbox.close_cell()
            except SandboxLost as error:
                log.warning("a sandbox was lost when it was given back: %s", error.what)
        why = self._worn(member)
        if why:
            await self._end(member, why)
        async with self._changed:
            self._leased.discard(member)
            if not why:
                member.idle_since = self._clock()
                self._idle.append(member)
            self._settle()
            self._changed.notify_all()

    def _worn(self, member: _Member) -> Why | None:
        """Why this sandbox should not serve another lease."""
        if self._closed:
            return "closed"
        if not member.sandbox.alive:
            return "lost"
        if member.sandbox.cells >= self._max_cells:
            return "worn"
        return "old" if self._clock() - member.born >= self._max_age_s else None

    async def _end(self, member: _Member, why: Why) -> None:
        usage = member.sandbox.usage
        member.ended = True
        self.ended[why] += 1
        self._ended.append(Ended(why, member.sandbox.cells, self._clock() - member.born, usage))
        self._ended_usage = self._ended_usage.plus(usage)
        await member.sandbox.kill()

    def _settle(self) -> None:
        """End what is worn or not needed, start what is missing, and come back when more of it is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed:
            return
        now = self._clock()
        wanted = max(self._bounds.wanted(self.leased + self._waiting), *self._warming, 0)
        due: list[float] = []
        for member in list(self._idle):
            surplus = self._count() - len(self._ending) - wanted
            why = self._worn(member)
            if why is None and surplus > 0 and now - member.idle_since >= self._idle_s:
                why = "idle"
            if why is not None:
                self._idle.remove(member)
                self._in_background(self._ending, self._end_and_tell(member, why))
                continue
            due.append(member.born + self._max_age_s)
            if surplus > 0:
                due.append(member.idle_since + self._idle_s)
        missing = wanted - self._count()
        if missing > 0 and now < self._backoff.retry_at:
            due.append(self._backoff.retry_at)
        elif missing > 0:
            # after a failure one attempt tells as much as many
            for _ in range(min(missing, 1 - len(self._starting)) if self._backoff.failures else missing):
                self._in_background(self._starting, self._start())
        if due:
            self._timer = asyncio.get_running_loop().call_later(max(min(due) - now, 0.001), self._settle)

    def _count(self) -> int:
        return self.idle + self.leased + len(self._starting) + len(self._ending)

    def _in_background(self, kind: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        kind.add(task)
        task.add_done_callback(kind.discard)

    async def _start(self) -> None:
        """One attempt to start one sandbox. Its place in the pool is this task until it is up."""
        member = None
        try:
            async with self._starts:
                if self._clock() >= self._backoff.retry_at:
                    sandbox = await Sandbox.start(self._apptainer, self.image, self._isolation, packages=self._packages)
                    member = _Member(sandbox, born=self._clock(), idle_since=self._clock())
                    self._idle.append(member)  # at once: should this task be cancelled now, `close` finds it there
                    self.started += 1
                    self._backoff.succeeded()
        except Exception as error:  # whatever it is, those who wait must hear of it
            self._failure = (
                error if isinstance(error, EctypeError) else ImageBroken(f"a container does not start: {error}")
            )
            log.warning("a sandbox did not start: %s", self._failure.what)
            self.failed += 1
            self._backoff.failed(self._clock())
        await self._tell(self._starting)

    async def _end_and_tell(self, member: _Member, why: Why) -> None:
        await self._end(member, why)
        await self._tell(self._ending)

    async def _tell(self, kind: set[asyncio.Task[None]]) -> None:
        """The current task no longer counts; see what that changes, and wake those who wait."""
        task = asyncio.current_task()
        assert task is not None
        kind.discard(task)
        async with self._changed:
            self._settle()
            self._changed.notify_all()

    async def close(self) -> None:
        """End every sandbox, also the leased ones (their users get SandboxLost)."""
        async with self._changed:
            self._closed = True
            self._settle()
            self._changed.notify_all()
        starting = list(self._starting)
        for task in starting:
            task.cancel()
        # starts end what they were starting; ends are waited for
        await asyncio.gather(*starting, *self._ending, return_exceptions=True)
        idle = list(self._idle)
        self._idle.clear()
        await asyncio.gather(
            *(self._end(member, "closed") for member in idle), *(m.sandbox.kill() for m in self._leased)
        )
