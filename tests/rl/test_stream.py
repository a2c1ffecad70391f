"""Episodes that are played while the trainer learns: scripted rollouts, with kills and losses; no sandbox, no model."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from audit.errors import EctypeError
from queues.messages import Reviewed, ReviewEpisode
from rl.config import RolloutConfig
from rl.episode import Episode
from rl.rollout import EpisodeSpec
from rl.stream import ATTEMPTS, Flight, ReviewAhead, Stream, StreamState, choose, is_stale, staleness
from rl.tasks import PublicTask

TASK = PublicTask(suite="s", task="t", instructions="", examples=(), build_hint="", max_steps=9, entry="main.py")


def spec(number: int) -> EpisodeSpec:
    return EpisodeSpec(id=str(number), task=TASK, seed=number)


def episode(name: str = "0", *, versions: list[int] | None = None, reward: float | None = 1.0) -> Episode:
    made = Episode(id=name, suite="s", task="t", seed=0, tokens=[], action_mask=[], logprobs=[], versions=[])
    made.append([1], sampled=False)
    for version in [0] if versions is None else versions:
        made.append([2], sampled=True, logprobs=[-1.0], version=version)
    made.reward = reward
    return made


class ScriptedRollout:
    """Stands where `Rollout` does: an episode samples a token, then one more whenever the test says so, and ends when
    the test says so. `version` is the policy's."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.playing: dict[str, Episode] = {}
        self.starts: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def generate(self) -> None:
        await asyncio.Event().wait()

    async def play_one(self, spec: EpisodeSpec) -> Episode:
        self.starts.append(spec.id)
        made = self.playing[spec.id] = episode(spec.id, versions=[self.version], reward=None)
        ends = self._ends[spec.id] = asyncio.Event()
        try:
            await ends.wait()
        finally:
            del self.playing[spec.id]
        return made

    def go_on(self, name: str) -> None:
        self.playing[name].append([2], sampled=True, logprobs=[-1.0], version=self.version)

    async def end(self, name: str, reward: float | None = 1.0) -> None:
        self.playing[name].reward = reward
        self._ends[name].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def stream(rollout: ScriptedRollout, *, size: int = 2, bound: int = 2, steps: int = 9, step: int = 0, **told) -> Stream:
    state = told.pop("state", StreamState())
    config = RolloutConfig(mode="async", episodes_per_step=size, max_staleness=bound, **told)
    return Stream(config, rollout, spec, steps=steps, step=step, state=state)  # type: ignore[arg-type]


async def batch(of: Stream) -> list[str] | None:
    """Ids of the next batch, None if it would have to be waited for."""
    got = await of.batch(should_stop=lambda: True)
    return None if got is None else [e.id for e in got[0]]


def flights(*, ended: str, since: list[int]) -> list[Flight]:
    """One for each character of `ended`: `x` has ended."""
    return [
        Flight(number=n, since=since[n], episode=episode(str(n)) if c == "x" else None) for n, c in enumerate(ended)
    ]


@pytest.mark.parametrize(
    ("ended", "since", "step", "expected"),
    [
        ("x.", [0, 0], 0, None),  # too few
        ("xxx.", [0, 0, 0, 0], 0, [0, 1]),  # the oldest
        (".xx.", [0, 0, 0, 0], 0, [1, 2]),  # one that goes on is overtaken
        (".xxx", [0, 0, 1, 1], 1, [1, 2]),  # it can be learnt from in step 2, with bound 2
        (".xxx", [0, 0, 1, 1], 2, None),  # in step 3 it would be too old
        ("xxxx", [0, 0, 1, 1], 2, [0, 1]),
        ("xx..", [0, 0, 0, 0], 2, [0, 1]),  # no order of batches is in time: as little too late as possible
        (".x.xx", [0, 0, 0, 0, 2], 1, [1, 3]),  # four are due in steps 1 and 2: two of them are in this batch
        (".x..x", [0, 0, 0, 0, 2], 1, None),
    ],
)
def test_a_batch_leaves_nobody_behind_who_would_get_too_old(ended, since, step, expected) -> None:
    chosen = choose(flights(ended=ended, since=since), size=2, step=step, bound=2)
    assert (None if chosen is None else [flight.number for flight in chosen]) == expected


async def test_episodes_start_while_a_batch_is_learnt_from_and_no_more_than_can_be_in_time() -> None:
    rollout = ScriptedRollout()
    async with stream(rollout, size=2, bound=1, in_flight=3) as played:
        await settle()
        assert rollout.starts == ["0", "1", "2"]
        for name in ("0", "1"):
            await rollout.end(name)
        assert rollout.starts == ["0", "1", "2", "3"], "a fifth could not be learnt from in step 1 or before"
        assert await batch(played) == ["0", "1"]
        assert await batch(played) == ["0", "1"], "the same until it is learnt from"
        await rollout.end("2")
        assert await batch(played) == ["0", "1"]
        played.learned()
        await settle()
        assert rollout.starts == ["0", "1", "2", "3", "4", "5"]


async def test_a_slow_episode_is_overtaken_then_waited_for() -> None:
    rollout = ScriptedRollout()
    async with stream(rollout, size=2, bound=2, in_flight=3) as played:
        batches: list[list[str]] = []
        for _ in range(4):
            await settle()
            for name in [name for name in rollout.playing if name != "0"]:
                await rollout.end(name)
            got = await batch(played)
            if got is None:
                assert len(batches) == 2, "0 began under version 0 and has to be in the batch of version 2"
                await rollout.end("0")
                got = await batch(played)
            assert got is not None
            batches.append(got)
            assert played.numbers()["overtaken"] == (1 if len(batches) <= 2 else 0)
            played.learned()
            rollout.version += 1
        assert batches == [["1", "2"], ["3", "4"], ["0", "5"], ["6", "7"]]


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_happens_each_episode_is_learnt_from_once_and_in_time(seed: int) -> None:
    """Lengths without a bound, lost sandboxes, and kills that go back to a checkpoint of any age."""
    rng = random.Random(seed)
    size, bound, steps = rng.randint(1, 5), rng.randint(1, 4), rng.randint(3, 12)
    in_flight, losses, kills = rng.randint(1, 3 * size), seed % 3 == 0, seed % 2 == 0
    told = {"size": size, "bound": bound, "steps": steps, "in_flight": in_flight}
    slow = {str(n) for n in range(99) if rng.random() < 0.2}
    learnt: list[list[str]] = []
    saved, learnt_then, lost = msgspec.msgpack.encode(StreamState()), 0, 0
    while len(learnt) < steps:
        rollout = ScriptedRollout(version=len(learnt))
        state = msgspec.msgpack.decode(saved, type=StreamState)
        async with stream(rollout, step=len(learnt), state=state, **told) as played:
            while len(learnt) < steps:
                await settle()
                if kills and rng.random() < 0.02:
                    break
                for name in [*rollout.playing]:
                    rollout.go_on(name)
                    if rng.random() < (0.05 if name in slow else 0.5):
                        gone = losses and rng.random() < 0.1
                        lost += gone
                        await rollout.end(name, None if gone else 1.0)
                got = await played.batch(should_stop=lambda: True)
                if got is None:
                    continue
                assert not any(is_stale(e, step=len(learnt), bound=bound) for e in got[0])
                learnt.append([e.id for e in got[0]])
                assert all(e.reward == 1.0 for e in got[0]) and all(e.reward is None for e in got[1])
                played.learned()
                rollout.version += 1
                if rng.random() < 0.3 or len(learnt) == steps:
                    saved, learnt_then = msgspec.msgpack.encode(played.state()), len(learnt)
        del learnt[learnt_then:]
    every = [name for names in learnt for name in names]
    assert len(every) == len(set(every)) == steps * size
    if not losses:
        assert set(every) == {str(n) for n in range(steps * size)}, "slow ones among them"
    left = msgspec.msgpack.decode(saved, type=StreamState)
    assert left.flights == () and left.started >= steps * size


async def test_a_checkpoint_keeps_what_has_ended_and_says_what_is_played_again() -> None:
    rollout = ScriptedRollout()
    async with stream(rollout, size=2, bound=1) as played:
        await settle()
        await rollout.end("1")
        assert played.news
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(played.state()), type=StreamState)
        assert not played.news
    assert [(f.number, f.episode is not None) for f in state.flights] == [(0, False), (1, True), (2, False)]
    rollout = ScriptedRollout()
    async with stream(rollout, size=2, bound=1, state=state) as played:
        await settle()
        assert rollout.starts == ["0", "2"], "1 has ended and is not played again"
        assert played.numbers()["restarted"] == 2
        await rollout.end("0")
        assert await batch(played) == ["0", "1"] or await batch(played) == ["1", "0"]


async def test_losses_are_told_and_replaced_but_not_for_ever() -> None:
    rollout = ScriptedRollout()
    async with stream(rollout, size=2, bound=1) as played:
        await settle()
        for name in ("0", "1", "2"):
            await rollout.end(name, None if name == "0" else 1.0)
        got = await played.batch(should_stop=lambda: True)
        assert got is not None and [[e.id for e in part] for part in got] == [["1", "2"], ["0"]]
        played.learned()
        await settle()
        for _ in range(ATTEMPTS * 2):
            await rollout.end(next(iter(rollout.playing)), None)
        with pytest.raises(EctypeError, match="6 episodes in a row lost their sandbox"):
            await played.batch(should_stop=lambda: False)


async def test_an_error_of_the_engine_ends_the_wait() -> None:
    class Broken(ScriptedRollout):
        async def play_one(self, spec: EpisodeSpec) -> Episode:
            raise FloatingPointError(spec.id)

    async with stream(Broken()) as played:
        with pytest.raises(FloatingPointError):
            await played.batch(should_stop=lambda: False)


async def test_an_episode_is_judged_when_it_ends() -> None:
    asked: list[str] = []

    class ScriptedReviewer:
        async def review(self, request: ReviewEpisode) -> Reviewed:
            asked.append(request.episode)
            return Reviewed(request_id=request.request_id, episode=request.episode, decision="clear")

    from rl.replay import review_request

    ahead = ReviewAhead(ScriptedReviewer())
    ahead.begin(episode("7"))
    await settle()
    assert asked == ["7"]
    assert (await ahead.review(review_request(episode("7")))).episode == "7"
    assert asked == ["7"], "it is not asked about twice"
    assert (await ahead.review(review_request(episode("8")))).episode == "8"


def test_staleness_is_counted_in_versions_per_sampled_token() -> None:
    numbers = staleness([episode(versions=[3, 3, 4, 5]), episode(versions=[0, 5]), episode(versions=[])], step=5)
    assert numbers == {
        "staleness": (2 + 2 + 1 + 0 + 5 + 0) / 6,
        "staleness_max": 5,
        "staleness_share_0": 2 / 6,
        "staleness_share_1": 1 / 6,
        "staleness_share_2": 2 / 6,
        "staleness_share_3_4": 0,
        "staleness_share_5_up": 1 / 6,
        "spanning": 2 / 3,
    }
    assert staleness([], step=5)["staleness_max"] == 0
    assert is_stale(episode(versions=[2, 5]), step=5, bound=2) and not is_stale(episode(versions=[3]), step=5, bound=2)
    assert not is_stale(episode(versions=[]), step=5, bound=1)
