"""Which cores a command runs on: as many as its limit says, those with the fewest commands on them.

Cores are the ones that this process may use (a Slurm step's, say). A command is bound to its cores when it starts and
cannot leave them; the choice is made anew for every command, so that load evens out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache


class Cores:
    def __init__(self, usable: Iterable[int]) -> None:
        self._load = dict.fromkeys(sorted(usable), 0)

    @contextmanager
    def take(self, count: int) -> Iterator[list[int]]:
        """`count` cores for one command; [] when it may use all there are. Equally loaded ones take turns."""
        if count >= len(self._load):
            yield []
            return
        taken = sorted(self._load, key=lambda core: self._load[core])[:count]
        for core in taken:
            self._load[core] = self._load.pop(core) + 1  # to the end: next time it is another one's turn
        try:
            yield taken
        finally:
            for core in taken:
                self._load[core] -= 1


@cache
def cores() -> Cores:
    """The cores of this process, shared by all its sandboxes."""
    return Cores(os.sched_getaffinity(0))
