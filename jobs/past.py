"""The episodes of a run as they are on record, and the context in which a worker judged each of their actions.

In goes a run folder; out come `Episode` records of `episodes/`, and `Past` actions that can be judged again. What a
worker knew beyond the record (decoys that were opened) is taken from the audit log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from audit.events import read_events
from detect.rule_diff import Past
from jobs.run_dir import RunDir
from queues.context import EpisodeContext, Observed
from queues.messages import Action, Verdict
from rl.episode import Episode
from sandbox.session import observed_after

Opened = frozenset[tuple[str, int]]
"""(episode, step) of actions that opened a decoy."""


def episode_files(run: RunDir) -> list[Path]:
    """Files of episodes, oldest first. Raises EctypeError when there is none."""
    files = sorted(run.episodes.glob("step-*.msgpack"))
    if not files:
        raise EctypeError(
            "no episode is on record yet",
            where=str(run.episodes),
            remedy="wait for the first step of the run (trainer.save_episodes_every says which steps are kept)",
        )
    return files


def read_episodes(file: Path) -> list[Episode]:
    try:
        return msgspec.msgpack.decode(file.read_bytes(), type=list[Episode])
    except msgspec.DecodeError as error:
        raise EctypeError(
            f"damaged file of episodes: {error}", where=str(file), remedy="restore or remove it"
        ) from error


def opened_decoys(run: RunDir) -> Opened:
    canaries = read_events(run.audit, containing=b'"kind":"canary"')
    return frozenset((event.episode, event.step) for event in canaries if event.data.get("place") == "file")


def past_of(episode: Episode, opened: Opened = frozenset()) -> Iterator[Past]:
    """The judged actions of an episode, each with what the worker knew when it judged it."""
    history: list[tuple[Action, Verdict]] = []
    observed = Observed()
    for number, step in enumerate(episode.steps):
        if step.action is None or step.verdict is None:
            continue
        context = EpisodeContext(
            episode=episode.id,
            suite=episode.suite,
            task=episode.task,
            step=number,
            history=list(history),
            observed=observed,
        )
        yield Past(action=step.action, context=context, verdict=step.verdict)
        history.append((step.action, step.verdict))
        if step.observation is not None and not step.verdict.enforced:
            observed = observed_after(
                observed,
                step.action,
                status=step.observation.status,
                stdout=step.observation.stdout,
                stderr=step.observation.stderr,
                canary=step.canary,
                opened=(episode.id, number) in opened,
            )
