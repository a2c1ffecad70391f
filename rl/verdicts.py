"""Supervised tuning of a language model that ends its answer with one of two verdicts, and how sure it is of them.

In: questions, each the tokens up to the place of the verdict, with a label. Out: P(second verdict against the first)
of every question, from the log-probs in that place; or a model that learnt to say the right one. The loss is the
negative log-likelihood of the verdict's token; the rest of the answer has a small share, so that the model goes on to
answer in the form it is asked for. Where only the last layers learn, what the layers below say is computed once per
question and kept. Every rank calls everything with the same questions; each data-parallel rank has its own share.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from rl import parallel, snapshots
from rl.models import MegatronModel
from rl.packing import Pack, Sample, balance, make_packs, sample

Progress = Callable[[str], None]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` end where the verdict begins; the answer begins at `answer`. `label`: which of the two is right."""

    tokens: list[int]
    answer: int
    label: int


class TuneConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    epochs: int = 4
    """Most passes over the questions."""
    learning_rate: float = 1e-4
    """At its highest; it climbs for ten batches and falls to zero over all epochs."""
    batch_tokens: int = 4096
    """Tokens of one optimizer step, and most tokens of one pack."""
    train_layers: int | None = None
    """Only the last so many layers learn; None: all."""
    patience: int = 2
    """Stop after so many epochs in a row without a better validation."""
    answer_weight: float = 0.1
    """Weight of what comes before the verdict in the answer, as against the verdict."""
    weight_decay: float = 0.0
    clip_grad: float = 1.0
    seed: int = 0


class Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`number` 0 is the model as it came. `nll`: of the training batches, per question."""

    number: int
    nll: float | None
    quality: float
    """On the validation questions; higher is better."""


class Progressed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a snapshot remembers beside the model."""

    fingerprint: str
    epochs: tuple[Epoch, ...]
    caller: bytes

    @property
    def best(self) -> Epoch:
        """The first of the best that were trained, however the model did as it came."""
        trained = self.epochs[1:] or self.epochs
        return max(trained, key=lambda epoch: (epoch.quality, -epoch.number))

    def is_over(self, config: TuneConfig) -> bool:
        last = self.epochs[-1].number
        return last >= config.epochs or (last > 0 and last - self.best.number >= config.patience)


class Scorer:
    """A model with its two verdict tokens. Keeps the states below the layers that learn, in the memory of this rank:
    (hidden size) numbers a token."""

    def __init__(self, model: MegatronModel, verdicts: tuple[int, int], *, pack_tokens: int) -> None:
        self.model = model
        self.verdicts = verdicts
        self._pack_tokens = pack_tokens
        self._below: dict[bytes, Tensor] = {}

    def scores(self, questions: Sequence[Question], progress: Progress | None = None) -> np.ndarray:
        """P(second verdict) among the two, float64 [questions], in (0, 1)."""
        mine = balance([len(q.tokens) for q in questions], parallel.dp_size())[parallel.dp_rank()]
        samples = [self._sample(questions[i], {}, 0.0) for i in mine]
        packs = make_packs(samples, self._pack_tokens)
        found: dict[str, float] = {}
        for number, pack in enumerate(packs, 1):
            (logprobs,) = self.model.ending_logprobs([pack], self.verdicts, below=self.below([pack], samples))
            odds = (logprobs[:, 1] - logprobs[:, 0]).double().cpu().numpy()
            found |= {str(mine[i]): float(p) for i, p in zip(pack.indices, _sigmoid(odds), strict=True)}
            if progress is not None:
                progress(f"scored {number}/{len(packs)} packs")
        total = parallel.sum_over_dp(found)
        return np.array([total[str(number)] for number in range(len(questions))])

    def below(self, packs: Sequence[Pack], samples: Sequence[Sample]) -> list[Tensor] | None:
        """The states under the layers that learn of each pack; computed for sequences that were never seen."""
        if not self.model.frozen_layers:
            return None
        out = []
        for pack in packs:
            # the last token's own state is of no consequence: nothing comes after it
            keys = [samples[i].tokens[:-1].tobytes() for i in pack.indices]
            if any(key not in self._below for key in keys):
                (states,) = self.model.states_below([pack])
                self._below |= dict(zip(keys, states.split(pack.lengths), strict=True))
            out.append(torch.cat([self._below[key] for key in keys]))
        return out

    def _sample(self, question: Question, verdict_weights: dict[int, float], answer_weight: float) -> Sample:
        tokens = [*question.tokens, self.verdicts[question.label]]
        mask = np.zeros(len(tokens), np.int8)
        mask[question.answer :] = 1
        made = sample(tokens, mask)
        before = len(question.tokens) - question.answer
        made.weights[:] = answer_weight / max(1, before)
        made.weights[-1] = verdict_weights.get(question.label, 1.0)
        return made

    def train_epoch(self, questions: Sequence[Question], config: TuneConfig, epoch: int, progress: Progress) -> float:
        """One pass (`epoch` counts from 1) with both labels weighing the same. Returns the mean loss of a question."""
        assert self.model.optimizer is not None
        counts = np.bincount([q.label for q in questions], minlength=2)
        weights = {label: len(questions) / (2 * counts[label]) for label in (0, 1)}
        batches = list(_batches(questions, config, epoch))
        total, nll = config.epochs * len(batches), 0.0
        for number, batch in enumerate(batches):
            step = (epoch - 1) * len(batches) + number
            self.model.set_lr(config.learning_rate * min(1.0, (step + 1) / 10) * (1 - step / total))
            mine = [self._sample(questions[i], weights, config.answer_weight) for i in _own(batch, len(questions))]
            packs = make_packs(mine, self._pack_tokens)

            def loss(out: Any, pack: Pack, n: int = len(batch)) -> tuple[Tensor, dict[str, Tensor]]:
                weight = torch.from_numpy(pack.weights * pack.action_mask).to(out.logprobs.device)
                value = -(out.logprobs * weight).sum() / n
                return value, {}

            stats = self.model.train_step(packs, loss, below=self.below(packs, mine))
            nll += stats["loss"] * len(batch)
            progress(f"epoch {epoch}, batch {number + 1}/{len(batches)}, loss {stats['loss']:.3f}")
        return nll / len(questions)


def tune(
    scorer: Scorer,
    questions: Sequence[Question],
    config: TuneConfig,
    *,
    quality: Callable[[], float],
    fingerprint: str,
    caller: Callable[[], bytes],
    root: Path,
    progress: Progress,
) -> Progressed:
    """Train until `config` says so, with a snapshot under `root` after every epoch; the scorer's model then has the
    weights of the best epoch.

    `quality()` is asked before the first and after every epoch. A snapshot of the same `fingerprint` is gone on from;
    one of another is started over. `caller()` is asked once, before the first epoch, for what the caller wants to
    find again in `Progressed.caller`.
    """

    def save(state: Progressed) -> Progressed:
        number, keep = state.epochs[-1].number, config.patience + 1  # the best is among them
        snapshots.save(root, scorer.model, msgspec.msgpack.encode(state), number=number, keep=keep)
        return state

    state = _resume(root, scorer.model, fingerprint)
    if state is None:
        if parallel.rank() == 0:  # of another tuning
            shutil.rmtree(root, ignore_errors=True)
        dist.barrier()
        first = Epoch(number=0, nll=None, quality=quality())
        state = save(Progressed(fingerprint=fingerprint, epochs=(first,), caller=caller()))
    else:
        progress(f"going on after epoch {state.epochs[-1].number}")
    while not state.is_over(config):
        number = state.epochs[-1].number + 1
        nll = scorer.train_epoch(questions, config, number, progress)
        epoch = Epoch(number=number, nll=nll, quality=quality())
        progress(f"epoch {number}: loss {nll:.3f}, validation {epoch.quality:.3f}")
        state = save(msgspec.structs.replace(state, epochs=(*state.epochs, epoch)))
    if state.best.number != state.epochs[-1].number:
        snapshots.load(root / f"epoch-{state.best.number:06d}", scorer.model)
    return state


def _resume(root: Path, model: MegatronModel, fingerprint: str) -> Progressed | None:
    """Load the newest snapshot if it is of the same tuning; else None, and the model stays as it is."""
    newest = snapshots.latest(root)
    if newest is None:
        return None
    try:
        state = msgspec.msgpack.decode(snapshots.state_of(newest), type=Progressed)
    except msgspec.DecodeError:  # of another version
        return None
    if state.fingerprint != fingerprint:
        return None
    snapshots.load(newest, model)
    return state


def _batches(questions: Sequence[Question], config: TuneConfig, epoch: int) -> Iterator[list[int]]:
    """The questions of each optimizer step, in an order of this epoch's own."""
    order = list(range(len(questions)))
    random.Random(f"{config.seed}/{epoch}").shuffle(order)
    size = max(2, round(config.batch_tokens / np.mean([len(q.tokens) for q in questions])))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _own(batch: Sequence[int], count: int) -> list[int]:
    """This data-parallel rank's share: always the same questions, whose states it keeps."""
    return [i for i in batch if i % parallel.dp_size() == parallel.dp_rank()]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))
