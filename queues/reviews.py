"""The queue `anti-cheat-review`, without any I/O: which finished episode waits for a judge, who has which in hand.

In go decoded messages of drivers and judges; out come messages to send, in `outbox`. An episode that was accepted is
answered exactly once per driver's question: with the verdict of a judge, or as a dead letter (`failed`) after
`max_attempts`, never with a verdict that nobody gave. It is handed out again when its judge is lost, gives it back,
fails, or holds it for longer than `lease_s`; the first answer counts, later ones are dropped and counted. Asked
again under the same `request_id`, the same answer is given. Nothing is kept on disk: drivers repeat what is unanswered,
and judges say what they hold, to every controller that appears.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import msgspec

from queues.memory import NO_LEASE, Record, ToDriver, ToJudge
from queues.messages import (
    PROTOCOL_VERSION,
    Busy,
    JudgeBeat,
    JudgeGone,
    Reviewed,
    ReviewEpisode,
    ReviewFailed,
    encode,
)

MAX_REMEMBERED = 10_000
"""Answers that are remembered for a driver that asks again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Before an episode that a judge failed at is handed out again; doubled every time."""


@dataclass(slots=True)
class _Item:
    request_id: str
    episode: str
    payload: bytes
    driver: bytes
    queued: float
    attempts: int = 0
    not_before: float = 0.0
    judge: str = ""
    """Who has it in hand; empty while it waits."""
    leased: float = 0.0
    seen: float = 0.0
    """When its judge last said that it has it in hand."""
    avoid: set[str] = field(default_factory=set)
    """Judges that had it for too long or failed at it: others go first."""
    reasons: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Judge:
    name: str
    instance: str
    connection: bytes
    slots: int
    heard: float
    items: set[str] = field(default_factory=set)


class Reviews:
    """`now` is a monotonic clock in seconds everywhere; `counters` is shared with the rest of the controller."""

    def __init__(
        self,
        *,
        record: Record,
        counters: Counter[str],
        bound: int = 256,
        bound_bytes: int = 256 << 20,
        lost_after_s: float = 10.0,
        lease_s: float = 900.0,
        max_attempts: int = 4,
    ) -> None:
        self.outbox: list[ToDriver | ToJudge] = []
        self._record = record
        self._counters = counters
        self._bound = bound
        self._bound_bytes = bound_bytes
        self._lost_after_s = lost_after_s
        self._lease_s = lease_s
        self._max_attempts = max_attempts
        self._items: OrderedDict[str, _Item] = OrderedDict()
        """Unanswered, in the order in which they are handed out."""
        self._bytes = 0
        self._judges: dict[str, _Judge] = {}
        self._answers: OrderedDict[str, bytes] = OrderedDict()

    @property
    def unanswered(self) -> int:
        return len(self._items)

    def judges(self) -> dict[str, tuple[int, int]]:
        return {judge.name: (len(judge.items), judge.slots) for judge in self._judges.values()}

    # --- from drivers ---------------------------------------------------------------------------------------------

    def ask(self, driver: bytes, request: ReviewEpisode, payload: bytes, now: float) -> None:
        """Queue an episode, or answer at once what was asked before; `Busy` when the queue is full."""
        answer = self._answers.get(request.request_id)
        if answer is not None:
            self.outbox.append(ToDriver(driver, NO_LEASE, answer))
            return
        item = self._items.get(request.request_id)
        if item is not None:
            item.driver = driver
            return
        if len(self._items) >= self._bound or (self._bytes + len(payload) > self._bound_bytes and self._items):
            self._counters["busy_reviews"] += 1
            busy = Busy(
                request_id=request.request_id,
                episode=request.episode,
                reason=f"{len(self._items)} episodes ({self._bytes >> 20} MiB) wait for a judge",
            )
            self.outbox.append(ToDriver(driver, NO_LEASE, encode(busy)))
            return
        item = _Item(request.request_id, request.episode, payload, driver, now)
        self._items[item.request_id] = item
        self._bytes += len(payload)
        self._counters["reviews"] += 1
        self._record(
            "review_queued", item.episode, request=item.request_id, bytes=len(payload), waiting=len(self._items)
        )
        # a judge may have had it in hand when the last controller ended
        holder = next((judge for judge in self._judges.values() if item.request_id in judge.items), None)
        if holder is not None:
            item.judge, item.leased, item.seen, item.attempts = holder.name, now, now, 1
        self._dispatch(now)

    # --- from judges ----------------------------------------------------------------------------------------------

    def beat(self, connection: bytes, beat: JudgeBeat, now: float) -> None:
        if beat.protocol != PROTOCOL_VERSION:
            self._turn_away(connection, beat, f"it speaks protocol {beat.protocol}, not {PROTOCOL_VERSION}")
            return
        judge = self._judges.get(beat.judge)
        if judge is not None and judge.instance != beat.instance:
            if judge.connection != connection:
                self._turn_away(judge.connection, beat, "a newer process of the same name has come", judge.instance)
            self._leave(judge, "replaced by a newer process", now)
            judge = None
        if judge is None:
            judge = self._judges[beat.judge] = _Judge(beat.judge, beat.instance, connection, beat.slots, now)
            self._counters["judges_joined"] += 1
            self._record("judge_joined", judge=beat.judge, instance=beat.instance, slots=beat.slots)
        judge.connection, judge.slots, judge.heard = connection, beat.slots, now
        held = set(beat.held)
        for request_id in held:
            item = self._items.get(request_id)
            if item is not None and item.judge == judge.name:
                item.seen = now
            elif item is not None and not item.judge and judge.name not in item.avoid:  # it was away for a while
                item.judge, item.leased, item.seen = judge.name, now, now
        unknown = {request_id for request_id in held if request_id not in self._items}
        judge.items = {i for i in judge.items if i in self._items and self._items[i].judge == judge.name}
        judge.items |= unknown | {i for i in held if i in self._items and self._items[i].judge == judge.name}
        self._dispatch(now)

    def reviewed(self, reply: Reviewed, now: float) -> None:
        """The first answer counts, whoever gives it."""
        item = self._items.get(reply.request_id)
        if item is None and reply.request_id in self._answers:
            self._counters["late_verdicts"] += 1
            self._record("verdict_dropped", reply.episode, request=reply.request_id, judge=reply.judge)
            return
        attempts = item.attempts if item is not None else 1
        # no item: it was asked of an earlier controller, and will be asked again
        self._answer(msgspec.structs.replace(reply, attempts=attempts), item, now)
        self._dispatch(now)

    def failed(self, failure: ReviewFailed, now: float) -> None:
        item = self._items.get(failure.request_id)
        if item is None or item.judge != failure.judge:
            self._counters["late_verdicts"] += 1
            return
        item.avoid.add(failure.judge)
        self._retry(item, f"{failure.judge}: {failure.reason}", now)
        self._dispatch(now)

    def gone(self, message: JudgeGone, now: float) -> None:
        """A judge that stops in order gives back what it holds; that counts as no attempt."""
        judge = self._judges.get(message.judge)
        if judge is None or judge.instance != message.instance:
            return
        for request_id in judge.items & self._items.keys():
            self._items[request_id].attempts -= 1
        self._leave(judge, message.reason or "it stopped", now, counted=False)

    # --- time, and what could not be sent -------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        for judge in [j for j in self._judges.values() if now - j.heard > self._lost_after_s]:
            self._counters["lost_judges"] += 1
            self._leave(judge, f"not heard for {self._lost_after_s:g} s", now)
        for item in [item for item in self._items.values() if item.judge]:
            if now - item.seen > self._lost_after_s:
                self._retry(item, f"{item.judge} does not know of it", now)
            elif now - item.leased > self._lease_s:
                item.avoid.add(item.judge)
                self._retry(item, f"{item.judge} had it for more than {self._lease_s:g} s", now)
        self._dispatch(now)

    def undeliverable(self, message: ToDriver | ToJudge, now: float) -> None:
        if isinstance(message, ToDriver):
            self._counters["undeliverable_replies"] += 1  # the driver asks again
        elif (item := self._items.get(message.request_id)) is not None:
            item.attempts -= 1
            self._retry(item, "its judge could not be reached", now, pause=True)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> None:
        free = {judge.name: judge.slots - len(judge.items) for judge in self._judges.values()}
        for item in list(self._items.values()) if any(n > 0 for n in free.values()) else ():
            if item.judge or item.not_before > now:
                continue
            name = max(free, key=lambda name, item=item: (free[name] > 0, name not in item.avoid, free[name]))
            if free[name] <= 0:
                return
            free[name] -= 1
            judge = self._judges[name]
            judge.items.add(item.request_id)
            item.judge, item.leased, item.seen = name, now, now
            item.attempts += 1
            self._record(
                "review_leased", item.episode, request=item.request_id, judge=name, attempt=item.attempts,
                waited_s=now - item.queued,
            )  # fmt: skip
            self.outbox.append(ToJudge(judge.connection, item.payload, item.request_id))

    def _retry(self, item: _Item, reason: str, now: float, *, pause: bool = True) -> None:
        """Let another judge try, after a pause; at the end of all attempts it is a dead letter."""
        if item.judge in self._judges:
            self._judges[item.judge].items.discard(item.request_id)
        item.judge = ""
        item.reasons.append(reason)
        if item.attempts >= self._max_attempts:
            self._counters["dead_reviews"] += 1
            self._record(
                "review_dead_letter",
                item.episode,
                request=item.request_id,
                attempts=item.attempts,
                reasons=item.reasons,
            )
            answer = Reviewed(
                request_id=item.request_id,
                episode=item.episode,
                decision="failed",
                reason=f"given up after {item.attempts} attempts; the last: {reason}",
                attempts=item.attempts,
            )
            self._answer(answer, item, now)
            return
        wait_s = min(FIRST_PAUSE_S * 2 ** max(item.attempts - 1, 0), LONGEST_PAUSE_S) if pause else 0.0
        item.not_before = now + wait_s
        self._counters["retried_reviews"] += 1
        self._record("review_retried", item.episode, request=item.request_id, attempt=item.attempts, reason=reason)

    def _answer(self, reply: Reviewed, item: _Item | None, now: float) -> None:
        payload = encode(reply)
        self._answers[reply.request_id] = payload
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        self._counters[f"reviews_{reply.decision}"] += 1
        self._record(
            "verdict",
            reply.episode,
            request=reply.request_id,
            **{k: v for k, v in msgspec.structs.asdict(reply).items() if k not in ("request_id", "episode")},
            waited_s=now - item.queued if item is not None else None,
        )
        for judge in self._judges.values():
            judge.items.discard(reply.request_id)
        if item is not None:
            del self._items[item.request_id]
            self._bytes -= len(item.payload)
            self.outbox.append(ToDriver(item.driver, NO_LEASE, payload))

    def _leave(self, judge: _Judge, reason: str, now: float, *, counted: bool = True) -> None:
        del self._judges[judge.name]
        self._record("judge_left", judge=judge.name, reason=reason, held=len(judge.items))
        for item in [item for item in self._items.values() if item.judge == judge.name]:
            self._retry(item, f"{judge.name}: {reason}", now, pause=counted)
        self._dispatch(now)

    def _turn_away(self, connection: bytes, beat: JudgeBeat, reason: str, instance: str = "") -> None:
        gone = JudgeGone(judge=beat.judge, instance=instance or beat.instance, reason=reason)
        self.outbox.append(ToJudge(connection, encode(gone), ""))
