"""The worker's memory of leases, without any I/O: under which lease each request came, and what a controller must know.

In go requests with the number of their lease, and the worker's replies; out come the number to reply under, and the
notes for a controller that has forgotten. It never lets a request of a replaced lease through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from queues.messages import (
    Busy,
    Closed,
    CloseSession,
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
)

WorkerRequest = OpenSession | Submit | Test | Result | CloseSession

MAX_ENDED = 4096
"""Ended sessions that are still announced, so that a repeated last request finds its reply."""
MAX_UNANSWERED = 4096


@dataclass(slots=True)
class _Held:
    lease: int
    open_id: str
    state: Literal["opening", "open", "ended"]


class HeldLeases:
    def __init__(self) -> None:
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._request_leases: OrderedDict[str, int] = OrderedDict()

    def accept(self, lease: int, request: WorkerRequest) -> bool:
        """Whether the worker may have `request`: not if its lease has been replaced by a newer one of the episode."""
        held = self._held.get(request.episode)
        if held is not None and lease < held.lease:
            return False
        if isinstance(request, OpenSession) and (held is None or lease > held.lease):
            self._held[request.episode] = _Held(lease, request.request_id, "opening")
            self._held.move_to_end(request.episode)
            self._forget_oldest_ended()
        self._request_leases[request.request_id] = lease
        if len(self._request_leases) > MAX_UNANSWERED:
            self._request_leases.popitem(last=False)
        return True

    def lease_of(self, reply: Reply) -> int:
        """The lease to send `reply` under: that of its request. Also notes what the reply says about the session."""
        held = self._held.get(reply.episode)
        lease = self._request_leases.pop(reply.request_id, held.lease if held is not None else 0)
        if held is None or held.lease != lease:
            return lease
        match reply:
            case SessionOpened() if held.state == "opening":
                held.state = "open"
            case ResultReply() | Closed():
                held.state = "ended"
            case SessionLost() if held.state != "ended":
                del self._held[reply.episode]
            case Busy() | Refused() if held.state == "opening" and reply.request_id == held.open_id:
                del self._held[reply.episode]
        return lease

    def notes(self, sessions: Collection[str]) -> tuple[LeaseNote, ...]:
        """All leases, for a controller; `sessions` are the episodes that the worker has open.

        An open session that the worker does not list has expired there: its lease is no longer live.
        """
        return tuple(
            LeaseNote(
                episode=episode,
                lease=held.lease,
                open_id=held.open_id,
                live=held.state == "opening" or (held.state == "open" and episode in sessions),
            )
            for episode, held in self._held.items()
        )

    def _forget_oldest_ended(self) -> None:
        if len(self._held) > MAX_ENDED:
            ended = next((episode for episode, held in self._held.items() if held.state == "ended"), None)
            if ended is not None:
                del self._held[ended]
