"""The trainer's job: wires the training loop to the sandboxes of this run. It is told nothing of hidden cases.

All its state is in the newest checkpoint, so it starts the same way whether it is new, requeued or resumed. Rank 0
holds the run's lock and plays the episodes; other ranks follow it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import submitit

from audit.errors import EctypeError
from audit.events import AuditLog
from jobs.job import CANCEL_GRACE_S, Context
from jobs.run_config import DEMONSTRATED, RunConfig
from jobs.run_dir import RunDir
from queues.client import QueueClient, QueueTimeout
from queues.messages import Action, ResultReply, Reviewed, ReviewEpisode, StepReply, TestReply
from rl.config import LearnConfig
from rl.tasks import list_suites, load_suite
from sandbox.client import RemoteSession, SandboxClient, SessionLostError

if TYPE_CHECKING:
    from rl.demonstrations import Repertoire
    from rl.trainer import Review

FIRST_PORT, PORTS = 20_000, 20_000
REVIEW_TIMEOUT_S = 3600.0


def run_trainer(context: Context) -> bool:
    """Train to the last step; True when it was reached, False when the job was asked to stop before."""
    run = context.run
    config = run.config()
    rank = _join_ranks(config)
    threading.Thread(target=_leave_when_stopped, args=(context,), name="stop", daemon=True).start()
    with run.trainer_lock if rank == 0 else nullcontext():
        (suite,) = list_suites(run.tasks)
        tasks = load_suite(run.tasks, suite)
        from rl.trainer import train

        review = _review(run, config) if rank == 0 and config.judge.enabled else None
        told = {name: getattr(config, name) for name in LearnConfig.model_fields} | {"suite": suite}
        return train(
            LearnConfig.model_validate(told),
            tasks=tasks,
            sessions=RunSessions(run),
            run_dir=run.path,
            should_stop=context.should_stop,
            repertoire=_repertoire(suite),
            review=review,
        )


def _join_ranks(config: RunConfig) -> int:
    """Say to torch.distributed what submitit knows, when there are several ranks. Returns the rank."""
    if config.world_size == 1:
        return 0
    here = submitit.JobEnvironment()
    os.environ.update(
        RANK=str(here.global_rank),
        WORLD_SIZE=str(here.num_tasks),
        LOCAL_RANK=str(here.local_rank),
        LOCAL_WORLD_SIZE=str(here.num_tasks // here.num_nodes),
        MASTER_ADDR=here.hostnames[0] if here.num_nodes > 1 else "127.0.0.1",
        MASTER_PORT=str(FIRST_PORT + int(here.raw_job_id) % PORTS),
    )
    return here.global_rank


def _leave_when_stopped(context: Context) -> None:
    """End this process when the run has stopped and the training loop is still waiting for something.

    A loop whose sandboxes are gone may wait for minutes; what is lost is less than a step since the last checkpoint.
    """
    stopped_since: float | None = None
    while stopped_since is None or time.monotonic() - stopped_since < CANCEL_GRACE_S:
        time.sleep(1.0)
        if not _has_stopped(context):
            stopped_since = None
        elif stopped_since is None:
            stopped_since = time.monotonic()
    context.record_end("stopped")
    os._exit(1)


def _has_stopped(context: Context) -> bool:
    """Whether somebody said so, or every job was asked to end (the command line died) and the controller has left."""
    stop = context.run.stop_reason()
    if stop is not None:
        return stop.reason != "finished"
    return context.signals.received is not None and not context.run.endpoint_file.exists()


def _repertoire(suite: str) -> Repertoire | None:
    """What demonstrations of `suite` are made of; None for a suite that has none."""
    from rl.demonstrations import Repertoire
    from tasks.micro import MICRO, PROBES

    if suite not in DEMONSTRATED:
        return None
    return Repertoire(
        solutions={program.name: program.source for program in MICRO},
        probes=tuple(probe.decode().rstrip("\n") for probe in PROBES),
    )


def _review(run: RunDir, config: RunConfig) -> Review:
    from rl.trainer import Review

    return Review(config.judge, RunReviewer(run), AuditLog(run.audit, "trainer").write)


class RunReviewer:
    """`rl.replay.Reviewer` over the review queue of a run: asks until there is an answer."""

    def __init__(self, run: RunDir) -> None:
        self._client = QueueClient(run.endpoint_file, run.keys)

    async def review(self, request: ReviewEpisode) -> Reviewed:
        while True:
            try:
                reply = await self._client.call(request, timeout_s=REVIEW_TIMEOUT_S)
            except QueueTimeout:  # the policy for late verdicts is the buffer's
                continue
            if isinstance(reply, Reviewed):
                return reply
            raise EctypeError(
                f"the controller refused to have an episode judged: {reply}",
                where=str(request.request_id),
                remedy="run all jobs of a run from the same version of ectype",
            )


class RunSessions:
    """`rl.rollout.Sessions` over the queues of a run: a lost session is `SandboxUnavailable` there."""

    def __init__(self, run: RunDir) -> None:
        self._client = SandboxClient(QueueClient(run.endpoint_file, run.keys))

    async def open(self, episode: str, suite: str, task: str, *, max_tests: int, oracle_calls: int) -> RunSession:
        with _losses():
            return RunSession(
                await self._client.open(episode, suite, task, max_tests=max_tests, oracle_calls=oracle_calls)
            )


class RunSession:
    def __init__(self, session: RemoteSession) -> None:
        self._session = session

    async def submit(self, step: int, action: Action) -> StepReply:
        with _losses():
            return await self._session.submit(step, action)

    async def test(self, step: int) -> TestReply:
        with _losses():
            return await self._session.test(step)

    async def result(self) -> ResultReply:
        with _losses():
            return await self._session.result()

    async def close(self) -> None:
        with _losses():
            await self._session.close()


@contextmanager
def _losses() -> Iterator[None]:
    """Translate the loss of a session; everything else (a refused request, a wrong key) stays what it is."""
    from rl.rollout import SandboxUnavailable

    try:
        yield
    except (SessionLostError, QueueTimeout) as error:
        raise SandboxUnavailable(str(error)) from error
