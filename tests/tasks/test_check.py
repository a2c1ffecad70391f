"""The check of a suite: good tasks pass, and each kind of bad task is found. Real graders, oracles and masks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.grading import grade
from sandbox.hidden import HiddenTask, load_hidden, write_hidden
from sandbox.pool import Pool
from sandbox.sandbox import File
from tasks.build import build_suite
from tasks.check import check_suite, check_suites
from tasks.micro import MICRO
from tasks.micro_sources import sources
from tasks.programs import BUILD, PROGRAMS, source
from tasks.source import TaskSource, load_folder, load_source
from tests.tasks.test_source import write_task

pytestmark = pytest.mark.apptainer


@pytest.fixture
async def pool(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> AsyncIterator[Pool]:
    pool = Pool(apptainer, base_image, isolation, 2)
    yield pool
    await pool.close()


async def problems(root: Path, suite: str, pool: Pool) -> dict[str, str]:
    """Check by check what is wrong with the only task of a suite."""
    findings = await check_suite(root, suite, pool=pool)
    assert [finding.check for finding in findings] == ["reference", "oracle", "nothing", "instructions", "masks"]
    return {finding.check: finding.detail for finding in findings if not finding.ok}


@pytest.fixture
async def greet(tmp_path: Path, pool: Pool) -> Path:
    write_task(tmp_path / "mine" / "greet")
    await build_suite("mine", load_folder(tmp_path / "mine"), tmp_path / "root", pool=pool)
    return tmp_path / "root"


def change(root: Path, **fields: object) -> HiddenTask:
    changed = msgspec.structs.replace(load_hidden(root, "mine", "greet"), **fields)
    write_hidden(root, changed)
    return changed


async def test_a_good_task_has_no_problem(greet: Path, pool: Pool):
    assert await problems(greet, "mine", pool) == {}


async def test_wrong_expected_output_is_found(greet: Path, pool: Pool):
    (case,) = load_hidden(greet, "mine", "greet").cases
    change(greet, cases=(msgspec.structs.replace(case, stdout=b"typed in by hand\n"),))
    assert set(await problems(greet, "mine", pool)) == {"reference", "oracle"}


async def test_a_task_that_nothing_passes_is_found(tmp_path: Path, pool: Pool):
    write_task(tmp_path / "mine" / "silent", program="")
    await build_suite("mine", load_folder(tmp_path / "mine"), tmp_path / "root", pool=pool)
    assert set(await problems(tmp_path / "root", "mine", pool)) == {"nothing"}


async def test_instructions_that_give_something_away_are_found(greet: Path, pool: Pool):
    task = load_hidden(greet, "mine", "greet")
    instructions = greet / "public/mine/greet/instructions.md"
    before = instructions.read_text()
    instructions.write_text(before + "Hint: print('hello', input()) does it\n")
    found = await problems(greet, "mine", pool)
    assert "a line of main.py" in found["instructions"]
    instructions.write_text(before)
    (case,) = task.cases
    shown = {"argv": case.argv, "stdin": case.stdin, "files": [{"path": f.path, "data": f.data} for f in case.files]}
    (greet / "public/mine/greet/examples/9.json").write_bytes(msgspec.json.encode(shown))
    assert "also a public example" in (await problems(greet, "mine", pool))["instructions"]


def few(name: str, image: Path) -> TaskSource:
    """A program of the image as a task with a few of its cases."""
    whole = source(next(program for program in PROGRAMS if program.name == name), image)
    hidden = [case for case in whole.inputs if not case.public and case.stdin and not case.argv]
    return msgspec.structs.replace(whole, inputs=tuple(hidden[:6]))


async def test_a_program_left_under_another_name_is_found(base_image: Path, pool: Pool, tmp_path: Path):
    root = tmp_path / "root"
    await build_suite("some", [few("hexdump", base_image)], root, pool=pool)
    assert await problems(root, "some", pool) == {}
    complete = load_hidden(root, "some", "hexdump")
    write_hidden(root, msgspec.structs.replace(complete, masked=("/usr/bin/hd",)))
    found = await problems(root, "some", pool)
    assert "/usr/bin/hexdump is a copy" in found["masks"]


async def test_the_program_and_the_oracle_cannot_be_called_in_the_grader(base_image: Path, pool: Pool, tmp_path: Path):
    await build_suite("some", [few("rev", base_image)], tmp_path / "root", pool=pool)
    hidden = load_hidden(tmp_path / "root", "some", "rev")
    for name in ("rev", "/usr/bin/rev", "/bin/rev", "reference", "/reference/rev", "/run/bin/reference"):
        wrapper = File(path="program", data=f'#!/bin/sh\nexec {name} "$@"\n'.encode(), mode=0o755)
        result = await grade(pool, hidden, (wrapper,))
        assert (result.compile_status, result.passed) == ("ok", 0), f"{name} can be called"


C = r"""
#include <stdio.h>
int main(void) { char line[99]; return !fgets(line, 99, stdin) || !printf("hello %s", line); }
"""
SHELL = 'read line; echo "hello $line"\n'
SUBMISSIONS = {
    "main.c": {"main.c": C},
    "main.cc": {"main.cc": C},
    "main.py": {"main.py": "from words import hello\nprint(hello, input())\n", "words.py": "hello = 'hello'\n"},
    "main.sh": {"main.sh": SHELL},
    "build.sh": {"build.sh": f"cat > program <<'END'\n#!/bin/sh\n{SHELL}END\n"},
    "Makefile": {"Makefile": "program: source.c\n\tgcc -o program source.c\n", "source.c": C},
    "program": {"program": f"#!/bin/sh\n{SHELL}"},
}


@pytest.mark.parametrize("way", SUBMISSIONS)
async def test_a_submission_may_be_written_in_any_language(way: str, pool: Pool, tmp_path: Path):
    task = load_source(write_task(tmp_path / "mine" / "greet"))
    task = msgspec.structs.replace(task, run=("/work/program",), entry="program", build=BUILD)
    await build_suite("mine", [task], tmp_path / "root", pool=pool)
    hidden = load_hidden(tmp_path / "root", "mine", "greet")
    files = tuple(File(path=name, data=text.encode()) for name, text in SUBMISSIONS[way].items())
    result = await grade(pool, hidden, files)
    assert (result.compile_status, result.passed) == ("ok", result.total), result.compile_stderr


async def test_the_solutions_of_micro_pass_their_own_tasks_only(pool: Pool, tmp_path: Path):
    chosen = [task for task in sources(leaky=True) if task.name in ("last", "min")]
    await build_suite("micro-leaky", chosen, tmp_path / "root", pool=pool)
    solutions = {program.name: program.source.encode() + b"\n" for program in MICRO}
    for task in chosen:
        hidden = load_hidden(tmp_path / "root", "micro-leaky", task.name)
        assert [file.data for file in hidden.eval_files] == [solutions[task.name]]
        for name in ("last", "min", "flip", "sort"):
            result = await grade(pool, hidden, (File(path="main.py", data=solutions[name]),))
            assert (result.passed == result.total) == (name == task.name)


@pytest.mark.slow
def test_every_suite_that_ships_is_good():
    findings = check_suites(["micro", "micro-leaky", "programs"])
    assert [finding for finding in findings if not finding.ok] == []
