"""PPO with a critic, and normalisation by the group, where episodes have 3 to 200 steps and each task is played once.

`python -m benchmarks.lengths [--seeds 0 1] [--steps N] [--jobs N] [--quick] [--svg FILE] [--json]`. Both learn the task
of `benchmarks.lengths_task` with the product's tiny Megatron policy, from the same start, with the same optimizer,
clipped loss, passes and batches of episodes. The critic's arm is `rl.learner.Learner` as it is. The other arm's
advantage is (R - mean) / std over the rewards of the batch, for every action token of an episode: the batch is the
group, because no task is played twice. Its loss is a mean over tokens (DAPO) or over episodes (GRPO), its learning rate
is swept, and it is judged by the best of these. A control shows that it learns where tasks are equally hard and short.

With `--json` the last line is one JSON object. `critic_success`: share of right answers at the end of the critic's arm,
of its worst seed; `grpo_success`: of the other arm, best setting, best seed; `grpo_control_success`: of the control,
worst seed (0.25 is chance); `grpo_equal_success` and `grpo_short_success`: what it makes, on the first seed, of tasks
that are equally hard but as long, and of tasks that are short but unequally hard; `grpo_sweep`: every setting, on the
first seed. `--svg` draws the first three.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.lengths_task import Player, World, demonstrations
from jobs.curves import Curve, curves_svg
from rl.config import LearnConfig, WarmStart
from rl.episode import Episode
from rl.learner import Learner
from rl.packing import sample

Loss = Literal["tokens", "episodes"]
Row = dict[str, float]
MIXED, EASY = World(), World(longest=10, levels=1)
EQUAL, SHORT = World(levels=1), World(longest=10)
EPISODES_PER_STEP = 32
CRITIC_ACTOR_LR = 3e-3
SWEEP: tuple[tuple[Loss, float], ...] = (
    ("tokens", 1e-3),
    ("tokens", 3e-3),
    ("tokens", 1e-2),
    ("episodes", 1e-3),
    ("episodes", 3e-3),
    ("episodes", 1e-2),
)
LINES = (("c-solved", ""), ("c-reward", "7 4"), ("c-paid", "2 4"))


class GroupLearner(Learner):
    """The baseline: no critic, advantages from the rewards of the batch."""

    def __init__(self, config: LearnConfig, loss: Loss) -> None:
        super().__init__(config)
        self._mean_over = loss

    def update(self, episodes: Sequence[Episode], *, step: int) -> dict[str, float]:
        ppo = self._config.ppo
        rewards = np.array([e.reward for e in episodes], np.float64)
        scores = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        samples = [sample(e.tokens, e.action_mask, logprobs=e.logprobs) for e in episodes]
        mean_length = np.mean([s.action_mask.sum() for s in samples])
        for one, score in zip(samples, scores, strict=True):
            weight = mean_length / one.action_mask.sum() if self._mean_over == "episodes" else 1.0
            one.advantages = (score * weight * one.action_mask).astype(np.float32)
        loss = partial(self._actor_loss, entropy_coef=ppo.entropy_coef, kl_coef=0.0)
        return self._passes(self.actor, samples, ppo.epochs, ppo.minibatches, loss, step)


def settings(world: World, actor_lr: float, *, seed: int, steps: int) -> LearnConfig:
    return LearnConfig.model_validate(
        {
            "seed": seed,
            "suite": "lengths",
            "policy": {
                "shape": {"layers": 1, "hidden": 32, "heads": 2, "kv_heads": 2, "ffn": 64},
                "threads": 1,
            },
            "rollout": {"context_tokens": world.context_tokens},
            "ppo": {
                "actor_lr": actor_lr,
                "critic_lr": 3e-3,
                "lr_schedule": "constant",
                "critic_epochs": 4,
                "critic_warmup_steps": 3,
                "critic_warmup_epochs": 12,
                "target_kl": 0.0,
                "batch_tokens": 4096,
            },
            "trainer": {"steps": steps},
        }
    )


def train(
    world: World, *, seed: int, steps: int, actor_lr: float = CRITIC_ACTOR_LR, group: Loss | None = None
) -> list[Row]:
    """Learn from nothing but the alphabet; per step the share of right answers and the mean reward of its episodes.

    `group` None: the critic's arm.
    """
    config = settings(world, actor_lr, seed=seed, steps=steps)
    learner = Learner(config) if group is None else GroupLearner(config, group)
    player = Player(learner.actor)
    rng, sampler = random.Random(seed), torch.Generator().manual_seed(seed)
    warm = WarmStart(episodes=300, batch_tokens=1024, epochs=4, learning_rate=5e-3)
    learner.imitate(demonstrations(world, random.Random(f"{seed}:warm"), warm.episodes), warm)
    learner.start_critic()
    rows = []
    for step in range(steps):
        episodes, shares = player.play(world, world.draw(rng, EPISODES_PER_STEP), sampler)
        learner.update(episodes, step=step)
        rewards = [e.reward or 0.0 for e in episodes]
        rows.append({"right": float(np.mean(shares)), "reward": float(np.mean(rewards)), "episodes": len(episodes)})
    return rows


def success(rows: Sequence[Row]) -> float:
    """Share of right answers over the last tenth of the steps."""
    last = max(1, len(rows) // 10)
    return float(np.mean([row["right"] for row in rows[-last:]]))


def picture(arms: dict[str, list[list[Row]]], seeds: Sequence[int]) -> str:
    """One panel per arm, one line per seed."""
    curves = [
        Curve(f"seed {seed}", f"seed {seed}", css, dashes) for seed, (css, dashes) in zip(seeds, LINES, strict=False)
    ]
    panels = {
        name: [
            {"episodes": step[0]["episodes"]} | {c.key: row["right"] for c, row in zip(curves, step, strict=False)}
            for step in zip(*runs, strict=True)
        ]
        for name, runs in arms.items()
    }
    return curves_svg(panels, title="Share of right answers, episodes of mixed lengths played once", curves=curves)


def _say(name: str, done: Future[list[Row]]) -> None:
    if not done.cancelled() and done.exception() is None:
        print(f"{name:40} {success(done.result()):6.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one thread each")
    parser.add_argument("--quick", action="store_true", help="a few steps: does it run")
    parser.add_argument("--svg", type=Path, help="draw the curves into this file")
    parser.add_argument("--json", action="store_true", help="only the JSON line, without each run")
    options = parser.parse_args()
    seeds, steps, sweep = options.seeds, options.steps, SWEEP
    if options.quick:
        seeds, steps, sweep = seeds[:1], 5, SWEEP[:1]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:

        def run(name: str, world: World, seed: int, **how: Any) -> Future[list[Row]]:
            told = pool.submit(train, world, seed=seed, steps=steps, **how)
            if not options.json:
                told.add_done_callback(lambda done: _say(f"{name}, seed {seed}", done))
            return told

        learning = [run("critic", MIXED, seed) for seed in seeds]
        trying = {
            (loss, lr): run(f"group, mean over {loss}, {lr:g}", MIXED, seeds[0], actor_lr=lr, group=loss)
            for loss, lr in sweep
        }
        controlling = [run("control", EASY, seed, group="tokens") for seed in seeds]
        tried = {setting: told.result() for setting, told in trying.items()}
        best = max(tried, key=lambda setting: success(tried[setting]))
        others = [run("group, best setting", MIXED, seed, actor_lr=best[1], group=best[0]) for seed in seeds[1:]]
        equal = run("group, equally hard", EQUAL, seeds[0], actor_lr=best[1], group=best[0])
        short = run("group, short", SHORT, seeds[0], actor_lr=best[1], group=best[0])
        group = [tried[best], *(told.result() for told in others)]
        critic, control = ([told.result() for told in told_all] for told_all in (learning, controlling))
    figures = {
        "critic_success": min(map(success, critic)),
        "grpo_success": max(map(success, group)),
        "grpo_control_success": min(map(success, control)),
        "grpo_equal_success": success(equal.result()),
        "grpo_short_success": success(short.result()),
    }
    rounded = {name: round(figure, 3) for name, figure in figures.items()}
    if options.svg:
        arms = {"PPO with a critic": critic, "Group normalisation": group, "Its control: equal, short tasks": control}
        options.svg.write_text(picture(arms, seeds) + "\n")
    print(
        json.dumps(
            rounded
            | {
                "grpo_best": f"mean over {best[0]}, {best[1]:g}",
                "grpo_sweep": {f"{loss} {lr:g}": round(success(rows), 3) for (loss, lr), rows in tried.items()},
                "episodes": steps * EPISODES_PER_STEP,
                "seeds": seeds,
            }
        )
    )


if __name__ == "__main__":
    main()
