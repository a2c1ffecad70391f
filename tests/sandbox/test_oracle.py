"""The reference oracle on real containers: it answers, counts and records; its bytes stay where they are."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from audit.events import AuditLog
from sandbox.cleaning import Cleaner
from sandbox.hidden import HiddenTask, Reference, TaskError
from sandbox.oracle import MAX_ARGUMENTS, Oracle, run_reference
from sandbox.sandbox import File, OracleCall
from tests.sandbox.small_tasks import COUNT, REVERSE, events, one_pool

pytestmark = pytest.mark.apptainer


def image_program(name: str) -> HiddenTask:
    path = f"/usr/bin/{name}"
    return msgspec.structs.replace(COUNT, reference=Reference(argv=(path,)), masked=(path,))


async def test_a_script_and_a_program_of_the_image() -> None:
    async with one_pool() as pool:
        said = await run_reference(pool, REVERSE, OracleCall(argv=("a b",), stdin=b"xyz\n", files=()))
        assert (said.status, said.stdout, said.stderr) == ("ok", b"zyx\n", b"argv ['a b']")
        counted = await run_reference(
            pool, COUNT, OracleCall(argv=("-c", "f"), stdin=b"", files=(File(path="f", data=b"\xff\0\n"),))
        )
        assert (counted.exit_status, counted.stdout) == (0, b"3 f\n")
        missing = await run_reference(pool, COUNT, OracleCall(argv=("none",), stdin=b"", files=()))
        assert (missing.exit_status, missing.stderr) == (1, b"wc: none: No such file or directory\n")


async def test_the_reference_cannot_print_itself() -> None:
    """`cat`, `base64` and `sort` read what they are told to; told to read themselves, they find nothing."""
    async with one_pool() as pool:
        for name in ("cat", "base64", "sort"):
            own = (pool.image / "usr/bin" / name).read_bytes()
            telling = own[4096:4160]
            places = [f"/reference/{name}", f"/usr/bin/{name}", f"/bin/{name}", "/proc/self/exe", "/proc/1/exe"]
            for place in places:
                for argv in ((place,), (f"/proc/self/root{place}",), (f"/proc/1/root{place}",)):
                    out = (
                        await run_reference(pool, image_program(name), OracleCall(argv=argv, stdin=b"", files=()))
                    ).stdout
                    assert telling not in out and len(out) < 64, (name, argv, out[:80])
                    assert base64.b64encode(own[:48]) not in out


async def test_the_reference_starts_no_other_program() -> None:
    """`sort` pipes what does not fit into memory through a program that its caller names: here a shell."""
    script = b"echo started >&2; LD_PRELOAD= /reference/sort --version >&2; exit\n" + b"# and much more\n" * 30_000
    options = ("-s", "-k", "99", "-S", "1k", "--parallel=4")
    async with one_pool() as pool:
        call = OracleCall(argv=(*options, "--compress-program=bash", "f"), files=(File(path="f", data=script),))
        result = await run_reference(pool, image_program("sort"), call)
        assert b"started" not in result.stderr
        assert result.exit_status == 0 and len(result.stdout) > 60_000
        assert script.startswith(result.stdout), "it goes on without compression, with its threads"


async def test_every_call_starts_clean() -> None:
    hidden = msgspec.structs.replace(
        REVERSE, reference=Reference(argv=("/bin/sh", "-c", "ls -A . /tmp /dev/shm; touch here /tmp/t /dev/shm/s"))
    )
    async with one_pool() as pool:
        call = OracleCall(argv=(), stdin=b"", files=())
        first = await run_reference(pool, hidden, call)
        second = await run_reference(pool, hidden, call)
        assert (first.status, first.stdout, first.stderr) == (second.status, second.stdout, second.stderr)


async def test_budget_bounds_and_record(tmp_path: Path) -> None:
    with AuditLog(tmp_path, "sandbox-0") as audit:
        async with one_pool() as pool:
            oracle = Oracle(pool, REVERSE, episode="e", budget=2, audit=audit, cleaner=Cleaner())
            oracle.begin(7)
            call = OracleCall(argv=("-x",), stdin=b"ab\n", files=(File(path="f", data=b"123"),))
            assert (await oracle(call)).stdout == b"ba\n"
            long = await oracle(msgspec.structs.replace(call, argv=("a",) * (MAX_ARGUMENTS + 1)))
            assert (long.exit_status, long.stderr) == (125, b"reference: Argument list too long\n")
            assert (await oracle(call)).stdout == b"ba\n"
            over = await oracle(call)
            assert (over.exit_status, over.stderr) == (125, b"reference: call budget exhausted\n")
            assert oracle.calls == 2
    recorded = events(tmp_path, "oracle")
    assert [e.data["status"] for e in recorded] == ["ok", "refused", "ok", "refused"]
    assert {(e.episode, e.step) for e in recorded} == {("e", 7)}
    assert recorded[0].data["argv"] == ["-x"] and recorded[0].data["files"] == [["f", 3]]
    assert recorded[0].data["stdin_bytes"] == 3 and recorded[0].data["stdout_bytes"] == 3


CAT = msgspec.structs.replace(
    REVERSE,
    reference=Reference(
        argv=("python3", "-I", "-S", "/reference/cat.py"),
        files=(
            File(
                path="/reference/cat.py",
                data=b"import sys, time\nfor name in sys.argv[1:]:\n    print(open(name.split('=')[-1]).read())\n"
                b"time.sleep(len(sys.argv) == 1)\n",
            ),
        ),
    ),
    case_limits=msgspec.structs.replace(REVERSE.case_limits, wall_s=0.2),
)


async def test_a_script_is_not_asked_for_itself(tmp_path: Path) -> None:
    with AuditLog(tmp_path, "sandbox-0") as audit:
        async with one_pool() as pool:
            oracle = Oracle(pool, CAT, episode="e", budget=99, audit=audit, cleaner=Cleaner())
            oracle.begin(0)
            for way in ("/reference/cat.py", "../../reference/cat.py", "/proc/self/root/reference//cat.py",
                        "--file=/./reference/cat.py", "/tmp/../reference/../reference/cat.py"):  # fmt: skip
                said = await oracle(OracleCall(argv=(way,)))
                assert (said.exit_status, said.stdout) == (125, b""), way
            own = await oracle(OracleCall(argv=("reference",), files=(File(path="reference", data=b"mine"),)))
            assert own.stdout == b"mine\n"


async def test_slow_calls_of_one_action_end(tmp_path: Path) -> None:
    with AuditLog(tmp_path, "sandbox-0") as audit:
        async with one_pool() as pool:
            oracle = Oracle(pool, CAT, episode="e", budget=99, audit=audit, cleaner=Cleaner())
            oracle.begin(0)
            said = [await oracle(OracleCall(argv=())) for _ in range(15)]
            slow = [result.stderr == b"reference: too slow\n" for result in said]
            assert slow == sorted(slow) and 2 < sum(slow) < 13
            oracle.begin(1)
            assert (await oracle(OracleCall(argv=()))).status == "timeout"


async def test_a_reference_that_is_not_in_the_image() -> None:
    async with one_pool() as pool:
        with pytest.raises(TaskError, match="not in the image") as caught:
            await run_reference(pool, image_program("no-such-program"), OracleCall(argv=(), stdin=b"", files=()))
        assert caught.value.remedy


ARGUMENTS_THAT_RUN_OR_WRITE = (
    ("sed", ("-n", "1e echo started", "f")),
    ("sed", ("s/.*/echo started/e", "f")),
    ("sed", ("-n", "w /reference/written", "f")),
    ("sed", ("-i", "s/x/y/", "/reference/sed")),
    ("find", (".", "-exec", "echo", "started", ";")),
    ("find", ("/reference", "-fprint", "/reference/written")),
    ("tar", ("-cf", "o", "--checkpoint=1", "--checkpoint-action=exec=echo started", "f")),
    ("tar", ("-cf", "o", "-I", "echo started", "f")),
    ("make", ("-f", "f")),
    ("mawk", ('BEGIN { system("echo started") }',)),
    ("mawk", ('BEGIN { print "x" > "/reference/written" }',)),
    ("mawk", ('BEGIN { "echo started" | getline x; print x }',)),
    ("xargs", ("echo", "started")),
    ("env", ("echo", "started")),
    ("sort", ("-o", "/reference/sort", "f")),
    ("split", ("--filter=echo started", "f")),
    ("tee", ("/reference/written", "/work/written", "/run/written")),
    ("dd", ("of=/reference/dd", "if=f")),
    ("cp", ("f", "/reference/cp")),
)


async def test_no_argument_makes_a_reference_run_or_replace_anything() -> None:
    """An agent chooses the arguments of the real program: it must not make it a way to the program's bytes."""
    script = b"all:\n\t@echo started\nx\n"
    async with one_pool() as pool:
        for name, argv in ARGUMENTS_THAT_RUN_OR_WRITE:
            hidden = image_program(name)
            call = OracleCall(argv=argv, stdin=b"a\n", files=(File(path="f", data=script),))
            result = await run_reference(pool, hidden, call)
            ran = [line for line in result.stdout.splitlines() if line == b"started"]
            assert not ran, (name, argv, result)
            assert b"\x7fELF" not in result.stdout, (name, argv)
            version = await run_reference(pool, hidden, OracleCall(argv=("--version",), stdin=b"", files=()))
            assert version.status in ("ok", "nonzero"), (name, argv, version)
            look = OracleCall(argv=("/reference/written", "/work/written", "/run/written"), stdin=b"", files=())
            assert (await run_reference(pool, image_program("cat"), look)).stdout == b"", (name, argv)
