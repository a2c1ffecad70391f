"""Checks a built suite in real sandboxes: is every task solvable, impossible to pass by doing nothing, and tight?

Comes in: a `tasks_root` and the name of a suite in it. Goes out: one `Finding` per task and check, good or bad. The
checks use the grader and the oracle that episodes use. Findings are for those who build suites, and may name hidden
cases: they must never reach a policy.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import posixpath
from collections.abc import Sequence
from pathlib import Path

import msgspec

from containers.apptainer import Apptainer, probe_isolation
from containers.files import read_program
from containers.image import ensure_image
from queues.messages import Record, TestResult
from sandbox.grading import grade, passes
from sandbox.hidden import Case, CommandTest, HiddenTask, list_hidden, load_hidden
from sandbox.oracle import run_reference
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, CommandResult, File, OracleCall
from tasks.build import SANDBOXES, Progress, ensure_suite, suite_name

ORACLE_SAMPLE = 3
TELLING_BYTES = 16
"""A line of code shorter than this may stand in instructions by coincidence."""


class Finding(Record, frozen=True, kw_only=True):
    """`check` is one of: reference, oracle, nothing, instructions, masks."""

    suite: str
    task: str
    check: str
    ok: bool
    detail: str


def check_suites(names: Sequence[str], *, progress: Progress | None = None) -> list[Finding]:
    """Build (where needed) and check suites, as `ectype tasks check` does. Runs its own event loop."""
    roots = [(ensure_suite(name, progress=progress), suite_name(name)) for name in names]
    image = ensure_image(progress=progress)

    async def check_all() -> list[Finding]:
        apptainer = await Apptainer.find()
        isolation = await probe_isolation(apptainer, image)
        pool, judges = Pool(apptainer, image, isolation, SANDBOXES), Pool(apptainer, image, isolation, 1)
        try:
            findings = [
                await check_suite(root, suite, pool=pool, judges=judges, progress=progress) for root, suite in roots
            ]
        finally:
            await pool.close()
            await judges.close()
        return list(itertools.chain.from_iterable(findings))

    return asyncio.run(check_all())


async def check_suite(
    root: Path, suite: str, *, pool: Pool, judges: Pool | None = None, progress: Progress | None = None
) -> list[Finding]:
    """Every finding about every task of `suite`, in the order of the tasks. `judges`: for command tests."""
    report = progress or (lambda message: None)
    names = list_hidden(root)[suite]
    done = itertools.count(1)

    async def one(name: str) -> list[Finding]:
        findings = await check_task(root, load_hidden(root, suite, name), pool, judges)
        report(f"{suite}: {next(done)} of {len(names)} tasks checked ({name})")
        return findings

    async with asyncio.TaskGroup() as workers:
        running = [workers.create_task(one(name)) for name in names]
    return list(itertools.chain.from_iterable(task.result() for task in running))


async def check_task(root: Path, hidden: HiddenTask, pool: Pool, judges: Pool | None = None) -> list[Finding]:
    def finding(check: str, problem: str, detail: str = "") -> Finding:
        return Finding(suite=hidden.suite, task=hidden.task, check=check, ok=not problem, detail=problem or detail)

    return [
        finding("reference", *await _reference_passes(hidden, pool, judges)),
        finding("oracle", *await _oracle_agrees(hidden, pool)),
        finding("nothing", *await _nothing_fails(hidden, pool, judges)),
        finding("instructions", *_instructions_tell_nothing(root, hidden)),
        finding("masks", *await _masks_hold(hidden, pool)),
    ]


async def _reference_passes(hidden: HiddenTask, pool: Pool, judges: Pool | None) -> tuple[str, str]:
    """Graded as a submission, the reference must pass all of its own cases."""
    failed: list[str] = []

    def on_case(case: Case | CommandTest, outcome: CommandResult | None, passed: bool) -> None:
        if not passed:
            failed.append(f"{case.name} {list(case.argv)}: {'not tried' if outcome is None else outcome.status}")

    graded, submission = _as_submission(hidden, pool.image)
    result = await grade(pool, graded, submission, on_case=on_case, judges=judges, keep_copies=True)
    if result.passed == result.total:
        return "", f"{result.total} cases"
    reason = failed[0] if failed else result.compile_stderr.decode("utf-8", "replace").strip()
    return f"the reference passes {result.passed} of its own {result.total} cases; {reason}", ""


def _as_submission(hidden: HiddenTask, image: Path) -> tuple[HiddenTask, tuple[File, ...]]:
    """The reference in the place of a submission.

    A program of the image is handed in as the built program itself. Files of the reference go to the same names below
    /work, and the command that starts them follows.
    """
    program = hidden.reference.argv[0]
    if program in hidden.masked or not hidden.reference.files:
        return hidden, (File(path=hidden.entry, data=read_program(image, program), mode=0o755),)
    moved = tuple(argument.replace("/reference/", "/work/") for argument in hidden.reference.argv)
    files = tuple(
        File(path=file.path.removeprefix("/reference/"), data=file.data, mode=file.mode)
        for file in hidden.reference.files
    )
    return msgspec.structs.replace(hidden, run=moved, build=None), files


async def _oracle_agrees(hidden: HiddenTask, pool: Pool) -> tuple[str, str]:
    """What the agent sees of the reference must be what its program is compared with."""
    step = max(1, len(hidden.cases) // ORACLE_SAMPLE)
    sample = hidden.cases[::step][:ORACLE_SAMPLE]
    for case in sample:
        outcome = await run_reference(pool, hidden, OracleCall(argv=case.argv, stdin=case.stdin, files=case.files))
        if not passes(hidden, case, outcome):
            return f"the oracle prints something else on case {case.name} {list(case.argv)}", ""
    return "", f"{len(sample)} calls"


async def _nothing_fails(hidden: HiddenTask, pool: Pool, judges: Pool | None) -> tuple[str, str]:
    """No files at all, and a program that prints nothing and exits with 0."""
    best = 0
    for submission in ((), (File(path=hidden.entry, data=b"#!/bin/sh\n", mode=0o755),)):
        result: TestResult = await grade(pool, hidden, submission, judges=judges)
        if result.passed == result.total:
            return f"a submission that does nothing passes all {result.total} cases", ""
        best = max(best, result.passed)
    return "", f"passes {best} of {hidden.total}"


def _instructions_tell_nothing(root: Path, hidden: HiddenTask) -> tuple[str, str]:
    """The public half holds no hidden input with its output, no line of the reference, and no solution."""
    folder = root / "public" / hidden.suite / hidden.task
    texts = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    examples = [json.loads(data) for path, data in texts.items() if path.parts[0] == "examples"]
    shown = {(tuple(e["argv"]), e["stdin"], json.dumps(e["files"])) for e in examples}
    for case in hidden.cases:
        public = json.loads(
            msgspec.json.encode(
                {
                    "argv": case.argv,
                    "stdin": case.stdin,
                    "files": [{"path": f.path, "data": f.data} for f in case.files],
                }
            )
        )
        if (tuple(public["argv"]), public["stdin"], json.dumps(public["files"])) in shown:
            return f"case {case.name} is also a public example", ""
    everything = b"\n".join(texts.values())
    for file in (*hidden.reference.files, *hidden.eval_files, *(f for test in hidden.tests for f in test.files)):
        lines = [line.strip() for line in file.data.splitlines()]
        telling = [line for line in lines if len(line) >= TELLING_BYTES and not line.startswith((b"#", b"import "))]
        if any(line in everything for line in telling):
            return f"a line of {posixpath.basename(file.path)} stands in the public half", ""
    return "", f"{len(texts)} public files"


async def _masks_hold(hidden: HiddenTask, pool: Pool) -> tuple[str, str]:
    """In a cell like the agent's no masked program can be run or read, and no copy of one is anywhere."""
    if not hidden.masked:
        return "", "nothing to mask"
    wanted = []
    for name in hidden.masked:
        data = read_program(pool.image, name)
        wanted.append([name, len(data), hashlib.sha256(data).hexdigest()])
    async with pool.lease() as sandbox:
        await sandbox.open(CellSpec(masked=hidden.masked), hidden.limits)
        result = await sandbox.run(
            argv=("/usr/bin/python3", "-I", "-S", "-c", _LOOK), stdin=json.dumps(wanted).encode(), cwd="/work"
        )
        await sandbox.close_cell()
    if result.status != "ok":
        return f"could not look: {result.status}: {result.stderr.decode('utf-8', 'replace').strip()[-200:]}", ""
    problems = json.loads(result.stdout)
    return "; ".join(problems), f"{len(wanted)} names"


_LOOK = r"""
import hashlib, json, os, shutil, subprocess, sys
wanted = json.load(sys.stdin)
problems = []
for name, size, digest in wanted:
    try:
        if open(name, "rb").read(1):
            problems.append(name + " can be read")
    except OSError:
        pass
    try:
        subprocess.run([name], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
        problems.append(name + " can be run")
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, subprocess.TimeoutExpired):
            problems.append(name + " can be run")
    found = shutil.which(os.path.basename(name))
    if found:
        problems.append(found + " is on PATH")
sizes = {size for _, size, _ in wanted}
digests = {digest for _, _, digest in wanted}
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/dev")]
    for file in files:
        path = os.path.join(folder, file)
        try:
            if os.lstat(path).st_size in sizes and hashlib.sha256(open(path, "rb").read()).hexdigest() in digests:
                problems.append(path + " is a copy")
        except OSError:
            pass
print(json.dumps(sorted(set(problems))))
"""
