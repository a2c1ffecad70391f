"""Controllers and workers that are killed, as processes of their own."""

import asyncio
import signal

from queues.messages import (
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    StepReply,
)
from tests.queues.conftest import Run, eventually, opening, status, submit, until


async def test_the_controller_is_killed_and_another_one_goes_on(run: Run):
    controller = run.start("controller")
    run.start("worker", "w0", "8", "0.05")
    async with run.client() as client:
        for i in range(4):
            assert isinstance(await client.call(opening(f"e{i}"), timeout_s=60), SessionOpened)
        calls = [asyncio.create_task(client.call(submit(f"e{i}", 0), timeout_s=60)) for i in range(4)]
        await asyncio.sleep(0.02)  # some are on their way, some not: all of them must be answered
        controller.kill()
        controller.wait()
        later = [asyncio.create_task(client.call(submit(f"e{i}", 1), timeout_s=60)) for i in range(4)]
        await asyncio.sleep(0.2)
        run.start("controller")
        for reply in await asyncio.gather(*calls, *later):
            assert isinstance(reply, StepReply)
        seen = await status(client)
        assert seen.workers == {"w0": (4, 8)} and seen.counters["recovered_leases"] == 4
        # Each step was executed exactly once: 4 openings, 8 submits.
        assert (await until(client, lambda s: s.commands >= 12)).commands == 12
        assert isinstance(await client.call(Result(request_id="r", episode="e0"), timeout_s=60), ResultReply)


async def test_a_reply_that_was_lost_with_the_controller_is_given_again(run: Run):
    controller = run.start("controller")
    run.start("worker", "w0", "8")
    async with run.client() as client:
        await client.call(opening("e1"), timeout_s=60)
        graded = await client.call(Result(request_id="r", episode="e1"), timeout_s=60)
        controller.kill()
        controller.wait()
        run.start("controller")
        # As a driver would that did not get the reply: the session has ended, the worker still knows the answer.
        assert await client.call(Result(request_id="r", episode="e1"), timeout_s=60) == graded
        assert (await until(client, lambda s: "w0" in s.workers)).workers == {"w0": (0, 8)}


async def test_a_worker_is_killed(run: Run):
    run.start("controller")
    doomed = run.start("worker", "doomed", "2", "0.5")
    async with run.client() as client:
        assert isinstance(await client.call(opening("e1"), timeout_s=60), SessionOpened)
        step = asyncio.create_task(client.call(submit("e1"), timeout_s=60))
        second = asyncio.create_task(client.call(opening("e2"), timeout_s=60))
        await until(client, lambda s: s.sessions == 2)
        doomed.send_signal(signal.SIGKILL)
        run.start("worker", "spare", "2")
        lost, moved = await asyncio.gather(step, second)
        assert isinstance(lost, SessionLost) and "not heard" in lost.reason
        assert isinstance(moved, SessionOpened) and moved.worker == "spare"
        seen = await status(client)
        assert seen.workers == {"spare": (1, 2)} and seen.counters["moved_opens"] == 1
        # The episode can be opened again.
        assert isinstance(await client.call(opening("e1", "again"), timeout_s=60), SessionOpened)


async def test_a_worker_that_was_away_too_long_gives_up_its_sessions(run: Run):
    run.start("controller")
    worker = run.start("worker", "w0", "4")
    async with run.client() as client:
        await client.call(opening("e1"), timeout_s=60)
        worker.send_signal(signal.SIGSTOP)
        call = asyncio.create_task(client.call(submit("e1"), timeout_s=60))
        assert isinstance(await call, SessionLost)
        await until(client, lambda s: not s.workers)
        worker.send_signal(signal.SIGCONT)
        seen = await until(client, lambda s: "w0" in s.workers)
        assert seen.workers == {"w0": (0, 4)}
        # It had the request in its socket, and answers: too late, dropped and counted.
        assert (await until(client, lambda s: s.counters.get("late_replies", 0) > 0)).counters["late_replies"] == 1
        assert isinstance(await client.call(submit("e1", 1), timeout_s=60), SessionLost)
        assert isinstance(await client.call(opening("e1", "again"), timeout_s=60), SessionOpened)


async def test_clients_and_workers_may_come_before_the_controller(run: Run):
    run.start("worker", "w0", "1")
    async with run.client() as client:
        call = asyncio.create_task(client.call(opening("e1"), timeout_s=60))
        await asyncio.sleep(0.3)
        controller = run.start("controller")
        assert isinstance(await call, SessionOpened)
        controller.kill()
        controller.wait()
        await eventually(lambda: controller.poll() is not None)
