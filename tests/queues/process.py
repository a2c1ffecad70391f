"""`python -m tests.queues.process RUN controller|worker NAME SLOTS [DELAY_S]`: one of them, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from audit.events import AuditLog
from queues.controller import Controller
from queues.link import WorkerLink
from tests.queues.conftest import HEARTBEAT_S, LOST_AFTER_S
from tests.queues.echo import EchoWorker


async def main(run: Path, what: str, *args: str) -> None:
    keys, endpoint = run / "keys", run / "endpoints" / "controller.json"
    if what == "controller":
        with AuditLog(run / "audit", "controller") as audit:
            await Controller(
                "127.0.0.1", keys, endpoint, audit=audit, heartbeat_s=HEARTBEAT_S, lost_after_s=LOST_AFTER_S
            ).run()
    else:
        name, slots, *delay = args
        link = WorkerLink(endpoint, keys, heartbeat_s=HEARTBEAT_S)
        await EchoWorker(name, int(slots), link, lambda _: float(delay[0]) if delay else 0.0).serve()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
