"""The hidden half of a task: the reference program, the cases with their expected output, the masks and the limits.

One msgpack record per task under `<tasks_root>/hidden/<suite>/<task>/`. The suite generators write it; only the
sandbox worker and its graders read it. Nothing that trains, drives or displays a policy may import this module, and
nothing read here may reach the sandbox that the agent uses.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from audit.errors import EctypeError
from queues.messages import Record
from sandbox.comparison import EXACT, Comparison
from sandbox.limits import Limits
from sandbox.sandbox import File

WORKSPACE = "/work"
HIDDEN_FILE = "hidden.msgpack"
CASE_LIMITS = Limits(
    wall_s=10.0, cpu_s=10, memory_bytes=1 << 30, processes=32, file_bytes=16 << 20, output_bytes=1 << 20
)

TEST_LIMITS = Limits(wall_s=300.0, cpu_s=300.0)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")


class TaskError(EctypeError):
    """A task's hidden half is missing, unreadable or inconsistent."""


class Case(Record, frozen=True):
    """One hidden case: the program is run with `argv`, `stdin` and `files` in its (otherwise empty) current folder.

    It passes when it exits with `exit_status` and its standard output agrees with `stdout`, byte for byte or as
    `comparison` (None: the task's) says. Both were recorded by running the reference. `files` have paths relative to
    that folder.
    """

    name: str
    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: tuple[File, ...] = ()
    stdout: bytes = b""
    exit_status: int = 0
    comparison: Comparison | None = None


class CommandTest(Record, frozen=True):
    """A program that judges the submission (`sandbox.command_tests`): `argv` is run in a sandbox of its own, with
    `files` at absolute paths below /tests, and calls the submission as `submission ARGS`, at most `calls` times.

    `verdict`: the test passes when the program ends with 0, or when it has written a number of 1 or more to
    /logs/verifier/reward.txt. `shows_submission`: the built files can be read below /submission.
    """

    name: str
    argv: tuple[str, ...]
    files: tuple[File, ...] = ()
    verdict: Literal["exit_status", "reward"] = "exit_status"
    calls: int = 1000
    shows_submission: bool = False
    limits: Limits = TEST_LIMITS


class Reference(Record, frozen=True):
    """The program to rebuild: `argv` starts it (the arguments of a call are appended); `files` are placed read-only,
    at absolute paths outside the workspace (`/reference/...`), in the oracle's cell and in no other."""

    argv: tuple[str, ...]
    files: tuple[File, ...] = ()


class HiddenTask(Record, frozen=True):
    """Everything about one task that the agent must not see.

    `run` starts the submission. It is run from an empty folder, so the submission's own file is named by its absolute
    path below /work: `("python3", "-I", "-S", "/work/main.py")`, `("/work/program",)`.
    `build` is a bash script, run in /work before the cases; None when there is nothing to build.
    `masked` are absolute paths of programs of the image, hidden from the agent and the grader under every name.
    `eval_files` are placed, readable, in the agent's sandbox (leaky suites only; absolute paths).
    """

    suite: str
    task: str
    run: tuple[str, ...]
    reference: Reference
    cases: tuple[Case, ...]
    tests: tuple[CommandTest, ...] = ()
    build: bytes | None = None
    masked: tuple[str, ...] = ()
    eval_files: tuple[File, ...] = ()
    comparison: Comparison = EXACT
    limits: Limits = Limits()
    case_limits: Limits = CASE_LIMITS

    @property
    def total(self) -> int:
        """How many cases and tests there are to pass."""
        return len(self.cases) + len(self.tests)

    @property
    def entry(self) -> str:
        """The submission's own file, relative to the workspace."""
        return next(a for a in self.run if a.startswith(WORKSPACE + "/"))[len(WORKSPACE) + 1 :]


def check_name(name: str) -> bool:
    """True for a suite's or task's name that is safe as one path component."""
    return _NAME.match(name) is not None


def hidden_path(root: Path, suite: str, task: str) -> Path:
    if not (check_name(suite) and check_name(task)):
        raise TaskError(
            f"not a task name: {suite!r}/{task!r}",
            remedy="letters, digits, '_', '.' and '-' only, not starting with '.' or '-'",
        )
    return Path(root) / "hidden" / suite / task / HIDDEN_FILE


def list_hidden(root: Path) -> dict[str, tuple[str, ...]]:
    """Suites below `root` that have a hidden half, each with the names of its tasks, sorted."""
    suites: dict[str, list[str]] = {}
    for path in sorted(Path(root).glob(f"hidden/*/*/{HIDDEN_FILE}")):
        suites.setdefault(path.parts[-3], []).append(path.parts[-2])
    return {suite: tuple(tasks) for suite, tasks in suites.items()}


def load_hidden(root: Path, suite: str, task: str) -> HiddenTask:
    path = hidden_path(root, suite, task)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(
            f"task {suite}/{task} has no hidden half", where=str(path), remedy="build the suite: ectype tasks build"
        ) from None
    except OSError as error:
        raise TaskError(
            f"the hidden half of task {suite}/{task} cannot be read: {error.strerror}",
            where=str(path),
            remedy="run the sandbox worker as the user who built the suite",
        ) from None
    try:
        hidden = msgspec.msgpack.decode(data, type=HiddenTask)
    except msgspec.MsgspecError as error:
        raise TaskError(
            f"the hidden half of task {suite}/{task} is damaged or of another version: {error}",
            where=str(path),
            remedy="build the suite again: ectype tasks build",
        ) from None
    check_hidden(hidden, where=str(path))
    return hidden


def write_hidden(root: Path, hidden: HiddenTask) -> Path:
    """Write the record (0600, in folders of 0700, replaced atomically) and return its path."""
    path = hidden_path(root, hidden.suite, hidden.task)
    check_hidden(hidden, where=str(path))
    data = msgspec.msgpack.encode(hidden)
    for folder in (path.parent.parent.parent, path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hidden-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def check_hidden(hidden: HiddenTask, *, where: str = "") -> None:
    """Raise `TaskError` on anything that would make grading meaningless."""

    def wrong(what: str, remedy: str) -> TaskError:
        return TaskError(f"task {hidden.suite}/{hidden.task}: {what}", where=where, remedy=remedy)

    if not any(a.startswith(WORKSPACE + "/") for a in hidden.run):
        raise wrong(
            f"`run` names no file of the workspace: {list(hidden.run)}",
            "name the submission by its absolute path, such as /work/main.py (cases run from an empty folder)",
        )
    if not hidden.reference.argv:
        raise wrong("the reference has no argv", "give the command that starts the reference")
    if not hidden.total:
        raise wrong("there are no hidden cases", "add cases: a task without any would pass every submission")
    for test in hidden.tests:
        if not test.argv or test.calls < 1:
            raise wrong(
                f"test {test.name}: nothing to run", "give its command, and at least one call of the submission"
            )
        for file in test.files:
            if not file.path.startswith("/tests/") or ".." in file.path.split("/"):
                raise wrong(f"test {test.name}: bad file path {file.path!r}", "use an absolute path below /tests")
    names = [case.name for case in (*hidden.cases, *hidden.tests)]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise wrong(f"case names are not unique: {', '.join(repeated)}", "give every case its own name")
    for label, paths in (
        ("masked", hidden.masked),
        ("eval_files", tuple(f.path for f in hidden.eval_files)),
        ("reference.files", tuple(f.path for f in hidden.reference.files)),
    ):
        for path in paths:
            inside = path == WORKSPACE or path.startswith(WORKSPACE + "/")
            if not path.startswith("/") or ".." in path.split("/") or inside:
                raise wrong(f"{label}: bad path {path!r}", "use an absolute path outside the workspace, without '..'")
    for case in hidden.cases:
        for file in case.files:
            if file.path.startswith("/") or ".." in file.path.split("/"):
                raise wrong(
                    f"case {case.name}: bad file path {file.path!r}", "use a path relative to the case's folder"
                )
