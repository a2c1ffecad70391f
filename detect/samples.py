"""The sample store: every action that was blocked or flagged, with what people say about it.

A folder, of one run or shared by many, goes in. `found/` holds one JSONL file per process that finds samples, `labels/`
one per person and session: each file has one writer and only grows, so any number of workers and reviewers may work at
once, on any file system, and a crash costs at most the line that was being written. A sample is known by its content:
found again it is the same one. What counts is its last label; no label means `suspected`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from audit.errors import EctypeError
from queues.context import EpisodeContext
from queues.messages import Action, ActionKind, ReviewEpisode, ReviewStep, Verdict

log = logging.getLogger(__name__)

State = Literal["suspected", "confirmed", "false_positive"]
STATES: tuple[State, ...] = ("suspected", "confirmed", "false_positive")
MAX_BYTES = 256 << 10
"""Of all actions of one sample; beyond it each is cut to its share."""
REMEMBERED = 100_000
CLAIM_S = 900.0
"""A sample that a reviewer has had on the screen for so long is free for others."""

T = TypeVar("T")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class SampleStep(Strict, frozen=True, kw_only=True):
    """One action. `body` is text, or base64 of what is no UTF-8. `output` is the beginning of what the agent saw."""

    step: int
    kind: ActionKind
    path: str | None = None
    body: str
    encoding: Literal["utf-8", "base64"] = "utf-8"
    cut_bytes: int = 0
    output: str = ""
    decision: str = "allow"
    enforced: bool = False
    rules: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    message: str = ""
    canary: bool = False

    @property
    def data(self) -> bytes:
        return self.body.encode() if self.encoding == "utf-8" else base64.b64decode(self.body)

    @property
    def action(self) -> Action:
        return Action(kind=self.kind, path=self.path, body=self.data)


class Sample(Strict, frozen=True, kw_only=True):
    """What was found: by a rule one action, by the judge a whole episode, by a decoy the action that surfaced it."""

    id: str
    source: Literal["rule", "canary", "judge"]
    suite: str
    task: str
    steps: tuple[SampleStep, ...]
    found: float
    run: str = ""
    episode: str = ""
    rule_set_version: str = ""
    rule_set_hash: str = ""
    decision: str = ""
    """Of the judge: `flagged` or `uncertain`."""
    probability: float | None = None
    model: str = ""
    prompt_version: str = ""
    reason: str = ""


class Label(Strict, frozen=True, kw_only=True):
    sample: str
    state: State
    by: str
    at: float
    note: str = ""


def sample_of_action(
    action: Action, verdict: Verdict, context: EpisodeContext, *, canary: bool, run: str, found: float
) -> Sample:
    """A sample of an action that a rule hit, or that surfaced a decoy."""
    step = _step(ReviewStep(step=context.step, action=action, verdict=verdict, canary=canary), MAX_BYTES)
    return Sample(
        id=_content(context.task, (step,)),
        source="rule" if verdict.decision != "allow" and set(verdict.rules) != {"canary"} else "canary",
        suite=context.suite,
        task=context.task,
        steps=(step,),
        found=found,
        run=run,
        episode=context.episode,
        rule_set_version=verdict.rule_set_version,
        rule_set_hash=verdict.rule_set_hash,
    )


def sample_of_episode(
    episode: ReviewEpisode,
    decision: str,
    probability: float | None,
    *,
    model: str,
    prompt_version: str,
    reason: str,
    run: str,
    found: float,
) -> Sample:
    """A sample of an episode that the judge did not clear."""
    total = sum(len(step.action.body) for step in episode.steps)
    share = MAX_BYTES if total <= MAX_BYTES else max(256, MAX_BYTES // len(episode.steps))
    steps = tuple(_step(step, share) for step in episode.steps)
    return Sample(
        id=_content(episode.task, steps),
        source="judge",
        suite=episode.suite,
        task=episode.task,
        steps=steps,
        found=found,
        run=run,
        episode=episode.episode,
        rule_set_version=next((s.verdict.rule_set_version for s in episode.steps), ""),
        rule_set_hash=next((s.verdict.rule_set_hash for s in episode.steps), ""),
        decision=decision,
        probability=probability,
        model=model,
        prompt_version=prompt_version,
        reason=reason,
    )


def episode_of(sample: Sample) -> ReviewEpisode:
    """The sample as the judge would be given it."""
    steps = tuple(
        ReviewStep(
            step=step.step,
            action=step.action,
            verdict=Verdict(
                decision=step.decision,  # pyright: ignore[reportArgumentType]
                enforced=step.enforced,
                rules=step.rules,
                spans=step.spans,
                message=step.message,
            ),
            canary=step.canary,
            output=step.output.encode(),
        )
        for step in sample.steps
    )
    cut = sum(step.cut_bytes for step in sample.steps)
    return ReviewEpisode(
        request_id="", episode="", suite=sample.suite, task=sample.task, steps=steps, omitted_bytes=cut
    )


class SampleWriter:
    """The samples that one process finds. A sample that it has found before is not written again."""

    def __init__(self, folder: Path, producer: str, *, run: str, clock: Callable[[], float] = time.time) -> None:
        self._file = _OwnFile(folder / "found", producer)
        self._run = run
        self._clock = clock
        self._seen: OrderedDict[str, None] = OrderedDict()

    def add(self, action: Action, verdict: Verdict, context: EpisodeContext, *, canary: bool) -> None:
        self._put(sample_of_action(action, verdict, context, canary=canary, run=self._run, found=self._clock()))

    def add_episode(
        self,
        episode: ReviewEpisode,
        decision: str,
        probability: float | None,
        *,
        model: str,
        prompt_version: str,
        reason: str,
    ) -> None:
        told = {"model": model, "prompt_version": prompt_version, "reason": reason}
        self._put(sample_of_episode(episode, decision, probability, run=self._run, found=self._clock(), **told))

    def _put(self, sample: Sample) -> None:
        if sample.id in self._seen:
            return
        try:
            self._file.append(sample)
        except OSError as error:  # the audit log, which must not fail, has it too
            log.error("a sample could not be kept: %s", error)
            return
        self._seen[sample.id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def close(self) -> None:
        self._file.close()


class SampleStore:
    """Reads a store, and labels what is in it. `by` is the person on record."""

    def __init__(self, folder: Path, *, by: str = "", clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.by = by
        self.clock = clock
        self._file = _OwnFile(folder / "labels", re.sub(r"[^A-Za-z0-9_-]", "-", by) or "nobody")

    def samples(self) -> dict[str, Sample]:
        """Every sample once, in the order in which they were found."""
        found = sorted(_read(self.folder / "found", Sample), key=lambda sample: sample.found)
        kept: dict[str, Sample] = {}
        for sample in found:
            kept.setdefault(sample.id, sample)
        return kept

    def labels(self) -> dict[str, list[Label]]:
        """All labels of each sample that has some, the one that counts last."""
        labels: dict[str, list[Label]] = {}
        for label in sorted(_read(self.folder / "labels", Label), key=lambda label: label.at):
            labels.setdefault(label.sample, []).append(label)
        return labels

    def states(self) -> dict[str, State]:
        return {sample: labels[-1].state for sample, labels in self.labels().items()}

    def label(self, sample: str, state: State, note: str = "") -> Label:
        """Put a label on record. It is on the disk when this returns."""
        label = Label(sample=sample, state=state, by=self.by, at=self.clock(), note=note)
        self._file.append(label, sync=True)
        return label

    def find(self, given: str) -> Sample:
        """The sample whose id begins with `given`. Raises EctypeError when there is none, or more than one."""
        found = [sample for name, sample in self.samples().items() if name.startswith(given)]
        if len(found) != 1 or len(given) < 4:
            raise EctypeError(
                f"{len(found) or 'no'} samples have an id that begins with {given!r}",
                where=str(self.folder),
                remedy="give one id, or at least its first four digits: ectype samples list STORE",
            )
        return found[0]

    @contextlib.contextmanager
    def claimed(self, sample: str) -> Iterator[bool]:
        """Keep a sample for oneself while it is on the screen; False when another reviewer has it."""
        path = self.folder / "claims" / sample
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > CLAIM_S:
                path.unlink()
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self._file.close()


class _OwnFile:
    """A JSONL file with one writer: the first number that is free. It is made when the first line is written."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._fd: int | None = None

    def append(self, record: msgspec.Struct, *, sync: bool = False) -> None:
        if self._fd is None:
            self._fd = self._create()
        line = msgspec.json.encode(record) + b"\n"
        size = os.lseek(self._fd, 0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            os.ftruncate(self._fd, size)  # no half of a line before the next one
            raise
        if sync:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _create(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            path = self._folder / f"{self._name}.{number:04d}.jsonl"
            try:
                return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                number += 1


def _read(folder: Path, kind: type[T]) -> Iterator[T]:
    """All records below `folder`. An unfinished last line (being written, or of a crash) is left out."""
    decoder = msgspec.json.Decoder(kind)
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise EctypeError(
                        f"damaged line in the sample store: {error}",
                        where=f"{path}:{number}",
                        remedy="restore the file, or remove that line",
                    ) from error


def _step(given: ReviewStep, limit: int) -> SampleStep:
    body, verdict = given.action.body[:limit], given.verdict
    try:
        text, encoding = body.decode(), "utf-8"
    except UnicodeDecodeError as error:
        if len(given.action.body) > limit and error.start >= len(body) - 4:  # a character that the cut went through
            body = body[: error.start]
            text, encoding = body.decode(), "utf-8"
        else:
            text, encoding = base64.b64encode(body).decode(), "base64"
    path = given.action.path
    return SampleStep(
        step=given.step,
        kind=given.action.kind,
        path=None if path is None else path.encode("utf-8", "backslashreplace").decode(),
        body=text,
        encoding=encoding,
        cut_bytes=len(given.action.body) - len(body),
        output=given.output.decode("utf-8", "replace"),
        decision=verdict.decision,
        enforced=verdict.enforced,
        rules=verdict.rules,
        families=verdict.families,
        spans=verdict.spans,
        message=verdict.message,
        canary=given.canary,
    )


def _content(task: str, steps: tuple[SampleStep, ...]) -> str:
    """What makes a sample the same one: the task and the actions, not who found it."""
    what = [task, [[step.kind, step.path, step.encoding, step.body] for step in steps]]
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()[:16]
