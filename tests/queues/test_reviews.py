"""The review queue: its rules without sockets, then with real ones, real keys, and judges that are killed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from audit.events import read_events
from queues.endpoint import QueueError
from queues.judge_link import JudgeLink
from queues.memory import ToDriver, ToJudge
from queues.messages import (
    Action,
    Busy,
    JudgeBeat,
    JudgeGone,
    Refused,
    Reviewed,
    ReviewEpisode,
    ReviewFailed,
    ReviewStep,
    decode,
    encode,
)
from queues.reviews import Reviews
from tests.queues.conftest import HEARTBEAT_S, Run, eventually, until
from tests.queues.test_security import impersonation


def review(name: str, size: int = 1) -> ReviewEpisode:
    step = ReviewStep(step=0, action=Action(kind="run", body=b"x" * size))
    return ReviewEpisode(request_id=f"r-{name}", episode=name, suite="micro", task="reverse", steps=(step,))


def clear(request_id: str, judge: str = "j", **more) -> Reviewed:
    return Reviewed(request_id=request_id, episode=request_id[2:], decision="clear", judge=judge, **more)


class Driven:
    """Reviews with a clock in hand and its messages sorted."""

    def __init__(self, **options) -> None:
        self.now = 0.0
        self.events: list[str] = []
        self.counters: Counter[str] = Counter()
        self.reviews = Reviews(
            record=lambda kind, *_, **__: self.events.append(kind), counters=self.counters, lost_after_s=10, **options
        )
        self.given: list[tuple[bytes, str]] = []
        self.answers: list[tuple[bytes, object]] = []

    def take(self) -> None:
        for message in self.reviews.outbox:
            if isinstance(message, ToJudge):
                self.given.append((message.connection, message.request_id))
            else:
                self.answers.append((message.connection, decode(message.payload)))
        self.reviews.outbox.clear()

    def ask(self, name: str, driver: bytes = b"d", size: int = 1) -> None:
        request = review(name, size)
        self.reviews.ask(driver, request, encode(request), self.now)
        self.take()

    def beat(self, name: str = "j", slots: int = 1, held: tuple[str, ...] = (), instance: str = "1") -> None:
        beat = JudgeBeat(judge=name, instance=instance, slots=slots, held=held)
        self.reviews.beat(f"{name}{instance}".encode(), beat, self.now)
        self.take()

    def answer(self, reply: Reviewed | ReviewFailed) -> None:
        if isinstance(reply, Reviewed):
            self.reviews.reviewed(reply, self.now)
        else:
            self.reviews.failed(reply, self.now)
        self.take()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.reviews.tick(self.now)
        self.take()


def test_one_after_the_other_and_no_more_than_a_judge_takes():
    it = Driven()
    it.beat(slots=2)
    for name in "abc":
        it.ask(name)
    assert [request for _, request in it.given] == ["r-a", "r-b"]
    it.answer(clear("r-a"))
    assert [request for _, request in it.given] == ["r-a", "r-b", "r-c"]
    assert it.answers == [(b"d", clear("r-a"))]
    it.beat(slots=0, held=("r-b", "r-c"))
    it.answer(clear("r-b"))
    it.ask("d")
    assert len(it.given) == 3 and it.reviews.unanswered == 2


def test_asked_again_is_answered_once_more_and_judged_once():
    it = Driven()
    it.beat()
    it.ask("a")
    it.ask("a", driver=b"restarted")
    it.answer(clear("r-a"))
    it.ask("a", driver=b"later")
    assert len(it.given) == 1 and [driver for driver, _ in it.answers] == [b"restarted", b"later"]


def test_the_queue_is_bounded_in_number_and_bytes():
    it = Driven(bound=2, bound_bytes=1000)
    it.ask("a", size=5000)  # one is always taken
    it.ask("b")
    assert isinstance(it.answers[0][1], Busy) and it.counters["busy_reviews"] == 1
    it = Driven(bound=2)
    for name in "abc":
        it.ask(name)
    assert [answer.episode for _, answer in it.answers if isinstance(answer, Busy)] == ["c"]
    assert it.reviews.unanswered == 2


def test_what_a_lost_judge_held_goes_to_another():
    it = Driven()
    it.beat("j")
    it.ask("a")
    it.wait(9)
    it.beat("k", slots=1)
    it.wait(2)  # j was last heard 11 s ago
    assert it.given == [(b"j1", "r-a")] and it.counters["lost_judges"] == 1
    it.beat("k")
    it.wait(1)
    assert it.given == [(b"j1", "r-a"), (b"k1", "r-a")]
    it.answer(clear("r-a", "j"))  # it was not dead after all: the first answer counts
    it.answer(Reviewed(request_id="r-a", episode="a", decision="flagged", judge="k"))
    assert it.answers == [(b"d", clear("r-a", "j", attempts=2))] and it.counters["late_verdicts"] == 1


def test_failures_are_tried_again_with_growing_pauses_then_are_dead_letters():
    it = Driven(max_attempts=3)
    it.beat()
    it.ask("a")
    for pause, given in ((0.9, 1), (0.2, 2)):
        if given == 1:
            it.answer(ReviewFailed(request_id="r-a", judge="j", reason="no"))
        it.wait(pause)
        it.beat(held=())
        assert len(it.given) == given
    it.answer(ReviewFailed(request_id="r-a", judge="j", reason="no"))
    it.wait(1.5)
    assert len(it.given) == 2
    it.wait(1)
    assert len(it.given) == 3
    it.answer(ReviewFailed(request_id="r-a", judge="j", reason="still no"))
    (answer,) = [answer for _, answer in it.answers]
    assert isinstance(answer, Reviewed) and answer.decision == "failed" and "still no" in answer.reason
    assert answer.probability is None and it.counters["dead_reviews"] == 1 and "review_dead_letter" in it.events
    assert it.reviews.unanswered == 0


def test_a_judge_that_stops_in_order_uses_up_no_attempt():
    it = Driven(max_attempts=1)
    it.beat()
    it.ask("a")
    it.reviews.gone(JudgeGone(judge="j", instance="1"), it.now)
    it.beat("k")
    assert it.given == [(b"j1", "r-a"), (b"k1", "r-a")] and not it.answers


def test_a_judge_that_is_stuck_or_forgetful_loses_the_episode():
    it = Driven(lease_s=30)
    it.beat("j")
    it.ask("a")
    for _ in range(8):
        it.wait(4)
        it.beat("j", held=("r-a",))
    assert it.counters["retried_reviews"] == 1
    it.beat("k")
    it.wait(1)
    assert it.given[-1] == (b"k1", "r-a")
    for _ in range(3):
        it.wait(4)
        it.beat("k", held=())
    assert it.counters["retried_reviews"] == 2


def test_a_restarted_controller_learns_from_both_sides():
    it = Driven()
    it.beat(slots=2, held=("r-a", "r-b"))
    it.ask("a")
    assert not it.given  # its judge is at it
    it.answer(clear("r-b"))  # asked of the controller before
    it.answer(clear("r-a"))
    it.ask("b")
    assert it.answers == [(b"d", clear("r-a")), (b"d", clear("r-b"))] and not it.given


def test_a_newer_process_of_a_name_replaces_the_older():
    it = Driven()
    it.beat()
    it.ask("a")
    it.beat(instance="2")
    it.wait(1.1)
    turned_away = (b"j1", "")
    assert it.given == [(b"j1", "r-a"), turned_away, (b"j2", "r-a")]


def test_a_verdict_that_cannot_be_delivered_waits_for_the_driver():
    it = Driven()
    it.beat()
    it.ask("a")
    it.reviews.reviewed(clear("r-a"), it.now)
    (message,) = it.reviews.outbox
    it.reviews.outbox.clear()
    assert isinstance(message, ToDriver)
    it.reviews.undeliverable(message, it.now)
    it.ask("a", driver=b"back")
    assert it.answers == [(b"back", clear("r-a"))]


# --- with sockets -------------------------------------------------------------------------------------------------


async def serve(link: JudgeLink, seen: list[str]) -> None:
    async for episode in link:
        seen.append(episode.episode)
        link.answer(clear(episode.request_id, link.name))


async def test_episodes_go_to_judges_and_verdicts_come_back(run: Run):
    async with run.controller(), run.client() as client:
        link = JudgeLink("judge-0", run.endpoint, run.keys, slots=2, heartbeat_s=HEARTBEAT_S)
        link.connect()
        seen: list[str] = []
        serving = asyncio.create_task(serve(link, seen))
        answers = await asyncio.gather(*(client.call(review(f"e{n}"), timeout_s=60) for n in range(20)))
        again = await client.call(review("e3"), timeout_s=60)
        shown = await until(client, lambda status: status.judges == {"judge-0": (0, 2)})
        serving.cancel()
        await link.close()
    assert {type(answer) for answer in answers} == {Reviewed} and again == answers[3]
    assert sorted(seen) == sorted(f"e{n}" for n in range(20)) and shown.reviews == 0
    assert shown.counters["reviews_clear"] == 20
    verdicts = [event for event in read_events(run.path / "audit") if event.kind == "verdict"]
    assert len(verdicts) == 20 and verdicts[0].data["decision"] == "clear"


async def test_nothing_is_lost_when_controller_and_judge_are_killed(run: Run):
    first = run.start("controller")
    await eventually(run.endpoint.exists)
    async with run.client() as client:
        dead = JudgeLink("judge-0", run.endpoint, run.keys, slots=3, heartbeat_s=HEARTBEAT_S)
        dead.connect()
        asked = [asyncio.create_task(client.call(review(f"e{n}"), timeout_s=120)) for n in range(6)]
        await eventually(lambda: dead.held == 3)
        assert dead._task is not None
        dead._task.cancel()  # without a goodbye, as a killed process
        first.kill()
        first.wait()
        run.start("controller")
        link = JudgeLink("judge-1", run.endpoint, run.keys, slots=2, heartbeat_s=HEARTBEAT_S)
        link.connect()
        seen: list[str] = []
        serving = asyncio.create_task(serve(link, seen))
        answers = await asyncio.gather(*asked)
        serving.cancel()
        await link.close()
    assert sorted(answer.episode for answer in answers if isinstance(answer, Reviewed)) == [f"e{n}" for n in range(6)]
    assert sorted(seen) == [f"e{n}" for n in range(6)]


async def test_a_full_queue_holds_the_driver_back_and_loses_nothing(run: Run):
    async with run.controller(review_bound=2) as controller, run.client() as client:
        asked = [asyncio.create_task(client.call(review(f"e{n}"), timeout_s=120)) for n in range(5)]
        await eventually(lambda: controller.status().counters.get("busy_reviews", 0) >= 3)
        assert controller.status().reviews == 2
        link = JudgeLink("judge-0", run.endpoint, run.keys, slots=1, heartbeat_s=HEARTBEAT_S)
        link.connect()
        serving = asyncio.create_task(serve(link, []))
        assert {type(answer) for answer in await asyncio.gather(*asked)} == {Reviewed}
        serving.cancel()
        await link.close()


@pytest.mark.parametrize("stolen", ["sandbox", "trainer", "viewer"])
async def test_only_the_judges_key_opens_the_judges_socket(run: Run, tmp_path, stolen):
    async with run.controller():
        link = JudgeLink("judge-0", run.endpoint, impersonation(run, tmp_path, "judge", stolen), slots=1)
        link.connect()
        with pytest.raises(QueueError, match="refused the key of the role judge"):
            await anext(aiter(link))


async def test_a_viewer_may_not_have_episodes_judged(run: Run):
    async with run.controller(), run.client("viewer") as client:
        assert isinstance(await client.call(review("e"), timeout_s=60), Refused)
