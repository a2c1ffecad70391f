"""Whether a command has run into the end of the workspace or of scratch, told by the file systems themselves.

A file system that a command has filled is a fact. One that was full before it began is none: then only a command that
has changed something in it (opening for writing, writing and creating show in the change time of a file or folder,
which nobody can set back, even when there was no space for the data) can have failed by it. Runs in the cell's init
(standard library only).
"""

from __future__ import annotations

import os
import time

_PLACES = {"/work": ("/work",), "/tmp": ("/tmp", "/dev/shm", "/case")}
"""A folder of each file system, and all the folders in which it is seen."""
_REALTIME_COARSE = 5
"""The clock of change times. It stands still for some milliseconds at a time."""


class Disks:
    def __init__(self) -> None:
        """Look before the command starts."""
        self._full_before = [folder for folder in _PLACES if _full(folder)]
        self._filled = False
        self._since = time.clock_gettime_ns(_REALTIME_COARSE)
        if self._full_before:
            before = self._since
            while self._since == before:  # what others have done until now must be earlier
                time.sleep(0.001)
                self._since = time.clock_gettime_ns(_REALTIME_COARSE)

    def look(self) -> None:
        """Look while it runs: it may remove what it has filled the disk with."""
        self._filled = self._filled or any(_full(folder) for folder in _PLACES if folder not in self._full_before)

    def hit(self) -> bool:
        """Whether a command that has failed has run into the end of either. No process of it may be alive."""
        self.look()
        return self._filled or any(
            _full(folder) and any(_changed(place, self._since) for place in _PLACES[folder])
            for folder in self._full_before
        )


def _full(folder: str) -> bool:
    found = os.statvfs(folder)
    return found.f_bavail == 0 or found.f_favail == 0


def _changed(folder: str, since: int) -> bool:
    """Whether anything in `folder` has a change time from `since` on. However deep folders are, nothing recurses."""
    pending = [folder]
    while pending:
        place = pending.pop()
        try:
            if os.lstat(place).st_ctime_ns >= since:
                return True
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                        return True
        except OSError:  # deeper than a path can be long
            continue
    return False
