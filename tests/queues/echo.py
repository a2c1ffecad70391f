"""A worker without sandboxes: it keeps the rules of a worker (one reply per request id, slots, order) and echoes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from queues.held import WorkerRequest
from queues.link import WorkerLink
from queues.messages import (
    Closed,
    CloseSession,
    Heartbeat,
    Observation,
    OpenSession,
    Reply,
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    StepReply,
    Submit,
    TestReply,
    TestResult,
    Verdict,
    WorkerHello,
)


class EchoWorker:
    """`delay_s(request)`: how long a request takes."""

    def __init__(
        self, name: str, slots: int, link: WorkerLink, delay_s: Callable[[WorkerRequest], float] = lambda _: 0
    ):
        self.name, self.slots, self.link, self.delay_s = name, slots, link, delay_s
        self.sessions: dict[str, int] = {}
        self.replies: dict[str, Reply] = {}
        self.executed: list[str] = []
        self.received: list[str] = []
        self.locks: dict[str, asyncio.Lock] = {}

    def hello(self) -> WorkerHello:
        return WorkerHello(worker=self.name, slots=self.slots, suites=("micro",), sessions=tuple(self.sessions))

    def heartbeat(self) -> Heartbeat:
        busy = len(self.sessions)
        return Heartbeat(worker=self.name, busy=busy, idle=self.slots - busy, commands=len(self.executed))

    async def serve(self) -> None:
        await self.link.connect(self.hello, self.heartbeat)
        async with asyncio.TaskGroup() as group:
            async for request in self.link:
                self.received.append(request.request_id)
                group.create_task(self._answer(request))

    async def _answer(self, request: WorkerRequest) -> None:
        async with self.locks.setdefault(request.episode, asyncio.Lock()):
            if request.request_id not in self.replies:
                await asyncio.sleep(self.delay_s(request))
                self.executed.append(request.request_id)
                self.replies[request.request_id] = self._execute(request)
        await self.link.send(self.replies[request.request_id])

    def _execute(self, request: WorkerRequest) -> Reply:
        request_id, episode = request.request_id, request.episode
        if isinstance(request, OpenSession):
            self.sessions[episode] = 0
            return SessionOpened(request_id=request_id, episode=episode, worker=self.name)
        if isinstance(request, CloseSession):
            self.sessions.pop(episode, None)
            return Closed(request_id=request_id, episode=episode)
        if episode not in self.sessions:
            return SessionLost(request_id=request_id, episode=episode, reason="no such session")
        if isinstance(request, Result):
            del self.sessions[episode]
            return ResultReply(
                request_id=request_id, episode=episode, result=TestResult(compile_status="ok", passed=1, total=1)
            )
        if isinstance(request, Submit):
            self.sessions[episode] += 1
            observation = Observation(status="ok", stdout=request.action.body)
            return StepReply(
                request_id=request_id, episode=episode, step=request.step, observation=observation, verdict=Verdict()
            )
        return TestReply(
            request_id=request_id, episode=episode, step=request.step, result=TestResult(compile_status="ok")
        )
