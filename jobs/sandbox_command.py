"""`ectype sandbox run` and `ectype sandbox shell`: commands of a person in the sandbox that an agent gets.

Comes in: a command, limits, a folder of files. Goes out: what the command printed, as it is or as JSON, and its exit
status. The container, the cell, the network layers and the limits are the agent's own, made by the same code; only the
task is missing: no decoys, no masked programs, no `reference`. Files are copied in and never out; nothing is left.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import json
import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import EctypeError, Interrupted
from containers.apptainer import Apptainer, probe_isolation
from containers.image import ensure_image
from containers.isolation import Isolation
from sandbox.limits import Limits, LimitsError
from sandbox.packages import Packages
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost, WorkspaceError, shell_status

LOST = 125
"""Exit status when the sandbox broke: ours, not the command's."""
TIMEOUT = 124
"""As `timeout` of the coreutils has it, also where a signal told the command that its CPU time was over."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_limits(words: Sequence[str]) -> Limits:
    """`name=value` words, also several with commas between them; bytes may be given as `64M`. Raises LimitsError."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(Limits)}
    chosen: dict[str, Any] = {}
    for word in (part for given in words for part in given.split(",")):
        name, _, text = word.partition("=")
        where = f"--limits {word}"
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=1)
            remedy = f"did you mean `{near[0]}`?" if near else f"choose among: {', '.join(kinds)}"
            raise LimitsError(f"there is no limit `{name}`", where=where, remedy=remedy)
        factor = _UNITS.get(text[-1:].upper(), 1) if name.endswith("_bytes") else 1
        try:
            chosen[name] = kinds[name](text if factor == 1 else text[:-1]) * factor
        except ValueError:
            remedy = "write a number, such as " + ("64M" if name.endswith("_bytes") else "8")
            raise LimitsError(f"the limit {name} is no number: `{text}`", where=where, remedy=remedy) from None
    return Limits(**chosen)


def files_of(folder: Path, limits: Limits) -> tuple[File, ...]:
    """The regular files below `folder`, for /work. As when a submission is packed, no link is followed."""
    found: list[File] = []
    left = limits.workspace_bytes

    def give_up(error: OSError) -> None:
        raise EctypeError(
            f"cannot read the files: {error.strerror}", where=str(error.filename), remedy="name a readable folder"
        ) from error

    for place, _, names in os.walk(folder, onerror=give_up):
        for name in sorted(names):
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode):
                    continue
                left -= status.st_size
                if left < 0 or len(found) >= limits.workspace_inodes:
                    raise EctypeError(
                        "the files do not fit into the workspace",
                        where=str(folder),
                        remedy="name a smaller folder, or raise --limits workspace_bytes=... and workspace_inodes=...",
                    )
                with open(path, "rb") as file:
                    data = file.read()
            except OSError as error:
                give_up(error)
            else:
                found.append(File(f"/work/{os.path.relpath(path, folder)}", data, stat.S_IMODE(status.st_mode)))
    return tuple(found)


def run_command(
    argv: Sequence[str],
    *,
    limits: Limits,
    files: Path | None,
    packages: Path | None,
    stdin: Path | None,
    as_json: bool,
) -> int:
    """Run one command in a fresh sandbox and print what came of it; returns the exit status (see docs/sandbox.md)."""
    given = () if files is None else files_of(files, limits)
    fed = b"" if stdin is None else _read_input(stdin)

    async def once() -> tuple[CommandResult, Isolation]:
        sandbox, isolation = await _open(given, limits, packages)
        try:
            return await sandbox.run(argv=argv, stdin=fed), isolation
        except SandboxLost as error:
            print(f"error: {error}", file=sys.stderr)
            return CommandResult(status="sandbox_lost"), isolation
        finally:
            await sandbox.kill()

    try:
        result, isolation = asyncio.run(once())
    except KeyboardInterrupt:
        raise _interrupted(f"ectype sandbox run -- {shlex.join(argv)}") from None
    if as_json:
        record = _as_json(result) | {
            "limits": msgspec.to_builtins(limits),
            "isolation": msgspec.to_builtins(isolation),
        }
        print(json.dumps(record))
    else:
        _show(result)
        if result.status not in ("ok", "nonzero", "sandbox_lost"):
            print(f"ectype: {_in_words(result)}", file=sys.stderr)
    return _exit_status(result)


def run_shell(*, limits: Limits, files: Path | None, packages: Path | None) -> int:
    """Read commands and run each as an agent's action would run: one workspace, a new bash for every command.

    Ends at the end of the input or at `exit`; returns the exit status of the last command, as a shell does.
    """
    given = () if files is None else files_of(files, limits)
    status = 0
    with asyncio.Runner() as runner:
        try:
            sandbox, _ = runner.run(_open(given, limits, packages))
        except KeyboardInterrupt:
            raise _interrupted("ectype sandbox shell") from None
        try:
            if sys.stdin.isatty():
                import readline  # noqa: F401  (line editing and history for input())

                print("A fresh sandbox. Every command starts in /work with a new bash; files stay, variables do not.")
            while (script := _next_command()) is not None:
                result = runner.run(sandbox.run(script))
                _show(result)
                if result.status != "ok":
                    print(f"[{_in_words(result)}]", file=sys.stderr, flush=True)
                status = _exit_status(result)
        except KeyboardInterrupt:
            raise _interrupted("ectype sandbox shell") from None
        except SandboxLost as error:
            print(f"error: {error}", file=sys.stderr)
            return LOST
        finally:
            runner.run(sandbox.kill())
    return status


async def _open(files: tuple[File, ...], limits: Limits, packages: Path | None) -> tuple[Sandbox, Isolation]:
    """A sandbox with an open cell, made as a worker makes them, and the network layers of this machine."""
    site_packages = None if packages is None else Packages.at(packages)
    apptainer = await Apptainer.find()
    image = await asyncio.to_thread(ensure_image, progress=lambda message: print(message, file=sys.stderr))
    isolation = await probe_isolation(apptainer, image)
    sandbox = await Sandbox.start(apptainer, image, isolation, packages=site_packages)
    try:
        await sandbox.open(CellSpec(files=files), limits)
    except WorkspaceError as error:
        await sandbox.kill()
        remedy = "name a smaller folder, or raise --limits workspace_bytes=... and workspace_inodes=..."
        raise EctypeError(error.what, where="--files", remedy=remedy) from error
    except BaseException:
        await asyncio.shield(sandbox.kill())
        raise
    return sandbox, isolation


def _read_input(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise EctypeError(
            f"cannot read the standard input for the command: {error.strerror}",
            where=str(path),
            remedy="name a readable file, or - for this command's own standard input",
        ) from error


def _next_command() -> bytes | None:
    """One command: a line, and those after it while a line ends with a backslash. None at the end."""
    prompt = "sandbox$ " if sys.stdin.isatty() else ""
    lines: list[str] = []
    while not lines or lines[-1].endswith("\\"):
        try:
            lines.append(input(prompt if not lines else prompt and "> "))
        except EOFError:
            break
    if not lines or lines == ["exit"]:
        return None
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _show(result: CommandResult) -> None:
    for stream, data in ((sys.stdout, result.stdout), (sys.stderr, result.stderr)):
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _exit_status(result: CommandResult) -> int:
    if result.status == "sandbox_lost":
        return LOST
    return TIMEOUT if result.status == "timeout" else shell_status(result)


def _in_words(result: CommandResult) -> str:
    words = [result.status]
    if result.exit_status is not None:
        words.append(f"exit status {result.exit_status}")
    if result.signal is not None:
        words.append(f"signal {result.signal}")
    words += [
        f"{name} truncated"
        for name, cut in (("stdout", result.stdout_truncated), ("stderr", result.stderr_truncated))
        if cut
    ]
    return ", ".join(words)


def _as_json(result: CommandResult) -> dict[str, Any]:
    """The result's fields; output as `{"utf8": ...}` where it is text and as `{"base64": ...}` where it is not."""
    return {
        name: _bytes_as_json(value) if isinstance(value, bytes) else value
        for name, value in msgspec.structs.asdict(result).items()
    }


def _bytes_as_json(data: bytes) -> dict[str, str]:
    try:
        return {"utf8": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _interrupted(command: str) -> Interrupted:
    return Interrupted("interrupted; the sandbox is gone", where=command, remedy="start it again", status=130)
