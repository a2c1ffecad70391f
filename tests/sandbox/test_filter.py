"""The cell's own system call filter, run as the kernel runs it: who may bind a process to cores."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from sandbox import guest_filter

SETAFFINITY = {"x86_64": 203, "aarch64": 122}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KEY = [0x1122334455667788, 0, 0xFFFFFFFF00000001]
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

pytestmark = pytest.mark.skipif(os.uname().machine not in SETAFFINITY, reason="there is no filter for this machine")


def verdict(code: bytes, number: int, arguments: list[int]) -> int:
    """What the kernel would do with a system call of this machine."""
    data = struct.pack("<iIQ6Q", number, ARCHITECTURES[os.uname().machine], 0, *arguments)
    value = kept = at = 0
    while True:
        operation, if_true, if_false, k = struct.unpack_from("HBBI", code, 8 * at)
        at += 1
        if operation == 0x06:
            return k
        if operation == 0x00:
            value = k
        elif operation == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        elif operation == 0x07:
            kept = value
        elif operation == 0xA4:
            value ^= k
        elif operation == 0x4C:
            value |= kept
        else:
            at += if_true if {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation] else if_false


def bind(code: bytes, *last: int) -> int:
    return verdict(code, SETAFFINITY[os.uname().machine], [0, 8, 0x7FFF0000, *last])


def test_the_key_and_nothing_else_binds_a_process_to_cores() -> None:
    code = guest_filter.program(unix_sockets=True, key=KEY)
    assert bind(code, *KEY) == ALLOW
    for bit in range(192):
        guess = [*KEY[: bit // 64], KEY[bit // 64] ^ 1 << bit % 64, *KEY[bit // 64 + 1 :]]
        assert bind(code, *guess) == ERRNO | errno.EPERM, bit
    assert bind(code, 0, 0, 0) == ERRNO | errno.EPERM
    assert verdict(code, 39 if os.uname().machine == "x86_64" else 172, [0] * 6) == ALLOW, "getpid"


def test_without_a_key_no_process_is_bound() -> None:
    code = guest_filter.program(unix_sockets=True)
    assert bind(code, 0, 0, 0) == bind(code, *KEY) == ERRNO | errno.EPERM


def test_every_cell_has_a_key_of_its_own() -> None:
    keys = [word for _ in range(8) for word in guest_filter.Cores().key]
    assert len(set(keys)) == 24 and max(keys) > 1 << 60
