"""Where the controller listens, and the socket settings that both ends share.

The endpoint file is the one rendezvous of a run: the controller replaces it atomically, clients and worker links read
it again and again, so a controller that moves to another port or host is found without anybody being told.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import zmq
import zmq.asyncio

from audit.errors import EctypeError
from queues.keys import Role, load_pair, load_public

MAX_MESSAGE_BYTES = 16 << 20
"""A peer that sends more is disconnected. The largest ordinary message is an action of 4 MB."""
LEASE_BYTES = 8
"""A lease number on the wire, big-endian, in a frame of its own before every message."""
HIGH_WATER_MARK = 1000
"""Messages in each direction and connection that ZeroMQ holds; beyond it a send says so instead of queueing."""
ENDPOINT_POLL_S = 0.5

_TRANSIENT = (errno.ENOENT, errno.ESTALE)


class QueueError(EctypeError):
    """The queues cannot do what was asked; the message says what and where."""


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Addresses of the three sockets. `id` is new with every start of a controller, `epoch` larger than any before."""

    drivers: str
    workers: str
    judges: str
    pid: int
    host: str
    started: float
    id: str
    epoch: int


def write_endpoint(path: Path, endpoint: Endpoint) -> None:
    temporary = path.with_name(f".{path.name}.{endpoint.id}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(endpoint) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise QueueError(
            f"the endpoint file cannot be written: {error.strerror}",
            where=str(path),
            remedy="check the free space and the permissions of the run folder",
        ) from error


def read_endpoint(path: Path) -> Endpoint | None:
    """The current endpoint, None while there is none. Opened anew each time: that is what makes NFS look again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Endpoint)
    except OSError as error:
        if error.errno in _TRANSIENT:
            return None
        raise QueueError(f"the endpoint file cannot be read: {error.strerror}", where=str(path)) from error
    except msgspec.DecodeError as error:
        raise QueueError(
            f"the endpoint file is damaged: {error}",
            where=str(path),
            remedy="delete it; the controller writes a new one when it starts",
        ) from error


def set_limits(socket: zmq.asyncio.Socket) -> None:
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = HIGH_WATER_MARK
    socket.maxmsgsize = MAX_MESSAGE_BYTES
    # ZMTP's own heartbeats, answered by ZeroMQ's I/O thread: they notice a dead peer or route, not a busy process.
    socket.heartbeat_ivl = 3_000
    socket.heartbeat_timeout = 15_000


def send_now(socket: zmq.asyncio.Socket, frames: Sequence[bytes]) -> zmq.ZMQError | None:
    """Send without waiting. The error, if any: EAGAIN (no connection, or full) or EHOSTUNREACH (that peer is gone)."""
    sent = cast("asyncio.Future[object]", socket.send_multipart(frames, zmq.NOBLOCK))
    error = sent.exception()
    if error is None:
        return None
    if isinstance(error, zmq.ZMQError) and error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
        return error
    raise error


def connect_dealer(context: zmq.asyncio.Context, address: str, keys: Path, role: Role) -> zmq.asyncio.Socket:
    """A DEALER to the controller with the key of `role`; raises KeysError."""
    pair, server = load_pair(keys, role), load_public(keys, "controller")
    socket = context.socket(zmq.DEALER)
    set_limits(socket)
    socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = pair.public, pair.secret, server
    # Queue only on connections whose handshake is complete: what waits for a peer waits in our own hands.
    socket.immediate = 1
    socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 2_000
    socket.connect(address)
    return socket
