"""Two sandboxes that want to talk: what one leaves or offers, the other does not find."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, OracleCall, Sandbox

pytestmark = pytest.mark.apptainer

OFFER = r"""
import ctypes, fcntl, os, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
held = []
for place in ("/tmp", "/var/tmp", "/dev/shm", "/work", "/case"):
    try:
        open(place + "/channel", "w").write("hello")
    except OSError:
        pass
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for name in ("\0channel%d" % kind, "/tmp/socket%d" % kind):
        try:
            held.append(server := socket.socket(socket.AF_UNIX, kind))
            server.bind(name)
            if kind == socket.SOCK_STREAM:
                server.listen()
        except OSError:
            pass
libc.shmget(4711, 4096, 0o1666)
libc.msgget(4711, 0o1666)
libc.semget(4711, 1, 0o1666)
for place in %r:
    held.append(file := os.open(place, os.O_RDONLY))
    fcntl.flock(file, fcntl.LOCK_EX)
subprocess.run(["reference", "ready"])
"""

LOOK = r"""
import ctypes, fcntl, os, socket
libc = ctypes.CDLL(None, use_errno=True)
found = []
for place in ("/tmp", "/var/tmp", "/dev/shm", "/work", "/case"):
    if os.path.exists(place + "/channel"):
        found.append(place)
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for name in ("\0channel%d" % kind, "/tmp/socket%d" % kind):
        try:
            socket.socket(socket.AF_UNIX, kind).connect(name)
            found.append(repr(name))
        except OSError:
            pass
for name in ("shmget", "msgget", "semget"):
    arguments = {"shmget": (4711, 4096, 0), "msgget": (4711, 0), "semget": (4711, 1, 0)}[name]
    if getattr(libc, name)(*arguments) >= 0:
        found.append(name)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if b"refer" + b"ence" in open("/proc/%s/cmdline" % pid, "rb").read():
            found.append("process " + pid)
    except OSError:
        pass
if os.path.exists("/proc/net/unix") and "channel" in open("/proc/net/unix").read():
    found.append("/proc/net/unix names the socket")
for place in %r:
    try:
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        found.append("lock on " + place)
print(found)
"""

LOCKED = ("/usr/bin/bash", "/etc/passwd", "/etc", "/usr", "/", "/tmp", "/dev", "/proc", "/dev/null")

KNOWN = {"lock on /dev/null"}
"""The device is the host's own: a bit between those who want to talk, as load is (docs/sandbox.md)."""
NAMES = {"/proc/net/unix names the socket"}
"""Where the network namespace is the host's, names can be listed, and not be connected to."""

LAYERS = {
    "both": Isolation(),
    "netns": Isolation(netns=True, seccomp=False),
    "seccomp": Isolation(netns=False, seccomp=True),
}


@pytest.mark.parametrize("layer", LAYERS)
async def test_two_sandboxes_share_no_socket_memory_or_file(apptainer: Apptainer, base_image: Path, layer: str) -> None:
    one, other = await asyncio.gather(*(Sandbox.start(apptainer, base_image, LAYERS[layer]) for _ in range(2)))
    looked: list[CommandResult] = []

    async def while_it_is_offered(call: OracleCall) -> CommandResult:
        assert call.argv == ("ready",)
        looked.append(await other.run(argv=["python3", "-c", LOOK.replace("%r", repr(LOCKED))]))
        return CommandResult(status="ok", exit_status=0)

    try:
        for sandbox in (one, other):
            await sandbox.open(CellSpec(oracle=sandbox is one), Limits())
        offered = await one.run(
            argv=["python3", "-c", OFFER.replace("%r", repr(LOCKED))], on_oracle=while_it_is_offered
        )
        assert offered.status == "ok", offered.stderr
        assert [(result.status, result.stderr) for result in looked] == [("ok", b"")]
        found = set(ast.literal_eval(looked[0].stdout.decode()))
        assert found <= KNOWN | (NAMES if layer == "seccomp" else set()), found
    finally:
        await asyncio.gather(one.kill(), other.kill())
