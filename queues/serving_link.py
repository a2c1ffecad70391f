"""What the links of workers and judges have in common: a connection that greets, beats and receives.

In goes, from a subclass, what to say and what a message means; out comes, as an iteration, what it puts into the inbox.
The connection is made anew to every controller that appears (`queues.follow`). Nothing here waits for a controller or
keeps what could not be sent: that is the subclass's to do.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Literal, Self, TypeVar

import msgspec
import zmq.asyncio

from queues.endpoint import QueueError, send_now
from queues.follow import follow, let_others_run, until_first
from queues.messages import AnyMessage, decode

LINGER_MS = 500
"""How long what is still to be sent when the socket closes (a goodbye) may take."""

Item = TypeVar("Item")


class ServingLink(ABC, Generic[Item]):
    """`heartbeat_s` must be well below the controller's `lost_after_s`; `inbox`: most items that wait (0: any)."""

    def __init__(
        self,
        endpoint_file: Path,
        keys_dir: Path,
        side: Literal["workers", "judges"],
        *,
        heartbeat_s: float,
        inbox: int = 0,
    ) -> None:
        self._endpoint_file = endpoint_file
        self._keys_dir = keys_dir
        self._side: Literal["workers", "judges"] = side
        self._heartbeat_s = heartbeat_s
        self._instance = uuid.uuid4().hex
        """Tells this process from another of the same name."""
        self._inbox: asyncio.Queue[Item] = asyncio.Queue(inbox)
        self._socket: zmq.asyncio.Socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    # --- what a subclass says and hears -----------------------------------------------------------------------------

    @abstractmethod
    def _greeting(self) -> list[bytes]:
        """The first frames for every controller: who this is, and what it holds."""

    def _greeted(self) -> None:
        """The greeting is on its way."""

    @abstractmethod
    def _beat(self) -> None:
        """Say that this process is there, and how it stands. Lost without a connection: the next one says it."""

    @abstractmethod
    async def _handle(self, message: AnyMessage, frames: Sequence[bytes]) -> None:
        """Raises QueueError when the controller turns this process away."""

    @abstractmethod
    def _farewell(self, reason: str) -> list[bytes]:
        """The last frames, for a controller that should not have to wait until this process is missed."""

    # --- its life -----------------------------------------------------------------------------------------------------

    def _start(self) -> asyncio.Task[None]:
        role = "sandbox" if self._side == "workers" else "judge"
        self._task = asyncio.create_task(
            follow(self._endpoint_file, self._keys_dir, role, self._side, self._serve), name=f"{role}-link"
        )
        return self._task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """The next item; ends after `close()`; raises QueueError when the controller turns this process away."""
        assert self._task is not None, "connect() first"
        if not self._inbox.empty():
            return self._inbox.get_nowait()
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

    async def close(self, reason: str = "") -> None:
        """Say goodbye and end the iteration."""
        self._closing = True
        if self._task is None:
            return
        self._send_now(self._farewell(reason))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _send_now(self, frames: Sequence[bytes]) -> bool:
        """Whether they could be sent, without waiting."""
        return self._socket is not None and send_now(self._socket, frames) is None

    async def _serve(self, socket: zmq.asyncio.Socket) -> None:
        await socket.send_multipart(self._greeting())
        socket.linger = LINGER_MS
        self._socket = socket
        self._greeted()
        try:
            await until_first(self._beat_regularly(), self._receive(socket))
        finally:
            self._socket = None

    async def _beat_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            self._beat()

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            frames = await socket.recv_multipart()
            try:
                message = decode(frames[-1])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise QueueError(
                    f"the controller sent what is no message of this version: {error}",
                    where=str(self._endpoint_file),
                    remedy=f"run the controller and the {self._side} from the same version of ectype",
                ) from error
            await self._handle(message, frames)
            await let_others_run()
