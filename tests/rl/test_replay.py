"""The replay buffer: every episode counts once, whatever becomes of its verdict."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.messages import Action, Reviewed, ReviewEpisode, TestResult, Verdict, encode
from rl.config import ReviewPolicy
from rl.episode import Episode, Step
from rl.replay import MAX_BODY_BYTES, ReplayBuffer, ReplayState, review_request


def episode(name: str, reward: float | None = 1.0, steps: list[Step] | None = None) -> Episode:
    return Episode(
        id=name, suite="s", task="t", seed=0, tokens=[1, 2], action_mask=[0, 1], logprobs=[0.0, -1.0], versions=[-1, 0],
        steps=steps or [], status="done", reward=reward, result=TestResult(compile_status="ok", passed=1, total=1),
    )  # fmt: skip


class ScriptedReviewer:
    """Answers when the test says what; nothing else stands behind it."""

    def __init__(self) -> None:
        self.asked: list[ReviewEpisode] = []
        self._answers: dict[str, asyncio.Future[Reviewed]] = {}

    async def review(self, request: ReviewEpisode) -> Reviewed:
        self.asked.append(request)
        return await self._answers.setdefault(request.request_id, asyncio.get_running_loop().create_future())

    def attempt(self, name: str) -> ReviewEpisode:
        return [request for request in self.asked if request.episode == name][-1]

    async def say(self, decision: Any, *names: str) -> None:
        await asyncio.sleep(0)  # let the questions be asked
        for name in names:
            request = self.attempt(name)
            answer = Reviewed(request_id=request.request_id, episode=name, decision=decision, probability=0.9)
            self._answers.setdefault(request.request_id, asyncio.get_running_loop().create_future()).set_result(answer)
        await asyncio.sleep(0)


class Trial:
    def __init__(self, *, batch_size: int = 4, state: ReplayState | None = None, **policy: Any) -> None:
        self.reviewer = ScriptedReviewer()
        self.events: list[tuple[str, str]] = []
        self.now = 0.0
        self.buffer = ReplayBuffer(
            ReviewPolicy(**policy),
            self.reviewer,
            record=lambda kind, episode="", step=-1, **data: self.events.append((kind, episode)),
            batch_size=batch_size,
            state=state,
            clock=lambda: self.now,
        )
        self.numbers: dict[str, float] = {}

    async def release(self, step: int = 0) -> dict[str, float | None]:
        """Reward by episode of the batch."""
        released = await self.buffer.release(step=step, should_stop=lambda: False)
        assert released is not None
        batch, self.numbers = released
        assert len({e.id for e in batch}) == len(batch)
        return {e.id: e.reward for e in batch}

    def __getattr__(self, name: str) -> float:
        return self.numbers[f"judge_{name}"]


async def test_a_flagged_episode_is_dropped_from_the_next_batch():
    it = Trial(deadline_s=100)
    it.buffer.offer([episode("a"), episode("b"), episode("c", 0.0)], step=0)
    await it.reviewer.say("clear", "a", "c")
    await it.reviewer.say("flagged", "b")
    assert await it.release() == {"a": 1.0, "c": 0.0}
    assert (it.clear, it.flagged, it.released, it.dropped, it.held) == (2, 1, 2, 1, 0)
    assert ("episode_dropped", "b") in it.events and ("episode_released", "a") in it.events
    assert await it.release(1) == {}


async def test_or_gets_a_negative_reward():
    it = Trial(flagged="negative", negative_reward=-0.5)
    offered = episode("a")
    it.buffer.offer([offered], step=0)
    await it.reviewer.say("flagged", "a")
    assert await it.release() == {"a": -0.5} and offered.reward == 1.0
    assert it.negative == 1


@pytest.mark.parametrize("what", ["uncertain", "failed"])
@pytest.mark.parametrize("choice", ["train", "drop"])
async def test_no_verdict_is_what_the_policy_says_never_a_penalty(what, choice):
    policy: dict[str, Any] = {what: choice}
    it = Trial(**policy)
    it.buffer.offer([episode("a")], step=0)
    await it.reviewer.say(what, "a")
    assert await it.release() == ({"a": 1.0} if choice == "train" else {})


@pytest.mark.parametrize("what", ["uncertain", "failed"])
async def test_held_is_asked_again_under_another_id_and_then_dropped(what):
    policy: dict[str, Any] = {what: "hold"}
    it = Trial(**policy, hold_steps=3)
    it.buffer.offer([episode("a")], step=0)
    waiting = asyncio.create_task(it.release())
    for _ in range(3):
        await asyncio.sleep(0.01)
        await it.reviewer.say(what, "a")
    assert await waiting == {} and it.expired == 1
    assert len({request.request_id for request in it.reviewer.asked}) == 3


async def test_late_and_train():
    it = Trial(late="train", deadline_s=0, compensate=True)
    it.buffer.offer([episode("a"), episode("b")], step=0)
    await it.reviewer.say("clear", "a")
    assert await it.release() == {"a": 1.0, "b": 1.0} and it.late == 1
    await it.reviewer.say("flagged", "b")
    it.buffer.offer([episode("c")], step=1)
    await it.reviewer.say("clear", "c")
    assert await it.release(1) == {"c": 1.0, "b": -1.0}
    assert it.late_flagged == it.compensated == it.released == 1
    assert ("late_verdict", "b") in it.events and ("episode_compensated", "b") in it.events
    assert it.buffer.state().held == ()


async def test_late_and_train_without_compensation_is_recorded():
    it = Trial(late="train", deadline_s=0)
    it.buffer.offer([episode("b")], step=0)
    await it.release()
    await it.reviewer.say("flagged", "b")
    assert await it.release(1) == {} and it.late_flagged == 1 and it.compensated == 0


async def test_late_and_drop():
    it = Trial(late="drop", deadline_s=0)
    it.buffer.offer([episode("a")], step=0)
    assert await it.release() == {} and it.late == it.dropped == 1
    assert await it.release(1) == {}


async def test_late_and_hold_waits_for_enough_and_keeps_the_rest_for_later():
    it = Trial(late="hold", deadline_s=0, min_share=0.5)
    it.buffer.offer([episode(name) for name in "abcd"], step=0)
    waiting = asyncio.create_task(it.release())
    await asyncio.sleep(0.05)
    await it.reviewer.say("clear", "a")
    await asyncio.sleep(0.05)
    assert not waiting.done()  # one of four is not enough
    await it.reviewer.say("flagged", "b")
    assert await waiting == {"a": 1.0} and it.held == 2
    await it.reviewer.say("clear", "c", "d")
    it.buffer.offer([episode("e")], step=1)
    await it.reviewer.say("clear", "e")
    assert await it.release(1) == {"c": 1.0, "d": 1.0, "e": 1.0}


async def test_what_is_held_too_long_is_dropped_and_counted():
    it = Trial(late="hold", deadline_s=0, min_share=0.2, hold_steps=2)
    it.buffer.offer([episode("a"), episode("b")], step=0)
    await it.reviewer.say("clear", "a")
    assert await it.release(0) == {"a": 1.0}
    it.buffer.offer([episode("c")], step=1)
    await it.reviewer.say("clear", "c")
    assert await it.release(1) == {"c": 1.0} and it.expired == 1 and it.held == 0
    assert ("episode_dropped", "b") in it.events


async def test_a_judge_that_is_down_stops_training_that_holds_until_it_is_stopped():
    it = Trial(late="hold", deadline_s=0)
    it.buffer.offer([episode("a")], step=0)
    stop = False
    waiting = asyncio.create_task(it.buffer.release(step=0, should_stop=lambda: stop))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    stop = True
    assert await waiting is None


async def test_the_deadline_is_waited_for():
    it = Trial(late="train", deadline_s=100)
    it.buffer.offer([episode("a")], step=0)
    waiting = asyncio.create_task(it.release())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    it.now = 101
    assert await waiting == {"a": 1.0}


async def test_a_restart_asks_again_and_trains_once():
    first = Trial(late="train", deadline_s=0)
    first.buffer.offer([episode("a"), episode("b")], step=0)
    await first.reviewer.say("clear", "a")
    await first.release()
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(first.buffer.state()), type=ReplayState)
    again = Trial(late="train", deadline_s=0, state=kept)
    await again.reviewer.say("flagged", "b")
    assert again.reviewer.asked == [first.reviewer.attempt("b")]
    assert await again.release(1) == {} and again.late_flagged == 1


async def test_an_episode_is_taken_once():
    it = Trial()
    for _ in range(2):
        it.buffer.offer([episode("a")], step=0)
    await it.reviewer.say("clear", "a")
    assert await it.release() == {"a": 1.0}
    it.buffer.offer([episode("a")], step=1)
    assert await it.release(1) == {}
    with pytest.raises(ValueError, match="no reward"):
        it.buffer.offer([episode("x", None)], step=1)


async def test_an_error_of_the_reviewer_is_raised():
    class Broken:
        async def review(self, request: ReviewEpisode) -> Reviewed:
            raise RuntimeError("wrong key")

    buffer = ReplayBuffer(ReviewPolicy(), Broken(), record=lambda *_, **__: None, batch_size=1)
    buffer.offer([episode("a")], step=0)
    with pytest.raises(RuntimeError, match="wrong key"):
        await buffer.release(step=0, should_stop=lambda: False)


CHOICE = st.sampled_from(["hold", "train", "drop"])


@settings(max_examples=60, deadline=None)
@given(
    late=CHOICE, failed=CHOICE, uncertain=CHOICE, flagged=st.sampled_from(["drop", "negative"]),
    script=st.lists(
        st.lists(st.sampled_from(["clear", "flagged", "uncertain", "failed", "silent"]), min_size=1, max_size=4),
        min_size=1, max_size=5,
    ),
)  # fmt: skip
def test_each_episode_counts_exactly_once(late, failed, uncertain, flagged, script):
    async def play() -> None:
        it = Trial(
            late=late, failed=failed, uncertain=uncertain, flagged=flagged, deadline_s=0, min_share=0.01, hold_steps=2
        )
        trained: list[str] = []
        says = {f"{n}-{i}": say for n, step in enumerate(script) for i, say in enumerate(step)}
        for n, step in enumerate([*script, ["clear"], ["clear"], ["clear"]]):
            names = [f"{n}-{i}" for i in range(len(step))]
            it.buffer.offer([episode(name) for name in [*names, f"{n}-x"]], step=n)
            await it.reviewer.say("clear", f"{n}-x")  # one at least is decided, or training would wait
            for name in names:
                if says.get(name, "clear") != "silent":
                    await it.reviewer.say(says.get(name, "clear"), name)
            released = asyncio.create_task(it.release(n))
            while not released.done():  # what is asked again gets the same answer
                await asyncio.sleep(0)
                for request in it.reviewer.asked:
                    said = says.get(request.episode, "clear")
                    pending = it.reviewer._answers.get(request.request_id)
                    if said != "silent" and pending is not None and not pending.done():
                        await it.reviewer.say(said, request.episode)
            trained += list(released.result())
        assert len(trained) == len(set(trained))
        ends = [name for kind, name in it.events if kind in ("episode_released", "episode_dropped")]
        assert sorted(ends) == sorted(set(ends))
        offered = {request.episode for request in it.reviewer.asked}
        assert set(ends) | {held.episode.id for held in it.buffer.state().held} == offered

    asyncio.run(play())


def test_a_request_names_its_content_and_fits_the_queue():
    big = Action(kind="write", path="a", body=b"x" * 500_000)
    small = Action(kind="run", body=b"ls")
    steps = [Step(action_start=0, action_end=1, text=b"", call="submit", action=big, shown=b"y" * 5000)] * 100
    steps = [*steps, Step(action_start=0, action_end=1, text=b"", call="invalid")]
    steps.append(
        Step(action_start=0, action_end=1, text=b"", call="submit", action=small, verdict=Verdict(decision="block"))
    )
    request = review_request(episode("e", steps=steps))
    assert len(encode(request)) < 3 << 20 and len(request.steps) == 101
    assert request.steps[-1].step == 101 and request.steps[-1].verdict.decision == "block"
    kept = sum(len(step.action.body) + len(step.output) for step in request.steps)
    assert request.omitted_bytes == 100 * 505_000 + 2 - kept
    assert max(len(step.action.body) for step in request.steps) <= MAX_BODY_BYTES
    other = review_request(episode("e", steps=steps[:1]))
    assert other.request_id != request.request_id == review_request(episode("e", steps=steps)).request_id
    assert review_request(episode("e", steps=steps), attempt=1).request_id != request.request_id
