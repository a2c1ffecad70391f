"""What every implementation of a sandbox must do, as one suite of checks.

Comes in: a `Subject`, which opens fresh sandboxes. Goes out: nothing, or `NotConformant` that says what was expected
and what came. The checks speak of bytes, files, statuses and time; they know nothing about how a sandbox is made. A
check whose status is not the one named here is a failure, however plausible: a reward depends on the difference.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from audit.errors import EctypeError
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, File, WorkspaceError

MIB = 1 << 20


class NotConformant(EctypeError):
    """The sandbox does something else than what was asked for."""


class Conforming(Protocol):
    """What the checks need of a sandbox; `sandbox.sandbox.Sandbox` says what each call means."""

    async def open(self, spec: CellSpec, limits: Limits) -> None: ...

    async def run(
        self,
        script: bytes | None = None,
        *,
        argv: Sequence[str] | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "/work",
        limits: Limits | None = None,
    ) -> CommandResult: ...

    async def run_case(
        self, argv: Sequence[str], *, stdin: bytes, files: Sequence[File], limits: Limits | None = None
    ) -> CommandResult: ...

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> CommandResult: ...

    async def read(self, path: str, max_bytes: int) -> bytes: ...

    async def pack(self, *, max_bytes: int, max_files: int) -> tuple[File, ...]: ...

    async def seal(self) -> None: ...

    async def close_cell(self) -> None: ...


class Subject(Protocol):
    """The implementation under test."""

    @property
    def sandbox(self) -> Conforming:
        """A sandbox with a fresh cell that has the default limits."""
        ...

    def another(self) -> AbstractAsyncContextManager[Conforming]:
        """A second sandbox with such a cell, at the same time; ended on exit."""
        ...


class Check(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[Subject], Awaitable[None]]
    slow: bool


CHECKS: list[Check] = []


def check(function: Callable[[Subject], Awaitable[None]]) -> Callable[[Subject], Awaitable[None]]:
    CHECKS.append(Check(function.__name__, function, slow=False))
    return function


def slow_check(function: Callable[[Subject], Awaitable[None]]) -> Callable[[Subject], Awaitable[None]]:
    CHECKS.append(Check(function.__name__, function, slow=True))
    return function


def same(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise NotConformant(f"{what}: expected {_short(expected)}, found {_short(found)}")


def ended(result: CommandResult, **expected: Any) -> None:
    """The named fields are as given. Unless given, the status is `ok`, with exit status 0 and no signal."""
    if "status" not in expected:
        expected = {"status": "ok", "exit_status": 0, "signal": None} | expected
    for name, value in expected.items():
        if getattr(result, name) != value:
            raise NotConformant(f"{name}: expected {_short(value)}, found {_short(getattr(result, name))} in {result}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:150]}... ({len(value)} items)"


@check
async def exit_codes(subject: Subject) -> None:
    for code in (0, 1, 2, 42, 100, 124, 125, 126, 127, 128, 137, 139, 254, 255):
        result = await subject.sandbox.run(b"exit %d" % code)
        ended(result, status="ok" if code == 0 else "nonzero", exit_status=code, signal=None)


@check
async def signals(subject: Subject) -> None:
    """Death by a signal is neither an exit status nor, however fast, a timeout."""
    for number in (1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 31):
        result = await subject.sandbox.run(b"exec sh -c 'kill -%d $$'" % number)
        ended(result, status="killed", exit_status=None, signal=number)
        if result.wall_s > 10:
            raise NotConformant(f"signal {number} took {result.wall_s} s to be noticed")
    # a shell's exit status 128+n is an exit status: the shell ended by itself
    ended(await subject.sandbox.run(b"sh -c 'kill -9 $$'; exit $?"), status="nonzero", exit_status=137, signal=None)


@check
async def words_in_the_output_decide_nothing(subject: Subject) -> None:
    for words in (
        b"fatal: not a git repository",
        b"FATAL: container creation failed",
        b"No space left on device",
        b"Killed",
        b"Cannot allocate memory",
        b"timeout",
    ):
        result = await subject.sandbox.run(b"echo '%s'; echo '%s' >&2; exit 255" % (words, words))
        ended(result, status="nonzero", exit_status=255, stderr=words + b"\n")


@check
async def programs_that_cannot_be_started(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(argv=["/no/such/program"]), status="nonzero", exit_status=127)
    await sandbox.write("plain", b"echo no")
    ended(await sandbox.run(argv=["./plain"]), status="nonzero", exit_status=126)
    await sandbox.write("odd", b"#!/no/such/interpreter\n", 0o755)
    ended(await sandbox.run(argv=["./odd"]), status="nonzero", exit_status=127)
    ended(await sandbox.run(argv=["true"], cwd="/no/such/folder"), status="nonzero")
    ended(await sandbox.run(b"true"))


@check
async def text(subject: Subject) -> None:
    said = "hello, Grüße, 你好, 👋\n".encode()
    ended(await subject.sandbox.run(argv=["cat"], stdin=said), stdout=said, stderr=b"")
    ended(await subject.sandbox.run(b"cat >&2", stdin=said), stdout=b"", stderr=said)
    ended(await subject.sandbox.run("echo 'Grüße 你好'".encode()), stdout="Grüße 你好\n".encode())


@check
async def no_output_and_no_input(subject: Subject) -> None:
    ended(await subject.sandbox.run(b"true"), stdout=b"", stderr=b"")
    ended(await subject.sandbox.run(b""), stdout=b"", stderr=b"")
    ended(await subject.sandbox.run(argv=["cat"]), stdout=b"")  # the input ends, it does not wait
    ended(await subject.sandbox.run(argv=["wc", "-c"], stdin=b""), stdout=b"0\n")


@check
async def binary_both_ways(subject: Subject) -> None:
    data = bytes(range(256)) * 300
    ended(await subject.sandbox.run(argv=["cat"], stdin=data), stdout=data)
    ended(await subject.sandbox.run(b"cat >&2", stdin=data), stderr=data)


@check
async def invalid_utf8(subject: Subject) -> None:
    """In output, input, script, arguments and environment."""
    bad = b"\xff\xfe\xc3\x28\xed\xa0\x80\xf0\x9f"
    argument = bad.decode("utf-8", "surrogateescape")
    ended(await subject.sandbox.run(b"printf '%s' '" + bad + b"'"), stdout=bad)
    ended(await subject.sandbox.run(argv=["printf", "%s", argument]), stdout=bad)
    ended(await subject.sandbox.run(b'printf %s "$BAD"', env={"BAD": argument}), stdout=bad)
    ended(await subject.sandbox.run(argv=["cat"], stdin=bad), stdout=bad)


@check
async def nul_and_newlines(subject: Subject) -> None:
    for data in (b"\0", b"\n", b"\r\n", b"no newline", b"\0\0\n\0", b"\n\n\n"):
        ended(await subject.sandbox.run(argv=["cat"], stdin=data), stdout=data)


async def _input_of(subject: Subject, size: int) -> None:
    data = random.Random(size).randbytes(size)
    found = await subject.sandbox.run(argv=["sha256sum"], stdin=data)
    ended(found, stdout=hashlib.sha256(data).hexdigest().encode() + b"  -\n")


@check
async def input_larger_than_any_pipe(subject: Subject) -> None:
    await _input_of(subject, 4 * MIB + 1)


@slow_check
async def input_of_50_mb(subject: Subject) -> None:
    await _input_of(subject, 50_000_000)


@check
async def input_that_nobody_reads(subject: Subject) -> None:
    ended(await subject.sandbox.run(b"exec <&-; echo done", stdin=b"x" * 2 * MIB), stdout=b"done\n")
    ended(await subject.sandbox.run(b"head -c 3", stdin=b"x" * 2 * MIB), stdout=b"xxx")


async def _output_of(subject: Subject, size: int, kept: int) -> None:
    limits = Limits(output_bytes=kept, wall_s=600, cpu_s=600)
    script = b"head -c %d /dev/zero; head -c 5 /dev/zero >&2" % size
    result = await subject.sandbox.run(script, limits=limits)
    cut = size > kept
    ended(
        result,
        status="output_truncated" if cut else "ok",
        exit_status=0,
        stdout=bytes(min(size, kept)),
        stdout_truncated=cut,
        stderr=bytes(min(5, kept)),
        stderr_truncated=kept < 5,
    )


@check
async def output_up_to_the_limit_and_beyond(subject: Subject) -> None:
    for size in (200_000, MIB - 1, MIB, MIB + 1, 20 * MIB):
        await _output_of(subject, size, MIB)
    await _output_of(subject, 8 * MIB, 16 * MIB)
    await _output_of(subject, 1, 0)


@slow_check
async def output_of_1_gb(subject: Subject) -> None:
    await _output_of(subject, 1_000_000_000, MIB)


@check
async def output_on_both_streams_at_once(subject: Subject) -> None:
    script = b"for i in 1 2 3 4; do head -c 300000 /dev/zero & head -c 300000 /dev/zero >&2 & done; wait"
    limits = Limits(output_bytes=2 * MIB)
    ended(await subject.sandbox.run(script, limits=limits), stdout=bytes(1_200_000), stderr=bytes(1_200_000))


@check
async def too_much_output_of_a_failure_is_a_failure(subject: Subject) -> None:
    result = await subject.sandbox.run(b"head -c 100000 /dev/zero; exit 3", limits=Limits(output_bytes=100))
    ended(result, status="nonzero", exit_status=3, stdout=bytes(100), stdout_truncated=True)


@check
async def order_of_output_is_kept(subject: Subject) -> None:
    lines = b"".join(b"%d\n" % n for n in range(1, 50_001))
    ended(await subject.sandbox.run(b"seq 50000"), stdout=lines)


@check
async def commands_of_any_size(subject: Subject) -> None:
    for size in (1, 4096, 130_000, 140_000, 2_000_000):
        script = b": '" + b"a" * size + b"'; echo ${#BASH_EXECUTION_STRING} >/dev/null; echo done; nosuch"
        result = await subject.sandbox.run(script)
        ended(result, status="nonzero", exit_status=127, stdout=b"done\n")
        same(result.stderr, b"bash: line 1: nosuch: command not found\n", f"messages of a command of {size} bytes")


@check
async def arguments_are_passed_as_they_are(subject: Subject) -> None:
    words = ["", " ", "a b", "$HOME", "`id`", "*", "'", '"', "\\", "-n", "--", "a\nb", "ü", "x" * 100_000]
    result = await subject.sandbox.run(argv=["printf", r"%s\0", *words])
    ended(result, stdout=b"".join(word.encode() + b"\0" for word in words))


@check
async def scripts_are_bash(subject: Subject) -> None:
    script = (
        b'set -o pipefail\na=(1 2 3)\nfor x in "${a[@]}"; do echo $((x * 2)); done\n[[ abc == a* ]] && cat <<E\nx\nE\n'
    )
    ended(await subject.sandbox.run(script), stdout=b"2\n4\n6\nx\n")
    ended(await subject.sandbox.run(b"if then"), status="nonzero", exit_status=2)


@check
async def environment(subject: Subject) -> None:
    given = {"A": "1", "EMPTY": "", "SPACE": "a b", "LINE": "a\nb", "PATH_LIKE": "/x:/y", "UNICODE": "ü"}
    result = await subject.sandbox.run(argv=["env", "-0"], env=given)
    ended(result)
    seen = dict(line.split(b"=", 1) for line in result.stdout.split(b"\0") if line)
    for name, value in given.items():
        same(seen.get(name.encode()), value.encode(), f"the variable {name}")
    for name in ("PATH", "HOME"):
        if not seen.get(name.encode()):
            raise NotConformant(f"no {name} in the environment")
    usual = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "SHLVL", "_"}
    same([n for n in os.environ if n.encode() in seen and n not in usual], [], "variables of the host that got in")
    ended(await subject.sandbox.run(b'echo "[$A]"'), stdout=b"[]\n")


@check
async def current_folder(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(argv=["pwd"]), stdout=b"/work\n")
    await sandbox.run(b"mkdir -p 'a b/c'")
    ended(await sandbox.run(argv=["pwd"], cwd="/work/a b/c"), stdout=b"/work/a b/c\n")
    ended(await sandbox.run(b"cd /tmp"))
    ended(await sandbox.run(argv=["pwd"]), stdout=b"/work\n")


@check
async def files_of_any_content(subject: Subject) -> None:
    sandbox = subject.sandbox
    for data in (b"", b"\0", b"text\n", bytes(range(256)) * 16, random.Random(1).randbytes(3 * MIB)):
        ended(await sandbox.write("file", data))
        same(await sandbox.read("file", len(data)), data, f"a file of {len(data)} bytes, read")
        digest = hashlib.sha256(data).hexdigest().encode()
        ended(await sandbox.run(argv=["sha256sum", "file"]), stdout=digest + b"  file\n")


@check
async def empty_files_and_modes(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.write("empty", b""))
    ended(await sandbox.write("program", b"#!/bin/sh\necho ran\n", 0o755))
    ended(await sandbox.run(argv=["./program"]), stdout=b"ran\n")
    packed = {f.path: (f.data, f.mode) for f in await sandbox.pack(max_bytes=MIB, max_files=9)}
    same(packed, {"empty": (b"", 0o644), "program": (b"#!/bin/sh\necho ran\n", 0o755)}, "packed files")
    ended(await sandbox.write("program", b"", 0o644))
    same(await sandbox.read("program", 0), b"", "a file that was written again")


ODD_NAMES = (
    "with space", " leading", "trailing ", "new\nline", "tab\t", "ünï-你好-👋", "quote'\"`$(id)", "*?[]", "back\\slash",
    "-rf", "--help", "~", "#", ".hidden", "...", "\x01\x7f", "\udcff\udcfe", "x" * 255,
)  # fmt: skip


@check
async def odd_file_names(subject: Subject) -> None:
    sandbox = subject.sandbox
    for number, name in enumerate(ODD_NAMES):
        ended(await sandbox.write(f"d/{name}", b"%d" % number))
        same(await sandbox.read(f"d/{name}", 9), b"%d" % number, f"the file {name!r}")
    listing = await sandbox.run(b"cd d; find . -type f -printf '%P\\0'")
    names = {os.fsdecode(name) for name in listing.stdout.split(b"\0") if name}
    same(names, set(ODD_NAMES), "names as a command sees them")
    packed = {f.path: f.data for f in await sandbox.pack(max_bytes=MIB, max_files=99)}
    same(packed, {f"d/{name}": b"%d" % number for number, name in enumerate(ODD_NAMES)}, "packed files")


@check
async def deep_folders(subject: Subject) -> None:
    sandbox = subject.sandbox
    path = "/".join(f"d{n}" for n in range(50)) + "/file"
    ended(await sandbox.write(path, b"deep"))
    same(await sandbox.read(path, 9), b"deep", "a file 50 folders deep")
    ended(await sandbox.run(argv=["cat", path]), stdout=b"deep")
    same([f.path for f in await sandbox.pack(max_bytes=99, max_files=9)], [path], "packed files")
    # deeper than a path may be long: the workspace cannot be packed, and the sandbox goes on
    script = b"rm -r d0; d=$(printf '%060d' 0); for i in $(seq 80); do mkdir $d && cd $d || exit; done"
    ended(await sandbox.run(script))
    try:
        await sandbox.pack(max_bytes=99, max_files=9)
    except WorkspaceError:
        pass
    else:
        raise NotConformant("folders of any depth were packed")
    ended(await sandbox.run(b"rm -r 0*; ls -A"), stdout=b"")


@check
async def paths_that_leave_the_workspace(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"ln -s /etc out; ln -s /tmp/x dangling"))
    for path in ("", ".", "..", "../x", "/etc/passwd", "a/../../x", "out/x", "x/", "a//b", "a\0b"):
        ended(await sandbox.write(path, b"x"), status="nonzero")
        try:
            await sandbox.read(path, 99)
        except WorkspaceError:
            continue
        raise NotConformant(f"{path!r} was read")
    ended(await sandbox.run(b"ls -A /tmp"), stdout=b"")


@check
async def only_regular_files_are_read(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"mkfifo f; ln -s /etc/passwd l; mkdir d; ln -s . d/loop; echo 1 > r; ln r h; : > e"))
    for name in ("f", "l", "d", "d/loop", "missing"):
        try:
            await sandbox.read(name, MIB)
        except WorkspaceError:
            continue
        raise NotConformant(f"{name} was read")
    packed = sorted(f.path for f in await sandbox.pack(max_bytes=99, max_files=9))
    same(packed, ["e", "h", "r"], "packed files")


@check
async def bounds_of_reading(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"for i in 1 2 3; do printf 12345 > $i; done; truncate -s 100M sparse; rm sparse"))
    same(len(await sandbox.pack(max_bytes=15, max_files=3)), 3, "files that just fit")
    for size, count in ((14, 3), (15, 2), (0, 3)):
        try:
            await sandbox.pack(max_bytes=size, max_files=count)
        except WorkspaceError:
            continue
        raise NotConformant(f"more than {size} bytes or {count} files were packed")
    try:
        await sandbox.read("1", 4)
    except WorkspaceError:
        return
    raise NotConformant("more bytes than asked for were read")


@check
async def timeout_with_partial_output(subject: Subject) -> None:
    script = b"echo one; echo two >&2; printf part; sleep 60"
    result = await subject.sandbox.run(script, limits=Limits(wall_s=0.5))
    ended(result, status="timeout", exit_status=None, signal=None, stdout=b"one\npart", stderr=b"two\n")
    if not 0.5 <= result.wall_s < 10:
        raise NotConformant(f"a limit of 0.5 s took {result.wall_s} s")
    ended(await subject.sandbox.run(b"ps -e -o comm= | grep -v -e ps -e bash -e grep; echo on"), stdout=b"on\n")


@check
async def timeout_of_everything_that_was_started(subject: Subject) -> None:
    script = b"trap '' TERM; (trap '' TERM HUP; setsid sleep 3001) & (sleep 3002 & kill -STOP $!) & sleep 3003"
    ended(await subject.sandbox.run(script, limits=Limits(wall_s=0.5)), status="timeout")
    ended(await subject.sandbox.run(b"pgrep sleep; echo on"), stdout=b"on\n")


@check
async def cpu_time_is_a_timeout(subject: Subject) -> None:
    result = await subject.sandbox.run(b"while :; do :; done", limits=Limits(cpu_s=0.5, wall_s=60))
    ended(result, status="timeout", exit_status=None)
    if result.cpu_s > 10:
        raise NotConformant(f"a limit of 0.5 s of CPU time let {result.cpu_s} s pass")


@check
async def a_child_that_keeps_the_output_open(subject: Subject) -> None:
    result = await subject.sandbox.run(b"sleep 3004 & echo done", limits=Limits(wall_s=20))
    ended(result, stdout=b"done\n")
    if result.wall_s > 10:
        raise NotConformant("the command had ended, and its result waited for a child")
    ended(await subject.sandbox.run(b"pgrep sleep; echo on"), stdout=b"on\n")


@check
async def every_limit_has_its_status(subject: Subject) -> None:
    sandbox = subject.sandbox
    await sandbox.open(CellSpec(), Limits(workspace_bytes=4 * MIB, workspace_inodes=200))
    hog = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    ended(await sandbox.run(argv=["python3", "-c", hog], limits=Limits(memory_bytes=100 * MIB)), status="out_of_memory")
    ended(await sandbox.run(b"head -c 9000000 /dev/zero > x"), status="disk_full", exit_status=1)
    ended(await sandbox.run(b"rm x; for i in $(seq 300); do : > $i || exit 1; done"), status="disk_full")
    ended(await sandbox.run(b"rm -f *; echo x > x"))
    ended(await sandbox.run(b"exec head -c 900000 /dev/zero > x", limits=Limits(file_bytes=4096)), status="disk_full")
    forks = "import os, time\nfor _ in range(99):\n if not os.fork(): time.sleep(99)"
    result = await sandbox.run(argv=["python3", "-c", forks], limits=Limits(processes=16, wall_s=20))
    ended(result, status="too_many_processes", exit_status=1)
    ended(await sandbox.run(b"cat x > /dev/null; echo on"), stdout=b"on\n")


@check
async def commands_share_files_and_nothing_else(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"echo 1 > f; export A=1; cd /tmp; ulimit -n 17; umask 077; sleep 3005 &"))
    ended(await sandbox.run(b'cat f; echo "[$A]"; umask; pgrep sleep; ulimit -n'), stdout=b"1\n[]\n0022\n256\n")


@check
async def a_fresh_cell_is_empty(subject: Subject) -> None:
    places = b"/work /tmp /var/tmp /dev/shm"
    ended(await subject.sandbox.run(b"for d in " + places + b"; do echo x > $d/left; done; ipcmk -M 99 >/dev/null"))
    await subject.sandbox.open(CellSpec(files=(File("/work/given", b"g", 0o600),)), Limits())
    script = b"find " + places + b" -type f; stat -c %a given; ipcs -m | grep -c 0x"
    ended(await subject.sandbox.run(script), status="nonzero", exit_status=1, stdout=b"/work/given\n600\n0\n")


@check
async def cases_are_clean(subject: Subject) -> None:
    sandbox = subject.sandbox
    await sandbox.write("p", b"#!/bin/sh\ncat; cat given; ls -A . /tmp /dev/shm; touch x /tmp/x /dev/shm/x", 0o755)
    await sandbox.seal()
    given = (File("given", b"file\n"),)
    for _ in range(2):
        result = await sandbox.run_case(["/work/p"], stdin=b"in\n", files=given)
        ended(result, stdout=b"in\nfile\n.:\ngiven\n\n/dev/shm:\n\n/tmp:\n")
    ended(await sandbox.run_case(["touch", "/work/new"], stdin=b"", files=()), status="nonzero", exit_status=1)


@check
async def one_sandbox_asked_many_times_at_once(subject: Subject) -> None:
    results = await asyncio.gather(*(subject.sandbox.run(b"echo %d; sleep 0.01" % n) for n in range(20)))
    same([r.stdout for r in results], [b"%d\n" % n for n in range(20)], "answers of concurrent commands")


@check
async def two_sandboxes_at_once(subject: Subject) -> None:
    async with subject.another() as other:
        data = [random.Random(n).randbytes(200_000) for n in range(12)]

        async def echo(sandbox: Conforming, number: int) -> CommandResult:
            return await sandbox.run(b"tee f%d" % number, stdin=data[number])

        pair = (subject.sandbox, other)
        results = await asyncio.gather(*(echo(pair[n % 2], n) for n in range(12)))
        same([r.stdout == data[n] for n, r in enumerate(results)], [True] * 12, "answers of concurrent sandboxes")
        for number, sandbox in enumerate(pair):
            names = sorted(f.path for f in await sandbox.pack(max_bytes=9 * MIB, max_files=99))
            same(names, sorted(f"f{n}" for n in range(number, 12, 2)), "files of concurrent sandboxes")


@check
async def a_timeout_in_one_sandbox_is_none_in_the_other(subject: Subject) -> None:
    async with subject.another() as other:
        slow, fast = await asyncio.gather(
            subject.sandbox.run(b"sleep 60", limits=Limits(wall_s=0.7)), other.run(b"sleep 0.2; echo fast")
        )
        ended(slow, status="timeout")
        ended(fast, stdout=b"fast\n")
