"""Runs one command so that nothing of it outlives whoever asked for it, and its output stays bounded.

Started by its path in any Python (standard library only): `python supervise.py LOG LOG_BYTES FOLDER COMMAND...`.
Standard input is a pipe that the asker holds open and never writes to: when it closes, or the asker is gone, or
SIGTERM comes, the command gets SIGTERM, a few seconds, and then SIGKILL. What it has started, also what has left its
session, is ended the same way, since this process is the reaper of all orphans below it; then FOLDER is removed. When
the command ends by itself, FOLDER is left to the asker. The exit status is the command's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

GRACE_S = 10.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class RollingLog:
    """A file of at most `limit` bytes, and beside it, as `<name>.1`, the `limit` bytes before."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path, self._limit = path, limit
        self._file = path.open("wb", buffering=0)
        self._size = 0

    def write(self, data: bytes) -> None:
        data = data[-self._limit :]
        if self._size + len(data) > self._limit:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = self._path.open("wb", buffering=0)
            self._size = 0
        self._size += self._file.write(data)


def main(arguments: list[str]) -> int:
    path, limit, folder, *command = arguments
    log = RollingLog(Path(path), int(limit))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    asker = os.getppid()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    assert process.stdout is not None
    output = process.stdout.fileno()
    deadline: float | None = None
    while process.poll() is None:
        ready, _, _ = select.select([output] if deadline else [output, sys.stdin], [], [], 0.25)
        if output in ready and not _pump(output, log):
            time.sleep(0.05)  # it has closed its output and still runs
        if deadline is None and (stopping or sys.stdin in ready or os.getppid() != asker):
            process.terminate()
            deadline = time.monotonic() + GRACE_S
        elif deadline is not None and time.monotonic() > deadline:
            process.kill()
    _end_descendants()
    while select.select([output], [], [], 0)[0] and _pump(output, log):
        pass
    if deadline is not None:
        shutil.rmtree(folder, ignore_errors=True)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _pump(output: int, log: RollingLog) -> bool:
    data = os.read(output, 1 << 16)
    with contextlib.suppress(OSError):  # a full disk must not stop the server
        log.write(data)
    return bool(data)


def _end_descendants() -> None:
    """End what the command has left behind: the orphans of a process that ends become our children.

    Those who clean up after others (Python's resource tracker holds the names of shared memory) get the time to do so.
    """
    asked: set[int] = set()
    deadline = time.monotonic() + GRACE_S
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(pid) == os.getpid()}
        if not children:
            return
        over = time.monotonic() > deadline
        for pid in children if over else children - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if over else signal.SIGTERM)
        asked |= children
        time.sleep(0.02)


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
