"""Where ectype keeps what it can make again: images, generated task suites, converted models.

In goes the environment, out comes a folder. Root uses a folder of the whole machine, so that sandboxes (which run as
an ordinary user) and ordinary users can read it; everybody else has a folder of their own and may read the shared one.
Nothing secret of a run is ever kept here: runs have their own folders.
"""

from __future__ import annotations

import os
from pathlib import Path

SHARED_CACHE = Path("/var/cache/ectype")


def cache_dir() -> Path:
    """The folder this user writes to, created if it is missing (mode 0755 where it is the machine's)."""
    chosen = os.environ.get("ECTYPE_CACHE")
    if chosen:
        path = Path(chosen).absolute()
    elif os.geteuid() == 0:
        path = SHARED_CACHE
    else:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        path = Path(home) / "ectype"
    path.mkdir(parents=True, exist_ok=True)
    return path


def cache_dirs() -> list[Path]:
    """Where to look for something that was already made: the user's own folder, then the machine's."""
    own = cache_dir()
    return [own] if own == SHARED_CACHE else [own, SHARED_CACHE]
