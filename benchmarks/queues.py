"""How many requests per second the queues carry: driver, controller and an echo worker as three processes.

`python -m benchmarks.queues [--requests N] [--sessions N] [--body BYTES] [--json]`. Every request is a `Submit` and
goes driver -> controller -> worker and back, encrypted; each session has one request in flight. With `--json` the last
line is `{"round_trips_per_s", "p50_ms", "p99_ms", "controller_cpu_us", "worker_cpu_us", "driver_cpu_us", ...}`: the CPU
time of each process per round trip says what they can do on a machine that is busy with something else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from audit.events import AuditLog
from queues.client import QueueClient
from queues.controller import Controller
from queues.keys import create_keys
from queues.link import WorkerLink
from queues.messages import (
    Action,
    CloseSession,
    Observation,
    OpenSession,
    SessionOpened,
    StepReply,
    Submit,
    Verdict,
    WorkerHello,
)


def run_controller(run: Path) -> None:
    with AuditLog(run / "audit", "controller") as audit:
        asyncio.run(Controller("127.0.0.1", run / "keys", run / "endpoint.json", audit=audit).run())


def run_worker(run: Path, slots: int) -> None:
    asyncio.run(_echo(WorkerLink(run / "endpoint.json", run / "keys"), slots))


async def _echo(link: WorkerLink, slots: int) -> None:
    sessions: set[str] = set()
    await link.connect(lambda: WorkerHello(worker="echo", slots=slots, suites=("echo",), sessions=tuple(sessions)))
    async for request in link:
        if isinstance(request, OpenSession):
            sessions.add(request.episode)
            await link.send(SessionOpened(request_id=request.request_id, episode=request.episode, worker="echo"))
        elif isinstance(request, Submit):
            observation = Observation(status="ok", exit_status=0, stdout=request.action.body)
            await link.send(
                StepReply(
                    request_id=request.request_id,
                    episode=request.episode,
                    step=request.step,
                    observation=observation,
                    verdict=Verdict(),
                )
            )
        else:
            assert isinstance(request, CloseSession)


async def drive(run: Path, requests: int, sessions: int, body: int) -> dict[str, float]:
    latencies: list[float] = []
    action = Action(kind="run", body=b"x" * body)

    async def episode(client: QueueClient, name: str) -> None:
        opened = OpenSession(request_id=f"{name}-open", episode=name, suite="echo", task="echo")
        assert isinstance(await client.call(opened, timeout_s=60), SessionOpened)
        for step in range(requests // sessions):
            started = time.perf_counter()
            submit = Submit(request_id=f"{name}-{step}", episode=name, step=step, action=action)
            reply = await client.call(submit, timeout_s=60)
            assert isinstance(reply, StepReply)
            latencies.append(time.perf_counter() - started)

    async with QueueClient(run / "endpoint.json", run / "keys") as client:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(sessions):
                group.create_task(episode(client, f"e{number}"))
        wall = time.perf_counter() - started
    percentiles = statistics.quantiles(latencies, n=100)
    return {
        "round_trips_per_s": round(len(latencies) / wall, 1),
        "p50_ms": round(percentiles[49] * 1e3, 3),
        "p99_ms": round(percentiles[98] * 1e3, 3),
        "requests": len(latencies),
        "sessions": sessions,
        "body_bytes": body,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Round trips per second through the queues")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--body", type=int, default=200, help="bytes of each action, and of each output")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        create_keys(run / "keys")
        processes = [
            spawn.Process(target=run_controller, args=(run,), daemon=True),
            spawn.Process(target=run_worker, args=(run, args.sessions), daemon=True),
        ]
        for process in processes:
            process.start()
        try:
            result = asyncio.run(drive(run, args.requests, args.sessions, args.body))
            pids = {"controller": processes[0].pid, "worker": processes[1].pid, "driver": None}
            for name, pid in pids.items():
                cpu = psutil.Process(pid).cpu_times()
                result[f"{name}_cpu_us"] = round((cpu.user + cpu.system) / result["requests"] * 1e6, 1)
        finally:
            for process in processes:
                process.kill()
                process.join()
    if args.json:
        print(json.dumps(result))
    else:
        print(
            f"{result['round_trips_per_s']:.0f} round trips/s, {result['p50_ms']} ms median, {result['p99_ms']} ms p99"
        )


if __name__ == "__main__":
    main()
