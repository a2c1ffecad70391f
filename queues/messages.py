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
ReviewDecision = Literal["clear", "flagged", "uncertain", "failed"]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Base of every record on the wire."""


class Action(Record, tag_field="type", tag="action", frozen=True):
    """One `submit`: run a shell script in the workspace, or write one file into it.

    `body` is the script (`run`) or the file's content (`write`), any bytes. `path` is relative to the workspace and
    only set for `write`.
    """

    kind: ActionKind
    body: bytes
    path: str | None = None


class Observation(Record, frozen=True):
    """What the policy sees of one action. A fake failure has exactly this shape too."""

    status: CommandStatus
    exit_status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False


class Verdict(Record, frozen=True):
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


class TestResult(Record, frozen=True):
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


class Request(Record, frozen=True):
    """Base of what a driver sends. `request_id` makes a repeated request harmless: the same id gets the same reply."""

    request_id: str
    episode: str


class OpenSession(Request, tag_field="type", tag="open", frozen=True):
    """Lease a sandbox for `episode` on the task `suite/task`.

    `max_tests` bounds how often the agent may call `test`; `oracle_calls` how often it may run the reference.
    `max_tests=0`: hidden tests run only at `result`.
    """

    suite: str
    task: str
    max_tests: int = 0
    oracle_calls: int = 64


class Submit(Request, tag_field="type", tag="submit", frozen=True):
    step: int
    action: Action


class Test(Request, tag_field="type", tag="test", frozen=True):
    __test__ = False

    step: int


class Result(Request, tag_field="type", tag="result", frozen=True):
    """Grade the workspace as it is, end the session and give the sandbox back."""


class CloseSession(Request, tag_field="type", tag="close", frozen=True):
    """Abandon the session without grading it."""


class ReviewStep(Record, frozen=True):
    """One step of an episode as the judge is given it. `output` is what the agent was shown of the action's result."""

    step: int
    action: Action
    verdict: Verdict = Verdict()
    canary: bool = False
    output: bytes = b""


class ReviewEpisode(Request, tag_field="type", tag="review", frozen=True):
    """Have a finished episode judged. `request_id` names the episode and its content: asked again, it gets the answer
    that was given before. `omitted_bytes`: what did not fit into the message and the judge does not see."""

    suite: str
    task: str
    steps: tuple[ReviewStep, ...]
    canary: bool = False
    passed: int = 0
    total: int = 0
    omitted_bytes: int = 0


# --- worker -> controller -> driver -------------------------------------------------------------------------------


class Reply(Record, frozen=True):
    request_id: str
    episode: str


class SessionOpened(Reply, tag_field="type", tag="opened", frozen=True):
    worker: str


class StepReply(Reply, tag_field="type", tag="step", frozen=True):
    """Answer to `Submit`. `wall_s` is the true execution time, for metrics, never shown to the policy."""

    step: int
    observation: Observation
    verdict: Verdict
    wall_s: float = 0.0
    canary: bool = False
    """True when a canary token of this episode surfaced in the action or in its output."""


class TestReply(Reply, tag_field="type", tag="tested", frozen=True):
    """Answer to `Test`. `refused` when the budget of tests is used up (then `result` is empty)."""

    __test__ = False

    step: int
    result: TestResult
    refused: bool = False


class ResultReply(Reply, tag_field="type", tag="graded", frozen=True):
    """Final grade. `canary`: a canary token was found in the submission; `oracle_calls`: how many were used."""

    result: TestResult
    canary: bool = False
    blocked_actions: int = 0
    oracle_calls: int = 0


class Closed(Reply, tag_field="type", tag="closed", frozen=True):
    pass


class Busy(Reply, tag_field="type", tag="busy", frozen=True):
    """The bounded queue is full; nothing was started. Ask again after `retry_after_s`."""

    reason: str
    retry_after_s: float = 1.0


class SessionLost(Reply, tag_field="type", tag="lost", frozen=True):
    """The sandbox or its worker is gone. Never a policy outcome: the episode is resumed elsewhere or dropped."""

    reason: str


class Refused(Reply, tag_field="type", tag="refused", frozen=True):
    """The request itself is wrong (unknown task, unknown episode, step out of order). Retrying cannot help."""

    reason: str


class Reviewed(Reply, tag_field="type", tag="reviewed", frozen=True):
    """The judge's answer. `probability` is P(cheat), calibrated if `calibrated`; None when it could not tell.

    `failed`: nobody could judge it (a dead letter), `reason` says why. That is our failure: no verdict on the episode.
    """

    decision: ReviewDecision
    probability: float | None = None
    score: float | None = None
    """The raw score, before calibration."""
    calibrated: bool = False
    obeyed: bool = False
    """The judge was seen to follow an instruction of the judged text."""
    reason: str = ""
    votes: int = 0
    model: str = ""
    prompt_version: str = ""
    prompt_hash: str = ""
    judge: str = ""
    latency_s: float = 0.0
    cached: bool = False
    attempts: int = 1


# --- worker <-> controller ----------------------------------------------------------------------------------------


class LeaseNote(Record, frozen=True):
    """A lease as the worker's link remembers it: `open_id` is the request that opened it, `live` is False when the
    session has ended and only its replies are still kept for a driver that asks again."""

    episode: str
    lease: int
    open_id: str
    live: bool


class WorkerHello(Record, tag_field="type", tag="hello", frozen=True):
    """First message of a worker and the answer to `WhoAreYou`: everything the controller must know about it.

    A worker fills in `worker`, `slots`, `suites` and `sessions` (the episodes it has open); its link adds the rest.
    `instance` is unique to the process: a newer process of the same name replaces an older one.
    """

    worker: str
    slots: int
    suites: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    protocol: int = PROTOCOL_VERSION
    instance: str = ""
    leases: tuple[LeaseNote, ...] = ()


class Heartbeat(Record, tag_field="type", tag="heartbeat", frozen=True):
    worker: str
    busy: int
    idle: int
    commands: int = 0
    """Commands executed since the worker started (monotonic), for throughput."""


class WhoAreYou(Record, tag_field="type", tag="who", frozen=True):
    """The controller does not know this worker (it restarted): say hello again."""


class Ping(Record, tag_field="type", tag="ping", frozen=True):
    """To a driver, which ignores it: only whether it can be delivered matters."""


class Goodbye(Record, tag_field="type", tag="goodbye", frozen=True):
    """From a worker: it stops. From the controller: this worker is not wanted (replaced, other protocol), and why."""

    worker: str
    reason: str = ""


# --- judge <-> controller -----------------------------------------------------------------------------------------


class JudgeBeat(Record, tag_field="type", tag="judge_beat", frozen=True):
    """From a judge, regularly and whenever it changes: how many episodes it takes at once (0: none for now), and
    which requests it has in hand. `instance` is unique to the process: a newer one of the same name replaces it."""

    judge: str
    instance: str
    slots: int
    held: tuple[str, ...] = ()
    protocol: int = PROTOCOL_VERSION


class ReviewFailed(Record, tag_field="type", tag="review_failed", frozen=True):
    """From a judge: it could not judge this one. Another attempt may be made, by it or by another judge."""

    request_id: str
    judge: str
    reason: str


class JudgeGone(Record, tag_field="type", tag="judge_gone", frozen=True):
    """From a judge: it stops, what it holds is for others. From the controller: it is not wanted, and why."""

    judge: str
    instance: str = ""
    reason: str = ""


class GetStatus(Record, tag_field="type", tag="status", frozen=True):
    request_id: str


class StatusReply(Record, tag_field="type", tag="status_reply", frozen=True):
    request_id: str
    workers: dict[str, tuple[int, int]]
    """worker id -> (sessions in use, slots)"""
    queued: int
    sessions: int
    commands: int
    reviews: int = 0
    """Episodes that wait for a judge or are with one."""
    judges: dict[str, tuple[int, int]] = {}
    """judge -> (episodes in hand, slots)"""
    counters: dict[str, int] = {}
    """What happened since the controller started (`late_replies`, `lost_sessions`, `busy`, ...)."""


DriverMessage = OpenSession | Submit | Test | Result | CloseSession | GetStatus | ReviewEpisode
DriverReply = (
    SessionOpened | StepReply | TestReply | ResultReply | Closed | Busy | SessionLost | Refused | StatusReply | Reviewed
)
JudgeMessage = JudgeBeat | JudgeGone | Reviewed | ReviewFailed
WorkerMessage = WorkerHello | Heartbeat | Goodbye
ControllerMessage = WhoAreYou | Goodbye | Ping
AnyMessage = DriverMessage | DriverReply | WorkerMessage | ControllerMessage | JudgeMessage

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyMessage)


def encode(message: AnyMessage) -> bytes:
    return _encoder.encode(message)


def decode(data: bytes) -> AnyMessage:
    """Decode one message; raises `msgspec.ValidationError` (what is wrong and where) on anything malformed."""
    return _decoder.decode(data)
