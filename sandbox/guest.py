"""The guest: the one process of ectype inside a container, which opens and closes cells and relays frames to them.

Its source (this file and the other `guest_*` modules) arrives over standard input, so that nothing of ectype has to be
in the image. It answers `open`, `close` and `ping` itself; everything else goes to the cell as it is. It lives outside
the cell's namespaces: no command can see, signal or trace it, and it never runs anything of the agent itself. It ends
when standard input does, and with it the container. Standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
from typing import Any

from sandbox import guest_cell, guest_mounts
from sandbox import guest_kernel as kernel
from sandbox.guest_channel import Channel


class Guest:
    def __init__(self, host: Channel) -> None:
        self._host = host
        self._cell = 0
        self._channel: Channel | None = None

    def serve(self) -> None:
        while True:
            poller = select.poll()
            poller.register(self._host.reading, select.POLLIN)
            if self._channel is not None:
                poller.register(self._channel.reading, select.POLLIN)
            for fd, _ in poller.poll():
                if fd == self._host.reading:
                    self._request(*self._host.receive_raw())
                elif self._channel is not None and fd == self._channel.reading:
                    self._relay_reply(self._channel)

    def _request(self, header: bytes, blob: bytes) -> None:
        request = json.loads(header)
        operation = request["op"]
        if operation == "ping":
            self._host.send({"ok": True})
        elif operation == "close":
            self._close()
            self._host.send({"ok": True})
        elif operation == "open":
            self._close()
            self._open(request, blob)
        elif self._channel is None:
            self._host.send({"ok": False, "kind": "no_cell", "errno": 0, "error": "no cell is open"})
        else:
            try:
                self._channel.send_raw(header, blob)
            except OSError:
                self._lost()

    def _open(self, request: dict[str, Any], blob: bytes) -> None:
        self._cell, self._channel = guest_cell.spawn(request, blob, [self._host.reading, self._host.writing])
        try:
            reply, _ = self._channel.receive()
        except (EOFError, OSError):
            reply = {"ok": False, "kind": "broken", "errno": 0, "error": "the cell ended while it was made"}
        if not reply["ok"]:
            self._close()
        self._host.send(reply)

    def _relay_reply(self, channel: Channel) -> None:
        try:
            frame = channel.receive_raw()
        except (EOFError, OSError):
            self._lost()
            return
        self._host.send_raw(*frame)

    def _lost(self) -> None:
        self._close()
        self._host.send({"ok": False, "kind": "cell_lost", "errno": 0, "error": "the cell has ended"})

    def _close(self) -> None:
        """End the cell: with its init, the kernel ends everything in its PID namespace before waitpid returns."""
        if self._channel is None:
            return
        os.close(self._channel.reading)
        self._channel = None
        if self._cell:
            os.kill(self._cell, signal.SIGKILL)
            os.waitpid(self._cell, 0)
            self._cell = 0


def main() -> None:
    """Take the channel off standard input and output, cut the ties to the host, and serve until the input ends."""
    reading, writing = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    keep = {reading, writing}
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    kernel.forbid_new_privileges()
    kernel.adopt_orphans()
    host = Channel(reading, writing)
    try:
        guest_mounts.prepare_container()
    except OSError as error:
        host.send({"ok": False, "kind": "broken", "errno": error.errno, "error": str(error)})
        return
    kernel.inspection(False)
    gc.freeze()  # a collection in a cell must not touch, and thereby copy, what it shares with this process
    host.send({"ok": True})
    with contextlib.suppress(EOFError, BrokenPipeError):
        Guest(host).serve()
