"""The replay buffer: an episode is trained on when its verdict is in, or when the policy for its absence says so.

In go graded episodes, and a `Reviewer` that has them judged; out comes, per training step, the batch to learn from.
Each episode is released at most once, dropped at most once, and never both; whatever became of it is an event and a
count. A flagged episode is dropped or gets a negative reward. No verdict (late, failed, uncertain) is never a penalty,
and a pass only if `ReviewPolicy` says `train`. What is held is part of the checkpoint (`ReplayState`) and is asked
about again after a restart, under the same ids.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from queues.messages import Reviewed, ReviewEpisode, ReviewStep
from rl.config import ReviewPolicy
from rl.episode import Episode

MAX_BODY_BYTES = 128 << 10
"""Of one action. Stage 1 reads no further either, and calls what is longer opaque."""
MAX_REVIEW_BYTES = 2 << 20
"""Of all actions of an episode, beyond which each is cut to its share."""
MAX_OUTPUT_BYTES = 1024
REMEMBERED = 100_000
MAX_AWAITED = 4096
"""Episodes that were trained on and whose verdict is still awaited; beyond it the oldest is given up."""
_POLL_S = 0.5

COUNTS = (
    "clear", "flagged", "uncertain", "failed", "late", "released", "dropped", "negative", "expired",
    "late_flagged", "compensated",
)  # fmt: skip


class Reviewer(Protocol):
    async def review(self, request: ReviewEpisode) -> Reviewed:
        """Wait for the verdict, however long that takes. The same `request_id` gets the same verdict."""
        ...


class Record(Protocol):
    def __call__(self, kind: str, episode: str = "", step: int = -1, **data: Any) -> None: ...


class Held(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An episode without a verdict. `step`: when it was played; `attempt`: how often it was asked about before."""

    episode: Episode
    step: int
    attempt: int = 0
    trained: bool = False
    """It was trained on without a verdict, which is still awaited."""


class ReplayState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a checkpoint keeps of the buffer."""

    held: tuple[Held, ...] = ()


class ReplayBuffer:
    """For one event loop. `record` gets an event for everything that becomes of an episode."""

    def __init__(
        self,
        policy: ReviewPolicy,
        reviewer: Reviewer,
        *,
        record: Record,
        batch_size: int,
        state: ReplayState | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._reviewer = reviewer
        self._record = record
        self._least = max(1, round(policy.min_share * batch_size))
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._reviews: dict[str, asyncio.Task[Reviewed]] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._batch: list[Episode] = []
        for held in state.held if state is not None else ():
            self._hold(held)

    def state(self) -> ReplayState:
        """To be kept with the checkpoint of the step whose batch was released last."""
        return ReplayState(held=tuple(self._held.values()))

    def offer(self, episodes: Sequence[Episode], *, step: int) -> None:
        """Have these graded episodes judged. One that was offered before is not taken again."""
        for episode in episodes:
            if episode.reward is None:
                raise ValueError(f"episode {episode.id} has no reward: it is no outcome of the policy")
            if episode.id not in self._seen:
                self._hold(Held(episode=episode, step=step))

    async def release(
        self, *, step: int, should_stop: Callable[[], bool]
    ) -> tuple[list[Episode], dict[str, float]] | None:
        """The batch to learn from in `step`, and its counts; None when `should_stop` ended the wait.

        It waits for verdicts until `deadline_s` from now, and with `late: hold` until enough of them are in.
        """
        started = self._clock()
        fresh = sum(not held.trained for held in self._held.values())
        least = min(self._least, fresh)
        decided = 0
        while True:
            decided += self._settle(step)
            late = self._clock() - started >= self._policy.deadline_s
            waiting = [name for name, held in self._held.items() if not held.trained]
            if not waiting or (late and (self._policy.late != "hold" or decided >= least)):
                break
            if should_stop():
                return None
            await asyncio.wait(
                [self._reviews[name] for name in waiting], timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED
            )
        for name in waiting:
            self._late(name, step)
        batch, self._batch = self._batch, []
        numbers = {f"judge_{name}": float(self._counts[name]) for name in COUNTS}
        numbers["judge_held"] = float(sum(not held.trained for held in self._held.values()))
        numbers["judge_wait_s"] = self._clock() - started
        self._counts.clear()
        return batch, numbers

    # --- inside ---------------------------------------------------------------------------------------------------

    def _hold(self, held: Held) -> None:
        name = held.episode.id
        self._seen[name] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        self._held[name] = held
        request = review_request(held.episode, attempt=held.attempt)
        self._reviews[name] = asyncio.get_running_loop().create_task(self._reviewer.review(request))

    def _settle(self, step: int) -> int:
        """Act on the verdicts that are in; how many episodes of the next batch were decided by that."""
        decided = 0
        for name in [name for name, review in self._reviews.items() if review.done()]:
            verdict = self._reviews.pop(name).result()
            held = self._held.pop(name)
            if held.trained:
                self._judged_late(held, verdict, step)
            else:
                self._counts[verdict.decision] += 1
                decided += self._judged(held, verdict, step)
        return decided

    def _judged(self, held: Held, verdict: Reviewed, step: int) -> bool:
        episode, policy = held.episode, self._policy
        if verdict.decision == "clear":
            self._release(episode, step, "clear")
        elif verdict.decision == "flagged" and policy.flagged == "negative":
            self._counts["negative"] += 1
            self._release(msgspec.structs.replace(episode, reward=policy.negative_reward), step, "flagged")
        elif verdict.decision == "flagged":
            self._drop(episode, step, "flagged")
        else:
            choice = policy.failed if verdict.decision == "failed" else policy.uncertain
            if choice == "train":
                self._release(episode, step, verdict.decision)
            elif choice == "drop":
                self._drop(episode, step, verdict.decision)
            elif held.attempt + 1 >= policy.hold_steps:
                self._counts["expired"] += 1
                self._drop(episode, step, f"{verdict.decision}, asked {held.attempt + 1} times")
            else:
                self._record("episode_held", episode.id, reason=verdict.decision, training_step=step)
                self._hold(msgspec.structs.replace(held, attempt=held.attempt + 1))
                return False
        return True

    def _late(self, name: str, step: int) -> None:
        """The deadline has passed without a verdict."""
        held, policy = self._held[name], self._policy
        self._counts["late"] += 1
        if policy.late == "train":
            held.trained = True
            self._release(held.episode, step, "late")
            trained = [name for name, held in self._held.items() if held.trained]
            if len(trained) > MAX_AWAITED:
                self._give_up(trained[0])
                self._record("late_verdict_given_up", trained[0], training_step=step)
        elif policy.late == "drop" or step + 1 - held.step >= policy.hold_steps:
            if policy.late == "hold":
                self._counts["expired"] += 1
            self._give_up(name)
            self._drop(held.episode, step, "late")
        else:
            self._record("episode_held", held.episode.id, reason="late", training_step=step)

    def _give_up(self, name: str) -> None:
        del self._held[name]
        self._reviews.pop(name).cancel()

    def _judged_late(self, held: Held, verdict: Reviewed, step: int) -> None:
        """A verdict on an episode that was trained on: it can only be recorded, and made up for."""
        episode = held.episode
        self._record(
            "late_verdict",
            episode.id,
            decision=verdict.decision,
            probability=verdict.probability,
            steps_late=step - held.step,
            training_step=step,
        )
        if verdict.decision == "flagged":
            self._counts["late_flagged"] += 1
            if self._policy.compensate:
                self._counts["compensated"] += 1
                self._batch.append(msgspec.structs.replace(episode, reward=self._policy.negative_reward))
                self._record("episode_compensated", episode.id, reward=self._policy.negative_reward, training_step=step)

    def _release(self, episode: Episode, step: int, why: str) -> None:
        self._counts["released"] += 1
        self._batch.append(episode)
        self._record("episode_released", episode.id, reason=why, reward=episode.reward, training_step=step)

    def _drop(self, episode: Episode, step: int, why: str) -> None:
        self._counts["dropped"] += 1
        self._record("episode_dropped", episode.id, reason=why, reward=episode.reward, training_step=step)


def review_request(episode: Episode, *, attempt: int = 0) -> ReviewEpisode:
    """An episode as the judge is given it. Its id names the episode, its content and the attempt."""
    actions = [step for step in episode.steps if step.action is not None]
    share = max(256, MAX_REVIEW_BYTES // max(len(actions), 1))
    total = sum(len(step.action.body) for step in actions if step.action is not None)
    limit = MAX_BODY_BYTES if total <= MAX_REVIEW_BYTES else min(share, MAX_BODY_BYTES)
    steps, omitted = [], 0
    for number, step in enumerate(episode.steps):
        action = step.action
        if action is None:
            continue
        output = step.shown[:MAX_OUTPUT_BYTES]
        omitted += len(step.shown) - len(output)
        if len(action.body) > limit:
            half = limit // 2
            omitted += len(action.body) - 2 * half
            action = msgspec.structs.replace(action, body=action.body[:half] + action.body[-half:])
        more = {} if step.verdict is None else {"verdict": step.verdict}
        steps.append(ReviewStep(step=number, action=action, canary=step.canary, output=output, **more))
    request = ReviewEpisode(
        request_id="",
        episode=episode.id,
        suite=episode.suite,
        task=episode.task,
        steps=tuple(steps),
        canary=episode.canary,
        passed=0 if episode.result is None else episode.result.passed,
        total=0 if episode.result is None else episode.result.total,
        omitted_bytes=omitted,
    )
    digest = hashlib.sha256(msgspec.msgpack.encode(request)).hexdigest()[:16]
    return msgspec.structs.replace(request, request_id=f"review-{episode.id}-{digest}-{attempt}")
