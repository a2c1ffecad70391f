"""One process at a time: a lock file that says who holds it and is never left behind as a trap.

`flock` decides; the text in the file names the holder (host, process, Slurm job) for messages and for the one case that
flock cannot see: a holder on another host of a file system whose locks are local to a host. A dead holder's lock is
taken over, a requeued job takes over its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from audit.errors import EctypeError


class FileLock:
    """Exclusive lock on `path`, held from `acquire` (or `with`) to `release` or the end of the process.

    `thing` is what the lock protects, in the words of the user (`run folder`). Raises EctypeError when it is held.
    """

    def __init__(self, path: Path, thing: str) -> None:
        self.path = path
        self.thing = thing
        self._fd: int | None = None

    def acquire(self) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._in_use(_read(fd)) from None
            holder = _read(fd)
            if holder and _alive_elsewhere(holder):
                raise self._in_use(holder)
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(_myself()).encode(), 0)
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Let go; the file stays (removing it would race with the next holder) but names nobody."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> str | None:
        """Who holds it now, in words, or None."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            record = _read(fd)
            return _describe(record) if record and _alive_elsewhere(record) else None
        except BlockingIOError:
            return _describe(_read(fd))
        finally:
            os.close(fd)

    def _in_use(self, holder: dict[str, str | int]) -> EctypeError:
        return EctypeError(
            f"the {self.thing} is in use by {_describe(holder)}",
            where=str(self.path.parent),
            remedy="wait for it to end, or end it (`ectype cancel RUN`); if that host is gone for good, delete "
            f"{self.path.name}",
        )

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


def _myself() -> dict[str, str | int]:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "slurm_job": os.environ.get("SLURM_JOB_ID", ""),
        "cluster": os.environ.get("SLURM_CLUSTER_NAME", ""),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _read(fd: int) -> dict[str, str | int]:
    """The holder's record; empty when nobody wrote one or the writer died while writing."""
    try:
        record = json.loads(os.pread(fd, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _alive_elsewhere(holder: dict[str, str | int]) -> bool:
    """Whether a holder that has no flock here may still be at work on another host."""
    if holder.get("host") == socket.gethostname():
        return False
    job = str(holder.get("slurm_job", ""))
    if not job:
        return True
    if job == os.environ.get("SLURM_JOB_ID") or shutil.which("squeue") is None:
        return job != os.environ.get("SLURM_JOB_ID")
    answer = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, timeout=30)
    if answer.returncode != 0:
        return "Invalid job id" not in answer.stderr
    return bool(answer.stdout.strip())


def _describe(holder: dict[str, str | int]) -> str:
    if not holder:
        return "another process"
    job = f", Slurm job {holder['slurm_job']}" if holder.get("slurm_job") else ""
    return f"process {holder.get('pid')} on {holder.get('host')}{job}, since {holder.get('since')}"
