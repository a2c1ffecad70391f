"""What runs in a cell can neither get out, nor reach the guest, nor outlive anything, nor see the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox import sandbox as sandbox_module
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, OracleCall, Sandbox, SandboxLost
from tests.sandbox.processes import alive, command_line, pythons, tree, until

pytestmark = pytest.mark.apptainer


async def works(sandbox: Sandbox) -> None:
    result = await sandbox.run(b"echo alive; ps -e -o comm=")
    assert (result.status, set(result.stdout.split()) - {b"bash"}) == ("ok", {b"alive", b"ps"})


async def python(sandbox: Sandbox, code: str) -> CommandResult:
    await sandbox.write("attack.py", code.encode())
    return await sandbox.run(argv=["python3", "attack.py"])


@pytest.mark.parametrize(
    "script", [b"kill -9 -1", b"for s in $(seq 64); do kill -$s 1; done", b"kill -9 1; kill -STOP 1"]
)
async def test_the_init_survives_signals(sandbox: Sandbox, script: bytes) -> None:
    await sandbox.run(script)
    await works(sandbox)


async def test_the_init_cannot_be_seen_traced_or_read(sandbox: Sandbox) -> None:
    assert (await sandbox.run(b"ls /proc/1; cat /proc/1/environ /proc/1/cmdline /proc/1/maps")).stdout == b""
    result = await python(
        sandbox,
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
iov = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
print(libc.ptrace(16, 1, 0, 0), libc.ptrace(0x4206, 1, 0, 0))  # ATTACH, SEIZE
print(libc.syscall(310, 1, iov, 1, iov, 1, 0), libc.syscall(311, 1, iov, 1, iov, 1, 0))  # process_vm_readv, writev
pidfd = libc.syscall(434, 1, 0)
print([libc.syscall(438, pidfd, n, 0) for n in range(20)])  # pidfd_getfd
for name in "mem", "fd/0", "fd/5", "root", "cwd", "exe", "environ", "map_files":
    try: os.open(f"/proc/1/{name}", os.O_RDONLY); print("OPENED", name)
    except OSError: pass
print([libc.prlimit(1, n, None, buffer) for n in (7,)])
""",
    )
    assert result.stdout.decode().split("\n")[0:2] == ["-1 -1", "-1 -1"]
    assert set(result.stdout.decode().split("\n")[2].strip("[]").split(", ")) == {"-1"}
    assert b"OPENED" not in result.stdout
    await works(sandbox)


async def test_a_command_has_three_descriptors_and_no_way_to_the_channel(sandbox: Sandbox) -> None:
    result = await python(
        sandbox,
        """
import os, json, struct
print(sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1], flush=True)
header = json.dumps({"ok": True, "status": "ok", "exit": 0, "signal": None, "out": 6}).encode()
forged = struct.pack(">II", len(header), 6) + header + b"forged"
for fd in range(3, 1024):
    try: os.write(fd, forged); print("WROTE", fd)
    except OSError: pass
for fd in os.listdir("/proc/self/fd"):
    try:
        with open(f"/proc/self/fd/{fd}", "wb") as f: f.write(b"")
    except OSError: pass
os.write(1, forged); os.write(2, forged)
raise SystemExit(9)
""",
    )
    assert (result.status, result.exit_status) == ("nonzero", 9)
    assert result.stdout.startswith(b"[0, 1, 2]\n")
    assert b"WROTE" not in result.stdout and result.stdout.endswith(b"forged")
    await works(sandbox)


async def test_closing_or_flooding_every_descriptor(sandbox: Sandbox) -> None:
    assert (await sandbox.run(b"exec 0<&- 1>&- 2>&-; exit 4")).exit_status == 4
    assert (await sandbox.run(b"exec >&- 2>&-; sleep 0.3; exit 5")).exit_status == 5
    await works(sandbox)


async def test_commands_have_no_privilege_and_get_none(sandbox: Sandbox) -> None:
    status = (await sandbox.run(b"cat /proc/self/status")).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(fields[name], 16) == 0, name
    assert fields["NoNewPrivs"] == "1"
    script = b"""
        unshare -U true; unshare -m true; unshare -r true; unshare -n true; chroot / true
        mount -t tmpfs x /tmp; umount /work; mknod d b 8 0; chown 0:0 .; nsenter -t 1 -m true
        echo 1 > /proc/sys/kernel/core_pattern; echo 9 > /proc/sys/user/max_user_namespaces
        echo b > /proc/sysrq-trigger; echo 1 > /proc/sys/vm/drop_caches; hostname x; date -s 2001-01-01
        echo -1000 > /proc/self/oom_score_adj; renice -n -5 $$; cat /dev/kmsg"""
    for line in script.decode().replace("\n", ";").split(";"):
        if line.strip():
            assert (await sandbox.run(line.encode())).status == "nonzero", line
    result = await python(
        sandbox,
        """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, *args in [
    ("unshare", 0x10000000), ("unshare", 0x20000), ("unshare", 0x20000000), ("setuid", 0), ("setgid", 0),
    ("mount", b"x", b"/tmp", b"tmpfs", 0, None), ("umount2", b"/work", 2), ("pivot_root", b"/", b"/"),
    ("syscall", 435, ctypes.create_string_buffer(b"\\0\\0\\0\\x10", 88), 88),  # clone3, CLONE_NEWUSER
    ("syscall", 250, 0, 0), ("syscall", 248, b"user", b"k", b"v", 1, -2),  # keyctl, add_key
    ("syscall", 321, 0, 0, 0), ("syscall", 298, 0, 0, -1, -1, 0), ("syscall", 323, 0), ("syscall", 425, 1, 0),
    ("syscall", 447, 0), ("syscall", 304, 0, 0, 0), ("clone", 0, 0, 0x10000000, 0),
]:
    if getattr(libc, name)(*args) >= 0: print("GOT", name, args)
""",
    )
    assert (result.status, result.stdout) == ("ok", b""), result
    await works(sandbox)


async def test_no_core_is_dumped(sandbox: Sandbox) -> None:
    assert (await sandbox.run(b"ulimit -c unlimited; sleep 9 & kill -SEGV $!; wait; ls -A")).stdout == b""


async def test_nothing_of_the_host_can_be_read(sandbox: Sandbox, base_image: Path) -> None:
    script = b"""
        env; cat /proc/self/mountinfo /proc/mounts /etc/passwd /etc/group /etc/hosts /etc/hostname /etc/resolv.conf
        hostname; uname -n; id; ls -la / /run /sys /home /root /tmp /dev; cat /proc/cmdline /proc/self/cgroup; ps -ef
        find / -xdev -newermt '-1 hour' 2>/dev/null; cat /proc/keys /proc/partitions /proc/net/dev /proc/sysvipc/shm"""
    text = (await sandbox.run(script)).stdout.decode(errors="replace")
    secrets = [
        str(base_image),
        str(Path(__file__).parents[2]),
        socket.gethostname(),
        "apptainer exec",
    ]
    with contextlib.suppress(KeyError):
        secrets.append(pwd.getpwnam("ectype").pw_dir)
    for secret in secrets:
        if len(secret) > 3:
            assert secret not in text, secret


async def test_two_sandboxes_share_nothing(
    sandbox: Sandbox, apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    other = await Sandbox.start(apptainer, base_image, isolation)
    try:
        await other.open(CellSpec(), Limits())
        holder = """
import os, socket, subprocess, time
for folder in "/work", "/tmp", "/var/tmp", "/dev/shm", "/case": open(f"{folder}/shared-mark", "w")
s = socket.socket(socket.AF_UNIX); s.bind("\\0ectype-shared-mark"); s.listen()
subprocess.run(["ipcmk", "-M", "4096"], stdout=subprocess.DEVNULL)
time.sleep(3)
"""
        await sandbox.write("hold.py", holder.encode())
        holding = asyncio.create_task(sandbox.run(argv=["python3", "hold.py"]))
        await asyncio.sleep(1)
        seen = await other.run(
            b"find / -name shared-mark 2>/dev/null; ps -e -o args= | grep [h]old.py; ipcs -m | grep 0x; python3 -c '"
            b'import socket; s = socket.socket(socket.AF_UNIX); s.connect("\\0ectype-shared-mark"); print(1)\''
        )
        assert seen.stdout == b""
        assert (await holding).status == "ok"
    finally:
        await other.kill()


@pytest.mark.parametrize(
    "junk",
    [
        b"import os; data = os.urandom(100000)",
        b"data = b'\\xff' * 100",
        b"import struct; data = struct.pack('>II', 5, 0) + b'{\"a\":'",
        b"import struct; h = b'[' * 100000; data = struct.pack('>II', len(h), 0) + h",
        b'import struct; h = b\'{"argv":[],"files":[],"stdin":Infinity}\'; data = struct.pack(\'>II\', len(h), 0) + h',
        b'import struct; h = b\'{"argv":[],"files":[["a",-5]],"stdin":5}\'; data = struct.pack(\'>II\', len(h), 0) + h',
        b"import struct; data = struct.pack('>II', 1 << 31, 1 << 31)",
        b"data = b''",
    ],
)
async def test_garbage_to_the_oracle_harms_only_its_sender(sandbox: Sandbox, junk: bytes) -> None:
    await sandbox.open(CellSpec(oracle=True), Limits(wall_s=2))

    async def reference(call: OracleCall) -> CommandResult:
        return CommandResult(status="ok", exit_status=0, stdout=b"answer")

    code = (
        junk
        + b"""
import os, threading
def push(name):
    try:
        fd = os.open(name, os.O_RDWR | os.O_NONBLOCK); os.write(fd, data); print("pushed", flush=True)
    except OSError as e: print(e)
push("/run/oracle/request"); push("/run/oracle/reply")
import time; time.sleep(0.3)
"""
    )
    await sandbox.write("junk.py", code)
    assert b"pushed" in (await sandbox.run(argv=["python3", "junk.py"], on_oracle=reference)).stdout
    for _ in range(2):
        assert (await sandbox.run(b"reference", on_oracle=reference)).stdout == b"answer"


async def test_a_reference_with_words_no_program_can_take(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(oracle=True), Limits())
    calls = []

    async def reference(call: OracleCall) -> CommandResult:
        calls.append(call)
        return CommandResult(status="ok", exit_status=0)

    code = rb"""
import json, os, struct
h = json.dumps({"argv": ["a\0b", "\ud800"], "files": [["../x\0", 0]], "stdin": 0}).encode()
fd = os.open("/run/oracle/request", os.O_WRONLY); os.write(fd, struct.pack(">II", len(h), 0) + h)
import time; time.sleep(0.5)
"""
    await sandbox.write("odd.py", code)
    await sandbox.run(argv=["python3", "odd.py"], on_oracle=reference)
    call = calls[0]
    result = await sandbox.run_case(["echo", *call.argv], stdin=b"", files=(), limits=Limits())
    assert result.status == "nonzero"
    result = await sandbox.run_case(["true"], stdin=b"", files=call.files, limits=Limits())
    assert result.status == "nonzero"
    await works(sandbox)


@pytest.fixture
async def busy(sandbox: Sandbox) -> AsyncIterator[tuple[Sandbox, asyncio.Task[CommandResult], list[int]]]:
    """A sandbox that runs a command with stubborn children, the pending result, and its processes on the host."""
    script = b"(setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 0.1; done' &); sleep 3600"
    running = asyncio.create_task(sandbox.run(script, limits=Limits(wall_s=3000)))
    pid = sandbox._container.pid
    await until(lambda: any(command_line(p).startswith(b"sleep\x003600") for p in tree(pid)))
    yield sandbox, running, tree(pid)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError, SandboxLost):
        await running


async def test_killing_leaves_nothing(busy: tuple[Sandbox, asyncio.Task[CommandResult], list[int]]) -> None:
    sandbox, running, pids = busy
    before = set(os.listdir("/tmp"))
    assert len(pids) >= 5
    await sandbox.kill()
    with pytest.raises(SandboxLost):
        await running
    assert alive(pids) == []
    assert not sandbox.alive
    assert set(os.listdir("/tmp")) <= before
    await sandbox.kill()


async def test_closing_the_cell_leaves_the_guest_alone(sandbox: Sandbox) -> None:
    await sandbox.close_cell()
    assert len(pythons(tree(sandbox._container.pid))) == 1


@pytest.mark.parametrize("victim", ["guest", "cell"])
async def test_a_guest_or_cell_that_dies_is_a_lost_sandbox(
    busy: tuple[Sandbox, asyncio.Task[CommandResult], list[int]], victim: str
) -> None:
    _, running, pids = busy
    os.kill(pythons(pids)[0 if victim == "guest" else 1], signal.SIGKILL)
    with pytest.raises(SandboxLost):
        await running
    await until(lambda: alive(pids) == [])


async def test_a_guest_that_hangs_is_a_lost_sandbox(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_GRACE_S", 0.5)
    pids = tree(sandbox._container.pid)
    os.kill(pythons(pids)[0], signal.SIGSTOP)
    with pytest.raises(SandboxLost, match="no answer"):
        await sandbox.run(b"true", limits=Limits(wall_s=0.5))
    await until(lambda: alive(pids) == [])


WORKER = """
import asyncio, sys
from pathlib import Path
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox

async def main():
    apptainer = await Apptainer.find()
    sandbox = await Sandbox.start(apptainer, Path(sys.argv[1]), Isolation())
    await sandbox.open(CellSpec(), Limits())
    print(sandbox._container.pid, flush=True)
    await sandbox.run(b"(setsid sleep 3600 &); sleep 3600", limits=Limits(wall_s=3600))

asyncio.run(main())
"""


async def test_a_killed_worker_leaves_nothing(base_image: Path) -> None:
    root = Path(__file__).parents[2]
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(base_image), cwd=root, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert worker.stdout is not None
        pid = int(await worker.stdout.readline())
        await until(lambda: sum(command_line(p).startswith(b"sleep") for p in tree(pid)) >= 2)
        pids = tree(pid)
    finally:
        worker.kill()
        await worker.wait()
    await until(lambda: alive(pids) == [])
