"""The worker: many sessions at once, each strictly in order, one reply per request, and no failure of ours rewarded."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from audit.events import AuditError
from queues.messages import (
    Action,
    Busy,
    Closed,
    CloseSession,
    Heartbeat,
    OpenSession,
    Refused,
    Reply,
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
from sandbox.hidden import hidden_path, write_hidden
from sandbox.worker import Services, SessionRequest, Worker
from tests.sandbox.small_tasks import SOLUTION, TASKS, events, run, services, write

pytestmark = pytest.mark.apptainer


@asynccontextmanager
async def a_worker(
    tmp_path: Path, *, slots: int = 2, clock: Callable[[], float] | None = None
) -> AsyncIterator[tuple[Worker, Services]]:
    root = tmp_path / "tasks"
    for hidden in TASKS:
        write_hidden(root, hidden)
    async with services(tmp_path / "audit", size=slots) as shared:
        more = {"clock": clock} if clock else {}
        yield Worker("w0", shared, root, slots=slots, idle_timeout_s=4.0, **more), shared


class Episode:
    def __init__(self, worker: Worker, name: str) -> None:
        self.worker, self.name, self.count = worker, name, 0

    def ids(self, request_id: str = "") -> dict[str, str]:
        self.count += 1
        return {"request_id": request_id or f"{self.name}-{self.count}", "episode": self.name}

    def opening(self, task: str = "reverse", suite: str = "small") -> OpenSession:
        request_id, episode = self.ids().values()
        return OpenSession(request_id=request_id, episode=episode, suite=suite, task=task, max_tests=1)

    async def open(self, task: str = "reverse", suite: str = "small") -> Reply:
        return await self.worker.handle(self.opening(task, suite))

    async def submit(self, step: int, action: Action, request_id: str = "") -> Reply:
        return await self.worker.handle(Submit(**self.ids(request_id), step=step, action=action))


async def test_many_episodes_at_once_and_each_in_order(tmp_path: Path) -> None:
    async with a_worker(tmp_path, slots=3) as (worker, shared):

        async def play(name: str) -> ResultReply:
            episode = Episode(worker, name)
            assert await episode.open() == SessionOpened(request_id=f"{name}-1", episode=name, worker="w0")
            steps = [episode.submit(n, run(f"echo {n} >> log; sleep 0.05; cat log")) for n in range(4)]
            replies = await asyncio.gather(*steps)
            for n, reply in enumerate(replies):
                assert isinstance(reply, StepReply)
                assert reply.observation.stdout == b"".join(b"%d\n" % i for i in range(n + 1))
            await episode.submit(4, write("main.py", SOLUTION))
            tested = await worker.handle(Test(**episode.ids(), step=5))
            assert isinstance(tested, TestReply) and tested.result.passed == 4
            graded = await worker.handle(Result(**episode.ids()))
            assert isinstance(graded, ResultReply)
            return graded

        graded = await asyncio.gather(*(play(name) for name in ("a", "b", "c")))
        assert [g.result.passed for g in graded] == [4, 4, 4]
        assert worker.heartbeat() == Heartbeat(worker="w0", busy=0, idle=3, commands=15)
        assert shared.agents.leased == 0


async def test_a_repeated_request_runs_nothing_twice(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, _):
        episode = Episode(worker, "a")
        opened = await worker.handle(request := episode.opening())
        assert await worker.handle(request) == opened
        action = run("echo x >> log; wc -l < log")
        twice = await asyncio.gather(*(episode.submit(0, action, "same") for _ in range(3)))
        assert len(set(map(msgspec.msgpack.encode, twice))) == 1
        other_id = await episode.submit(0, action, "other")
        assert other_id == msgspec.structs.replace(twice[0], request_id="other")
        assert isinstance(twice[0], StepReply) and twice[0].observation.stdout == b"1\n"
        first = await worker.handle(graded := Result(**episode.ids()))
        assert await worker.handle(graded) == first
        late = await worker.handle(Result(**episode.ids()))
        assert isinstance(late, Refused) and "graded already" in late.reason


async def test_slots_are_bounded_and_a_new_open_starts_over(tmp_path: Path) -> None:
    async with a_worker(tmp_path, slots=1) as (worker, _):
        a, b = Episode(worker, "a"), Episode(worker, "b")
        await a.open()
        await a.submit(0, run("touch old"))
        busy = await worker.handle(wanted := b.opening())
        assert isinstance(busy, Busy) and busy.retry_after_s > 0
        assert isinstance(await a.open(), SessionOpened)
        reply = await a.submit(0, run("ls -A"))
        assert isinstance(reply, StepReply) and reply.observation.stdout == b""
        assert await worker.handle(CloseSession(request_id="c", episode="a")) == Closed(request_id="c", episode="a")
        assert isinstance(await worker.handle(CloseSession(request_id="d", episode="a")), Closed)
        assert isinstance(await worker.handle(wanted), SessionOpened), "busy is not a final answer"
        lost = await a.submit(1, run("true"))
        assert isinstance(lost, SessionLost) and "driver" in lost.reason


async def test_what_is_wrong_is_refused_without_a_path(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, shared):
        hidden_path(tmp_path / "tasks", "small", "leaky").write_bytes(b"damaged")
        for suite, task in (("none", "x"), ("small", "none"), ("../..", "etc"), ("small", "a/b"), ("small", "leaky")):
            reply = await Episode(worker, f"{suite}-{task}").open(task, suite)
            assert isinstance(reply, Refused), (suite, task)
            assert str(tmp_path) not in reply.reason and "msgpack" not in reply.reason and "hidden/" not in reply.reason
        unknown = await Episode(worker, "nobody").submit(0, run("true"))
        assert isinstance(unknown, SessionLost)
        episode = Episode(worker, "a")
        await episode.open()
        await episode.submit(5, run("true"))
        assert isinstance(await episode.submit(3, run("true")), Refused)
        assert isinstance(await episode.submit(6, run("true")), StepReply), "the session goes on"
        assert shared.agents.leased == 1
        await worker.handle(CloseSession(**episode.ids()))
        assert not worker._episodes


async def test_a_lost_sandbox_is_a_lost_session_and_nothing_else(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, _):
        a, b = Episode(worker, "a"), Episode(worker, "b")
        await a.open()
        await b.open()
        slot = worker._episodes["a"]
        assert slot.session is not None and slot.session._sandbox is not None
        # all of it: a guest whose container alone was killed may still answer in its last moment
        await slot.session._sandbox._container.kill()
        lost = await a.submit(0, run("true"))
        assert lost == SessionLost(request_id="a-2", episode="a", reason="the sandbox was lost")
        assert isinstance(await a.submit(1, run("true")), SessionLost)
        assert isinstance(await b.submit(0, run("true")), StepReply), "the others do not notice"
        assert isinstance(await a.open(), SessionOpened), "and the episode can start over"
        assert worker.hello() == WorkerHello(worker="w0", slots=2, suites=("small",), sessions=worker.hello().sessions)
        assert set(worker.hello().sessions) == {"a", "b"}
        for episode in (a, b):
            await worker.handle(CloseSession(**episode.ids()))
    lost_events = events(tmp_path / "audit", "session_lost")
    assert [(e.episode, e.data["request"]) for e in lost_events] == [("a", "Submit")]


class Loopback:
    """A link whose controller is the test."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[SessionRequest | None] = asyncio.Queue()
        self.replies: asyncio.Queue[Reply] = asyncio.Queue()

    def __aiter__(self) -> Loopback:
        return self

    async def __anext__(self) -> SessionRequest:
        request = await self.requests.get()
        if request is None:
            raise StopAsyncIteration
        return request

    async def send(self, reply: Reply) -> None:
        await self.replies.put(reply)


async def test_stopping_closes_every_session_also_in_the_middle_of_a_command(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, shared):
        link = Loopback()
        serving = asyncio.create_task(worker.serve(link))
        await link.requests.put(OpenSession(request_id="o", episode="a", suite="small", task="reverse"))
        assert isinstance(await link.replies.get(), SessionOpened)
        await link.requests.put(Submit(request_id="s", episode="a", step=0, action=run("sleep 60")))
        await asyncio.sleep(0.5)  # it is in the middle of the command now
        await link.requests.put(None)
        await serving
        assert worker.hello().sessions == ()
        assert shared.agents.leased == 0
    assert events(tmp_path / "audit", "session_closed")[-1].data["why"] == "worker stopped"


async def test_an_idle_session_is_given_up(tmp_path: Path) -> None:
    now = [0.0]
    async with a_worker(tmp_path, clock=lambda: now[0]) as (worker, shared):
        link = Loopback()
        serving = asyncio.create_task(worker.serve(link))
        await link.requests.put(OpenSession(request_id="o", episode="a", suite="small", task="reverse"))
        await link.replies.get()
        now[0] = 100.0
        async with shared.agents._changed:  # told of every sandbox that is given back
            await shared.agents._changed.wait_for(lambda: shared.agents.leased == 0)
        await link.requests.put(Submit(request_id="s", episode="a", step=0, action=run("true")))
        assert await link.replies.get() == SessionLost(request_id="s", episode="a", reason="idle for too long")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_nothing_runs_off_the_record(tmp_path: Path) -> None:
    async with a_worker(tmp_path) as (worker, shared):
        link = Loopback()
        serving = asyncio.create_task(worker.serve(link))
        await link.requests.put(OpenSession(request_id="o", episode="a", suite="small", task="reverse"))
        await link.replies.get()
        shared.audit.close()
        await link.requests.put(OpenSession(request_id="p", episode="b", suite="small", task="reverse"))
        with pytest.raises(AuditError):
            await serving
        assert shared.agents.leased == 0


def test_a_worker_is_small_and_imports_no_torch() -> None:
    code = (
        "import sys, sandbox.worker, sandbox.client, detect.guard, queues.link\n"
        "heavy = [m for m in ('torch', 'megatron', 'transformers', 'vllm', 'numpy') if m in sys.modules]\n"
        # not getrusage: what it calls the peak includes the process that this one was forked from
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(heavy, peak)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, _, resident = done.stdout.rpartition(" ")
    assert heavy == "[]"
    assert int(resident) < 120 << 10


async def test_a_task_with_command_tests_end_to_end(tmp_path: Path) -> None:
    """Several at once: each holds a grader and waits for the one container in which scripts judge."""
    async with a_worker(tmp_path, slots=3) as (worker, shared):

        async def play(name: str, source: bytes) -> ResultReply:
            episode = Episode(worker, name)
            await episode.open("judged")
            looked = await episode.submit(0, run("ls -A /tests /logs /submission; command -v submission"))
            assert isinstance(looked, StepReply)
            assert looked.observation.stdout == b"/logs:\n\n/submission:\n\n/tests:\n"
            await episode.submit(1, write("main.py", source))
            graded = await worker.handle(Result(**episode.ids()))
            assert isinstance(graded, ResultReply)
            assert b"judge" not in msgspec.msgpack.encode(graded)
            return graded

        sources = (SOLUTION, b"print('cba')", SOLUTION)
        graded = await asyncio.gather(*(play(name, source) for name, source in zip("abc", sources, strict=True)))
        assert [(g.result.passed, g.result.total) for g in graded] == [(3, 3), (0, 3), (3, 3)]
        assert shared.graders.leased == shared.oracles.leased == 0
    told = [event.data["cases"] for event in events(tmp_path / "audit", "grading")]
    assert sorted(sum(cases.values()) for cases in told) == [0, 3, 3]
    assert all(set(cases) == {"hidden-case-0", "hidden-judge", "hidden-status"} for cases in told)
