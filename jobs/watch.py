"""Waits for the jobs of a run, notices when one dies, and ends them: by the stop file first, by force last.

A job's end is read from two sources that may each be missing: the executor (the process, or Slurm) says whether it
lives, its own record in the run folder says how it ended. submitit's view is not used: without Slurm's accounting it
never learns that a job died.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from jobs.job import CANCEL_GRACE_S, JobRecord, read_records
from jobs.launch import Jobs, Submitted, read_jobs
from jobs.processes import session_members
from jobs.run_dir import RunDir, Stop

POLL_S = 0.5
SLURM_POLL_S = 2.0
SLURM_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT",
}  # fmt: skip


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the executor says about one job. `state` is Slurm's, or RUNNING / ENDED of a local process."""

    job: Submitted
    alive: bool
    state: str
    reason: str = ""


class JobFailed(EctypeError):
    """A job of the run died; the others have been ended."""


def look(jobs: Jobs) -> dict[str, Seen]:
    """Ask the executor about every job. Raises EctypeError when Slurm does not answer."""
    if jobs.executor == "local":
        alive = {job.name: bool(session_members(int(job.id), job.ticks)) for job in jobs.jobs}
        return {
            job.name: Seen(job=job, alive=alive[job.name], state="RUNNING" if alive[job.name] else "ENDED")
            for job in jobs.jobs
        }
    answers = _ask_slurm([job.id for job in jobs.jobs])
    seen: dict[str, Seen] = {}
    for job in jobs.jobs:
        state, reason = answers.get(job.id, ("UNKNOWN", "Slurm no longer knows it"))
        seen[job.name] = Seen(job=job, alive=state not in SLURM_ENDED | {"UNKNOWN"}, state=state, reason=reason)
    return seen


def _ask_slurm(ids: list[str]) -> dict[str, tuple[str, str]]:
    """State and reason by job id (`123` or `123_4`), from squeue, and from sacct for what squeue has forgotten."""
    roots = sorted({job_id.split("_")[0] for job_id in ids})
    answer = _run("squeue", "--noheader", "--array", "--states=all", f"--jobs={','.join(roots)}", "--format=%i|%T|%r")
    if answer.returncode != 0 and "Invalid job id" not in answer.stderr:
        raise EctypeError(
            f"Slurm does not answer: {answer.stderr.strip() or 'squeue failed'}",
            where="squeue",
            remedy="try `squeue` by hand; the jobs themselves are not affected",
        )
    found: dict[str, tuple[str, str]] = {}
    for line in answer.stdout.splitlines():
        job_id, state, reason = line.split("|", 2)
        found[job_id.strip()] = (state.strip(), "" if reason.strip() == "None" else reason.strip())
    missing = [job_id for job_id in ids if job_id not in found]
    if missing and shutil.which("sacct"):
        history = _run("sacct", "-o", "JobID,State", "--parsable2", "-j", ",".join(missing))
        for line in history.stdout.splitlines()[1:]:
            job_id, state = line.split("|")[:2]
            if job_id in missing and state:
                found[job_id] = (state.split()[0], "")
    return found


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} did not answer within 60 s")
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} is not on this machine")


def alive_jobs(jobs: Jobs) -> list[Submitted]:
    return [seen.job for seen in look(jobs).values() if seen.alive]


def wait(run: RunDir, jobs: Jobs, *, say: Callable[[str], None]) -> Stop:
    """Block until the run has ended. Returns why (`finished` or `cancelled`); raises JobFailed when a job died.

    Whatever the end, no job of the run is alive afterwards. KeyboardInterrupt passes through: the caller cancels.
    """
    told: set[str] = set()
    judged = run.config().judge.late == "hold"
    while True:
        stop = run.stop_reason()
        if stop is not None and stop.reason != "failed":
            end_jobs(run, jobs, trainer_s=60.0)
            return stop
        try:
            seen = look(jobs)
        except EctypeError as error:
            if "slurm" not in told:
                say(str(error))
                told.add("slurm")
            time.sleep(SLURM_POLL_S)
            continue
        records = read_records(run)
        _tell_news(seen, records, say, told)
        dead = [name for name in seen if not seen[name].alive]
        fatal = [name for name in dead if not _can_be_spared(name, seen, judged=judged)]
        if stop is None and fatal:
            time.sleep(POLL_S)  # its last words may still be on the way
            stop = run.stop_reason()
            if stop is not None and stop.reason != "failed":
                continue
        if fatal or stop is not None:
            failed = [name for name, record in read_records(run).items() if record.state == "failed"]
            culprit = (failed or fatal or list(seen))[0]
            error = explain_death(run, seen[culprit], read_records(run).get(culprit))
            run_stop_quietly(run, f"{culprit} died")
            end_jobs(run, jobs, trainer_s=5.0)
            raise error
        time.sleep(POLL_S if jobs.executor == "local" else SLURM_POLL_S)


def _can_be_spared(name: str, seen: dict[str, Seen], *, judged: bool) -> bool:
    """Whether a run goes on without this job: while others of its array live, or when judges may be missing
    (`judged`: training waits for them)."""
    role = seen[name].job.role
    if role == "judge" and not judged:
        return True
    return role in ("sandbox", "judge") and any(other.alive for other in seen.values() if other.job.role == role)


def _tell_news(
    seen: dict[str, Seen], records: dict[str, JobRecord], say: Callable[[str], None], told: set[str]
) -> None:
    """Say once what a waiting user wants to know: requeues, held jobs, a lost worker among several."""
    for name, job in seen.items():
        record = records.get(name)
        if record is not None and record.restarts and (key := f"{name} restart {record.restarts}") not in told:
            told.add(key)
            say(f"{name} was requeued and runs again on {record.host}")
        if job.state == "PENDING" and "held" in job.reason.lower() and (key := f"{name} held") not in told:
            told.add(key)
            say(f"{name} is held by Slurm ({job.reason}): `scontrol release {job.job.id}` lets it run")
        if job.job.role in ("sandbox", "judge") and not job.alive and (key := f"{name} lost") not in told:
            told.add(key)
            say(f"{name} has ended ({job.state}); see {job.job.log}")


def explain_death(run: RunDir, seen: Seen, record: JobRecord | None) -> JobFailed:
    """Why a job died, in its own words if it had any, else by the end of its log."""
    name = seen.job.name
    resume = "correct the cause, then start the same command again: the run resumes from its last checkpoint"
    if shutil.disk_usage(run.path).free < 1 << 20:
        return JobFailed(
            f"{name} died: the disk is full",
            where=str(run.path),
            remedy="free space on that file system, then start the same command again: the run resumes",
        )
    if record is not None and record.error:
        return JobFailed(f"{name} failed: {record.error}", where=f"log: {seen.job.log}", remedy=resume)
    if seen.state == "OUT_OF_MEMORY":
        resume = f"raise jobs.{seen.job.role}.memory_mib in the site config, then start the same command again"
    how = f" (Slurm: {seen.state}{', ' + seen.reason if seen.reason else ''})" if seen.state != "ENDED" else ""
    what = "ended before the run was done" if record and record.state != "running" else "died without a word"
    lines = tail(Path(seen.job.log), 12)
    shown = "".join(f"\n    {line}" for line in lines) or " (its log is empty)"
    return JobFailed(f"{name} {what}{how}; the end of its log:{shown}", where=f"log: {seen.job.log}", remedy=resume)


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def run_stop_quietly(run: RunDir, detail: str) -> None:
    """Write the stop file if the disk lets us: ending jobs must also work on a full one."""
    with contextlib.suppress(EctypeError):
        run.request_stop("failed", detail)


def end_jobs(run: RunDir, jobs: Jobs, *, trainer_s: float, others_s: float = 15.0) -> None:
    """End what is alive: ask the trainer and give it `trainer_s` to save, then the rest, then kill."""
    for number, patience_s in ((signal.SIGTERM, trainer_s), (signal.SIGKILL, others_s)):
        _signal(jobs, [j for j in _alive(jobs) if j.role == "trainer"], number)
        _wait_gone(jobs, patience_s, lambda j: j.role == "trainer")
    run_stop_quietly(run, "ended")
    _wait_gone(jobs, others_s if run.stop_reason() is not None else 0.0, lambda j: True)
    _signal(jobs, _alive(jobs), signal.SIGTERM)
    _wait_gone(jobs, others_s, lambda j: True)
    kill_jobs(jobs)


def kill_jobs(jobs: Jobs) -> None:
    """End every job that is alive by force, and wait until it is gone."""
    remaining = _alive(jobs)
    if remaining:
        _signal(jobs, remaining, signal.SIGKILL)
        _wait_gone(jobs, 60.0, lambda j: True)


def cancel(run: RunDir, jobs: Jobs) -> list[str]:
    """End the run on the user's wish; the trainer may save its state first. Returns the names of what was alive."""
    alive = [job.name for job in _alive(jobs)]
    if alive:
        with contextlib.suppress(EctypeError):
            run.request_stop("cancelled")
        end_jobs(run, jobs, trainer_s=CANCEL_GRACE_S)
    return alive


def _alive(jobs: Jobs) -> list[Submitted]:
    """What is alive; everything when Slurm does not answer (cancelling an ended job is harmless)."""
    try:
        return alive_jobs(jobs)
    except EctypeError:
        return list(jobs.jobs)


def _wait_gone(jobs: Jobs, timeout_s: float, which: Callable[[Submitted], bool]) -> None:
    deadline = time.monotonic() + timeout_s
    while any(which(job) for job in _alive(jobs)) and time.monotonic() < deadline:
        time.sleep(0.1 if jobs.executor == "local" else 0.5)


def _signal(jobs: Jobs, chosen: list[Submitted], number: signal.Signals) -> None:
    if not chosen:
        return
    if jobs.executor == "slurm":
        # scancel itself sends SIGTERM, and SIGKILL after Slurm's KillWait
        force = ["--signal=KILL", "--full"] if number == signal.SIGKILL else []
        _run("scancel", *force, *(job.id for job in chosen))
        return
    for job in chosen:
        members = session_members(int(job.id), job.ticks)
        if number != signal.SIGKILL and int(job.id) in members:
            members = [int(job.id)]  # submitit forwards it to what it started
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)


def jobs_of(run: RunDir) -> Jobs:
    """The jobs of the last launch; raises EctypeError when the run was never started."""
    jobs = read_jobs(run)
    if jobs is None:
        raise EctypeError("this run has no jobs", where=str(run.path), remedy="start it: ectype train or ectype submit")
    return jobs
