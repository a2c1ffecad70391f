"""docs/training.md explains every number that a step writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rl.diagnostics import STEP_BUCKETS, bucket_name
from rl.learner import Learner
from rl.play import TIMES
from rl.replay import COUNTS
from rl.rollout import RolloutStats
from rl.stream import NUMBERS, staleness
from rl.trainer import summarise
from tests.rl.learner_data import as_sampled, batch, config

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_every_metric_is_explained(tmp_path: Path) -> None:
    explained = re.findall(r"^\| `([a-z_0-9]+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert len(set(explained)) == len(explained), "one is explained twice"
    ppo = {"old_logprobs": "recomputed", "tis_cap": 2.0, "kl_coef": 0.1, "value_clip": 0.2}
    learner = Learner(config(ppo=ppo, rollout={"context_tokens": 96, "max_new_tokens": 12, "mode": "async"}))
    episodes = as_sampled(learner, batch())
    written = {"total_episodes", "discarded", "wall_s", *summarise(episodes, RolloutStats())}
    written |= set(learner.update(episodes, step=0))
    written |= {f"judge_{name}" for name in (*COUNTS, "held", "wait_s")}
    written |= {*staleness(episodes, step=0), *NUMBERS, *TIMES, "stale_dropped"}
    buckets = {f"explained_variance_{bucket_name(start)}" for start in STEP_BUCKETS}
    assert written | buckets == set(explained)
