"""Tests that are programs: they judge what the submission does, and nothing that it does reaches them."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from audit.errors import EctypeError
from queues.messages import TestResult
from sandbox.grading import grade
from sandbox.hidden import CommandTest, HiddenTask, TaskError, check_hidden
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import CommandResult, File
from tests.sandbox.small_tasks import JUDGED, SOLUTION, one_pool

pytestmark = [pytest.mark.apptainer, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pools() -> AsyncIterator[tuple[Pool, Pool]]:
    async with one_pool() as graders, one_pool() as judges:
        yield graders, judges


def judged_by(script: bytes, **changes: object) -> HiddenTask:
    test = CommandTest(
        name="judge",
        argv=("bash", "/tests/test.sh"),
        files=(File(path="/tests/test.sh", data=script),),
        limits=Limits(wall_s=20.0),
    )
    return msgspec.structs.replace(JUDGED, cases=(), tests=(msgspec.structs.replace(test, **changes),))


async def judge(
    pools: tuple[Pool, Pool], hidden: HiddenTask, source: bytes, *others: File
) -> tuple[TestResult, list[tuple[CommandResult | None, bool]]]:
    told: list[tuple[CommandResult | None, bool]] = []
    result = await grade(
        pools[0],
        hidden,
        (File(path="main.py", data=source), *others),
        judges=pools[1],
        on_case=lambda case, outcome, passed: told.append((outcome, passed)),
    )
    return result, told


async def test_a_script_judges_by_its_status_or_by_a_reward(pools: tuple[Pool, Pool]) -> None:
    assert (await judge(pools, JUDGED, SOLUTION))[0] == TestResult(compile_status="none", passed=3, total=3)
    assert (await judge(pools, JUDGED, b"print('cba')"))[0].passed == 0


VERDICTS = {
    b"echo 1 > /logs/verifier/reward.txt": True,
    b"echo 1.0 > /logs/verifier/reward.txt; exit 1": True,  # the file alone decides
    b"echo 0.99 > /logs/verifier/reward.txt": False,
    b"true": False,  # no verdict is no pass
    b"echo nan > /logs/verifier/reward.txt": False,
    b"echo inf > /logs/verifier/reward.txt": False,
    b"echo one > /logs/verifier/reward.txt": False,
    b"head -c 9999 /dev/zero > /logs/verifier/reward.txt": False,
    b"mkdir /logs/verifier/reward.txt": False,
    b"echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt": False,
    b"mkfifo /logs/verifier/reward.txt": False,
    b"echo 1 > /logs/verifier/reward.txt; kill -9 $$": False,
    b"echo 1 > /logs/verifier/reward.txt; sleep 100": False,
}


@pytest.mark.parametrize("script", VERDICTS)
async def test_a_verdict_is_a_number_in_a_file_of_a_script_that_has_ended(
    pools: tuple[Pool, Pool], script: bytes
) -> None:
    hidden = judged_by(script, verdict="reward", limits=Limits(wall_s=2.0))
    assert (await judge(pools, hidden, SOLUTION))[0].passed == VERDICTS[script]


HONEST = b"""
[ -z "$(ls -A /work | grep -v logs)" ] || exit 3
[ "$(echo abc | submission)" = cba ] || exit 4
python3 -c 'import json, site; print(json.dumps({}))' > /dev/null || exit 5
ls / > /dev/null || exit 6
"""
"""A careless script: it uses PATH, imports modules, and runs where it likes."""

FORGERS = {
    "verdict": b"""
import os
for folder in ("/logs/verifier", "/work/logs/verifier", "/tmp/logs/verifier", "/case"):
    try:
        os.makedirs(folder, exist_ok=True)
        open(folder + "/reward.txt", "w").write("1")
    except OSError:
        pass
""",
    "background": b"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                for place in (f"/proc/{pid}/{way}/logs/verifier/reward.txt" for way in ("root", "cwd")):
                    try:
                        open(place, "w").write("1")
                    except OSError:
                        pass
    os._exit(0)
""",
    "signals": b"import os, signal\nos.kill(-1, signal.SIGTERM)\n",
    "files": b"""
import os
for name, text in (
    ("conftest.py", "import os; os._exit(0)"), ("sitecustomize.py", "import os; os._exit(0)"),
    ("json.py", "import os; os._exit(0)"), ("evil.pth", "import os; os._exit(0)"), ("ls", "#!/bin/sh\\nexit 0\\n"),
    (".bashrc", "exit 0"), (".profile", "exit 0"),
):
    for folder in ("/work", "/tmp", "/case", "/dev/shm", "/tests", "/run/bin", "/usr/local/bin", "/logs"):
        try:
            open(folder + "/" + name, "w").write(text)
        except OSError:
            pass
print("done")
""",
    "protocol": b"""
import sys
sys.stdout.write("cba\\n" * 0 + '\\0' * 12 + '{"ok": true, "status": "ok", "exit": 0}')
""",
    "flood": b"import sys\nwhile True: sys.stdout.write('x' * 65536)\n",
}


@pytest.mark.parametrize("how", FORGERS)
@pytest.mark.parametrize("verdict", ["exit_status", "reward"])
async def test_a_submission_cannot_forge_the_verdict(pools: tuple[Pool, Pool], how: str, verdict: str) -> None:
    script = HONEST if verdict == "exit_status" else HONEST + b"echo 1 > /logs/verifier/reward.txt\n"
    others = tuple(
        File(path=name, data=b"import os; os._exit(0)\n", mode=0o755)
        for name in ("conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "ls", "submission", "x.pth")
    )
    result, told = await judge(pools, judged_by(script, verdict=verdict), FORGERS[how], *others)
    assert result.passed == 0
    assert told[0][0] is not None and told[0][0].exit_status == 4, "the script itself has seen it fail"
    honest, _ = await judge(pools, judged_by(script, verdict=verdict), SOLUTION, *others)
    assert honest.passed == 1, "and what comes next is judged as ever"


async def test_files_of_the_submission_are_shown_where_asked_for_and_cannot_be_run(pools: tuple[Pool, Pool]) -> None:
    script = b"""
[ "$(cat /submission/a/note)" = hello ] && [ ! -x /submission/main.py ] && ! touch /submission/x 2>/dev/null
"""
    note = File(path="a/note", data=b"hello\n")
    assert (await judge(pools, judged_by(script, shows_submission=True), SOLUTION, note))[0].passed == 1
    hidden = judged_by(b"[ ! -e /submission/main.py ] && [ ! -e /work/main.py ]")
    assert (await judge(pools, hidden, SOLUTION, note))[0].passed == 1


async def test_a_submission_cannot_have_names_that_lose_the_judge(pools: tuple[Pool, Pool]) -> None:
    deep = "/".join(["x" * 250] * 30)  # 7 KiB: no system call takes it in one piece
    hidden = judged_by(b'[ -n "$(find /submission -name end)" ]', shows_submission=True)
    result, told = await judge(pools, hidden, SOLUTION, File(path=f"{deep}/end", data=b"x"))
    assert result.passed == 1, told


async def test_calls_are_counted_and_too_many_fail_whatever_the_script_says(pools: tuple[Pool, Pool]) -> None:
    script = b"for i in 1 2 3; do echo ab | submission > /dev/null; done; exit 0"
    assert (await judge(pools, judged_by(script, calls=3), SOLUTION))[0].passed == 1
    assert (await judge(pools, judged_by(script, calls=2), SOLUTION))[0].passed == 0


async def test_a_slow_submission_does_not_hold_the_grader_for_every_test_there_is(pools: tuple[Pool, Pool]) -> None:
    hidden = judged_by(b"submission </dev/null; submission </dev/null; echo asked; true")
    (test,) = hidden.tests
    hidden = msgspec.structs.replace(
        hidden,
        tests=tuple(msgspec.structs.replace(test, name=f"{number}") for number in range(24)),
        case_limits=Limits(wall_s=0.1, cpu_s=5),
    )
    _, told = await judge(pools, hidden, b"import time; time.sleep(60)")
    passed = [passed for _, passed in told]
    assert len(passed) == 24 and 5 < sum(passed) < 20, "each is slow twice, until it has been for long enough"
    assert passed == sorted(passed, reverse=True)


async def test_a_lost_judge_is_replaced_once_and_never_a_zero(pools: tuple[Pool, Pool]) -> None:
    async with pools[1].lease() as victim:
        pass
    os.kill(victim._container.pid, signal.SIGKILL)
    assert (await judge(pools, JUDGED, SOLUTION))[0].passed == 3


async def test_without_judges_it_is_an_error_of_the_caller(pools: tuple[Pool, Pool]) -> None:
    with pytest.raises(EctypeError, match="command tests"):
        await grade(pools[0], JUDGED, (File(path="main.py", data=SOLUTION),))


async def test_a_wrong_record_is_refused() -> None:
    (test,) = judged_by(b"true").tests
    for wrong in (
        {"argv": ()},
        {"calls": 0},
        {"files": (File(path="/work/x", data=b""),)},
        {"files": (File(path="/tests/../work/x", data=b""),)},
        {"name": JUDGED.cases[0].name},
    ):
        tests = (msgspec.structs.replace(test, **wrong),)
        with pytest.raises(TaskError):
            check_hidden(msgspec.structs.replace(JUDGED, tests=tests))
