"""The public half of a task suite: what the driver, the policy and a reader may know about each task.

Comes in: a folder `<root>/public/<suite>/<task>/` with `task.toml`, `instructions.md` and `examples/*.json`, written by
`tasks.build`. Goes out: `PublicTask` records. It must never look at `<root>/hidden`, which other jobs own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from audit.errors import EctypeError

_REMEDY = "build the suite again: ectype tasks build"


class SuiteError(EctypeError):
    """The public half of a suite is missing or malformed."""


class ExampleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file that lies in the current folder of an example's run."""

    path: str
    data: bytes


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One recorded run of the reference that everybody may see (bytes are base64 in the JSON file)."""

    argv: tuple[str, ...] = ()
    stdin: bytes = b""
    files: tuple[ExampleFile, ...] = ()
    stdout: bytes = b""
    exit_status: int = 0


class PublicTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One task as the policy meets it.

    `instructions` is the whole prompt, and names the examples where the task gives any away; `examples` are runs of the
    reference for readers and tools, not for the prompt. `entry` is the file the submission starts from, relative to
    the workspace; `build_hint` says in words how it is built. `max_steps` is the number of steps an episode gets.
    """

    suite: str
    task: str
    instructions: str
    examples: tuple[Example, ...]
    build_hint: str
    max_steps: int
    entry: str


class _TaskFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`task.toml`, format 1."""

    format: Literal[1]
    entry: str
    build_hint: str
    max_steps: int


def list_suites(root: Path) -> tuple[str, ...]:
    """Names of the suites with a public half below `root`."""
    return tuple(sorted(p.name for p in Path(root).glob("public/*") if p.is_dir()))


def load_suite(root: Path, suite: str) -> list[PublicTask]:
    """Every task of `suite`, sorted by name; raises `SuiteError`."""
    folder = Path(root) / "public" / suite
    tasks = sorted(p for p in folder.glob("*") if p.is_dir()) if folder.is_dir() else []
    if not tasks:
        there = ", ".join(list_suites(root)) or "none"
        raise SuiteError(f"no suite {suite!r} (there is: {there})", where=str(folder), remedy=_REMEDY)
    return [load_task(path) for path in tasks]


def load_task(folder: Path) -> PublicTask:
    """The task in `<root>/public/<suite>/<task>`; raises `SuiteError`."""
    suite, task = folder.parent.name, folder.name
    path = folder / "task.toml"
    try:
        settings = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _TaskFile)
        path = folder / "instructions.md"
        instructions = path.read_text("utf-8")
        examples: list[Example] = []
        for path in sorted((folder / "examples").glob("*.json"), key=lambda p: (len(p.name), p.name)):
            examples.append(msgspec.json.decode(path.read_bytes(), type=Example))
    except FileNotFoundError:
        raise SuiteError(f"task {suite}/{task} has no {path.name}", where=str(path), remedy=_REMEDY) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.MsgspecError) as error:
        raise SuiteError(f"task {suite}/{task}: {error}", where=str(path), remedy=_REMEDY) from None
    return PublicTask(
        suite=suite,
        task=task,
        instructions=instructions,
        examples=tuple(examples),
        build_hint=settings.build_hint,
        max_steps=settings.max_steps,
        entry=settings.entry,
    )
