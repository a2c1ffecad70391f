"""Episodes without a pause between batches: played while the trainer learns, learnt from before they are too old.

In: a rollout, what each episode of the run is (by its number in the order of starts), a bound on staleness. Out:
batches, each episode in exactly one of them. An episode that is not done when a batch is full goes on, under newer
policies. Nothing is dropped for its age: an episode is only started if it can still be learnt from in time, and a
batch is only given out if every episode left behind can. So a batch may overtake a slow episode for a while, then
waits for it: which episodes are learnt from does not depend on how long they take.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from audit.errors import EctypeError
from queues.messages import Reviewed, ReviewEpisode
from rl.config import RolloutConfig
from rl.episode import Episode
from rl.replay import Reviewer, review_request
from rl.rollout import EpisodeSpec, Rollout

ATTEMPTS = 3
"""How many batches of episodes may lose their sandboxes in a row before something must be wrong with them."""
NUMBERS = "in_flight", "ended_waiting", "overtaken", "restarted"
_POLL_S = 0.5


class Flight(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An episode that was started and not learnt from yet. `number`: its place in the order of starts; `since`: the
    policy version at its start; `episode`: its record, once it has ended."""

    number: int
    since: int
    episode: Episode | None = None


class StreamState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a checkpoint keeps. Episodes that had not ended are played again from their beginning."""

    flights: tuple[Flight, ...] = ()
    started: int = 0
    restarted: int = 0


def choose(flights: Iterable[Flight], *, size: int, step: int, bound: int) -> list[Flight] | None:
    """The batch to learn from in `step` (so many updates are done): the oldest `size` episodes that have ended.

    None when there are too few, or when one that would be left behind has to be learnt from now. The j-th of those
    left behind is learnt from in step `step + 1 + j // size` at the latest, which must not be later than
    `since + bound`.
    """
    order = sorted(flights, key=lambda flight: (flight.since, flight.number))
    batch = [flight for flight in order if flight.episode is not None][:size]
    if len(batch) < size:
        return None
    chosen = {flight.number for flight in batch}
    left = [flight for flight in order if flight.number not in chosen]
    in_time = all(step + 1 + place // size <= flight.since + bound for place, flight in enumerate(left))
    return batch if in_time or batch == order[:size] else None


class Stream:
    """For one event loop: `async with` it. `ended` is told of every graded episode at once.

    At most `(max_staleness + 1) * episodes_per_step` episodes are started and not learnt from, counting the batch that
    is being learnt from: one more could not be learnt from in time. The run's last batch leaves none behind.
    """

    def __init__(
        self,
        config: RolloutConfig,
        rollout: Rollout,
        spec: Callable[[int], EpisodeSpec],
        *,
        steps: int,
        step: int,
        state: StreamState,
        ended: Callable[[Episode], None] = lambda _: None,
    ) -> None:
        self._rollout = rollout
        self._spec = spec
        self._ended = ended
        self._size = config.episodes_per_step
        self._bound = config.max_staleness
        self._in_flight = config.in_flight or self._size
        self._steps = steps
        self._step = step
        self._flights = {flight.number: flight for flight in state.flights if flight.episode is not None}
        self._again = deque(flight.number for flight in state.flights if flight.episode is None)
        self._started = max(state.started, step * self._size)
        self._restarted = state.restarted + len(self._again)
        self._taken: list[int] = []
        self._lost: list[Episode] = []
        self._told = 0
        self._lost_in_a_row = 0
        self._playing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._engine: asyncio.Task[None] | None = None
        self.news = False
        """Whether an episode has ended since `state` was asked for."""

    async def __aenter__(self) -> Stream:
        self._engine = asyncio.create_task(self._rollout.generate())
        self._refill()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Give every session back. Episodes that have not ended are in `state` all the same."""
        assert self._engine is not None
        tasks = [*self._playing, self._engine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def batch(self, *, should_stop: Callable[[], bool]) -> tuple[list[Episode], list[Episode]] | None:
        """The episodes of the next batch, and those that lost their sandbox since the last one; None when
        `should_stop` ended the wait. Until `learned` is called, the next call gives the same batch.

        Raises what the engine raised, and `EctypeError` when nothing but losses comes back.
        """
        while True:
            self._check()
            if not self._taken:
                chosen = choose(self._flights.values(), size=self._size, step=self._step, bound=self._bound)
                self._taken = [flight.number for flight in chosen or ()]
            if self._taken:
                self._told = len(self._lost)
                taken = [self._flights[number].episode for number in self._taken]
                return [episode for episode in taken if episode is not None], list(self._lost)
            if should_stop():
                return None
            self._changed.clear()
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def learned(self) -> None:
        """The batch was learnt from, and the policy has a new version: its episodes are over, others may start."""
        self._step += 1
        for number in self._taken:
            del self._flights[number]
        self._taken = []
        del self._lost[: self._told]
        self._told = 0
        self._refill()

    def state(self) -> StreamState:
        """To be kept with a checkpoint of the models as they are now, between `learned` and the next update."""
        self.news = False
        again = [Flight(number=number, since=self._step) for number in self._again]
        return StreamState(
            flights=(*self._flights.values(), *again),
            started=self._started,
            restarted=self._restarted,
        )

    def numbers(self) -> dict[str, float]:
        """`NUMBERS` for the metrics of a step, before `learned`: of the episodes that are not in the batch, those being
        played, those that have ended, and those that are older than one of the batch; and all that were restarted."""
        order = sorted(self._flights.values(), key=lambda flight: (flight.since, flight.number))
        taken = set(self._taken)
        places = [place for place, flight in enumerate(order) if flight.number in taken]
        left = [flight for flight in order if flight.number not in taken]
        numbers = (
            sum(flight.episode is None for flight in left),
            sum(flight.episode is not None for flight in left),
            places[-1] + 1 - len(places) if places else 0,
            self._restarted,
        )
        return dict(zip(NUMBERS, map(float, numbers), strict=True))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _refill(self) -> None:
        most = min(self._bound + 1, self._steps - self._step) * self._size
        while len(self._playing) < self._in_flight and len(self._flights) < most:
            if self._again:
                number = self._again.popleft()
            else:
                number = self._started
                self._started += 1
            flight = self._flights[number] = Flight(number=number, since=self._step)
            task = asyncio.create_task(self._play(flight))
            self._playing.add(task)
            task.add_done_callback(self._over)

    async def _play(self, flight: Flight) -> None:
        episode = await self._rollout.play_one(self._spec(flight.number))
        if episode.reward is None:
            del self._flights[flight.number]
            self._lost.append(episode)
            self._lost_in_a_row += 1
            return
        flight.episode = episode
        self._lost_in_a_row = 0
        self.news = True
        self._ended(episode)

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._playing.discard(task)
            if self._lost_in_a_row < self._too_many:
                self._refill()
        self._changed.set()

    @property
    def _too_many(self) -> int:
        return ATTEMPTS * max(self._size, self._in_flight)

    def _check(self) -> None:
        assert self._engine is not None
        for task in (*self._playing, self._engine):
            if task.done():
                task.result()  # raises
        if self._lost_in_a_row >= self._too_many:
            raise EctypeError(
                f"step {self._step + 1}: {self._lost_in_a_row} episodes in a row lost their sandbox",
                remedy="look at the logs of the sandbox workers under logs/",
            )


class ReviewAhead:
    """A `rl.replay.Reviewer` that has an episode judged when it ends, not when its batch is full."""

    def __init__(self, reviewer: Reviewer) -> None:
        self._reviewer = reviewer
        self._begun: dict[str, asyncio.Task[Reviewed]] = {}

    def begin(self, episode: Episode) -> None:
        request = review_request(episode)
        self._begun[str(request.request_id)] = asyncio.create_task(self._reviewer.review(request))

    async def review(self, request: ReviewEpisode) -> Reviewed:
        begun = self._begun.pop(str(request.request_id), None)
        return await (self._reviewer.review(request) if begun is None else begun)


def staleness(episodes: Sequence[Episode], *, step: int) -> dict[str, float]:
    """How far the policy versions that sampled a batch are behind version `step`, which learns from it: mean over
    action tokens and share of them by distance; the largest; share of episodes that span versions."""
    sampled = [[version for version in e.versions if version >= 0] for e in episodes]
    behind = [step - version for versions in sampled for version in versions] or [0]
    count = len(behind)
    return {
        "staleness": sum(behind) / count,
        "staleness_max": float(max(behind)),
        "staleness_share_0": sum(b <= 0 for b in behind) / count,
        "staleness_share_1": sum(b == 1 for b in behind) / count,
        "staleness_share_2": sum(b == 2 for b in behind) / count,
        "staleness_share_3_4": sum(3 <= b <= 4 for b in behind) / count,
        "staleness_share_5_up": sum(b >= 5 for b in behind) / count,
        "spanning": sum(len(set(versions)) > 1 for versions in sampled) / max(len(episodes), 1),
    }


def is_stale(episode: Episode, *, step: int, bound: int) -> bool:
    """Whether its oldest token is more than `bound` versions behind version `step`."""
    return step - min((version for version in episode.versions if version >= 0), default=step) > bound
