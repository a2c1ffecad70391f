"""Real sockets, real keys, and an echo worker; what is killed in a test runs as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from audit.events import AuditLog
from queues.client import QueueClient
from queues.controller import Controller
from queues.keys import Role, create_keys
from queues.messages import Action, GetStatus, OpenSession, StatusReply, Submit

HEARTBEAT_S, LOST_AFTER_S = 0.2, 1.5


@dataclass
class Run:
    """One run's folder, and what the test started in it."""

    path: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def endpoint(self) -> Path:
        return self.path / "endpoints" / "controller.json"

    def client(self, role: Role = "trainer") -> QueueClient:
        return QueueClient(self.endpoint, self.keys, role)

    def start(self, what: str, *args: str) -> subprocess.Popen[bytes]:
        """`controller`, or `worker NAME SLOTS`, in a process of its own."""
        command = [sys.executable, "-m", "tests.queues.process", str(self.path), what, *args]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        self.processes.append(process)
        return process

    @contextlib.asynccontextmanager
    async def controller(self, bind_host: str = "127.0.0.1", **options) -> AsyncIterator[Controller]:
        with AuditLog(self.path / "audit", "controller") as audit:
            controller = Controller(
                bind_host,
                self.keys,
                self.endpoint,
                audit=audit,
                **{"heartbeat_s": HEARTBEAT_S, "lost_after_s": LOST_AFTER_S, **options},
            )
            serving = asyncio.create_task(controller.run())
            started = asyncio.create_task(controller.started.wait())
            await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
            try:
                if serving.done():
                    serving.result()
                yield controller
            finally:
                started.cancel()
                controller.stop()
                await serving


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    create_keys(tmp_path / "keys")
    run = Run(tmp_path)
    yield run
    for process in run.processes:
        process.kill()
        process.wait()


async def status(client: QueueClient) -> StatusReply:
    reply = await client.call(GetStatus(request_id=f"status-{time.monotonic_ns()}"), timeout_s=60)
    assert isinstance(reply, StatusReply)
    return reply


async def until(client: QueueClient, holds: Callable[[StatusReply], bool]) -> StatusReply:
    """Wait until the controller's status is as expected."""
    while True:
        seen = await status(client)
        if holds(seen):
            return seen
        await asyncio.sleep(0.05)


async def eventually(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)


def opening(episode: str, request_id: str = "", suite: str = "micro") -> OpenSession:
    return OpenSession(request_id=request_id or f"open-{episode}", episode=episode, suite=suite, task="reverse")


def submit(episode: str, step: int = 0, body: bytes = b"echo", request_id: str = "") -> Submit:
    request_id = request_id or f"submit-{episode}-{step}"
    return Submit(request_id=request_id, episode=episode, step=step, action=Action(kind="run", body=body))
