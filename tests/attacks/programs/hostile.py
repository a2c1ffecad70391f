"""What the hostile programs in Python share. A program says BREACH when something worked that must not."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def breach(what: object) -> None:
    os.write(1, f"BREACH {what}\n".encode())


def must_fail(what: str, function: Callable[..., Any], *arguments: Any) -> None:
    """`function` must raise OSError or, as a function of the C library does, return less than 0."""
    try:
        result = function(*arguments)
    except OSError:
        return
    if not isinstance(result, int) or result >= 0:
        breach(f"{what}: {result!r}")


def call(number: int, *arguments: Any) -> int:
    """A system call of x86_64."""
    return libc.syscall(number, *arguments)
