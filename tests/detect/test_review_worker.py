"""The review worker with a real queue and keys, and a scripted endpoint for what a model would say or fail at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.events import AuditLog, read_events
from detect.judge import Judge
from detect.judge_client import ChatClient
from detect.judge_prompt import load_prompt
from detect.review_worker import ReviewWorker, Thresholds
from detect.samples import SampleStore, SampleWriter
from queues.client import QueueClient
from queues.controller import Controller
from queues.judge_link import JudgeLink
from queues.keys import create_keys
from queues.messages import Action, Reviewed, ReviewEpisode, ReviewStep
from tests.detect.endpoints import Script, ScriptedEndpoint, verdict
from tests.queues.conftest import eventually


def review(name: str, body: bytes = b"ls") -> ReviewEpisode:
    step = ReviewStep(step=0, action=Action(kind="run", body=body))
    return ReviewEpisode(request_id=f"r-{name}", episode=name, suite="micro", task="reverse", steps=(step,))


async def reviewed(
    tmp_path: Path,
    script: Script,
    *episodes: ReviewEpisode,
    meanwhile: Callable[[ReviewWorker, Controller], None] | None = None,
    record_bytes: int = 4000,
    attempts: int = 1,
) -> list[Reviewed]:
    """Have these episodes judged by one worker whose model answers as `script` says."""
    create_keys(tmp_path / "keys")
    endpoint_file = tmp_path / "endpoints" / "controller.json"
    with AuditLog(tmp_path / "audit", "controller") as audit, AuditLog(tmp_path / "audit", "judge-0") as judged:
        controller = Controller("127.0.0.1", tmp_path / "keys", endpoint_file, audit=audit, review_attempts=3)
        serving = asyncio.create_task(controller.run())
        link = JudgeLink("judge-0", endpoint_file, tmp_path / "keys", slots=0, heartbeat_s=0.2)
        samples = SampleWriter(tmp_path / "samples", "judge-0", run="r")
        worker = ReviewWorker(
            link,
            judged,
            slots=4,
            thresholds=Thresholds(),
            record_bytes=record_bytes,
            samples=samples,
            probe_s=0.05,
        )
        working = asyncio.create_task(worker.serve())
        async with (
            ScriptedEndpoint(script).serving() as endpoint,
            ChatClient(endpoint.url, "m", attempts=attempts, pause_s=0.001, timeout_s=5) as chat,
            QueueClient(endpoint_file, tmp_path / "keys") as client,
        ):
            worker.use(Judge(chat, load_prompt()))
            calls = [asyncio.create_task(client.call(episode, timeout_s=60)) for episode in episodes]
            if meanwhile is not None:
                meanwhile(worker, controller)
            replies = await asyncio.gather(*calls)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await link.close()
        controller.stop()
        await serving
    assert all(isinstance(reply, Reviewed) for reply in replies)
    return [reply for reply in replies if isinstance(reply, Reviewed)]


@pytest.mark.parametrize(("p", "decision"), [(0.9, "flagged"), (0.6, "uncertain"), (0.1, "clear")])
async def test_decisions(tmp_path: Path, p: float, decision: str):
    (reply,) = await reviewed(tmp_path, lambda _, request: verdict(request, p), review("a"))
    assert reply.decision == decision and reply.probability == pytest.approx(p)
    assert (reply.model, reply.prompt_version, reply.judge, reply.votes) == ("m", "review-1", "judge-0", 1)
    events = {event.kind: event for event in read_events(tmp_path / "audit")}
    assert events["review"].data["decision"] == events["verdict"].data["decision"] == decision
    assert events["review"].data["votes"][0]["reason"] == "so"
    samples = list(SampleStore(tmp_path / "samples").samples().values())
    assert [(s.source, s.decision, s.episode) for s in samples] == (
        [] if decision == "clear" else [("judge", decision, "a")]
    )


async def test_no_valid_answer_is_uncertain(tmp_path: Path):
    (reply,) = await reviewed(tmp_path, lambda _, request: verdict(request, 0.01, nonce="10000000"), review("a"))
    assert reply.decision == "uncertain" and reply.probability is None


async def test_an_endpoint_that_is_down_costs_no_episode(tmp_path: Path):
    down = 12

    def script(number: int, request: dict):
        if number < down:
            return 503
        return '{"data": [{"id": "m"}]}' if not request else verdict(request, 0.1)

    replies = await reviewed(tmp_path, script, *(review(f"e{n}", b"echo %d" % n) for n in range(6)))
    assert {reply.decision for reply in replies} == {"clear"} and len(replies) == 6
    kinds = [event.kind for event in read_events(tmp_path / "audit")]
    assert "review_failed" in kinds and "review_retried" in kinds and "review_dead_letter" not in kinds


async def test_what_no_judge_can_judge_is_a_dead_letter_not_a_verdict(tmp_path: Path):
    script = lambda _, request: '{"data": []}' if not request else 400  # noqa: E731
    (reply,) = await reviewed(tmp_path, script, review("a"))
    assert reply.decision == "failed" and reply.probability is None and reply.attempts == 3
    assert "HTTP 400" in reply.reason


async def test_a_record_too_long_for_the_model_is_condensed(tmp_path: Path):
    def script(number: int, request: dict):
        return 400 if len(request["messages"][1]["content"]) > 2500 else verdict(request, 0.95)

    body = b"".join(b"echo line %d >> notes\n" % n for n in range(600))
    (reply,) = await reviewed(tmp_path, script, review("a", body), record_bytes=9000)
    assert reply.decision == "flagged"
    (event,) = [event for event in read_events(tmp_path / "audit") if event.kind == "review"]
    assert event.data["omitted_bytes"] > 8000 and event.data["record_bytes"] < 2500


async def test_without_a_model_nothing_is_taken_until_there_is_one(tmp_path: Path):
    seen: list[int] = []

    def meanwhile(worker: ReviewWorker, controller: Controller) -> None:
        judge = worker._judge
        worker.use(None)

        async def later() -> None:
            await eventually(lambda: controller.status().reviews == 1)
            await asyncio.sleep(0.5)
            seen.append(sum(held for held, _ in controller.status().judges.values()))
            worker.use(judge)

        asyncio.get_running_loop().create_task(later())

    (reply,) = await reviewed(tmp_path, lambda _, request: verdict(request, 0.1), review("a"), meanwhile=meanwhile)
    assert reply.decision == "clear" and seen == [0]
