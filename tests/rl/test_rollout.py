"""The rollout driver with scripted actions, in real sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from audit.errors import EctypeError
from queues.messages import Action, OpenSession, Refused, Result, ResultReply, StepReply, Submit, Test, TestReply
from rl.config import RewardConfig, RolloutConfig
from rl.episode import Episode
from rl.rollout import (
    Batcher,
    EpisodeSpec,
    Generation,
    Rollout,
    SandboxUnavailable,
    check_prompts,
    in_batches,
    step_seed,
)
from rl.tasks import PublicTask
from rl.tokenizers import ByteCodec
from sandbox.hidden import HiddenTask
from sandbox.session import Services, Session
from tests.sandbox.small_tasks import LEAKY, REVERSE, SOLUTION, services

pytestmark = pytest.mark.apptainer

CODEC = ByteCodec()
WRITE = b"```write main.py\n" + SOLUTION + b"```"
DONE = b"```done\n```"


def task_of(hidden: HiddenTask, max_steps: int = 4) -> PublicTask:
    return PublicTask(
        suite=hidden.suite,
        task=hidden.task,
        instructions="Rebuild it.",
        examples=(),
        build_hint="",
        max_steps=max_steps,
        entry="main.py",
    )


class InProcess:
    """`rl.rollout.Sessions` over sandbox sessions in this process. `lose_at`: the step at which a sandbox dies."""

    def __init__(self, parts: Services, *, lose_at: int | None = None) -> None:
        self.parts = parts
        self.lose_at = lose_at
        self.open_sessions = 0

    async def open(self, episode: str, suite: str, task: str, *, max_tests: int, oracle_calls: int) -> Handle:
        hidden = {t.task: t for t in (REVERSE, LEAKY)}[task]
        request = OpenSession(
            request_id="r", episode=episode, suite=suite, task=task, max_tests=max_tests, oracle_calls=oracle_calls
        )
        session = Session(request, hidden, self.parts)
        await session.open()
        self.open_sessions += 1
        return Handle(session, self)


class Handle:
    def __init__(self, session: Session, owner: InProcess) -> None:
        self.session = session
        self.owner = owner
        self._over = False

    def _end(self) -> None:
        """It is over once, though it be closed because its grading was broken off."""
        self.owner.open_sessions -= not self._over
        self._over = True

    async def submit(self, step: int, action: Action) -> StepReply:
        if step == self.owner.lose_at:
            raise SandboxUnavailable("node gone")
        reply = await self.session.submit(Submit(request_id="r", episode="e", step=step, action=action))
        assert not isinstance(reply, Refused)
        return reply

    async def test(self, step: int) -> TestReply:
        reply = await self.session.test(Test(request_id="r", episode="e", step=step))
        assert not isinstance(reply, Refused)
        return reply

    async def result(self) -> ResultReply:
        self._end()
        reply = await self.session.result(Result(request_id="r", episode="e"))
        assert not isinstance(reply, Refused)
        return reply

    async def close(self) -> None:
        self._end()
        await self.session.close(why="test")


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Services]:
    async with services(tmp_path / "audit", size=2) as made:
        yield made


class Script:
    """Answers every context with the next scripted action of its episode, found by the number of actions so far."""

    def __init__(self, *turns: bytes, stopped: bool = True) -> None:
        self.turns = turns
        self.stopped = stopped
        self.batches: list[int] = []

    def __call__(self, contexts: list[list[int]], seeds: list[int]) -> list[Generation]:
        assert len(contexts) == len(seeds)
        self.batches.append(len(contexts))
        out = []
        for context in contexts:
            text = self.turns[context.count(CODEC.ACT) - 1]
            tokens = CODEC.action(text) if self.stopped else list(text)
            out.append(Generation(tokens=tokens, logprobs=[-0.5] * len(tokens), stopped=self.stopped))
        return out


async def play(
    parts: Services, script: Script, *, hidden: HiddenTask = REVERSE, count: int = 1, sessions=None, **config
) -> list[Episode]:
    sessions = sessions or InProcess(parts)
    rollout = Rollout(in_batches(script), CODEC, sessions, RolloutConfig(**config), RewardConfig(), version=7)
    specs = [EpisodeSpec(id=f"e{n}", task=task_of(hidden), seed=n) for n in range(count)]
    episodes, stats = await rollout.play(specs)
    assert sessions.open_sessions == 0, "every session is given back"
    assert stats.generated_tokens >= sum(sum(e.action_mask) for e in episodes)
    return episodes


async def test_an_honest_episode_is_recorded_token_by_token(parts: Services) -> None:
    script = Script(b"```sh\nprintf abc | reference\n```", WRITE, DONE)
    (episode,) = await play(parts, script)
    assert (episode.status, episode.reward, episode.solved, episode.cheated) == ("done", 1.0, True, False)
    assert episode.oracle_calls == 1
    assert [s.call for s in episode.steps] == ["submit", "submit", "done"]
    assert episode.steps[0].shown.startswith(b"cba\n")
    for step in episode.steps:
        span = slice(step.action_start, step.action_end)
        assert CODEC.decode(episode.tokens[span]) == step.text
        assert episode.action_mask[span] == [1] * (step.action_end - step.action_start)
        assert set(episode.logprobs[span]) == {-0.5} and set(episode.versions[span]) == {7}
    outside = [i for i, m in enumerate(episode.action_mask) if not m]
    assert all(episode.logprobs[i] == 0 and episode.versions[i] == -1 for i in outside)
    assert sum(episode.action_mask) == sum(s.action_end - s.action_start for s in episode.steps)


async def test_many_at_once_share_batches(parts: Services) -> None:
    script = Script(WRITE, DONE)
    episodes = await play(parts, script, count=5)
    assert [e.reward for e in episodes] == [1.0] * 5
    assert [e.id for e in episodes] == [f"e{n}" for n in range(5)]
    assert sum(script.batches) == 10


async def test_a_batch_starts_when_half_of_those_with_a_sandbox_wait() -> None:
    script = Script(DONE)
    batcher = Batcher(in_batches(script), max_batch=8)
    for _ in range(4):
        batcher.joined()
    context = CODEC.prompt("x")
    engine = asyncio.create_task(batcher.run())
    try:
        first = asyncio.create_task(batcher.sample(context, 1))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not script.batches, "one of four is not half of them"
        second = asyncio.create_task(batcher.sample(context, 2))
        await asyncio.gather(first, second)
        assert script.batches == [2]
        third = asyncio.create_task(batcher.sample(context, 3))
        for _ in range(2):
            batcher.left()
        await third
        assert script.batches == [2, 1], "those that left are not waited for"
    finally:
        engine.cancel()


async def test_mistakes_cost_a_step_and_reach_no_sandbox(parts: Services) -> None:
    script = Script(b"hello", b"```sh\nls", b"```nonsense\n```", b"```sh\nfalse\n```")
    (episode,) = await play(parts, script)
    assert (episode.status, episode.reward) == ("truncated", 0.0)
    assert [s.call for s in episode.steps] == ["invalid", "invalid", "invalid", "submit"]
    assert episode.steps[0].shown.startswith(b"format error: no block")
    assert not episode.action_mask[-1] or episode.tokens[-1] == CODEC.END


async def test_work_is_graded_where_it_ends(parts: Services) -> None:
    (episode,) = await play(parts, Script(WRITE, WRITE), max_steps=2)
    assert (episode.status, episode.reward) == ("truncated", 1.0)


async def test_test_shows_counts_and_ends_when_all_pass(parts: Services) -> None:
    script = Script(b"```write main.py\nprint(input())\n```", b"```test\n```", WRITE, b"```test\n```")
    (episode,) = await play(parts, script, max_tests=2)
    assert episode.steps[1].shown == b"[0 of 4 hidden tests pass]"
    assert (episode.status, len(episode.steps), episode.reward) == ("done", 4, 1.0)
    (episode,) = await play(parts, Script(WRITE, b"```test\n```", DONE), max_tests=0)
    assert episode.steps[1].shown.startswith(b"[no tests left")


async def test_a_blocked_cheat_gets_an_ordinary_failure(parts: Services) -> None:
    script = Script(b"```sh\ncp /eval/main.py .\n```", DONE)
    rollout = Rollout(in_batches(script), CODEC, InProcess(parts), RolloutConfig(), RewardConfig())
    (episode,), stats = await rollout.play([EpisodeSpec(id="e", task=task_of(LEAKY), seed=0)])
    assert (stats.commands, stats.command_s) == (0, []), "nothing ran"
    step = episode.steps[0]
    assert step.verdict is not None and step.verdict.enforced and step.verdict.rules
    assert step.shown == b"cp: cannot stat '/eval/main.py': No such file or directory\n[exit 1]"
    assert (episode.cheated, episode.blocked_actions, episode.reward) == (True, 1, 0.0)


async def test_a_lost_sandbox_is_no_failure_of_the_policy(parts: Services) -> None:
    sessions = InProcess(parts, lose_at=1)
    episodes = await play(parts, Script(WRITE, WRITE, DONE), sessions=sessions, count=2)
    assert [(e.status, e.reward, e.result) for e in episodes] == [("sandbox_error", None, None)] * 2


async def test_an_error_of_the_engine_reaches_the_caller_and_no_session_stays(parts: Services) -> None:
    def broken(contexts: list[list[int]], seeds: list[int]) -> list[Generation]:
        raise FloatingPointError("engine")

    sessions = InProcess(parts)
    rollout = Rollout(in_batches(broken), CODEC, sessions, RolloutConfig(), RewardConfig())
    with pytest.raises(FloatingPointError):
        await rollout.play([EpisodeSpec(id=f"e{n}", task=task_of(REVERSE), seed=n) for n in range(3)])
    assert sessions.open_sessions == 0


async def test_the_context_is_never_exceeded(parts: Services) -> None:
    script = Script(b"```sh\nseq 100\n```", b"```sh\nseq 100\n```", DONE)
    (episode,) = await play(parts, script, context_tokens=120)
    assert len(episode.tokens) <= 120
    assert episode.status == "truncated" and episode.reward == 0.0
    (episode,) = await play(parts, Script(b"x" * 300, stopped=False), context_tokens=64)
    assert len(episode.tokens) == 64 and len(episode.steps) == 1


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(EctypeError) as caught:
        check_prompts([task_of(REVERSE)], CODEC, RolloutConfig(context_tokens=20, max_new_tokens=4))
    assert "reverse" in caught.value.what
    assert "rollout.context_tokens: 20" in caught.value.where
    assert "rollout.prompt_bytes" in caught.value.remedy
    check_prompts([task_of(REVERSE)], CODEC, RolloutConfig(context_tokens=29, max_new_tokens=4))


def test_seeds_of_steps_differ() -> None:
    seeds = {step_seed(seed, step) for seed in range(50) for step in range(50)}
    assert len(seeds) == 2500
