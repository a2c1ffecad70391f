"""Whether a process that was started earlier is still the one that runs under its number (Linux, /proc)."""

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


def is_running(pid: int, ticks: int) -> bool:
    """Whether the process that had `pid` and started at `ticks` still runs."""
    return start_ticks(pid) == ticks
