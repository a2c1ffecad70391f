"""Tests that are programs: a script of the task judges the submission, in a cell in which nothing of it runs.

Comes in: a sandbox in which the submission is built and sealed, and another for the script. Goes out: whether the
script was content. It calls `submission ARGS < input`, which runs the submission in the other container and hands back
what it printed, as the agent's `reference` does with the reference: so nothing that a submission does (processes it
leaves, LD_PRELOAD, PATH, conftest.py, links) is in the script's cell, where the verdict is written. Files of the
submission are there only where the test asks for them, read-only, not executable, outside of every search path.
"""

from __future__ import annotations

import logging
import math

import msgspec

from sandbox.cases import MAX_LONGEST_CASES, MAX_TIMEOUTS, PATIENCE, held_s
from sandbox.hidden import CommandTest, HiddenTask
from sandbox.sandbox import CellSpec, CommandResult, File, OracleCall, Sandbox, WorkspaceError

log = logging.getLogger(__name__)

VERDICT = "logs/verifier/reward.txt"
"""Below /work of the script's cell, which shows `logs` as /logs too."""
SUBMISSION = "/submission"
_VERDICT_BYTES = 4096
_SHOWN_BYTES = 32 << 20
_SHOWN_FILES = 4096
_REFUSED_STATUS = 125
_ENVIRONMENT = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}


class Allowance:
    """Seconds that a submission may take in all tests of one grading together: it must not hold a grader, and whoever
    waits for the grade, for as long as there are tests to be slow in."""

    def __init__(self, hidden: HiddenTask) -> None:
        self.left_s = MAX_TIMEOUTS * MAX_LONGEST_CASES * hidden.case_limits.wall_s


async def run_command_test(
    test: CommandTest, hidden: HiddenTask, submission: Sandbox, judge: Sandbox, allowance: Allowance
) -> tuple[CommandResult, bool]:
    """How the script ended, and whether the submission has passed. Raises `SandboxLost` when either sandbox is lost."""
    shown: tuple[File, ...] = ()
    if test.shows_submission:
        try:
            shown = await submission.pack(max_bytes=_SHOWN_BYTES, max_files=_SHOWN_FILES)
        except WorkspaceError as error:
            return CommandResult(status="nonzero", stderr=f"{error.what}\n".encode(), started=False), False
    runs = _Submission(hidden, submission, test.calls, allowance)
    files = tuple(File(path=f"{SUBMISSION}/{file.path}", data=file.data, mode=file.mode & 0o444) for file in shown)
    spec = CellSpec(files=(*test.files, *files), oracle=True, oracle_name="submission", logs=True)
    await judge.open(spec, test.limits)
    outcome = await judge.run(argv=test.argv, env=_ENVIRONMENT, limits=test.limits, on_oracle=runs)
    if runs.refused or outcome.status not in ("ok", "nonzero", "output_truncated"):
        return outcome, False
    if test.verdict == "exit_status":
        return outcome, outcome.exit_status == 0
    try:
        return outcome, _reward(await judge.read(VERDICT, _VERDICT_BYTES)) >= 1.0
    except WorkspaceError:
        return outcome, False  # the script has not written it, or not as a file


class _Submission:
    """The `submission` command of one test: every call in a clean folder, with the limits of a case."""

    def __init__(self, hidden: HiddenTask, sandbox: Sandbox, calls: int, allowance: Allowance) -> None:
        self.refused = False
        """It was called too often or took too long: whatever the script makes of that, the test has failed."""
        self._hidden = hidden
        self._sandbox = sandbox
        self._calls = calls
        self._allowance = allowance
        self._left_s = MAX_LONGEST_CASES * hidden.case_limits.wall_s

    async def __call__(self, call: OracleCall) -> CommandResult:
        if self._calls <= 0 or min(self._left_s, self._allowance.left_s) < 0:
            self.refused = True
            stderr = b"submission: too many calls, or too slow\n"
            return CommandResult(status="nonzero", exit_status=_REFUSED_STATUS, stderr=stderr)
        self._calls -= 1
        limits = self._hidden.case_limits
        result = await self._sandbox.run_case(
            (*self._hidden.run, *call.argv),
            stdin=call.stdin,
            files=call.files,
            limits=limits,
            patience_s=PATIENCE * limits.wall_s,
        )
        self._left_s -= held_s(result)
        self._allowance.left_s -= held_s(result)
        return msgspec.structs.replace(result, opened=False)


def _reward(text: bytes) -> float:
    """The number in a verdict file; 0 when there is none."""
    try:
        reward = float(text)
    except ValueError:
        return 0.0
    return reward if math.isfinite(reward) else 0.0
