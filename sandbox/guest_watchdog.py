"""The watchdog of a cell: what all processes of a command use together, and which limit they have passed by it.

Runs in the cell's init (standard library only), which sees every process of the cell in its /proc, whatever they do to
hide. It only looks; ending the command is for whoever asks. What it must never do is to call an honest command guilty:
what is shared counts once, and what is only a bound is looked at closely before it counts.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterable, Iterator
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SOCKET_BYTES = 208 << 10
"""What the kernel keeps for one socket that nobody reads from (net.core.wmem_default; commands cannot raise it)."""
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
        self._waited: dict[str, int] = {}
        self.peak_bytes = 0

    def check(self, ended: int = 0) -> str:
        threads = ticks = 0
        sizes: dict[str, int] = {}
        descriptors = 0
        for name in os.listdir("/proc"):
            if not name.isdigit() or name == "1":
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            ticks += sum(map(int, fields[11:15]))  # its own, and of children that it has waited for
            threads += int(fields[17])
            descriptors += _count_descriptors(name)
            sizes[name] = int(fields[21]) * _PAGE
        if self._count_starving:
            self._look_for_starving(sizes)
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
                used += _buffered_bytes(sizes)
            if used <= self._memory_bytes:
                return ""
        return "out_of_memory"

    def _look_for_starving(self, pids: Iterable[str]) -> None:
        """Add the longest that any one thread has waited since the last look: what others did meanwhile overlaps it."""
        waited = {task: spent for pid in pids for task, spent in _run_delays(pid)}
        self.starved_s += max((spent - self._waited.get(task, 0) for task, spent in waited.items()), default=0) / 1e9
        self._waited = waited

    def _note_peak(self, sizes: dict[str, int], objects: int) -> None:
        """What is shared counts once here too; it is looked at closely only when there may be a new peak."""
        used = sum(sizes.values()) + objects
        if used > self.peak_bytes and len(sizes) > 1:
            used = min(used, objects + sum(_proportional(pid, resident) for pid, resident in sizes.items()))
        self.peak_bytes = max(self.peak_bytes, used)


def _run_delays(pid: str) -> Iterator[tuple[str, int]]:
    """Each thread of a process, and the nanoseconds it has waited for a core (0 where the kernel does not count)."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                yield thread, int(file.read().split()[1])


def _count_descriptors(pid: str) -> int:
    """How many a process has: the size of its folder, before Linux 6.2 always 0."""
    try:
        return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))
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


def _buffered_bytes(pids: Iterable[str]) -> int:
    """The most that can lie in the sockets and pipes of these processes, each counted once."""
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as folder:
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
