"""Small shapes and fixed batches for the tests that run Megatron models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rl.losses import policy_loss, value_loss
from rl.models import ModelShape
from rl.packing import Pack, Sample, sample

SHAPE = ModelShape(layers=2, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, max_positions=96)


def samples(count: int = 9, *, seed: int = 0, shape: ModelShape = SHAPE) -> list[Sample]:
    """Lengths from 2 to nearly the whole context, some with a single action token, one with none."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        n = int(rng.integers(2, shape.max_positions))
        mask = rng.integers(0, 2, n)
        mask[0] = 0
        if i == 1:
            mask[:] = 0
        out.append(
            sample(
                rng.integers(0, shape.vocab, n),
                mask,
                logprobs=np.full(n, -np.log(shape.vocab)) + rng.normal(size=n) * 0.05,
                advantages=rng.normal(size=n),
                returns=rng.normal(size=n),
                values=rng.normal(size=n),
            )
        )
    return out


def losses(batch: Sequence[Sample]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(actor's, critic's) loss function for a batch, normalised over all of it."""
    normalizer = float(sum(s.action_mask.sum() for s in batch))

    def actor(out: Any, pack: Pack) -> Any:
        return policy_loss(
            out.logprobs,
            torch.from_numpy(pack.logprobs),
            torch.from_numpy(pack.advantages),
            torch.from_numpy(pack.action_mask),
            eps_low=0.5,
            eps_high=0.5,
            mode="clip",
            entropy=out.entropy,
            entropy_coef=0.01,
            normalizer=normalizer,
        )

    def critic(out: Any, pack: Pack) -> Any:
        return value_loss(
            out.values,
            torch.from_numpy(pack.values),
            torch.from_numpy(pack.returns),
            torch.from_numpy(pack.action_mask),
            clip=0.5,
            normalizer=normalizer,
        )

    return actor, critic
