"""Judge jobs in a run: real sandboxes, real queues, real job processes. What a model would say comes from a scripted
endpoint here (tests/jobs/test_judge.py has a real one): it finds the disguised cheats suspicious."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from audit.events import AuditLog, read_events
from audit.metrics import read_metrics
from jobs.trainer import RunReviewer
from rl.replay import ReplayBuffer
from tests.cluster.command_line import SMALL, CommandLine
from tests.detect.endpoints import HANG, ScriptedEndpoint, verdict
from tests.jobs.judged import DISGUISED, play, running, scripts
from tests.queues.conftest import eventually

pytestmark = pytest.mark.apptainer


def opinion(request: dict) -> float:
    """P(cheat) by the scripted model: an honest episode asks the reference."""
    return 0.05 if "| reference" in request["messages"][1]["content"] else 0.95


@pytest.mark.parametrize("late", ["hold", "train"])
async def test_a_judge_that_is_killed_in_the_middle_loses_nothing(tmp_path: Path, late: str) -> None:
    hanging = True

    def script(number: int, request: dict):
        return HANG if hanging else verdict(request, opinion(request))

    told = {"late": late, "deadline_s": 1.0, "min_share": 1.0, "compensate": True}
    async with ScriptedEndpoint(script).serving() as endpoint, running(tmp_path, endpoint.url, **told) as jobs:
        doomed = jobs.start("judge")
        episodes = await play(jobs, scripts())
        assert [episode.reward for episode in episodes] == [1.0] * len(episodes)
        cheats = {episode.id for episode in episodes[: len(DISGUISED)]}
        with AuditLog(jobs.run.audit, "trainer") as audit:
            buffer = ReplayBuffer(jobs.config.judge, RunReviewer(jobs.run), record=audit.write, batch_size=8)
            buffer.offer(episodes, step=0)
            releasing = asyncio.create_task(buffer.release(step=0, should_stop=lambda: False))
            await eventually(lambda: len(endpoint.requests) == 4)
            os.killpg(doomed.pid, signal.SIGKILL)
            doomed.wait()
            if late == "train":
                first = await releasing
                assert first is not None and {e.id: e.reward for e in first[0]} == {e.id: 1.0 for e in episodes}
                assert first[1]["judge_late"] == len(episodes)
            else:
                assert not releasing.done()
            hanging = False
            jobs.start("judge", 1)
            first = await releasing
            await eventually(lambda: len(jobs.events("verdict")) == len(episodes))
            await eventually(lambda: all(review.done() for review in buffer._reviews.values()))
            second = await buffer.release(step=1, should_stop=lambda: False)
        decisions = {event.episode: event.data["decision"] for event in jobs.events("verdict")}
        outcomes = [e.episode for kind in ("episode_released", "episode_dropped") for e in jobs.events(kind)]
        retried = jobs.events("review_retried")
    assert first is not None and second is not None
    assert decisions == {e.id: "flagged" if e.id in cheats else "clear" for e in episodes}
    assert len(retried) == 4, "what the killed judge had in hand went to the other one"
    assert sorted(outcomes) == sorted(decisions), "each counts once"
    if late == "hold":
        assert {e.id: e.reward for e in first[0]} == {e.id: 1.0 for e in episodes if e.id not in cheats}
        assert first[1]["judge_dropped"] == len(cheats) and second[0] == []
    else:
        assert {e.id: e.reward for e in second[0]} == dict.fromkeys(cheats, -1.0)
        assert second[1]["judge_late_flagged"] == second[1]["judge_compensated"] == len(cheats)


@pytest.mark.megatron
async def test_a_run_with_judges_trains_on_what_they_clear(tmp_path: Path, command_line: CommandLine) -> None:
    script = lambda number, request: verdict(request, 0.95 if number % 2 else 0.05)  # noqa: E731
    async with ScriptedEndpoint(script).serving() as endpoint:
        config = tmp_path / "judged.yaml"
        judge = f"judge: {{enabled: true, endpoint: '{endpoint.url}', model: judge, workers: 2, min_share: 1.0}}\n"
        config.write_text(SMALL.read_text() + judge)
        run = command_line.folder / "run"
        done = await asyncio.to_thread(command_line.run, "train", str(config), "--run", str(run), "--steps", "2")
    assert done.returncode == 0, done.stderr
    rows = read_metrics(run / "metrics" / "trainer.jsonl")
    events = list(read_events(run / "audit"))
    verdicts = [event for event in events if event.kind == "verdict"]
    assert len(rows) == 2 and len({event.episode for event in verdicts}) == len(verdicts) == 8
    assert sum(row["judge_flagged"] for row in rows) == sum(v.data["decision"] == "flagged" for v in verdicts) > 0
    assert sum(row["judge_dropped"] for row in rows) == sum(event.kind == "episode_dropped" for event in events)
    assert {v.data["judge"] for v in verdicts} <= {"judge-0", "judge-1"}
    assert {event.producer for event in events if event.kind == "judge_ready"} == {"judge-0", "judge-1"}
