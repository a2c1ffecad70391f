"""The benchmarks of training run, and say what they promise to say."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.errors import EctypeError
from benchmarks.lengths import MIXED, GroupLearner, settings, success
from benchmarks.lengths_task import ANSWERS, RIGHT, Player, Task, World, demonstrations
from benchmarks.peers import environment
from benchmarks.ppo import LONGEST, SHORTEST, TORCH, TRL, log_uniform, skews, tokens_of
from rl.learner import Learner
from rl.packing import make_packs, sample

pytestmark = pytest.mark.megatron
ROOT = Path(__file__).parents[2]


def last_line(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, "--quick", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("count", [16, 32])
def test_skews_hold_equally_many_tokens(count: int) -> None:
    batches = skews(count)
    assert {tokens_of(steps) for steps in batches.values()} == {tokens_of(log_uniform(count))}
    assert all(SHORTEST <= n <= LONGEST for steps in batches.values() for n in steps)
    assert max(batches["alike"]) - min(batches["alike"]) <= 1
    assert max(batches["one huge"]) == LONGEST and sorted(batches["one huge"])[-2] < 3 * SHORTEST


def test_ppo_memory_and_padding() -> None:
    found = last_line("benchmarks.ppo", "--no-peer")
    assert found["padding_waste"] == 0
    assert found["tokens_per_s"] > 0
    assert 0 <= found["memory_spread"] < 0.3, "one round: the operating system's noise is in it"


@pytest.mark.slow
def test_ppo_beside_trl() -> None:
    try:
        environment("trl", TORCH, TRL)
    except EctypeError as error:
        pytest.skip(str(error))
    found = last_line("benchmarks.ppo")
    assert list(found)[:4] == ["tokens_ratio_vs_trl", "memory_ratio_vs_trl", "memory_spread", "padding_waste"]
    assert found["trl_padding_waste"] > 0.5, "it pads to the longest"
    assert found["trl_parameters"] == found["parameters"]
    assert abs(found["trl_critic_parameters"] - found["critic_parameters"]) <= 1, "the bias of the value"
    assert found["tokens_ratio_vs_trl"] > 1 and 0 < found["memory_ratio_vs_trl"] < 1


def test_tasks_have_3_to_200_steps_and_a_reward_of_skill_and_difficulty() -> None:
    tasks = MIXED.draw(random.Random(0), 2000)
    lengths = [len(task.letters) for task in tasks]
    assert min(lengths) == 3 and 190 < max(lengths) <= 200
    assert 0.4 < sum(n < 24 for n in lengths) / len(lengths) < 0.6, "log-uniform: half are below the geometric mean"
    task = Task(level=2, letters=b"abca")
    right = [RIGHT[letter] for letter in task.letters]
    wrong = [next(a for a in ANSWERS if a != one) for one in right]
    assert MIXED.reward(task, right) == pytest.approx(0.8 * 0.5 + 0.2)
    assert MIXED.reward(task, wrong) == pytest.approx(0.8 * 0.5)
    assert MIXED.reward(task, [*right[:3], wrong[3]]) == pytest.approx(0.8 * 0.5 + 0.2 * 0.75)


@pytest.mark.usefixtures("one_rank")
def test_what_is_played_has_the_log_probs_that_training_gives() -> None:
    world = World(longest=12)
    learner = Learner(settings(world, 1e-3, seed=0, steps=1))
    tasks = world.draw(random.Random(0), 6)
    episodes, shares = Player(learner.actor).play(world, tasks, torch.Generator().manual_seed(0))
    assert sorted(sum(e.action_mask) for e in episodes) == sorted(len(task.letters) for task in tasks)
    assert all(e.status == "done" and e.reward is not None for e in episodes) and len(shares) == len(tasks)
    for episode in episodes:
        (pack,) = make_packs([sample(episode.tokens, episode.action_mask)], 1024)
        (logprobs,) = learner.actor.logprobs([pack])
        assert logprobs.tolist() == pytest.approx(episode.logprobs, abs=1e-4)


@pytest.mark.usefixtures("one_rank")
def test_the_baseline_moves_the_actor_alone_and_towards_what_was_rewarded() -> None:
    world = World(longest=6, levels=1)
    learner = GroupLearner(settings(world, 1e-2, seed=0, steps=1), "tokens")
    episodes = demonstrations(world, random.Random(0), 8)
    for number, episode in enumerate(episodes):
        episode.reward = float(number % 2)

    def logprob(rewarded: int) -> float:
        packs = make_packs([sample(e.tokens, e.action_mask) for e in episodes[rewarded::2]], 1024)
        return sum(float(found.sum()) for found in learner.actor.logprobs(packs))

    for one in episodes:
        (pack,) = make_packs([sample(one.tokens, one.action_mask)], 1024)
        one.logprobs = learner.actor.logprobs([pack])[0].tolist()
    before = logprob(1) - logprob(0)
    critic = [p.clone() for p in learner.critic.gpt.parameters()]
    learner.update(episodes, step=5)
    assert logprob(1) - logprob(0) > before
    assert all(torch.equal(a, b) for a, b in zip(critic, learner.critic.gpt.parameters(), strict=True))


def test_lengths_says_how_both_arms_did() -> None:
    found = last_line("benchmarks.lengths")
    for arm in ("critic", "grpo", "grpo_control", "grpo_equal", "grpo_short"):
        assert 0 <= found[f"{arm}_success"] <= 1
    assert found["episodes"] == 5 * 32 and len(found["grpo_sweep"]) == 1
    assert success([{"right": 0.0}] * 9 + [{"right": 1.0}]) == 1.0
