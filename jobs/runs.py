"""A run from its config to its end: prepare, launch, wait, and when it is interrupted end it in order.

Comes in: a checked config, a site and the path of the run folder. Goes out: a finished run, or an error that says how
to go on. Whatever happens, no job that was started here for a waiting caller is alive afterwards.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from audit.errors import EctypeError, Interrupted
from jobs.job import CANCEL_GRACE_S
from jobs.launch import Jobs, launch, read_jobs
from jobs.prepare import prepare
from jobs.run_config import RunConfig
from jobs.run_dir import RunDir, disk_errors
from jobs.site_config import Site
from jobs.watch import alive_jobs, cancel, kill_jobs, wait

Say = Callable[[str], None]
Follow = Callable[[Path, Callable[[], bool]], None]
"""Shows live progress of a run folder until its second argument returns True."""


def start(config: RunConfig, site: Site, path: Path, *, say: Say) -> tuple[RunDir, Jobs]:
    """Start the jobs and come back. They go on by themselves."""
    run = RunDir.create(path, config, site)
    with _launching(run):
        _make_ready(run, config, site, say)
        return run, launch(run, site, attached=False)


def run_to_end(config: RunConfig, site: Site, path: Path, *, say: Say, follow: Follow, resume: str) -> RunDir:
    """Start the jobs and wait for the end of the run. `resume` is the command that goes on after an interruption.

    Raises Interrupted on SIGINT and SIGTERM, JobFailed when a job died, EctypeError for everything else.
    """
    run = RunDir.create(path, config, site)
    interrupt = _Interrupt()
    ended = threading.Event()
    viewer = threading.Thread(target=follow, args=(run.path, ended.is_set), name="progress", daemon=True)
    jobs: Jobs | None = None
    with _launching(run), interrupt.handled():
        try:
            _make_ready(run, config, site, say)
            with interrupt.deferred():  # or a job that is just being submitted would be forgotten
                jobs = launch(run, site, attached=True)
            viewer.start()
            stop = wait(run, jobs, say=say)
        except KeyboardInterrupt:
            _close(ended, viewer)
            _end_interrupted(run, jobs, say)
            raise Interrupted(
                f"interrupted; {_how_far(run)}",
                where=str(run.path),
                remedy=f"resume: {resume}",
                status=interrupt.status,
            ) from None
        except BaseException:
            if jobs is not None:
                kill_jobs(jobs)
            raise
        finally:
            _close(ended, viewer)
    if stop.reason == "cancelled":
        raise EctypeError(f"the run was cancelled; {_how_far(run)}", where=str(run.path), remedy=f"resume: {resume}")
    return run


@contextmanager
def _launching(run: RunDir) -> Iterator[None]:
    """Hold the launch lock."""
    with disk_errors(run.path):
        run.launch_lock.acquire()
    try:
        yield
    finally:
        run.launch_lock.release()


def _make_ready(run: RunDir, config: RunConfig, site: Site, say: Say) -> None:
    _refuse_in_use(run)
    run.freeze(config, site)
    prepared = prepare(config, say=say)
    with disk_errors(run.path):
        # only the public half: the trainer is never told where the hidden one is
        public = run.tasks / "public"
        shutil.rmtree(public, ignore_errors=True)
        shutil.copytree(prepared.tasks_root / "public" / prepared.suite, public / prepared.suite)


def _refuse_in_use(run: RunDir) -> None:
    jobs = read_jobs(run)
    if jobs is not None:
        deadline = time.monotonic() + (30.0 if run.stop_reason() is not None else 0.0)
        while alive := alive_jobs(jobs):
            if time.monotonic() > deadline:
                names = ", ".join(f"{job.name} ({job.id})" for job in alive)
                raise EctypeError(
                    f"the run folder is in use: {names} of an earlier start",
                    where=str(run.path),
                    remedy=f"wait for its end (`ectype status {run.path}`), or end it: ectype cancel {run.path}",
                )
            time.sleep(0.5)
    with disk_errors(run.path):
        run.trainer_lock.acquire()
    run.trainer_lock.release()


def _end_interrupted(run: RunDir, jobs: Jobs | None, say: Say) -> None:
    if jobs is None:
        return
    say(
        f"Stopping: the trainer has {CANCEL_GRACE_S:.0f} s to end its step and save (interrupt again to end it at once)"
    )
    try:
        cancel(run, jobs)
    except KeyboardInterrupt:
        kill_jobs(jobs)


def _how_far(run: RunDir) -> str:
    saved = sorted(p.name for p in run.checkpoints.glob("step-*") if p.is_dir())
    return f"the newest checkpoint is {saved[-1]}" if saved else "no checkpoint was written yet"


def _close(ended: threading.Event, viewer: threading.Thread) -> None:
    ended.set()
    if viewer.ident is not None:
        viewer.join(timeout=5.0)


class _Interrupt:
    """SIGINT and SIGTERM as KeyboardInterrupt, and which signal it was."""

    def __init__(self) -> None:
        self.status = 0
        self._deferring = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise what comes meanwhile at the end."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
        if self.status:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.status = 128 + number
        if not self._deferring:
            raise KeyboardInterrupt
