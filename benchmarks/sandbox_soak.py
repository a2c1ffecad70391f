"""Thousands of commands over many sandboxes, each with the one status that is right for it.

Comes in: started sandboxes. Goes out: how many commands ran, and those whose status, exit status, signal or output was
another. The order is shuffled, from a seed; every sandbox gets every kind.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from sandbox.limits import MIB, Limits
from sandbox.sandbox import CellSpec, CommandResult, Sandbox, SandboxLost

_CELL = Limits(workspace_bytes=2 * MIB, workspace_inodes=256)
_COMMANDS_OF_A_CELL = 25
_AT_ONCE = 12


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One sort of command: how often it comes (out of 100), and the fields of the result it must have."""

    name: str
    share: int
    script: bytes
    expected: dict[str, Any]
    limits: Limits = _CELL
    stdin: bytes = b""


def _but(**changes: Any) -> Limits:
    return msgspec.structs.replace(_CELL, **changes)


def _python(text: str) -> bytes:
    return b'exec python3 -I -S -c "' + text.encode() + b'"'


_OK = {"status": "ok", "exit_status": 0, "signal": None}
_TIMEOUT = {"status": "timeout", "exit_status": None, "signal": None}
KINDS = (
    Kind(name="nothing", share=22, script=b"true", expected=_OK | {"stdout": b""}),
    Kind(
        name="output",
        share=10,
        script=b"echo out; echo err >&2",
        expected=_OK | {"stdout": b"out\n", "stderr": b"err\n"},
    ),
    Kind(name="input", share=8, script=b"wc -c", stdin=b"x" * 100_000, expected=_OK | {"stdout": b"100000\n"}),
    Kind(name="files", share=6, script=b"echo 1 > f && cat f && rm f", expected=_OK | {"stdout": b"1\n"}),
    Kind(
        name="daemon",
        share=5,
        script=b"setsid nohup sleep 999 & (sleep 999 &) ; echo on",
        expected=_OK | {"stdout": b"on\n"},
    ),
    Kind(
        name="failure",
        share=8,
        script=b"echo fatal: timeout >&2; exit 9",
        expected={"status": "nonzero", "exit_status": 9, "stderr": b"fatal: timeout\n"},
    ),
    Kind(name="missing", share=4, script=b"nosuch", expected={"status": "nonzero", "exit_status": 127}),
    Kind(name="segfault", share=4, script=b"kill -SEGV $$", expected={"status": "killed", "signal": 11}),
    Kind(name="kill", share=4, script=b"kill -KILL $$", expected={"status": "killed", "signal": 9}),
    Kind(
        name="flood",
        share=6,
        script=b"head -c 300000 /dev/zero",
        limits=_but(output_bytes=1000),
        expected={"status": "output_truncated", "exit_status": 0, "stdout": bytes(1000)},
    ),
    Kind(
        name="full disk",
        share=5,
        script=b"head -c 4000000 /dev/zero > big",
        expected={"status": "disk_full", "exit_status": 1},
    ),
    Kind(
        name="large file",
        share=4,
        script=b"rm -f big; exec head -c 90000 /dev/zero > big",
        limits=_but(file_bytes=8192),
        expected={"status": "disk_full", "signal": 25},
    ),
    Kind(
        name="sleep",
        share=4,
        script=b"echo part; sleep 999",
        limits=_but(wall_s=0.2),
        expected=_TIMEOUT | {"stdout": b"part\n"},
    ),
    Kind(name="loop", share=2, script=b"while :; do :; done", limits=_but(cpu_s=0.1), expected=_TIMEOUT),
    Kind(
        name="stopped",
        share=2,
        script=b"trap '' TERM HUP; (kill -STOP $BASHPID) & kill -STOP $$",
        limits=_but(wall_s=0.2),
        expected=_TIMEOUT,
    ),
    Kind(
        name="memory",
        share=3,
        script=_python("x = []\nwhile True: x.append(bytearray(1 << 20))"),
        limits=_but(memory_bytes=128 * MIB),
        expected={"status": "out_of_memory"},
    ),
    Kind(
        name="processes",
        share=3,
        script=_python("import os, time\nfor _ in range(40):\n if not os.fork(): time.sleep(99)"),
        limits=_but(processes=12),
        expected={"status": "too_many_processes", "exit_status": 1},
    ),
)


class Report(msgspec.Struct):
    commands: int = 0
    statuses: Counter[str] = msgspec.field(default_factory=Counter)
    wrong: list[str] = msgspec.field(default_factory=list)


async def soak(sandboxes: Sequence[Sandbox], commands_each: int, seed: int = 0) -> Report:
    """Run `commands_each` commands in each sandbox, a dozen sandboxes at a time; a fresh cell after every 25."""
    report = Report()
    busy = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for number, sandbox in enumerate(sandboxes):
            group.create_task(_one(sandbox, commands_each, random.Random(f"{seed}-{number}"), busy, report))
    return report


async def _one(sandbox: Sandbox, count: int, chance: random.Random, busy: asyncio.Semaphore, report: Report) -> None:
    deck = [kind for kind in KINDS for _ in range(kind.share)]
    order = [kind for _ in range(-(-count // len(deck))) for kind in chance.sample(deck, len(deck))][:count]
    for number, kind in enumerate(order):
        async with busy:
            try:
                if number % _COMMANDS_OF_A_CELL == 0:
                    await sandbox.open(CellSpec(), _CELL)
                result = await sandbox.run(kind.script, stdin=kind.stdin, limits=kind.limits)
                await sandbox.write("big", b"")  # the workspace is not full for the next one
            except SandboxLost as error:
                report.wrong.append(f"{kind.name}: {error}")
                report.commands += count - number
                return
        report.commands += 1
        report.statuses[result.status] += 1
        if wrong := _difference(result, kind.expected):
            report.wrong.append(f"{kind.name}: {wrong}")


def _difference(result: CommandResult, expected: dict[str, Any]) -> str:
    for name, value in expected.items():
        if getattr(result, name) != value:
            return f"{name} should be {value!r}: {result}"[:400]
    return ""
