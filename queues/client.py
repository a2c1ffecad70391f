"""The driver's side of the queues: send a request, get its reply, through restarts of the controller.

In go requests, any number at a time; out comes for each exactly one reply, or an error with a remedy. A request is sent
again, under the same `request_id`, when its reply does not come and whenever another controller appears; it is never
given a new id here, so that nothing is executed twice. The client remembers the lease of every session it has opened
and sends it along, so that no request ever reaches another session of the same episode.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import zmq.asyncio

from queues.endpoint import LEASE_BYTES, MAX_MESSAGE_BYTES, QueueError
from queues.follow import follow, let_others_run, until_first
from queues.keys import Role
from queues.messages import (
    Busy,
    Closed,
    DriverMessage,
    DriverReply,
    GetStatus,
    OpenSession,
    ResultReply,
    SessionLost,
    SessionOpened,
    decode,
    encode,
)

RESEND_FIRST_S, RESEND_MAX_S = 5.0, 30.0
_NO_LEASE = bytes(LEASE_BYTES)


class QueueTimeout(QueueError):
    """No reply in the time the caller gave. The request may have been executed: ask again under the same id."""


class _Call:
    def __init__(self, lease: bytes, payload: bytes) -> None:
        self.lease = lease
        self.payload = payload
        self.reply: asyncio.Future[DriverReply] = asyncio.get_running_loop().create_future()


class QueueClient:
    """Connects on the first call; `close()` when done. For one event loop."""

    def __init__(self, endpoint_file: Path, keys_dir: Path, role: Role = "trainer") -> None:
        self._endpoint_file = endpoint_file
        self._keys_dir = keys_dir
        self._role: Role = role
        self._calls: dict[str, _Call] = {}
        self._leases: dict[str, bytes] = {}
        self._unsent: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def call(self, request: DriverMessage, *, timeout_s: float) -> DriverReply:
        """Send `request` until its reply is there; raises QueueTimeout after `timeout_s`.

        `Busy` comes back only for an OpenSession (whether to wait is the caller's decision); the steps of an
        open session are repeated until they are through.
        """
        payload = encode(request)
        if len(payload) > MAX_MESSAGE_BYTES:
            raise QueueError(
                f"a {type(request).__name__} of {len(payload)} bytes is larger than the queues carry",
                remedy=f"keep messages under {MAX_MESSAGE_BYTES} bytes",
            )
        if request.request_id in self._calls:
            raise ValueError(f"request {request.request_id} is being waited for already")
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._task.done():
            self._task.result()
            raise QueueError("a request after the client was closed", where=str(self._endpoint_file))
        deadline = time.monotonic() + timeout_s
        resend_s = RESEND_FIRST_S
        lease = _NO_LEASE if isinstance(request, GetStatus) else self._leases.get(request.episode, _NO_LEASE)
        call = self._calls[request.request_id] = _Call(lease, payload)
        self._unsent.put_nowait(request.request_id)
        try:
            while True:
                remaining = deadline - time.monotonic()
                done, _ = await asyncio.wait({call.reply}, timeout=max(0.0, min(resend_s, remaining)))
                if not done:
                    if time.monotonic() >= deadline:
                        raise self._timeout(request, timeout_s)
                    resend_s = min(2 * resend_s, RESEND_MAX_S)
                    self._unsent.put_nowait(request.request_id)
                    continue
                reply = call.reply.result()
                if not isinstance(reply, Busy) or isinstance(request, OpenSession):
                    return reply
                call.reply = asyncio.get_running_loop().create_future()
                await asyncio.sleep(max(0.0, min(reply.retry_after_s, deadline - time.monotonic())))
                self._unsent.put_nowait(request.request_id)
        finally:
            del self._calls[request.request_id]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> QueueClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def _timeout(self, request: DriverMessage, timeout_s: float) -> QueueTimeout:
        return QueueTimeout(
            f"no reply to {type(request).__name__} within {timeout_s:g} s",
            where=str(self._endpoint_file) + ("" if self._endpoint_file.exists() else " (does not exist)"),
            remedy="see with `ectype status` whether the controller and a sandbox worker are running",
        )

    async def _run(self) -> None:
        """Serve until cancelled; whatever ends it otherwise is raised in every call that waits."""
        try:
            await follow(self._endpoint_file, self._keys_dir, self._role, "drivers", self._serve)
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self._fail(QueueError("the client was closed", where=str(self._endpoint_file)))

    def _fail(self, error: Exception) -> None:
        for call in self._calls.values():
            if not call.reply.done():
                call.reply.set_exception(error)

    async def _serve(self, socket: zmq.asyncio.Socket) -> None:
        # Nothing is known about what an earlier controller had received: send all of it.
        self._unsent = asyncio.Queue()
        for request_id in self._calls:
            self._unsent.put_nowait(request_id)
        await until_first(self._send(socket), self._receive(socket))

    async def _send(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            call = self._calls.get(await self._unsent.get())
            if call is not None and not call.reply.done():
                await socket.send_multipart(
                    [call.lease, call.payload]
                )  # waits while there is no connection, and at the high-water mark

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            lease, payload = await socket.recv_multipart()
            try:
                reply = decode(payload)
            except msgspec.DecodeError as error:
                raise QueueError(
                    f"the controller sent what is no message of this version: {error}",
                    where=str(self._endpoint_file),
                    remedy="run the controller and the driver from the same version of ectype",
                ) from error
            if not isinstance(reply, DriverReply):
                continue
            call = self._calls.get(reply.request_id)
            if call is not None and not call.reply.done():
                self._note(lease, reply)
                call.reply.set_result(reply)  # else: the second reply to a request that was sent twice
            await let_others_run()

    def _note(self, lease: bytes, reply: DriverReply) -> None:
        match reply:
            case SessionOpened():
                self._leases[reply.episode] = lease
            case ResultReply() | Closed() | SessionLost():
                self._leases.pop(reply.episode, None)
