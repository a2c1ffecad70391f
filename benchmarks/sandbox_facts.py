"""What is there: processes and their memory, mounts, files, descriptors, as the kernel tells it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def tree(root: int) -> list[int]:
    """`root` and everything below it."""
    pids = [root]
    for parent in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    pids += map(int, file.read().split())
    return pids


def pss_bytes(pid: int, sharers: int = 1) -> int:
    """Proportional set size of a process: what it shares with others counts in parts.

    A process that cannot be inspected is not readable to an ordinary user; then all of its anonymous memory counts,
    and of its files the part of one among `sharers` processes that are alike.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except PermissionError:
        sizes = _status_bytes(pid)
        return sizes.get("RssAnon", 0) + (sizes.get("RssFile", 0) + sizes.get("RssShmem", 0)) // sharers
    except (OSError, StopIteration):
        return 0


def _status_bytes(pid: int) -> dict[str, int]:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        fields = (line.split() for line in file)
        return {words[0].rstrip(":"): int(words[1]) << 10 for words in fields if words[0].startswith("Rss")}


class Snapshot:
    """Everything that sandboxes could leave behind: below this process, in its mounts, in `folders`."""

    def __init__(self, folders: Iterable[Path], uid: int) -> None:
        self.processes = {f"process {pid}: {_name(pid)}" for pid in tree(os.getpid())[1:]}
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            self.mounts = {f"mount {line.split()[4]}" for line in file if "apptainer" in line or "ectype" in line}
        self.files = {f"file {path}" for folder in folders for path in folder.rglob("*")}
        with os.scandir("/dev/shm") as found:
            self.files |= {f"file {entry.path}" for entry in found if _owner(entry) == uid}
        self.descriptors = len(os.listdir("/proc/self/fd"))

    def left(self, before: Snapshot) -> list[str]:
        """What is here and was not there before."""
        found = (self.processes - before.processes) | (self.mounts - before.mounts) | (self.files - before.files)
        more = self.descriptors - before.descriptors
        return sorted(found) + ([f"{more} descriptors of this process"] if more > 0 else [])


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return "?"


def _owner(entry: os.DirEntry[str]) -> int:
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False).st_uid
    return -1
