"""The rules of the controller and the worker's memory together, in simulated time, under every failure we know.

Messages are lost with their connection, workers and controllers die and come back, workers sleep too long, drivers
repeat themselves. Whatever happens: every step that a driver got a reply for was executed exactly once, in the one
session that it opened; in the end every driver finishes; and no slot stays taken.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest

from queues.held import HeldLeases
from queues.leases import MAX_IN_FLIGHT, Leases
from queues.memory import NO_LEASE, ToDriver
from queues.messages import (
    PROTOCOL_VERSION,
    AnyMessage,
    Busy,
    Closed,
    CloseSession,
    DriverReply,
    GetStatus,
    Goodbye,
    Heartbeat,
    LeaseNote,
    OpenSession,
    Ping,
    Refused,
    Reply,
    Request,
    Result,
    ResultReply,
    SessionLost,
    SessionOpened,
    Submit,
    TestReply,
    TestResult,
    WhoAreYou,
    WorkerHello,
    decode,
    encode,
)
from queues.messages import Test as RunTests
from tests.queues.conftest import opening, submit

LOST_AFTER_S, IDLE_S, BOUND = 10.0, 60.0, 4


class Table(Leases):
    def __init__(self, now: float = 0.0, first_lease: int = 1):
        self.events: list[str] = []
        super().__init__(
            now=now,
            record=lambda kind, episode="", step=-1, **data: self.events.append(kind),
            queue_bound=BOUND,
            lost_after_s=LOST_AFTER_S,
            idle_timeout_s=IDLE_S,
            first_lease=first_lease,
        )

    def take(self) -> list[tuple[bytes, int, AnyMessage]]:
        """(connection, lease, message) of everything that is to be sent."""
        sent, self.outbox = self.outbox, []
        messages = [(m.connection, m.lease, decode(m.payload)) for m in sent]
        return [message for message in messages if not isinstance(message[2], Ping)]

    def ask(self, request, now: float = 0.0, driver: bytes = b"d") -> list[tuple[bytes, int, AnyMessage]]:
        self.from_driver(driver, NO_LEASE, request, encode(request), now)
        return self.take()

    def get(self, connection: bytes, lease: int, reply, now: float = 0.0) -> list[tuple[bytes, int, AnyMessage]]:
        self.reply(connection, lease, reply, encode(reply), now)
        return self.take()


def hello(name: str = "w", slots: int = 2, **more) -> WorkerHello:
    return WorkerHello(worker=name, slots=slots, suites=("micro",), instance=name, **more)


def opened(episode: str, worker: str = "w") -> SessionOpened:
    return SessionOpened(request_id=f"open-{episode}", episode=episode, worker=worker)


def leased(table: Table, episode: str, connection: bytes = b"w") -> int:
    ((to, lease, _),) = table.ask(opening(episode))
    assert to == connection
    table.get(connection, lease, opened(episode))
    return lease


def test_lease_numbers_grow_and_stay_beyond_what_workers_announce():
    table = Table()
    table.hello(b"w", hello(slots=4), 0)
    assert leased(table, "a") < leased(table, "b")
    note = LeaseNote(episode="z", lease=1000, open_id="open-z", live=False)
    table.hello(b"v", hello("v", leases=(note,)), 0)
    assert leased(table, "c") == 1001


def test_a_request_reaches_the_session_it_names_or_none():
    """After a restart a stale session of the episode is announced before the one that the driver has."""
    table = Table()
    stale, current = (LeaseNote(episode="a", lease=n, open_id=f"open-{n}", live=True) for n in (5, 7))
    table.hello(b"w", hello(sessions=("a",), leases=(stale,)), 0)
    table.from_driver(b"d", 7, submit("a"), encode(submit("a")), 0)
    assert table.take() == []
    table.hello(b"v", hello("v", sessions=("a",), leases=(current,)), 0)
    sent = {(to, lease, type(message)) for to, lease, message in table.take()}
    assert sent == {(b"w", 5, CloseSession), (b"v", 7, Submit)}
    table.from_driver(b"d", 5, submit("a", 1), encode(submit("a", 1)), 0)
    ((_, _, lost),) = table.take()
    assert isinstance(lost, SessionLost)


def test_a_late_reply_is_dropped_counted_and_the_session_closed():
    table = Table()
    table.hello(b"w", hello(), 0)
    old = leased(table, "a")
    table.tick(LOST_AFTER_S + 1)
    table.hello(b"v", hello("v"), LOST_AFTER_S + 1)
    new = leased(table, "a", b"v") if table.take() is not None else 0
    table.hello(b"w2", hello(), LOST_AFTER_S + 1)
    assert new > old
    test = TestReply(request_id="t", episode="a", step=0, result=TestResult(compile_status="ok"))
    ((to, lease, message),) = table.get(b"w2", old, test, LOST_AFTER_S + 1)
    assert (to, lease) == (b"w2", old) and isinstance(message, CloseSession)
    assert table.counters["late_replies"] == 1 and "late_reply" in table.events
    # A connection that is not known is asked who it is.
    ((to, _, message),) = table.get(b"stranger", old, test, LOST_AFTER_S + 1)
    assert to == b"stranger" and isinstance(message, WhoAreYou)


def test_an_unreachable_worker_passes_its_opening_on():
    table = Table()
    table.hello(b"w", hello(slots=9), 0)
    table.hello(b"v", hello("v", slots=1), 0)
    request = opening("a")
    table.from_driver(b"d", NO_LEASE, request, encode(request), 0)
    (message,) = table.outbox
    assert message.connection == b"w"
    table.outbox.clear()
    table.undeliverable(message, gone=True, now=0)
    ((to, _, _),) = table.take()
    assert to == b"v" and table.counters["moved_opens"] == 1


def test_a_worker_that_takes_nothing_makes_busy():
    table = Table()
    table.hello(b"w", hello(), 0)
    leased(table, "a")
    table.from_driver(b"d", NO_LEASE, submit("a"), encode(submit("a")), 0)
    (message,) = table.outbox
    table.outbox.clear()
    table.undeliverable(message, gone=False, now=0)
    ((to, _, reply),) = table.take()
    assert to == b"d" and isinstance(reply, Busy)
    assert table.ask(opening("b")) == []  # not to that worker now,
    table.tick(2)
    assert [to for to, _, _ in table.take()] == [b"w"]  # but soon


def test_bounds():
    table = Table()
    assert [table.ask(opening(f"e{i}")) for i in range(BOUND)] == [[]] * BOUND
    ((_, _, busy),) = table.ask(opening("one-more"))
    assert isinstance(busy, Busy)
    assert table.ask(opening("e0")) == []  # a repeated request takes no second place
    # Requests for episodes that may still be announced wait too, within the same bound.
    assert [table.ask(submit(f"s{i}")) for i in range(BOUND)] == [[]] * BOUND
    ((_, _, busy),) = table.ask(submit("one-more"))
    assert isinstance(busy, Busy)
    table.tick(LOST_AFTER_S + 1)
    assert [type(m) for _, _, m in table.take()] == [SessionLost] * BOUND
    # Nobody asks for the openings any more.
    table.tick(1000)
    assert table.status(GetStatus(request_id="")).queued == 0 and table.counters["abandoned_opens"] == BOUND
    table.hello(b"w", hello(), 1000)
    leased(table, "a")
    for i in range(MAX_IN_FLIGHT):
        table.ask(submit("a", i))
    ((_, _, refused),) = table.ask(submit("a", 99))
    assert isinstance(refused, Refused)


def test_sessions_of_a_driver_that_is_gone_are_closed_those_of_a_silent_one_are_not():
    table = Table()
    table.hello(b"w", hello(slots=2), 0)
    ((_, gone, _),) = table.ask(opening("gone"), driver=b"old")
    ((_, silent, _),) = table.ask(opening("silent"), driver=b"new")
    for episode, lease in (("gone", gone), ("silent", silent)):
        table.get(b"w", lease, opened(episode))
    table.ask(opening("waits-for-nobody"), driver=b"old")
    closed = []
    for now in range(1, 31):
        table.heartbeat(b"w", Heartbeat(worker="w", busy=2, idle=0), now)
        table.tick(now)
        for message in table.outbox:
            if isinstance(message, ToDriver) and message.connection == b"old":
                table.undeliverable(message, gone=True, now=now)
        closed += [lease for _, lease, message in table.take() if isinstance(message, CloseSession)]
    assert closed == [gone]
    status = table.status(GetStatus(request_id=""))
    assert (status.workers, status.queued) == ({"w": (1, 2)}, 0)
    assert table.counters["undeliverable_replies"] == 0


def test_other_protocol_and_unknown_workers():
    table = Table()
    table.hello(b"w", hello(protocol=PROTOCOL_VERSION + 1), 0)
    ((_, _, message),) = table.take()
    assert isinstance(message, Goodbye) and "protocol" in message.reason
    table.heartbeat(b"w", Heartbeat(worker="w", busy=0, idle=1), 0)
    ((_, _, message),) = table.take()
    assert isinstance(message, WhoAreYou)


# --- everything at once -------------------------------------------------------------------------------------------


@dataclass
class Worker:
    name: str
    connection: bytes
    instance: str
    slots: int = 2
    held: HeldLeases = field(default_factory=HeldLeases)
    sessions: dict[str, int] = field(default_factory=dict)
    """episode -> steps executed in this session"""
    replies: dict[str, Reply] = field(default_factory=dict)
    asleep: bool = False

    def execute(self, request: Request) -> Reply:
        ids = (request.request_id, request.episode)
        if request.request_id in self.replies:
            return self.replies[request.request_id]
        match request:
            case OpenSession():
                self.sessions.pop(request.episode, None)
                if len(self.sessions) >= self.slots:
                    return Busy(request_id=ids[0], episode=ids[1], reason="full")
                self.sessions[request.episode] = 0
                reply = SessionOpened(request_id=ids[0], episode=ids[1], worker=self.name)
            case CloseSession():
                self.sessions.pop(request.episode, None)
                reply = Closed(request_id=ids[0], episode=ids[1])
            case _ if request.episode not in self.sessions:
                reply = SessionLost(request_id=ids[0], episode=ids[1], reason="no such session")
            case Result():
                steps = self.sessions.pop(request.episode)
                result = TestResult(compile_status="ok", passed=steps, total=steps)
                reply = ResultReply(request_id=ids[0], episode=ids[1], result=result)
            case _:
                self.sessions[request.episode] += 1
                step = self.sessions[request.episode]
                result = TestResult(compile_status="ok")
                reply = TestReply(request_id=ids[0], episode=ids[1], step=step, result=result)
        self.replies[request.request_id] = reply
        return reply


STEPS = 3


@dataclass
class Driver:
    """One episode: open, three steps, result; from the start again whenever the session is lost."""

    episode: str
    connection: bytes
    attempt: int = 0
    at: int = -1
    lease: int = NO_LEASE
    done: bool = False

    def request(self) -> OpenSession | RunTests | Result:
        request_id = f"{self.episode}/{self.attempt}/{self.at}"
        if self.at < 0:
            return opening(self.episode, request_id)
        if self.at == STEPS:
            return Result(request_id=request_id, episode=self.episode)
        return RunTests(request_id=request_id, episode=self.episode, step=self.at)

    def receive(self, lease: int, reply: DriverReply) -> None:
        if self.done or reply.request_id != self.request().request_id:
            return
        match reply:
            case SessionLost():
                self.attempt, self.at, self.lease = self.attempt + 1, -1, NO_LEASE
            case Busy():
                pass
            case SessionOpened():
                assert self.at == -1
                self.at, self.lease = 0, lease
            case TestReply(step=executed):
                assert executed == self.at + 1, "a step was executed twice, not at all, or in another session"
                self.at += 1
            case ResultReply(result=result):
                assert result.passed == STEPS
                self.done = True
            case _:
                raise AssertionError(reply)


class World:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.now = 0.0
        self.connections = 0
        self.history: Counter[str] = Counter()
        self.epoch = 0
        self.table = self.new_table()
        self.workers = [self.new_worker(f"w{i}") for i in range(3)]
        self.drivers = [Driver(f"e{i}", self.connect()) for i in range(8)]
        self.queues: dict[tuple[str, bytes], deque[tuple[int, bytes]]] = {}
        """(direction, connection) -> messages under way, in order"""

    def new_table(self) -> Table:
        self.epoch += 1
        return Table(self.now, first_lease=self.epoch * 1_000_000)

    def connect(self) -> bytes:
        self.connections += 1
        return f"c{self.connections}".encode()

    def new_worker(self, name: str) -> Worker:
        connection = self.connect()
        return Worker(name, connection, instance=connection.decode())

    def put(self, direction: str, connection: bytes, lease: int, message: AnyMessage) -> None:
        self.queues.setdefault((direction, connection), deque()).append((lease, encode(message)))

    def cut(self, connection: bytes) -> None:
        for direction in ("up", "down"):
            self.queues.pop((direction, connection), None)

    def flush(self) -> None:
        peers = {peer.connection for peer in [*self.workers, *self.drivers]}
        while self.table.outbox:
            message = self.table.outbox.pop(0)
            key = ("down", message.connection)
            if message.connection not in peers:
                self.table.undeliverable(message, gone=True, now=self.now)
            elif len(self.queues.get(key, ())) >= 20:
                self.table.undeliverable(message, gone=False, now=self.now)
            else:
                self.put("down", message.connection, message.lease, decode(message.payload))
        for worker in self.table._workers.values():
            assert 0 <= worker.free <= worker.slots
            assert all(self.table._leases[episode].worker == worker.name for episode in worker.live)

    def deliver(self) -> None:
        keys = [key for key, queue in self.queues.items() if queue]
        if not keys:
            return
        direction, connection = self.random.choice(keys)
        worker = next((w for w in self.workers if w.connection == connection), None)
        if direction == "down" and worker is not None and worker.asleep:
            return
        lease, payload = self.queues[direction, connection].popleft()
        message = decode(payload)
        if direction == "up":
            self.to_controller(connection, lease, message, payload)
        elif worker is not None:
            self.to_worker(worker, lease, message)
        elif not isinstance(message, Ping):
            next(d for d in self.drivers if d.connection == connection).receive(lease, message)  # type: ignore[arg-type]

    def to_controller(self, connection: bytes, lease: int, message: AnyMessage, payload: bytes) -> None:
        match message:
            case WorkerHello():
                self.table.hello(connection, message, self.now)
            case Heartbeat():
                self.table.heartbeat(connection, message, self.now)
            case Reply():
                self.table.reply(connection, lease, message, payload, self.now)
            case OpenSession() | RunTests() | Result():
                self.table.from_driver(connection, lease, message, payload, self.now)
            case _:
                raise AssertionError(message)
        self.flush()

    def to_worker(self, worker: Worker, lease: int, message: AnyMessage) -> None:
        match message:
            case WhoAreYou():
                self.say_hello(worker)
            case OpenSession() | RunTests() | Result() | CloseSession():
                if worker.held.accept(lease, message):
                    reply = worker.execute(message)
                    self.put("up", worker.connection, worker.held.lease_of(reply), reply)  # type: ignore[arg-type]
            case _:
                raise AssertionError(message)

    def say_hello(self, worker: Worker) -> None:
        message = WorkerHello(
            worker=worker.name,
            slots=worker.slots,
            suites=("micro",),
            sessions=tuple(worker.sessions),
            instance=worker.instance,
            leases=worker.held.notes(worker.sessions),
        )
        self.put("up", worker.connection, 0, message)

    def beat(self) -> None:
        self.now += 1.0
        for worker in self.workers:
            if not worker.asleep:
                self.put("up", worker.connection, 0, Heartbeat(worker=worker.name, busy=0, idle=0))
        self.table.tick(self.now)
        self.flush()

    def ask(self) -> None:
        driver = self.random.choice(self.drivers)
        if not driver.done:
            self.put("up", driver.connection, driver.lease, driver.request())

    def fail(self) -> None:
        what = self.random.choice(["cut driver", "cut worker", "kill worker", "sleep", "wake", "restart controller"])
        self.history[what] += 1
        worker = self.random.choice(self.workers)
        match what:
            case "cut driver":
                driver = self.random.choice(self.drivers)
                self.cut(driver.connection)
                driver.connection = self.connect()
            case "cut worker":
                self.cut(worker.connection)
                worker.connection = self.connect()
            case "kill worker":
                self.cut(worker.connection)
                self.workers[self.workers.index(worker)] = fresh = self.new_worker(worker.name)
                self.say_hello(fresh)
            case "sleep":
                worker.asleep = True
            case "wake":
                worker.asleep = False
            case "restart controller":
                for peer in [*self.workers, *self.drivers]:
                    self.cut(peer.connection)
                    peer.connection = self.connect()
                self.table = self.new_table()
                for one in self.workers:
                    if not one.asleep:
                        self.say_hello(one)

    def run(self, moves: int, failures: float) -> None:
        for _ in range(moves):
            if self.random.random() < failures:
                self.fail()
            self.random.choices([self.deliver, self.ask, self.beat], weights=[12, 3, 1])[0]()


@pytest.mark.parametrize("seed", range(40))
def test_every_step_counts_once_and_everybody_finishes(seed: int):
    world = World(seed)
    world.run(1500, failures=0.03)
    for worker in world.workers:
        worker.asleep = False
    while not all(driver.done for driver in world.drivers):
        world.run(100, failures=0.0)
    # With nothing left to do, every sandbox comes back: at once, or when its idle time is over.
    for _ in range(int(IDLE_S) + 20):
        world.beat()
        for _ in range(100):
            world.deliver()
    assert all(not worker.sessions for worker in world.workers)
    status = world.table.status(GetStatus(request_id=""))
    assert status.workers == {f"w{i}": (0, 2) for i in range(3)} and status.queued == 0
