"""What the controller remembers: the records behind `queues.leases`, and the messages it wants sent. No rules here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from queues.messages import CloseSession, OpenSession, Result, Submit, Test

EpisodeRequest = OpenSession | Submit | Test | Result | CloseSession
NO_LEASE = 0


class Record(Protocol):
    """How an event reaches the audit log (`AuditLog.write`)."""

    def __call__(self, kind: str, episode: str = "", step: int = -1, **data: Any) -> None: ...


class ToDriver(NamedTuple):
    connection: bytes
    lease: int
    payload: bytes


class ToWorker(NamedTuple):
    connection: bytes
    lease: int
    payload: bytes
    request_id: str = ""
    episode: str = ""


class ToJudge(NamedTuple):
    connection: bytes
    payload: bytes
    request_id: str


@dataclass(slots=True)
class WorkerState:
    name: str
    instance: str
    connection: bytes
    slots: int
    suites: frozenset[str]
    heard: float
    reachable: bool = True
    full_until: float = 0.0
    commands: int = 0
    live: set[str] = field(default_factory=set)
    """Episodes that take up a slot."""

    @property
    def free(self) -> int:
        return self.slots - len(self.live)


@dataclass(slots=True)
class Lease:
    id: int
    episode: str
    worker: str
    open_id: str
    open_request: tuple[OpenSession, bytes] | None
    """Kept while opening, so that another worker can take it over."""
    state: Literal["opening", "open", "ended"]
    driver: bytes
    """Connection of the last request; empty while no request has come since the lease was recovered."""
    used: float
    pending: dict[str, bytes] = field(default_factory=dict)
    """request id -> connection of the driver that waits for the answer"""


@dataclass(slots=True)
class Waiting:
    driver: bytes
    request: OpenSession
    payload: bytes
    refreshed: float
