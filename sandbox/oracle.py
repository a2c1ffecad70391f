"""The reference oracle: runs the program to rebuild, in a cell of its own, and hands back only what it printed.

Goes in: one call (arguments, standard input, small files) of the agent's `reference` command, or of a suite generator.
Comes out: standard output, standard error and exit status. The reference's bytes must never reach the agent: it runs in
another container than the agent's, every call in a fresh cell, and a compiled reference is placed there executable but
not readable, so that `reference /path/of/itself` (for a `cat`, a `base64`) has nothing to print.
"""

from __future__ import annotations

import hashlib
import logging
import posixpath
import time
from pathlib import Path

import msgspec

from audit.events import AuditLog
from containers.files import read_program
from sandbox.cases import MAX_LONGEST_CASES
from sandbox.cleaning import Cleaner
from sandbox.hidden import HiddenTask, TaskError
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, File, OracleCall, SandboxLost

log = logging.getLogger(__name__)

REFUSED_STATUS = 125
MAX_ARGUMENTS = 256
MAX_ARGUMENT_BYTES = 128 << 10
MAX_INPUT_BYTES = 4 << 20
MAX_FILES = 64

_CALLED_BY_NAME = ("/bin/bash", "-c", 'exec -a "$0" "$@"')
"""Starts a program under another argv[0]: a `wc` that lies at /reference/wc must still call itself `wc`."""
_ELF = b"\x7fELF"


async def run_reference(pool: Pool, hidden: HiddenTask, call: OracleCall) -> CommandResult:
    """Run the reference once, in a fresh cell of a container of `pool`. Raises `SandboxLost` when that fails twice."""
    spec, argv, program = _protected(pool.image, hidden)
    for attempt in (1, 2):
        try:
            async with pool.lease() as sandbox:
                await sandbox.open(spec, hidden.case_limits)
                return await sandbox.run_case(
                    (*argv, *call.argv),
                    stdin=call.stdin,
                    files=call.files,
                    limits=hidden.case_limits,
                    program=program,
                )
        except SandboxLost:
            if attempt == 2:
                raise
            log.warning("an oracle container was lost; trying another one")
    raise AssertionError("unreachable")


def _protected(image: Path, hidden: HiddenTask) -> tuple[CellSpec, tuple[str, ...], str | None]:
    """The oracle's cell, the argv that starts the reference in it, and the file that must run nothing but itself.

    A reference that is a (masked) compiled program of the image is masked here as well, and lies under /reference with
    mode 0111: it can be executed and not be read, not even by itself. It starts no other process either, as
    `sort --compress-program=bash` would, and becomes no other program, as `env` would: with a library of the agent's
    choice in its environment it could be started again, and read from inside.
    """
    reference = hidden.reference
    program = reference.argv[0]
    if program not in hidden.masked:
        return CellSpec(files=reference.files), reference.argv, None
    try:
        data = read_program(image, program)
    except FileNotFoundError:
        raise TaskError(
            f"the reference {program} is not in the image",
            where=str(image),
            remedy="add its package to the image or take the task out of the suite",
        ) from None
    name = posixpath.basename(program)
    placed = f"/reference/{name}"
    compiled = data.startswith(_ELF)
    mode = 0o111 if compiled else 0o555
    spec = CellSpec(files=(*reference.files, File(path=placed, data=data, mode=mode)), masked=hidden.masked)
    if compiled:
        return spec, (name, *reference.argv[1:]), placed
    return spec, (*_CALLED_BY_NAME, name, placed, *reference.argv[1:]), None


class Oracle:
    """The `reference` command of one episode: bounds the number of calls and their size, records every one.

    A lost oracle container is raised when a second one is lost as well: the agent's command, and with it its session,
    then ends as lost.
    """

    def __init__(
        self, pool: Pool, hidden: HiddenTask, *, episode: str, budget: int, audit: AuditLog, cleaner: Cleaner
    ) -> None:
        self._pool = pool
        self._hidden = hidden
        self._episode = episode
        self._budget = budget
        self._audit = audit
        self._cleaner = cleaner
        self.calls = 0
        self._step = -1
        self._left_s = 0.0

    def begin(self, step: int) -> None:
        """The action `step` begins: the calls to come are its. Together they may take as long as the cases of a grading
        may, so that no action lasts for ever by asking for what takes long."""
        self._step = step
        self._left_s = MAX_LONGEST_CASES * self._hidden.case_limits.wall_s

    async def __call__(self, call: OracleCall) -> CommandResult:
        if self.calls >= self._budget:
            return self._refuse(call, "call budget exhausted")
        if self._left_s < 0:
            return self._refuse(call, "too slow")
        if problem := _oversized(call) or _asks_for_itself(call):
            return self._refuse(call, problem)
        self.calls += 1
        started = time.monotonic()
        result = await run_reference(self._pool, self._hidden, call)
        self._left_s -= result.wall_s
        self._record(
            call,
            status=result.status,
            exit_status=result.exit_status,
            stdout_bytes=len(result.stdout),
            stderr_bytes=len(result.stderr),
            wall_s=round(time.monotonic() - started, 6),
        )
        return msgspec.structs.replace(
            result, stdout=self._cleaner.clean(result.stdout), stderr=self._cleaner.clean(result.stderr)
        )

    def _refuse(self, call: OracleCall, why: str) -> CommandResult:
        self._record(call, status="refused", why=why)
        return CommandResult(status="nonzero", exit_status=REFUSED_STATUS, stderr=f"reference: {why}\n".encode())

    def _record(self, call: OracleCall, **data: object) -> None:
        self._audit.write(
            "oracle",
            episode=self._episode,
            step=self._step,
            argv=[a[:1024] for a in call.argv[:MAX_ARGUMENTS]],
            stdin_bytes=len(call.stdin),
            stdin_hash=hashlib.sha256(call.stdin).hexdigest()[:16],
            files=[[f.path[:256], len(f.data)] for f in call.files[:MAX_FILES]],
            calls=self.calls,
            budget=self._budget,
            **data,
        )


def _asks_for_itself(call: OracleCall) -> str:
    """A script is read by its interpreter, and can be by itself: it is not told to."""
    named = (posixpath.normpath(argument.rpartition("=")[2]) for argument in call.argv)
    return "Permission denied" if any("/reference/" in f"{path}/" for path in named) else ""


def _oversized(call: OracleCall) -> str:
    """What is too much about a call; empty when nothing is. The guest's own bounds are not relied upon."""
    if len(call.argv) > MAX_ARGUMENTS or sum(map(len, call.argv)) > MAX_ARGUMENT_BYTES:
        return "Argument list too long"
    if len(call.files) > MAX_FILES or len(call.stdin) + sum(len(f.data) for f in call.files) > MAX_INPUT_BYTES:
        return "input too large"
    return ""
