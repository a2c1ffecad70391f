"""Starts the ranks of a small world, and ends them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).parents[2]


@contextmanager
def ranks(world: int, module: str, *arguments: str) -> Iterator[list[subprocess.Popen[str]]]:
    """`world` processes of `python -m module arguments`, in one gloo world on this host; none is left afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONWARNINGS": "ignore",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=REPO,
            env=shared | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()
