"""Numbers that say whether a PPO step was healthy, as pure functions of its samples. docs/training.md explains them.

In: the samples of a batch with values, returns and masks filled in, and how they were packed. Out: names and numbers
for the metrics of the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rl.advantages import adaptive_lambda, explained_variance
from rl.packing import Ints, Pack, Sample

STEP_BUCKETS = (1, 5, 17, 65)
"""Smallest number of actions of an episode of each length bucket."""


def actions(mask: Ints) -> int:
    """Actions of an episode: runs of action tokens in its mask [tokens]."""
    return int((np.diff(np.concatenate([[0], (np.asarray(mask) != 0).astype(np.int8)])) == 1).sum())


def bucket_name(count: int) -> str:
    """Name of the length bucket of an episode of `count` actions: `steps_5_16`, say."""
    at = sum(count >= start for start in STEP_BUCKETS) - 1
    last = at + 1 == len(STEP_BUCKETS)
    return f"steps_{STEP_BUCKETS[at]}_{'up' if last else STEP_BUCKETS[at + 1] - 1}"


def critic_quality(samples: Sequence[Sample]) -> dict[str, float]:
    """Explained variance over the batch, and by length bucket where returns vary; means of values and returns.

    A critic may explain the batch because it tells long episodes from short ones; the buckets show whether it tells
    good from bad among equals.
    """
    groups: dict[str, list[Sample]] = {}
    for one in samples:
        groups.setdefault(bucket_name(actions(one.action_mask)), []).append(one)
    stats = {
        "explained_variance": _explained(samples),
        "value_mean": float(np.mean([s.values[s.action_mask > 0].mean() for s in samples])),
        "return_mean": float(np.mean([s.returns[s.action_mask > 0].mean() for s in samples])),
    }
    for name, group in sorted(groups.items()):
        returns = np.concatenate([s.returns[s.action_mask > 0] for s in group])
        if returns.var() > 1e-12:
            stats[f"explained_variance_{name}"] = _explained(group)
    return stats


def terminal_signal(action_tokens: Sequence[int], *, gamma: float, alpha: float) -> dict[str, float]:
    """Share of the terminal error that reaches the first action token, (gamma lambda)^(n - 1): mean and smallest.

    For episodes of n action tokens with the actor's lambda, which follows from n. An episode whose share is near 0
    teaches its first actions nothing.
    """
    shares = [(gamma * adaptive_lambda(n, alpha)) ** (n - 1) for n in action_tokens]
    return {"terminal_signal": float(np.mean(shares)), "terminal_signal_min": float(min(shares))}


def packing_quality(packs: Sequence[Pack], budget: int, multiple: int = 1) -> dict[str, float]:
    """How well packs use what they cost: `pack_fill`, tokens over tokens that the budget allows (a pack of one long
    sequence may exceed 1), and `padding_waste`, the share of computed positions that hold no token: packs are filled
    up to a `multiple` of positions, which context and sequence parallelism ask for (`rl.context.multiple`)."""
    computed = sum(len(pack.tokens) + -len(pack.tokens) % multiple for pack in packs)
    held = sum(sum(pack.lengths) for pack in packs)
    return {
        "pack_fill": held / (len(packs) * budget) if packs else 0.0,
        "padding_waste": 1.0 - held / computed if computed else 0.0,
    }


def _explained(samples: Sequence[Sample]) -> float:
    return explained_variance(
        [s.values for s in samples], [s.returns for s in samples], [s.action_mask for s in samples]
    )
