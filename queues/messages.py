"""The records that cross a process boundary between driver, controller and sandbox worker.

Everything here is a frozen, typed msgspec record; `encode` and `decode` are the only way on and off the wire.
Unknown fields are refused, so that two versions of ectype never half-understand each other. Nothing in a reply to
the policy (`Observation`, `TestResult`) may name a hidden test, a path of the host or the host itself; what is true
about a blocked action travels beside it in `Verdict`, which only the driver and the audit log see.
"""

from __future__ import annotations

from typing import Literal

import msgspec

PROTOCOL_VERSION = 1

CommandStatus = Literal[
    "ok",
    "nonzero",
    "timeout",
    "out_of_memory",
    "disk_full",
    "too_many_processes",
    "output_truncated",
    "killed",
    "sandbox_lost",
]
"""How one command of the agent ended. Only `sandbox_lost` is our failure; every other value is a policy outcome."""

ActionKind = Literal["run", "write"]
Decision = Literal["allow", "block", "review"]
CompileStatus = Literal["none", "ok", "failed"]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of every record on the wire."""


class Action(Record, tag_field="type", tag="action"):
    """One `submit`: run a shell script in the workspace, or write one file into it.

    `body` is the script (`run`) or the file's content (`write`), any bytes. `path` is relative to the workspace and
    only set for `write`.
    """

    kind: ActionKind
    body: bytes
    path: str | None = None


class Observation(Record):
    """What the policy sees of one action. A fake failure has exactly this shape too."""

    status: CommandStatus
    exit_status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False


class Verdict(Record):
    """What stage 1 decided about one action, and why. Never shown to the policy.

    `enforced` is False when the anti-cheat only observes (the action ran although `decision` is `block`).
    """

    decision: Decision = "allow"
    enforced: bool = False
    rules: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    rule_set_version: str = ""
    rule_set_hash: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    message: str = ""
    fake: str = ""
    """Name of the fake that was served, empty when none was."""


class TestResult(Record):
    """Outcome of building the submission in a fresh sandbox and running the hidden cases against it."""

    __test__ = False  # pytest: not a test class

    compile_status: CompileStatus
    compile_stderr: bytes = b""
    passed: int = 0
    total: int = 0

    @property
    def pass_rate(self) -> float:
        return self.passed / self.total if self.total else 0.0


# --- driver -> controller -> worker -------------------------------------------------------------------------------


class Request(Record):
    """Base of what a driver sends. `request_id` makes a repeated request harmless: the same id gets the same reply."""

    request_id: str
    episode: str


class OpenSession(Request, tag_field="type", tag="open"):
    """Lease a sandbox for `episode` on the task `suite/task`.

    `max_tests` bounds how often the agent may call `test`; `oracle_calls` how often it may run the reference.
    `max_tests=0`: hidden tests run only at `result`.
    """

    suite: str
    task: str
    max_tests: int = 0
    oracle_calls: int = 64


class Submit(Request, tag_field="type", tag="submit"):
    step: int
    action: Action


class Test(Request, tag_field="type", tag="test"):
    __test__ = False

    step: int


class Result(Request, tag_field="type", tag="result"):
    """Grade the workspace as it is, end the session and give the sandbox back."""


class CloseSession(Request, tag_field="type", tag="close"):
    """Abandon the session without grading it."""


# --- worker -> controller -> driver -------------------------------------------------------------------------------


class Reply(Record):
    request_id: str
    episode: str


class SessionOpened(Reply, tag_field="type", tag="opened"):
    worker: str


class StepReply(Reply, tag_field="type", tag="step"):
    """Answer to `Submit`. `wall_s` is the true execution time, for metrics, never shown to the policy."""

    step: int
    observation: Observation
    verdict: Verdict
    wall_s: float = 0.0
    canary: bool = False
    """True when a canary token of this episode surfaced in the action or in its output."""


class TestReply(Reply, tag_field="type", tag="tested"):
    """Answer to `Test`. `refused` when the budget of tests is used up (then `result` is empty)."""

    __test__ = False

    step: int
    result: TestResult
    refused: bool = False


class ResultReply(Reply, tag_field="type", tag="graded"):
    """Final grade. `canary`: a canary token was found in the submission; `oracle_calls`: how many were used."""

    result: TestResult
    canary: bool = False
    blocked_actions: int = 0
    oracle_calls: int = 0


class Closed(Reply, tag_field="type", tag="closed"):
    pass


class Busy(Reply, tag_field="type", tag="busy"):
    """The bounded queue is full; nothing was started. Ask again after `retry_after_s`."""

    reason: str
    retry_after_s: float = 1.0


class SessionLost(Reply, tag_field="type", tag="lost"):
    """The sandbox or its worker is gone. Never a policy outcome: the episode is resumed elsewhere or dropped."""

    reason: str


class Refused(Reply, tag_field="type", tag="refused"):
    """The request itself is wrong (unknown task, unknown episode, step out of order). Retrying cannot help."""

    reason: str


# --- worker <-> controller ----------------------------------------------------------------------------------------


class WorkerHello(Record, tag_field="type", tag="hello"):
    """First message of a worker and the answer to `WhoAreYou`: everything the controller must know about it."""

    worker: str
    slots: int
    suites: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    protocol: int = PROTOCOL_VERSION


class Heartbeat(Record, tag_field="type", tag="heartbeat"):
    worker: str
    busy: int
    idle: int
    commands: int = 0
    """Commands executed since the worker started (monotonic), for throughput."""


class WhoAreYou(Record, tag_field="type", tag="who"):
    """The controller does not know this worker (it restarted): say hello again."""


class Goodbye(Record, tag_field="type", tag="goodbye"):
    worker: str
    reason: str = ""


class GetStatus(Record, tag_field="type", tag="status"):
    request_id: str


class StatusReply(Record, tag_field="type", tag="status_reply"):
    request_id: str
    workers: dict[str, tuple[int, int]]
    """worker id -> (sessions in use, slots)"""
    queued: int
    sessions: int
    commands: int


DriverMessage = OpenSession | Submit | Test | Result | CloseSession | GetStatus
DriverReply = SessionOpened | StepReply | TestReply | ResultReply | Closed | Busy | SessionLost | Refused | StatusReply
WorkerMessage = WorkerHello | Heartbeat | Goodbye
ControllerMessage = WhoAreYou
AnyMessage = DriverMessage | DriverReply | WorkerMessage | ControllerMessage

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """Decode one message; raises `msgspec.ValidationError` (what is wrong and where) on anything malformed."""
    return _decoder.decode(data)
