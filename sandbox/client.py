"""The driver's side of the sandbox: open a session, then `submit`, `test`, `result`, or give it up.

Goes in: actions. Comes out: the workers' replies. A full queue is waited for; a lost session is `SessionLostError`
(never a policy outcome); a request that can never succeed is `SessionRefusedError`. Knows no hidden case and no worker.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Protocol, TypeVar

from audit.errors import EctypeError
from queues.client import QueueTimeout
from queues.messages import (
    Action,
    Busy,
    Closed,
    CloseSession,
    DriverMessage,
    DriverReply,
    OpenSession,
    Refused,
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    StepReply,
    Submit,
    Test,
    TestReply,
)

R = TypeVar("R", SessionOpened, StepReply, TestReply, ResultReply, Closed)


class SessionLostError(EctypeError):
    """The sandbox of an episode, or its worker, is gone. The episode has no verdict."""


class SessionRefusedError(EctypeError):
    """The request is wrong: unknown suite or task, an episode that is over, a step out of order."""


class Caller(Protocol):
    """A client of the queue: sends a request until its reply is there."""

    async def call(self, request: DriverMessage, *, timeout_s: float) -> DriverReply: ...


class SandboxClient:
    """Opens sessions. `open_timeout_s` bounds the wait for a free sandbox, `call_timeout_s` every other call."""

    def __init__(self, caller: Caller, *, open_timeout_s: float = 3600.0, call_timeout_s: float = 1800.0) -> None:
        self._caller = caller
        self._open_timeout_s = open_timeout_s
        self._call_timeout_s = call_timeout_s

    async def open(
        self, episode: str, suite: str, task: str, *, max_tests: int = 0, oracle_calls: int = 64
    ) -> RemoteSession:
        """Lease a sandbox, waiting as long as the fleet is busy."""
        request = OpenSession(
            request_id=_new_id(),
            episode=episode,
            suite=suite,
            task=task,
            max_tests=max_tests,
            oracle_calls=oracle_calls,
        )
        deadline = time.monotonic() + self._open_timeout_s
        while True:
            left = deadline - time.monotonic()
            reply = await _call(self._caller, request, timeout_s=max(left, 1.0))
            if not isinstance(reply, Busy):
                opened = _expect(SessionOpened, reply, episode)
                return RemoteSession(self._caller, episode, opened.worker, timeout_s=self._call_timeout_s)
            if left <= reply.retry_after_s:
                raise SessionLostError(
                    f"no sandbox became free in {self._open_timeout_s:.0f} s: {reply.reason}",
                    where=f"episode {episode}",
                    remedy="start more sandbox workers, or keep fewer episodes in flight (rollout)",
                )
            await asyncio.sleep(reply.retry_after_s)


class RemoteSession:
    """One episode's session on `worker`."""

    def __init__(self, caller: Caller, episode: str, worker: str, *, timeout_s: float) -> None:
        self._caller = caller
        self._timeout_s = timeout_s
        self.episode = episode
        self.worker = worker

    async def submit(self, step: int, action: Action) -> StepReply:
        request = Submit(request_id=_new_id(), episode=self.episode, step=step, action=action)
        return _expect(StepReply, await self._call(request), self.episode)

    async def test(self, step: int) -> TestReply:
        request = Test(request_id=_new_id(), episode=self.episode, step=step)
        return _expect(TestReply, await self._call(request), self.episode)

    async def result(self) -> ResultReply:
        """Grade, and give the sandbox back."""
        request = Result(request_id=_new_id(), episode=self.episode)
        return _expect(ResultReply, await self._call(request), self.episode)

    async def close(self) -> None:
        """Give the session up without a grade; of no effect when it is over."""
        request = CloseSession(request_id=_new_id(), episode=self.episode)
        reply = await self._call(request)
        if not isinstance(reply, Closed | SessionLost | Refused):
            _expect(Closed, reply, self.episode)

    async def _call(self, request: DriverMessage) -> DriverReply:
        return await _call(self._caller, request, timeout_s=self._timeout_s)


async def _call(caller: Caller, request: DriverMessage, *, timeout_s: float) -> DriverReply:
    try:
        return await caller.call(request, timeout_s=timeout_s)
    except QueueTimeout as timeout:
        raise SessionLostError(timeout.what, where=timeout.where, remedy=timeout.remedy) from timeout


def _expect(kind: type[R], reply: DriverReply, episode: str) -> R:
    if isinstance(reply, kind):
        return reply
    where = f"episode {episode}"
    if isinstance(reply, SessionLost):
        raise SessionLostError(f"the sandbox session was lost: {reply.reason}", where=where)
    if isinstance(reply, Refused):
        raise SessionRefusedError(f"the sandbox worker refused the request: {reply.reason}", where=where)
    if isinstance(reply, Busy):
        raise SessionLostError(f"the sandbox session is not there: {reply.reason}", where=where)
    raise TypeError(f"{where}: expected {kind.__name__}, got {type(reply).__name__}")


def _new_id() -> str:
    return uuid.uuid4().hex
