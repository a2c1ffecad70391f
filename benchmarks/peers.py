"""Environments of the programs that benchmarks measure beside this one: installed on first use, under the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from audit.errors import EctypeError
from containers.cache import cache_dir


def environment(name: str, *requirements: str) -> Path:
    """The `bin` folder of a peer's own virtual environment, made and filled on first use.

    Raises `EctypeError` where the package index cannot be reached or does not have it.
    """
    folder = cache_dir() / "peers" / name
    ready = folder / "ready"
    if not ready.exists():
        python = folder / "bin" / "python"
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *requirements],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise EctypeError(
                    f"the peer {name} cannot be installed: {done.stderr.strip()[-300:]}",
                    where=str(folder),
                    remedy="make a package index reachable, or leave the peers out (--no-peer, --no-peers)",
                )
        ready.touch()
    return folder / "bin"
