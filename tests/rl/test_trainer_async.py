"""The training loop that plays while it learns, in real sandboxes: bounds, checkpoints, and who uses the weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from audit.metrics import read_metrics
from queues.messages import Reviewed, ReviewEpisode
from rl import checkpoint
from rl.config import LearnConfig, ReviewPolicy
from rl.episode import Episode
from rl.learner import Learner
from rl.trainer import Review, TrainerState, _train
from sandbox.session import Services
from tests.rl.learner_data import config, give_opinions
from tests.rl.test_rollout import InProcess, task_of
from tests.rl.test_trainer import Preempted
from tests.sandbox.small_tasks import REVERSE, services

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
SIZE, BOUND = 4, 2


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Services]:
    async with services(tmp_path / "audit", size=2) as made:
        yield made


def overlapped(steps: int, **rollout) -> LearnConfig:
    told = {"context_tokens": 128, "max_new_tokens": 8, "max_steps": 3, "episodes_per_step": SIZE}
    return config(
        rollout=told | {"mode": "async", "max_staleness": BOUND, "in_flight": 2 * SIZE} | rollout,
        ppo={"critic_warmup_steps": 1, "minibatches": 2, "epochs": 2},
        trainer={"steps": steps, "checkpoint_every": 3, "tensorboard": True},
    )


async def train(
    run: Path,
    told: LearnConfig,
    sessions: InProcess,
    *,
    stop: Callable[[], bool] = lambda: False,
    review: Review | None = None,
) -> list[list[Episode]]:
    """What was learnt from in each step."""
    learner = Learner(told)
    give_opinions(learner)
    learnt: list[list[Episode]] = []
    update = learner.update

    def watched(episodes, *, step: int) -> dict[str, float]:
        learnt.append(list(episodes))
        return update(episodes, step=step)

    learner.update = watched  # type: ignore[method-assign]
    await _train(told, learner, [task_of(REVERSE)], sessions, run, stop, None, review)
    assert sessions.open_sessions == 0
    return learnt


def rows(run: Path) -> list[dict[str, float]]:
    return read_metrics(run / "metrics" / "trainer.jsonl")


def saved(run: Path) -> TrainerState:
    found = checkpoint.latest(run / "checkpoints")
    assert found is not None
    return msgspec.msgpack.decode((found / "extra").read_bytes(), type=TrainerState)


def names(first: int, last: int) -> set[str]:
    """Episodes by their number in the order of starts."""
    return {f"{n // SIZE + 1:06d}-{n % SIZE:04d}" for n in range(first, last)}


async def test_every_episode_is_learnt_from_once_and_within_the_bound(parts: Services, tmp_path: Path) -> None:
    steps, run = 8, tmp_path / "run"
    learnt = await train(run, overlapped(steps), InProcess(parts))
    assert [len(batch) for batch in learnt] == [SIZE] * steps
    every = [e.id for batch in learnt for e in batch]
    assert len(every) == len(set(every)) and set(every) == names(0, steps * SIZE)
    assert len({e.seed for batch in learnt for e in batch}) == steps * SIZE
    for step, (batch, row) in enumerate(zip(learnt, rows(run), strict=True)):
        versions = [v for e in batch for v in e.versions if v >= 0]
        assert max(versions) <= step and step - min(versions) <= BOUND
        assert row["staleness_max"] == step - min(versions)
        assert row["staleness"] == pytest.approx(sum(step - v for v in versions) / len(versions))
        for e in batch:
            assert all((v >= 0) == bool(m) for v, m in zip(e.versions, e.action_mask, strict=True))
            for turn in e.steps:
                assert len(set(e.versions[turn.action_start : turn.action_end])) <= 1, "a policy samples whole actions"
    assert max(row["staleness_max"] for row in rows(run)) > 0, "nothing was played ahead"
    assert all(row["logprob_difference_max"] >= row["logprob_difference"] >= 0 for row in rows(run)[1:])
    fresh = [row for row in rows(run)[1:] if row["staleness_max"] == 0]
    assert all(row["logprob_difference_max"] < 1e-3 for row in fresh)
    assert saved(run).stream.flights == ()
    assert any((run / "metrics" / "tensorboard").iterdir())


async def test_stopped_and_resumed_nothing_is_learnt_from_twice_or_lost(parts: Services, tmp_path: Path) -> None:
    run, steps = tmp_path / "run", 6
    first = await train(run, overlapped(steps), InProcess(parts), stop=lambda: len(rows(run)) >= 2)
    state = saved(run)
    assert state.step == len(first) == 2
    flights = {f"{f.number // SIZE + 1:06d}-{f.number % SIZE:04d}": f for f in state.stream.flights}
    ended = {name: f.episode for name, f in flights.items() if f.episode is not None}
    second = await train(run, overlapped(steps), InProcess(parts))
    every = [e.id for batch in first + second for e in batch]
    assert len(every) == len(set(every)) and set(every) == names(0, steps * SIZE)
    again = {e.id: e for batch in second for e in batch}
    for name, kept in ended.items():
        assert again[name].tokens == kept.tokens, "what had ended is not played again"
    assert rows(run)[-1]["restarted"] == len(flights) - len(ended)


async def test_lost_sandboxes_are_made_up_for(parts: Services, tmp_path: Path) -> None:
    learnt = await train(tmp_path / "run", overlapped(4), Preempted(parts, losses=3))
    assert [len(batch) for batch in learnt] == [SIZE] * 4
    last = rows(tmp_path / "run")[-1]
    assert (last["total_episodes"], last["discarded"]) == (4 * SIZE, 3)


async def test_between_optimizer_steps_episodes_get_their_actions(parts: Services, tmp_path: Path, monkeypatch) -> None:
    inside, sampled = [], []
    update, serve = Learner.update, Learner.serve

    def updating(self, episodes, *, step: int):
        inside.append(step)
        try:
            return update(self, episodes, step=step)
        finally:
            inside.pop()

    def serving(self, poll, deliver):
        during = bool(inside)

        def count(number, generation) -> None:
            if during:
                sampled.append(number)
            deliver(number, generation)

        serve(self, poll, count)

    monkeypatch.setattr(Learner, "update", updating)
    monkeypatch.setattr(Learner, "serve", serving)
    await train(tmp_path / "run", overlapped(8, in_flight=3 * SIZE), InProcess(parts))
    assert sampled


async def test_held_by_the_judge_for_too_long_an_episode_is_dropped_and_that_is_said(
    parts: Services, tmp_path: Path
) -> None:
    """Nothing else makes an episode older than the bound."""
    slow, run = "000001-0001", tmp_path / "run"
    verdict = asyncio.Event()
    said: list[tuple[str, str, object]] = []

    class SlowReviewer:
        async def review(self, request: ReviewEpisode) -> Reviewed:
            if request.episode == slow:
                await verdict.wait()
            return Reviewed(request_id=request.request_id, episode=request.episode, decision="clear")

    def record(kind: str, episode: str = "", step: int = -1, **data) -> None:
        said.append((kind, episode, data.get("reason")))

    def stop() -> bool:
        if len(rows(run)) > BOUND + 1:
            verdict.set()
        return False

    policy = ReviewPolicy(late="hold", hold_steps=9, deadline_s=0.2, min_share=0.5)
    learnt = await train(run, overlapped(6), InProcess(parts), stop=stop, review=Review(policy, SlowReviewer(), record))
    every = [e.id for batch in learnt for e in batch]
    assert set(every) == names(0, 6 * SIZE) - {slow} and len(every) == len(set(every))
    assert ("episode_dropped", slow, "stale") in said
    assert sum(row["stale_dropped"] for row in rows(run)) == 1
