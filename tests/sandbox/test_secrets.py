"""No path into the hidden cases, and none to the reference, from inside a sandbox: tried as an agent would try."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queues.messages import OpenSession, Submit, Test
from sandbox.grading import grade
from sandbox.hidden import write_hidden
from sandbox.sandbox import CellSpec, CommandResult, File
from sandbox.session import Services, Session
from tests.sandbox.small_tasks import COUNT, MARKER, REVERSE, SOLUTION, one_pool, run, services, write

pytestmark = pytest.mark.apptainer

SEARCH = rb"""
import os, re, sys

words = [b"marker-of-" + b"the-hidden-cases", b"the-hidden-cases"[::-1], b"the-original" + b"-source"]
words.append(b"hidden.ms" + b"gpack")
mine = os.getpid()

def look(path, limit=8 << 20):
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        data = os.read(handle, limit)
    except OSError:
        return
    finally:
        os.close(handle)
    for word in words:
        if word in data:
            print("FOUND", word, path)

def memory(pid):
    try:
        maps = open("/proc/%s/maps" % pid).read()
        handle = os.open("/proc/%s/mem" % pid, os.O_RDONLY)
    except OSError:
        return
    print("READABLE memory", pid)
    for line in maps.splitlines():
        low, high = (int(x, 16) for x in line.split()[0].split("-"))
        try:
            data = os.pread(handle, min(high - low, 64 << 20), low)
        except (OSError, OverflowError):
            continue
        for word in words:
            if word in data:
                print("FOUND", word, "memory of", pid)

for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == mine:
        continue
    memory(pid)
    for name in ("environ", "cmdline", "maps", "mountinfo", "auxv"):
        look("/proc/%s/%s" % (pid, name))
    for folder in ("fd", "root", "cwd", "map_files"):
        try:
            for name in os.listdir("/proc/%s/%s" % (pid, folder)):
                look("/proc/%s/%s/%s" % (pid, folder, name))
        except OSError:
            pass
for name in ("mounts", "self/environ", "keys", "kcore", "kmsg", "net/unix", "sched_debug"):
    look("/proc/" + name)
for word in words:
    if any(word in (k + "=" + v).encode() for k, v in os.environ.items()):
        print("FOUND", word, "environment")
places = [p for p in os.listdir("/") if p not in ("proc", "sys", "usr", "lib", "lib64", "bin", "sbin", "work", "dev")]
for place in ["/" + p for p in places] + ["/dev/shm", "/dev/mqueue", "/usr/local", "/usr/share/ectype", "/var"]:
    for folder, _, files in os.walk(place):
        for file in files:
            look(os.path.join(folder, file))
            for word in words:
                if word in file.encode():
                    print("FOUND", word, folder, file)
for descriptor in range(3, 256):
    try:
        os.fstat(descriptor)
        print("OPEN descriptor", descriptor, os.readlink("/proc/self/fd/%d" % descriptor))
    except OSError:
        pass
print("searched")
"""


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Services]:
    # the hidden half lies on this machine, where a worker would have it
    write_hidden(tmp_path / "tasks", REVERSE)
    async with services(tmp_path / "audit", mode="off") as shared:
        yield shared


async def agent(shared: Services, hidden: object = REVERSE) -> Session:
    session = Session(
        OpenSession(request_id="o", episode="e1", suite="small", task="reverse", max_tests=5),
        hidden,  # type: ignore[arg-type]
        shared,
    )
    await session.open()
    return session


async def do(session: Session, step: int, action: object) -> bytes:
    reply = await session.submit(Submit(request_id=f"r{step}", episode="e1", step=step, action=action))  # type: ignore[arg-type]
    return reply.observation.stdout + reply.observation.stderr


async def test_the_agent_finds_no_hidden_case(shared: Services, tmp_path: Path) -> None:
    session = await agent(shared)
    await do(session, 0, write("search.py", SEARCH))
    await do(session, 1, write("main.py", SOLUTION))
    assert (await session.test(Test(request_id="t", episode="e1", step=2))).result.passed == 4
    await do(session, 3, run("echo abc | reference"))
    found = await do(session, 4, run("python3 -I -S search.py"))
    assert found == b"searched\n"
    shell = await do(
        session,
        5,
        run(
            "find / -xdev -name '*hidden*' -o -xdev -name '*.msgpack' -o -name 'hidden-case*' 2>/dev/null\n"
            f"ls -d '{tmp_path}' /var/cache/ectype* 2>&1\n"
            "mount 2>&1 | grep -i ectype; ls -la /proc/1/fd /proc/1/root/ 2>&1; cat /proc/1/environ 2>&1"
        ),
    )
    lines = [line for line in shell.splitlines() if b"hidden" in line and b"No such file" not in line]
    assert set(lines) <= {b"/test/hidden"}, shell
    assert b"cannot access '" + str(tmp_path).encode() in shell
    await session.close("test")


async def test_the_agent_cannot_trace_or_enter_anything(shared: Services) -> None:
    session = await agent(shared)
    out = await do(
        session,
        0,
        run(
            "head -c 16 /proc/1/mem; readlink /proc/1/exe; ls /proc/1/ns; nsenter -t 1 -m true; "
            "unshare -U -r -m true; mount -t tmpfs none /tmp; umount /eval; chroot / true; "
            "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); "
            "print(l.ptrace(16, 1, 0, 0), ctypes.get_errno())'; "
            "echo $$; id -u"
        ),
    )
    assert b"-1 1" in out, out  # PTRACE_ATTACH: not permitted
    assert out.splitlines()[-1] != b"0"
    await session.close("test")


async def test_the_reference_is_nowhere_in_the_agents_cell(shared: Services) -> None:
    session = await agent(shared)
    await do(session, 0, run("echo abc | reference"))
    out = await do(
        session,
        1,
        run(
            "ls -A /reference; cat $(command -v reference) | grep -c original-source; "
            "grep -rslI the-original-sourc[e] / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr; echo end"
        ),
    )
    assert out == b"0\nend\n", out
    await session.close("test")


FIND_WC = rb"""
import hashlib, os, sys
want, size = sys.argv[1], int(sys.argv[2])
seen = set()
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/dev")]
    for name in files:
        path = os.path.join(folder, name)
        try:
            info = os.stat(path)
            if info.st_size != size or (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
            data = open(path, "rb").read()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == want:
            print("FOUND", path)
print("looked at all files;", os.popen("wc -c < /dev/null 2>/dev/null").read() or "no wc")
"""


async def test_a_masked_program_is_nowhere_under_any_name(shared: Services) -> None:
    import hashlib

    own = (shared.agents.image / "usr/bin/wc").read_bytes()
    arguments = (hashlib.sha256(own).hexdigest(), str(len(own)))
    spec = CellSpec(
        files=(
            File(path="/work/find.py", data=FIND_WC),
            File(path="/work/hard.py", data=b"import os\nos.link('/usr/bin/wc', '/work/w')\n"),
        ),
        masked=COUNT.masked,
    )

    async def search(result: CommandResult) -> None:
        assert result.stdout == b"looked at all files; no wc\n", result

    session = await agent(shared, COUNT)
    await do(session, 0, write("find.py", FIND_WC))
    out = await do(session, 1, run(f"python3 -I -S find.py {' '.join(arguments)}"))
    assert out == b"looked at all files; no wc\n"
    assert b"FOUND" not in await do(
        session, 2, run("cp /usr/bin/wc w; ln /usr/bin/wc w2; ./w -c find.py && echo FOUND")
    )
    await session.close("test")
    async with shared.graders.lease() as sandbox:
        await sandbox.open(spec, COUNT.limits)
        await search(await sandbox.run(argv=("python3", "-I", "-S", "/work/find.py", *arguments)))
        await sandbox.close_cell()
    async with one_pool() as pool:
        copies = b"import shutil,sys\nsys.exit(0 if shutil.which('wc') is None else 9)\n"
        result = await grade(pool, COUNT, (File(path="build.py", data=copies),))
        assert result.passed == 0


async def test_what_a_cell_left_is_not_in_the_next_one(shared: Services) -> None:
    session = await agent(shared)
    await do(
        session,
        0,
        run(
            "echo leftover-of-one > a; cp a /tmp/a; cp a /dev/shm/a; mkdir -p /tmp/.b/c; touch /tmp/.b/c/d; "
            "setsid sleep 600 &"
        ),
    )
    await session.close("test")
    session = await agent(shared)
    out = await do(
        session,
        0,
        run(
            "find /work /tmp /dev/shm /case -mindepth 1 -type f; ps ax | grep -c '[s]leep 600'; "
            "grep -rsl leftover-of-on[e] / --exclude-dir=usr --exclude-dir=proc --exclude-dir=sys"
        ),
    )
    assert out == b"0\n", out
    await session.close("test")


async def test_hidden_bytes_are_not_in_the_agents_container_at_all(shared: Services) -> None:
    """The guest of the agent's container never sees a case: its memory, read from outside, does not hold the marker."""
    session = await agent(shared)
    await do(session, 0, write("main.py", SOLUTION))
    assert (await session.test(Test(request_id="t", episode="e1", step=1))).result.passed == 4
    sandbox = session._sandbox
    assert sandbox is not None
    if not _in_memory_of_tree(sandbox._container.pid, b"call budget exhausted"):
        pytest.skip("the memory of the guest cannot be read from outside on this machine")
    assert not _in_memory_of_tree(sandbox._container.pid, MARKER)
    await session.close("test")


def _in_memory_of_tree(pid: int, word: bytes) -> bool:
    todo, found = [pid], False
    while todo:
        current = todo.pop()
        try:
            todo += [int(c) for c in Path(f"/proc/{current}/task/{current}/children").read_text().split()]
            maps = Path(f"/proc/{current}/maps").read_text().splitlines()
            with open(f"/proc/{current}/mem", "rb", buffering=0) as memory:
                for line in maps:
                    low, high = (int(x, 16) for x in line.split()[0].split("-"))
                    if high - low > 256 << 20 or " r" not in line[:40]:
                        continue
                    try:
                        memory.seek(low)
                        found = found or word in (memory.read(high - low) or b"")
                    except (OSError, ValueError, OverflowError):
                        continue
        except OSError:
            continue
    return found
