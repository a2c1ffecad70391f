"""What a worker uses is in its audit log and metrics: per command, per sandbox, and for all of it together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from audit.events import AuditError, AuditLog
from audit.metrics import MetricsLog, read_metrics
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from containers.processes import used_by
from queues.messages import OpenSession, Submit
from sandbox.limits import Limits
from sandbox.meter import Meter
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec
from sandbox.session import Session
from tests.sandbox.small_tasks import REVERSE, events, run, services

pytestmark = pytest.mark.apptainer

MIB = 1 << 20
BURN = b"""python3 -c '
import sys, time
x = bytearray(100 << 20)
while time.process_time() < 1:
    pass
open("big", "wb").write(x[:5000000])
'"""


async def test_of_a_worker_and_its_sandboxes(
    tmp_path: Path, apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    pool = Pool(apptainer, base_image, isolation, 1)
    with AuditLog(tmp_path / "audit", "w") as audit, MetricsLog(tmp_path / "w.jsonl") as metrics:
        meter = Meter({"agents": pool}, audit, metrics)
        async with pool.lease() as sandbox:
            await sandbox.open(CellSpec(), Limits())
            await sandbox.run(b"true")
            await meter.sample()
            holding = asyncio.create_task(sandbox.run(b"python3 -c 'import time; x=bytearray(100<<20); time.sleep(3)'"))
            while not holding.done() and used_by(sandbox.pid).memory_bytes < 100 * MIB:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.5)
            await meter.sample()
            await holding
            await sandbox.run(BURN)
            await meter.sample()
        await pool.close()
        await meter.sample()
    before, during, after, last = (event.data for event in events(tmp_path / "audit", "resources"))
    assert before["agents_commands"] == 1 and before["agents_leased"] == 1 and before["processes"] >= 3
    assert 90 * MIB < during["memory_bytes"] - before["memory_bytes"] < 160 * MIB
    assert after["agents_cpu_s"] > 1.0 and after["agents_memory_bytes"] > 100 * MIB
    assert after["agents_written_bytes"] >= 5_000_000
    assert after["cpu_s"] - before["cpu_s"] > 1.0, "the worker's own sum sees it as well"
    for name in ("agents_cpu_s", "agents_commands", "agents_written_bytes"):
        assert last[name] == after[name], "nothing is lost when sandboxes end, and nothing counts twice"
    assert last["cpu_s"] >= after["cpu_s"] - 0.05, "nor when their processes do"
    assert last["memory_peak_bytes"] >= during["memory_bytes"] > last["memory_bytes"]
    assert (last["agents_started"], last["agents_ended_closed"], last["agents_idle"]) == (1, 1, 0)
    (ended,) = events(tmp_path / "audit", "sandbox_ended")
    assert (ended.data["pool"], ended.data["why"], ended.data["cells"], ended.data["commands"]) == (
        "agents", "closed", 1, 3,
    )  # fmt: skip
    assert ended.data["cpu_s"] > 1.0 and ended.data["memory_bytes"] > 100 * MIB
    rows = read_metrics(tmp_path / "w.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert rows[2]["agents_cpu_s"] == pytest.approx(after["agents_cpu_s"])


async def test_samples_are_numbered_on_after_a_restart(tmp_path: Path) -> None:
    for wanted in (2, 4):
        with AuditLog(tmp_path / "audit", "w") as audit, MetricsLog(tmp_path / "w.jsonl") as metrics:
            meter = Meter({}, audit, metrics, every_s=0.01)
            task = asyncio.create_task(meter.run())
            while len(read_metrics(tmp_path / "w.jsonl")) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    steps = [row["step"] for row in read_metrics(tmp_path / "w.jsonl")]
    assert steps == list(range(len(steps))) and len(steps) >= 4


async def test_what_cannot_be_recorded_is_raised(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", "w")
    audit.close()
    with pytest.raises(AuditError):
        await Meter({}, audit, every_s=0.01).run()


async def test_of_one_command_of_an_episode(tmp_path: Path) -> None:
    async with services(tmp_path / "audit") as shared:
        patient = msgspec.structs.replace(REVERSE, limits=Limits(wall_s=300))
        session = Session(OpenSession(request_id="o", episode="e", suite="small", task="reverse"), patient, shared)
        await session.open()
        await session.submit(Submit(request_id="s", episode="e", step=0, action=run(BURN)))
        await session.close("done")
    (action,) = events(tmp_path / "audit", "action")
    assert action.data["status"] == "ok"
    assert action.data["cpu_s"] >= 1.0 and action.data["memory_bytes"] > 100 * MIB
    assert action.data["written_bytes"] >= 5_000_000 and action.data["read_bytes"] > 0
