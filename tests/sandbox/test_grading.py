"""Grading on real containers: what is right passes, everything else fails, and only our own failures are raised."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys

import msgspec
import pytest

from containers.files import read_program
from queues.messages import TestResult
from sandbox.cases import _enough
from sandbox.comparison import Comparison
from sandbox.copies import Copy
from sandbox.grading import grade
from sandbox.hidden import Case, HiddenTask
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import CommandResult, File, Sandbox, SandboxLost
from tests.sandbox.small_tasks import COUNT, MARKER, REVERSE, SOLUTION, one_pool

pytestmark = pytest.mark.apptainer

C_PROGRAM = rb"""
#include <stdio.h>
int main(int n, char **a) {
  FILE *f = n > 2 ? fopen(a[2], "r") : stdin;
  if (!f) return 1;
  long lines = 0; int c;
  while ((c = getc(f)) != EOF) lines += c == '\n';
  if (n > 2) printf("%ld %s\n", lines, a[2]); else printf("%ld\n", lines);
  return 0;
}
"""


def main_py(source: bytes) -> tuple[File, ...]:
    return (File(path="main.py", data=source),)


async def test_right_wrong_and_missing() -> None:
    async with one_pool() as pool:
        assert await grade(pool, REVERSE, main_py(SOLUTION)) == TestResult(compile_status="none", passed=4, total=4)
        half = b"import sys\ns = sys.stdin.readline().strip()\nprint(s[::-1] if s[-1] in '01' else s)\n"
        assert await grade(pool, REVERSE, main_py(half)) == TestResult(compile_status="none", passed=2, total=4)
        missing = await grade(pool, REVERSE, (File(path="other.py", data=SOLUTION),))
        assert missing.compile_status == "failed" and missing.passed == 0 and missing.total == 4
        assert missing.compile_stderr == b"main.py: No such file or directory\n"
        assert (await grade(pool, REVERSE, ())).compile_status == "failed"


BAD_SUBMISSIONS = (
    b"syntax error(",
    b"import os; os.abort()",
    b"while True: pass",
    b"import time; time.sleep(100)",
    b"x = 'a'\nwhile True: print(x * 100000)",
    b"import os\nwhile True: os.fork()",
    b"import os, signal\nos.kill(-1, signal.SIGKILL)\nos.kill(1, signal.SIGKILL)\nprint()",
    b"x = []\nwhile True: x.append(bytearray(1 << 20))",
    b"print(input()[::-1]); raise SystemExit(1)",
    b"print(input()[::-1] + ' ')",
    b"print(input()[::-1], end='')",
)


async def test_whatever_a_bad_submission_does_is_a_failure() -> None:
    hidden = msgspec.structs.replace(
        REVERSE, cases=REVERSE.cases[:1], case_limits=Limits(wall_s=1.0, cpu_s=1.0, memory_bytes=256 << 20)
    )
    async with one_pool() as pool:
        for source in BAD_SUBMISSIONS:
            result = await grade(pool, hidden, main_py(source))
            assert result == TestResult(compile_status="none", passed=0, total=1), source
            assert (await grade(pool, REVERSE, main_py(SOLUTION))).passed == 4, "the grader survived it"


async def test_after_three_timeouts_the_rest_is_not_tried() -> None:
    tried: list[CommandResult | None] = []
    hidden = msgspec.structs.replace(REVERSE, case_limits=Limits(wall_s=0.5))
    async with one_pool() as pool:
        await grade(
            pool, hidden, main_py(b"while 1: pass"), on_case=lambda case, outcome, passed: tried.append(outcome)
        )
    assert [outcome is None for outcome in tried] == [False, False, False, True]


async def test_a_submission_that_is_slow_on_every_case_does_not_keep_the_grader() -> None:
    tried: list[CommandResult | None] = []
    cases = tuple(msgspec.structs.replace(REVERSE.cases[0], name=f"{number}") for number in range(40))
    hidden = msgspec.structs.replace(REVERSE, cases=cases, case_limits=Limits(wall_s=0.5))
    async with one_pool() as pool:
        slow = main_py(b"import time; time.sleep(0.3)\n" + SOLUTION)
        result = await grade(pool, hidden, slow, on_case=lambda case, outcome, passed: tried.append(outcome))
    reached = sum(outcome is not None for outcome in tried)
    assert len(tried) == result.total == 40 and result.passed <= reached <= 20


async def test_a_program_is_built_and_run_in_a_clean_folder() -> None:
    async with one_pool() as pool:
        built = await grade(pool, COUNT, (File(path="main.c", data=C_PROGRAM),))
        assert built == TestResult(compile_status="ok", passed=3, total=3)
        makefile = (
            File(path="Makefile", data=b"program: src/a.c\n\tgcc -o program src/a.c\n"),
            File(path="src/a.c", data=C_PROGRAM),
        )
        assert (await grade(pool, COUNT, makefile)).passed == 3
        broken = await grade(pool, COUNT, (File(path="main.c", data=b"int main() { return missing(); }"),))
        assert broken.compile_status == "failed" and broken.passed == 0
        assert b"missing" in broken.compile_stderr
        nothing = await grade(pool, COUNT, (File(path="Makefile", data=b"all:\n\ttrue\n"),))
        assert nothing.compile_status == "failed"
        assert b"program: No such file or directory" in nothing.compile_stderr


async def test_wrapping_the_masked_program_does_not_work() -> None:
    wrapper = b'#!/bin/bash\nexec wc "$@"\n'
    copies = (
        b"cp /usr/bin/wc program",
        b"cat /bin/wc > program; chmod +x program",
        b"cp /reference/wc program",
        b"printf '#!/bin/sh\\nexec /usr/bin/wc \"$@\"\\n' > program; chmod +x program",
    )
    async with one_pool() as pool:
        assert (await grade(pool, COUNT, (File(path="program", data=wrapper, mode=0o755),))).passed <= 1
        for command in copies:
            result = await grade(pool, COUNT, (File(path="Makefile", data=b"program:\n\t" + command + b"\n"),))
            assert result.passed <= 1, command  # the case of a missing file expects no output and status 1


async def test_cases_cannot_leave_notes_for_each_other_in_the_workspace() -> None:
    source = (
        b"import os, sys\nline = sys.stdin.readline().strip()\n"
        b"for place in ('/work', os.getcwd()):\n"
        b"    try:\n        open(place + '/notes', 'a').write(line)\n    except OSError:\n        pass\n"
        b"seen = os.path.exists('/work/notes') or open('notes').read() != line\n"
        b"print('seen' if seen or os.listdir('.') != ['notes'] else line[::-1])\n"
    )
    async with one_pool() as pool:
        assert (await grade(pool, REVERSE, main_py(source))).passed == 4


TRACES = b"""
import os, pty
line = input()
for _ in range(40):
    if not os.fork(): os._exit(0)
    os.wait()
print(os.getcwd(), os.getpid(), oct(os.stat("/dev/pts/ptmx").st_mode), int(os.stat("/dev/pts/ptmx").st_mtime) != 77,
      os.ttyname(pty.openpty()[1]), os.listdir("/dev/pts"), os.getpriority(os.PRIO_PROCESS, 1))
os.chmod("/dev/pts/ptmx", 0o600)
os.utime("/dev/pts/ptmx", (77, 77))
"""


async def test_a_case_cannot_tell_how_many_were_before_it() -> None:
    said: list[bytes] = []
    async with one_pool() as pool:
        for _ in range(2):
            await grade(
                pool,
                msgspec.structs.replace(REVERSE, case_limits=Limits(wall_s=20)),
                (File(path="main.py", data=TRACES),),
                on_case=lambda case, outcome, passed: said.append(outcome.stdout if outcome else b""),
            )
    assert len(said) == 8
    assert b"ptmx" in said[0]
    assert len(set(said)) == 1, said


async def test_expected_output_is_not_where_the_submission_runs() -> None:
    source = (
        b"import subprocess, sys\n"
        b"found = subprocess.run(['grep', '-rlsa', 'marker-of-the-hidde[n]', '/work', '/case', '/tmp', '/eval',"
        b" '/test', '/reference', '/run', '/dev/shm'], capture_output=True).stdout\n"
        b"sys.stderr.write(found.decode())\nsys.exit(3 if not found else 4)\n"
    )
    outcomes: list[CommandResult | None] = []
    hidden = msgspec.structs.replace(REVERSE, cases=(Case(name="n", stdin=b"x\n", stdout=MARKER, exit_status=0),))
    async with one_pool() as pool:
        await grade(pool, hidden, main_py(source), on_case=lambda case, outcome, passed: outcomes.append(outcome))
    assert outcomes[0] is not None and outcomes[0].exit_status == 3, outcomes


async def test_a_lost_container_is_replaced_once_and_never_a_zero() -> None:
    async with one_pool() as pool:
        async with pool.lease() as sandbox:
            victim = sandbox
        os.kill(victim._container.pid, signal.SIGKILL)
        assert (await grade(pool, REVERSE, main_py(SOLUTION))).passed == 4


async def test_graders_that_are_lost_again_and_again_are_no_grade() -> None:
    async with one_pool() as pool:

        async def lose_every_one() -> None:
            while True:
                for member in list(pool._leased):
                    if member.sandbox.cells:  # while it grades, not while it is handed out
                        await member.sandbox.kill()
                await asyncio.sleep(0.02)

        killer = asyncio.create_task(lose_every_one())
        try:
            with pytest.raises(SandboxLost):
                await grade(pool, task(cases=slow_cases(9)), main_py(SLEEPS))
        finally:
            killer.cancel()
        assert (await grade(pool, REVERSE, main_py(SOLUTION))).passed == 4


async def test_file_modes_links_and_any_names_survive() -> None:
    build = b"test -x run.sh && ./run.sh && test -f $'\\xff' && echo 'print(input()[::-1])' > main.py\n"
    hidden = msgspec.structs.replace(REVERSE, build=build)
    files = (
        File(path="run.sh", data=b"#!/bin/sh\nexit 0\n", mode=0o755),
        File(path=os.fsdecode(b"\xff"), data=b""),
    )
    async with one_pool() as pool:
        assert await grade(pool, hidden, files) == TestResult(compile_status="ok", passed=4, total=4)


def task(**changes: object) -> HiddenTask:
    return msgspec.structs.replace(REVERSE, **changes)


PRINTS = b"import sys\nsys.stdout.write(sys.argv[1])\n"


async def test_the_declared_comparison_decides() -> None:
    near = Comparison(kind="float", absolute=0.01)
    cases = (
        Case(name="exact", argv=("b\na\n",), stdout=b"a\nb\n", comparison=Comparison()),
        Case(name="sorted", argv=("b\na\n",), stdout=b"a\nb\n"),
        Case(name="float", argv=("x 1.001",), stdout=b"x 1", comparison=near),
        Case(name="far", argv=("x 1.1",), stdout=b"x 1", comparison=near),
        Case(name="status", argv=("anything",), stdout=b"else", comparison=Comparison(kind="exit_status")),
        Case(name="other status", stdout=b"", comparison=Comparison(kind="exit_status")),
    )
    passed: list[str] = []
    async with one_pool() as pool:
        await grade(
            pool,
            task(cases=cases, comparison=Comparison(kind="sorted_lines")),
            main_py(PRINTS),
            on_case=lambda case, outcome, ok: passed.extend([case.name] * ok),
        )
    assert passed == ["sorted", "float", "status"]


async def test_a_case_that_could_not_be_set_up_never_passes() -> None:
    """Its status would be 1 and its output empty: what a case of wrong usage may expect."""
    case = Case(name="too large", files=(File(path="big", data=bytes(32 << 20)),), stdout=b"", exit_status=1)
    async with one_pool() as pool:
        result = await grade(pool, task(cases=(case,)), main_py(b"raise SystemExit(1)"))
    assert result == TestResult(compile_status="none", passed=0, total=1)


async def graded_copies(pool: Pool, hidden: HiddenTask, files: tuple[File, ...]) -> tuple[TestResult, list[Copy]]:
    copies: list[Copy] = []
    return await grade(pool, hidden, files, on_copy=copies.append), copies


async def test_copies_of_the_reference_are_taken_out_and_told() -> None:
    async with one_pool() as pool:
        original = read_program(pool.image, "/usr/bin/wc")
        kept = await grade(pool, COUNT, (File(path="program", data=original, mode=0o755),), keep_copies=True)
        assert kept.passed == 3, "it would pass, were it let in"
        for path, mode in (("program", 0o755), ("deep/other.txt", 0o600), ("program", 0)):
            makefile = File(path="Makefile", data=b"all:\n\ttest -f program || cp " + path.encode() + b" program\n")
            submission = (makefile, File(path=path, data=original, mode=mode))
            result, copies = await graded_copies(pool, COUNT, submission)
            assert result.compile_status == "failed" and result.passed == 0
            assert [(c.path, c.stage, c.how) for c in copies] == [(path, "submission", "hash")]


_DECODE = b"""python3 -c "d = open('data', 'rb').read(); open('program', 'wb').write(bytes(b ^ 42 for b in d)%s)" """


def own_encoding(data: bytes) -> bytes:
    return bytes(byte ^ 42 for byte in data)


SMUGGLERS = {
    "base64": (b"base64 -d data > program && chmod 755 program", base64.b64encode),
    "own encoding": (
        _DECODE % b""
        + b"&& chmod 755 program && ln program second && mkdir x && cp program x/third && rm data && chmod 0 x",
        own_encoding,
    ),
    "with a tail": (_DECODE % b" + b'tail'" + b"&& chmod 755 program", own_encoding),
}


@pytest.mark.parametrize("how", SMUGGLERS)
async def test_a_smuggled_copy_does_not_survive_the_build(how: str) -> None:
    command, encode = SMUGGLERS[how]
    async with one_pool() as pool:
        data = encode(read_program(pool.image, "/usr/bin/wc"))
        files = (File(path="Makefile", data=b"all:\n\t" + command + b"\n"), File(path="data", data=data))
        assert (await grade(pool, COUNT, files, keep_copies=True)).passed == 3, "it would pass, were it let in"
        result, copies = await graded_copies(pool, COUNT, files)
        assert (result.compile_status, result.passed) == ("failed", 0)
        assert copies
        if how == "own encoding":
            assert {(c.path, c.stage, c.how) for c in copies} == {
                (path, "built", "hash") for path in ("program", "second", "x/third")
            }


async def test_an_honest_submission_is_no_copy() -> None:
    async with one_pool() as pool:
        result, copies = await graded_copies(pool, COUNT, (File(path="main.c", data=C_PROGRAM),))
    assert result.passed == 3 and copies == []


async def test_a_workspace_full_of_files_of_the_reference_s_size_is_a_failure() -> None:
    async with one_pool() as pool:
        size = len(read_program(pool.image, "/usr/bin/wc"))
        make = b"all:\n\tpython3 make.py && touch program\n"
        files = b"for n in range(9000):\n    with open(str(n), 'wb') as f:\n        f.truncate(%d)\n" % size
        result = await grade(pool, COUNT, (File(path="Makefile", data=make), File(path="make.py", data=files)))
    assert (result.compile_status, result.passed) == ("failed", 0)
    assert result.compile_stderr == b"workspace: too many or too large files\n"


async def test_the_host_reads_nothing_through_links_of_a_build() -> None:
    build = b"all:\n\tln -s /etc/passwd program; ln -s / root; mkfifo fifo; ln -s program loop\n"
    async with one_pool() as pool:
        result, copies = await graded_copies(pool, COUNT, (File(path="Makefile", data=build),))
    assert result.passed <= 1 and copies == []  # the case of a missing file expects no output and status 1


def idle_sandboxes(pool: Pool) -> list[Sandbox]:
    return [member.sandbox for member in pool._idle]


def slow_cases(count: int) -> tuple[Case, ...]:
    return tuple(Case(name=f"{n}", argv=(f"{n}",), stdout=b"%d" % n) for n in range(count))


SLEEPS = b"import sys, time\ntime.sleep(0.3)\nsys.stdout.write(sys.argv[1])\n"


async def test_cases_run_in_several_sandboxes_and_the_outcome_is_the_same() -> None:
    wrong = SLEEPS.replace(b"sys.argv[1])", b"sys.argv[1] if sys.argv[1] != '5' else '')")
    used: list[int] = []
    async with one_pool(2) as pool:
        await pool.warm()
        for lanes in (1, 2):
            order: list[str] = []
            before = [sandbox.cells for sandbox in idle_sandboxes(pool)]
            result = await grade(
                pool,
                task(cases=slow_cases(12)),
                main_py(wrong),
                lanes=lanes,
                on_case=lambda case, outcome, passed, order=order: order.append(case.name),
            )
            assert result == TestResult(compile_status="none", passed=11, total=12)
            assert order == [f"{n}" for n in range(12)]
            used.append(sum(sandbox.cells for sandbox in idle_sandboxes(pool)) - sum(before))
        assert used == [1, 2]


async def test_how_many_are_not_tried_does_not_depend_on_the_lanes() -> None:
    source = (
        b"import sys, time\nn = int(sys.argv[1])\ntime.sleep(9 if n in (3, 4, 7) else 0.1)\nsys.stdout.write(str(n))\n"
    )
    hidden = task(cases=slow_cases(12), case_limits=Limits(wall_s=1.0))
    async with one_pool(2) as pool:
        await pool.warm()
        for lanes in (1, 2):
            tried: list[bool] = []
            result = await grade(
                pool,
                hidden,
                main_py(source),
                lanes=lanes,
                on_case=lambda case, outcome, passed, tried=tried: tried.append(outcome is not None),
            )
            assert result.passed == 5 and tried == [True] * 8 + [False] * 4, lanes


async def test_a_lost_helper_costs_nothing() -> None:
    hidden = task(cases=slow_cases(14))
    async with one_pool(2) as pool:
        await pool.warm()
        helper = idle_sandboxes(pool)[0]  # the last one is leased first

        async def lose_it() -> None:
            while helper.cells == 0:  # noqa: ASYNC110 (the sandbox tells nobody that it was opened)
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.4)
            os.kill(helper._container.pid, signal.SIGKILL)

        killer = asyncio.create_task(lose_it())
        result = await grade(pool, hidden, main_py(SLEEPS), lanes=2)
        await killer
        assert not helper.alive
    assert result == TestResult(compile_status="none", passed=14, total=14)


async def test_a_workspace_that_cannot_be_copied_as_it_is_stays_in_one_sandbox() -> None:
    build = b"mkdir empty; ln -s main.py link\n"
    async with one_pool(2) as pool:
        await pool.warm()
        before = sum(sandbox.cells for sandbox in idle_sandboxes(pool))
        result = await grade(pool, task(cases=slow_cases(8), build=build), main_py(SLEEPS), lanes=2)
        assert sum(sandbox.cells for sandbox in idle_sandboxes(pool)) == before + 1
    assert result.passed == 8


async def test_gradings_at_once_do_not_wait_for_each_other_for_ever() -> None:
    async with one_pool(2) as pool:
        gradings = (grade(pool, task(cases=slow_cases(6)), main_py(SLEEPS), lanes=2) for _ in range(5))
        assert [result.passed for result in await asyncio.gather(*gradings)] == [6] * 5


async def test_a_case_that_waits_for_a_core_is_given_the_time_back() -> None:
    """Spinning processes on the same cores: an honest case takes several times its time, and passes."""
    honest = b"import sys, time\nwhile time.process_time() < 0.25: pass\nsys.stdout.write(sys.argv[1])\n"
    hidden = task(cases=slow_cases(1), case_limits=Limits(wall_s=1.0, cpu_s=5.0))
    outcomes: list[CommandResult | None] = []
    spin = (sys.executable, "-c", "while True: pass")
    noise = [await asyncio.create_subprocess_exec(*spin) for _ in range(5 * len(os.sched_getaffinity(0)))]
    try:
        async with one_pool() as pool:
            result = await grade(pool, hidden, main_py(honest), on_case=lambda c, outcome, p: outcomes.append(outcome))
    finally:
        for process in noise:
            process.kill()
            await process.wait()
    assert result.passed == 1, outcomes


async def test_a_case_that_sleeps_is_given_nothing_back() -> None:
    outcomes: list[CommandResult | None] = []
    hidden = task(cases=slow_cases(1), case_limits=Limits(wall_s=0.5))
    async with one_pool() as pool:
        sleeper = main_py(b"import time; time.sleep(60)")
        await grade(pool, hidden, sleeper, on_case=lambda c, outcome, p: outcomes.append(outcome))
    (outcome,) = outcomes
    assert outcome is not None and outcome.status == "timeout" and outcome.wall_s - outcome.starved_s < 0.6


async def test_threads_that_starve_each_other_keep_the_grader_no_longer() -> None:
    """What waits for a core because another thread of its own has it is given time, and it is counted all the same."""
    cases = [CommandResult(status="nonzero", exit_status=1, wall_s=2.0, cpu_s=2.0, starved_s=1.9) for _ in range(12)]
    limits = msgspec.structs.replace(REVERSE.case_limits, wall_s=1.0, cpu_s=2.5)
    hidden = msgspec.structs.replace(REVERSE, case_limits=limits)
    assert not _enough(hidden, cases[:5])
    assert _enough(hidden, cases[:6])
