"""Conformance: every byte of input and output, of any size, and what is cut off."""

from __future__ import annotations

import hashlib
import random

from sandbox.conformance_frame import MIB, Subject, check, ended, slow_check
from sandbox.limits import Limits


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
async def input_and_output_at_once(subject: Subject) -> None:
    """Nobody waits for the other: input is still coming while output is."""
    data = random.Random(0).randbytes(8 * MIB)
    ended(await subject.sandbox.run(argv=["cat"], stdin=data, limits=Limits(output_bytes=16 * MIB)), stdout=data)
