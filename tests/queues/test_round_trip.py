"""Driver, controller and worker in one process: every kind of request, bounds, repeated requests, clean ends."""

import asyncio
import contextlib
import json
import socket

import pytest

from audit.events import AuditLog, read_events
from queues.client import QueueTimeout
from queues.controller import Controller
from queues.endpoint import MAX_MESSAGE_BYTES, QueueError
from queues.link import WorkerLink
from queues.messages import (
    Busy,
    Closed,
    CloseSession,
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    StepReply,
    Submit,
    Test,
    TestReply,
    WorkerHello,
)
from tests.queues.conftest import HEARTBEAT_S, LOST_AFTER_S, Run, eventually, opening, status, submit, until
from tests.queues.echo import EchoWorker


@contextlib.asynccontextmanager
async def working(run: Run, name: str = "w0", slots: int = 4, delay_s=lambda _: 0.0):
    worker = EchoWorker(name, slots, WorkerLink(run.endpoint, run.keys, heartbeat_s=HEARTBEAT_S), delay_s)
    serving = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        await worker.link.close()
        await serving


async def test_one_episode_with_every_request(run: Run):
    async with run.controller(), working(run) as worker, run.client() as client:
        opened = await client.call(opening("e1"), timeout_s=60)
        assert isinstance(opened, SessionOpened) and opened.worker == "w0"
        body = bytes(range(256)) * 4096
        reply = await client.call(submit("e1", 0, body), timeout_s=60)
        assert isinstance(reply, StepReply) and reply.observation.stdout == body
        assert isinstance(await client.call(Test(request_id="t", episode="e1", step=1), timeout_s=60), TestReply)
        assert (await status(client)).workers == {"w0": (1, 4)}
        assert isinstance(await client.call(Result(request_id="r", episode="e1"), timeout_s=60), ResultReply)
        seen = await until(client, lambda s: s.commands == 4)
        assert seen.workers == {"w0": (0, 4)} and seen.sessions == 0
        # Asked again, the worker's answer is the same, although the session is over.
        assert isinstance(await client.call(Result(request_id="r", episode="e1"), timeout_s=60), ResultReply)
        assert worker.executed == ["open-e1", "submit-e1-0", "t", "r"]
        # An unknown episode is lost, and closing it is harmless.
        await asyncio.sleep(LOST_AFTER_S)
        assert isinstance(await client.call(submit("never"), timeout_s=60), SessionLost)
        assert isinstance(await client.call(CloseSession(request_id="c", episode="never"), timeout_s=60), Closed)
    kinds = [event.kind for event in read_events(run.path / "audit")]
    assert kinds[0] == "controller_started" and kinds[-1] == "controller_stopped"
    assert "session_leased" in kinds and "worker_joined" in kinds
    assert not run.endpoint.exists()


async def test_many_episodes_at_once_and_the_bound(run: Run):
    async with run.controller(queue_bound=3), working(run, slots=2), run.client() as client:
        for episode in ("e0", "e1"):
            await client.call(opening(episode), timeout_s=60)
        waiting = [asyncio.create_task(client.call(opening(f"e{i}"), timeout_s=60)) for i in (2, 3, 4)]
        await until(client, lambda s: s.queued == 3)
        busy = await client.call(opening("e5"), timeout_s=60)
        assert isinstance(busy, Busy) and busy.retry_after_s > 0 and "3 sessions" in busy.reason
        assert (await status(client)).counters["busy"] == 1
        # A place that becomes free goes to who has waited longest.
        await client.call(CloseSession(request_id="c0", episode="e0"), timeout_s=60)
        assert isinstance(await waiting[0], SessionOpened)
        assert not waiting[1].done() and not waiting[2].done()
        await client.call(CloseSession(request_id="c1", episode="e1"), timeout_s=60)
        await client.call(CloseSession(request_id="c2", episode="e2"), timeout_s=60)
        assert {type(reply) for reply in await asyncio.gather(*waiting)} == {SessionOpened}
        assert (await status(client)).counters["leases"] == 5


async def test_the_worker_with_most_free_slots_and_the_right_suite(run: Run):
    async with run.controller(), working(run, "small", 1), working(run, "large", 3), run.client() as client:
        await until(client, lambda s: len(s.workers) == 2)
        workers = []
        for i in range(4):
            opened = await client.call(opening(f"e{i}"), timeout_s=60)
            assert isinstance(opened, SessionOpened)
            workers.append(opened.worker)
        assert workers[:2] == ["large", "large"] and sorted(workers) == ["large", "large", "large", "small"]
        with pytest.raises(QueueTimeout, match=r"ectype status"):
            await client.call(opening("e9", suite="nobody-has-it"), timeout_s=0.3)


async def test_a_repeated_request_is_executed_once(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("queues.client.RESEND_FIRST_S", 0.1)
    async with run.controller(), working(run, delay_s=lambda r: 1.0 if isinstance(r, Submit) else 0.0) as worker:
        async with run.client() as client:
            await client.call(opening("e1"), timeout_s=60)
            assert isinstance(await client.call(submit("e1"), timeout_s=60), StepReply)
            seen = await until(client, lambda s: s.counters.get("duplicate_replies", 0) > 0)
        assert worker.executed.count("submit-e1-0") == 1 < worker.received.count("submit-e1-0")
        assert seen.counters.get("late_replies", 0) == 0


async def test_an_episode_that_is_opened_again_starts_over(run: Run):
    async with run.controller(), working(run) as worker, run.client() as client:
        await client.call(opening("e1"), timeout_s=60)
        await client.call(submit("e1"), timeout_s=60)
        await client.call(opening("e1", "second"), timeout_s=60)
        assert worker.sessions == {"e1": 0}
        assert (await status(client)).workers == {"w0": (1, 4)}
        assert isinstance(await client.call(submit("e1", 0, request_id="s2"), timeout_s=60), StepReply)


async def test_a_driver_that_vanishes_gives_its_sandbox_back(run: Run):
    async with run.controller(lost_after_s=0.5), working(run) as worker, run.client("viewer") as viewer:
        async with run.client() as client:
            await client.call(opening("e1"), timeout_s=60)
        seen = await until(viewer, lambda s: s.sessions == 0)
        assert seen.counters["expired_sessions"] == 1
        await eventually(lambda: not worker.sessions)
        async with run.client() as client:
            lost = await client.call(submit("e1"), timeout_s=60)
            assert isinstance(lost, SessionLost) and "driver is gone" in lost.reason


async def test_a_session_that_nobody_uses_is_closed(run: Run):
    async with run.controller(idle_timeout_s=0.5), working(run) as worker, run.client() as client:
        await client.call(opening("e1"), timeout_s=60)
        await until(client, lambda s: s.counters.get("expired_sessions") == 1)
        await eventually(lambda: not worker.sessions)
        lost = await client.call(submit("e1"), timeout_s=60)
        assert isinstance(lost, SessionLost) and "no request" in lost.reason


async def test_a_worker_that_says_goodbye(run: Run):
    async with run.controller(lost_after_s=3600), run.client() as client, working(run) as worker:
        await client.call(opening("e1"), timeout_s=60)
        async with worker.locks["e1"]:  # the worker is busy with the episode, for as long as we hold this
            call = asyncio.create_task(client.call(submit("e1"), timeout_s=60))
            await eventually(lambda: "submit-e1-0" in worker.received)
            await worker.link.close("test over")
            lost = await call
        assert isinstance(lost, SessionLost) and "test over" in lost.reason


async def test_a_newer_process_of_the_same_name_replaces_the_older(run: Run):
    async with run.controller(), run.client() as client:
        old = EchoWorker("w0", 1, WorkerLink(run.endpoint, run.keys, heartbeat_s=0.2))
        serving = asyncio.create_task(old.serve())
        await client.call(opening("e1"), timeout_s=60)
        async with working(run, "w0", 2):
            with pytest.raises(ExceptionGroup) as caught:
                await serving
            assert caught.group_contains(QueueError, match="newer process")
            assert (await until(client, lambda s: s.workers.get("w0") == (0, 2))).counters["lost_workers"] == 1
            assert isinstance(await client.call(submit("e1"), timeout_s=60), SessionLost)


async def test_of_two_controllers_the_newer_stays(run: Run):
    with AuditLog(run.path / "audit", "controller") as audit:
        older = Controller(
            "127.0.0.1", run.keys, run.endpoint, audit=audit, heartbeat_s=HEARTBEAT_S, lost_after_s=LOST_AFTER_S
        )
        serving = asyncio.create_task(older.run())
        async with working(run) as worker, run.client() as client:
            await client.call(opening("e1"), timeout_s=60)
            async with run.controller():
                with pytest.raises(QueueError, match="another controller has taken over this run"):
                    await serving
                assert isinstance(await client.call(submit("e1"), timeout_s=60), StepReply)
                assert worker.sessions == {"e1": 1}


async def test_limits_are_said(run: Run):
    async with run.client() as client:
        with pytest.raises(QueueError, match="larger than the queues carry"):
            await client.call(submit("e1", body=bytes(MAX_MESSAGE_BYTES)), timeout_s=1)
        with pytest.raises(QueueTimeout, match="does not exist"):
            await client.call(submit("e1"), timeout_s=0.1)


async def test_the_endpoint_file_and_hosts(run: Run):
    async with run.controller() as controller:
        text = json.loads(run.endpoint.read_text())
        assert controller.endpoint is not None and text["drivers"] == controller.endpoint.drivers
        assert text["drivers"].startswith("tcp://127.0.0.1:") and text["drivers"] != text["workers"]
        run.endpoint.unlink()  # by accident: it comes back
        await eventually(run.endpoint.exists)
    for host, announced in (("lo", "127.0.0.1"), ("localhost", "127.0.0.1"), ("*", socket.gethostname())):
        async with run.controller(bind_host=host) as controller:
            assert controller.endpoint is not None and controller.endpoint.drivers.startswith(f"tcp://{announced}:")
    elsewhere = run.controller(bind_host="192.0.2.1")
    with pytest.raises(QueueError, match=r"cannot listen on '192\.0\.2\.1'.*\n.*\n.*interface"):
        await elsewhere.__aenter__()


async def test_a_link_that_is_closed_before_there_is_a_controller_ends_in_peace(run: Run):
    link = WorkerLink(run.endpoint, run.keys)
    connecting = asyncio.create_task(link.connect(lambda: WorkerHello(worker="w", slots=1, suites=("micro",))))
    await asyncio.sleep(0.01)
    await link.close()
    await connecting
    assert [request async for request in link] == []
