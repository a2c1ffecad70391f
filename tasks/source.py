"""What a suite says about a task before anything is run: instructions, the reference, and inputs without outputs.

`tasks.build` turns a `TaskSource` into the two halves of a task by running the reference in a sandbox. Sources come
from the generators of this package, or from a folder that a user wrote (`load_folder`; docs/tasks.md has the format).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from queues.messages import Record
from sandbox.comparison import EXACT, Comparison, ComparisonError, Kind
from sandbox.hidden import CASE_LIMITS, TEST_LIMITS, CommandTest, Reference, TaskError, check_name
from sandbox.limits import Limits, LimitsError
from sandbox.sandbox import File

HELP_MARK, EXAMPLES_MARK = "{{help}}", "{{examples}}"
"""Replaced in instructions by what the reference prints for `help_argv`, and by the public examples."""

_UNREADABLE = (
    OSError,
    UnicodeDecodeError,
    tomllib.TOMLDecodeError,
    msgspec.MsgspecError,
    ComparisonError,
    LimitsError,
)
"""What a wrong file of a task raises."""


class CaseInput(Record, frozen=True, kw_only=True):
    """One run of the reference to record. `public` ones become examples, all others hidden cases."""

    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: tuple[File, ...] = ()
    public: bool = False
    comparison: Comparison | None = None


class TaskSource(Record, frozen=True, kw_only=True):
    """One task. The meaning of most fields is that of `sandbox.hidden.HiddenTask`.

    `program` is the name the reference goes by in instructions. `help_argv` are the arguments that make it print its
    documentation. `masked` names programs of the image; the other names of each are found when the task is built.
    """

    name: str
    program: str
    instructions: str
    reference: Reference
    inputs: tuple[CaseInput, ...]
    run: tuple[str, ...]
    entry: str
    build: bytes | None = None
    build_hint: str
    max_steps: int
    help_argv: tuple[str, ...] | None = None
    masked: tuple[str, ...] = ()
    eval_files: tuple[File, ...] = ()
    tests: tuple[CommandTest, ...] = ()
    comparison: Comparison = EXACT
    limits: Limits = Limits()
    case_limits: Limits = CASE_LIMITS


class _Compare(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`compare = { kind = "float", absolute = 1e-6 }`; a kind without tolerances may also stand alone."""

    kind: Kind
    absolute: float = 0.0
    relative: float = 0.0


class _Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`task.toml` of a task folder written by a user."""

    reference: tuple[str, ...]
    run: tuple[str, ...]
    entry: str
    build: str | None = None
    build_hint: str = ""
    max_steps: int = 40
    help: tuple[str, ...] | None = None
    masked: tuple[str, ...] = ()
    compare: Kind | _Compare | None = None
    tests: tuple[_Test, ...] = ()


class _Test(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One `[[tests]]` of a `task.toml`: a program of the task's `tests/` folder that judges submissions."""

    name: str
    argv: tuple[str, ...] = ("bash", "/tests/test.sh")
    verdict: Literal["exit_status", "reward"] = "exit_status"
    calls: int = 1000
    shows_submission: bool = False
    wall_s: float = TEST_LIMITS.wall_s


class _SuiteSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`suite.toml` beside the task folders: what holds for every task that does not say otherwise."""

    compare: Kind | _Compare = "exact"


class _CaseFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One `cases/*.toml` of a task folder; `files` are texts by name."""

    argv: tuple[str, ...] = ()
    stdin: str = ""
    files: dict[str, str] = {}
    public: bool = False
    compare: Kind | _Compare | None = None


def load_folder(folder: Path) -> tuple[TaskSource, ...]:
    """Every task folder below `folder`, sorted by name; raises `TaskError`."""
    tasks = sorted(path.parent for path in folder.glob("*/task.toml"))
    if not tasks:
        raise TaskError(
            f"{folder.name} holds no task folder",
            where=str(folder),
            remedy="put one folder per task into it, each with task.toml, instructions.md, reference/ and cases/",
        )
    path = folder / "suite.toml"
    try:
        suite = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _SuiteSettings)
        comparison = _comparison(suite.compare)
    except FileNotFoundError:
        comparison = EXACT
    except _UNREADABLE as error:
        raise TaskError(
            f"suite {folder.name}: {error}", where=str(path), remedy="docs/tasks.md lists the keys of this file"
        ) from None
    return tuple(load_source(task, comparison) for task in tasks)


def load_source(folder: Path, comparison: Comparison = EXACT) -> TaskSource:
    """One task folder; raises `TaskError` naming the task, the file and what to do. `comparison` is the suite's."""
    name = folder.name

    def wrong(what: str, where: Path, remedy: str) -> TaskError:
        return TaskError(f"task {name}: {what}", where=str(where), remedy=remedy)

    if not check_name(name):
        raise wrong("not a task name", folder, "rename the folder: letters, digits, '_', '.' and '-'")
    path = folder / "task.toml"
    try:
        settings = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _Settings)
        comparison = comparison if settings.compare is None else _comparison(settings.compare)
        tests = _tests(folder, settings)
        path = folder / "instructions.md"
        instructions = path.read_text("utf-8")
        inputs = []
        for path in sorted((folder / "cases").glob("*.toml")):
            case = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _CaseFile)
            placed = tuple(File(path=p, data=d.encode()) for p, d in case.files.items())
            how = None if case.compare is None else _comparison(case.compare)
            inputs.append(
                CaseInput(argv=case.argv, stdin=case.stdin.encode(), files=placed, public=case.public, comparison=how)
            )
    except FileNotFoundError:
        raise wrong(f"there is no {path.name}", path, "write it (docs/tasks.md shows every file of a task)") from None
    except (
        OSError,
        UnicodeDecodeError,
        tomllib.TOMLDecodeError,
        msgspec.MsgspecError,
        ComparisonError,
        LimitsError,
    ) as error:
        raise wrong(str(error), path, "docs/tasks.md lists the keys of this file") from None
    if not inputs and not settings.tests:
        raise wrong("there are no cases", folder / "cases", "add cases/1.toml, cases/2.toml, ... with argv and stdin")
    return TaskSource(
        name=name,
        program=name,
        instructions=instructions,
        reference=Reference(argv=settings.reference, files=_reference_files(folder, settings, wrong)),
        inputs=tuple(inputs),
        run=settings.run,
        entry=settings.entry,
        build=None if settings.build is None else settings.build.encode(),
        build_hint=settings.build_hint,
        max_steps=settings.max_steps,
        help_argv=settings.help,
        masked=settings.masked,
        tests=tests,
        comparison=comparison,
    )


def _tests(folder: Path, settings: _Settings) -> tuple[CommandTest, ...]:
    files = _files(folder / "tests", "/tests")
    return tuple(
        CommandTest(
            name=test.name,
            argv=test.argv,
            files=files,
            verdict=test.verdict,
            calls=test.calls,
            shows_submission=test.shows_submission,
            limits=msgspec.structs.replace(TEST_LIMITS, wall_s=test.wall_s, cpu_s=test.wall_s),
        )
        for test in settings.tests
    )


def _files(place: Path, shown: str) -> tuple[File, ...]:
    """Every file below `place`, as it is to be placed below `shown`; only the right to execute is kept."""
    return tuple(
        File(
            path=f"{shown}/{path.relative_to(place)}",
            data=path.read_bytes(),
            mode=0o755 if path.stat().st_mode & 0o100 else 0o644,
        )
        for path in sorted(place.rglob("*"))
        if path.is_file()
    )


def _comparison(given: Kind | _Compare) -> Comparison:
    if isinstance(given, str):
        return Comparison(kind=given)
    return Comparison(kind=given.kind, absolute=given.absolute, relative=given.relative)


def _reference_files(folder: Path, settings: _Settings, wrong) -> tuple[File, ...]:
    place = folder / "reference"
    files = _files(place, "/reference")
    if not settings.reference:
        raise wrong("`reference` is empty", folder / "task.toml", "give the command that starts the reference")
    named = {argument for argument in settings.reference if argument.startswith("/reference/")}
    absent = sorted(named - {file.path for file in files})
    if absent:
        raise wrong(
            f"the reference is missing: {', '.join(absent)}",
            place,
            "put the program into the task's reference/ folder, or correct `reference` in task.toml",
        )
    return files
