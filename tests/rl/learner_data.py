"""A tiny learner, episodes made by hand, and what `test_learner.py` runs on several ranks:

python -m tests.rl.learner_data FOLDER    one PPO step; rank 0 writes FOLDER/result.json
python -m tests.rl.learner_data FOLDER all    the same with tensor parallel ranks, and everything switched on
python -m tests.rl.learner_data FOLDER interleaved    one PPO step with tensor parallel ranks, generating meanwhile
python -m tests.rl.learner_data FOLDER fail    rank 0 cannot write its first checkpoint
python -m tests.rl.learner_data FOLDER idle    rank 0 takes longer to say something than any operation may take
python -m tests.rl.learner_data FOLDER die    rank 0 is gone while the others wait for what it will say
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import distributed_c10d

from audit.errors import EctypeError
from rl import parallel
from rl.config import LearnConfig
from rl.episode import Episode
from rl.learner import Learner
from rl.packing import sample
from rl.tokenizers import ByteCodec

CODEC = ByteCodec()
EVERYTHING: dict[str, Any] = {
    "old_logprobs": "recomputed",
    "tis_cap": 1.5,
    "kl_coef": 0.1,
    "kl_coef_end": 0.0,
    "entropy_coef": 0.01,
    "value_bins": 31,
    "critic_freeze_attention": True,
    "critic_minibatches": 3,
    "truncated": "bootstrap",
    "lr_schedule": "cosine",
}
Turn = tuple[bytes, bytes]
"""An action, and the observation after it (none after the last)."""


def config(*, dp: int = 1, tp: int = 1, ppo: dict[str, Any] | None = None, **changes: Any) -> LearnConfig:
    told: dict[str, Any] = {
        "suite": "made-by-hand",
        "policy": {
            "shape": {"layers": 1, "hidden": 16, "heads": 2, "kv_heads": 2, "ffn": 32},
            "warm_start": {"episodes": 0},
            "threads": 1,
        },
        "rollout": {"context_tokens": 96, "max_new_tokens": 12},
        "ppo": {"critic_warmup_steps": 0, "lr_schedule": "constant", **(ppo or {})},
        "parallel": {"dp": dp, "tp": tp},
        "trainer": {"steps": 10},
    }
    return LearnConfig.model_validate(told | changes)


def staged(*, pp: int) -> LearnConfig:
    """A policy of two layers, on as many pipeline stages as there are."""
    policy = {"shape": {"layers": 2, "hidden": 16, "heads": 2, "kv_heads": 2, "ffn": 32}, "threads": 1}
    return config(policy=policy | {"warm_start": {"episodes": 0}}, parallel={"pp": pp})


def interleaved(*, tp: int) -> LearnConfig:
    """The asynchronous mode with the actor's own weights: it may generate between optimizer steps."""
    return config(tp=tp, rollout={"context_tokens": 96, "max_new_tokens": 12, "mode": "async"})


def episode(name: str, turns: list[Turn], reward: float | None, *, prompt: str = "go") -> Episode:
    made = Episode(
        id=name, suite="s", task="t", seed=0, tokens=[], action_mask=[], logprobs=[], versions=[], reward=reward
    )
    made.append(CODEC.prompt(prompt), sampled=False)
    for number, (action, observation) in enumerate(turns):
        tokens = CODEC.action(action)
        made.append(tokens, sampled=True, logprobs=[0.0] * len(tokens), version=0)
        if number + 1 < len(turns):
            made.append(CODEC.observation(observation, stopped=True), sampled=False)
    return made


def batch() -> list[Episode]:
    """Uneven lengths, one and several turns, both outcomes."""
    return [
        episode("a", [(b"x", b"seen"), (b"yes", b"")], 1.0),
        episode("b", [(b"no", b"")], 0.0),
        episode("c", [(b"long enough", b"a longer observation"), (b"y", b"ok"), (b"end", b"")], 1.0),
        episode("d", [(b"", b"?"), (b"zz", b"")], 0.0),
        episode("e", [(b"yes", b"")], 1.0, prompt="a longer prompt"),
    ]


def as_sampled(learner: Learner, episodes: list[Episode]) -> list[Episode]:
    """Record the log-probs that the learner's own policy gives, as a rollout would have."""
    from rl.packing import make_packs

    for one in episodes:
        (pack,) = make_packs([sample(one.tokens, one.action_mask)], 1024)
        (logprobs,) = learner.actor.logprobs([pack], temperature=learner._config.rollout.temperature)
        one.logprobs = logprobs.tolist()
    return episodes


def give_opinions(learner: Learner) -> None:
    """A critic starts at zero everywhere; give it values that differ from state to state."""
    if parallel.is_last_stage():
        torch.nn.init.normal_(learner.critic.value_head.weight, generator=torch.Generator().manual_seed(0))
    learner.critic.weights_written()


def one_step(learner: Learner, episodes: list[Episode]) -> dict[str, Any]:
    """What a PPO step says, and what the policy then samples. The third episode was cut."""
    episodes[2].status = "truncated"
    stats = learner.update(episodes, step=3)
    answers = learner.generate([CODEC.prompt("go")] * 3, [1, 2, 3])
    measured = {"update_s", "trained_tokens_per_s", "memory_peak_mib", "pack_fill"}
    same = {name: value for name, value in stats.items() if name not in measured}
    return same | {"tokens": [answer.tokens for answer in answers]}


def generate_meanwhile(learner: Learner, folder: Path) -> None:
    """Rank 0 between two optimizer steps; one line for each time."""
    answers = learner.generate([CODEC.prompt("go"), CODEC.prompt("stay")], [1, 2])
    with (folder / "meanwhile").open("a") as file:
        file.write(json.dumps([answer.tokens for answer in answers]) + "\n")


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2:]
    world = int(os.environ["WORLD_SIZE"])
    told = {
        "stages": lambda: staged(pp=world),
        "all": lambda: config(tp=world, ppo=EVERYTHING),
        "interleaved": lambda: interleaved(tp=world),
    }.get(how[0] if how else "", lambda: config(dp=world))()
    learner = Learner(told)
    give_opinions(learner)
    if how == ["idle"]:
        distributed_c10d._set_pg_timeout(timedelta(seconds=1))
    if learner.rank > 0:
        learner.follow()
    elif how == ["idle"]:
        time.sleep(3)
        learner.generate([CODEC.prompt("go")], [1])
        learner.release_followers()
    elif how == ["die"]:
        os._exit(3)
    elif how == ["fail"]:
        (folder / "checkpoints").write_text("in the way")
        _fail(folder)
    else:
        fixed = json.loads((folder / "logprobs.json").read_text())
        episodes = batch()
        for one, logprobs in zip(episodes, fixed, strict=True):
            one.logprobs = logprobs
        if learner.reference is not None:
            learner.load_reference(folder / "reference")
        if how == ["interleaved"]:
            learner.between = lambda: generate_meanwhile(learner, folder)
        (folder / "result.json").write_text(json.dumps(one_step(learner, episodes)))
        learner.release_followers()
    parallel.destroy()


def _fail(folder: Path) -> None:
    from rl.trainer import train

    try:
        train(config(dp=2), tasks=[], sessions=None, run_dir=folder, should_stop=lambda: False)  # type: ignore[arg-type]
    except EctypeError as error:
        print(error.what, flush=True)
        os._exit(2)


if __name__ == "__main__":
    main()
