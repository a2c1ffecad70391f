"""Grading on real containers: what is right passes, everything else fails, and only our own failures are raised."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest

from queues.messages import TestResult
from sandbox.grading import grade
from sandbox.hidden import Case
from sandbox.limits import Limits
from sandbox.sandbox import CommandResult, File
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


async def test_file_modes_links_and_any_names_survive() -> None:
    build = b"test -x run.sh && ./run.sh && test -f $'\\xff' && echo 'print(input()[::-1])' > main.py\n"
    hidden = msgspec.structs.replace(REVERSE, build=build)
    files = (
        File(path="run.sh", data=b"#!/bin/sh\nexit 0\n", mode=0o755),
        File(path=os.fsdecode(b"\xff"), data=b""),
    )
    async with one_pool() as pool:
        assert await grade(pool, hidden, files) == TestResult(compile_status="ok", passed=4, total=4)
