"""The host's handle of one sandbox: a container with a guest, and in it one cell at a time.

Comes in: what a cell holds, commands, files. Goes out: results whose only source is the cell's init; they are checked
for form here and are never trusted for reward. Whatever the guest does not answer in time or in form ends the whole
container and raises SandboxLost: that is our failure, never the agent's. One request at a time; a cancelled request
ends the container, because half an answer cannot be told from the next.
"""

from __future__ import annotations

import asyncio
import errno
import json
import struct
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from audit.errors import EctypeError
from containers.apptainer import Apptainer, ContainerProcess
from containers.isolation import Isolation
from queues.messages import CommandStatus
from sandbox import bootstrap
from sandbox.cores import cores
from sandbox.limits import Limits
from sandbox.packages import Packages

_HEAD = struct.Struct(">II")
_MAX_HEADER = 64 << 20
_GRACE_S = 15.0
"""How much longer than the agent's own limit the guest may take, before it counts as lost."""
_START_S = 60.0
"""How long a container and its guest may take to come up, on a node that is busy with others."""
MAX_SCRIPT_BYTES = 4 << 20


class SandboxLost(EctypeError):
    """The sandbox is gone or misbehaves. Never a policy outcome."""


class CellRefused(EctypeError):
    """The cell cannot be opened as asked for: the task or the image is wrong, not the sandbox."""


class WorkspaceError(EctypeError):
    """The workspace does not hold what was asked for: no such file, not a regular file, too large."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` may hold surrogate escapes where a name is not UTF-8."""

    path: str
    data: bytes
    mode: int = 0o644


class CellSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a cell holds. Absolute paths under /work are ordinary files, all others read-only ones.

    `watched`: results tell whether a command has opened one of the read-only files. `masked` are absolute paths of
    files of the image that do not exist in this cell. `oracle` puts the command `oracle_name` into PATH. `logs` shows
    /work/logs as /logs too. `loopback` brings `lo` up in a network namespace of the cell's own.
    """

    files: tuple[File, ...] = ()
    watched: bool = False
    masked: tuple[str, ...] = ()
    oracle: bool = False
    oracle_name: str = "reference"
    logs: bool = False
    loopback: bool = False


class CommandResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How one command ended, and what it printed. `signal` is set when its first process was ended by one; `opened`
    when it, or anything it started, has opened a watched file.

    `timeout`: wall or CPU time was used up; `out_of_memory`: the watchdog ended it, or it failed with nearly all of the
    limit resident; `disk_full`: it failed, and the workspace or scratch is full, or a file passed its limit;
    `too_many_processes`: it failed, and the limit was reached; `output_truncated`: it ended well, but printed too much.
    """

    status: CommandStatus
    exit_status: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    wall_s: float = 0.0
    cpu_s: float = 0.0
    starved_s: float = 0.0
    """Of `wall_s`: seconds that were given back because it waited for a core."""
    memory_bytes: int = 0
    """Peak of what was resident; less than the cell's init has (about 10 MiB) cannot be told from it."""
    read_bytes: int = 0
    """Through read calls of all its processes, from files and pipes alike."""
    written_bytes: int = 0
    opened: bool = False
    started: bool = True
    """False when the files it was to find could not be placed, so that nothing was run."""


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sums over commands; `memory_bytes` is the largest peak of any."""

    commands: int = 0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def plus(self, other: CommandResult | Usage) -> Usage:
        return Usage(
            commands=self.commands + (other.commands if isinstance(other, Usage) else 1),
            cpu_s=self.cpu_s + other.cpu_s,
            memory_bytes=max(self.memory_bytes, other.memory_bytes),
            read_bytes=self.read_bytes + other.read_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
        )

    def numbers(self) -> dict[str, float]:
        return msgspec.structs.asdict(self)


class OracleCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One use of the `reference` command inside a cell; `files` are the ones its arguments named."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    files: tuple[File, ...] = ()


OnOracle = Callable[[OracleCall], Awaitable[CommandResult]]


class _Reply(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Every field any answer of the guest may have; anything else is a misbehaving guest."""

    ok: bool = True
    op: Literal["", "oracle"] = ""
    kind: Literal["", "workspace", "refused", "broken", "no_cell", "cell_lost"] = ""
    errno: int | None = 0
    error: str | None = ""
    status: CommandStatus = "ok"
    exit: int | None = None
    signal: int | None = None
    out: int = 0
    err: int = 0
    out_total: int = 0
    err_total: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    starved_s: float = 0.0
    memory_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    files: list[tuple[str, int, int]] = []
    digests: list[tuple[str, str]] = []
    argv: list[str] = []
    stdin: int = 0
    opened: bool = False
    watching: bool = False


class Sandbox:
    def __init__(self, container: ContainerProcess, isolation: Isolation, name: str) -> None:
        self.name = name
        self.cells = 0
        self.watching = False
        """Whether the open cell's read-only files are watched: asked for, and possible on this machine."""
        self.usage = Usage()
        """What its commands have used so far."""
        self._container = container
        self._isolation = isolation
        self._lock = asyncio.Lock()
        self._limits = Limits()
        self._environment: dict[str, str] = {}
        self._lost = ""

    @classmethod
    async def start(
        cls,
        apptainer: Apptainer,
        image: Path,
        isolation: Isolation,
        *,
        name: str = "",
        packages: Packages | None = None,
    ) -> Sandbox:
        """Start a container and its guest. Raises ImageBroken when that does not work."""
        argv, source = bootstrap.guest()
        binds = () if packages is None else (packages.bind,)
        container = await apptainer.start(image, argv, isolation=isolation, binds=binds, wait=False)
        sandbox = cls(container, isolation, name or f"sandbox-{container.pid}")
        sandbox._environment = {} if packages is None else packages.environment
        try:
            container.stdin.write(source)
            reply, _ = await asyncio.wait_for(sandbox._receive(0), _START_S)
            if not reply.ok:
                raise SandboxLost(f"the guest could not prepare the container: {reply.error}")
            await container.wait_started()  # it has; the container's init is known from now on
        except (TimeoutError, SandboxLost, OSError) as error:
            await container.kill()
            raise container.broken(f"the guest does not come up: {error}") from error
        except BaseException:
            await asyncio.shield(container.kill())
            raise
        return sandbox

    @property
    def pid(self) -> int:
        """Of the container's process on the host."""
        return self._container.pid

    @property
    def alive(self) -> bool:
        return not self._lost and self._container.running

    async def open(self, spec: CellSpec, limits: Limits) -> None:
        """Destroy the cell there is, and open a fresh one.

        Raises WorkspaceError when the files below /work do not fit (a submission's may not), CellRefused, SandboxLost.
        """
        if spec.loopback and self._isolation != Isolation(netns=True, seccomp=False):
            raise CellRefused(
                "loopback needs an empty network namespace and no seccomp profile",
                where=self.name,
                remedy="give such tasks a pool of their own, with Isolation(netns=True, seccomp=False)",
            )
        self._limits = limits
        self.cells += 1
        request = {
            "op": "open",
            "limits": msgspec.to_builtins(limits),
            "files": _entries(spec.files),
            "watched": spec.watched,
            "masked": list(spec.masked),
            "oracle": spec.oracle,
            "oracle_name": spec.oracle_name,
            "logs": spec.logs,
            "loopback": spec.loopback,
            "netns": self._isolation.netns,
        }
        reply, _ = await self._ask(request, b"".join(f.data for f in spec.files), deadline_s=30)
        if reply.kind == "refused":
            raise CellRefused(f"a cell cannot be opened: {reply.error}", where=self.name)
        if reply.kind == "workspace":
            raise WorkspaceError(f"the files of the workspace cannot be written: {reply.error}", where=self.name)
        if not reply.ok:
            raise await self._lose(f"a cell did not open: {reply.error}")
        self.watching = reply.watching

    async def run(
        self,
        script: bytes | None = None,
        *,
        argv: Sequence[str] | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "/work",
        limits: Limits | None = None,
        on_oracle: OnOracle | None = None,
    ) -> CommandResult:
        """Run a bash script, or a program with its arguments, in the cell. Afterwards nothing of it is alive.

        What a command leaves running in the background is killed when its first process ends. Raises SandboxLost.
        """
        if (script is None) == (argv is None):
            raise ValueError("run takes either a script or an argv")
        if script is not None and len(script) > MAX_SCRIPT_BYTES:
            raise ValueError(f"a script of {len(script)} bytes; at most {MAX_SCRIPT_BYTES}")
        request = self._run_request(argv, stdin, limits, env=env, cwd=cwd, script=script)
        return await self._run(request, (script or b"") + stdin, limits, on_oracle)

    async def run_case(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        files: Sequence[File],
        limits: Limits | None = None,
        program: str | None = None,
        patience_s: float = 0.0,
    ) -> CommandResult:
        """Run a program in a fresh, empty folder under /case that holds `files` (relative paths).

        Scratch (/tmp, /var/tmp, /dev/shm, /case) and IPC objects are fresh before and gone afterwards. `program`:
        the compiled program that is started under the name argv[0]; it may have threads, but start no other process and
        become no other program. `patience_s`: time in which it waited for a core is given back to it,
        up to so much; `wall_s` of the limits is then what it may take on a machine of its own.
        """
        request = self._run_request(argv, stdin, limits)
        request |= {"case": "1", "files": _entries(files), "program": program, "patience_s": patience_s}
        return await self._run(request, stdin + b"".join(f.data for f in files), limits, None)

    def _run_request(
        self,
        argv: Sequence[str] | None,
        stdin: bytes,
        limits: Limits | None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/work",
        script: bytes | None = None,
    ) -> dict[str, Any]:
        return {
            "op": "run",
            "argv": list(argv or ()),
            "script": len(script or b""),
            "stdin": len(stdin),
            "env": {**self._environment, **(env or {})},
            "cwd": cwd,
            "limits": msgspec.to_builtins(limits or self._limits),
            "case": None,
            "program": None,
            "patience_s": 0.0,
            "files": [],
        }

    async def _run(
        self, request: dict[str, Any], blob: bytes, limits: Limits | None, on_oracle: OnOracle | None
    ) -> CommandResult:
        limits = limits or self._limits
        deadline_s = limits.wall_s + request["patience_s"] + _GRACE_S + len(blob) / (4 << 20)
        with cores().take(limits.cpus) as request["cpus"]:
            reply, body = await self._ask(
                request, blob, deadline_s=deadline_s, max_blob=2 * limits.output_bytes + (1 << 20), on_oracle=on_oracle
            )
        if reply.kind == "workspace":
            text = f"{reply.error}\n".encode()
            return CommandResult(status=_workspace_status(reply), exit_status=1, stderr=text, started=False)
        if not reply.ok or reply.out < 0 or reply.err < 0 or reply.out + reply.err != len(body):
            raise await self._lose(f"a command could not be run: {reply.error or 'malformed answer'}")
        result = CommandResult(
            status=reply.status,
            exit_status=reply.exit,
            signal=reply.signal,
            stdout=body[: reply.out],
            stderr=body[reply.out :],
            stdout_truncated=reply.out_total > reply.out,
            stderr_truncated=reply.err_total > reply.err,
            wall_s=reply.wall_s,
            cpu_s=reply.cpu_s,
            starved_s=reply.starved_s,
            memory_bytes=reply.memory_bytes,
            read_bytes=reply.read_bytes,
            written_bytes=reply.written_bytes,
            opened=reply.opened,
        )
        self.usage = self.usage.plus(result)
        return result

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> CommandResult:
        """Write a file below /work, making its folders. Follows no link and never leaves /work.

        What is wrong with the path or the disk is the agent's: status `nonzero` or `disk_full`, the reason in stderr.
        """
        reply, _ = await self._ask({"op": "write", "path": path, "mode": mode}, data, deadline_s=30)
        if reply.kind == "workspace":
            text = f"cannot write {path}: {reply.error}\n".encode(errors="backslashreplace")
            return CommandResult(status=_workspace_status(reply), exit_status=1, stderr=text)
        if not reply.ok:
            raise await self._lose(f"a file could not be written: {reply.error}")
        return CommandResult(status="ok", exit_status=0)

    async def read(self, path: str, max_bytes: int) -> bytes:
        """Read a regular file below /work. Raises WorkspaceError when there is none, or it is larger."""
        request = {"op": "read", "path": path, "max_bytes": max_bytes}
        reply, body = await self._ask(request, deadline_s=30, max_blob=max_bytes)
        await self._check_workspace(reply, path)
        return body

    async def pack(self, *, max_bytes: int, max_files: int, whole: bool = False) -> tuple[File, ...]:
        """Every regular file of /work (paths relative to it). Raises WorkspaceError when there is more.

        With `whole` also when a link, an empty folder or anything else would be left out.
        """
        request = {"op": "pack", "max_bytes": max_bytes, "max_files": max_files, "whole": whole}
        reply, body = await self._ask(request, deadline_s=60, max_blob=max_bytes)
        await self._check_workspace(reply, "/work")
        files, offset = [], 0
        for entry in reply.files:
            if entry[1] < 0:
                raise await self._lose("the guest sent a malformed list of files")
            path, size, mode = entry
            files.append(File(path=path, data=body[offset : offset + size], mode=mode & 0o777))
            offset += size
        if offset != len(body):
            raise await self._lose("the guest sent a malformed list of files")
        return tuple(files)

    async def hashes(self, sizes: Collection[int], *, max_bytes: int, max_files: int) -> list[tuple[str, str]]:
        """Path below /work and sha256 of every regular file that has one of `sizes`. Raises WorkspaceError when they
        have more than `max_bytes` together, or /work has more than `max_files` entries."""
        request = {"op": "hashes", "sizes": sorted(sizes), "max_bytes": max_bytes, "max_files": max_files}
        reply, _ = await self._ask(request, deadline_s=60)
        await self._check_workspace(reply, "/work")
        return reply.digests

    async def remove(self, path: str) -> None:
        """Remove a file below /work; follows no link. Raises WorkspaceError when there is none."""
        reply, _ = await self._ask({"op": "remove", "path": path}, deadline_s=30)
        await self._check_workspace(reply, path)

    async def seal(self) -> None:
        """Make /work read-only for the rest of the cell's life."""
        reply, _ = await self._ask({"op": "seal"}, deadline_s=30)
        if not reply.ok:
            raise await self._lose(f"the workspace could not be sealed: {reply.error}")

    async def close_cell(self) -> None:
        """End the cell: everything in it is gone when this returns."""
        await self._ask({"op": "close"}, deadline_s=30)

    async def ping(self) -> None:
        """Raises SandboxLost unless the guest answers within 10 s."""
        await self._ask({"op": "ping"}, deadline_s=10)

    async def kill(self) -> None:
        """End the container. May be called again."""
        self._lost = self._lost or "it was ended"
        await self._container.kill()

    async def _check_workspace(self, reply: _Reply, path: str) -> None:
        if reply.kind == "workspace":
            raise WorkspaceError(f"{path}: {reply.error}", where=self.name)
        if not reply.ok:
            raise await self._lose(f"the workspace could not be read: {reply.error}")

    async def _lose(self, reason: str) -> SandboxLost:
        self._lost = self._lost or reason
        await self._container.kill()
        return SandboxLost(f"a sandbox was lost: {reason}", where=self.name)

    async def _ask(
        self,
        request: dict[str, Any],
        blob: bytes = b"",
        *,
        deadline_s: float,
        max_blob: int = 1 << 20,
        on_oracle: OnOracle | None = None,
    ) -> tuple[_Reply, bytes]:
        async with self._lock:
            if not self.alive:
                raise await self._lose(f"the container has ended: {self._container.stderr_tail()}")
            try:
                return await self._exchange(request, blob, deadline_s, max_blob, on_oracle)
            except TimeoutError:
                raise await self._lose(f"no answer to `{request['op']}` within {deadline_s:.0f} s") from None
            except OSError as error:
                raise await self._lose(f"the guest is gone: {error}") from error
            except BaseException as error:
                self._lost = self._lost or f"`{request['op']}` was given up: {type(error).__name__}"
                await asyncio.shield(self._container.kill())
                raise

    async def _exchange(
        self, request: dict[str, Any], blob: bytes, deadline_s: float, max_blob: int, on_oracle: OnOracle | None
    ) -> tuple[_Reply, bytes]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(deadline_s) as deadline:
            await self._send(request, blob)
            while True:
                reply, body = await self._receive(max(max_blob, 32 << 20 if on_oracle else 0))
                if reply.kind == "cell_lost":
                    raise SandboxLost("a sandbox was lost: the cell has ended", where=self.name)
                if reply.op != "oracle":
                    return reply, body
                asked = loop.time()
                # the oracle bounds itself; its time is not this command's
                deadline.reschedule(None)
                answer = await self._consult(reply, body, on_oracle)
                deadline_s += loop.time() - asked
                deadline.reschedule(loop.time() + deadline_s)
                code = 125 if answer.status == "sandbox_lost" else shell_status(answer)
                await self._send(
                    {"op": "answer", "code": code, "out": len(answer.stdout)}, answer.stdout + answer.stderr
                )

    @staticmethod
    async def _consult(reply: _Reply, body: bytes, on_oracle: OnOracle | None) -> CommandResult:
        if on_oracle is None:
            return CommandResult(status="nonzero", exit_status=125, stderr=b"reference: call budget exhausted\n")
        offset, files = reply.stdin, []
        for entry in reply.files:
            files.append(File(path=entry[0], data=body[offset : offset + entry[1]]))
            offset += entry[1]
        return await on_oracle(OracleCall(argv=tuple(reply.argv), stdin=body[: reply.stdin], files=tuple(files)))

    async def _send(self, header: dict[str, Any], blob: bytes) -> None:
        text = json.dumps(header).encode("ascii")
        self._container.stdin.write(_HEAD.pack(len(text), len(blob)) + text)
        if blob:
            self._container.stdin.write(blob)
        await self._container.stdin.drain()

    async def _receive(self, max_blob: int) -> tuple[_Reply, bytes]:
        try:
            header_size, blob_size = _HEAD.unpack(await self._container.stdout.readexactly(_HEAD.size))
            if header_size > _MAX_HEADER or blob_size > max_blob:
                raise SandboxLost(f"a sandbox was lost: an answer of {header_size} + {blob_size} bytes")
            header = json.loads(await self._container.stdout.readexactly(header_size))
            body = await self._container.stdout.readexactly(blob_size)
            return msgspec.convert(header, _Reply), body
        except asyncio.IncompleteReadError:
            raise SandboxLost(f"a sandbox was lost: the guest has ended. {self._container.stderr_tail()}") from None
        except (ValueError, RecursionError) as error:  # msgspec.ValidationError and JSON errors are ValueErrors
            raise SandboxLost(f"a sandbox was lost: a malformed answer: {error}") from error


def _entries(files: Sequence[File]) -> list[tuple[str, int, int]]:
    return [(f.path, len(f.data), f.mode) for f in files]


def _workspace_status(reply: _Reply) -> CommandStatus:
    return "disk_full" if reply.errno in (errno.ENOSPC, errno.EDQUOT) else "nonzero"


def shell_status(result: CommandResult) -> int:
    """The exit status a shell would show."""
    if result.signal is not None:
        return 128 + result.signal
    if result.exit_status is not None:
        return result.exit_status
    return 124 if result.status == "timeout" else 137
