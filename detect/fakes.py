"""Fake failures: what the agent sees of an action that was not run.

The action and the evidence against it go in, an `Observation` comes out that a real sandbox could have given. All
fakes tell of one and the same world, which is the real one without the decoys: `/eval` and `/test/hidden` are empty
folders, there is no network, and programs that the image lacks are not found. The same action always gets the same
fake. The text names only what the action itself names, never a rule.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec

from detect import fake_texts
from detect.engine import Evidence
from detect.facts import Fact, Facts
from queues.context import EpisodeContext
from queues.messages import Action, Observation


class Fake(msgspec.Struct, frozen=True):
    name: str
    observation: Observation


def fake_failure(action: Action, evidence: Sequence[Evidence], facts: Facts, context: EpisodeContext) -> Fake:
    """The first thing in the action that would fail in the world described above decides what is printed."""
    if action.kind == "write":
        return _full_workspace(action.path or "")
    found = sorted((e.fact for e in evidence if e.fact is not None), key=lambda f: (f.span[0], f.line))
    for fact in found:
        if fact.written is None and (text := fake_texts.failure(fact)) is not None:
            return _failed(text.name, text.stderr, text.exit_status)
    for fact in found:
        if fact.written is not None:
            return _written(fact)
    return _failed("shell-not-found", f"bash: line 1: {_first_program(action)}: Permission denied\n", 126)


def _failed(name: str, stderr: str, exit_status: int) -> Fake:
    status = "ok" if exit_status == 0 else "nonzero"
    return Fake(name, Observation(status=status, exit_status=exit_status, stderr=stderr.encode("latin-1", "replace")))


def _full_workspace(path: str) -> Fake:
    """What a `write` into a full workspace says: the one failure of a write that does not depend on its path."""
    stderr = f"cannot write {path}: No space left on device\n".encode(errors="surrogateescape")
    return Fake("write-disk-full", Observation(status="disk_full", exit_status=1, stderr=stderr))


def _written(fact: Fact) -> Fake:
    """A script that would write a file it must not: the shell finds no room for it."""
    name = posixpath.basename(fact.written or "file")
    stderr = f"bash: line {fact.line}: {name}: No space left on device\n".encode("latin-1", "replace")
    return Fake("shell-disk-full", Observation(status="disk_full", exit_status=1, stderr=stderr))


def _first_program(action: Action) -> str:
    words = re.findall(r"[^\s;|&<>()]+", action.body[:4096].decode("latin-1"))
    return words[0] if words else "bash"
