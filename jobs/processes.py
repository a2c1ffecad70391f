"""What is left of a session of processes that was started earlier (Linux, /proc).

A local job is a session: its first process leads it, and may die before those that it started. The job is over when all
of them are gone.
"""

from __future__ import annotations

from pathlib import Path


def start_ticks(pid: int) -> int | None:
    """Start time of a running process in clock ticks since boot; None when it has ended (a zombie has)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def session_members(leader: int, ticks: int) -> list[int]:
    """Processes of the session that the process `leader`, started at `ticks`, began; also when it has died since.

    The kernel gives no new process the number of a session that still has members, so one with that number and another
    start time means that the old session is gone.
    """
    now = start_ticks(leader)
    if now is not None and now != ticks:
        return []
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                members.append(int(entry.name))
    return members
