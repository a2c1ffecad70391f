"""The worker's side of the queues: requests come in as an iteration, replies go out, whoever the controller is.

In go the worker's description of itself and its replies; out come requests. The link sends each reply under the lease
of its request (`queues.held`), and announces all leases to every controller that asks: that is how a restarted
controller learns what it had forgotten. It never waits for the controller, and never answers a request by itself.

A request may come more than once. A reply that cannot be sent is counted in `unsent`: the driver repeats its request,
so the worker must keep its replies by `request_id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from queues.endpoint import LEASE_BYTES, MAX_MESSAGE_BYTES, QueueError
from queues.held import HeldLeases, WorkerRequest
from queues.messages import (
    AnyMessage,
    CloseSession,
    DriverReply,
    Goodbye,
    Heartbeat,
    OpenSession,
    Reply,
    Result,
    Submit,
    Test,
    WhoAreYou,
    WorkerHello,
    WorkerMessage,
    encode,
)
from queues.serving_link import ServingLink

INBOX = 1000
_NO_LEASE = bytes(LEASE_BYTES)


class WorkerLink(ServingLink[WorkerRequest]):
    """`heartbeat_s` must be well below the controller's `lost_after_s`."""

    def __init__(self, endpoint_file: Path, keys_dir: Path, *, heartbeat_s: float = 2.0) -> None:
        super().__init__(endpoint_file, keys_dir, "workers", heartbeat_s=heartbeat_s, inbox=INBOX)
        self._hello: Callable[[], WorkerHello]
        self._heartbeat: Callable[[], Heartbeat]
        self._connected = asyncio.Event()
        self._leases = HeldLeases()
        self.unsent = 0
        self.stale_requests = 0

    async def connect(self, hello: Callable[[], WorkerHello], heartbeat: Callable[[], Heartbeat] | None = None) -> None:
        """Start serving; returns when the first hello is on its way to a controller, however long that takes, or when
        the link is closed.

        `hello` describes the worker as it is now and is called for every controller; so is `heartbeat`, for every
        beat (default: made from `hello`, without a count of commands).
        """
        self._hello = hello
        self._heartbeat = heartbeat or self._default_heartbeat
        task = self._start()
        connected = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait({task, connected}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()
        if task.done() and not self._closing:
            task.result()

    async def send(self, reply: Reply) -> None:
        """Send `reply` under the lease of its request. Never waits; see `unsent`."""
        payload = encode(cast("DriverReply", reply))
        if len(payload) > MAX_MESSAGE_BYTES:
            raise QueueError(
                f"a {type(reply).__name__} of {len(payload)} bytes is larger than the queues carry",
                remedy=f"keep replies under {MAX_MESSAGE_BYTES} bytes",
            )
        if not self._send_now([self._leases.lease_of(reply).to_bytes(LEASE_BYTES), payload]):
            self.unsent += 1

    def _greeting(self) -> list[bytes]:
        return _frames(self._full_hello())

    def _greeted(self) -> None:
        self._connected.set()

    def _beat(self) -> None:
        self._send_now(_frames(self._heartbeat()))

    def _farewell(self, reason: str) -> list[bytes]:
        return _frames(Goodbye(worker=self._hello().worker, reason=reason))

    async def _handle(self, message: AnyMessage, frames: Sequence[bytes]) -> None:
        match message:
            case WhoAreYou():
                self._send_now(_frames(self._full_hello()))
            case Goodbye():
                raise QueueError(
                    f"the controller turned the worker {message.worker} away: {message.reason}",
                    where=str(self._endpoint_file),
                    remedy="one process per worker name, and the same version of ectype everywhere",
                )
            case OpenSession() | Submit() | Test() | Result() | CloseSession():
                if self._leases.accept(int.from_bytes(frames[0]), message):
                    await self._inbox.put(message)
                else:
                    self.stale_requests += 1
            case _:
                pass

    def _full_hello(self) -> WorkerHello:
        hello = self._hello()
        return msgspec.structs.replace(hello, instance=self._instance, leases=self._leases.notes(set(hello.sessions)))

    def _default_heartbeat(self) -> Heartbeat:
        hello = self._hello()
        return Heartbeat(worker=hello.worker, busy=len(hello.sessions), idle=hello.slots - len(hello.sessions))


def _frames(message: WorkerMessage) -> list[bytes]:
    return [_NO_LEASE, encode(message)]
