"""The rule sets of one run: frozen copies, and which of them is in force, from when, by whom and why.

A folder on the run's shared file system goes in. `sets/<hash>/` holds a copy of every set that was ever in force, never
changed again; `active.json` lists the activations, the last of which holds, and is replaced as a whole: a worker reads
the old list or the new one. A set that cannot be read, or whose own examples fail, is refused before anything changes.
`workers/<name>.json` is each worker's word about which activation it works by (see `detect.rule_watch`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from detect.commands import failures
from detect.engine import Engine
from detect.rule_set import RuleError, RuleSet, load_rules

SHORT = 12
"""Digits of a hash that people are shown, and that name a set's copy."""
CHANGELOG = "CHANGELOG.md"


class Activation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One change of the set in force. `number` counts from 0; `at` is the wall clock in seconds.

    `start` is the set that the run began with; `rollback` puts back what was in force before the last activation.
    """

    number: int
    kind: Literal["start", "activate", "rollback"]
    name: str
    version: str
    hash: str
    at: float
    by: str
    why: str = ""


class Taken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a worker works by since `at`. `refused`: why it did not take activation `number` (then it keeps `hash`)."""

    worker: str
    number: int
    hash: str
    at: float
    refused: str = ""


class _Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    format: Literal[1] = 1
    activations: tuple[Activation, ...]


class RuleBook:
    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.pointer = folder / "active.json"
        self._workers = folder / "workers"
        self._clock = clock

    def begin(self, source: Path, name: str, *, anew: bool = False) -> Activation:
        """The activation in force; the first time (or `anew`, of a run that has not begun), that of `source`.

        Later changes of `source` do not reach the run: it keeps its copy. Raises EctypeError.
        """
        with self._locked():
            if self.pointer.exists() and not anew:
                return self.activations()[-1]
            Engine(rules := self._keep(source))
            return self._write((), "start", name, rules, by="", why="")

    def activate(self, source: Path, name: str, *, by: str, why: str = "") -> Activation:
        """Put the set in `source` in force. Raises EctypeError, and changes nothing, when it is not fit for use."""
        rules = checked(source)
        with self._locked():
            there = self.activations()
            if there[-1].hash == rules.hash:
                raise RuleError(
                    f"rule set {rules.version} ({rules.hash[:SHORT]}) is in force already",
                    where=str(source),
                    remedy="nothing to do; `ectype rules status RUN` shows every activation",
                )
            if self._keep(source).hash != rules.hash:
                raise RuleError("the folder was changed meanwhile", where=str(source), remedy="try again")
            return self._write(there, "activate", name, rules, by=by, why=why)

    def rollback(self, *, by: str, why: str = "") -> Activation:
        """Put back what was in force before; again goes back further. Raises RuleError at the first set of the run."""
        with self._locked():
            there = self.activations()
            before = _before(there)
            if before is None:
                raise RuleError(
                    f"nothing to roll back to: {there[-1].version} is the set that the run began with",
                    where=str(self.pointer),
                    remedy="activate another set: ectype rules activate RUN SET",
                )
            return self._write(there, "rollback", before.name, self.load(before.hash), by=by, why=why)

    def activations(self) -> tuple[Activation, ...]:
        """Every activation, the one in force last. Raises RuleError when there is none or the file is damaged."""
        try:
            # opened, not only looked at: network file systems promise fresh content to who opens a file
            with self.pointer.open("rb") as file:
                return msgspec.json.decode(file.read(), type=_Book).activations
        except FileNotFoundError:
            raise RuleError(
                "no rule set was activated here yet",
                where=str(self.folder),
                remedy="name the folder of a run that was started with this version of ectype",
            ) from None
        except msgspec.DecodeError as error:
            raise RuleError(f"damaged: {error}", where=str(self.pointer), remedy="restore the file") from error

    def set_folder(self, digest: str) -> Path:
        return self.folder / "sets" / digest[:SHORT]

    def load(self, digest: str) -> RuleSet:
        """The kept set of this hash. Raises RuleError when it is gone or was changed."""
        folder = self.set_folder(digest)
        rules = load_rules(folder)
        if rules.hash != digest:
            raise RuleError(
                f"the copy was changed: its hash is {rules.hash[:SHORT]}",
                where=str(folder),
                remedy="copies in a run folder are never edited; activate a folder of your own",
            )
        return rules

    def kept(self) -> dict[str, Path]:
        """Copies of sets in this run, by the first digits of their hash."""
        return {folder.name: folder for folder in sorted((self.folder / "sets").glob("[0-9a-f]*"))}

    def note(self, taken: Taken) -> None:
        self._workers.mkdir(parents=True, exist_ok=True)
        _replace(self._workers / f"{taken.worker}.json", msgspec.json.encode(taken))

    def taken(self) -> dict[str, Taken]:
        files = sorted(self._workers.glob("[!.]*.json"))
        return {file.stem: msgspec.json.decode(file.read_bytes(), type=Taken) for file in files}

    def _keep(self, source: Path) -> RuleSet:
        """Copy the set to its place, named by its content; a copy that is there already stays."""
        rules = load_rules(source)
        target = self.set_folder(rules.hash)
        if target.is_dir():
            return self.load(rules.hash)
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
        try:
            for file in [*source.glob("*.yaml"), source / "VERSION", source / CHANGELOG]:
                if file.is_file():
                    shutil.copyfile(file, staging / file.name)
            if load_rules(staging).hash != rules.hash:
                raise RuleError("the folder was changed meanwhile", where=str(source), remedy="try again")
            staging.chmod(0o755)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return rules

    def _write(
        self,
        there: tuple[Activation, ...],
        kind: Literal["start", "activate", "rollback"],
        name: str,
        rules: RuleSet,
        *,
        by: str,
        why: str,
    ) -> Activation:
        made = Activation(
            number=len(there),
            kind=kind,
            name=name,
            version=rules.version,
            hash=rules.hash,
            at=self._clock(),
            by=by,
            why=why,
        )
        _replace(self.pointer, msgspec.json.format(msgspec.json.encode(_Book(activations=(*there, made)))))
        return made

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change at a time: a change reads the list and writes it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def checked(source: Path) -> RuleSet:
    """The set in `source`, if every rule in it can be applied and does what its examples say. Raises EctypeError."""
    engine = Engine(load_rules(source))
    wrong = list(failures(engine))
    if wrong:
        raise RuleError(
            f"{len(wrong)} examples of its rules fail; the first: {wrong[0]}",
            where=str(source),
            remedy=f"correct them (`ectype rules test --rules {source}`); nothing was changed",
        )
    return engine.rules


def _before(activations: tuple[Activation, ...]) -> Activation | None:
    """What was in force before the last activation that was not rolled back."""
    stack: list[Activation] = []
    for activation in activations:
        if activation.kind == "rollback":
            stack.pop()
        else:
            stack.append(activation)
    return stack[-2] if len(stack) > 1 else None


def _replace(path: Path, data: bytes) -> None:
    """Replace `path` so that a reader sees the old or the new content, never a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
