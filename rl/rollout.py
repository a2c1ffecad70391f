"""The rollout driver: plays many episodes at once, generating for the ones that are ready in one batch.

In: tasks, an engine that samples actions, and sessions that execute them (over the queue to the sandbox workers, or
anything else that keeps the `Sessions` protocol). Out: finished `Episode` records with the exact sampled tokens.
While some episodes wait for their sandbox, the engine generates for the others. A lost sandbox ends its episode as
`sandbox_error` with no reward; it is never a 0.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from audit.errors import EctypeError
from queues.messages import Action, ResultReply, StepReply, TestReply
from rl.config import RewardConfig, RolloutConfig
from rl.episode import Episode, Step
from rl.grammar import parse
from rl.prompts import observation_text, task_prompt, test_text
from rl.tasks import PublicTask
from rl.tokenizers import Codec

log = logging.getLogger(__name__)

MIN_ACTION = 16
"""Tokens that must be left in the context for another action to be worth asking for."""


class SandboxUnavailable(Exception):
    """The session is gone for a reason that is not the policy's."""


class SessionHandle(Protocol):
    async def submit(self, step: int, action: Action) -> StepReply: ...
    async def test(self, step: int) -> TestReply: ...
    async def result(self) -> ResultReply: ...
    async def close(self) -> None: ...


class Sessions(Protocol):
    """Opens sessions; every method of a session raises `SandboxUnavailable` when the sandbox is lost."""

    async def open(
        self, episode: str, suite: str, task: str, *, max_tests: int, oracle_calls: int
    ) -> SessionHandle: ...


@dataclass(frozen=True)
class Generation:
    """One sampled action: token ids, their log-probs at the sampling temperature, and whether a stop token came."""

    tokens: list[int]
    logprobs: list[float]
    stopped: bool
    version: int | None = None
    """The policy version that sampled it, where versions change during a rollout; None: the version of the rollout."""


@dataclass(frozen=True)
class Request:
    """A context to continue by at most `limit` tokens. The same seed gives the same continuation in any company."""

    context: Sequence[int]
    seed: int
    limit: int


class Engine(Protocol):
    """Continues whatever `poll` brings, and gives `deliver` every key's continuation as soon as it has ended."""

    longest: int
    """Tokens that a context and its continuation have together at most."""

    def serve(
        self,
        poll: Callable[[], Sequence[tuple[Any, Request]]],
        deliver: Callable[[Any, Generation], None],
        *,
        stop_tokens: set[int],
        temperature: float = 1.0,
    ) -> None: ...


def generate_all(
    engine: Engine,
    contexts: Sequence[Sequence[int]],
    *,
    seeds: Sequence[int],
    max_new_tokens: int,
    stop_tokens: set[int],
    temperature: float = 1.0,
    max_total_tokens: int | None = None,
) -> list[Generation]:
    """Sample one continuation per context, all at once.

    A continuation ends with a stop token (included, `stopped`), after `max_new_tokens`, or when context and
    continuation have `max_total_tokens` together (default, and at most: the engine's longest); a context that is
    already that long gets an empty one. Every tensor-parallel rank and pipeline stage must call it with the same
    arguments. The same seed gives the same continuation whatever else is in the batch, up to rounding; another engine
    gives another.
    """
    total = min(max_total_tokens or engine.longest, engine.longest)
    results: dict[int, Generation] = {}
    arrivals = [
        [
            (number, Request(context, seed, min(max_new_tokens, total - len(context))))
            for number, (context, seed) in enumerate(zip(contexts, seeds, strict=True))
        ]
    ]
    engine.serve(
        lambda: arrivals.pop() if arrivals else [],
        results.__setitem__,
        stop_tokens=stop_tokens,
        temperature=temperature,
    )
    return [results[number] for number in range(len(contexts))]


Poll = Callable[[], list[tuple[int, list[int], int]]]
Deliver = Callable[[int, Generation], None]
Serve = Callable[[Poll, Deliver], None]
"""Blocking: `serve(poll, deliver)` generates for whatever `poll` brings, each (number, context, seed), and gives every
number its action as soon as it has ended; returns when nothing is left. `poll` is asked again and again meanwhile."""

Generate = Callable[[list[list[int]], list[int]], list[Generation]]
"""Blocking: (contexts, one seed per context) -> one action per context."""


def in_batches(generate: Generate) -> Serve:
    """Serve with an engine that only knows whole batches."""

    def serve(poll: Poll, deliver: Deliver) -> None:
        while batch := poll():
            answers = generate([context for _, context, _ in batch], [seed for *_, seed in batch])
            for (number, *_), generation in zip(batch, answers, strict=True):
                deliver(number, generation)

    return serve


@dataclass(frozen=True)
class EpisodeSpec:
    id: str
    task: PublicTask
    seed: int


@dataclass
class RolloutStats:
    generated_tokens: int = 0
    generate_s: float = 0.0
    wall_s: float = 0.0
    commands: int = 0
    command_s: list[float] = field(default_factory=list)


class Batcher:
    """Collects contexts of waiting episodes and runs the engine for them, in a worker thread.

    The engine starts when at least half of the episodes that have a sandbox are waiting; the other half uses theirs
    meanwhile. While it runs, whoever comes joins, up to `max_batch` at once. Episodes that still wait for a sandbox do
    not count: they may only get one when others end.
    """

    def __init__(self, serve: Serve, max_batch: int) -> None:
        self._serve = serve
        self._max_batch = max_batch
        self._waiting: deque[tuple[int, list[int], int]] = deque()
        self._futures: dict[int, asyncio.Future[Generation]] = {}
        self._numbers = itertools.count()
        self._running = 0
        """Requests that the engine has; only its thread counts."""
        self._changed = asyncio.Event()
        self.playing = 0
        self.stats = RolloutStats()

    async def sample(self, context: list[int], seed: int) -> Generation:
        number = next(self._numbers)
        future = self._futures[number] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, list(context), seed))
        self._changed.set()
        return await future

    def joined(self) -> None:
        """An episode got its sandbox."""
        self.playing += 1

    def left(self) -> None:
        """An episode with a sandbox ended."""
        self.playing -= 1
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting and 2 * len(self._waiting) >= min(self.playing, 2 * self._max_batch):
                await self._generate()

    async def _generate(self) -> None:
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        self._running = 0

        def poll() -> list[tuple[int, list[int], int]]:
            taken: list[tuple[int, list[int], int]] = []
            while self._waiting and self._running < self._max_batch:
                taken.append(self._waiting.popleft())
                self._running += 1
            return taken

        def deliver(number: int, generation: Generation) -> None:
            self._running -= 1
            loop.call_soon_threadsafe(self._answer, number, generation)

        try:
            await asyncio.to_thread(self._serve, poll, deliver)
        except BaseException as error:
            self._waiting.clear()
            for future in self._futures.values():
                if not future.done():
                    future.set_exception(error)
            self._futures.clear()
            if not isinstance(error, Exception):
                raise
        finally:
            self.stats.generate_s += time.monotonic() - started

    def _answer(self, number: int, generation: Generation) -> None:
        self.stats.generated_tokens += len(generation.tokens)
        future = self._futures.pop(number, None)
        if future is not None and not future.done():
            future.set_result(generation)


class Rollout:
    def __init__(
        self,
        serve: Serve,
        codec: Codec,
        sessions: Sessions,
        config: RolloutConfig,
        reward: RewardConfig,
        *,
        version: int = 0,
    ) -> None:
        self._codec = codec
        self._sessions = sessions
        self._config = config
        self._reward = reward
        self._version = version
        self._batcher = Batcher(serve, config.generate_batch)

    async def play(self, specs: Sequence[EpisodeSpec]) -> tuple[list[Episode], RolloutStats]:
        """Play all episodes to their end, in the order of `specs`."""
        started = time.monotonic()
        engine = asyncio.create_task(self._batcher.run())
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.play_one(spec)) for spec in specs]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            engine.cancel()
        self._batcher.stats.wall_s = time.monotonic() - started
        return [task.result() for task in tasks], self._batcher.stats

    async def generate(self) -> None:
        """Generate for whatever `play_one` asks for, until cancelled."""
        await self._batcher.run()

    def take_stats(self) -> RolloutStats:
        """What happened since the last call."""
        stats, self._batcher.stats = self._batcher.stats, RolloutStats()
        return stats

    async def play_one(self, spec: EpisodeSpec) -> Episode:
        """Play one episode to its end, while `generate` runs."""
        task = spec.task
        prompt = self._codec.prompt(task_prompt(task, max_bytes=self._config.prompt_bytes))
        episode = Episode(
            id=spec.id,
            suite=task.suite,
            task=task.task,
            seed=spec.seed,
            tokens=[],
            action_mask=[],
            logprobs=[],
            versions=[],
        )
        episode.append(prompt, sampled=False)
        session: SessionHandle | None = None
        try:
            session = await self._sessions.open(
                spec.id,
                task.suite,
                task.task,
                max_tests=self._config.max_tests,
                oracle_calls=self._config.oracle_calls,
            )
            self._batcher.joined()
            try:
                await self._turns(episode, spec, session)
            finally:
                self._batcher.left()
            reply = await session.result()
            session = None
        except SandboxUnavailable as error:
            log.warning("episode %s: sandbox lost: %s", spec.id, error)
            episode.status = "sandbox_error"
            return episode
        finally:
            if session is not None:
                await _quietly(session.close())
        episode.result = reply.result
        episode.canary = episode.canary or reply.canary
        episode.blocked_actions = reply.blocked_actions
        episode.oracle_calls = reply.oracle_calls
        episode.reward = terminal_reward(episode, self._reward)
        return episode

    async def _turns(self, episode: Episode, spec: EpisodeSpec, session: SessionHandle) -> None:
        config = self._config
        max_steps = config.max_steps or spec.task.max_steps
        for number in range(max_steps):
            room = config.context_tokens - len(episode.tokens)
            generation = await self._batcher.sample(episode.tokens, step_seed(spec.seed, number))
            tokens, logprobs = generation.tokens[:room], generation.logprobs[:room]
            start = len(episode.tokens)
            version = self._version if generation.version is None else generation.version
            episode.append(tokens, sampled=True, logprobs=logprobs, version=version)
            text = self._codec.decode(tokens)
            parsed = parse(text)
            step = Step(action_start=start, action_end=len(episode.tokens), text=text, call=parsed.call)
            episode.steps.append(step)
            if parsed.call == "done":
                episode.status = "done"
                return
            shown = await self._execute(step, number, parsed.action, parsed.error, session)
            step.shown = shown
            if step.test is not None and step.test.total and step.test.passed == step.test.total:
                episode.status = "done"
                return
            stopped = generation.stopped and len(tokens) == len(generation.tokens)
            observation = self._codec.observation(shown, stopped=stopped)
            if number + 1 == max_steps or len(episode.tokens) + len(observation) + MIN_ACTION > config.context_tokens:
                break
            episode.append(observation, sampled=False)
        episode.status = "truncated"

    async def _execute(
        self, step: Step, number: int, action: Action | None, error: str, session: SessionHandle
    ) -> bytes:
        limit = self._config.observation_bytes
        if step.call == "invalid":
            step.format_error = error
            return error.encode()
        if step.call == "test":
            tested = await session.test(number)
            step.test = None if tested.refused else tested.result
            return test_text(tested.result, refused=tested.refused, limit=limit)
        assert action is not None
        step.action = action
        reply = await session.submit(number, action)
        step.observation, step.verdict = reply.observation, reply.verdict
        step.canary, step.wall_s = reply.canary, reply.wall_s
        if not (reply.verdict.decision == "block" and reply.verdict.enforced):  # else nothing has run
            self._batcher.stats.commands += 1
            self._batcher.stats.command_s.append(reply.wall_s)
        return observation_text(reply.observation, limit)


async def _quietly(call: Awaitable[None]) -> None:
    """Give a session back on the way out of an error; a second failure must not hide the first."""
    try:
        await call
    except Exception as error:
        log.debug("closing a session failed: %s", error)


def check_prompts(tasks: Sequence[PublicTask], codec: Codec, config: RolloutConfig) -> None:
    """Refuse, before anything is played, a task whose prompt leaves no room to act in."""
    for task in tasks:
        length = len(codec.prompt(task_prompt(task, max_bytes=config.prompt_bytes)))
        if length + MIN_ACTION > config.context_tokens:
            raise EctypeError(
                f"the prompt of task {task.task} has {length} tokens and leaves no room to act",
                where=f"rollout.context_tokens: {config.context_tokens}",
                remedy="raise rollout.context_tokens, lower rollout.prompt_bytes, or choose other tasks",
            )


def terminal_reward(episode: Episode, config: RewardConfig) -> float:
    """Reward of a graded episode (T2): 1 if every hidden test passes, or the share that passes."""
    assert episode.result is not None
    if config.kind == "fraction":
        return episode.result.pass_rate
    return 1.0 if episode.solved else 0.0


def step_seed(seed: int, step: int) -> int:
    """Seed of one action: the same episode seed gives the same stream whatever else is in its batch."""
    return zlib.crc32(b"%d:%d" % (seed, step))
