"""The training loop with verdicts: what it learns from, and what a checkpoint keeps of episodes without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from queues.messages import ReviewDecision, Reviewed, ReviewEpisode
from rl import checkpoint
from rl.config import ReviewPolicy
from rl.learner import Learner
from rl.trainer import Review, TrainerState, _train
from sandbox.session import Services
from tests.rl.learner_data import give_opinions
from tests.rl.test_rollout import InProcess, task_of
from tests.rl.test_trainer import numbers, small
from tests.sandbox.small_tasks import REVERSE, services

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Services]:
    async with services(tmp_path / "audit", size=2) as made:
        yield made


class ScriptedReviewer:
    """Decides by a rule of the test; None: it never answers. Nothing else stands behind it."""

    def __init__(self, rule: Callable[[str], ReviewDecision | None]) -> None:
        self._rule = rule
        self.asked: list[str] = []

    async def review(self, request: ReviewEpisode) -> Reviewed:
        self.asked.append(request.request_id)
        decision = self._rule(request.episode)
        if decision is None:
            await asyncio.Event().wait()
        assert decision is not None
        return Reviewed(request_id=request.request_id, episode=request.episode, decision=decision)


async def train(
    run: Path, steps: int, parts: Services, rule: Callable[[str], ReviewDecision | None], **policy: Any
) -> tuple[list[dict[str, float | None]], ScriptedReviewer]:
    """What was learned from in every step: reward by episode."""
    told = small(steps)
    learner = Learner(told)
    give_opinions(learner)
    learned: list[dict[str, float | None]] = []
    update = learner.update

    def watched(episodes, *, step: int) -> dict[str, float]:
        learned.append({episode.id: episode.reward for episode in episodes})
        return update(episodes, step=step)

    learner.update = watched  # type: ignore[method-assign]
    reviewer = ScriptedReviewer(rule)
    review = Review(ReviewPolicy(**policy), reviewer, lambda *_, **__: None)
    await _train(told, learner, [task_of(REVERSE)], InProcess(parts), run, lambda: False, None, review)
    return learned, reviewer


async def test_flagged_episodes_are_not_learned_from(parts: Services, tmp_path: Path) -> None:
    learned, _ = await train(
        tmp_path / "run", 2, parts, lambda episode: "flagged" if episode.endswith("2") else "clear"
    )
    assert [sorted(step) for step in learned] == [[f"{n:06d}-{i:04d}" for i in (0, 1, 3)] for n in (1, 2)]
    assert [(row["judge_flagged"], row["judge_dropped"], row["episodes"]) for row in numbers(tmp_path / "run")] == [
        (1, 1, 4)
    ] * 2


async def test_a_step_in_which_everything_is_flagged_teaches_nothing_and_passes(
    parts: Services, tmp_path: Path
) -> None:
    learned, _ = await train(tmp_path / "run", 2, parts, lambda episode: "flagged" if episode < "000002" else "clear")
    assert len(learned) == 1 and len(learned[0]) == 4
    assert [row["step"] for row in numbers(tmp_path / "run")] == [1, 2]


async def test_what_is_held_survives_a_restart_and_is_learned_from_once(parts: Services, tmp_path: Path) -> None:
    run = tmp_path / "run"
    policy = {"late": "hold", "deadline_s": 0.0, "min_share": 0.5}
    slow = {"000001-0001", "000001-0003"}
    first, asked = await train(run, 1, parts, lambda episode: None if episode in slow else "clear", **policy)
    assert [sorted(step) for step in first] == [["000001-0000", "000001-0002"]]
    found = checkpoint.latest(run / "checkpoints")
    assert found is not None
    state = msgspec.msgpack.decode((found / "extra").read_bytes(), type=TrainerState)
    assert {held.episode.id for held in state.replay.held} == slow
    second, again = await train(run, 2, parts, lambda _: "clear")
    assert set(second[0]) == slow | {f"000002-{i:04d}" for i in range(4)}
    assert set(again.asked[:2]) <= set(asked.asked), "asked about under the same id"
