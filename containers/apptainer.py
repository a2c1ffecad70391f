"""A typed asyncio client of the Apptainer command line: start one container, talk to it, end it for certain.

Comes in: a directory image, a program, which network layers, what to bind. Goes out: a running container whose
standard input and output are streams. A container is ended by killing the init of its PID namespace: the kernel then
ends every process in it and Apptainer's own processes clean up and follow. Nothing is left behind, also when the caller
dies: the program inside must end when its standard input does. Never started as root where an ordinary user can be had.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pwd
import resource
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import EctypeError
from containers.isolation import SECCOMP_PROFILE, Isolation, NoNetworkIsolation
from containers.leftovers import VARIABLE, Holder, Purged, purge
from containers.processes import find_init

SANDBOX_USER = "ectype"
_STREAM_LIMIT = 1 << 20
_STDERR_KEPT = 4096
_START_TIMEOUT_S = 60.0
_DESCRIPTORS = 1 << 16


class ApptainerMissing(EctypeError):
    """There is no usable Apptainer on this machine."""


class ImageBroken(EctypeError):
    """A container of this image does not come up."""


class Bind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A folder or file of the host that is seen in the container."""

    source: Path
    target: str
    read_only: bool = True


class ContainerProcess:
    """One running container. `stdin` and `stdout` belong to the program inside."""

    def __init__(self, process: asyncio.subprocess.Process, image: Path, holder: Holder) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.pid = process.pid
        self.image = image
        self._process = process
        self._holder = holder
        holder.record(process.pid)
        self._init = 0
        """PID of the init of the container's PID namespace, 0 as long as there is none."""
        self._init_fd = -1
        """The same as a descriptor, which never means another process (kernels before 5.3 have none)."""
        self._stderr = bytearray()
        self._listener = asyncio.create_task(self._listen(process.stderr))

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(65536):
            self._stderr += chunk
            del self._stderr[:-_STDERR_KEPT]

    def stderr_tail(self) -> str:
        """The last 4 KiB of what Apptainer and the program have written to standard error."""
        return self._stderr.decode(errors="replace").strip()

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        return await self._process.wait()

    def _end_init(self) -> bool:
        """Send the container's init the signal it cannot ignore; False when there is no init yet."""
        if not self._find_init():
            return False
        with contextlib.suppress(ProcessLookupError):
            if self._init_fd >= 0:
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
            elif self.running:
                os.kill(self._init, signal.SIGKILL)
        return True

    async def wait_started(self) -> None:
        """Return when the container's init is there. Raises ImageBroken when Apptainer gives up before."""
        deadline = asyncio.get_running_loop().time() + _START_TIMEOUT_S
        while not self._find_init():
            if self._process.returncode == 0:
                return  # a short program: up and over between two looks
            if not self.running or asyncio.get_running_loop().time() > deadline:
                await self.kill()
                raise self.broken()
            await asyncio.sleep(0.005)

    def broken(self, reason: str = "") -> ImageBroken:
        return ImageBroken(
            f"a container of this image does not come up: {self.stderr_tail() or reason or 'no message'}",
            where=str(self.image),
            remedy="build the image again (`ectype image build`) and look at `ectype check`",
        )

    def _find_init(self) -> bool:
        if self._init:
            return True
        self._init = find_init(self.pid)
        if not self._init:
            return False
        self._holder.record(self._init)
        with contextlib.suppress(OSError):
            self._init_fd = os.pidfd_open(self._init)
        return True

    async def kill(self) -> None:
        """End the container and everything in it, and wait for that. May be called again."""
        if self._end_init():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._process.wait()), 5)
        if self.running:  # no init yet, or Apptainer does not follow it: its whole process group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        self._holder.forget(self.pid)
        self._holder.forget(self._init)
        self.stdin.close()
        await asyncio.wait([self._listener], timeout=1)  # the last words, which may say why
        self._listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listener

    def __del__(self) -> None:
        if self._init_fd >= 0:
            os.close(self._init_fd)


class Apptainer:
    """The Apptainer of this machine, and the user that its containers run as."""

    def __init__(self, binary: str, run_as: pwd.struct_passwd | None, config_dir: Path) -> None:
        self._binary = binary
        self._run_as = run_as
        self._config_dir = config_dir
        self._holder: Holder | None = None

    @classmethod
    async def find(cls, binary: str = "apptainer", run_as: str | None = None, folder: Path | None = None) -> Apptainer:
        """Look for Apptainer. As root, containers run as `run_as` (default: the user `ectype`).

        `folder`: for what Apptainer itself writes; it belongs to the containers' user.
        """
        path = shutil.which(binary)
        if path is None:
            raise ApptainerMissing(
                f"there is no `{binary}` on this machine",
                where=f"PATH={os.environ.get('PATH', '')}",
                remedy="run `bash containers/install.sh`, or load the site's module for Apptainer",
            )
        user = None
        if os.getuid() == 0:
            name = run_as or SANDBOX_USER
            try:
                user = pwd.getpwnam(name)
            except KeyError:
                raise ApptainerMissing(
                    f"sandboxes do not run as root, and there is no user `{name}`",
                    where="/etc/passwd",
                    remedy=f"useradd --system --create-home --home-dir /var/lib/{name} --shell /bin/bash {name}",
                ) from None
        found = cls(path, user, folder or _private_folder(os.getuid() if user is None else user.pw_uid))
        await found.version()
        return found

    async def version(self) -> str:
        process = await self.spawn(["--version"], stdin=asyncio.subprocess.DEVNULL)
        out, err = await process.communicate()
        if process.returncode != 0:
            raise ApptainerMissing(
                f"`{self._binary} --version` fails: {err.decode(errors='replace').strip()}",
                where=self._binary,
                remedy="install Apptainer again: `bash containers/install.sh`",
            )
        return out.decode().strip().removeprefix("apptainer version ")

    async def start(
        self,
        image: Path,
        argv: Sequence[str],
        *,
        isolation: Isolation,
        binds: Sequence[Bind] = (),
        env: Mapping[str, str] | None = None,
        hostname: str = "sandbox",
        wait: bool = True,
    ) -> ContainerProcess:
        """Run `argv` in a new container. Raises ImageBroken when the container does not come up; without `wait`, that
        is for the caller to find out."""
        if not os.path.exists(image):  # noqa: ASYNC240
            raise ImageBroken("there is no such image", where=str(image), remedy="`ectype image build`")
        options = ["exec", "--no-init", "--pwd", "/", *self.options(isolation, hostname)]
        for bind in binds:
            options += ["--bind", f"{bind.source}:{bind.target}{':ro' if bind.read_only else ''}"]
        for name, value in (env or {}).items():
            options += ["--env", f"{name}={value}"]
        process = await self.spawn(["--quiet", *options, str(image), *argv], stdin=asyncio.subprocess.PIPE)
        container = ContainerProcess(process, image, self._held())
        if wait:
            try:
                await container.wait_started()
            except BaseException:
                await asyncio.shield(container.kill())
                raise
        return container

    async def purge(self) -> Purged:
        """Remove what processes of this user that were killed have left on this machine."""
        return await asyncio.to_thread(purge, self._config_dir / f"holders-{os.geteuid()}", self._uid)

    @property
    def _uid(self) -> int:
        return os.getuid() if self._run_as is None else self._run_as.pw_uid

    def _held(self) -> Holder:
        if self._holder is None or not self._holder.tmp.is_dir():  # cleaners of /tmp may have taken it
            self._holder = Holder(self._config_dir / f"holders-{os.geteuid()}", self._uid)
        return self._holder

    def options(self, isolation: Isolation, hostname: str = "sandbox") -> list[str]:
        """What shuts a container off, as options of `apptainer exec` and `apptainer instance start`."""
        options = ["--containall", "--no-home", "--no-privs", "--drop-caps", "all"]
        options += ["--no-mount", "home,tmp,cwd,bind-paths,hostfs", "--hostname", hostname]
        if isolation.netns:
            options += ["--net", "--network", "none"]
        if isolation.seccomp:
            options += ["--security", f"seccomp:{self._profile()}"]
        return options

    def _profile(self) -> Path:
        """A copy of the profile where the containers' user can read it: the checkout may be out of its reach."""
        data = SECCOMP_PROFILE.read_bytes()
        copy = self._config_dir / f"seccomp-{hashlib.sha256(data).hexdigest()[:12]}.json"
        if not copy.exists():
            with tempfile.NamedTemporaryFile(dir=self._config_dir, delete=False) as file:
                file.write(data)
            os.chmod(file.name, 0o644)
            os.replace(file.name, copy)
        return copy

    async def spawn(self, arguments: Sequence[str], *, stdin: int) -> asyncio.subprocess.Process:
        """Start `apptainer ARGUMENTS` as the containers' user, with nothing of the caller's environment."""
        identity: dict[str, Any] = {}
        if self._run_as is not None:
            identity = {"user": self._run_as.pw_uid, "group": self._run_as.pw_gid, "extra_groups": []}
        folder = str(self._config_dir)
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": folder,
            "APPTAINER_CONFIGDIR": folder,
            "TMPDIR": str(self._held().tmp),
            VARIABLE: self._held().folder.name,
            "LC_ALL": "C.UTF-8",
        }
        try:
            return await asyncio.create_subprocess_exec(
                self._binary,
                *arguments,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                # nothing of the caller's environment: no token, no APPTAINER_BIND, no Slurm variable gets in
                env=environment,
                start_new_session=True,
                limit=_STREAM_LIMIT,
                **identity,
            )
        except OSError as error:
            raise ApptainerMissing(
                f"{self._binary} cannot be started{f' as {self._run_as.pw_name}' if self._run_as else ''}: {error}",
                where=self._binary,
                remedy="let that user read and execute it",
            ) from error


def make_room_for_descriptors() -> None:
    """Raise this process's limit of open files as far as it may: a container takes four, and 1024 is usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _private_folder(uid: int) -> Path:
    """A small folder that belongs to the containers' user, for what Apptainer may want to write."""
    folder = Path(f"/tmp/ectype-apptainer-{uid}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(folder, uid, -1)
    found = folder.lstat()
    if found.st_uid not in (uid, 0) or not folder.is_dir() or folder.is_symlink():
        raise ApptainerMissing(
            "the folder for Apptainer's own files belongs to somebody else", where=str(folder), remedy="remove it"
        )
    return folder


async def probe_isolation(apptainer: Apptainer, image: Path) -> Isolation:
    """Which network layers this machine offers, found out by starting a container with each alone.

    Raises NoNetworkIsolation when neither works.
    """
    works: dict[str, bool] = {}
    reasons = []
    for layer in ("netns", "seccomp"):
        alone = Isolation(netns=layer == "netns", seccomp=layer == "seccomp")
        try:
            container = await apptainer.start(image, ["/bin/true"], isolation=alone)
            works[layer] = await container.wait() == 0
            await container.kill()
            reason = container.stderr_tail()
        except ImageBroken as error:
            works[layer] = False
            reason = error.what
        if not works[layer]:
            reasons.append(f"{layer}: {reason or 'no message'}")
    if not any(works.values()):
        raise NoNetworkIsolation(
            "this machine offers neither an empty network namespace nor a seccomp profile: " + "; ".join(reasons),
            where=str(image),
            remedy="ask the site for user.max_net_namespaces > 0 or an Apptainer with seccomp; see `ectype check`",
        )
    return Isolation(**works)
