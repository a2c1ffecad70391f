"""The worker's side of the queues: requests come in as an iteration, replies go out, whoever the controller is.

In go the worker's description of itself and its replies; out come requests. The link sends each reply under the lease
of its request (`queues.held`), and announces all leases to every controller that asks: that is how a restarted
controller learns what it had forgotten. It never waits for the controller, and never answers a request by itself.

A request may come more than once. A reply that cannot be sent is counted in `unsent`: the driver repeats its request,
so the worker must keep its replies by `request_id`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import zmq.asyncio

from queues.endpoint import LEASE_BYTES, MAX_MESSAGE_BYTES, QueueError, send_now
from queues.follow import follow, let_others_run, until_first
from queues.held import HeldLeases, WorkerRequest
from queues.messages import (
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
    decode,
    encode,
)

INBOX = 1000
_NO_LEASE = bytes(LEASE_BYTES)


class WorkerLink:
    """`heartbeat_s` must be well below the controller's `lost_after_s`."""

    def __init__(self, endpoint_file: Path, keys_dir: Path, *, heartbeat_s: float = 2.0) -> None:
        self._endpoint_file = endpoint_file
        self._keys_dir = keys_dir
        self._heartbeat_s = heartbeat_s
        self._instance = uuid.uuid4().hex
        self._hello: Callable[[], WorkerHello]
        self._heartbeat: Callable[[], Heartbeat]
        self._socket: zmq.asyncio.Socket | None = None
        self._connected = asyncio.Event()
        self._inbox: asyncio.Queue[WorkerRequest] = asyncio.Queue(INBOX)
        self._leases = HeldLeases()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.unsent = 0
        self.stale_requests = 0

    async def connect(self, hello: Callable[[], WorkerHello], heartbeat: Callable[[], Heartbeat] | None = None) -> None:
        """Start serving; returns when the first hello is on its way to a controller, however long that takes.

        `hello` describes the worker as it is now and is called for every controller; so is `heartbeat`, for every
        beat (default: made from `hello`, without a count of commands).
        """
        self._hello = hello
        self._heartbeat = heartbeat or self._default_heartbeat
        self._task = asyncio.create_task(
            follow(self._endpoint_file, self._keys_dir, "sandbox", "workers", self._serve), name="worker-link"
        )
        connected = asyncio.create_task(self._connected.wait())
        try:
            await asyncio.wait({self._task, connected}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connected.cancel()
        if self._task.done():
            self._task.result()

    def __aiter__(self) -> WorkerLink:
        return self

    async def __anext__(self) -> WorkerRequest:
        """The next request; ends after `close()`; raises QueueError when the controller turns this worker away."""
        assert self._task is not None, "connect() first"
        if self._inbox.empty():
            get = asyncio.create_task(self._inbox.get())
            try:
                await asyncio.wait({self._task, get}, return_when=asyncio.FIRST_COMPLETED)
                if get.done():
                    return get.result()
            finally:
                get.cancel()
            if not self._closing:
                self._task.result()
            raise StopAsyncIteration
        return self._inbox.get_nowait()

    async def send(self, reply: Reply) -> None:
        """Send `reply` under the lease of its request. Never waits; see `unsent`."""
        payload = encode(cast("DriverReply", reply))
        if len(payload) > MAX_MESSAGE_BYTES:
            raise QueueError(
                f"a {type(reply).__name__} of {len(payload)} bytes is larger than the queues carry",
                remedy=f"keep replies under {MAX_MESSAGE_BYTES} bytes",
            )
        if not self._send_now(self._leases.lease_of(reply).to_bytes(LEASE_BYTES), payload):
            self.unsent += 1

    async def close(self, reason: str = "") -> None:
        """Say goodbye and end the iteration."""
        self._closing = True
        if self._task is None:
            return
        self._send_now(_NO_LEASE, encode(Goodbye(worker=self._hello().worker, reason=reason)))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # --- one connection -------------------------------------------------------------------------------------------

    async def _serve(self, socket: zmq.asyncio.Socket) -> None:
        await socket.send_multipart([_NO_LEASE, encode(self._full_hello())])
        # What is still to be sent when the socket closes (a goodbye) may take this long, in milliseconds.
        socket.linger = 500
        self._socket = socket
        self._connected.set()
        try:
            await until_first(self._beat(), self._receive(socket))
        finally:
            self._socket = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            self._tell(self._heartbeat())

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            lease, payload = await socket.recv_multipart()
            message = decode(payload)
            match message:
                case WhoAreYou():
                    self._tell(self._full_hello())
                case Goodbye():
                    raise QueueError(
                        f"the controller turned the worker {message.worker} away: {message.reason}",
                        where=str(self._endpoint_file),
                        remedy="one process per worker name, and the same version of ectype everywhere",
                    )
                case OpenSession() | Submit() | Test() | Result() | CloseSession():
                    if self._leases.accept(int.from_bytes(lease), message):
                        await self._inbox.put(message)
                    else:
                        self.stale_requests += 1
            await let_others_run()

    def _full_hello(self) -> WorkerHello:
        hello = self._hello()
        return msgspec.structs.replace(hello, instance=self._instance, leases=self._leases.notes(set(hello.sessions)))

    def _default_heartbeat(self) -> Heartbeat:
        hello = self._hello()
        return Heartbeat(worker=hello.worker, busy=len(hello.sessions), idle=hello.slots - len(hello.sessions))

    def _tell(self, message: WorkerMessage) -> None:
        self._send_now(_NO_LEASE, encode(message))  # lost when the connection is down; the next beat says it again

    def _send_now(self, lease: bytes, payload: bytes) -> bool:
        if self._socket is None:
            return False
        return send_now(self._socket, [lease, payload]) is None
