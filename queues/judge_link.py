"""The judge's side of the review queue: episodes come in as an iteration, verdicts go out, whoever the controller is.

In go the judge's name and how many episodes it takes at once, now; out come `ReviewEpisode`s, each once while it is in
hand. What is in hand is told with every beat, so that a controller that restarts knows, and a verdict that could not be
sent is kept and sent to the next controller. `slots = 0` asks for nothing more for now: back-pressure to the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from queues.endpoint import QueueError
from queues.messages import AnyMessage, JudgeBeat, JudgeGone, Reviewed, ReviewEpisode, ReviewFailed, encode
from queues.serving_link import ServingLink


class JudgeLink(ServingLink[ReviewEpisode]):
    """`heartbeat_s` must be well below the controller's `lost_after_s`. Call `connect` before iterating."""

    def __init__(self, name: str, endpoint_file: Path, keys_dir: Path, *, slots: int, heartbeat_s: float = 2.0) -> None:
        super().__init__(endpoint_file, keys_dir, "judges", heartbeat_s=heartbeat_s)
        self.name = name
        self._slots = slots
        self._held: dict[str, ReviewEpisode] = {}
        self._unsent: list[Reviewed | ReviewFailed] = []

    @property
    def held(self) -> int:
        """Episodes in hand."""
        return len(self._held)

    def connect(self) -> None:
        self._start()

    def offer(self, slots: int) -> None:
        """Take at most `slots` episodes at once from now on."""
        if slots != self._slots:
            self._slots = slots
            self._beat()

    def answer(self, answer: Reviewed | ReviewFailed) -> None:
        """Send the verdict on an episode in hand, or that there is none. Never waits."""
        self._unsent.append(answer)
        self._held.pop(answer.request_id, None)
        self._beat()

    async def close(self, reason: str = "") -> None:
        """Give back what is in hand and end."""
        self._flush()
        await super().close(reason)

    def _greeting(self) -> list[bytes]:
        return [encode(self._state())]

    def _greeted(self) -> None:
        self._flush()

    def _beat(self) -> None:
        self._flush()
        self._send_now([encode(self._state())])

    def _farewell(self, reason: str) -> list[bytes]:
        return [encode(JudgeGone(judge=self.name, instance=self._instance, reason=reason))]

    async def _handle(self, message: AnyMessage, frames: Sequence[bytes]) -> None:
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

    def _state(self) -> JudgeBeat:
        return JudgeBeat(judge=self.name, instance=self._instance, slots=self._slots, held=tuple(self._held))

    def _flush(self) -> None:
        while self._unsent and self._send_now([encode(self._unsent[0])]):
            self._unsent.pop(0)
