"""A DEALER that follows the controller: connects where the endpoint file points, again and again, for ever.

In go the endpoint file, the keys and a coroutine that serves one connection; that coroutine is cancelled and
started anew on a fresh socket whenever another controller appears. A key that the controller refuses ends it with an
error that says so: trying again could not help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from queues.endpoint import ENDPOINT_POLL_S, Endpoint, QueueError, connect_dealer, read_endpoint
from queues.keys import Role

Side = Literal["drivers", "workers", "judges"]
Serve = Callable[[zmq.asyncio.Socket], Coroutine[Any, Any, None]]


async def follow(endpoint_file: Path, keys_dir: Path, role: Role, side: Side, serve: Serve) -> None:
    """Run `serve(socket)` against every controller that appears, until cancelled."""
    context = zmq.asyncio.Context()
    try:
        while True:
            endpoint = await _wait_for_endpoint(endpoint_file)
            address = getattr(endpoint, side)
            socket = connect_dealer(context, address, keys_dir, role)
            monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            try:
                await until_first(
                    serve(socket), _until_replaced(endpoint_file, endpoint), _until_refused(monitor, role, address)
                )
            finally:
                socket.disable_monitor()
                socket.close()
    finally:
        context.destroy(linger=0)


async def until_first(*loops: Coroutine[Any, Any, object]) -> None:
    """Run all of them until one ends, cancel the others, and raise what that one raised."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def let_others_run() -> None:
    """For loops that receive: a `recv` that finds a message does not yield, so a flood would starve everything else."""
    await asyncio.sleep(0)


async def _wait_for_endpoint(endpoint_file: Path) -> Endpoint:
    while True:
        endpoint = read_endpoint(endpoint_file)
        if endpoint is not None:
            return endpoint
        await asyncio.sleep(ENDPOINT_POLL_S)


async def _until_replaced(endpoint_file: Path, known: Endpoint) -> None:
    while True:
        await asyncio.sleep(ENDPOINT_POLL_S)
        current = read_endpoint(endpoint_file)
        if current is not None and current.id != known.id:
            return


async def _until_refused(monitor: zmq.asyncio.Socket, role: Role, address: str) -> None:
    event = parse_monitor_message(await monitor.recv_multipart())
    raise QueueError(
        f"the controller refused the key of the role {role} (status {event['value']})",
        where=address,
        remedy="use the keys of this run's folder, and the role that this socket is for",
    )
