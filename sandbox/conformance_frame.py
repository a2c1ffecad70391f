"""What a conformance check is made of: what it may ask of a sandbox, and how it says that an answer is wrong.

Comes in: a `Subject`, which opens fresh sandboxes. Goes out: nothing, or `NotConformant` that says what was expected
and what came. The checks lie in the other `conformance_*` modules; importing one adds its checks to `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from audit.errors import EctypeError
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, File

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
