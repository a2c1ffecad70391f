"""The cell's end of the reference oracle: a client program for the agent, and a FIFO pair the init serves.

The agent's `reference` command packs its arguments, its standard input and the files it names into one request; the
init passes that to the host while the command runs, and the host's answer back. FIFOs, not a socket: they need no
socket family at all, and they lie in a folder that is read-only for the agent. Runs inside the container (standard
library only); whatever arrives here was written by the agent and is only measured, never believed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import struct
from typing import Any

FOLDER = "/run/oracle"
MAX_HEADER = 1 << 20
MAX_BODY = 16 << 20
EXHAUSTED = b"reference: call budget exhausted\n"

CLIENT = b"""#!/usr/bin/python3 -ISE
import fcntl, json, os, struct, sys
CWD = os.getcwd()
def read(fd, size):
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            sys.exit("reference: lost")
        data += chunk
    return data
def write(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
argv, files, stdin = sys.argv[1:], [], b""
for name in argv:
    path = os.path.normpath(os.path.join(CWD, name))
    if name.startswith("/") or not path.startswith(CWD.rstrip("/") + "/"):
        continue
    try:
        if os.path.isfile(path) and os.path.getsize(path) <= 1 << 20:
            with open(path, "rb") as file:
                files.append((path[len(CWD.rstrip("/")) + 1:], file.read()))
    except OSError:
        pass
if not os.isatty(0):
    parts = []
    while chunk := os.read(0, 1 << 20):
        parts.append(chunk)
    stdin = b"".join(parts)
if len(stdin) + sum(len(data) for _, data in files) > 16 << 20:
    sys.exit("reference: input too large")
header = json.dumps({"argv": argv, "stdin": len(stdin), "files": [[n, len(d)] for n, d in files]}).encode()
lock = os.open("/run/oracle/lock", os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
reply = os.open("/run/oracle/reply", os.O_RDWR)
request = os.open("/run/oracle/request", os.O_WRONLY)
body = stdin + b"".join(data for _, data in files)
write(request, struct.pack(">II", len(header), len(body)) + header)
write(request, body)
code, out, err = struct.unpack(">III", read(reply, 12))
out, err = read(reply, out), read(reply, err)
fcntl.flock(lock, fcntl.LOCK_UN)
write(1, out)
write(2, err)
os._exit(code)
"""


def install(name: str) -> None:
    """Create the program and the FIFOs, while /run is still writable."""
    program = f"/run/bin/{name}"
    with open(program, "wb") as file:
        file.write(CLIENT.replace(b'"reference: ', b'"' + name.encode() + b": "))
    os.chmod(program, 0o755)
    for name in ("request", "reply"):
        os.mkfifo(f"{FOLDER}/{name}", 0o600)
    with open(f"{FOLDER}/lock", "wb"):
        pass


class Oracle:
    """State of one command's oracle traffic, driven by the command's poll loop."""

    def __init__(self) -> None:
        self.waiting = False
        """A request is at the host; its reply has not come yet."""
        self.fd = -1
        self._buffer = bytearray()
        self._reply = memoryview(b"")
        self._reply_fd = -1
        self._reopen()

    def _reopen(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self._buffer.clear()
        self.fd = os.open(f"{FOLDER}/request", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def register(self, poller: select.poll) -> None:
        if not self.waiting and self._reply_fd < 0:
            poller.register(self.fd, select.POLLIN)
        if self._reply_fd >= 0:
            poller.register(self._reply_fd, select.POLLOUT)

    def unregister(self, poller: select.poll) -> None:
        for fd in (self.fd, self._reply_fd):
            if fd >= 0:
                with contextlib.suppress(KeyError):
                    poller.unregister(fd)

    def handle(self, fd: int) -> tuple[dict[str, Any], bytes] | None:
        """One poll event; returns a complete request for the host, or None."""
        if fd == self._reply_fd:
            self._continue_reply()
            return None
        try:
            chunk = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return None
        if not chunk:
            self._reopen()
            return None
        self._buffer += chunk
        if len(self._buffer) < 8:
            return None
        header_size, body_size = struct.unpack_from(">II", self._buffer)
        if header_size > MAX_HEADER or body_size > MAX_BODY:
            self._reopen()
            return None
        if len(self._buffer) < 8 + header_size + body_size:
            return None
        header = self._parse(bytes(self._buffer[8 : 8 + header_size]), body_size)
        body = bytes(self._buffer[8 + header_size : 8 + header_size + body_size])
        self._buffer.clear()
        if header is None:
            self.answer(125, b"", b"reference: malformed request\n")
            return None
        self.waiting = True
        return header, body

    @staticmethod
    def _parse(data: bytes, body_size: int) -> dict[str, Any] | None:
        try:
            raw = json.loads(data)
            argv = [str(word) for word in raw["argv"]]
            files = [[str(name), int(size)] for name, size in raw["files"]]
            stdin = int(raw["stdin"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        sizes = [stdin, *(size for _, size in files)]
        if min(sizes) < 0 or sum(sizes) != body_size:
            return None
        return {"op": "oracle", "argv": argv, "files": [[*file, 0o644] for file in files], "stdin": stdin}

    def answer(self, code: int, out: bytes, err: bytes) -> None:
        self.waiting = False
        try:
            self._reply_fd = os.open(f"{FOLDER}/reply", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            self._reopen()  # the client is gone
            return
        self._reply = memoryview(struct.pack(">III", code & 255, len(out), len(err)) + out + err)
        self._continue_reply()

    def _continue_reply(self) -> None:
        try:
            while self._reply:
                self._reply = self._reply[os.write(self._reply_fd, self._reply) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        os.close(self._reply_fd)
        self._reply_fd = -1
        self._reopen()

    def close(self) -> None:
        os.close(self.fd)
        if self._reply_fd >= 0:
            os.close(self._reply_fd)
