"""The rule set of a run is changed while it runs: real controller, real workers, real sandboxes, the real command."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from audit.events import Event, read_events
from detect.rule_book import RuleBook
from detect.rule_set import RULES_DIR, load_rules
from detect.rule_watch import WATCH_S
from jobs.cli import main
from jobs.run_config import RunConfig, SandboxConfig
from jobs.run_dir import RunDir
from jobs.site_config import load_site
from jobs.trainer import RunSessions
from queues.messages import Action, StepReply
from rl.rollout import SessionHandle
from tests.detect.rule_sets import with_marker
from tests.jobs.judged import Jobs
from tests.queues.conftest import eventually

pytestmark = pytest.mark.apptainer

MARKED = Action(kind="run", body=b"echo MARKER\n")
WORKERS = 2


def command(*arguments: str) -> int:
    return main(["rules", *arguments])


async def test_a_set_is_activated_and_rolled_back_in_a_running_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(
        name="live",
        suite="micro-leaky",
        sandbox=SandboxConfig(workers=WORKERS, slots=1, graders=1, oracles=1, spare=0),
    )
    run = RunDir.create(tmp_path / "run", config, load_site("local"))
    jobs = Jobs(run, config)
    steps = itertools.count()
    replies: list[StepReply] = []

    async def act(session: SessionHandle) -> StepReply:
        reply = await session.submit(next(steps), MARKED)
        replies.append(reply)
        return reply

    try:
        jobs.start("controller")
        for worker in range(WORKERS):
            jobs.start("sandbox", worker)
        await eventually(lambda: len(run.rules.taken()) == WORKERS)
        opened = [
            await RunSessions(run).open(f"e{n}", "micro-leaky", "double", max_tests=0, oracle_calls=1) for n in (0, 1)
        ]
        old, new = load_rules(RULES_DIR).hash, load_rules(with_marker(tmp_path / "marked")).hash
        for session in opened:
            reply = await act(session)
            assert (reply.verdict.decision, reply.verdict.rule_set_hash) == ("allow", old)
            assert reply.observation.stdout == b"MARKER\n"

        assert (
            await asyncio.to_thread(command, "activate", str(run.path), str(tmp_path / "marked"), "--why", "a test")
            == 0
        )
        for session in opened:
            reply = await act(session)
            assert (reply.verdict.decision, reply.verdict.enforced) == ("block", True)
            assert (reply.verdict.rules, reply.verdict.rule_set_version) == (("marker",), "marked")
            assert reply.verdict.rule_set_hash == new
            assert reply.observation.stdout != b"MARKER\n"

        # episodes go on while the set is rolled back under them
        rolling = asyncio.create_task(asyncio.to_thread(command, "rollback", str(run.path)))
        while not rolling.done():
            for session in opened:
                await act(session)
        assert rolling.result() == 0
        for session in opened:
            reply = await act(session)
            assert (reply.verdict.decision, reply.verdict.rule_set_hash) == ("allow", old)

        bad = with_marker(tmp_path / "bad", pattern="NEVER")
        assert await asyncio.to_thread(command, "activate", str(run.path), str(bad)) == 2
        assert "must match" in capsys.readouterr().err
        assert (await act(opened[0])).verdict.rule_set_hash == old
        assert command("status", str(run.path), "--json") == 0
        status = json.loads(capsys.readouterr().out.splitlines()[-1])
    finally:
        jobs.end()

    assert [a["kind"] for a in status["activations"]] == ["start", "activate", "rollback"]
    assert {w["worker"]: w["number"] for w in status["workers"]} == {"sandbox-0": 2, "sandbox-1": 2}
    told = [event for event in read_events(run.audit) if event.kind == "rules_activated"]
    assert [(event.data["kind_of_activation"], event.data["why"]) for event in told] == [
        ("activate", "a test"),
        ("rollback", ""),
    ]
    assert all("@" in event.data["by"] for event in told)
    for worker in range(WORKERS):
        check_the_record(run.audit, f"sandbox-{worker}", {0: old, 1: new, 2: old})
    by_step = {(e.episode, e.step): e for e in read_events(run.audit) if e.kind in ("action", "block")}
    for reply in replies:  # what was decided stays decided
        data = by_step[reply.episode, reply.step].data
        assert data["decision"] == reply.verdict.decision
        assert data["rule_set_hash"] == reply.verdict.rule_set_hash
    late = [e.data["after_s"] for e in read_events(run.audit) if e.kind == "rules_taken" and e.data["number"] == 2]
    print(f"the roll-back was in force after {', '.join(f'{s:.2f}' for s in late)} s")


def check_the_record(audit: Path, producer: str, sets: dict[int, str]) -> None:
    """Every verdict is of the set that the worker had taken last when it judged, which is on record too."""
    in_force, numbers, blocks = "", [], 0
    events = events_of(audit, producer)
    assert [e.seq for e in events] == list(range(len(events)))
    for event in sorted(events, key=lambda event: event.data.get("judged", event.time)):
        if event.kind == "rules_taken":
            in_force = event.data["hash"]
            numbers.append(event.data["number"])
            assert in_force == sets[event.data["number"]]
            assert event.data["after_s"] >= 0 or event.data["number"] == 0
        elif event.kind in ("action", "block"):
            assert event.data["rule_set_hash"] == in_force
            assert (event.kind == "block") == (in_force == sets[1])
            blocks += event.kind == "block"
    assert numbers == [0, 1, 2]
    assert blocks >= 1


def events_of(audit: Path, producer: str) -> list[Event]:
    return [event for event in read_events(audit) if event.producer == producer]


def test_workers_look_more_than_once_a_second() -> None:
    assert WATCH_S < 1


def test_the_set_a_run_began_with_stays_its_own(tmp_path: Path) -> None:
    mine = with_marker(tmp_path / "mine")
    config = RunConfig.model_validate({"name": "frozen", "suite": "micro-leaky", "anticheat": {"rules": str(mine)}})
    run = RunDir.create(tmp_path / "run", config, load_site("local"))
    frozen = run.rules.activations()[-1]
    (mine / "VERSION").write_text("edited\n")
    run.freeze(config, load_site("local"))
    assert run.rules.activations()[-1].version == "edited", "no job was started yet"
    (run.logs / "trainer").mkdir()
    (mine / "VERSION").write_text("edited again\n")
    run.freeze(config, load_site("local"))
    (activation,) = run.rules.activations()
    assert activation.version == "edited" and activation.kind == "start"
    assert RuleBook(run.path / "rules").load(frozen.hash).version == "marked"
