"""How fast a PPO update learns from episodes of very uneven lengths, and in how much memory, beside TRL's.

`python -m benchmarks.ppo [--rounds N] [--quick] [--no-peer] [--json]`. One batch of episodes of 3 to 200 steps
(log-uniform; each step some action tokens and an observation) is learnt from by `rl.learner.Learner.update`, and by
TRL's PPOTrainer (`benchmarks.ppo_trl`) in an environment of its own under the cache: the same Llama-type actor and
critic in fp32, the same epochs and minibatches, as many tokens in a micro-batch on average, the same threads. Each run
is a process of its own; the sides take turns. Ours is the whole update (values, advantages, critic, actor), TRL's its
inner update alone, for which values, log-probs and advantages are there.

With `--json` the last line is one JSON object:
`tokens_ratio_vs_trl`: trained tokens per second, ours over TRL's (a token of an episode counts once per epoch, padding
never), and `tokens_ratio_vs_trl_cpu` the same by processor time, which other load on the machine does not change;
`memory_ratio_vs_trl`: peak resident memory during the update beyond what the process held after its imports,
ours over TRL's; `memory_spread`: how far apart our peaks are, (largest - smallest) / smallest, over batches of equally
many tokens: all episodes alike, one huge among many tiny, log-uniform; `padding_waste`: share of the positions that
went through the layers which held no token of an episode, counted at the layers, over all of our runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import environment

REPO = Path(__file__).resolve().parents[1]
TORCH, TRL = "torch==2.13.0", "trl==1.12.0"
SHAPE = {"layers": 2, "hidden": 96, "heads": 2, "kv_heads": 2, "ffn": 256}
ACTION_TOKENS, OBSERVATION_TOKENS, PROMPT_TOKENS = 4, 4, 8
STEP_TOKENS = ACTION_TOKENS + OBSERVATION_TOKENS
SHORTEST, LONGEST = 3, 200
MICRO_BATCH = 8
"""Episodes in a micro-batch of TRL (the default of its arguments); our packs hold as many tokens on average."""


def log_uniform(count: int) -> list[int]:
    """Steps of `count` episodes, evenly spread on a logarithmic scale, both ends included."""
    return [round(SHORTEST * (LONGEST / SHORTEST) ** (i / (count - 1))) for i in range(count)]


def tokens_of(steps: Sequence[int]) -> int:
    return sum(PROMPT_TOKENS + n * STEP_TOKENS for n in steps)


def skews(count: int) -> dict[str, list[int]]:
    """Batches of exactly as many tokens as the log-uniform one of `count` episodes: steps of each episode."""
    spread = log_uniform(count)
    units = tokens_of(spread) // STEP_TOKENS  # a prompt is as long as a step
    alike = [units // count - 1] * count
    for i in range(units - sum(alike) - count):
        alike[i] += 1
    tiny = (units - LONGEST - 1) // (SHORTEST + 1)
    huge = [LONGEST, *[SHORTEST] * tiny]
    huge[-1] += units - sum(huge) - len(huge)
    return {"alike": alike, "one huge": huge, "log-uniform": spread}


def write_batch(path: Path, steps: Sequence[int], *, micro_batch_tokens: int, epochs: int, minibatches: int) -> Path:
    """What both sides are given. Token ids are random: neither side's work depends on them."""
    from rl.tokenizers import ByteCodec

    rng = random.Random(0)
    lengths = [PROMPT_TOKENS + n * STEP_TOKENS for n in steps]
    given = {
        "episodes": [[rng.randrange(256) for _ in range(length)] for length in lengths],
        "prompt": PROMPT_TOKENS,
        "shape": SHAPE | {"vocab": ByteCodec.vocab},
        "context": max(lengths),
        "micro_batch": MICRO_BATCH,
        "micro_batch_tokens": max(micro_batch_tokens, *lengths),
        "epochs": epochs,
        "minibatches": minibatches,
        "threads": 1,
    }
    path.write_text(json.dumps(given))
    return path


def learn(given: dict[str, Any]) -> dict[str, Any]:
    """Our side: one update of the product's learner."""
    import torch
    from megatron.core.transformer.mlp import MLP

    from benchmarks import resident
    from rl.config import LearnConfig
    from rl.episode import Episode
    from rl.learner import Learner

    baseline = resident.now_mib()
    shape = {name: size for name, size in given["shape"].items() if name != "vocab"}
    config = LearnConfig.model_validate(
        {
            "suite": "made-by-hand",
            "policy": {"shape": shape, "warm_start": {"episodes": 0}, "threads": given["threads"]},
            "rollout": {"context_tokens": given["context"]},
            "ppo": {
                "epochs": given["epochs"],
                "minibatches": given["minibatches"],
                "critic_epochs": given["epochs"],
                "critic_warmup_steps": 0,
                "target_kl": 0,
                "value_clip": 0.2,
                "batch_tokens": given["micro_batch_tokens"],
            },
        }
    )
    learner = Learner(config)
    rng = random.Random(1)
    step_mask = [1] * ACTION_TOKENS + [0] * OBSERVATION_TOKENS
    episodes = []
    for number, tokens in enumerate(given["episodes"]):
        mask = [0] * given["prompt"] + step_mask * ((len(tokens) - given["prompt"]) // STEP_TOKENS)
        episodes.append(
            Episode(
                id=str(number),
                suite="made-by-hand",
                task="t",
                seed=0,
                tokens=tokens,
                action_mask=mask,
                logprobs=[-5.5 * one for one in mask],
                versions=[one - 1 for one in mask],
                status="done",
                reward=float(rng.random() < 0.5),
            )
        )
    positions = 0

    def count(_module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        nonlocal positions
        positions += inputs[0].shape[0] * inputs[0].shape[1]

    for model in (learner.actor, learner.critic):
        first = next(module for module in model.gpt.modules() if isinstance(module, MLP))
        first.register_forward_pre_hook(count)
    resident.reset_peak()
    started, cpu_started = time.perf_counter(), time.process_time()
    stats = learner.update(episodes, step=0)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    passes = 2 * given["epochs"] + 1  # critic, actor, and the values before both
    held = passes * sum(map(len, given["episodes"]))
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mib": resident.peak_mib(),
        "baseline_mib": baseline,
        "positions": positions,
        "padding_waste": 1 - held / positions,
        "parameters": sum(p.numel() for p in learner.actor.gpt.parameters()),
        "critic_parameters": sum(p.numel() for p in learner.critic.gpt.parameters()),
        "finite": stats["actor_skipped"] == stats["critic_skipped"] == 0,
    }


def run(python: Path | str, module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that a side prints last, and `memory_mib`: its peak beyond its imports."""
    told = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO), "PYTHONWARNINGS": "ignore"}
    told |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run(
        [str(python), "-m", module, *arguments], cwd=REPO, env=told, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{module} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not found["finite"]:
        raise SystemExit(f"{module}: the update was not finite, nothing was measured")
    return found | {"memory_mib": found["peak_mib"] - found["baseline_mib"]}


def compare(count: int, rounds: int, *, peer: bool, epochs: int = 2, minibatches: int = 2) -> dict[str, float]:
    """All figures. `count` episodes in the batch, a multiple of `MICRO_BATCH * minibatches`."""
    budget = tokens_of(log_uniform(count)) * MICRO_BATCH // count
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in (*skews(count), "trl")}
    with tempfile.TemporaryDirectory() as folder:
        files = {
            name: write_batch(
                Path(folder) / f"{number}.json",
                steps,
                micro_batch_tokens=budget,
                epochs=epochs,
                minibatches=minibatches,
            )
            for number, (name, steps) in enumerate(skews(count).items())
        }
        for _ in range(rounds):
            for name, path in files.items():
                runs[name].append(run(sys.executable, "benchmarks.ppo", "--learn", str(path)))
            if peer:
                python = environment("trl", TORCH, TRL) / "python"
                runs["trl"].append(run(python, "benchmarks.ppo_trl", str(files["log-uniform"])))
    memory = {name: statistics.median(r["memory_mib"] for r in found) for name, found in runs.items() if found}
    ours, trl = runs["log-uniform"], runs["trl"]
    tokens = epochs * tokens_of(log_uniform(count))
    own = [memory[name] for name in files]
    figures = {
        "memory_spread": max(own) / min(own) - 1,
        "padding_waste": max(r["padding_waste"] for name in files for r in runs[name]),
        "tokens_per_s": tokens / statistics.median(r["seconds"] for r in ours),
        **{f"memory_mib_{name.replace(' ', '_').replace('-', '_')}": mib for name, mib in memory.items()},
        "parameters": ours[0]["parameters"],
        "critic_parameters": ours[0]["critic_parameters"],
    }
    if trl:
        seconds, cpu_seconds = (
            {name: statistics.median(r[clock] for r in runs[name]) for name in ("log-uniform", "trl")}
            for clock in ("seconds", "cpu_seconds")
        )
        figures = {
            "tokens_ratio_vs_trl": seconds["trl"] / seconds["log-uniform"],
            "memory_ratio_vs_trl": memory["log-uniform"] / memory["trl"],
            **figures,
            "tokens_ratio_vs_trl_cpu": cpu_seconds["trl"] / cpu_seconds["log-uniform"],
            "trl_tokens_per_s": tokens / seconds["trl"],
            "trl_padding_waste": 1 - tokens / trl[0]["positions"],
            "trl_parameters": trl[0]["parameters"],
            "trl_critic_parameters": trl[0]["critic_parameters"],
        }
    return {name: round(figure, 4) for name, figure in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="16 episodes, one round: does it run")
    parser.add_argument("--no-peer", action="store_true", help="leave TRL out")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--learn", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.learn:
        print(json.dumps(learn(json.loads(Path(options.learn).read_text()))))
        return
    count, rounds = (16, 1) if options.quick else (32, options.rounds)
    figures = compare(count, rounds, peer=not options.no_peer)
    if not options.json:
        for name, figure in figures.items():
            print(f"{name:28} {figure:12,.3f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
