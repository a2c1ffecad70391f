"""Playing and learning at the same time, with a scripted learner and scripted sessions: no model, no sandbox."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from queues.messages import Action, Observation, ResultReply, StepReply, TestReply, TestResult, Verdict
from rl.config import LearnConfig
from rl.episode import Episode
from rl.play import Overlapped, block
from rl.rollout import Deliver, Generation, Poll
from rl.stream import StreamState
from rl.tasks import PublicTask
from rl.tokenizers import ByteCodec

CODEC = ByteCodec()
SIZE, BOUND, STEPS = 4, 2, 12
TASKS = [
    PublicTask(suite="s", task=name, instructions="", examples=(), build_hint="", max_steps=4, entry="main.py")
    for name in ("a", "b")
]


class ScriptedSession:
    async def submit(self, step: int, action: Action) -> StepReply:
        del action
        return StepReply(
            request_id="r",
            episode="e",
            step=step,
            observation=Observation(status="ok", exit_status=0),
            verdict=Verdict(decision="allow"),
        )

    async def test(self, step: int) -> TestReply:
        raise AssertionError("nobody asks for it")

    async def result(self) -> ResultReply:
        return ResultReply(request_id="r", episode="e", result=TestResult(compile_status="ok", passed=1, total=1))

    async def close(self) -> None:
        return None


class ScriptedSessions:
    async def open(self, *_told: object, **_more: object) -> ScriptedSession:
        return ScriptedSession()


class ScriptedLearner:
    """Where `Learner` stands: one weight, which is the policy version; an update takes as long as `during` does.

    With `own`, the weight that generates is the one that learns; else it is what was published last, as with a server.
    """

    codec = CODEC

    def __init__(self, *, own: bool) -> None:
        self.own = own
        self.between: Any = None
        self.weight = self.published = -1
        self.serving = self.updating = False
        self.sampled: dict[str, list[int]] = {"in an update": [], "else": []}

    def publish(self, version: int) -> None:
        assert not self.serving, "weights are exchanged under a request"
        self.weight = self.published = version

    def serve(self, poll: Poll, deliver: Deliver) -> None:
        assert not self.serving
        self.serving = True
        while batch := poll():
            for number, context, _ in batch:
                before = self.weight if self.own else self.published
                text = b"```done\n```" if context.count(CODEC.ACT) > 2 else b"```sh\ntrue\n```"
                assert before == (self.weight if self.own else self.published)
                self.sampled["in an update" if self.updating else "else"].append(before)
                deliver(number, Generation(CODEC.action(text), [-float(before)] * len(CODEC.action(text)), True))
        self.serving = False

    def update(self, episodes: Sequence[Episode], *, step: int) -> dict[str, float]:
        assert self.weight == step and (not self.own or not self.serving)
        self.updating = True
        for _ in range(3):
            threading.Event().wait(0.005)
            if self.own:
                self.between()
        self.updating = False
        if self.own:
            self.weight = step + 1
        return {"update_s": 0.01}


@pytest.mark.parametrize("engine", ["megatron", "vllm"])
async def test_each_token_is_of_the_version_it_says_and_generation_goes_on_in_an_update(engine: str) -> None:
    config = LearnConfig.model_validate(
        {
            "suite": "s",
            "policy": {"kind": "smollm2"},
            "rollout": {
                "engine": engine,
                "mode": "async",
                "max_staleness": BOUND,
                "episodes_per_step": SIZE,
                "in_flight": 2 * SIZE,
            },
            "trainer": {"steps": STEPS},
        }
    )
    learner = ScriptedLearner(own=engine == "megatron")
    player = Overlapped(config, learner, TASKS, ScriptedSessions(), step=0, state=StreamState())  # type: ignore[arg-type]
    seen: list[str] = []
    async with player:
        for step in range(STEPS):
            played = await player.play(step, should_stop=lambda: False)
            assert played is not None and set(played.numbers) >= {"batch_wait_s", "overtaken"}
            assert player.fresh(played.episodes, step) == played.episodes
            for episode in played.episodes:
                for version, logprob, mask in zip(episode.versions, episode.logprobs, episode.action_mask, strict=True):
                    assert not mask or version == -logprob
                    assert not mask or step - BOUND <= version <= step
            seen += [episode.id for episode in played.episodes]
            learned = await player.learn(played.episodes, step)
            assert learned["staleness_max"] <= BOUND
    assert sorted(seen) == sorted(spec.id for number in range(STEPS) for spec in block(config, TASKS, number))
    assert learner.sampled["in an update"], "generation stood still while the learner learned"
    assert player.state().flights == ()
    assert learner.between is None and not learner.serving


def test_both_modes_play_the_same_tasks_with_the_same_seeds() -> None:
    config = LearnConfig.model_validate({"suite": "s", "seed": 3, "rollout": {"episodes_per_step": 5}})
    first, again, other = block(config, TASKS, 0), block(config, TASKS, 0), block(config, TASKS, 1)
    assert first == again and {spec.id for spec in first}.isdisjoint(spec.id for spec in other)
    assert sorted(spec.task.task for spec in first).count("a") in (2, 3)
    assert len({spec.seed for spec in first + other}) == 10
