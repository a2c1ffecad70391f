"""A real one-host Slurm for tests: started by root, used by an ordinary user, gone without a trace afterwards.

The cluster and everything that it runs live in a mount namespace of their own, in which the checkout and the virtual
environment are mounted below a folder that the user can read, wherever they really are.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
USER = "ectype"


class SlurmUnavailable(Exception):
    """Why there can be no cluster on this machine."""


class SlurmCluster:
    """`user(...)` runs a command as the ordinary user, `root(...)` as root, both inside the cluster's view."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise SlurmUnavailable("only root can start a Slurm that runs jobs of another user")
        try:
            self.account = pwd.getpwnam(USER)
        except KeyError:
            raise SlurmUnavailable(f"there is no user `{USER}` (make setup adds it)") from None
        for program in ("slurmctld", "slurmd", "munged", "apptainer"):
            if shutil.which(program) is None:
                raise SlurmUnavailable(f"{program} is not installed (make setup installs it)")
        self.base = Path(tempfile.mkdtemp(prefix="ectype-slurm-", dir="/tmp"))
        self.base.chmod(0o755)
        self.home = self.base / "home"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.account.pw_uid, self.account.pw_gid)
        self.checkout = self.base / "checkout"
        self.python = str(self._mount_point(Path(sys.prefix)) / "bin" / "python")
        self._start()

    def _mount_point(self, prefix: Path) -> Path:
        return self.checkout / prefix.relative_to(REPO) if prefix.is_relative_to(REPO) else self.base / "venv"

    def _start(self) -> None:
        mounts = {self.checkout: REPO, self._mount_point(Path(sys.prefix)): Path(sys.prefix)}
        commands = ["set -e"]
        for target, source in mounts.items():
            if target.is_relative_to(self.checkout) and target != self.checkout:
                continue  # is there with the checkout
            target.mkdir()
            commands.append(f"mount --bind '{source}' '{target}'")
        commands.append(f"exec bash '{HERE}/slurm_up.sh' '{self.base}'")
        started = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", "\n".join(commands)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if started.returncode != 0:
            self.stop()
            raise SlurmUnavailable(f"Slurm did not start: {started.stderr[-2000:]}")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.base}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "LANG": "C.UTF-8",
            "SLURM_CONF": f"{self.base}/etc/slurm.conf",
            "PYTHONPATH": str(self.checkout),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }

    def _enter(self) -> list[str]:
        pid = (self.base / "run" / "slurmctld.pid").read_text().strip()
        return ["nsenter", f"--mount=/proc/{pid}/ns/mnt"]

    def user(
        self, *command: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the ordinary user."""
        drop = ["setpriv", f"--reuid={USER}", f"--regid={self.account.pw_gid}", "--init-groups"]
        return self._run([*drop, *command], cwd or self.home, self.environment | dict(env or {}), check)

    def root(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run(command, Path("/"), self.environment, check)

    def ectype(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command line of this checkout as the ordinary user."""
        return self.user(self.python, "-m", "jobs.cli", *arguments, check=check)

    def _run(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], check: bool
    ) -> subprocess.CompletedProcess[str]:
        inside = ["bash", "-c", 'cd "$1" && shift && exec "$@"', "bash", str(cwd), *command]
        done = subprocess.run(
            [*self._enter(), *inside], env=dict(env), capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def states(self) -> dict[str, str]:
        """State of every job that Slurm remembers, by id (`12`, `13_0`)."""
        lines = self.root("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T").stdout.splitlines()
        return dict(line.split("|") for line in lines)

    def leftovers(self) -> list[str]:
        """Processes of users (not of Slurm itself) that belong to this cluster and are still there."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if folder.stat().st_uid != self.account.pw_uid:
                    continue
                text = (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes()
            except OSError:
                continue
            if str(self.base).encode() in text:
                found.append(f"{folder.name}: {text[:200]!r}")
        return found

    def stop(self) -> None:
        """Cancel every job, stop the daemons, remove the folder."""
        try:
            if (self.base / "run" / "slurmctld.pid").exists():
                self.root("bash", str(HERE / "slurm_down.sh"), str(self.base), check=False)
        finally:
            shutil.rmtree(self.base, ignore_errors=True)


def wait_for(what: str, condition: Callable[[], bool], *, patience_s: float = 300.0) -> None:
    """Poll until `condition`; the patience only keeps a broken test from hanging."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for: {what}")
        time.sleep(0.5)
