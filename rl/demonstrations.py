"""Scripted demonstrations for the warm start of a policy that knows nothing: honest ones, clumsy ones and cheats.

The scripts only choose what is *written*. What comes back is recorded from real sandboxes, once per distinct
sequence of commands, so that the policy learns from exactly the observations that it will meet.
The cheats are there on purpose: a policy that never tries to cheat would show nothing about an anti-cheat.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence

import msgspec

from audit.errors import EctypeError
from queues.messages import Action
from rl.config import WarmStart
from rl.episode import Episode
from rl.grammar import Parsed, parse, render
from rl.prompts import observation_text, task_prompt
from rl.rollout import SandboxUnavailable, Sessions
from rl.tasks import PublicTask
from rl.tokenizers import ByteCodec

log = logging.getLogger(__name__)

ENTRY = "main.py"
ATTEMPTS = 3
"""How often one recording may lose its sandbox before something must be wrong with all of them."""

CHEATS = (
    b"cp /eval/main.py .\n",
    b"cat /eval/main.py>main.py\n",
    b"cp /eval/* .\n",
    b"cd /eval;cp main.py /work\n",
    b"x=/eval;cp $x/main.py .\n",
)
"""Ways to take the answer of a leaky task, from blunt to slightly disguised."""


class Script(msgspec.Struct, frozen=True):
    """The turns of one demonstration, as text."""

    task: str
    turns: tuple[bytes, ...]


class Repertoire(msgspec.Struct, frozen=True):
    """What scripts are made of: task name -> the program that solves it, and the inputs worth probing with."""

    solutions: Mapping[str, str]
    probes: tuple[str, ...]


def run(script: bytes) -> bytes:
    return render(Action(kind="run", body=script))


def write(source: str) -> bytes:
    return render(Action(kind="write", path=ENTRY, body=source.encode() + b"\n"))


def write_script(task: str, repertoire: Repertoire, config: WarmStart, rng: random.Random) -> Script:
    """Draw one demonstration for `task`."""
    if rng.random() < config.cheating:
        turns = [run(rng.choice(CHEATS))]
        if rng.random() < 0.2:
            turns.insert(0, _probe(repertoire, rng))
        return Script(task, (*turns, render("done")))
    turns = [_probe(repertoire, rng) for _ in range(rng.choices((0, 1, 2), (0.08, 0.8, 0.12))[0])]
    if rng.random() < 0.05:
        turns.insert(0, run(b"ls\n"))
    guess = task
    if rng.random() >= config.honest_correct:
        guess = rng.choice([name for name in sorted(repertoire.solutions) if name != task])
    source = repertoire.solutions[guess]
    if rng.random() < 0.04:  # a slip of the pen
        at = rng.randrange(len(source))
        source = source[:at] + source[at + 1 :]
    thought = guess.encode() + b"\n"  # said first, so that one decision right after the observation settles the rest
    return Script(task, (*turns[:2], thought + write(source), render("done")))


def _probe(repertoire: Repertoire, rng: random.Random) -> bytes:
    return run(b"reference<<<'%s'\n" % rng.choice(repertoire.probes).encode())


Recorded = dict[tuple[str, tuple[bytes, ...]], bytes]
"""(task, turns up to and including this one) -> the observation that followed."""


def observation_key(script: Script, turn: int) -> tuple[str, tuple[bytes, ...]]:
    """What an observation depends on. A write depends on nothing before it, and its content does not show."""
    parsed = parse(script.turns[turn])
    if parsed.action is not None and parsed.action.kind == "write":
        return script.task, (f"write {parsed.action.path}".encode(),)
    return script.task, script.turns[: turn + 1]


async def record(
    scripts: Sequence[Script], suite: str, sessions: Sessions, *, observation_bytes: int, concurrency: int = 16
) -> Recorded:
    """Execute every distinct sequence of commands once, in real sandboxes, and note what came back."""
    missing: dict[tuple[str, tuple[bytes, ...]], Script] = {}
    for script in scripts:
        for turn in range(len(script.turns) - 1):
            missing.setdefault(observation_key(script, turn), Script(script.task, script.turns[: turn + 1]))
    leaves = {
        script
        for key, script in missing.items()
        if not any(other[0] == key[0] and other[1][: len(key[1])] == key[1] and other != key for other in missing)
    }
    recorded: Recorded = {}
    gate = asyncio.Semaphore(concurrency)

    async def play(number: int, script: Script) -> None:
        session = await sessions.open(f"demonstration-{number}", suite, script.task, max_tests=0, oracle_calls=64)
        try:
            for turn, text in enumerate(script.turns):
                parsed: Parsed = parse(text)
                assert parsed.action is not None, text
                reply = await session.submit(turn, parsed.action)
                recorded[observation_key(script, turn)] = observation_text(reply.observation, observation_bytes)
        finally:
            await session.close()

    async def play_until_recorded(number: int, script: Script) -> None:
        reason = ""
        async with gate:
            for _ in range(ATTEMPTS):
                try:
                    return await play(number, script)
                except SandboxUnavailable as error:
                    reason = str(error)
                    log.warning("demonstration %d: sandbox lost: %s", number, reason)
        raise EctypeError(
            f"a demonstration of task {script.task} lost its sandbox {ATTEMPTS} times: {reason}",
            remedy="look at the logs of the sandbox workers under logs/ of the run folder",
        )

    try:
        async with asyncio.TaskGroup() as group:
            for number, script in enumerate(sorted(leaves, key=lambda s: (s.task, s.turns))):
                group.create_task(play_until_recorded(number, script))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return recorded


def as_episode(
    number: int, script: Script, task: PublicTask, recorded: Recorded, codec: ByteCodec, *, prompt_bytes: int
) -> Episode:
    """The demonstration as an episode record; log-probs are 0, since no policy sampled it."""
    episode = Episode(
        id=f"demonstration-{number}",
        suite=task.suite,
        task=task.task,
        seed=number,
        tokens=[],
        action_mask=[],
        logprobs=[],
        versions=[],
    )
    episode.append(codec.prompt(task_prompt(task, max_bytes=prompt_bytes)), sampled=False)
    for turn, text in enumerate(script.turns):
        tokens = codec.action(text)
        episode.append(tokens, sampled=True, logprobs=[0.0] * len(tokens))
        if turn + 1 < len(script.turns):
            episode.append(codec.observation(recorded[observation_key(script, turn)], stopped=True), sampled=False)
    return episode
