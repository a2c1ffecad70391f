"""Cleaning: the host vanishes, everything else survives byte for byte, and nothing is unbounded."""

from __future__ import annotations

import getpass
import random
import socket
from pathlib import Path

import pytest

from sandbox.cleaning import COMPILE_STDERR_BYTES, STREAM_BYTES, Cleaner
from sandbox.sandbox import CommandResult

CLEANER = Cleaner(
    paths=["/var/cache/ectype", "/var/cache/ectype/images/base-0/rootfs", Path("/data/runs/x")],
    hostnames=["node17.cluster", "node17"],
    users=["mueller"],
)


def result(stdout: bytes = b"", stderr: bytes = b"", **changes: object) -> CommandResult:
    fields: dict[str, object] = {
        "status": "ok", "exit_status": 0, "signal": None, "stdout": stdout, "stderr": stderr,
        "stdout_truncated": False, "stderr_truncated": False, "wall_s": 0.1, "cpu_s": 0.1,
    } | changes  # fmt: skip
    return CommandResult(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"lowerdir=/var/cache/ectype/images/base-0/rootfs,x", b"lowerdir=/,x"),
        (b"/var/cache/ectype/images/base-0/rootfs/usr/bin/ls", b"/usr/bin/ls"),
        (b"at /data/runs/x/keys\n", b"at /keys\n"),
        (b"/data/runs/xyz", b"/data/runs/xyz"),
        (b"node17 node17.cluster node170 mynode17-a", b"sandbox sandbox node170 mynode17-a"),
        (b"mueller:x:1000 mueller2", b"agent:x:1000 mueller2"),
        (b'File "/work/main.py", line 1', b'File "/work/main.py", line 1'),
    ],
)
def test_the_host_vanishes(before: bytes, after: bytes) -> None:
    assert CLEANER.clean(before) == after


def test_any_other_bytes_survive() -> None:
    noise = random.Random(3).randbytes(STREAM_BYTES)
    assert CLEANER.clean(noise) == noise
    every = bytes(range(256)) * 4
    assert CLEANER.observation(result(every, every[::-1])).stdout == every
    assert Cleaner().clean(b"/var/cache/ectype") == b"/var/cache/ectype"


def test_ordinary_words_are_not_secrets() -> None:
    cleaner = Cleaner(hostnames=["localhost", "vm"], users=["root", "bob"])
    honest = b"root localhost vm bob\n"
    assert cleaner.clean(honest) == honest


def test_this_host() -> None:
    cleaner = Cleaner.of_host(paths=["/some/run"])
    cleaned = cleaner.clean(f"{socket.gethostname()} /some/run/a {getpass.getuser()}".encode())
    assert b"/some" not in cleaned
    if len(socket.gethostname()) >= 4 and socket.gethostname() not in ("localhost", "sandbox"):
        assert socket.gethostname().encode() not in cleaned


def test_observations_are_bounded_and_say_so() -> None:
    seen = CLEANER.observation(result(b"a" * (STREAM_BYTES + 1), b"b" * STREAM_BYTES))
    assert len(seen.stdout) == STREAM_BYTES and seen.stdout_truncated
    assert len(seen.stderr) == STREAM_BYTES and not seen.stderr_truncated
    assert CLEANER.observation(result(b"a", stdout_truncated=True)).stdout_truncated
    # a stand-in may be longer than what it replaces
    grown = CLEANER.observation(result(b"node17 " * (STREAM_BYTES // 7)))
    assert len(grown.stdout) == STREAM_BYTES and grown.stdout_truncated


def test_the_compiler_is_bounded() -> None:
    assert len(CLEANER.compile_stderr(b"node17 " * 10000)) == COMPILE_STDERR_BYTES
