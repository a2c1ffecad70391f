"""The controller: three CURVE-protected ROUTER sockets around `queues.leases` and `queues.reviews`.

In come requests of drivers and messages of workers; out go the same payloads, forwarded, and the controller's own
answers. It must never act on what a message says about its sender: who is at the other end is what the key exchange
proved. It never waits for a peer: a send that would block or has no receiver is handled at once.

Wire format, drivers and workers, both ways: [lease number, 8 bytes big-endian][message]; judges: [message].
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio
from zmq.auth.asyncio import AsyncioAuthenticator

from audit.events import AuditLog
from queues.endpoint import LEASE_BYTES, Endpoint, QueueError, read_endpoint, send_now, set_limits, write_endpoint
from queues.follow import let_others_run, until_first
from queues.keys import DRIVER_ROLES, JUDGE_ROLES, WORKER_ROLES, Role, load_pair, load_public
from queues.leases import Leases
from queues.memory import NO_LEASE, ToDriver, ToJudge, ToWorker
from queues.messages import (
    AnyMessage,
    CloseSession,
    GetStatus,
    Goodbye,
    Heartbeat,
    JudgeBeat,
    JudgeGone,
    OpenSession,
    Refused,
    Reply,
    Result,
    Reviewed,
    ReviewEpisode,
    ReviewFailed,
    StatusReply,
    Submit,
    Test,
    WorkerHello,
    decode,
    encode,
)
from queues.reviews import Reviews

_LEASES_PER_EPOCH = 1 << 32
_ANY_HOST = ("*", "0.0.0.0")
_MAX_REFUSED_KEYS_ON_RECORD = 100


class Controller:
    """Serves one run from `run()` until `stop()`. Make a new one for every start.

    `bind_host`: a network interface, an address or a name of this host; with `*` all interfaces, announced under the
    host's name. Ports are random and published in `endpoint_file`.
    """

    def __init__(
        self,
        bind_host: str,
        keys_dir: Path,
        endpoint_file: Path,
        *,
        audit: AuditLog,
        queue_bound: int = 256,
        heartbeat_s: float = 2.0,
        lost_after_s: float = 10.0,
        idle_timeout_s: float = 600.0,
        review_bound: int = 256,
        review_lease_s: float = 900.0,
        review_attempts: int = 4,
    ) -> None:
        self._bind_host = bind_host
        self._keys_dir = keys_dir
        self._endpoint_file = endpoint_file
        self._audit = audit
        self._tick_s = min(heartbeat_s, lost_after_s) / 2
        previous = read_endpoint(endpoint_file)
        # The clock alone would do, if all hosts agreed about it.
        self._epoch = max(int(time.time()), previous.epoch + 1 if previous is not None else 0)
        self._leases = Leases(
            now=time.monotonic(),
            record=audit.write,
            queue_bound=queue_bound,
            lost_after_s=lost_after_s,
            idle_timeout_s=idle_timeout_s,
            first_lease=self._epoch * _LEASES_PER_EPOCH + 1,
        )
        self._reviews = Reviews(
            record=audit.write,
            counters=self._leases.counters,
            bound=review_bound,
            lost_after_s=lost_after_s,
            lease_s=review_lease_s,
            max_attempts=review_attempts,
        )
        self._stop = asyncio.Event()
        self._roles: dict[str, Role] = {}
        self._refused_keys: set[str] = set()
        self._drivers: zmq.asyncio.Socket
        self._workers: zmq.asyncio.Socket
        self._judges: zmq.asyncio.Socket
        self.started = asyncio.Event()
        self.endpoint: Endpoint | None = None

    def stop(self) -> None:
        """End `run()`. Sessions live on at their workers, for the next controller."""
        self._stop.set()

    def status(self) -> StatusReply:
        """The present numbers, without a message (for metrics)."""
        return self._status(GetStatus(request_id=""))

    def _status(self, request: GetStatus) -> StatusReply:
        return msgspec.structs.replace(
            self._leases.status(request), reviews=self._reviews.unanswered, judges=self._reviews.judges()
        )

    async def run(self) -> None:
        """Serve until `stop()`; raises QueueError when it cannot listen or another controller takes over the run."""
        pair = load_pair(self._keys_dir, "controller")
        context = zmq.asyncio.Context()
        authenticator = AsyncioAuthenticator(context)
        authenticator.start()
        try:
            for domain, roles in (
                ("drivers", DRIVER_ROLES),
                ("workers", WORKER_ROLES),
                ("judges", JUDGE_ROLES),
            ):
                admitted: dict[str, Role] = {load_public(self._keys_dir, role).decode(): role for role in roles}
                self._roles |= admitted
                authenticator.configure_curve_callback(domain, _Admission(admitted, self._refused))
            self._drivers, drivers = self._bind(context, "drivers", pair.public, pair.secret)
            self._workers, workers = self._bind(context, "workers", pair.public, pair.secret)
            self._judges, judges = self._bind(context, "judges", pair.public, pair.secret)
            self.endpoint = Endpoint(
                drivers=drivers,
                workers=workers,
                judges=judges,
                pid=os.getpid(),
                host=socket.gethostname(),
                started=time.time(),
                id=uuid.uuid4().hex,
                epoch=self._epoch,
            )
            write_endpoint(self._endpoint_file, self.endpoint)
            self._audit.write("controller_started", drivers=drivers, workers=workers, host=self.endpoint.host)
            self.started.set()
            await until_first(
                self._serve_drivers(),
                self._serve_workers(),
                self._serve_judges(),
                self._keep_time(self.endpoint),
                self._stop.wait(),
            )
            self._audit.write("controller_stopped", **msgspec.structs.asdict(self.status()))
        finally:
            authenticator.stop()
            context.destroy(linger=200)
            self._withdraw_endpoint()

    def _bind(
        self, context: zmq.asyncio.Context, domain: str, public: bytes, secret: bytes
    ) -> tuple[zmq.asyncio.Socket, str]:
        router = context.socket(zmq.ROUTER)
        set_limits(router)
        router.router_mandatory = 1
        router.curve_server = 1
        router.curve_publickey, router.curve_secretkey = public, secret
        router.zap_domain = domain.encode()
        try:
            router.bind(f"tcp://{_address(self._bind_host)}:*")
        except (OSError, zmq.ZMQError) as error:
            raise QueueError(
                f"the controller cannot listen on {self._bind_host!r}: {error}",
                where=f"host {socket.gethostname()}, socket for {domain}",
                remedy="give a network interface, an address or a name of this host",
            ) from error
        bound = router.getsockopt_string(zmq.LAST_ENDPOINT)
        port = bound.rsplit(":", 1)[1]
        return router, f"tcp://{socket.gethostname()}:{port}" if self._bind_host in _ANY_HOST else bound

    def _withdraw_endpoint(self) -> None:
        # Only our own: a newer controller may have put its file there.
        current = read_endpoint(self._endpoint_file)
        if current is not None and current == self.endpoint:
            self._endpoint_file.unlink(missing_ok=True)

    def _refused(self, key: str, domain: str) -> None:
        self._leases.counters["refused_keys"] += 1
        if key not in self._refused_keys and len(self._refused_keys) < _MAX_REFUSED_KEYS_ON_RECORD:
            self._refused_keys.add(key)
            self._audit.write("key_refused", socket=domain, key=key)

    async def _serve_drivers(self) -> None:
        while True:
            frames = await self._drivers.recv_multipart(copy=False)
            connection, body = frames[0].bytes, frames[-1].bytes
            if len(frames) == 3 and len(frames[1]) == LEASE_BYTES:
                role, lease = self._roles[str(frames[2].get("User-Id"))], int.from_bytes(frames[1].bytes)
                self._from_driver(connection, role, lease, _decode(body), body)
            else:
                self._leases.counters["malformed"] += 1
            self._flush()
            await let_others_run()

    def _from_driver(self, connection: bytes, role: Role, lease: int, message: AnyMessage | None, body: bytes) -> None:
        now = time.monotonic()
        match message:
            case GetStatus():
                self._leases.outbox.append(ToDriver(connection, NO_LEASE, encode(self._status(message))))
            case OpenSession() | Submit() | Test() | Result() | CloseSession() if role == "trainer":
                self._leases.from_driver(connection, lease, message, body, now)
            case ReviewEpisode() if role == "trainer":
                self._reviews.ask(connection, message, body, now)
            case OpenSession() | Submit() | Test() | Result() | CloseSession() | ReviewEpisode():
                self._leases.counters["forbidden"] += 1
                self._audit.write("forbidden", message.episode, role=role, request=type(message).__name__)
                reason = f"the role {role} may only ask for the status"
                refused = Refused(request_id=message.request_id, episode=message.episode, reason=reason)
                self._leases.outbox.append(ToDriver(connection, NO_LEASE, encode(refused)))
            case _:
                self._leases.counters["malformed"] += 1

    async def _serve_workers(self) -> None:
        while True:
            frames: list[bytes] = await self._workers.recv_multipart()
            if len(frames) == 3 and len(frames[1]) == LEASE_BYTES:
                self._from_worker(frames[0], int.from_bytes(frames[1]), _decode(frames[2]), frames[2])
            else:
                self._leases.counters["malformed"] += 1
            self._flush()
            await let_others_run()

    def _from_worker(self, connection: bytes, lease: int, message: AnyMessage | None, body: bytes) -> None:
        now = time.monotonic()
        match message:
            case Heartbeat():
                self._leases.heartbeat(connection, message, now)
            case WorkerHello():
                self._leases.hello(connection, message, now)
            case Goodbye():
                self._leases.goodbye(connection, message, now)
            case Reply():
                self._leases.reply(connection, lease, message, body, now)
            case _:
                self._leases.counters["malformed"] += 1

    async def _serve_judges(self) -> None:
        while True:
            connection, *frames = await self._judges.recv_multipart()
            now = time.monotonic()
            match _decode(frames[0]) if len(frames) == 1 else None:
                case JudgeBeat() as beat:
                    self._reviews.beat(connection, beat, now)
                case Reviewed() as reply:
                    self._reviews.reviewed(reply, now)
                case ReviewFailed() as failure:
                    self._reviews.failed(failure, now)
                case JudgeGone() as gone:
                    self._reviews.gone(gone, now)
                case _:
                    self._leases.counters["malformed"] += 1
            self._flush()
            await let_others_run()

    def _flush(self) -> None:
        """Send what leases and reviews have decided. What fails goes back to them, and may cause new messages."""
        while self._leases.outbox or self._reviews.outbox:
            batch, reviews = self._leases.outbox.copy(), self._reviews.outbox.copy()
            self._leases.outbox.clear()
            self._reviews.outbox.clear()
            for message in batch:
                error = self._send(message)
                if error is not None:
                    gone = error.errno == zmq.EHOSTUNREACH
                    self._leases.undeliverable(message, gone=gone, now=time.monotonic())
            for message in reviews:
                if self._send(message) is not None:
                    self._reviews.undeliverable(message, now=time.monotonic())

    def _send(self, message: ToDriver | ToWorker | ToJudge) -> zmq.ZMQError | None:
        if isinstance(message, ToJudge):
            return send_now(self._judges, [message.connection, message.payload])
        router = self._drivers if isinstance(message, ToDriver) else self._workers
        return send_now(router, [message.connection, message.lease.to_bytes(LEASE_BYTES), message.payload])

    async def _keep_time(self, own: Endpoint) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            self._leases.tick(time.monotonic())
            self._reviews.tick(time.monotonic())
            self._flush()
            current = read_endpoint(self._endpoint_file)
            if current is None:
                write_endpoint(self._endpoint_file, own)
            elif current.id != own.id:
                raise QueueError(
                    f"another controller has taken over this run (process {current.pid} on {current.host})",
                    where=str(self._endpoint_file),
                    remedy="nothing to do if that is the controller's new job; else cancel one of the two",
                )


class _Admission:
    """What the authenticator asks about every connection to one socket."""

    def __init__(self, admitted: dict[str, Role], refused: Callable[[str, str], None]) -> None:
        self._admitted = admitted
        self._refused = refused

    def callback(self, domain: str, key: bytes) -> bool:
        admitted = key.decode() in self._admitted
        if not admitted:
            self._refused(key.decode(), domain)
        return admitted


def _decode(body: bytes) -> AnyMessage | None:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _address(host: str) -> str:
    """ZeroMQ binds to interfaces and addresses; names are resolved here."""
    interfaces = {name for _, name in socket.if_nameindex()}
    return host if host in interfaces or host in _ANY_HOST else socket.gethostbyname(host)
