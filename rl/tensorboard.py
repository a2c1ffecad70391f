"""The metrics of a run as TensorBoard sees them, beside the file that everything else reads.

In: the numbers of a step. Out: event files under `metrics/tensorboard`. `tensorboard --logdir RUN/metrics` shows them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from audit.errors import EctypeError

CRITIC = ("explained_variance", "value_", "return_", "critic_")
ACTOR = (
    "policy_loss", "kl", "ratio", "outside", "clipped", "entropy", "ref_kl", "actor_", "advantage_", "terminal_signal",
    "logprob_difference", "rollout_kl", "rollout_outside", "tis_",
)  # fmt: skip
STALENESS = (
    "staleness", "stale_dropped", "spanning", "overtaken", "in_flight", "ended_waiting", "restarted",
)  # fmt: skip
SPEED = (
    "wall_s",
    "rollout_s",
    "generate_s",
    "update_s",
    "command",
    "generated_tokens",
    "trained_tokens",
    "memory_",
    "batch_wait_s",
    "generate_idle",
    "learn_idle",
)


class Board:
    """Writes to `folder`; what an earlier attempt wrote of steps after `resumed_step` is hidden.

    Raises `EctypeError` when tensorboard is not installed.
    """

    def __init__(self, folder: Path, *, resumed_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise EctypeError(
                f"TensorBoard is asked for and cannot be loaded: {error}",
                where="trainer.tensorboard",
                remedy="pip install 'ectype[tensorboard]', or set trainer.tensorboard to false",
            ) from error
        self._writer = SummaryWriter(str(folder), purge_step=resumed_step + 1)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            if math.isfinite(value):
                self._writer.add_scalar(f"{_section(name)}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _section(name: str) -> str:
    for section, beginnings in (("critic", CRITIC), ("actor", ACTOR), ("staleness", STALENESS), ("speed", SPEED)):
        if name.startswith(beginnings):
            return section
    return "episodes"
