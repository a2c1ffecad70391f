"""Small hand-made tasks and the services of a worker, for the tests of sessions, grading, the oracle and the worker."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from audit.events import AuditLog, Event, read_events
from containers.apptainer import Apptainer
from containers.image import ensure_image
from containers.isolation import Isolation
from detect import script_work
from detect.guard import Guard, GuardMode
from detect.rule_set import RULES_DIR
from queues.messages import Action
from sandbox.cleaning import Cleaner
from sandbox.hidden import Case, CommandTest, HiddenTask, Reference
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import File
from sandbox.session import Latencies, Services

MARKER = b"Sesquipedalian-marker-of-the-hidden-cases"
"""Contained in the expected output of every hidden case and in nothing that the agent is given."""

SOLUTION = b"import sys\nprint(sys.stdin.readline().strip()[::-1])\n"

REVERSE = HiddenTask(
    suite="small",
    task="reverse",
    run=("python3", "-I", "-S", "/work/main.py"),
    reference=Reference(
        argv=("python3", "-I", "-S", "/reference/program.py"),
        files=(
            File(
                path="/reference/program.py",
                data=b"# the-original-source\nimport sys\nline = sys.stdin.readline().strip()\n"
                b"print(''.join(reversed(line)))\nsys.stderr.write('argv %r' % sys.argv[1:])\n",
            ),
        ),
    ),
    cases=tuple(
        Case(name=f"hidden-case-{n}", stdin=MARKER[::-1] + b"%d\n" % n, stdout=b"%d" % n + MARKER + b"\n")
        for n in range(4)
    ),
    masked=("/usr/bin/rev",),
    limits=Limits(wall_s=5.0, cpu_s=5.0, workspace_bytes=16 << 20, output_bytes=256 << 10),
    case_limits=Limits(wall_s=1.5, cpu_s=1.5, output_bytes=64 << 10),
)

LEAKY = HiddenTask(
    suite="small",
    task="leaky",
    run=REVERSE.run,
    reference=REVERSE.reference,
    cases=REVERSE.cases,
    eval_files=(File(path="/eval/main.py", data=b"print(input()[::-1])\n", mode=0o444),),
    limits=REVERSE.limits,
    case_limits=REVERSE.case_limits,
)

COUNT = HiddenTask(
    suite="small",
    task="wc",
    run=("/work/program",),
    build=b"if [ -f Makefile ]; then make -s; elif [ -f main.c ]; then gcc -O1 -o program main.c; fi\n",
    reference=Reference(argv=("/usr/bin/wc",)),
    cases=(
        Case(name="hidden-lines", argv=("-l",), stdin=b"a\nb\n", stdout=b"2\n"),
        Case(
            name="hidden-file",
            argv=("-l", "f.txt"),
            files=(File(path="f.txt", data=b"a\nb\nc\n"),),
            stdout=b"3 f.txt\n",
        ),
        Case(name="hidden-missing", argv=("-l", "none"), stdout=b"", exit_status=1),
    ),
    masked=("/usr/bin/wc",),
    limits=Limits(wall_s=20.0, cpu_s=20.0, workspace_bytes=16 << 20),
    case_limits=REVERSE.case_limits,
)

JUDGE = b"""mkdir -p /logs/verifier
score=0
[ "$(echo abc | submission)" = cba ] && [ "$(printf xyz | submission -v)" = zyx ] && score=1
echo $score > /logs/verifier/reward.txt
"""

JUDGED = HiddenTask(
    suite="small",
    task="judged",
    run=REVERSE.run,
    reference=REVERSE.reference,
    cases=REVERSE.cases[:1],
    tests=(
        CommandTest(
            name="hidden-judge",
            argv=("bash", "/tests/test.sh"),
            files=(File(path="/tests/test.sh", data=b"# " + MARKER + b"\n" + JUDGE),),
            verdict="reward",
            limits=Limits(wall_s=20.0),
        ),
        CommandTest(
            name="hidden-status",
            argv=("python3", "/tests/check.py"),
            files=(
                File(
                    path="/tests/check.py",
                    data=b"import subprocess as s, sys\n"
                    b"sys.exit(s.run(['submission'], input=b'ab', capture_output=True).stdout != b'ba\\n')\n",
                ),
            ),
            limits=Limits(wall_s=20.0),
        ),
    ),
    limits=REVERSE.limits,
    case_limits=REVERSE.case_limits,
)

TASKS = (REVERSE, LEAKY, COUNT, JUDGED)


def blind_rules(folder: Path) -> Path:
    """A rule set that knows of networks only: what it misses is left to the canaries."""
    folder.mkdir()
    for name in ("VERSION", "network-program.yaml"):
        (folder / name).write_bytes((RULES_DIR / name).read_bytes())
    return folder


def run(script: bytes | str) -> Action:
    return Action(kind="run", body=script.encode() if isinstance(script, str) else script)


def write(path: str, body: bytes) -> Action:
    return Action(kind="write", path=path, body=body)


def events(directory: Path, kind: str = "") -> list[Event]:
    return [event for event in read_events(directory) if kind in ("", event.kind)]


@asynccontextmanager
async def one_pool(size: int = 1) -> AsyncIterator[Pool]:
    image = ensure_image()
    pool = Pool(await Apptainer.find(), image, Isolation(), size)
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def services(
    directory: Path, *, mode: GuardMode = "enforce", size: int = 1, rules: Path | None = None
) -> AsyncIterator[Services]:
    """Real containers: `size` for the agents, one for grading, one for the reference."""
    audit = AuditLog(directory, "sandbox-0")
    try:
        async with one_pool(size) as agents, one_pool() as graders, one_pool() as oracles:
            yield Services(
                agents=agents,
                graders=graders,
                oracles=oracles,
                guard=Guard.load(rules, mode=mode),
                audit=audit,
                cleaner=Cleaner.of_host(paths=[agents.image]),
                latencies=Latencies(random.Random(0), idle_s=script_work.idle_s),
            )
    finally:
        audit.close()
