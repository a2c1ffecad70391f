"""Sees when a command opens one of the decoys, in whatever way it came to their names.

The cell's init watches the files themselves (inotify): no variable, encoding or program between a command and a file
can hide that it was opened. Looking at names, sizes or modes opens nothing. Runs in the cell's init (standard library
only); commands cannot see or end the watch, and may have only a few of their own, because the kernel counts them for
the worker's user as a whole.
"""

from __future__ import annotations

import contextlib
import os

from sandbox import guest_kernel as kernel

_OWN_WATCHES = 8
_CHUNK = 1 << 16


class Watch:
    def __init__(self, paths: list[str]) -> None:
        """Watch `paths`. `fd` is -1 where this user has no watch left on this machine: then nothing is seen."""
        self.fd = -1
        with contextlib.suppress(OSError):
            fd = kernel.inotify()
            for path in paths:
                kernel.watch_opening(fd, path)
            self.fd = fd
        with contextlib.suppress(OSError):  # not every kernel lets a namespace set its own bounds
            for name, value in (("max_inotify_instances", _OWN_WATCHES), ("max_inotify_watches", 1024)):
                with open(f"/proc/sys/user/{name}", "w", encoding="ascii") as file:
                    file.write(str(value))

    def opened(self) -> bool:
        """True when one of the files was opened since the last call. No command may be alive."""
        found = False
        while self.fd >= 0:
            try:
                found = bool(os.read(self.fd, _CHUNK)) or found
            except BlockingIOError:
                break
        return found
