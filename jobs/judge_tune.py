"""`ectype judge tune` and `ectype judge evaluate`: a judge of one's own, and how good a judge is.

In go labelled samples and a model; out comes a Hugging Face folder that a judge job serves as it is, with the prompt it
was tuned for, its calibration, and `judge.json`: where it comes from and how good it is on samples that it never saw.
It learns with the trainer's own Megatron models, on one rank or many (`torchrun`), and goes on where it was killed. A
judge is promoted, by one atomic switch of a link, only when it is better than the one before.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from audit.errors import EctypeError
from detect.judge_calibration import Calibration, Provenance, auroc, fit, save
from detect.judge_calibration import load as load_calibration
from detect.judge_metrics import Comparison, Metrics, Reliability, compare, measure, reliability
from detect.judge_prompt import PROMPTS_DIR, Prompt, load_prompt
from jobs.judge_command import Sample
from jobs.judge_samples import Asked, Asker, read_all, split
from jobs.judges import model_folder
from rl import hf, parallel
from rl.models import MegatronModel, OptimizerConfig
from rl.verdicts import Epoch, Question, Scorer, TuneConfig, tune

CARD, CALIBRATION, PROMPT = "judge.json", "calibration.json", "prompt.md"
TUNING_PROMPT = "terse-2"
THRESHOLD = 0.85
"""Of P(cheat), for the reliability on record: the default of judge.threshold."""
BETTER, NOT_BETTER = 0, 3
"""Exit status. An error ends with 2, like that of every other command."""
ISOTONIC_FROM = 400
"""Validation samples from which the calibration is isotonic."""

Say = Callable[[str], None]


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`judge.json` of a tuned judge. `untuned` and `tuned` are its base and itself on the held-out samples."""

    format: Literal[1] = 1
    name: str
    base: str
    base_sha256: str
    prompt_version: str
    prompt_hash: str
    samples_sha256: str
    samples: dict[str, dict[str, int]]
    near_duplicates: int
    record_bytes: int
    config: TuneConfig
    epochs: tuple[Epoch, ...]
    best_epoch: int
    comparison: Comparison
    rival: str | None
    """The promoted judge that it was also compared with, if there was one."""
    rival_comparison: Comparison | None
    calibration: Calibration
    reliability: Reliability
    """Of the calibrated probabilities on the held-out samples."""
    created: float

    @property
    def better(self) -> bool:
        return self.comparison.better and (self.rival_comparison is None or self.rival_comparison.better)

    @property
    def reason(self) -> str:
        if self.rival_comparison is not None and (self.comparison.better or not self.rival_comparison.better):
            return f"against {self.rival}: {self.rival_comparison.reason}"
        return f"against its untuned self: {self.comparison.reason}"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a tuning is told. `held_out`: a share of the patterns, or a file. `promote_to`: a link, or none."""

    samples: Sequence[Path]
    model: str
    out: Path
    prompt: str = TUNING_PROMPT
    held_out: float | Path = 0.3
    validation: float = 0.15
    limit: int | None = None
    record_bytes: int = 1000
    prior: float | None = None
    """Share of cheats among what will be judged, where it is another than among the samples."""
    promote_to: Path | None = None
    tp: int = 1
    threads: int = 0
    tune: TuneConfig = TuneConfig()


def tune_judge(options: Options, *, say: Say) -> Card:
    """Tune, measure, write `options.out`, and promote what is better. Every rank of a torchrun calls it.

    A work folder beside `out` holds a snapshot of the last epochs until `out` is there.
    """
    _refuse_early(options)
    base, prompt = model_folder(options.model), load_prompt(options.prompt)
    parts = split(options.samples, held_out=options.held_out, validation=options.validation, limit=options.limit)
    parallel.init(tp=options.tp, threads=options.threads)
    say = say if parallel.rank() == 0 else _say_nothing
    asker = Asker(prompt, base, record_bytes=options.record_bytes)
    if prompt.shows_notes:
        raise EctypeError(
            f"the prompt {prompt.version} says what stage 1 found, and a judge is tuned without it",
            remedy="leave $notes out of the prompt, or use terse-2: else a run asks what the judge never learnt from",
        )
    asked = Asked(*([asker.question(one) for one in part] for part in (parts.train, parts.validation, parts.held_out)))
    tokens = [len(q.tokens) for part in asked for q in part]
    say(
        f"{len(asked.train)} samples to learn from, {len(asked.validation)} to validate, {len(asked.held_out)} held "
        f"out ({parts.near_duplicates} near-duplicates left out); {sum(tokens)} tokens, at most {max(tokens)} in one"
    )
    config = options.tune
    model = _model(base, config)
    scorer = Scorer(model, asker.verdicts, pack_tokens=config.batch_tokens)
    base_sha256 = _weights_sha256(base)
    work = _work_folder(options.out)
    validation_labels = _labels(asked.validation)
    state = tune(
        scorer,
        asked.train,
        config,
        quality=lambda: auroc(scorer.scores(asked.validation, say), validation_labels),
        caller=lambda: msgspec.msgpack.encode(scorer.scores(asked.held_out, say).tolist()),
        fingerprint=_fingerprint(config, base_sha256, prompt, asked, options.tp),
        root=work / "snapshots",
        progress=say,
    )
    labels = _labels(asked.held_out)
    untuned = np.array(msgspec.msgpack.decode(state.caller, type=list[float]))
    tuned = scorer.scores(asked.held_out, say)
    validated = scorer.scores(asked.validation, say)
    calibration = fit(
        validated,
        validation_labels,
        "isotonic" if len(validated) >= ISOTONIC_FROM else "platt",
        Provenance(
            model=options.out.name,
            prompt_version=prompt.version,
            prompt_hash=prompt.hash,
            samples=len(validated),
            cheats=int(validation_labels.sum()),
            samples_sha256=parts.sha256,
            fitted=time.time(),
            prior=options.prior,
        ),
    )
    partial = work / "model"
    if parallel.rank() == 0:
        shutil.rmtree(partial, ignore_errors=True)
    hf.export(model, partial, tokenizer_from=base)
    rival = _rival(options, base)
    rival_scores = rival and scores_of(
        rival,
        parts.held_out,
        _own_prompt(rival, options.prompt),
        record_bytes=options.record_bytes,
        pack_tokens=config.batch_tokens,
    )
    card = Card(
        name=options.out.name,
        base=options.model if options.model == "smollm2" else str(Path(options.model).resolve()),
        base_sha256=base_sha256,
        prompt_version=prompt.version,
        prompt_hash=prompt.hash,
        samples_sha256=parts.sha256,
        samples=parts.counts(),
        near_duplicates=parts.near_duplicates,
        record_bytes=options.record_bytes,
        config=config,
        epochs=state.epochs,
        best_epoch=state.best.number,
        comparison=compare(untuned, tuned, labels),
        rival=None if rival is None else rival.name,
        rival_comparison=None if rival_scores is None else compare(rival_scores, tuned, labels),
        calibration=calibration,
        reliability=reliability(np.array([calibration(score) for score in tuned]), labels, THRESHOLD),
        created=time.time(),
    )
    if parallel.rank() == 0:
        save(calibration, partial / CALIBRATION)
        (partial / PROMPT).write_text(_prompt_text(options.prompt))
        (partial / CARD).write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=1) + b"\n")
        _flush(partial)
        partial.rename(options.out)
        shutil.rmtree(work)
        if card.better and options.promote_to is not None:
            promote(options.out, options.promote_to)
    return card


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Of a judge on samples; the last only where it has a calibration: what its probabilities mean."""

    model: str
    prompt_version: str
    prompt_hash: str
    samples_sha256: str
    metrics: Metrics
    brier_raw: float
    reliability: Reliability | None


def evaluate_judge(
    samples: Sequence[Path],
    *,
    model: str,
    prompt: str | None,
    held_out: float | None,
    limit: int | None,
    record_bytes: int,
    threads: int,
    say: Say,
) -> Evaluation:
    """Measure a judge on labelled samples: on all, or on the side that a tuning with this `held_out` never saw. The
    prompt of a tuned judge is its own."""
    folder = model_folder(model).resolve()
    used = load_prompt(prompt) if prompt else _own_prompt(folder, TUNING_PROMPT)
    if held_out is None and limit is None:
        chosen, digest = read_all(samples)
    else:
        parts = split(samples, held_out=held_out or 0.3, validation=0.15, limit=limit)
        chosen, digest = parts.held_out, parts.sha256
    parallel.init(threads=threads)
    asker = Asker(used, folder, record_bytes=record_bytes)
    questions = [asker.question(one) for one in chosen]
    labels = _labels(questions)
    if len(set(labels.tolist())) < 2:
        raise EctypeError("both cheats and honest samples are needed to measure a judge", where=str(samples[0]))
    scores = Scorer(_model(folder, None), asker.verdicts, pack_tokens=4096).scores(questions, say)
    found = None
    if (folder / CALIBRATION).is_file():
        calibration = load_calibration(folder / CALIBRATION, model=folder.name, prompt_hash=used.hash)
        found = reliability(np.array([calibration(score) for score in scores]), labels, THRESHOLD)
    return Evaluation(
        model=folder.name,
        prompt_version=used.version,
        prompt_hash=used.hash,
        samples_sha256=digest,
        metrics=measure(scores, labels),
        brier_raw=float(np.mean((scores - labels) ** 2)),
        reliability=found,
    )


def promote(folder: Path, link: Path) -> None:
    """Point the link at the folder, in one step: whoever reads it finds the one or the other. Judge jobs that start
    later serve it; those that run keep what they have."""
    link.parent.mkdir(parents=True, exist_ok=True)
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(folder.resolve())
    temporary.replace(link)


def _prompt_text(name: str) -> str:
    """The file of a prompt that `load_prompt` reads."""
    path = Path(name) if "/" in name else PROMPTS_DIR / f"{name}.md"
    return path.read_text(encoding="utf-8")


def read_card(folder: Path) -> Card:
    """`judge.json` of a tuned judge; raises EctypeError."""
    try:
        return msgspec.json.decode((folder / CARD).read_bytes(), type=Card)
    except (OSError, msgspec.DecodeError) as error:
        raise EctypeError(f"no tuned judge of this version: {error}", where=str(folder / CARD)) from error


def report_of(card: Card, out: Path, link: Path | None) -> str:
    """For people: before and after, and what became of it."""
    lines = [
        _HEAD,
        f"{'untuned':10} {_row(card.comparison.before)}",
        f"{'tuned':10} {_row(card.comparison.after)}",
        _meaning(card.reliability, card.comparison.after),
        f"{out}: {'better' if card.better else 'not better'} ({card.reason})",
    ]
    if link is not None:
        lines.append(f"{link} now leads to it" if card.better else f"{link} is left as it was")
    return "\n".join(lines)


def report_of_evaluation(found: Evaluation) -> str:
    metrics = found.metrics
    said = f"{found.model}, prompt {found.prompt_version}: {metrics.cheats} cheats of {metrics.samples} samples"
    meaning = "" if found.reliability is None else f"\n{_meaning(found.reliability, metrics)}"
    return f"{said}\n{_HEAD}\n{'':10} {_row(metrics)}{meaning}"


_HEAD = f"{'':10} {'AUROC (95 % interval)':26} {'recall at 1 %':>14} {'at 5 % false positives':>23}"


def _meaning(found: Reliability, metrics: Metrics) -> str:
    """What the calibrated probabilities are worth, in words."""
    sure = "" if found.said is None else f" (said {found.said:.3f}, so {found.so:.3f})"
    honest = metrics.samples - metrics.cheats
    return (
        f"from {found.threshold}: {found.flagged_cheats} of {metrics.cheats} cheats and {found.flagged_honest} of "
        f"{honest} honest samples{sure}; calibration error {found.expected_error:.3f}, Brier score {found.brier:.3f}"
    )


def _row(found: Metrics) -> str:
    low, high = found.auroc_interval.low, found.auroc_interval.high
    return (
        f"{f'{found.auroc:.3f} ({low:.3f} to {high:.3f})':26} {found.recall_at_1pct:14.3f} {found.recall_at_5pct:23.3f}"
    )


def _refuse_early(options: Options) -> None:
    if options.out.exists():
        raise EctypeError("will not write a judge over something that exists", where=str(options.out))
    link = options.promote_to
    if link is not None and link.exists() and not link.is_symlink():
        raise EctypeError(
            "only a link is switched from one judge to the next, and this is none",
            where=str(link),
            remedy="name a path that does not exist, or the link that an earlier tuning made",
        )


def _model(folder: Path, config: TuneConfig | None) -> MegatronModel:
    """With a config, one that learns."""
    optimizer = config and OptimizerConfig(
        lr=config.learning_rate, weight_decay=config.weight_decay, clip_grad=config.clip_grad
    )
    layers = config.train_layers if config else None
    model = MegatronModel(hf.read_shape(folder), optimizer=optimizer, initialize=False, train_layers=layers)
    hf.load_weights(folder, model)
    return model


def _rival(options: Options, base: Path) -> Path | None:
    """The judge that is promoted now, unless it is the base, whose scores are known."""
    link = options.promote_to
    if link is None or not link.exists() or link.resolve() == base.resolve():
        return None
    return link.resolve()


def scores_of(
    folder: Path, samples: Sequence[Sample], prompt: Prompt, *, record_bytes: int, pack_tokens: int = 4096
) -> np.ndarray:
    """What the model in a folder says of samples, asked with this prompt, in this process."""
    asker = Asker(prompt, folder, record_bytes=record_bytes)
    scorer = Scorer(_model(folder, None), asker.verdicts, pack_tokens=pack_tokens)
    return scorer.scores([asker.question(one) for one in samples])


def _own_prompt(folder: Path, otherwise: str) -> Prompt:
    """The one that a judge was tuned for."""
    own = folder / PROMPT
    return load_prompt(str(own) if own.is_file() else otherwise)


def _labels(questions: Sequence[Question]) -> np.ndarray:
    return np.array([question.label for question in questions])


def _fingerprint(config: TuneConfig, base_sha256: str, prompt: Prompt, asked: Asked, tp: int) -> str:
    """Of everything that decides what comes out: a snapshot of another tuning is not gone on from."""
    content = msgspec.msgpack.encode((config, base_sha256, prompt.hash, tuple(asked), tp, parallel.world()))
    return hashlib.sha256(content).hexdigest()


def _weights_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _work_folder(out: Path) -> Path:
    folder = out.with_name(f".{out.name}.tuning")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _flush(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _say_nothing(_: str) -> None:
    pass
