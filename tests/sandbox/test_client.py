"""Driver, controller and worker over real ZeroMQ with CURVE on loopback, with real sandboxes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from audit.events import AuditLog
from queues.client import QueueClient
from queues.controller import Controller
from queues.keys import create_keys
from queues.link import WorkerLink
from queues.messages import TestResult
from sandbox.client import SandboxClient, SessionLostError, SessionRefusedError
from sandbox.hidden import write_hidden
from sandbox.worker import Worker
from tests.sandbox.small_tasks import SOLUTION, TASKS, run, services, write

pytestmark = pytest.mark.apptainer


@asynccontextmanager
async def fleet(tmp_path: Path, *, slots: int = 2) -> AsyncIterator[SandboxClient]:
    """A controller, one worker and a client, each with its own key."""
    keys, endpoint = tmp_path / "keys", tmp_path / "endpoints" / "controller.json"
    create_keys(keys)
    for hidden in TASKS:
        write_hidden(tmp_path / "tasks", hidden)
    with AuditLog(tmp_path / "audit", "controller") as audit:
        controller = Controller("127.0.0.1", keys, endpoint, audit=audit, heartbeat_s=0.5, lost_after_s=5.0)
        async with services(tmp_path / "audit", size=slots) as shared:
            worker = Worker("w0", shared, tmp_path / "tasks", slots=slots)
            link = WorkerLink(endpoint, keys, heartbeat_s=0.5)
            running = [asyncio.create_task(controller.run())]
            await link.connect(worker.hello, worker.heartbeat)
            running.append(asyncio.create_task(worker.serve(link)))
            try:
                async with QueueClient(endpoint, keys) as queue:
                    yield SandboxClient(queue, open_timeout_s=60, call_timeout_s=60)
            finally:
                running[1].cancel()
                await asyncio.gather(running[1], return_exceptions=True)
                await link.close()
                controller.stop()
                await asyncio.gather(running[0], return_exceptions=True)


async def test_end_to_end(tmp_path: Path) -> None:
    async with fleet(tmp_path) as client:

        async def play(number: int) -> TestResult:
            """More episodes than slots: the ones that find no sandbox wait."""
            session = await client.open(f"e{number}", "small", "reverse", max_tests=1)
            assert session.worker == "w0"
            probe = await session.submit(0, run(f"echo ab{number} | reference 2>/dev/null"))
            assert probe.observation.stdout == b"%dba\n" % number
            await session.submit(1, write("main.py", SOLUTION))
            assert (await session.test(2)).result.passed == 4
            return (await session.result()).result

        results = await asyncio.gather(*(play(number) for number in range(5)))
        assert results == [TestResult(compile_status="none", passed=4, total=4)] * 5


async def test_wrong_and_lost_sessions_have_their_own_errors(tmp_path: Path) -> None:
    async with fleet(tmp_path) as client:
        with pytest.raises(SessionRefusedError, match="no task 'none'") as refused:
            await client.open("e1", "small", "none")
        assert refused.value.where == "episode e1"
        session = await client.open("e2", "small", "reverse")
        await session.close()
        await session.close()
        with pytest.raises((SessionLostError, SessionRefusedError)):
            await session.submit(0, run("true"))
        session = await client.open("e3", "small", "reverse")
        await session.result()
        with pytest.raises((SessionLostError, SessionRefusedError)):
            await session.test(1)
        await session.close()


async def test_nobody_there_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys")
    async with QueueClient(tmp_path / "none.json", tmp_path / "keys") as queue:
        with pytest.raises(SessionLostError) as lost:
            await SandboxClient(queue, open_timeout_s=0.5).open("e", "small", "reverse")
        assert lost.value.remedy
