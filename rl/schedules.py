"""What changes from step to step of a run, as pure functions of the step: learning rates, coefficients, passes.

In: the number of the PPO step, counted from 0, and the plan. Out: a factor, a coefficient or a number of passes.
Nothing here holds state, so that a resumed run is where it would have been.
"""

from __future__ import annotations

import math
from typing import Literal

Kind = Literal["constant", "linear", "cosine"]


def learning_rate_factor(step: int, *, total: int, kind: Kind, warmup: int = 0, floor: float = 0.0) -> float:
    """What both learning rates are multiplied by in `step` of `total`.

    The first `warmup` steps climb: (step + 1) / (warmup + 1), so that the first step already learns. Then, with
    x = (step - warmup) / (total - warmup) from 0 to 1: `linear` is 1 - (1 - floor) x, `cosine` is
    floor + (1 - floor) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017), `constant` is 1. Beyond `total` it stays at
    its end.
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if kind == "constant":
        return 1.0
    x = min(1.0, (step - warmup) / max(total - warmup, 1))
    if kind == "linear":
        return 1.0 - (1.0 - floor) * x
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * x))


def coefficient(step: int, *, total: int, start: float, end: float | None) -> float:
    """A weight of the loss that goes in a straight line from `start` at step 0 to `end` at the last step.

    `end` None: it stays at `start`.
    """
    if end is None or total <= 1:
        return start
    return start + (end - start) * min(1.0, step / (total - 1))


def actor_learns(step: int, *, critic_warmup_steps: int) -> bool:
    """Whether the actor moves in `step`: not before the critic's values are worth something (VC-PPO)."""
    return step >= critic_warmup_steps


def critic_passes(step: int, *, epochs: int, critic_warmup_steps: int, warmup_epochs: int | None) -> int:
    """Passes of the critic over the batch of `step`; during its warm-up `warmup_epochs`, when that is given."""
    return warmup_epochs if warmup_epochs is not None and step < critic_warmup_steps else epochs
