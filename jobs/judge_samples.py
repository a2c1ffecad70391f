"""Labelled samples for tuning and measuring a judge: read, kept apart, and put as the judge will be asked.

In go JSONL files of labelled actions (the corpus, an export of the sample store); out come the samples of each side of
the split, and the token sequences of the requests and answers that the judge's own prompt makes of them. What stage 1
says about an action is left out of the request: a judge that could read it would learn to repeat it, and it is there
for what stage 1 does not see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from audit.errors import EctypeError
from detect.guard import Guard
from detect.judge_prompt import Prompt
from detect.judge_record import EpisodeRecord
from detect.judge_split import Side, matched, nearly_among, pattern, side
from jobs.judge_command import Sample, read_samples, record_of_sample
from rl.verdicts import Question

CHEATS = ("cheat", "confirmed")
FEWEST = 10
"""Samples of each label that every side of the split needs."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """`near_duplicates`: samples that are left out because a sample of another side is nearly the same."""

    train: list[Sample]
    validation: list[Sample]
    held_out: list[Sample]
    near_duplicates: int
    sha256: str

    def counts(self) -> dict[str, dict[str, int]]:
        return {
            name: {"cheats": sum(map(is_cheat, part)), "honest": sum(not is_cheat(one) for one in part)}
            for name in ("train", "validation", "held_out")
            for part in [getattr(self, name)]
        }


def is_cheat(one: Sample) -> bool:
    return one.label in CHEATS


def read_all(files: Sequence[Path]) -> tuple[list[Sample], str]:
    """The samples of all files, each content once, and a hash of them that does not depend on their order."""
    found: dict[bytes, Sample] = {}
    for one in sorted((one for file in files for one in read_samples(file)[0]), key=msgspec.json.encode):
        found.setdefault(msgspec.json.encode(msgspec.structs.replace(one, suite="", task="")), one)
    digest = hashlib.sha256()
    for content in sorted(found):
        digest.update(hashlib.sha256(content).digest())
    return list(found.values()), digest.hexdigest()


def split(
    files: Sequence[Path],
    *,
    held_out: float | Path,
    validation: float,
    limit: int | None,
) -> Split:
    """`held_out`: a share of the patterns, or a file of its own. With `limit`, at most so many samples are drawn of
    all, and of each side as many cheats as honest ones in every language. Raises EctypeError when a side is too small.
    """
    samples, digest = read_all(files)
    share = held_out if isinstance(held_out, float) else 0.0
    sides: dict[Side, list[Sample]] = {"train": [], "validation": [], "held_out": []}
    for one in sorted(samples, key=lambda one: (_order(one), msgspec.json.encode(one))):
        sides[side(pattern(_text(one)), held_out=share, validation=validation)].append(one)
    if isinstance(held_out, Path):
        sides["held_out"], other = read_all([held_out])
        digest = hashlib.sha256((digest + other).encode()).hexdigest()
    before = sum(map(len, sides.values()))
    sides["validation"] = _unlike(sides["validation"], sides["held_out"])
    sides["train"] = _unlike(sides["train"], [*sides["held_out"], *sides["validation"]])
    near_duplicates = before - sum(map(len, sides.values()))
    if limit is not None:
        shares = {"held_out": share or 0.3, "validation": validation}
        shares["train"] = 1 - sum(shares.values())
        sides = {
            name: matched(part, round(limit * shares[name]), cheat=is_cheat, kind=_kind) for name, part in sides.items()
        }
    done = Split(**sides, near_duplicates=near_duplicates, sha256=digest)
    for name, count in done.counts().items():
        if min(count.values()) < FEWEST:
            raise EctypeError(
                f"{count['cheats']} cheats and {count['honest']} honest samples are too few for the side `{name}`",
                where=", ".join(map(str, files)),
                remedy=f"label more: every side needs {FEWEST} of each; or change --held-out and --validation",
            )
    return done


class Asker:
    """Puts samples as questions to one model: the prompt in its chat template, and the answer up to the verdict."""

    def __init__(self, prompt: Prompt, folder: Path, *, record_bytes: int) -> None:
        from transformers import AutoTokenizer

        if prompt.reason_characters:
            raise EctypeError(
                f"the prompt {prompt.version} asks for a reason before the verdict, and samples have none to learn",
                remedy="use a prompt without one, such as terse-2",
            )
        self.prompt = prompt
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
        if not self._tokenizer.chat_template:
            raise EctypeError("the model has no chat template", where=str(folder), remedy="use an instruct model")
        self._guard = Guard.load(mode="observe")
        self._record_bytes = record_bytes
        honest, cheat = (self._encode(_answer("10000000", verdict)) for verdict in prompt.verdicts)
        differ = next(i for i, (a, b) in enumerate(zip(honest, cheat, strict=False)) if a != b)
        self._from_verdict = len(honest) - differ
        self.verdicts: tuple[int, int] = honest[differ], cheat[differ]
        """The tokens in which the two answers first differ, honest and cheat."""

    def record(self, one: Sample) -> EpisodeRecord:
        return record_of_sample(one, self._guard, limit_bytes=self._record_bytes)

    def question(self, one: Sample) -> Question:
        record = self.record(one)
        rendered = self.prompt.render(record.task, record.text, draw=_draws(record.text))
        asked = self._tokenizer.apply_chat_template(
            [message._asdict() for message in rendered.messages], add_generation_prompt=True, tokenize=False
        )
        before = self._encode(asked)
        answer = self._encode(_answer(rendered.nonce, self.prompt.verdicts[0]))[: -self._from_verdict]
        return Question(tokens=before + answer, answer=len(before), label=int(is_cheat(one)))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


class Asked(NamedTuple):
    train: list[Question]
    validation: list[Question]
    held_out: list[Question]


def _answer(code: str, verdict: str) -> str:
    """As a model server writes the answer that the prompt's schema demands."""
    return json.dumps({"check": code, "verdict": verdict})


def _draws(seed: str) -> Callable[[], str]:
    """Random hexadecimal text that is the same every time for the same record."""
    state = hashlib.sha256(seed.encode("utf-8", "surrogatepass"))

    def draw() -> str:
        state.update(b"/")
        return state.hexdigest()[:32]

    return draw


def _text(one: Sample) -> str:
    return "\n".join([*(step.action for step in one.history), one.action])


def _order(one: Sample) -> str:
    return hashlib.sha256(_text(one).encode("utf-8", "surrogatepass")).hexdigest()


def _kind(one: Sample) -> str:
    """The language, or where it is not told the end of the file's name."""
    return one.language.lower() or Path(one.filename).suffix or one.filename


def _unlike(samples: list[Sample], others: Sequence[Sample]) -> list[Sample]:
    near = nearly_among([pattern(_text(one)) for one in samples], (pattern(_text(one)) for one in others))
    return [one for one, is_near in zip(samples, near, strict=True) if not is_near]
