"""Processes of the host, looked at from outside: which one it is, what is below it, what it uses.

Reads only what every user may read of any process in /proc, since the processes of a container hide the rest. A process
that ends while it is looked at is simply not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process for certain: a PID is used again, but not with the same start time (ticks since boot)."""

    pid: int
    start: int


class Used(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """CPU time (of the processes and of those that they have waited for), and what is resident: pages that several
    processes share count in each of them."""

    processes: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0


def identify(pid: int) -> Process | None:
    """The process that has this PID now; None when there is none, or only its exit status."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else Process(pid, int(fields[19]))


def descend(pid: int) -> Iterator[int]:
    """`pid` and everything below it."""
    pending = [pid]
    while pending:
        pid = pending.pop()
        yield pid
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as children:
                    pending += map(int, children.read().split())
        except OSError:
            continue


def find_init(pid: int) -> int:
    """PID of the container's init among `pid` and what it has started; 0 when there is none."""
    for candidate in descend(pid):
        try:
            with open(f"/proc/{candidate}/status", encoding="utf-8", errors="replace") as status:
                inner = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
        except OSError:
            continue
        if len(inner) > 1 and inner[-1] == "1":
            return candidate
    return 0


def used_by(pid: int) -> Used:
    """What `pid` and everything below it use now."""
    processes = ticks = pages = 0
    for member in descend(pid):
        if fields := _stat(member):
            processes += 1
            ticks += sum(map(int, fields[11:15]))
            pages += int(fields[21])
    return Used(processes=processes, cpu_s=ticks / _TICKS, memory_bytes=pages * _PAGE)


def _stat(pid: int) -> list[bytes] | None:
    """Fields of /proc/PID/stat from the third on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None
