"""The hostile programs as submissions: while they are built, and as one of their own cases.

Whatever one does, it is a failed build or a failed case: the cases before and after it end as if it had not been there,
a grading beside it is not disturbed, and the grader builds and tests the next submission as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from queues.messages import TestResult
from sandbox.grading import grade
from sandbox.hidden import Case, HiddenTask
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import CommandResult, File
from tests.attacks.test_attacks import ATTACKS, COMMANDS, PROGRAMS, Attack
from tests.sandbox.small_tasks import MARKER, REVERSE, SOLUTION, one_pool

pytestmark = [pytest.mark.apptainer, pytest.mark.asyncio(loop_scope="module")]

QUICK = frozenset(
    """
    fork_bomb.sh kill_everything.sh daemons.sh output_flood.sh forge_answers.py trace_init.py memory_many.py
    disk_fill.sh inode_fill.sh symlinks.sh hard_links.sh fifos_and_sockets.sh proc_writes.sh keeps_the_pipe.sh
    signal_storm.py workspace_modes.sh init_limits.py huge_environment.sh core_dump.sh stop_everything.c
    write_own_text.py
    """.split()  # noqa: SIM905
)
"""The others are slow."""

HONEST = (File(path="main.py", data=SOLUTION),)
DISPATCH = rb"""
import os, sys
line = sys.stdin.readline().strip()
if line == "attack":
    command = %r
    os.execvp(command[0], command)
print(line[::-1])
"""


def attacks() -> list[object]:
    found = []
    for attack in ATTACKS:
        marks = [] if attack.path.name in QUICK else [pytest.mark.slow]
        found.append(pytest.param(attack, id=attack.path.name, marks=marks))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with one_pool(2) as started:
        yield started


def hidden_task(attack: Attack, build: bytes | None, *stdins: bytes) -> HiddenTask:
    cases = tuple(
        Case(name=f"{number}", stdin=stdin, stdout=stdin.strip()[::-1] + b"\n" if stdin != b"attack\n" else MARKER)
        for number, stdin in enumerate(stdins)
    )
    return msgspec.structs.replace(
        REVERSE,
        build=build,
        cases=cases,
        limits=msgspec.structs.replace(attack.limits, cpu_s=10.0, wall_s=10.0),
        case_limits=attack.limits,
    )


def files_of(attack: Attack, main: bytes) -> tuple[File, ...]:
    names = [(name, name) for name in ("hostile.py", "hostile.h")]
    names.append((attack.path.name, f"attack{attack.path.suffix}"))
    return (
        File(path="main.py", data=main),
        *(File(path=name, data=(PROGRAMS / source).read_bytes()) for source, name in names),
    )


async def beside_an_honest_one(pool: Pool, hidden: HiddenTask, files: tuple[File, ...]) -> tuple[TestResult, list]:
    told: list[tuple[CommandResult | None, bool]] = []
    result, honest = await asyncio.gather(
        grade(pool, hidden, files, on_case=lambda case, outcome, passed: told.append((outcome, passed))),
        grade(pool, msgspec.structs.replace(REVERSE, case_limits=Limits(wall_s=20)), HONEST),
    )
    assert honest == TestResult(compile_status="none", passed=4, total=4), "a grading beside it"
    assert (await grade(pool, REVERSE, HONEST)).passed == 4, "the next grading"
    for outcome, _ in told:
        assert outcome is None or b"BREACH" not in outcome.stdout + outcome.stderr, outcome
    return result, told


COMPILE = b"if [ -f attack.c ]; then gcc -w -O1 -o attack attack.c || exit 99; fi\n"


@pytest.mark.parametrize("attack", attacks())
async def test_as_a_build(pool: Pool, attack: Attack) -> None:
    command = " ".join(COMMANDS[attack.path.suffix]).encode()
    hidden = hidden_task(attack, COMPILE + command + b" >&2\nexit 7\n", b"one\n")
    result, told = await beside_an_honest_one(pool, hidden, files_of(attack, SOLUTION))
    assert (result.compile_status, result.passed, told) == ("failed", 0, [])
    assert b"BREACH" not in result.compile_stderr


@pytest.mark.parametrize("attack", attacks())
async def test_as_a_case_among_others(pool: Pool, attack: Attack) -> None:
    command = [
        word.replace("attack.", "/work/attack.").replace("./", "/work/") for word in COMMANDS[attack.path.suffix]
    ]
    hidden = hidden_task(attack, COMPILE, b"one\n", b"attack\n", b"two\n", b"attack\n", b"three\n")
    result, told = await beside_an_honest_one(pool, hidden, files_of(attack, DISPATCH % (command,)))
    assert result == TestResult(compile_status="ok", passed=3, total=5), told
    assert [passed for _, passed in told] == [True, False, True, False, True]
