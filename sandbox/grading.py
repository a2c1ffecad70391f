"""Grading: build the submission in a fresh cell and run the hidden cases against it.

Goes in: the files that the agent left in its workspace, and the hidden half of the task. Comes out: whether it was
built, and how many cases passed. The cases stay here: of each case only arguments, standard input and input files enter
the cell, one case at a time, and what comes out is compared on this side. A submission that is missing, crashes, hangs
or floods has failed; a sandbox that is lost is our failure and is raised, never counted as a 0. Copies of the reference
are taken out before the build and after it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import posixpath
import shlex
from collections.abc import Callable
from typing import Literal

from audit.errors import EctypeError
from queues.messages import TestResult
from sandbox.cases import run_cases
from sandbox.cleaning import Cleaner
from sandbox.command_tests import Allowance, run_command_test
from sandbox.comparison import agree
from sandbox.copies import Copy, Effort, Originals
from sandbox.hidden import WORKSPACE, Case, CommandTest, HiddenTask
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost, WorkspaceError

log = logging.getLogger(__name__)

HASHED_BYTES = 256 << 20
BUILT_FILES = 65536
SEARCHED_BYTES = 32 << 20
"""A built workspace up to this size is searched for copies in every way; a larger one by hashes alone."""

OnCase = Callable[[Case | CommandTest, CommandResult | None, bool], None]
"""Called with each case, what the submission did (None: not tried), and whether it passed. For the audit log and for
the check of a suite; nothing of it may go back to a policy."""
OnCopy = Callable[[Copy], None]
"""Called with each copy of the reference that was taken out. For the audit log."""


class _Failed(Exception):
    """The submission cannot be built, or what was built is not there; says what the policy may know."""

    def __init__(self, stderr: bytes) -> None:
        self.stderr = stderr


async def grade(
    pool: Pool,
    hidden: HiddenTask,
    submission: tuple[File, ...],
    *,
    cleaner: Cleaner | None = None,
    on_case: OnCase | None = None,
    on_copy: OnCopy | None = None,
    judges: Pool | None = None,
    lanes: int = 1,
    keep_copies: bool = False,
) -> TestResult:
    """Grade `submission` (paths relative to the workspace). Raises `SandboxLost` when two containers are lost.

    `judges`: where command tests run; not `pool`, since a sandbox of each is held then.
    `lanes`: sandboxes of `pool` that may run cases at the same time. `keep_copies`: to grade the reference itself.
    """
    originals = Originals(set()) if keep_copies else Originals.of(pool.image, hidden)
    kept, copies = await asyncio.to_thread(_sort_out, originals, submission)
    for attempt in (1, 2):
        grading = _Grading(pool, judges, hidden, originals, cleaner or Cleaner(), lanes)
        try:
            async with pool.lease() as sandbox:
                result = await grading.of(sandbox, kept)
        except SandboxLost:
            if attempt == 2:
                raise
            log.warning("a grader container was lost; grading again in another one")
            continue
        for copy in (*copies, *grading.copies):
            log.warning("task %s/%s: a copy of the reference was taken out of a submission", hidden.suite, hidden.task)
            if on_copy is not None:
                on_copy(copy)
        if on_case is not None:
            for told in grading.outcomes:
                on_case(*told)
        return result
    raise AssertionError("unreachable")


class _Grading:
    """One attempt, in one sandbox (and its helpers)."""

    def __init__(
        self, pool: Pool, judges: Pool | None, hidden: HiddenTask, originals: Originals, cleaner: Cleaner, lanes: int
    ) -> None:
        self.copies: list[Copy] = []
        self.outcomes: list[tuple[Case | CommandTest, CommandResult | None, bool]] = []
        self._pool = pool
        self._judges = judges
        self._hidden = hidden
        self._originals = originals
        self._cleaner = cleaner
        self._lanes = lanes
        self._allowance = Allowance(hidden)

    async def of(self, sandbox: Sandbox, submission: tuple[File, ...]) -> TestResult:
        hidden, total = self._hidden, self._hidden.total
        try:
            await self._build(sandbox, submission)
        except _Failed as failed:
            stderr = self._cleaner.compile_stderr(failed.stderr)
            return TestResult(compile_status="failed", compile_stderr=stderr, total=total)
        await sandbox.seal()
        outcomes = await run_cases(self._pool, sandbox, hidden, lanes=self._lanes)
        for case, outcome in zip(hidden.cases, outcomes, strict=True):
            self.outcomes.append((case, outcome, outcome is not None and passes(hidden, case, outcome)))
        for test in hidden.tests:
            await self._test(test, sandbox)
        return TestResult(
            compile_status="none" if hidden.build is None else "ok",
            passed=sum(passed for _, _, passed in self.outcomes),
            total=total,
        )

    async def _test(self, test: CommandTest, submission: Sandbox) -> None:
        if self._judges is None:
            raise EctypeError(
                f"task {self._hidden.suite}/{self._hidden.task} has command tests, and there is no pool to run them in",
                where=test.name,
                remedy="call `grade` with `judges`",
            )
        async with self._judges.lease() as judge:
            outcome, passed = await run_command_test(test, self._hidden, submission, judge, self._allowance)
        self.outcomes.append((test, outcome, passed))

    async def _build(self, sandbox: Sandbox, submission: tuple[File, ...]) -> None:
        hidden = self._hidden
        files = tuple(File(path=f"{WORKSPACE}/{f.path}", data=f.data, mode=f.mode) for f in submission)
        try:
            await sandbox.open(CellSpec(files=files, masked=hidden.masked), hidden.limits)
        except WorkspaceError:  # sparse files, for example: small where they were made, too large here
            raise _Failed(b"workspace: No space left on device\n") from None
        if hidden.build is not None:
            built = await sandbox.run(hidden.build)
            if built.status != "ok":
                raise _Failed(built.stderr or f"build: {_how_it_ended(built)}\n".encode())
            await self._take_copies_out(sandbox)
            found = (await sandbox.run(f"[ -f {shlex.quote(hidden.entry)} ]".encode())).status == "ok"
        else:
            found = any(posixpath.normpath(f.path) == hidden.entry for f in submission)
        if not found:
            raise _Failed(f"{hidden.entry}: No such file or directory\n".encode())

    async def _take_copies_out(self, sandbox: Sandbox) -> None:
        """Of what was built. Everything is hashed; what is not too large is searched as well."""
        originals = self._originals
        if not originals.sizes:
            return
        try:
            hashes = await sandbox.hashes(originals.sizes, max_bytes=HASHED_BYTES, max_files=BUILT_FILES)
        except WorkspaceError:
            raise _Failed(b"workspace: too many or too large files\n") from None
        found = [Copy(path, "built", "hash", digest) for path, digest in hashes if originals.has(digest)]
        for copy in found:
            await sandbox.remove(copy.path)
        try:
            files = await sandbox.pack(max_bytes=SEARCHED_BYTES, max_files=BUILT_FILES)
        except WorkspaceError:
            files = await self._entry(sandbox)
        for copy in await asyncio.to_thread(_copies, originals, files, "built"):
            await sandbox.remove(copy.path)
            found.append(copy)
        self.copies += found

    async def _entry(self, sandbox: Sandbox) -> tuple[File, ...]:
        """The file that the cases start, where it is a regular file."""
        try:
            return (File(path=self._hidden.entry, data=await sandbox.read(self._hidden.entry, SEARCHED_BYTES)),)
        except WorkspaceError:
            return ()


def passes(hidden: HiddenTask, case: Case, outcome: CommandResult) -> bool:
    """Equal exit status of a command that ended by itself, and output that agrees as the case or the task declares."""
    how = case.comparison or hidden.comparison
    output_matters = how.kind != "exit_status"
    return (
        outcome.started
        and (outcome.status in ("ok", "nonzero") or (outcome.status == "output_truncated" and not output_matters))
        and outcome.exit_status == case.exit_status
        and not (outcome.stdout_truncated and output_matters)
        and agree(how, case.stdout, outcome.stdout)
    )


def _sort_out(originals: Originals, submission: tuple[File, ...]) -> tuple[tuple[File, ...], list[Copy]]:
    """The files without the copies of the reference, and the copies."""
    copies = _copies(originals, submission, "submission")
    taken = {copy.path for copy in copies}
    return tuple(file for file in submission if file.path not in taken), copies


def _copies(originals: Originals, files: tuple[File, ...], stage: Literal["submission", "built"]) -> list[Copy]:
    effort = Effort()
    return [
        Copy(file.path, stage, how, hashlib.sha256(file.data).hexdigest())
        for file in files
        if (how := originals.find(file.data, effort)) is not None
    ]


def _how_it_ended(result: CommandResult) -> str:
    if result.signal is not None:
        return f"{result.status}, signal {result.signal}"
    return result.status if result.exit_status is None else f"exit status {result.exit_status}"
