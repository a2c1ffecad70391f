"""`ectype status`: the jobs of a run, how far the trainer is, and what the queues hold, on one screen.

It only reads: the run folder, the executor's view of the jobs, and the controller through the viewer's key.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

from rich.console import Console
from rich.table import Table

from audit.errors import EctypeError
from audit.metrics import read_metrics
from jobs.job import read_records
from jobs.launch import read_jobs
from jobs.run_dir import RunDir
from jobs.watch import look
from queues.client import QueueClient
from queues.messages import GetStatus, StatusReply

QUEUE_TIMEOUT_S = 3.0


def show(run: RunDir, console: Console | None = None) -> None:
    """Print the state of `run`."""
    console = console or Console(highlight=False)
    config = run.config()
    console.print(f"run {config.name}  suite {config.suite}  anti-cheat {config.anticheat.mode}", markup=False)
    console.print(str(run.path), markup=False, soft_wrap=True)
    jobs = read_jobs(run)
    if jobs is None:
        console.print("It was never started.")
        return
    seen, records = look(jobs), read_records(run)
    table = Table("job", "id", "executor", "says", "host", "for", "requeues", box=None, pad_edge=False)
    for name, job in seen.items():
        record = records.get(name)
        since = _duration((record.ended or time.time()) - record.started) if record else ""
        table.add_row(
            name,
            job.job.id,
            f"{job.state} {job.reason}".strip(),
            record.state if record else "not started",
            record.host if record else "",
            since,
            str(record.restarts) if record and record.restarts else "",
        )
    console.print(table)
    for name, job in seen.items():
        log = Path(job.job.log)
        if log.is_relative_to(run.path):  # not when the folder was moved, or is reached by another path
            log = log.relative_to(run.path)
        console.print(f"log of {name}: {log}", markup=False, soft_wrap=True)
    for record in records.values():
        if record.error:
            console.print(f"{record.name}: {record.error}", markup=False, soft_wrap=True)
    stop = run.stop_reason()
    if stop is not None:
        console.print(f"stopped: {stop.reason}", markup=False)
    metrics = read_metrics(run.metrics / "trainer.jsonl")
    if metrics:
        last = metrics[-1]
        numbers = "  ".join(f"{key} {last[key]:.3f}" for key in ("reward", "solved", "cheat_rate") if key in last)
        console.print(f"step {int(last['step'])} of {config.trainer.steps}  {numbers}")
    if any(job.alive for job in seen.values()) and run.endpoint_file.exists():
        console.print(asyncio.run(_queues(run)))


async def _queues(run: RunDir) -> str:
    client = QueueClient(run.endpoint_file, run.keys, role="viewer")
    try:
        reply = await client.call(GetStatus(request_id=uuid.uuid4().hex), timeout_s=QUEUE_TIMEOUT_S)
    except (EctypeError, TimeoutError):
        return "queues: the controller does not answer (it may be starting)"
    finally:
        await client.close()
    if not isinstance(reply, StatusReply):
        return f"queues: unexpected answer {type(reply).__name__}"
    slots = sum(total for _, total in reply.workers.values())
    return (
        f"queues: {reply.sessions} sessions on {slots} slots of {len(reply.workers)} workers, "
        f"{reply.queued} waiting, {reply.commands} commands so far" + _judges(reply)
    )


def _judges(reply: StatusReply) -> str:
    if not reply.judges and not reply.counters.get("reviews"):
        return ""
    said = {name: reply.counters.get(f"reviews_{name}", 0) for name in ("clear", "flagged", "uncertain", "failed")}
    verdicts = ", ".join(f"{count} {name}" for name, count in said.items())
    return f"\njudges: {len(reply.judges)}, {reply.reviews} episodes unanswered; verdicts: {verdicts}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
