"""The worker's side of the queues: requests come in as an iteration, replies go out, whoever the controller is.

In go the worker's description of itself and its replies; out come requests. The link remembers under which lease each
request came and sends the reply under the same one, and it announces all leases to every controller that asks: that is
how a restarted controller learns what it had forgotten. It never hands over a request of a lease that was replaced.

A request may come more than once. A reply that cannot be sent is counted in `unsent`: the driver repeats its request,
so the worker must keep its replies by `request_id`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import zmq.asyncio

from queues.endpoint import MAX_MESSAGE_BYTES, QueueError, send_now
from queues.follow import follow, let_others_run, until_first
from queues.messages import (
    Busy,
    Closed,
    CloseSession,
    DriverReply,
    Goodbye,
    Heartbeat,
    LeaseNote,
    OpenSession,
    Refused,
    Reply,
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    Submit,
    Test,
    WhoAreYou,
    WorkerHello,
    WorkerMessage,
    decode,
    encode,
)

WorkerRequest = OpenSession | Submit | Test | Result | CloseSession

MAX_ENDED = 4096
"""Ended sessions that are still announced, so that a repeated last request finds its reply."""
MAX_UNANSWERED = 4096
INBOX = 1000
_NO_LEASE = bytes(8)


@dataclass(slots=True)
class _Held:
    lease: int
    open_id: str
    state: Literal["opening", "open", "ended"]


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
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._request_leases: OrderedDict[str, int] = OrderedDict()
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

    async def send(self, reply: DriverReply) -> None:
        """Send `reply` under the lease of its request. Never waits; see `unsent`."""
        assert isinstance(reply, Reply), "only the controller answers about the status"
        payload = encode(reply)
        if len(payload) > MAX_MESSAGE_BYTES:
            raise QueueError(
                f"a {type(reply).__name__} of {len(payload)} bytes is larger than the queues carry",
                remedy=f"keep replies under {MAX_MESSAGE_BYTES} bytes",
            )
        held = self._held.get(reply.episode)
        lease = self._request_leases.pop(reply.request_id, held.lease if held is not None else 0)
        if held is not None and held.lease == lease:
            self._note_reply(held, reply)
        if not self._send_now(lease.to_bytes(8), payload):
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
                    if self._note_request(int.from_bytes(lease), message):
                        await self._inbox.put(message)
            await let_others_run()

    def _note_request(self, lease: int, request: WorkerRequest) -> bool:
        """False for a request of a lease that has been replaced."""
        held = self._held.get(request.episode)
        if held is not None and lease < held.lease:
            self.stale_requests += 1
            return False
        if isinstance(request, OpenSession) and (held is None or lease > held.lease):
            self._held[request.episode] = _Held(lease, request.request_id, "opening")
            self._forget_oldest_ended()
        self._request_leases[request.request_id] = lease
        if len(self._request_leases) > MAX_UNANSWERED:
            self._request_leases.popitem(last=False)
        return True

    def _note_reply(self, held: _Held, reply: Reply) -> None:
        match reply:
            case SessionOpened() if held.state == "opening":
                held.state = "open"
            case ResultReply() | Closed():
                held.state = "ended"
            case SessionLost() if held.state != "ended":
                del self._held[reply.episode]
            case Busy() | Refused() if held.state == "opening" and reply.request_id == held.open_id:
                del self._held[reply.episode]

    def _forget_oldest_ended(self) -> None:
        if len(self._held) > MAX_ENDED:
            for episode, held in self._held.items():
                if held.state == "ended":
                    del self._held[episode]
                    return

    def _full_hello(self) -> WorkerHello:
        hello = self._hello()
        sessions = set(hello.sessions)
        notes = tuple(
            LeaseNote(
                episode=episode,
                lease=held.lease,
                open_id=held.open_id,
                # An open session that the worker does not list has expired there.
                live=held.state == "opening" or (held.state == "open" and episode in sessions),
            )
            for episode, held in self._held.items()
        )
        return msgspec.structs.replace(hello, instance=self._instance, leases=notes)

    def _default_heartbeat(self) -> Heartbeat:
        hello = self._hello()
        return Heartbeat(worker=hello.worker, busy=len(hello.sessions), idle=hello.slots - len(hello.sessions))

    def _tell(self, message: WorkerMessage) -> None:
        self._send_now(_NO_LEASE, encode(message))  # lost when the connection is down; the next beat says it again

    def _send_now(self, lease: bytes, payload: bytes) -> bool:
        if self._socket is None:
            return False
        return send_now(self._socket, [lease, payload]) is None
