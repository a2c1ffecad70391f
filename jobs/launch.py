"""Starts the jobs of a run through submitit, on this machine or on Slurm: one path for both.

Comes in: a run folder, under its launch lock. Goes out: `jobs.json` in it, with the id and the log of every job. When
one job cannot be submitted, those before it are cancelled. Waiting for jobs and ending them is `jobs.watch`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.local.local import LocalExecutor, LocalJob
from submitit.slurm.slurm import SlurmExecutor

from audit.errors import EctypeError
from jobs.job import Job, Role, die_with_parent
from jobs.processes import start_ticks
from jobs.run_dir import RunDir, disk_errors, write_atomically
from jobs.site_config import JobResources, Site

A_YEAR_MIN = 365 * 24 * 60


class Submitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One job as it was submitted. `id`: process id (local) or Slurm's id; `ticks`: start time of that process."""

    name: str
    role: Role
    id: str
    log: str
    ticks: int = 0


class Jobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of `jobs.json`."""

    executor: str
    jobs: tuple[Submitted, ...]


def launch(run: RunDir, site: Site, *, attached: bool) -> Jobs:
    """Submit controller, sandbox workers, judges if any, and trainer. `attached`: local jobs die with this process.

    The caller holds `run.launch_lock`. Raises EctypeError when a job is refused; nothing is left running then.
    """
    config = run.config()
    run.clear_for_start()
    submitted: list[Submitted] = []
    try:
        for role, count, ranks in (
            ("controller", 1, 1),
            ("sandbox", config.sandbox.workers, 1),
            *([("judge", config.judge.workers, 1)] if config.judge.enabled else []),
            ("trainer", 1, config.world_size),
        ):
            role = cast(Role, role)
            requeue_after_s = max(site.signal_delay_s - 20.0, 5.0)
            jobs = [
                Job(role, str(run.path), index, die_with_parent=site.executor == "local" and attached,
                    requeue_after_s=requeue_after_s)
                for index in range(count)
            ]  # fmt: skip
            submitted += _submit(run, site, config.name, role, jobs, ranks, attached)
            with disk_errors(run.path):
                record = Jobs(executor=site.executor, jobs=tuple(submitted))
                write_atomically(run.jobs_json, msgspec.json.encode(record).decode())
    except BaseException:
        from jobs.watch import kill_jobs

        kill_jobs(Jobs(executor=site.executor, jobs=tuple(submitted)))
        raise
    return record


def read_jobs(run: RunDir) -> Jobs | None:
    """The jobs of the last launch, or None when there was none."""
    try:
        return msgspec.json.decode(run.jobs_json.read_bytes(), type=Jobs)
    except FileNotFoundError:
        return None


def _submit(
    run: RunDir, site: Site, name: str, role: Role, jobs: list[Job], ranks: int, attached: bool
) -> list[Submitted]:
    with disk_errors(run.path):
        folder = _next_attempt(run.logs / role)
    executor = _executor(site, name, role, folder, ranks, attached)
    try:
        with _environment(site), executor.batch():
            handles = [executor.submit(job) for job in jobs]
    except (FailedJobError, FailedSubmissionError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise EctypeError(
            f"Slurm refused the {role} job: {reason}",
            where=f"jobs.{role} of the site config `{site.name}`",
            remedy="correct its partition, account, time or memory (`sinfo`, `sacctmgr show assoc`)",
        ) from error
    except OSError as error:
        raise EctypeError(f"the {role} job could not be started: {error}", where=str(folder)) from error
    return [
        Submitted(
            name=job.name,
            role=role,
            id=handle.job_id,
            log=str(handle.paths.stderr),
            ticks=start_ticks(int(handle.job_id)) or 0 if site.executor == "local" else 0,
        )
        for job, handle in zip(jobs, handles, strict=True)
    ]


def _next_attempt(folder: Path) -> Path:
    """`<folder>/0001`, `0002`, ...: one log folder per start, and a link `latest` to the newest."""
    folder.mkdir(parents=True, exist_ok=True)
    number = max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=0) + 1
    attempt = folder / f"{number:04d}"
    attempt.mkdir()
    link = folder / ".latest"
    link.unlink(missing_ok=True)
    link.symlink_to(attempt.name)
    link.replace(folder / "latest")
    return attempt


def _executor(site: Site, name: str, role: Role, folder: Path, ranks: int, attached: bool) -> Any:
    if site.executor == "local":
        local = OwnSessionExecutor(folder, attached=attached)
        local.update_parameters(timeout_min=A_YEAR_MIN, tasks_per_node=ranks)
        return local
    resources: JobResources = getattr(site.jobs, role)
    slurm = SlurmExecutor(folder, max_num_timeout=site.max_timeouts)
    setup = list(resources.setup)
    if site.cache is not None:
        setup.insert(0, f"export ECTYPE_CACHE={shlex.quote(site.cache)}")
    parameters: dict[str, Any] = {
        "job_name": f"ectype-{name}-{role}",
        "time": resources.time_min,
        "mem": f"{resources.memory_mib}M",
        "wckey": None,  # submitit names one, which a cluster with accounting may refuse
        "nodes": 1,
        "ntasks_per_node": ranks,
        "cpus_per_task": resources.cpus,
        "signal_delay_s": site.signal_delay_s,
        "setup": setup,
        # since Slurm 22.05 a step no longer inherits --cpus-per-task; one dead rank must end the others
        "srun_args": [f"--cpus-per-task={resources.cpus}", "--kill-on-bad-exit=1"],
        "additional_parameters": {"requeue": True, **resources.options},
    }
    if resources.gpus:
        parameters["gpus_per_node"] = resources.gpus
    for key in ("partition", "account", "qos", "constraint"):
        if (value := getattr(resources, key)) is not None:
            parameters[key] = value
    slurm.update_parameters(**parameters)
    return slurm


@contextmanager
def _environment(site: Site) -> Iterator[None]:
    """The environment that jobs inherit: without the traces of a Slurm job that this process may itself run in."""
    saved = dict(os.environ)
    for key in saved:
        if key.startswith(("SLURM_", "SUBMITIT_")) and key not in ("SLURM_CONF", "SUBMITIT_PREEMPT_SIGNAL"):
            del os.environ[key]
    if site.cache is not None:
        os.environ["ECTYPE_CACHE"] = site.cache
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


class OwnSessionExecutor(LocalExecutor):
    """submitit's local executor, with each job in a session of its own: a Ctrl-C in the terminal reaches only the
    command line, which then ends the jobs in order. Attached jobs get SIGTERM when the command line dies."""

    def __init__(self, folder: Path, *, attached: bool) -> None:
        super().__init__(folder)
        self.attached = attached

    def _submit_command(self, command: str) -> LocalJob[Any]:
        ranks = self.parameters["tasks_per_node"]
        environment = dict(os.environ) | {
            "SUBMITIT_LOCAL_NTASKS": str(ranks),
            "SUBMITIT_LOCAL_COMMAND": command,
            "SUBMITIT_LOCAL_TIMEOUT_S": str(60 * self.parameters["timeout_min"]),
            "SUBMITIT_LOCAL_SIGNAL_DELAY_S": "30",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_STDERR_TO_STDOUT": "",
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_WITH_SHELL": "",
        }
        # not our own streams: whoever reads them would wait for the end of the run
        with (self.folder / "submitit.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "submitit.local._local", str(self.folder)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent if self.attached else None,
            )
        return LocalJob(self.folder, job_id=str(process.pid), process=process, tasks=list(range(ranks)))
