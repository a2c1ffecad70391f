"""Forks the process that becomes a command, so that it has little left to do before that.

After a fork whatever either process writes to is copied, page by page, and an interpreter writes to many: what the init
does for the new process costs a fraction of what the same costs there. So the process is born as the kernel's first
choice where memory runs out on the node, and the init binds it to its cores while it gets ready; it does not become the
command before it is bound. Runs in the cell's init (standard library only).
"""

from __future__ import annotations

import os
import signal

from sandbox import guest_filter
from sandbox import guest_kernel as kernel


class Forks:
    def __init__(self, cores: guest_filter.Cores) -> None:
        """No command may be alive."""
        self._cores = cores
        kernel.inspection(True)  # the file belongs to root otherwise
        try:
            self._order = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        finally:
            kernel.inspection(False)
        self._own_place = os.read(self._order, 16)

    def fork(self, cpus: list[int]) -> tuple[int, int]:
        """As `os.fork`, and a descriptor: the new process must `wait` for it, the init must close it.

        The process is bound to `cpus`; it may use all cores when there are none. Raises OSError; then nothing runs.
        """
        ready, bound = os.pipe()
        pid = -1
        os.pwrite(self._order, b"1000", 0)
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                os.pwrite(self._order, self._own_place, 0)
            if pid < 0:
                os.close(ready)
                os.close(bound)
        if pid == 0:
            return pid, ready
        try:
            if cpus:
                self._cores.bind(pid, cpus)
            os.write(bound, b"1")
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ready)
            raise
        finally:
            os.close(bound)
        return pid, ready


def wait(ready: int) -> None:
    """Return when this process is bound."""
    os.read(ready, 1)
