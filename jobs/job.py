"""One job of a run, as submitit starts it: a small picklable callable, and the frame around what the job does.

The frame writes a job record into the run folder (for `wait` and `status`), turns signals into "stop when you can",
and makes sure that a job which ends early is either requeued or explains itself. What a job needs in order to go on is
on disk before any signal comes, so a requeued job simply starts again.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec

from audit.errors import EctypeError
from jobs.run_dir import RunDir, explain_disk_error, write_atomically

log = logging.getLogger(__name__)

Role = Literal["controller", "sandbox", "trainer", "judge"]
CANCEL_GRACE_S = 20.0
"""How long a cancelled trainer may take to save its state."""
State = Literal["running", "finished", "stopped", "requeued", "failed"]


class JobRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What one job says about itself, in `<run>/jobs/<name>.json`. `error` is only set when it failed."""

    name: str
    state: State
    host: str
    pid: int
    job_id: str
    restarts: int
    started: float
    ended: float | None = None
    error: str = ""


class StopSignals:
    """SIGTERM, SIGINT and SIGUSR2 as a flag that the job looks at.

    SIGUSR2 (submitit's signal for preemption and time limits) also means: requeue. A job that is still at work
    `requeue_after_s` later is requeued at once, without waiting for its work.
    """

    def __init__(self, requeue_after_s: float) -> None:
        self.received: signal.Signals | None = None
        self._requeue_after_s = requeue_after_s
        self._submitit: Any = signal.getsignal(signal.SIGUSR2)
        self._before_requeue: Callable[[], None] = lambda: None
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGALRM, lambda *_: self.requeue())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received != signal.SIGUSR2:
            self.received = signal.Signals(number)
        if number == signal.SIGUSR2:
            signal.setitimer(signal.ITIMER_REAL, self._requeue_after_s)

    def on_requeue(self, action: Callable[[], None]) -> None:
        self._before_requeue = action

    def requeue(self) -> None:
        """Ask submitit to start this job again, and end this process whatever its threads do."""
        self._before_requeue()
        try:
            if callable(self._submitit):
                self._submitit(signal.SIGUSR2, None)
        except SystemExit as leave:
            sys.stderr.flush()
            os._exit(leave.code if isinstance(leave.code, int) and leave.code >= 0 else 255)
        except Exception as error:
            raise EctypeError(
                f"preempted, and not requeued: {error}",
                where=f"{socket.gethostname()}, process {os.getpid()}",
                remedy="start the same command again: the run resumes from its last checkpoint",
            ) from error
        os._exit(128 + signal.SIGUSR2)


class Context:
    """What a job function is given: the run folder, its own name, and when to stop."""

    def __init__(self, run: RunDir, name: str, signals: StopSignals, record_end: Callable[[State], None]) -> None:
        self.run = run
        self.name = name
        self.signals = signals
        self.record_end = record_end
        """To be called before the process ends in any other way than returning."""

    def should_stop(self) -> bool:
        """Whether a signal or the stop file asks this job to end.

        After a cancel the others stay until the trainer has ended: it may need them to finish and save its step.
        """
        if self.signals.received is not None:
            return True
        stop = self.run.stop_reason()
        if stop is None or self.name == "trainer" or stop.reason != "cancelled":
            return stop is not None
        trainer = read_records(self.run).get("trainer")
        return trainer is None or trainer.state != "running" or time.time() - stop.at > CANCEL_GRACE_S


@dataclass(frozen=True)
class Job:
    """A job to submit. Calling it runs it to its end; `checkpoint` is what submitit calls before a requeue."""

    role: Role
    run_dir: str
    index: int = 0
    die_with_parent: bool = False
    requeue_after_s: float = 60.0

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}" if self.role in ("sandbox", "judge") else self.role

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def __call__(self) -> None:
        if self.die_with_parent:
            die_with_parent()
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
        )
        signals = StopSignals(self.requeue_after_s)
        run = RunDir.open(Path(self.run_dir))
        record = JobRecord(
            name=self.name,
            state="running",
            host=socket.gethostname(),
            pid=os.getpid(),
            job_id=os.environ.get("SLURM_JOB_ID", ""),
            restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
            started=time.time(),
        )
        first_rank = int(os.environ.get("SLURM_PROCID") or os.environ.get("SUBMITIT_LOCAL_GLOBALID") or 0) == 0

        def write(state: State, error: str = "") -> None:
            record.state, record.error = state, error
            record.ended = None if state == "running" else time.time()
            if first_rank:
                try:
                    write_record(run, record)
                except OSError as problem:  # a full disk must not hide what happened
                    log.error("cannot write the record of this job: %s", problem)

        write("running")
        signals.on_requeue(lambda: write("requeued"))
        try:
            done = _function(self.role)(Context(run, self.name, signals, write))
            stopped_from_outside = signals.received is not None and run.stop_reason() is None
            if not done and stopped_from_outside and signals.received == signal.SIGUSR2:
                signals.requeue()
        except Exception as error:
            message = describe_error(error, run.path)
            log.error("%s failed: %s", self.name, message)
            write("failed", message)
            if ends_the_run(run, self.role):
                try:
                    run.request_stop("failed", f"{self.name}: {message}")
                except EctypeError as problem:
                    log.error("%s", problem)
            raise SystemExit(1) from None
        if done and self.role == "trainer" and first_rank:
            run.request_stop("finished")
        write("finished" if done else "stopped")
        if stopped_from_outside and not done:
            # no result for submitit: whoever sent SIGTERM may start this job again
            raise SystemExit(128 + signal.SIGTERM)


def _function(role: Role) -> Callable[[Context], bool]:
    """The job's work, imported only in the process that does it. Returns True when its work is done for good."""
    if role == "controller":
        from jobs.controller import run_controller

        return run_controller
    if role == "sandbox":
        from jobs.sandboxes import run_worker

        return run_worker
    if role == "judge":
        from jobs.judges import run_judge

        return run_judge
    from jobs.trainer import run_trainer

    return run_trainer


def describe_error(error: BaseException, run_path: Path) -> str:
    """An error for the record: an EctypeError's own words, a full disk explained, else the exception and its place."""
    if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
        error = explain_disk_error(error, run_path)
    if isinstance(error, EctypeError):
        return str(error)
    log.error("%s", "".join(traceback.format_exception(error)))
    place = traceback.extract_tb(error.__traceback__)
    at = f" ({Path(place[-1].filename).name}:{place[-1].lineno})" if place else ""
    return f"{type(error).__name__}: {error}{at}"


def write_record(run: RunDir, record: JobRecord) -> None:
    write_atomically(run.jobs / f"{record.name}.json", msgspec.json.encode(record).decode())


def read_records(run: RunDir) -> dict[str, JobRecord]:
    """Records of all jobs that have started since the last launch, by job name."""
    records = (msgspec.json.decode(path.read_bytes(), type=JobRecord) for path in sorted(run.jobs.glob("*.json")))
    return {record.name: record for record in records}


def ends_the_run(run: RunDir, role: Role) -> bool:
    """Whether the run cannot go on now that a job of this role has failed: any but one of an array that has others
    left, or judges whose absence the config has a policy for."""
    config = run.config()
    if role not in ("sandbox", "judge"):
        return True
    if role == "judge" and config.judge.late != "hold":
        return False
    count = config.sandbox.workers if role == "sandbox" else config.judge.workers
    records = [r for name, r in read_records(run).items() if name.startswith(f"{role}-")]
    return sum(r.state == "failed" for r in records) >= count


def die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends, however that ends (Linux)."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
