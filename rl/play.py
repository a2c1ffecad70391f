"""Where the batches of training come from: played before the learner learns (`InTurns`), or meanwhile (`Overlapped`).

In: sessions, tasks, a learner. Out: for each step the episodes to learn from, by way of an object that also runs the
update, since the two modes differ in who may use the weights when. Which task and seed an episode has follows from the
run's seed and the episode's number alone, the same in both modes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rl.config import LearnConfig
from rl.episode import Episode
from rl.gate import Gate
from rl.learner import Learner
from rl.rollout import EpisodeSpec, Rollout, RolloutStats, Sessions
from rl.stream import Stream, StreamState, is_stale, staleness
from rl.tasks import PublicTask

TIMES = "batch_wait_s", "generate_idle", "learn_idle"
"""Numbers of `Overlapped`: seconds that training waited for the batch; shares of the time since the last batch in which
nothing was sampled, and nothing learnt."""


@dataclass
class Played:
    """`episodes` have a reward or have lost their sandbox; `numbers` are for the metrics of the step."""

    episodes: list[Episode]
    stats: RolloutStats
    numbers: dict[str, float] = field(default_factory=dict)


class Player(Protocol):
    async def __aenter__(self) -> Player: ...
    async def __aexit__(self, *exc: object) -> None: ...

    async def play(self, step: int, *, should_stop: Callable[[], bool]) -> Played | None:
        """The episodes for `step`; None when `should_stop` ended the wait."""
        ...

    def fresh(self, batch: Sequence[Episode], step: int) -> list[Episode]:
        """Those of a batch that are not too old to be learnt from in `step`."""
        ...

    async def learn(self, batch: Sequence[Episode], step: int) -> dict[str, float]:
        """Update the policy. The version that plays afterwards is `step + 1`."""
        ...

    def unsaved(self) -> bool:
        """Whether there is something beside learnt steps that a checkpoint would keep."""
        ...

    def state(self) -> StreamState:
        """What a checkpoint keeps of the episodes."""
        ...

    async def alone(self, work: Callable[[], None]) -> None:
        """Do something with the learner that must not happen while it generates."""
        ...


def block(config: LearnConfig, tasks: Sequence[PublicTask], number: int) -> list[EpisodeSpec]:
    """`rollout.episodes_per_step` episodes, each task as often as every other one (give or take one)."""
    rng = random.Random(f"{config.seed}:{number}")
    count = config.rollout.episodes_per_step
    order = [task for _ in range(-(-count // len(tasks))) for task in rng.sample(tasks, len(tasks))][:count]
    return [
        EpisodeSpec(id=f"{number + 1:06d}-{place:04d}", task=task, seed=rng.getrandbits(31))
        for place, task in enumerate(order)
    ]


class InTurns:
    """`rollout.mode: sync`: a batch is played to its end by one policy version, then learnt from."""

    def __init__(self, config: LearnConfig, learner: Learner, tasks: Sequence[PublicTask], sessions: Sessions) -> None:
        self._config = config
        self._learner = learner
        self._tasks = tasks
        self._sessions = sessions

    async def __aenter__(self) -> InTurns:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None

    async def play(self, step: int, *, should_stop: Callable[[], bool]) -> Played:
        del should_stop  # a step that is begun is played to its end
        config, learner = self._config, self._learner
        await asyncio.to_thread(learner.publish, step)
        rollout = Rollout(learner.serve, learner.codec, self._sessions, config.rollout, config.reward, version=step)
        episodes, stats = await rollout.play(block(config, self._tasks, step))
        return Played(episodes, stats)

    def fresh(self, batch: Sequence[Episode], step: int) -> list[Episode]:
        del step  # the policy that learns played them, but for what a judge has held
        return list(batch)

    async def learn(self, batch: Sequence[Episode], step: int) -> dict[str, float]:
        # a step whose episodes are all dropped or held is a step in which nothing is learnt
        return await asyncio.to_thread(self._learner.update, batch, step=step) if batch else {}

    def unsaved(self) -> bool:
        return False

    def state(self) -> StreamState:
        return StreamState()

    async def alone(self, work: Callable[[], None]) -> None:
        work()


class Overlapped:
    """`rollout.mode: async`: `rl.stream.Stream` plays, `rl.gate.Gate` says who may use the weights."""

    def __init__(
        self,
        config: LearnConfig,
        learner: Learner,
        tasks: Sequence[PublicTask],
        sessions: Sessions,
        *,
        step: int,
        state: StreamState,
        ended: Callable[[Episode], None] = lambda _: None,
    ) -> None:
        rollout = config.rollout
        self._config = config
        self._learner = learner
        self._own_weights = rollout.engine == "megatron"
        self._gate = Gate(learner.serve, version=step)
        learner.between = self._gate.interlude

        def spec(number: int) -> EpisodeSpec:
            return block(config, tasks, number // rollout.episodes_per_step)[number % rollout.episodes_per_step]

        self._rollout = Rollout(self._gate.serve, learner.codec, sessions, rollout, config.reward)
        self._stream = Stream(
            rollout, self._rollout, spec, steps=config.trainer.steps, step=step, state=state, ended=ended
        )
        self._since = time.monotonic()
        self._update_s = 0.0

    async def __aenter__(self) -> Overlapped:
        await asyncio.to_thread(self._learner.publish, self._gate.version)
        await self._stream.__aenter__()
        self._since = time.monotonic()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._stream.__aexit__(*exc)
        await asyncio.to_thread(self._gate.close)
        self._learner.between = None

    async def play(self, step: int, *, should_stop: Callable[[], bool]) -> Played | None:
        started = time.monotonic()
        batch = await self._stream.batch(should_stop=should_stop)
        if batch is None:
            return None
        episodes, lost = batch
        now = time.monotonic()
        stats = self._rollout.take_stats()
        stats.wall_s, stats.generate_s, self._since = now - self._since, self._gate.take_generate_s(), now
        wall = max(stats.wall_s, 1e-9)
        return Played(
            [*episodes, *lost],
            stats,
            self._stream.numbers()
            | dict(
                zip(
                    TIMES,
                    (now - started, max(0.0, 1 - stats.generate_s / wall), max(0.0, 1 - self._update_s / wall)),
                    strict=True,
                )
            ),
        )

    def fresh(self, batch: Sequence[Episode], step: int) -> list[Episode]:
        bound = self._config.rollout.max_staleness
        return [episode for episode in batch if not is_stale(episode, step=step, bound=bound)]

    async def learn(self, batch: Sequence[Episode], step: int) -> dict[str, float]:
        learned = await asyncio.to_thread(self._learn, batch, step)
        self._update_s = learned.get("update_s", 0.0)
        self._stream.learned()
        return learned | staleness(batch, step=step)

    def _learn(self, batch: Sequence[Episode], step: int) -> dict[str, float]:
        learned: dict[str, float] = {}
        if self._own_weights:
            with self._gate.claim():
                if batch:
                    learned = self._learner.update(batch, step=step)
                self._gate.version = step + 1
            return learned
        if batch:
            learned = self._learner.update(batch, step=step)
        with self._gate.claim():
            self._learner.publish(step + 1)
            self._gate.version = step + 1
        return learned

    def unsaved(self) -> bool:
        return self._stream.news

    def state(self) -> StreamState:
        return self._stream.state()

    async def alone(self, work: Callable[[], None]) -> None:
        def claimed() -> None:
            with self._gate.claim():
                work()

        # a server's weights are its own: it generates on while the learner's are copied
        await asyncio.to_thread(claimed if self._own_weights else work)
