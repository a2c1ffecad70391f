"""The watchdog of a cell: what all processes of a command use together, and which limit they have passed by it.

Runs in the cell's init (standard library only), which sees every process of the cell in its /proc, whatever they do to
hide. It only looks; ending the command is for whoever asks. What it must never do is to call an honest command guilty:
what is shared counts once, and what is only a bound is looked at closely before it counts.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import resource
import time
from collections.abc import Iterable, Iterator
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _socket_bytes() -> int:
    """What the kernel keeps for one socket that nobody reads from: its default, which no command can raise."""
    pair = _socket.socketpair()
    size = pair[0].getsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF)
    for end in pair:
        end.close()
    return size


_SOCKET_BYTES = _socket_bytes()
_PIPE_BYTES = 64 << 10
_SEMAPHORE_BYTES = 64


class Watchdog:
    """Sums up what all processes of the cell use, and says which limit they have passed together.

    Memory is what is resident, and what the kernel keeps for them: System V objects, which belong to no process and
    outlive them, and data in sockets and pipes, of which only the greatest possible amount is known.
    """

    def __init__(self, limits: dict[str, Any], *, count_starving: bool = False) -> None:
        self._memory_bytes = limits["memory_bytes"]
        self._cpu_s = limits["cpu_s"]
        self._reaped = reaped_cpu()
        self.peak_threads = 0
        self.starved_s = 0.0
        """Seconds in which one of the threads was ready and had to wait for a core; at most what has passed."""
        self._count_starving = count_starving
        self._waited: dict[str, _Wait] = {}
        self._looked = time.monotonic_ns()
        self.peak_bytes = 0

    def check(self, ended: int = 0) -> str:
        threads = ticks = 0
        sizes: dict[str, int] = {}
        descriptors = 0
        for name in os.listdir("/proc"):
            if not name.isdigit() or name == "1":
                continue
            fields = _stat(name)
            if fields is None:
                continue
            count = int(fields[17])
            if fields[0] == b"Z" and count > 1:
                # the first thread has ended, and with it all that can be seen of the memory by its name
                name, fields = next(_living(name), (name, fields))
            ticks += sum(map(int, fields[11:15]))  # its own, and of children that it has waited for
            threads += count
            descriptors += sum(map(_count_descriptors, _tables(name, count)))
            sizes[name] = int(fields[21]) * _PAGE
        if self._count_starving:
            self.look_for_starving(sizes)
        self.peak_threads = max(self.peak_threads, threads + ended)
        if ticks / _TICKS + reaped_cpu() - self._reaped > self._cpu_s:
            return "timeout"
        # resident sizes and descriptors count what is shared once per process, so they only raise suspicion
        objects = _system_v_bytes()
        self._note_peak(sizes, objects)
        if sum(sizes.values()) + objects + descriptors * _SOCKET_BYTES <= self._memory_bytes:
            return ""
        # looked at one after the other, processes that end meanwhile leave their share to those that come later:
        # what is too much must be so twice
        for _ in range(2):
            used = objects + sum(_proportional(pid, resident) for pid, resident in sizes.items())
            if used + descriptors * _SOCKET_BYTES > self._memory_bytes:
                used += _buffered_bytes(table for pid in sizes for table in _tables(pid))
            if used <= self._memory_bytes:
                return ""
        return "out_of_memory"

    def look_for_starving(self, pids: Iterable[str] | None = None) -> None:
        """Add the longest that any one thread has waited since the last look: what others did meanwhile overlaps it."""
        now = time.monotonic_ns()
        passed, self._looked = now - self._looked, now
        waits = {}
        longest = 0
        for pid in filter(str.isdigit, os.listdir("/proc")) if pids is None else pids:
            for task, state, ran, delayed in _schedules(pid) if pid != "1" else ():
                before = self._waited.get(task)
                wait = waits[task] = (before or _Wait(ran, 0, 0)).after(state, ran, delayed, passed if before else 0)
                longest = max(longest, wait.spent - (before.spent if before else 0))
        self._waited = waits
        self.starved_s += longest / 1e9

    def _note_peak(self, sizes: dict[str, int], objects: int) -> None:
        """What is shared counts once here too; it is looked at closely only when there may be a new peak."""
        used = sum(sizes.values()) + objects
        if used > self.peak_bytes and len(sizes) > 1:
            used = min(used, objects + sum(_proportional(pid, resident) for pid, resident in sizes.items()))
        self.peak_bytes = max(self.peak_bytes, used)


def _stat(pid: str) -> list[bytes] | None:
    """Fields of /proc/PID/stat from the third on; None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _living(pid: str) -> Iterator[tuple[str, list[bytes]]]:
    """The threads of a process that have not ended: the kernel knows the process by the id of each."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            fields = _stat(thread)
            if fields is not None and fields[0] != b"Z":
                yield thread, fields


def _tables(pid: str, threads: int = 2) -> list[str]:
    """Names for the tables of descriptors of a process: each thread may have one of its own, hidden from the others."""
    if threads > 1:
        with contextlib.suppress(OSError):
            return [f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    return [pid]


class _Wait:
    """What one thread has waited for, in nanoseconds, as far as two looks and the kernel's count tell.

    The kernel counts a wait for a core when it is over. A thread that is ready, or waits for a disk, and has not run
    since the last look has waited all the time until then.
    """

    __slots__ = ("blocked", "pending", "ran", "spent")

    def __init__(self, ran: int, blocked: int, spent: int, pending: int = 0) -> None:
        self.ran, self.blocked, self.spent, self.pending = ran, blocked, spent, pending

    def after(self, state: bytes, ran: int, delayed: int, passed: int) -> _Wait:
        idle = ran == self.ran
        blocked = self.blocked + (passed if idle and state == b"D" else 0)
        pending = self.pending + passed if idle and state == b"R" else 0
        return _Wait(ran, blocked, max(self.spent, delayed + blocked + pending), pending)


def _schedules(pid: str) -> Iterator[tuple[str, bytes, int, int]]:
    """Each thread of a process: its state, and the nanoseconds it has run and waited for a core (0 if not counted)."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            fields = _stat(f"{pid}/task/{thread}")
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                ran, delayed = map(int, file.read().split()[:2])
                if fields is not None:
                    yield thread, fields[0], ran, delayed


def _count_descriptors(table: str) -> int:
    """How many there are in a table: the size of its folder, before Linux 6.2 always 0."""
    try:
        return os.stat(f"/proc/{table}/fd").st_size or len(os.listdir(f"/proc/{table}/fd"))
    except OSError:
        return 0  # it has ended


def _system_v_bytes() -> int:
    """Segments as far as they are resident, messages, semaphores. Segments that are attached count here too."""
    total = 0
    for name, column, size in (("shm", 14, 1), ("msg", 3, 1), ("sem", 3, _SEMAPHORE_BYTES)):
        # a kernel without System V objects has no such file
        with contextlib.suppress(FileNotFoundError), open(f"/proc/sysvipc/{name}", "rb") as file:
            next(file)
            total += sum(int(line.split()[column]) for line in file) * size
    return total


def _buffered_bytes(tables: Iterable[str]) -> int:
    """The most that can lie in the sockets and pipes of these tables, each counted once."""
    found: set[str] = set()
    for table in tables:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{table}/fd") as folder:
            for entry in folder:
                with contextlib.suppress(OSError):
                    found.add(os.readlink(entry.path))
    return sum(_SOCKET_BYTES * name.startswith("socket:") + _PIPE_BYTES * name.startswith("pipe:") for name in found)


def _proportional(pid: str, resident: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except ProcessLookupError:
        return 0  # it has ended, and nobody has waited for it yet
    except OSError:
        return resident if os.path.isdir(f"/proc/{pid}") else 0
    return 0


def reaped_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
