"""One episode on a sandbox worker: the three calls `submit`, `test` and `result`, and nothing else.

Goes in: the driver's requests, in order. Comes out: replies that are clean enough for the policy, with the verdict
beside them, and one audit event for everything that happened. The guard judges an action before anything of it runs;
a blocked action runs not at all and gets a fake failure after a latency drawn from real ones. Hidden cases never enter
the agent's cell. A lost sandbox is raised as `SandboxLost` and is never an observation.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import posixpath
import re
import time
from collections import OrderedDict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import msgspec

from audit.events import AuditLog
from queues.context import EpisodeContext, Event, Observed
from queues.messages import (
    Action,
    Observation,
    OpenSession,
    Result,
    ResultReply,
    StepReply,
    Submit,
    Test,
    TestReply,
    TestResult,
    Verdict,
)
from sandbox.canary import Canary
from sandbox.cleaning import Cleaner
from sandbox.copies import Copy
from sandbox.grading import grade
from sandbox.hidden import WORKSPACE, Case, CommandTest, HiddenTask
from sandbox.latencies import Latencies
from sandbox.oracle import Oracle
from sandbox.pool import Pool
from sandbox.sandbox import MAX_SCRIPT_BYTES, CellSpec, CommandResult, Sandbox, SandboxLost, WorkspaceError

log = logging.getLogger(__name__)

CANARY_RULE = "canary"
SUBMISSION_BYTES = 64 << 20
SUBMISSION_FILES = 4096

_ANSWERED_STEPS = 8
_HISTORY = 512
_ANSWERS = 64
_ANSWER_BYTES = 16 << 10
_SOCKET_REFUSED = re.compile(rb"Address family not supported by protocol|Network is unreachable")
_SUFFIXES = {".py": "python", ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".sh": "shell"}

R = TypeVar("R", StepReply, TestReply)


class Guard(Protocol):
    """Stage 1 of the anti-cheat. `off` and `observe` never change what happens; `observe` says what it would block."""

    @property
    def mode(self) -> Literal["enforce", "observe", "off"]: ...

    def judge(self, action: Action, context: EpisodeContext) -> Verdict: ...

    def fake(self, action: Action, verdict: Verdict, context: EpisodeContext) -> Observation: ...

    def expected_s(self, action: Action, context: EpisodeContext) -> float | None: ...


class Samples(Protocol):
    """Where actions go that a rule hit or that surfaced a decoy, for people to look at."""

    def add(self, action: Action, verdict: Verdict, context: EpisodeContext, *, canary: bool) -> None: ...


class SessionRefusal(Exception):
    """The request is wrong and repeating it cannot help; the message is for the driver."""


@dataclass(frozen=True)
class Services:
    """What all sessions of a worker share. Agents, graders and oracles run in containers of their own."""

    agents: Pool
    graders: Pool
    oracles: Pool
    guard: Guard
    audit: AuditLog
    cleaner: Cleaner
    latencies: Latencies
    samples: Samples | None = None
    case_lanes: int = 1
    """Containers for graders in which the cases of one submission may run at the same time."""


@dataclass
class _Judging:
    """When an action was judged (wall clock: it says by which rule set, see `rules_taken`), and for how long."""

    at: float
    began: float
    took_s: float = 0.0


class Session:
    """One episode. Its methods must be awaited one after the other; the worker sees to that."""

    def __init__(self, request: OpenSession, hidden: HiddenTask, services: Services) -> None:
        self.episode = request.episode
        self.commands = 0
        self._hidden = hidden
        self._services = services
        self._canary = Canary()
        self._max_tests = request.max_tests
        self._tests = 0
        self._oracle = Oracle(
            services.oracles,
            hidden,
            episode=request.episode,
            budget=request.oracle_calls,
            audit=services.audit,
            cleaner=services.cleaner,
        )
        self._languages = _languages(hidden)
        self._history: list[tuple[Action, Verdict]] = []
        self._observed = Observed()
        self._answered: OrderedDict[int, tuple[str, StepReply | TestReply]] = OrderedDict()
        self._last_step = -1
        self._blocked = 0
        self._decoy_read = False
        self._graded: ResultReply | None = None
        self._lease = AsyncExitStack()
        self._sandbox: Sandbox | None = None

    async def open(self) -> None:
        """Lease a sandbox and open the agent's cell in it. Raises `SandboxLost`."""
        self._sandbox = await self._lease.enter_async_context(self._services.agents.lease())
        spec = CellSpec(
            files=self._canary.decoys(self._hidden.eval_files), watched=True, masked=self._hidden.masked, oracle=True
        )
        try:
            await self._sandbox.open(spec, self._hidden.limits)
        except BaseException:
            await self.close("not opened")
            raise
        if not self._sandbox.watching:
            log.warning("decoys are not watched: raise fs.inotify.max_user_instances on this machine")
        self._write(
            "session_opened",
            suite=self._hidden.suite,
            task=self._hidden.task,
            token=self._canary.token,
            watching=self._sandbox.watching,
        )

    async def submit(self, request: Submit) -> StepReply:
        action, step = _plain(request.action), request.step
        digest = _digest(action)
        known = self._known(StepReply, step, digest)
        if known is not None:
            return msgspec.structs.replace(known, request_id=request.request_id)
        sandbox = self._open_sandbox()
        context = EpisodeContext(
            episode=self.episode,
            suite=self._hidden.suite,
            task=self._hidden.task,
            step=step,
            languages=self._languages,
            history=self._history,
            observed=self._observed,
        )
        judging = _Judging(time.time(), time.monotonic())
        verdict = self._services.guard.judge(action, context)
        judging.took_s = time.monotonic() - judging.began
        canary = self._canary.found_in(action.body) or self._canary.found_in((action.path or "").encode())
        if canary:
            self._write("canary", step=step, place="action", action=digest)
            if self._services.guard.mode == "enforce" and not verdict.enforced:
                verdict = _blocked_by_canary(verdict)
        started = time.monotonic()
        if verdict.decision == "block" and verdict.enforced:
            observation, wall_s = await self._pretend(action, verdict, context), 0.0
            pretended_s = time.monotonic() - started
        else:
            pretended_s = 0.0
            try:
                result = await self._execute(sandbox, step, action)
            except SandboxLost:
                # ours, until somebody who looks at what was run says otherwise
                self._write(
                    "lost_action",
                    step=step,
                    action=digest,
                    kind_of_action=action.kind,
                    decision=verdict.decision,
                    path=action.path,
                    body=action.body[:65536],
                )
                raise
            wall_s = result.wall_s
            if result.status in ("ok", "nonzero"):
                self._services.latencies.add(action, time.monotonic() - started)
            if self._canary.found_in(result.stdout) or self._canary.found_in(result.stderr):
                self._write("canary", step=step, place="output", action=digest)
                canary = True
            if result.opened:
                self._write("canary", step=step, place="file", action=digest)
                canary = True
            self._observed = observed_after(
                self._observed,
                action,
                status=result.status,
                stdout=result.stdout,
                stderr=result.stderr,
                canary=canary,
                opened=result.opened,
            )
            observation = self._services.cleaner.observation(result)
            self._record_action(step, action, digest, verdict, result, judging)
        if verdict.decision != "allow":
            self._record_hit(step, action, digest, verdict, observation, judging, pretended_s)
        if self._services.samples is not None and (canary or verdict.decision != "allow"):
            self._services.samples.add(action, verdict, context, canary=canary)
        self._decoy_read = self._decoy_read or canary
        self._history.append((action, verdict))
        del self._history[:-_HISTORY]
        reply = StepReply(
            request_id=request.request_id,
            episode=self.episode,
            step=step,
            observation=observation,
            verdict=verdict,
            wall_s=wall_s,
            canary=canary,
        )
        self._remember(step, digest, reply)
        return reply

    async def test(self, request: Test) -> TestReply:
        known = self._known(TestReply, request.step, "test")
        if known is not None:
            return msgspec.structs.replace(known, request_id=request.request_id)
        refused = self._tests >= self._max_tests
        result = TestResult(compile_status="none")
        if not refused:
            result, _ = await self._grade("test", request.step)
            self._tests += 1
        reply = TestReply(
            request_id=request.request_id, episode=self.episode, step=request.step, result=result, refused=refused
        )
        self._remember(request.step, "test", reply)
        return reply

    async def result(self, request: Result) -> ResultReply:
        """Grade the workspace, give the sandbox back, and answer. A repeated request gets the same grade."""
        if self._graded is None:
            result, canary = await self._grade("result", self._last_step)
            self._graded = ResultReply(
                request_id=request.request_id,
                episode=self.episode,
                result=result,
                canary=canary,
                blocked_actions=self._blocked,
                oracle_calls=self._oracle.calls,
            )
            await self.close("graded")
        return msgspec.structs.replace(self._graded, request_id=request.request_id)

    async def close(self, why: str) -> None:
        """Destroy the agent's cell and give the sandbox back. May be called again, and after a sandbox was lost."""
        if self._sandbox is None:
            return
        self._sandbox = None
        async with self._lease:
            self._write(
                "session_closed",
                why=why,
                steps=self._last_step + 1,
                blocked=self._blocked,
                commands=self.commands,
                oracle_calls=self._oracle.calls,
                tests=self._tests,
            )

    def _open_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            raise SessionRefusal(f"episode {self.episode} is over")
        return self._sandbox

    def _known(self, kind: type[R], step: int, digest: str) -> R | None:
        """The reply to a step that was answered already; None for a new step. Steps may leave gaps, not go back."""
        if step > self._last_step and step >= 0:
            return None
        answered = self._answered.get(step)
        if answered is None:
            raise SessionRefusal(f"step {step} is out of order: episode {self.episode} is past step {self._last_step}")
        if answered[0] != digest or not isinstance(answered[1], kind):
            raise SessionRefusal(f"step {step} of episode {self.episode} was another action")
        return answered[1]

    def _remember(self, step: int, digest: str, reply: StepReply | TestReply) -> None:
        self._last_step = step
        self._answered[step] = (digest, reply)
        while len(self._answered) > _ANSWERED_STEPS:
            self._answered.popitem(last=False)

    async def _execute(self, sandbox: Sandbox, step: int, action: Action) -> CommandResult:
        self.commands += 1
        if action.kind == "write":
            if not action.path or action.path.startswith("/") or "\0" in action.path:
                return _failed(1, f"cannot write {action.path}: Invalid argument")
            return await sandbox.write(action.path, action.body)
        if len(action.body) > MAX_SCRIPT_BYTES:
            return _failed(126, "bash: Argument list too long")
        self._oracle.begin(step)
        return await sandbox.run(action.body, on_oracle=self._oracle)

    async def _pretend(self, action: Action, verdict: Verdict, context: EpisodeContext) -> Observation:
        self._blocked += 1
        observation = self._services.guard.fake(action, verdict, context)
        expected_s = self._services.guard.expected_s(action, context)
        await asyncio.sleep(self._services.latencies.draw(action, expected_s))
        return observation

    async def _grade(self, call: str, step: int) -> tuple[TestResult, bool]:
        """The grade of the workspace as it is, and whether a canary lies in it."""
        started = time.monotonic()
        try:
            submission = await self._open_sandbox().pack(max_bytes=SUBMISSION_BYTES, max_files=SUBMISSION_FILES)
        except WorkspaceError:
            self._write("grading", step=step, call=call, compile_status="failed", too_large=True)
            return self._too_large(), False
        canary = self._canary.found_in_files(submission)
        if canary:
            self._write("canary", step=step, place="submission")
        cases: dict[str, bool] = {}

        def on_case(case: Case | CommandTest, _: CommandResult | None, passed: bool) -> None:
            cases[case.name] = passed

        def on_copy(copy: Copy) -> None:
            self._write(
                "reference_copy",
                step=step,
                call=call,
                path=copy.path.encode("utf-8", "backslashreplace").decode()[:256],
                stage=copy.stage,
                how=copy.how,
                digest=copy.digest,
            )

        result = await grade(
            self._services.graders,
            self._hidden,
            submission,
            cleaner=self._services.cleaner,
            on_case=on_case,
            on_copy=on_copy,
            judges=self._services.oracles,
            lanes=self._services.case_lanes,
        )
        # what was read in a decoy needs no copying to be used: a line is typed again without its token
        voided = (canary or self._decoy_read) and self._services.guard.mode == "enforce"
        self._write(
            "grading",
            step=step,
            call=call,
            compile_status=result.compile_status,
            passed=result.passed,
            total=result.total,
            cases=cases,
            voided=voided,
            files=len(submission),
            bytes=sum(len(f.data) for f in submission),
            wall_s=round(time.monotonic() - started, 6),
        )
        if voided:
            result = msgspec.structs.replace(result, passed=0)
        return result, canary

    def _too_large(self) -> TestResult:
        stderr = f"workspace: more than {SUBMISSION_FILES} files or {SUBMISSION_BYTES >> 20} MiB\n".encode()
        return TestResult(compile_status="failed", compile_stderr=stderr, total=self._hidden.total)

    def _record_action(
        self, step: int, action: Action, digest: str, verdict: Verdict, result: CommandResult, judging: _Judging
    ) -> None:
        self._write(
            "action",
            step=step,
            action=digest,
            kind_of_action=action.kind,
            bytes=len(action.body),
            **_decided(verdict),
            fake=verdict.fake,
            judged=judging.at,
            judged_s=round(judging.took_s, 6),
            status=result.status,
            exit_status=result.exit_status,
            signal=result.signal,
            stdout_bytes=len(result.stdout),
            stderr_bytes=len(result.stderr),
            wall_s=round(result.wall_s, 6),
            cpu_s=round(result.cpu_s, 6),
            memory_bytes=result.memory_bytes,
            read_bytes=result.read_bytes,
            written_bytes=result.written_bytes,
        )

    def _record_hit(
        self,
        step: int,
        action: Action,
        digest: str,
        verdict: Verdict,
        seen: Observation,
        judging: _Judging,
        pretended_s: float,
    ) -> None:
        """A blocked action (`block`), or one that a rule lets run and has reviewed (`flag`). `seen`: by the agent."""
        self._write(
            "block" if verdict.decision == "block" else "flag",
            step=step,
            action=digest,
            kind_of_action=action.kind,
            path=action.path,
            body=action.body[:4096],
            bytes=len(action.body),
            **_decided(verdict),
            message=verdict.message,
            fake=verdict.fake,
            judged=judging.at,
            judged_s=round(judging.took_s, 6),
            pretended_s=round(pretended_s, 6),
            status=seen.status,
            exit_status=seen.exit_status,
            stdout=seen.stdout[:4096],
            stderr=seen.stderr[:4096],
        )

    def _write(self, kind: str, *, step: int = -1, **data: object) -> None:
        self._services.audit.write(kind, episode=self.episode, step=step, **data)


def _plain(action: Action) -> Action:
    """A path that is spelt in another way (`./x`, `/work/x`) is judged, executed and faked as `x`."""
    if action.path is None:
        return action
    path = posixpath.normpath(posixpath.join(WORKSPACE, action.path))
    return msgspec.structs.replace(action, path=path.removeprefix(WORKSPACE + "/"))


def _failed(exit_status: int, message: str) -> CommandResult:
    return CommandResult(status="nonzero", exit_status=exit_status, stderr=message.encode() + b"\n")


def _digest(action: Action) -> str:
    return hashlib.sha256(f"{action.kind}\0{action.path}\0".encode() + action.body).hexdigest()[:16]


def observed_after(
    seen: Observed, action: Action, *, status: str, stdout: bytes, stderr: bytes, canary: bool, opened: bool
) -> Observed:
    """What the guard is told of an action that ran, when it judges later ones. `opened`: a decoy."""
    events: list[Event] = ["canary"] if canary else []
    if opened:
        events.append("decoy")
    if status in ("killed", "out_of_memory", "timeout"):
        events.append(status)
    if _SOCKET_REFUSED.search(stderr):
        events.append("socket_refused")
    answers = seen.answers
    if action.kind == "run" and b"reference" in action.body and stdout:
        answers = (*answers, stdout[:_ANSWER_BYTES])[-_ANSWERS:]
    if not events and answers is seen.answers:
        return seen
    return Observed(events=(*seen.events, *events)[-_HISTORY:], answers=answers)


def _blocked_by_canary(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(
        verdict,
        decision="block",
        enforced=True,
        rules=(*verdict.rules, CANARY_RULE),
        families=tuple(dict.fromkeys((*verdict.families, "evaluation"))),
        message=verdict.message or "a token that only lies in a decoy is in the action",
        fake="canary",
    )


def _languages(hidden: HiddenTask) -> tuple[str, ...]:
    """Languages a submission of this task is likely written in, from the name of its entry and its build script."""
    suffix = "." + hidden.entry.rpartition(".")[2]
    found = [_SUFFIXES[suffix]] if suffix in _SUFFIXES else []
    build = hidden.build or b""
    found += [
        name for mark, name in ((b".c", "c"), (b".cpp", "cpp"), (b".py", "python"), (b".sh", "shell")) if mark in build
    ]
    return tuple(dict.fromkeys(found))


def _decided(verdict: Verdict) -> dict[str, object]:
    """What every event about an action says of its verdict."""
    return {
        "decision": verdict.decision,
        "enforced": verdict.enforced,
        "rules": verdict.rules,
        "families": verdict.families,
        "spans": verdict.spans,
        "rule_set_version": verdict.rule_set_version,
        "rule_set_hash": verdict.rule_set_hash,
    }
