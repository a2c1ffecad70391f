"""The sandbox worker: serves many sessions at once in one event loop, each of them strictly in order.

Goes in: the requests of the drivers, forwarded by the controller. Comes out: exactly one reply to every request; a
repeated request (same id, or a step that was answered already) gets the same reply and runs nothing twice. Whatever is
our failure becomes `SessionLost`, never an observation or a grade. A reply never carries a path or a traceback.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from audit.events import AuditError
from queues.messages import (
    Busy,
    Closed,
    CloseSession,
    Heartbeat,
    OpenSession,
    Refused,
    Reply,
    Result,
    SessionLost,
    SessionOpened,
    Submit,
    Test,
    WorkerHello,
)
from sandbox.hidden import HiddenTask, TaskError, check_name, list_hidden, load_hidden
from sandbox.sandbox import SandboxLost
from sandbox.session import Services, Session, SessionRefusal

log = logging.getLogger(__name__)

SessionRequest = OpenSession | Submit | Test | Result | CloseSession

REPLIES_KEPT = 512
REPLIES_KEPT_BYTES = 32 << 20
ENDED_KEPT = 4096
TASKS_KEPT = 64
RETRY_AFTER_S = 0.5


class Link(Protocol):
    """The connection to the controller: requests come in as an iteration, replies go out."""

    def __aiter__(self) -> AsyncIterator[SessionRequest]: ...

    async def send(self, reply: Reply) -> None: ...


@dataclass
class _Slot:
    """One episode on this worker: its lock keeps its requests in order, `used` is when the last one was served."""

    used: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    session: Session | None = None
    waiting: int = 0


class Worker:
    """`slots` sessions at most; a session without a request for `idle_timeout_s` is given up.

    The caller owns the pools, the audit log and the link: it closes them after `serve` has returned.
    """

    def __init__(
        self,
        worker_id: str,
        services: Services,
        tasks_root: Path,
        *,
        slots: int,
        idle_timeout_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker_id = worker_id
        self._services = services
        self._tasks_root = tasks_root
        self._slots = slots
        self._idle_timeout_s = idle_timeout_s
        self._clock = clock
        self._suites = list_hidden(tasks_root)
        self._tasks: OrderedDict[tuple[str, str], HiddenTask] = OrderedDict()
        self._episodes: dict[str, _Slot] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        self._replies = _Replies()
        self._running: set[asyncio.Task[None]] = set()
        self._commands = 0
        self._failed: asyncio.Future[None] | None = None

    def hello(self) -> WorkerHello:
        return WorkerHello(
            worker=self.worker_id,
            slots=self._slots,
            suites=tuple(sorted(self._suites)),
            sessions=tuple(episode for episode, slot in self._episodes.items() if slot.session is not None),
        )

    def heartbeat(self) -> Heartbeat:
        busy = sum(slot.session is not None for slot in self._episodes.values())
        return Heartbeat(worker=self.worker_id, busy=busy, idle=self._slots - busy, commands=self._commands)

    async def serve(self, link: Link) -> None:
        """Serve a connected link until it ends or this task is cancelled; then close every session.

        Raises `AuditError` when events can no longer be recorded: nothing may run off the record.
        """
        self._failed = asyncio.get_running_loop().create_future()
        background = [asyncio.create_task(self._receive(link)), asyncio.create_task(self._expire())]
        try:
            await asyncio.wait([*background, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for finished in (self._failed, *background):
                if finished.done():
                    await finished
        finally:
            for task in (*background, *self._running):
                task.cancel()
            await asyncio.gather(*background, *self._running, return_exceptions=True)
            self._failed.cancel()
            for episode in list(self._episodes):
                try:
                    await self._drop(episode, "worker stopped")
                except AuditError as error:
                    log.error("episode %s was closed off the record: %s", episode, error)

    async def handle(self, request: SessionRequest) -> Reply:
        """Answer one request. Requests of one episode are served one after the other, in the order of their calls."""
        slot = self._episodes.get(request.episode)
        if slot is None:
            slot = self._episodes[request.episode] = _Slot(used=self._clock())
        slot.waiting += 1
        try:
            async with slot.lock:
                reply = self._replies.get(request.request_id)
                if reply is None:
                    reply = await self._answer(request, slot)
                    self._replies.add(reply)
                return reply
        finally:
            slot.waiting -= 1
            slot.used = self._clock()
            if slot.session is None and not slot.waiting and self._episodes.get(request.episode) is slot:
                del self._episodes[request.episode]

    async def _receive(self, link: Link) -> None:
        async for request in link:
            task = asyncio.create_task(self._reply_to(request, link))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _reply_to(self, request: SessionRequest, link: Link) -> None:
        try:
            await link.send(await self.handle(request))
        except Exception as error:
            log.exception("request %s of episode %s", request.request_id, request.episode)
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)

    async def _answer(self, request: SessionRequest, slot: _Slot) -> Reply:
        ids = {"request_id": request.request_id, "episode": request.episode}
        try:
            if isinstance(request, OpenSession):
                return await self._open(request, slot)
            if isinstance(request, CloseSession):
                await self._end(slot, request.episode, "closed by the driver")
                return Closed(**ids)
            session = slot.session
            if session is None:
                why = self._ended.get(request.episode)
                if why == "graded":
                    return Refused(**ids, reason=f"episode {request.episode} was graded already")
                return SessionLost(**ids, reason=why or "this worker has no such session")
            if isinstance(request, Submit):
                commands = session.commands
                reply = await session.submit(request)
                self._commands += session.commands - commands
                return reply
            if isinstance(request, Test):
                return await session.test(request)
            graded = await session.result(request)
            await self._end(slot, request.episode, "graded")
            return graded
        except SessionRefusal as refusal:
            return Refused(**ids, reason=str(refusal))
        except SandboxLost as lost:
            return await self._lost(slot, request, "the sandbox was lost", detail=str(lost))
        except AuditError:
            raise
        except Exception as error:
            log.exception("episode %s", request.episode)
            reason = f"internal error: {type(error).__name__}"
            return await self._lost(slot, request, reason, detail=f"{type(error).__name__}: {error}")

    async def _open(self, request: OpenSession, slot: _Slot) -> Reply:
        ids = {"request_id": request.request_id, "episode": request.episode}
        hidden = self._load(request)
        # A new request to open the same episode is a driver that starts it over: it must not meet its old workspace.
        await self._end(slot, request.episode, "opened again")
        if sum(other.session is not None for other in self._episodes.values()) >= self._slots:
            return Busy(**ids, reason="every sandbox of this worker is in use", retry_after_s=RETRY_AFTER_S)
        slot.session = Session(request, hidden, self._services)
        await slot.session.open()
        self._ended.pop(request.episode, None)
        return SessionOpened(**ids, worker=self.worker_id)

    def _load(self, request: OpenSession) -> HiddenTask:
        key = (request.suite, request.task)
        if key in self._tasks:
            self._tasks.move_to_end(key)
            return self._tasks[key]
        if not (check_name(request.suite) and check_name(request.task)):
            raise SessionRefusal("not the name of a suite or a task")
        if request.suite not in self._suites:
            raise SessionRefusal(f"this worker has no suite {request.suite!r}")
        if request.task not in self._suites[request.suite]:
            raise SessionRefusal(f"suite {request.suite!r} has no task {request.task!r}")
        try:
            hidden = load_hidden(self._tasks_root, *key)
        except TaskError as error:
            log.error("%s", error)
            raise SessionRefusal(f"the hidden half of task {request.suite}/{request.task} cannot be used") from None
        self._tasks[key] = hidden
        while len(self._tasks) > TASKS_KEPT:
            self._tasks.popitem(last=False)
        return hidden

    async def _lost(self, slot: _Slot, request: SessionRequest, reason: str, *, detail: str) -> SessionLost:
        self._services.audit.write(
            "session_lost", episode=request.episode, reason=reason, request=type(request).__name__, detail=detail
        )
        await self._end(slot, request.episode, reason)
        return SessionLost(request_id=request.request_id, episode=request.episode, reason=reason)

    async def _end(self, slot: _Slot, episode: str, why: str) -> None:
        session, slot.session = slot.session, None
        if session is None:
            return
        self._ended[episode] = why
        while len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)
        try:
            await session.close(why)
        except SandboxLost as lost:
            log.info("episode %s: its sandbox was lost while it was closed: %s", episode, lost)

    async def _drop(self, episode: str, why: str) -> None:
        slot = self._episodes.pop(episode)
        async with slot.lock:
            await self._end(slot, episode, why)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle_timeout_s / 4, 5.0))
            limit = self._clock() - self._idle_timeout_s
            for episode, slot in list(self._episodes.items()):
                if slot.session is not None and not slot.waiting and slot.used < limit:
                    await self._drop(episode, "idle for too long")


class _Replies:
    """Replies by request id, newest last, bounded in number and size. What is not final is not kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Reply, int]] = OrderedDict()
        self._bytes = 0

    def get(self, request_id: str) -> Reply | None:
        kept = self._kept.get(request_id)
        return kept[0] if kept else None

    def add(self, reply: Reply) -> None:
        if isinstance(reply, Busy):
            return
        size = len(msgspec.msgpack.encode(reply))
        self._kept[reply.request_id] = (reply, size)
        self._bytes += size
        while len(self._kept) > REPLIES_KEPT or self._bytes > REPLIES_KEPT_BYTES:
            self._bytes -= self._kept.popitem(last=False)[1][1]
