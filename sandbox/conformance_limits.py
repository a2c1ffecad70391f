"""Conformance: timeouts, what each limit is called, what survives a command, and several things at once."""

from __future__ import annotations

import asyncio
import random

from sandbox.conformance_frame import MIB, Conforming, NotConformant, Subject, check, ended, same
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult


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
