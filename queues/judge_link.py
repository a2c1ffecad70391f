"""The judge's side of the review queue: episodes come in as an iteration, verdicts go out, whoever the controller is.

In go the judge's name and how many episodes it takes at once, now; out come `ReviewEpisode`s, each once while it is in
hand. What is in hand is told with every beat, so that a controller that restarts knows, and a verdict that could not be
sent is kept and sent to the next controller. `slots = 0` asks for nothing more for now: back-pressure to the queue.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import msgspec
import zmq.asyncio

from queues.endpoint import QueueError, send_now
from queues.follow import follow, let_others_run, until_first
from queues.messages import JudgeBeat, JudgeGone, Reviewed, ReviewEpisode, ReviewFailed, decode, encode


class JudgeLink:
    """`heartbeat_s` must be well below the controller's `lost_after_s`. Call `connect` before iterating."""

    def __init__(self, name: str, endpoint_file: Path, keys_dir: Path, *, slots: int, heartbeat_s: float = 2.0) -> None:
        self.name = name
        self._endpoint_file = endpoint_file
        self._keys_dir = keys_dir
        self._heartbeat_s = heartbeat_s
        self._slots = slots
        self._instance = uuid.uuid4().hex
        self._held: dict[str, ReviewEpisode] = {}
        self._unsent: list[Reviewed | ReviewFailed] = []
        self._inbox: asyncio.Queue[ReviewEpisode] = asyncio.Queue()
        self._socket: zmq.asyncio.Socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        """Episodes in hand."""
        return len(self._held)

    def connect(self) -> None:
        self._task = asyncio.create_task(
            follow(self._endpoint_file, self._keys_dir, "judge", "judges", self._serve), name="judge-link"
        )

    def offer(self, slots: int) -> None:
        """Take at most `slots` episodes at once from now on."""
        if slots != self._slots:
            self._slots = slots
            self._beat()

    def __aiter__(self) -> JudgeLink:
        return self

    async def __anext__(self) -> ReviewEpisode:
        """The next episode; raises QueueError when the controller turns this judge away."""
        assert self._task is not None, "connect() first"
        get = asyncio.create_task(self._inbox.get())
        try:
            await asyncio.wait({self._task, get}, return_when=asyncio.FIRST_COMPLETED)
            if get.done():
                return get.result()
        finally:
            get.cancel()
        self._task.result()
        raise StopAsyncIteration

    def answer(self, answer: Reviewed | ReviewFailed) -> None:
        """Send the verdict on an episode in hand, or that there is none. Never waits."""
        self._unsent.append(answer)
        self._held.pop(answer.request_id, None)
        self._flush()
        self._beat()

    async def close(self, reason: str = "") -> None:
        """Give back what is in hand and end."""
        if self._task is None:
            return
        self._flush()
        if self._socket is not None:
            send_now(self._socket, [encode(JudgeGone(judge=self.name, instance=self._instance, reason=reason))])
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self, socket: zmq.asyncio.Socket) -> None:
        await socket.send_multipart([encode(self._state())])
        socket.linger = 500
        self._socket = socket
        self._flush()
        try:
            await until_first(self._beat_regularly(), self._receive(socket))
        finally:
            self._socket = None

    async def _beat_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            self._flush()
            self._beat()

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            (payload,) = await socket.recv_multipart()
            try:
                message = decode(payload)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise QueueError(
                    f"the controller sent what is no message of this version: {error}",
                    where=str(self._endpoint_file),
                    remedy="run the controller and the judges from the same version of ectype",
                ) from error
            if isinstance(message, ReviewEpisode):
                if message.request_id not in self._held:
                    self._held[message.request_id] = message
                    self._inbox.put_nowait(message)
                self._beat()
            elif isinstance(message, JudgeGone) and message.instance == self._instance:
                raise QueueError(
                    f"the controller turned the judge {self.name} away: {message.reason}",
                    where=str(self._endpoint_file),
                    remedy="one process per judge's name, and the same version of ectype everywhere",
                )
            await let_others_run()

    def _state(self) -> JudgeBeat:
        return JudgeBeat(judge=self.name, instance=self._instance, slots=self._slots, held=tuple(self._held))

    def _beat(self) -> None:
        if self._socket is not None:
            send_now(self._socket, [encode(self._state())])  # lost when the connection is down; the next one says it

    def _flush(self) -> None:
        while self._unsent and self._socket is not None:
            if send_now(self._socket, [encode(self._unsent[0])]) is not None:
                return
            self._unsent.pop(0)
