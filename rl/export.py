"""A policy out of a run: the actor of the newest checkpoint as a Hugging Face folder.

In: the learning config of a run and its checkpoints, written at any tensor-parallel layout. Out: a folder that
transformers loads, with the tokenizer of the model that the run started from. A byte-level policy has no tokenizer.
"""

from __future__ import annotations

from pathlib import Path

from audit.errors import EctypeError
from rl import checkpoint, hf, parallel
from rl.config import LearnConfig
from rl.learner import hf_folder, model_shape
from rl.models import MegatronModel


def export_policy(config: LearnConfig, checkpoints: Path, out: Path) -> Path:
    """Write the actor of the newest complete checkpoint to `out`; returns the checkpoint it came from."""
    newest = checkpoint.latest(checkpoints)
    if newest is None:
        raise EctypeError(
            "the run has no checkpoint yet",
            where=str(checkpoints),
            remedy="wait for its first checkpoint (`ectype status`), then export again",
        )
    parallel.init()
    actor = MegatronModel(model_shape(config.policy, config.rollout.context_tokens), initialize=False)
    checkpoint.load(newest, {"actor": actor})
    tokenizer = None if config.policy.kind == "tiny" else hf_folder(config.policy)
    hf.export(actor, out, tokenizer_from=tokenizer)
    return newest
