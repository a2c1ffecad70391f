"""Processes of the host: what a sandbox consists of, and whether it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time


def command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def pythons(pids: list[int]) -> list[int]:
    """The guest and the cells below it, in this order."""
    return [pid for pid in pids if command_line(pid).startswith(b"/usr/bin/python3")]


def tree(pid: int) -> list[int]:
    """`pid` and everything below it."""
    pids = [pid]
    for parent in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as file:
                    pids += map(int, file.read().split())
    return pids


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


async def until(condition: object, timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)
