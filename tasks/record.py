"""Runs a reference in real sandboxes and makes the two halves of its task from what it printed.

Comes in: a `TaskSource`. Goes out: a `RecordedTask`, the hidden record and the public files. Expected output is
what the reference printed in a cell like the grader's, twice, in two cells and in two orders: a case that depends
on time, place or chance is refused. Nothing is written to disk here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from queues.messages import Record
from sandbox.comparison import agree
from sandbox.hidden import Case, HiddenTask, TaskError, check_hidden
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, SandboxLost
from tasks.names import names_of
from tasks.source import EXAMPLES_MARK, HELP_MARK, CaseInput, TaskSource

MAX_STDOUT_BYTES = 128 << 10
CANNOT_START = (126, 127)


class RecordedTask(Record, frozen=True, kw_only=True):
    """`settings` is the content of the public `task.toml`; `examples` are the public runs."""

    hidden: HiddenTask
    settings: str
    instructions: str
    examples: tuple[Case, ...]


async def record(source: TaskSource, suite: str, pool: Pool) -> RecordedTask:
    """Run every input of `source`. Raises `TaskError` when the reference is missing, fails or is not deterministic."""
    masked = _all_names(source, suite, pool.image)
    calls = source.inputs
    if source.help_argv is not None:
        calls = (*calls, CaseInput(argv=source.help_argv))
    first = await _run_all(source, suite, pool, calls)
    second = await _run_all(source, suite, pool, calls[::-1])
    for number, (call, one, two) in enumerate(zip(calls, first, second[::-1], strict=True), 1):
        _check_run(source, suite, number, call, one)
        how = call.comparison or source.comparison
        if one.exit_status != two.exit_status or not agree(how, one.stdout, two.stdout):
            raise _wrong(
                source, suite, number, call, "the reference printed something else the second time", "take the case out"
            )
    help_text = ""
    if source.help_argv is not None:
        help_text = _help_text(source, first[-1].stdout)
    if first and not any(result.exit_status == 0 for result in first):
        raise TaskError(
            f"task {suite}/{source.name}: the reference fails on every case: {_last_line(first[0].stderr)}",
            where=" ".join(source.reference.argv),
            remedy="run it by hand with the first case's input, and correct the reference or its command",
        )
    cases, examples = [], []
    for call, result in zip(source.inputs, first, strict=False):
        kept = examples if call.public else cases
        assert result.exit_status is not None
        kept.append(
            Case(
                name=f"{len(kept) + 1:03}",
                argv=call.argv,
                stdin=call.stdin,
                files=call.files,
                stdout=result.stdout,
                exit_status=result.exit_status,
                comparison=call.comparison,
            )
        )
    hidden = HiddenTask(
        suite=suite,
        task=source.name,
        run=source.run,
        reference=source.reference,
        cases=tuple(cases),
        tests=source.tests,
        build=source.build,
        masked=masked,
        eval_files=source.eval_files,
        comparison=source.comparison,
        limits=source.limits,
        case_limits=source.case_limits,
    )
    check_hidden(hidden, where=source.name)
    shown = "\n\n".join(_show(source.program, example) for example in examples)
    return RecordedTask(
        hidden=hidden,
        settings=_settings(source),
        instructions=source.instructions.replace(HELP_MARK, help_text).replace(EXAMPLES_MARK, shown),
        examples=tuple(examples),
    )


async def _run_all(source: TaskSource, suite: str, pool: Pool, calls: tuple[CaseInput, ...]) -> list[CommandResult]:
    """All calls in one cell, each in its own empty folder; a lost container is tried once more."""
    for attempt in (1, 2):
        try:
            async with pool.lease() as sandbox:
                await sandbox.open(CellSpec(files=source.reference.files), source.limits)
                results = [
                    await sandbox.run_case(
                        (*source.reference.argv, *call.argv),
                        stdin=call.stdin,
                        files=call.files,
                        limits=source.case_limits,
                    )
                    for call in calls
                ]
                await sandbox.close_cell()
                return results
        except SandboxLost:
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def _check_run(source: TaskSource, suite: str, number: int, call: CaseInput, result: CommandResult) -> None:
    what = remedy = ""
    if result.stdout_truncated or len(result.stdout) > MAX_STDOUT_BYTES:
        what = f"the reference prints more than {MAX_STDOUT_BYTES >> 10} KiB"
        remedy = "make the case's input smaller"
    elif result.status not in ("ok", "nonzero") or result.exit_status is None:
        ended = result.status if result.signal is None else f"{result.status}, signal {result.signal}"
        what, remedy = f"the reference did not end by itself ({ended})", "correct the reference, or take the case out"
    elif result.exit_status in CANNOT_START and not result.stdout:
        what = f"the reference cannot be started: {_last_line(result.stderr)}"
        remedy = "correct the reference's command, or add what it needs to the image"
    if what:
        raise _wrong(source, suite, number, call, what, remedy)


def _wrong(source: TaskSource, suite: str, number: int, call: CaseInput, what: str, remedy: str) -> TaskError:
    command = shlex.join((*source.reference.argv, *call.argv))
    return TaskError(f"task {suite}/{source.name}: {what}", where=f"case {number}: {command}", remedy=remedy)


def _last_line(stderr: bytes) -> str:
    return (stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]


def _all_names(source: TaskSource, suite: str, image: Path) -> tuple[str, ...]:
    names: set[str] = set()
    for program in source.masked:
        try:
            names.update(names_of(image, program))
        except FileNotFoundError:
            raise TaskError(
                f"task {suite}/{source.name}: the image has no program {program}",
                where=str(image),
                remedy="correct `masked`, or add the program's package to the image",
            ) from None
    program = source.reference.argv[0]
    if not source.reference.files and program not in names:
        raise TaskError(
            f"task {suite}/{source.name}: the reference is a program of the image, and everybody could just call it",
            where=program,
            remedy="name it in `masked`, so that the agent and the grader do not have it",
        )
    return tuple(sorted(names))


def _help_text(source: TaskSource, stdout: bytes) -> str:
    """The help as if the program had been called by its name, without the pointers to other documentation."""
    text = stdout.decode("utf-8", "replace").replace(source.reference.argv[0], source.program)
    return text.split("\nGNU coreutils online help:")[0].strip("\n")


def _settings(source: TaskSource) -> str:
    """`task.toml` of the public half, format 1 (a JSON string is a TOML string)."""
    entry, hint = (msgspec.json.encode(text).decode() for text in (source.entry, source.build_hint))
    return f"format = 1\nentry = {entry}\nbuild_hint = {hint}\nmax_steps = {source.max_steps}\n"


def _show(program: str, example: Case) -> str:
    """One example as a console session in Markdown."""
    lines = ["```console"]
    for file in example.files:
        lines += [f"$ cat {shlex.quote(file.path)}", *_text_lines(file.data)]
    if example.stdin:
        lines += ["$ cat input", *_text_lines(example.stdin)]
    command = shlex.join((program, *example.argv))
    lines += [f"$ {command} < {'input' if example.stdin else '/dev/null'}", *_text_lines(example.stdout)]
    if example.exit_status:
        lines.append(f"(exit status {example.exit_status})")
    return "\n".join([*lines, "```"])


def _text_lines(data: bytes) -> list[str]:
    """Lines for a reader; a text that does not end with a newline says so, other bytes are escaped."""
    text = data.decode("utf-8", "backslashreplace")
    lines = "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text).split("\n")
    if lines[-1]:
        return [*lines[:-1], lines[-1] + "   (no newline at the end)"]
    return lines[:-1]
