"""Grading: build the submission in a fresh cell and run the hidden cases against it.

Goes in: the files that the agent left in its workspace, and the hidden half of the task. Comes out: whether it was
built, and how many cases passed. The cases stay here: of each case only arguments, standard input and input files enter
the cell, one case at a time, and what comes out is compared on this side. A submission that is missing, crashes, hangs
or floods has failed; a sandbox that is lost is our failure and is raised, never counted as a 0.
"""

from __future__ import annotations

import logging
import posixpath
import shlex
from collections.abc import Callable

from queues.messages import TestResult
from sandbox.cleaning import Cleaner
from sandbox.hidden import WORKSPACE, Case, HiddenTask
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost, WorkspaceError

log = logging.getLogger(__name__)

MAX_TIMEOUTS = 3
"""After so many cases that ran into the time limit the others are not tried: they count as failed."""
MAX_LONGEST_CASES = 10
"""So many times one case's time limit is what all cases together may take: a submission that is slow on every case,
and late for none, must not keep a grader from everybody else."""

OnCase = Callable[[Case, CommandResult | None, bool], None]
"""Called with each case, what the submission did (None: not tried), and whether it passed. For the audit log and for
the check of a suite; nothing of it may go back to a policy."""


async def grade(
    pool: Pool,
    hidden: HiddenTask,
    submission: tuple[File, ...],
    *,
    cleaner: Cleaner | None = None,
    on_case: OnCase | None = None,
) -> TestResult:
    """Grade `submission` (paths relative to the workspace). Raises `SandboxLost` when two containers are lost."""
    for attempt in (1, 2):
        outcomes: list[tuple[Case, CommandResult | None, bool]] = []
        try:
            async with pool.lease() as sandbox:
                files = tuple(File(path=f"{WORKSPACE}/{f.path}", data=f.data, mode=f.mode) for f in submission)
                try:
                    await sandbox.open(CellSpec(files=files, masked=hidden.masked), hidden.limits)
                except WorkspaceError:  # sparse files, for example: small where they were made, too large here
                    stderr = b"workspace: No space left on device\n"
                    return TestResult(compile_status="failed", compile_stderr=stderr, total=len(hidden.cases))
                result = await _grade_in(sandbox, hidden, submission, cleaner or Cleaner(), outcomes)
        except SandboxLost:
            if attempt == 2:
                raise
            log.warning("a grader container was lost; grading again in another one")
            continue
        if on_case is not None:
            for case, outcome, passed in outcomes:
                on_case(case, outcome, passed)
        return result
    raise AssertionError("unreachable")


async def _grade_in(
    sandbox: Sandbox,
    hidden: HiddenTask,
    submission: tuple[File, ...],
    cleaner: Cleaner,
    outcomes: list[tuple[Case, CommandResult | None, bool]],
) -> TestResult:
    total = len(hidden.cases)
    if hidden.build is not None:
        built = await sandbox.run(hidden.build)
        if built.status != "ok":
            stderr = built.stderr or f"build: {_how_it_ended(built)}\n".encode()
            return TestResult(compile_status="failed", compile_stderr=cleaner.compile_stderr(stderr), total=total)
        if (await sandbox.run(f"[ -f {shlex.quote(hidden.entry)} ]".encode())).status != "ok":
            return _no_entry(hidden)
    elif not any(posixpath.normpath(f.path) == hidden.entry for f in submission):
        return _no_entry(hidden)
    await sandbox.seal()
    timeouts, spent_s = 0, 0.0
    for case in hidden.cases:
        if timeouts >= MAX_TIMEOUTS or spent_s > MAX_LONGEST_CASES * hidden.case_limits.wall_s:
            outcomes.append((case, None, False))
            continue
        outcome = await sandbox.run_case(
            (*hidden.run, *case.argv), stdin=case.stdin, files=case.files, limits=hidden.case_limits
        )
        timeouts += outcome.status == "timeout"
        spent_s += outcome.wall_s
        outcomes.append((case, outcome, passes(case, outcome)))
    return TestResult(
        compile_status="none" if hidden.build is None else "ok",
        passed=sum(passed for _, _, passed in outcomes),
        total=total,
    )


def passes(case: Case, outcome: CommandResult) -> bool:
    """Byte-exact standard output and equal exit status, of a command that ended by itself."""
    return (
        outcome.status in ("ok", "nonzero")
        and outcome.exit_status == case.exit_status
        and outcome.stdout == case.stdout
        and not outcome.stdout_truncated
    )


def _no_entry(hidden: HiddenTask) -> TestResult:
    stderr = f"{hidden.entry}: No such file or directory\n".encode()
    return TestResult(compile_status="failed", compile_stderr=stderr, total=len(hidden.cases))


def _how_it_ended(result: CommandResult) -> str:
    if result.signal is not None:
        return f"{result.status}, signal {result.signal}"
    return result.status if result.exit_status is None else f"exit status {result.exit_status}"
