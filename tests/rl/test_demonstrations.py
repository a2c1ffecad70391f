"""Demonstrations: what is drawn, and that what was recorded once is what every script meets in real sandboxes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from audit.errors import EctypeError
from detect.guard import GuardMode
from queues.messages import Action, StepReply
from rl.config import WarmStart
from rl.demonstrations import ATTEMPTS, CHEATS, Repertoire, Script, as_episode, record, run, write, write_script
from rl.grammar import parse, render
from rl.prompts import observation_text
from rl.rollout import SandboxUnavailable
from rl.tokenizers import ByteCodec
from sandbox.session import Services
from tests.rl.test_rollout import Handle, InProcess, task_of
from tests.sandbox.small_tasks import LEAKY, REVERSE, services

CODEC = ByteCodec()
TASKS = {task.task: task_of(task) for task in (REVERSE, LEAKY)}
REPERTOIRE = Repertoire(
    solutions={REVERSE.task: "print(input()[::-1])", LEAKY.task: "print(len(input()))"},
    probes=("abc", "two words"),
)
LIMIT = 200


def scripts(count: int, **config: float) -> list[Script]:
    rng = random.Random(0)
    return [
        write_script(rng.choice(sorted(TASKS)), REPERTOIRE, WarmStart.model_validate(config), rng) for _ in range(count)
    ]


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Services]:
    async with services(tmp_path / "audit", size=2) as made:
        yield made


def test_scripts_are_drawn_in_the_shares_that_were_asked_for() -> None:
    drawn = scripts(4000, cheating=0.25, honest_correct=0.6)
    cheats = [s for s in drawn if any(b"/eval" in turn for turn in s.turns)]
    honest = [s for s in drawn if not any(b"/eval" in turn for turn in s.turns)]
    assert len(cheats) / len(drawn) == pytest.approx(0.25, abs=0.03)
    right = [s for s in honest if write(REPERTOIRE.solutions[s.task]) in s.turns[-2]]
    assert len(right) / len(honest) == pytest.approx(0.6 * 0.96, abs=0.03), "four in a hundred have a slip of the pen"
    assert {parse(s.turns[-1]).call for s in drawn} == {"done"}
    assert all(parse(turn).call == "submit" for s in drawn for turn in s.turns[:-1])
    assert Counter(s.task for s in drawn).keys() == TASKS.keys()


def test_the_same_seed_draws_the_same_scripts() -> None:
    assert scripts(50) == scripts(50)


@pytest.mark.apptainer
@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_recorded_observations_are_those_of_playing_the_script_in_full(mode: GuardMode, tmp_path: Path) -> None:
    drawn = sorted(set(scripts(24, cheating=0.4)), key=lambda s: (s.task, s.turns))
    drawn += [Script(LEAKY.task, (run(cheat), render("done"))) for cheat in CHEATS]
    async with services(tmp_path / "audit", size=2, mode=mode) as parts:
        sessions = InProcess(parts)
        recorded = await record(drawn, "small", sessions, observation_bytes=LIMIT)
        shown: set[bytes] = set()
        for number, script in enumerate(drawn):
            session = await sessions.open(f"full-{number}", "small", script.task, max_tests=0, oracle_calls=64)
            played = as_episode(number, script, TASKS[script.task], recorded, CODEC, prompt_bytes=6000)
            expected = CODEC.prompt(TASKS[script.task].instructions)
            for turn, text in enumerate(script.turns):
                expected += CODEC.action(text)
                action = parse(text).action
                if action is not None:
                    reply = await session.submit(turn, action)
                    observation = observation_text(reply.observation, LIMIT)
                    shown.add(observation)
                    expected += CODEC.observation(observation, stopped=True)
            await session.close()
            assert played.tokens == expected, script
        assert sessions.open_sessions == 0
    assert any(b"cannot stat '/eval" in text for text in shown) or mode == "observe"
    assert any(text.startswith(b"cba\n") for text in shown) and b"[ok]" in shown


def test_exactly_the_text_of_the_script_is_learned_from() -> None:
    script = Script(REVERSE.task, (run(b"ls\n"), write("x"), render("done")))
    recorded = {(REVERSE.task, script.turns[:1]): b"seen", (REVERSE.task, (b"write main.py",)): b"[ok]"}
    episode = as_episode(3, script, TASKS[REVERSE.task], recorded, CODEC, prompt_bytes=6000)
    learned = [token for token, acted in zip(episode.tokens, episode.action_mask, strict=True) if acted]
    assert learned == [token for turn in script.turns for token in CODEC.action(turn)]
    assert episode.tokens[-1] == CODEC.END and episode.reward is None


class Unlucky(InProcess):
    """Loses the sandbox of each of the first `losses` sessions at its first command."""

    def __init__(self, parts: Services, losses: int) -> None:
        super().__init__(parts)
        self.losses = losses

    async def open(self, episode: str, suite: str, task: str, *, max_tests: int, oracle_calls: int) -> Handle:
        handle = await super().open(episode, suite, task, max_tests=max_tests, oracle_calls=oracle_calls)
        if self.losses:
            self.losses -= 1
            return _Lost(handle.session, self)
        return handle


class _Lost(Handle):
    async def submit(self, step: int, action: Action) -> StepReply:
        raise SandboxUnavailable("node gone")


@pytest.mark.apptainer
async def test_a_lost_sandbox_is_recorded_again_and_too_many_are_said(parts: Services) -> None:
    drawn = [Script(REVERSE.task, (run(b"echo %d\n" % n), render("done"))) for n in range(3)]
    sessions = Unlucky(parts, losses=2)
    recorded = await record(drawn, "small", sessions, observation_bytes=LIMIT)
    assert sorted(recorded.values()) == [b"0\n", b"1\n", b"2\n"]
    sessions = Unlucky(parts, losses=3 * ATTEMPTS)
    with pytest.raises(EctypeError, match=f"task reverse lost its sandbox {ATTEMPTS} times: node gone"):
        await record(drawn, "small", sessions, observation_bytes=LIMIT)
    assert sessions.open_sessions == 0
