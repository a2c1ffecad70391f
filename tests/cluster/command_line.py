"""The command line as a user starts it, and whatever it started: found again by a mark in the environment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.slurm import REPO, wait_for

SMALL = REPO / "tests" / "slurm" / "small.yaml"


class CommandLine:
    """Starts `ectype` in a session of its own; `leftovers` are processes that bear this object's mark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.environment = dict(os.environ) | {
            "ECTYPE_TEST_MARK": self.mark,
            "PYTHONPATH": str(REPO),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", *arguments],
            cwd=self.folder,
            env=self.environment | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, env=env)
        out, err = process.communicate()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def leftovers(self) -> dict[int, str]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def assert_nothing_left(self, patience_s: float = 30) -> None:
        wait_for(f"the end of {list(self.leftovers().values())}", lambda: not self.leftovers(), patience_s=patience_s)

    def clean(self) -> None:
        for pid in self.leftovers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
