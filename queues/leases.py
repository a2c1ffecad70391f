"""The controller's memory and rules, without any I/O: which worker holds which episode, who waits, who is gone.

In go decoded messages, with the connection they came from and the time; out come messages to send, in `outbox`. It
must never lease one episode twice at the same time, never let a reply of a lost lease reach a driver, and never forget
a request without an answer or a count.

Every lease has a number that only grows, also across controllers. It travels beside each message and decides every
conflict: the higher number holds the episode, a reply under any other number is late, and a driver's request reaches
the session that its number names or none.

What a driver may rely on: the same `request_id` sent again is harmless. It is passed to the worker that holds the
episode, which answers a request it knows from its cache. So whatever cannot be delivered here is counted and left to
the sender's next attempt; only what the driver has to decide on comes back as `Busy`, `SessionLost` or `Refused`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from queues.memory import NO_LEASE, EpisodeRequest, Lease, Record, ToDriver, ToWorker, Waiting, WorkerState
from queues.messages import (
    PROTOCOL_VERSION,
    Busy,
    Closed,
    CloseSession,
    ControllerMessage,
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
    ResultReply,
    SessionLost,
    SessionOpened,
    StatusReply,
    StepReply,
    TestReply,
    WhoAreYou,
    WorkerHello,
    encode,
)

WAITING_PATIENCE_S = 90.0
"""A waiting OpenSession is abandoned when its driver has not repeated it for so long (clients do every 30 s)."""
MAX_IN_FLIGHT = 4
"""Unanswered requests of one episode. A driver has one; a few more may be left over from before it restarted."""
MAX_REMEMBERED = 10_000
"""Ended and lost leases that are remembered, for late requests and late replies."""
FULL_PAUSE_S = 1.0
OWN_REQUEST = "controller:"
"""Prefix of the request ids of the controller's own CloseSession; nobody waits for the answer."""

_PING = encode(Ping())


class Leases:
    """`now` is a monotonic clock in seconds everywhere. `first_lease` is beyond all leases of earlier controllers."""

    def __init__(
        self,
        *,
        now: float,
        record: Record,
        queue_bound: int,
        lost_after_s: float,
        idle_timeout_s: float,
        first_lease: int,
    ) -> None:
        self.outbox: list[ToDriver | ToWorker] = []
        self.counters: Counter[str] = Counter()
        self._record = record
        self._queue_bound = queue_bound
        self._lost_after_s = lost_after_s
        self._idle_timeout_s = idle_timeout_s
        self._next_lease = first_lease
        # Workers of an earlier controller are still announcing themselves; unknown episodes may yet become known.
        self._recovery_until = now + lost_after_s
        self._workers: dict[str, WorkerState] = {}
        self._by_connection: dict[bytes, WorkerState] = {}
        self._leases: dict[str, Lease] = {}
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._parked: dict[str, tuple[bytes, int, EpisodeRequest, bytes]] = {}
        self._revoked: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """episode -> (highest lease that does not count any more, why)"""
        self._gone_drivers: dict[bytes, float] = {}
        """connection -> since when nothing can be delivered there"""
        self._pinged = now
        self._commands_of_lost_workers = 0

    # --- from drivers ---------------------------------------------------------------------------------------------

    def from_driver(self, driver: bytes, number: int, request: EpisodeRequest, payload: bytes, now: float) -> None:
        """`number`: the lease that the driver got with its session; NO_LEASE if it does not know any more."""
        if isinstance(request, OpenSession):
            self._open(driver, request, payload, now)
            return
        lease = self._leases.get(request.episode)
        revoked, reason = self._revoked.get(request.episode, (NO_LEASE - 1, ""))
        if lease is not None and number in (NO_LEASE, lease.id):
            self._pass_on(lease, driver, request, payload, now)
        elif lease is not None and number < lease.id:
            self._gone(driver, request, "the episode was opened again")
        elif number <= revoked:
            self._gone(driver, request, reason)
        elif isinstance(request, CloseSession) and request.episode in self._waiting:
            del self._waiting[request.episode]
            self._gone(driver, request, "")
        elif now >= self._recovery_until:
            self._gone(driver, request, "no worker has this session")
        elif request.request_id in self._parked or len(self._parked) < self._queue_bound:
            self._parked[request.request_id] = (driver, number, request, payload)
        else:
            self._busy(driver, request, "the controller has just started and is waiting for its workers")

    def _open(self, driver: bytes, request: OpenSession, payload: bytes, now: float) -> None:
        waiting = self._waiting.get(request.episode)
        if waiting is not None and waiting.request.request_id == request.request_id:
            waiting.driver, waiting.refreshed = driver, now
            return
        lease = self._leases.get(request.episode)
        if lease is not None and lease.open_id == request.request_id:
            if lease.state == "opening":
                lease.open_request = (request, payload)
            self._pass_on(lease, driver, request, payload, now)
            return
        # A driver that opens an episode again (it went back to a checkpoint) means: from the start.
        if lease is not None:
            self._revoke(lease, "the episode was opened again", close=True)
        if waiting is not None:
            del self._waiting[request.episode]
            self._session_lost(
                waiting.driver, waiting.request.request_id, request.episode, "the episode was opened again"
            )
        if len(self._waiting) >= self._queue_bound:
            self._busy(driver, request, f"{len(self._waiting)} sessions are waiting for a sandbox already")
            return
        self._waiting[request.episode] = Waiting(driver, request, payload, now)
        self._dispatch(now)

    def _pass_on(self, lease: Lease, driver: bytes, request: EpisodeRequest, payload: bytes, now: float) -> None:
        lease.used, lease.driver = now, driver
        if request.request_id not in lease.pending and len(lease.pending) >= MAX_IN_FLIGHT:
            reason = f"{MAX_IN_FLIGHT} requests of this episode are unanswered; send one after the other"
            self._answer(driver, Refused(request_id=request.request_id, episode=request.episode, reason=reason))
            return
        if isinstance(request, CloseSession):
            lease.pending.pop(lease.open_id, None)  # nobody waits for the opening any more
        lease.pending[request.request_id] = driver
        self._send(self._workers[lease.worker], lease, payload, request.request_id)

    # --- from workers ---------------------------------------------------------------------------------------------

    def hello(self, connection: bytes, message: WorkerHello, now: float) -> None:
        if message.protocol != PROTOCOL_VERSION:
            reason = f"the worker speaks protocol {message.protocol}, the controller {PROTOCOL_VERSION}"
            self._notify(connection, Goodbye(worker=message.worker, reason=reason))
            return
        worker = self._workers.get(message.worker)
        if worker is not None and worker.instance != message.instance:
            self._notify(worker.connection, Goodbye(worker=worker.name, reason="a newer process has the same name"))
            self._drop(worker, "its worker was replaced by a newer process", now)
            worker = None
        if worker is None:
            worker = WorkerState(message.worker, message.instance, connection, 0, frozenset(), now)
            self._workers[worker.name] = worker
            self._record("worker_joined", worker=worker.name, slots=message.slots, sessions=len(message.sessions))
        self._by_connection.pop(worker.connection, None)
        self._by_connection[connection] = worker
        worker.connection, worker.heard, worker.reachable, worker.full_until = connection, now, True, 0.0
        worker.slots, worker.suites = message.slots, frozenset(message.suites)
        self._reconcile(worker, message.leases, frozenset(message.sessions), now)
        for request_id, (driver, number, request, payload) in list(self._parked.items()):
            if request.episode in self._leases:
                del self._parked[request_id]
                self.from_driver(driver, number, request, payload, now)
        self._dispatch(now)

    def _reconcile(self, worker: WorkerState, notes: Iterable[LeaseNote], sessions: frozenset[str], now: float) -> None:
        """Make our table and the worker's agree; where they contradict each other the higher lease number holds."""
        announced = {note.episode: note for note in notes}
        for note in announced.values():
            self._next_lease = max(self._next_lease, note.lease + 1)
            lease = self._leases.get(note.episode)
            if lease is not None and lease.id == note.lease and lease.worker == worker.name:
                if not note.live:
                    self._end(lease)  # its last reply was lost on the way; the driver will ask for it again
                continue
            held = lease.id if lease is not None else self._revoked.get(note.episode, (NO_LEASE, ""))[0]
            if note.lease <= held:
                if note.live:
                    self._close_at(worker, note.episode, note.lease)
                continue
            if lease is not None:
                self._revoke(lease, "another worker holds a newer lease", close=True)
            self._recover(worker, note, opened=note.episode in sessions, now=now)
        for episode in sorted(worker.live - announced.keys()):
            self._lose(self._leases[episode], "the worker does not have the session any more", now)

    def _recover(self, worker: WorkerState, note: LeaseNote, *, opened: bool, now: float) -> None:
        state = "ended" if not note.live else "open" if opened else "opening"
        lease = Lease(note.lease, note.episode, worker.name, note.open_id, None, state, driver=b"", used=now)
        self._leases[note.episode] = lease
        if note.live:
            worker.live.add(note.episode)
        self.counters["recovered_leases"] += 1
        waiting = self._waiting.get(note.episode)
        if waiting is None:
            return
        if waiting.request.request_id == note.open_id:  # the driver repeats what was under way: this is its session
            del self._waiting[note.episode]
            lease.open_request = (waiting.request, waiting.payload)
            self._pass_on(lease, waiting.driver, waiting.request, waiting.payload, now)
        else:
            self._revoke(lease, "the episode was opened again", close=True)

    def heartbeat(self, connection: bytes, message: Heartbeat, now: float) -> None:
        worker = self._by_connection.get(connection)
        if worker is None:
            self._notify(connection, WhoAreYou())
            return
        worker.heard, worker.commands = now, message.commands

    def goodbye(self, connection: bytes, message: Goodbye, now: float) -> None:
        worker = self._by_connection.get(connection)
        if worker is not None:
            self._drop(worker, f"its worker stopped ({message.reason or 'no reason given'})", now)

    def reply(self, connection: bytes, lease_id: int, reply: Reply, payload: bytes, now: float) -> None:
        worker = self._by_connection.get(connection)
        if worker is None:
            self.counters["late_replies"] += 1
            self._notify(connection, WhoAreYou())
            return
        worker.heard = now
        lease = self._leases.get(reply.episode)
        if lease is None or lease.id != lease_id or lease.worker != worker.name:
            if not reply.request_id.startswith(OWN_REQUEST):
                self._late(worker, lease_id, reply)
            return
        driver = lease.pending.pop(reply.request_id, None)
        match reply:
            case SessionOpened():
                if lease.state == "opening":
                    lease.state, lease.open_request = "open", None
            case ResultReply() | Closed():
                self._end(lease)
            case SessionLost(reason=reason):
                if lease.state != "ended":
                    self._revoke(lease, reason, close=False)
            case Busy() | Refused() if lease.state == "opening" and reply.request_id == lease.open_id:
                self._revoke(lease, "the worker did not open the session", close=False)
        if driver is None:
            self.counters["duplicate_replies"] += 1  # the request was repeated, and its first answer has gone out
        else:
            self.outbox.append(ToDriver(driver, lease_id, payload))
        self._dispatch(now)

    def _late(self, worker: WorkerState, lease_id: int, reply: Reply) -> None:
        self.counters["late_replies"] += 1
        self._record("late_reply", reply.episode, worker=worker.name, lease=lease_id, reply=type(reply).__name__)
        if isinstance(reply, SessionOpened | StepReply | TestReply):
            self._close_at(worker, reply.episode, lease_id)

    # --- from the sockets, and from time --------------------------------------------------------------------------

    def undeliverable(self, message: ToDriver | ToWorker, *, gone: bool, now: float) -> None:
        """The send failed: the peer is gone, or (`gone=False`) has taken nothing for so long that its queue is full."""
        if isinstance(message, ToDriver):
            if message.payload is not _PING:
                self.counters["undeliverable_replies"] += 1  # the driver asks again when it is back
            if gone:
                self._gone_drivers.setdefault(message.connection, now)
            return
        self.counters["undeliverable_requests"] += 1
        worker = self._by_connection.get(message.connection)
        if worker is not None and gone:
            worker.reachable = False
        elif worker is not None:
            worker.full_until = now + FULL_PAUSE_S
        lease = self._leases.get(message.episode)
        if lease is None or lease.id != message.lease:
            return
        if lease.state == "opening" and message.request_id == lease.open_id:
            self._lose(lease, "the worker could not be reached", now)
            self._dispatch(now)
        elif not gone and (driver := lease.pending.pop(message.request_id, None)) is not None:
            reason = "the worker takes no more requests at the moment"
            self._answer(driver, Busy(request_id=message.request_id, episode=message.episode, reason=reason))

    def tick(self, now: float) -> None:
        """Drop what is lost or idle. Call a few times per `lost_after_s`."""
        for worker in list(self._workers.values()):
            if now - worker.heard > self._lost_after_s:
                self._drop(worker, f"its worker was not heard for {self._lost_after_s:g} s", now)
        if now - self._pinged >= self._lost_after_s / 2:
            self._ping_drivers(now)
        lost_drivers = {c for c, since in self._gone_drivers.items() if now - since > self._lost_after_s}
        for lease in list(self._leases.values()):
            idle = now - lease.used > self._idle_timeout_s
            if lease.state == "ended" and idle:
                del self._leases[lease.episode]
            elif lease.state != "ended" and (idle or lease.driver in lost_drivers):
                self.counters["expired_sessions"] += 1
                reason = f"no request for {self._idle_timeout_s:g} s" if idle else "its driver is gone"
                self._revoke(lease, reason, close=True)
        for episode, waiting in list(self._waiting.items()):
            if now - waiting.refreshed > WAITING_PATIENCE_S or waiting.driver in lost_drivers:
                del self._waiting[episode]
                self.counters["abandoned_opens"] += 1
        if now >= self._recovery_until and self._parked:
            parked, self._parked = self._parked, {}
            for driver, number, request, payload in parked.values():
                self.from_driver(driver, number, request, payload, now)
        self._dispatch(now)

    def _ping_drivers(self, now: float) -> None:
        # Rarely: a driver that computes for an hour finds all of them in its queue.
        self._pinged = now
        present = {lease.driver for lease in self._leases.values() if lease.state != "ended" and lease.driver}
        present |= {waiting.driver for waiting in self._waiting.values()}
        self._gone_drivers = {c: since for c, since in self._gone_drivers.items() if c in present}
        self.outbox += [ToDriver(connection, NO_LEASE, _PING) for connection in sorted(present)]

    def status(self, request: GetStatus) -> StatusReply:
        return StatusReply(
            request_id=request.request_id,
            workers={worker.name: (len(worker.live), worker.slots) for worker in self._workers.values()},
            queued=len(self._waiting),
            sessions=sum(len(worker.live) for worker in self._workers.values()),
            commands=self._commands_of_lost_workers + sum(worker.commands for worker in self._workers.values()),
            counters=dict(self.counters),
        )

    # --- leases ---------------------------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> None:
        """Give waiting episodes to workers, oldest first, each to the worker of its suite with most free slots."""
        if not self._waiting:
            return
        able = [w for w in self._workers.values() if w.reachable and now >= w.full_until and w.free > 0]
        for episode, waiting in list(self._waiting.items()):
            able = [worker for worker in able if worker.free > 0]
            if not able:
                return
            suited = [worker for worker in able if waiting.request.suite in worker.suites]
            if not suited or waiting.driver in self._gone_drivers:
                continue
            worker = max(suited, key=lambda worker: worker.free)
            del self._waiting[episode]
            request_id = waiting.request.request_id
            lease = Lease(
                id=self._next_lease,
                episode=episode,
                worker=worker.name,
                open_id=request_id,
                open_request=(waiting.request, waiting.payload),
                state="opening",
                driver=waiting.driver,
                used=now,
            )
            self._next_lease += 1
            lease.pending[request_id] = waiting.driver
            self._leases[episode] = lease
            worker.live.add(episode)
            self.counters["leases"] += 1
            self._record("session_leased", episode, worker=worker.name, lease=lease.id, task=waiting.request.task)
            self._send(worker, lease, waiting.payload, request_id)

    def _end(self, lease: Lease) -> None:
        """The session is over. The lease stays for a while, so that a repeated request still finds its worker."""
        if lease.state != "ended":
            lease.state, lease.open_request = "ended", None
            self._workers[lease.worker].live.discard(lease.episode)

    def _lose(self, lease: Lease, reason: str, now: float) -> None:
        """The worker does not have the session. One that was still opening is the first to go to another worker."""
        driver = lease.pending.get(lease.open_id)
        if lease.state != "opening" or lease.open_request is None or driver is None:
            self._revoke(lease, reason, close=False)
            return
        del lease.pending[lease.open_id]
        self._revoke(lease, reason, close=False)
        self._waiting[lease.episode] = Waiting(driver, *lease.open_request, refreshed=now)
        self._waiting.move_to_end(lease.episode, last=False)
        self.counters["moved_opens"] += 1

    def _revoke(self, lease: Lease, reason: str, *, close: bool) -> None:
        """The lease does not count any more: tell who waits for it and, with `close`, the worker that holds it."""
        worker = self._workers[lease.worker]
        del self._leases[lease.episode]
        worker.live.discard(lease.episode)
        self._revoked[lease.episode] = (lease.id, reason)
        self._revoked.move_to_end(lease.episode)
        if len(self._revoked) > MAX_REMEMBERED:
            self._revoked.popitem(last=False)
        if lease.state != "ended":
            self.counters["revoked_leases"] += 1
            self._record("session_revoked", lease.episode, worker=worker.name, lease=lease.id, reason=reason)
            if close:
                self._close_at(worker, lease.episode, lease.id)
        for request_id, driver in lease.pending.items():
            self._session_lost(driver, request_id, lease.episode, reason)

    def _drop(self, worker: WorkerState, reason: str, now: float) -> None:
        self.counters["lost_workers"] += 1
        self._record("worker_left", worker=worker.name, reason=reason, sessions=len(worker.live))
        for lease in [lease for lease in self._leases.values() if lease.worker == worker.name]:
            self._lose(lease, reason, now)
        self._commands_of_lost_workers += worker.commands
        del self._workers[worker.name]
        self._by_connection.pop(worker.connection, None)
        self._dispatch(now)

    # --- sending --------------------------------------------------------------------------------------------------

    def _send(self, worker: WorkerState, lease: Lease, payload: bytes, request_id: str) -> None:
        self.outbox.append(ToWorker(worker.connection, lease.id, payload, request_id, lease.episode))

    def _close_at(self, worker: WorkerState, episode: str, lease_id: int) -> None:
        request = CloseSession(request_id=f"{OWN_REQUEST}{lease_id}", episode=episode)
        self.outbox.append(ToWorker(worker.connection, lease_id, encode(request), request.request_id))

    def _notify(self, connection: bytes, message: ControllerMessage) -> None:
        self.outbox.append(ToWorker(connection, NO_LEASE, encode(message)))

    def _answer(self, driver: bytes, reply: DriverReply) -> None:
        self.outbox.append(ToDriver(driver, NO_LEASE, encode(reply)))

    def _busy(self, driver: bytes, request: Request, reason: str) -> None:
        self.counters["busy"] += 1
        self._answer(driver, Busy(request_id=request.request_id, episode=request.episode, reason=reason))

    def _gone(self, driver: bytes, request: EpisodeRequest, reason: str) -> None:
        if isinstance(request, CloseSession):
            self._answer(driver, Closed(request_id=request.request_id, episode=request.episode))
        else:
            self._session_lost(driver, request.request_id, request.episode, reason)

    def _session_lost(self, driver: bytes, request_id: str, episode: str, reason: str) -> None:
        self.counters["lost_sessions"] += 1
        self._answer(driver, SessionLost(request_id=request_id, episode=episode, reason=reason))
