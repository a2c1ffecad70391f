"""What a sandbox's commands are compared with: containers the usual way, and the least that the kernel asks for.

`Instances` are long-lived containers in which every command is an `apptainer exec instance://`, as providers on top of
Apptainer do it. `Floor` is a warm process on the host that forks, takes namespaces and execs: nothing less gives a
command namespaces of its own. Both run as the sandboxes' user, with the sandboxes' options where Apptainer takes them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

from containers.apptainer import Apptainer
from containers.isolation import Isolation

_FLOOR = """\
import ctypes, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def once(flags):
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        if flags and libc.unshare(flags) != 0:
            os._exit(ctypes.get_errno())
        os.execv("/bin/true", ["true"])
    status = os.waitpid(pid, 0)[1]
    if status != 0:
        sys.exit("unshare or exec failed: " + os.strerror(os.waitstatus_to_exitcode(status)))
    return time.perf_counter() - started
for line in sys.stdin:
    print(json.dumps([once(int(line)), once(0)]), flush=True)
"""
_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000
"""User, mount, PID and IPC: those of a cell."""


class PeerFailed(Exception):
    """What was to be compared with does not work here."""


async def bare_exec(apptainer: Apptainer, image: Path, isolation: Isolation, *extra: str) -> float:
    """Seconds of one `apptainer exec IMAGE true`, from its start to its end."""
    arguments = ["--quiet", "exec", *apptainer.options(isolation), *extra, str(image), "true"]
    return await _timed(apptainer, arguments)


async def _timed(apptainer: Apptainer, arguments: list[str]) -> float:
    started = time.perf_counter()
    process = await apptainer.spawn(arguments, stdin=asyncio.subprocess.DEVNULL)
    end = asyncio.ensure_future(process.communicate())
    try:
        _, err = await asyncio.shield(end)
    except asyncio.CancelledError:
        await end  # an instance that comes up after it was told to stop would stay
        raise
    took = time.perf_counter() - started
    if process.returncode != 0:
        raise PeerFailed(f"apptainer {' '.join(arguments)}: {err.decode(errors='replace').strip()}")
    return took


class Instances:
    """`count` running instances; `run(n)` is one command in one of them. Ended on exit, however that comes.

    `folder` takes the program that an instance starts with, which images built by Apptainer itself would contain.
    """

    def __init__(self, apptainer: Apptainer, image: Path, isolation: Isolation, count: int, folder: Path) -> None:
        self._apptainer = apptainer
        self._image = image
        self._actions = folder / "actions"
        self._options = [*apptainer.options(isolation), "--bind", f"{self._actions}:/.singularity.d/actions:ro"]
        self._names = [f"{folder.name}-{number}" for number in range(count)]

    async def __aenter__(self) -> Instances:
        self._actions.mkdir()
        start = self._actions / "start"
        start.write_text("#!/bin/sh\nexec sleep infinity\n")
        start.chmod(0o755)
        try:
            for name in self._names:
                await _timed(self._apptainer, ["--quiet", "instance", "start", *self._options, str(self._image), name])
        except BaseException:
            await asyncio.shield(self._stop())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self._stop())

    async def _stop(self) -> None:
        for name in self._names:
            process = await self._apptainer.spawn(
                ["--quiet", "instance", "stop", "--signal", "KILL", name], stdin=asyncio.subprocess.DEVNULL
            )
            await process.communicate()
        shutil.rmtree(self._actions)

    async def run(self, number: int) -> float:
        """Seconds of one `apptainer exec instance://NAME true`."""
        return await _timed(self._apptainer, ["--quiet", "exec", f"instance://{self._names[number]}", "true"])


class Floor:
    """The warm process. `run` gives seconds of fork + unshare + exec, and of fork + exec alone."""

    def __init__(self, identity: dict[str, Any]) -> None:
        """`identity`: the sandboxes' user, as keyword arguments for `create_subprocess_exec`."""
        self._identity = identity

    async def __aenter__(self) -> Floor:
        self._process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", "-I", "-S", "-c", _FLOOR, cwd="/", start_new_session=True, **self._identity,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return self

    async def run(self) -> tuple[float, float]:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._process.stdin.write(b"%d\n" % _NAMESPACES)
        line = await self._process.stdout.readline()
        if not line:
            raise PeerFailed((await self._process.stderr.read()).decode(errors="replace").strip())
        both, alone = json.loads(line)
        return both, alone

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.shield(self._process.communicate())
