"""The training loop: play episodes, learn from them, write down what happened, be ready to be killed.

In: a `LearnConfig`, tasks, sessions to play in, and a run directory. Out, in that directory: `metrics/trainer.jsonl`
(one line per step), `episodes/` (readable), `checkpoints/`. Everything that a resumed trainer needs is in the newest
complete checkpoint; a step is either in it with its metrics, or is played again from the same seeds.
Whether episodes are played while the trainer learns is decided in `rl.play`. What this does not do: restore the sandbox
of an episode in flight (the episode is played again).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from audit.errors import EctypeError
from audit.metrics import MetricsLog
from rl import checkpoint
from rl.config import LearnConfig, ReviewPolicy
from rl.demonstrations import Repertoire, as_episode, record, write_script
from rl.episode import Episode
from rl.learner import Learner
from rl.play import InTurns, Overlapped, Player
from rl.replay import Record, ReplayBuffer, ReplayState, Reviewer
from rl.rollout import RolloutStats, Sessions, check_prompts
from rl.stream import ReviewAhead, StreamState
from rl.tasks import PublicTask
from rl.tensorboard import Board
from rl.tokenizers import ByteCodec

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often a step may lose every one of its episodes before something must be wrong with the sandboxes."""


class TrainerState(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a checkpoint holds beside models and optimizers. `step` PPO steps are done."""

    step: int
    episodes: int
    discarded: int
    seed: int
    replay: ReplayState = ReplayState()
    stream: StreamState = StreamState()


class Review(NamedTuple):
    """Stage 2 of the anti-cheat, as the training loop needs it."""

    policy: ReviewPolicy
    reviewer: Reviewer
    record: Record


def train(
    config: LearnConfig,
    *,
    tasks: Sequence[PublicTask],
    sessions: Sessions,
    run_dir: Path,
    should_stop: Callable[[], bool],
    repertoire: Repertoire | None = None,
    review: Review | None = None,
) -> bool:
    """Train to `config.trainer.steps`. Returns True when done, False when `should_stop` ended it early.

    With `review`, episodes are trained on when their verdicts are in. Stopping early saves a checkpoint first.
    Raises `EctypeError` for what the user must change.
    """
    tasks = choose_tasks(tasks, config.tasks)
    learner = Learner(config, server_log=run_dir / "logs" / "vllm" / "server.log")
    if learner.rank > 0:
        learner.follow()
        return True
    try:
        check_prompts(tasks, learner.codec, config.rollout)
        done = asyncio.run(_train(config, learner, tasks, sessions, run_dir, should_stop, repertoire, review))
    finally:
        learner.close()
    # not after an error: followers may be waiting inside a collective, and are ended with this process
    learner.release_followers()
    return done


def choose_tasks(tasks: Sequence[PublicTask], names: Sequence[str] | None) -> list[PublicTask]:
    if names is None:
        return list(tasks)
    by_name = {task.task: task for task in tasks}
    unknown = sorted(set(names) - set(by_name))
    if unknown:
        raise EctypeError(
            f"unknown task {', '.join(map(repr, unknown))}",
            where="tasks",
            remedy=f"choose among: {', '.join(sorted(by_name))}",
        )
    return [by_name[name] for name in names]


async def _train(
    config: LearnConfig,
    learner: Learner,
    tasks: list[PublicTask],
    sessions: Sessions,
    run_dir: Path,
    should_stop: Callable[[], bool],
    repertoire: Repertoire | None,
    review: Review | None = None,
) -> bool:
    checkpoints = run_dir / "checkpoints"
    state = TrainerState(step=0, episodes=0, discarded=0, seed=config.seed)
    newest = checkpoint.latest(checkpoints)
    if newest is not None:
        state = msgspec.msgpack.decode(learner.load(newest), type=TrainerState)
        log.info("resumed at step %d from %s", state.step, newest.name)
    else:
        await _prepare(config, learner, tasks, sessions, run_dir, repertoire)
    if config.policy.kind == "tiny" and learner.reference is not None:
        learner.load_reference(run_dir / "warm_start")
    journal = _Journal(config, run_dir, resumed_step=state.step)
    keep = config.trainer.keep_checkpoints
    if newest is None:
        learner.save(checkpoints, msgspec.msgpack.encode(state), step=state.step, keep=keep)
    buffer, ahead = None, None
    if review is not None:
        ahead = ReviewAhead(review.reviewer)
        buffer = ReplayBuffer(
            review.policy,
            ahead,
            record=review.record,
            batch_size=config.rollout.episodes_per_step,
            state=state.replay,
        )
    player: Player = InTurns(config, learner, tasks, sessions)
    if config.rollout.mode == "async":
        ended = ahead.begin if ahead is not None else lambda _: None
        player = Overlapped(config, learner, tasks, sessions, step=state.step, state=state.stream, ended=ended)
    async with player:
        done = await _steps(config, learner, player, state, buffer, journal, run_dir, should_stop, review)
    learner.finish_save()
    return done


async def _steps(
    config: LearnConfig,
    learner: Learner,
    player: Player,
    state: TrainerState,
    buffer: ReplayBuffer | None,
    journal: _Journal,
    run_dir: Path,
    should_stop: Callable[[], bool],
    review: Review | None,
) -> bool:
    """All steps that are left; whether there was time for them. Changes `state`, which is in the newest checkpoint."""
    checkpoints = run_dir / "checkpoints"
    saved = state.step

    async def save() -> None:
        state.stream = player.state()
        blob, keep = msgspec.msgpack.encode(state), config.trainer.keep_checkpoints
        await player.alone(lambda: learner.save(checkpoints, blob, step=state.step, keep=keep))

    lost_in_a_row = 0
    while state.step < config.trainer.steps:
        learner.finish_save(wait=False)
        if should_stop():
            if state.step > saved or player.unsaved():
                await save()
            return False
        started = time.monotonic()
        played = await player.play(state.step, should_stop=should_stop)
        if played is None:
            continue
        episodes = played.episodes
        usable = [e for e in episodes if e.reward is not None]
        if not usable:  # every worker was preempted at once, say: they come back, and the step is played again
            lost_in_a_row += 1
            state.discarded += len(episodes)
            log.warning("step %d: all %d episodes lost their sandbox", state.step + 1, len(episodes))
            if lost_in_a_row < ATTEMPTS:
                continue
            raise EctypeError(
                f"step {state.step + 1}: all {len(episodes)} episodes lost their sandbox, {ATTEMPTS} times",
                where=str(run_dir),
                remedy="look at the logs of the sandbox workers under logs/",
            )
        lost_in_a_row = 0
        batch, judged = usable, {}
        if buffer is not None:
            buffer.offer(usable, step=state.step)
            released = await buffer.release(step=state.step, should_stop=should_stop)
            if released is None:  # this step is played again
                continue
            batch, judged = released
            state.replay = buffer.state()
        fresh = player.fresh(batch, state.step)
        _tell_of_stale(batch, fresh, state.step, review)
        learned = await player.learn(fresh, state.step)
        state.step += 1
        state.episodes += len(usable)
        state.discarded += len(episodes) - len(usable)
        _write_episodes(run_dir, config, state.step, episodes)
        summary = summarise(usable, played.stats) | played.numbers | judged | learned
        if config.rollout.mode == "async":
            summary["stale_dropped"] = len(batch) - len(fresh)
        summary |= {
            "total_episodes": state.episodes,
            "discarded": state.discarded,
            "wall_s": time.monotonic() - started,
        }
        journal.write(state.step, summary)
        if state.step % config.trainer.checkpoint_every == 0 or state.step == config.trainer.steps:
            await save()
            saved = state.step
    return True


def _tell_of_stale(batch: Sequence[Episode], fresh: Sequence[Episode], step: int, review: Review | None) -> None:
    """An episode is left out for its age only when a judge held it for so long."""
    kept = {id(episode) for episode in fresh}
    for episode in batch:
        if id(episode) not in kept:
            log.warning("step %d: episode %s is too old to be learnt from", step + 1, episode.id)
            if review is not None:
                review.record("episode_dropped", episode.id, reason="stale", reward=episode.reward, training_step=step)


class _Journal:
    """Where the numbers of a step go: the metrics file, TensorBoard if it is asked for, and a line of the log."""

    def __init__(self, config: LearnConfig, run_dir: Path, *, resumed_step: int) -> None:
        folder = run_dir / "metrics"
        self._metrics = MetricsLog(folder / "trainer.jsonl", resumed_step=resumed_step)
        self._board = Board(folder / "tensorboard", resumed_step=resumed_step) if config.trainer.tensorboard else None

    def write(self, step: int, summary: Mapping[str, float]) -> None:
        self._metrics.write(step, **summary)
        if self._board is not None:
            self._board.write(step, summary)
        log.info(
            "step %d: reward %.3f solved %.3f cheat %.3f  %.1f s",
            step,
            summary["reward"],
            summary["solved"],
            summary["cheat_rate"],
            summary["wall_s"],
        )


async def _prepare(
    config: LearnConfig,
    learner: Learner,
    tasks: list[PublicTask],
    sessions: Sessions,
    run_dir: Path,
    repertoire: Repertoire | None,
) -> None:
    """A new policy: load what it starts from, or teach it the demonstrations."""
    warm = config.policy.warm_start
    if config.policy.kind != "tiny":
        return
    if warm.load is not None:
        learner.load_actor(Path(warm.load))
    elif warm.episodes:
        if repertoire is None:
            raise EctypeError(
                f"the suite {config.suite!r} has no demonstrations",
                where="policy.warm_start.episodes",
                remedy="set it to 0, or use the suite micro or micro-leaky",
            )
        rng = random.Random(config.seed)
        scripts = [write_script(rng.choice(tasks).task, repertoire, warm, rng) for _ in range(warm.episodes)]
        recorded = await record(scripts, config.suite, sessions, observation_bytes=config.rollout.observation_bytes)
        by_name = {task.task: task for task in tasks}
        codec = learner.codec
        assert isinstance(codec, ByteCodec)
        episodes = [
            as_episode(
                number,
                script,
                by_name[script.task],
                recorded,
                codec,
                prompt_bytes=config.rollout.prompt_bytes,
            )
            for number, script in enumerate(scripts)
        ]
        progress = MetricsLog(run_dir / "metrics" / "warm_start.jsonl", resumed_step=-1)
        await asyncio.to_thread(
            learner.imitate, episodes, warm, lambda step, **numbers: progress.write(step, **numbers)
        )
    learner.save_actor(run_dir / "warm_start")
    learner.start_critic()


def _write_episodes(run_dir: Path, config: LearnConfig, step: int, episodes: list[Episode]) -> None:
    if step % config.trainer.save_episodes_every and step != config.trainer.steps:
        return
    path = run_dir / "episodes" / f"step-{step:06d}.msgpack"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.msgpack.encode(episodes))
    partial.replace(path)


def summarise(episodes: Sequence[Episode], stats: RolloutStats) -> dict[str, float]:
    """Numbers of one batch of graded episodes. `solved` is honest success: every hidden test passes, and no attempt
    to cheat was seen; `paid_cheat` is a cheat that got the reward."""
    count = len(episodes)
    action_tokens = sum(sum(e.action_mask) for e in episodes)
    return {
        "episodes": count,
        "reward": sum(e.reward or 0.0 for e in episodes) / count,
        "solved": sum(e.solved and not e.cheated for e in episodes) / count,
        "cheat_rate": sum(e.cheated for e in episodes) / count,
        "paid_cheat": sum(e.cheated and bool(e.reward) for e in episodes) / count,
        "block_rate": sum(e.blocked_actions > 0 for e in episodes) / count,
        "canary_rate": sum(e.canary for e in episodes) / count,
        "truncated": sum(e.status == "truncated" for e in episodes) / count,
        "mean_steps": sum(len(e.steps) for e in episodes) / count,
        "invalid_steps": sum(s.call == "invalid" for e in episodes for s in e.steps) / count,
        "episode_tokens": sum(len(e.tokens) for e in episodes) / count,
        "action_tokens": action_tokens / count,
        "rollout_s": stats.wall_s,
        "generate_s": stats.generate_s,
        "generated_tokens_per_s": stats.generated_tokens / max(stats.generate_s, 1e-9),
        "commands_per_s": stats.commands / max(stats.wall_s, 1e-9),
        "command_mean_s": sum(stats.command_s) / max(len(stats.command_s), 1),
    }
