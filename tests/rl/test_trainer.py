"""The training loop in real sandboxes: stopped and resumed it does what it would have done at one go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import torch

from audit.errors import EctypeError
from audit.metrics import read_metrics
from queues.messages import ResultReply
from rl import checkpoint
from rl.config import LearnConfig
from rl.episode import Episode
from rl.learner import Learner
from rl.rollout import SandboxUnavailable
from rl.trainer import ATTEMPTS, TrainerState, _train
from sandbox.session import Services
from tests.rl.learner_data import config, give_opinions
from tests.rl.test_rollout import Handle, InProcess, task_of
from tests.sandbox.small_tasks import REVERSE, services

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
TIMES = {"time", "wall_s", "rollout_s", "generate_s", "generated_tokens_per_s", "commands_per_s", "command_mean_s"}
TIMES |= {"update_s", "trained_tokens_per_s", "memory_peak_mib"}


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Services]:
    async with services(tmp_path / "audit", size=2) as made:
        yield made


def small(steps: int, *, every: int = 1) -> LearnConfig:
    """Contexts are generated for one by one: which of them meet in a batch depends on time, and the last bits on it."""
    return config(
        rollout={
            "context_tokens": 64,
            "max_new_tokens": 8,
            "episodes_per_step": 4,
            "max_steps": 2,
            "generate_batch": 1,
        },
        ppo={"critic_warmup_steps": 1, "lr_schedule": "constant"},
        trainer={"steps": steps, "checkpoint_every": every, "tensorboard": True},
    )


async def train(run: Path, told: LearnConfig, sessions: InProcess, stop: Callable[[], bool] = lambda: False) -> Learner:
    learner = Learner(told)
    give_opinions(learner)  # nothing that is not trained solves a task: without them there is nothing to learn
    await _train(told, learner, [task_of(REVERSE)], sessions, run, stop, None)
    return learner


def numbers(run: Path) -> list[dict[str, float]]:
    rows = read_metrics(run / "metrics" / "trainer.jsonl")
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    models = {"actor": learner.actor, "critic": learner.critic}
    return {f"{n} {key}": p.detach() for n, model in models.items() for key, p in model.gpt.named_parameters()}


async def test_resumed_it_does_what_it_would_have_done_at_one_go(parts: Services, tmp_path: Path) -> None:
    sessions = InProcess(parts)
    whole = await train(tmp_path / "whole", small(4), sessions)
    assert [row["step"] for row in numbers(tmp_path / "whole")] == [1, 2, 3, 4]
    assert any((tmp_path / "whole" / "metrics" / "tensorboard").iterdir())

    run = tmp_path / "broken"
    await train(run, small(2), sessions)
    answers = iter([False])  # killed after the third step, which was written down but is in no checkpoint
    with pytest.raises(RuntimeError, match="StopIteration"):
        await train(run, small(4, every=2), sessions, lambda: next(answers))
    assert [row["step"] for row in numbers(run)] == [1, 2, 3]
    found = checkpoint.latest(run / "checkpoints")
    assert found is not None and found.name == "step-000002"

    resumed, fresh = await train(run, small(4), sessions), Learner(small(4))
    assert numbers(run) == numbers(tmp_path / "whole")
    for name, value in weights(resumed).items():
        assert torch.equal(value, weights(whole)[name]), name
        assert not torch.equal(value, weights(fresh)[name]), name
    for file in sorted((run / "episodes").iterdir()):
        ours, theirs = (
            msgspec.msgpack.decode((folder / "episodes" / file.name).read_bytes(), type=list[Episode])
            for folder in (run, tmp_path / "whole")
        )
        assert [e.tokens for e in ours] == [e.tokens for e in theirs]
    assert len({e.seed for e in ours}) == 4, "every episode has a seed of its own"
    assert sessions.open_sessions == 0


async def test_asked_to_stop_it_saves_the_step_it_has_done(parts: Services, tmp_path: Path) -> None:
    answers = iter([False, True])
    told = small(9, every=5)
    learner = Learner(told)
    done = await _train(
        told, learner, [task_of(REVERSE)], InProcess(parts), tmp_path / "run", lambda: next(answers), None
    )
    assert not done
    found = checkpoint.latest(tmp_path / "run" / "checkpoints")
    assert found is not None and found.name == "step-000001"
    state = msgspec.msgpack.decode((found / "extra").read_bytes(), type=TrainerState)
    assert (state.step, state.episodes, state.discarded) == (1, 4, 0)


class Preempted(InProcess):
    """Loses the sandboxes of the first `losses` episodes when they are to be graded."""

    def __init__(self, parts: Services, losses: int) -> None:
        super().__init__(parts)
        self.losses = losses

    async def open(self, episode: str, suite: str, task: str, *, max_tests: int, oracle_calls: int) -> Handle:
        handle = await super().open(episode, suite, task, max_tests=max_tests, oracle_calls=oracle_calls)
        return _Preempted(handle.session, self)


class _Preempted(Handle):
    owner: Preempted

    async def result(self) -> ResultReply:
        if self.owner.losses:
            self.owner.losses -= 1
            raise SandboxUnavailable("preempted")
        return await super().result()


async def test_lost_episodes_are_counted_and_never_learned_from(parts: Services, tmp_path: Path) -> None:
    await train(tmp_path / "run", small(1), Preempted(parts, losses=3))
    (row,) = numbers(tmp_path / "run")
    assert (row["episodes"], row["total_episodes"], row["discarded"]) == (1, 1, 3)


async def test_a_step_that_lost_everything_is_played_again_but_not_for_ever(parts: Services, tmp_path: Path) -> None:
    await train(tmp_path / "run", small(1), Preempted(parts, losses=4))
    (row,) = numbers(tmp_path / "run")
    assert (row["step"], row["episodes"], row["discarded"]) == (1, 4, 4)
    with pytest.raises(EctypeError, match=f"all 4 episodes lost their sandbox, {ATTEMPTS} times"):
        await train(tmp_path / "other", small(1), Preempted(parts, losses=99))
