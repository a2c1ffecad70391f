"""What a policy is told: whatever its programs print, no name of a case, of the grader or of the host is in it.

Every place that tells about a machine is printed through the two ways out: the standard error of a failed build, and
the output of an agent's own command.
"""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

import msgspec
import pytest

import sandbox.sandbox
from containers.cache import cache_dir
from queues.messages import OpenSession, Submit
from sandbox.cleaning import COMPILE_STDERR_BYTES, STREAM_BYTES, Cleaner
from sandbox.grading import grade
from sandbox.hidden import write_hidden
from sandbox.sandbox import CommandResult, File
from sandbox.session import Session
from tests.sandbox.small_tasks import MARKER, REVERSE, SOLUTION, one_pool, run, services

pytestmark = pytest.mark.apptainer

DUMPS = {
    "traceback": b"python3 -c 'import main_that_is_not_there'; python3 -c 'raise ValueError(__file__)'; gcc none.c",
    "environment": b"env; export -p; set; cat /proc/self/environ",
    "arguments": b"cat /proc/*/cmdline | tr '\\0' ' '; ps -ef; cat /proc/*/comm /proc/*/stat /proc/*/status",
    "init": b"cat /proc/1/cmdline /proc/1/environ /proc/1/maps /proc/1/mountinfo; ls -l /proc/1/fd /proc/1/cwd",
    "mounts": b"cut -c 1-120 /proc/self/mountinfo; df",
    "mounts themselves": b"grep -o ' - .*' /proc/self/mountinfo | sort -u",
    "names": b"hostname; uname -a; id; whoami; cat /etc/passwd /etc/hosts /etc/hostname /etc/resolv.conf /proc/version",
    "kernel": b"cat /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/kernel/random/boot_id",
    "core": b"ulimit -c unlimited; bash -c 'kill -SEGV $$'; ls -lAR /tmp /case /work; cat core* | strings",
    "groups": b"cat /proc/self/cgroup /proc/self/uid_map /proc/self/gid_map; ls -l /proc/self/ns /proc/self/fd",
    "memory": b"cat /proc/self/maps; python3 -c 'import sys; print(sys.path, sys.flags, sys.orig_argv)'",
    "network": b"cat /proc/net/unix /proc/net/route /proc/net/tcp /proc/net/dev; ls /sys /sys/class/net",
    "left": b"ls -lAR /run /tests /logs /submission /reference /eval /test /mnt /home /root /srv /opt /var/tmp",
    "journal": b"dmesg; cat /dev/kmsg /var/log/*; last; who; mount",
}


def secrets(image: Path, tasks: Path) -> list[bytes]:
    """Names and paths of this machine, of the grader, and of the hidden half."""
    version = re.search(r"\((\w+@[\w.-]+)\)", Path("/proc/version").read_text())
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    words = [
        str(image), str(cache_dir()), str(tasks), str(Path(sandbox.sandbox.__file__).parents[1]), str(Path.home()),
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        *([version[1]] if version else []),
        *([pattern] if "/" in pattern else []),
        *(name for name in (socket.gethostname(), getpass.getuser()) if name not in ("root", "sandbox", "localhost")),
        "hidden.msgpack", "hidden-case", "guest_", "sandbox/", "grading", "apptainer exec",
    ]  # fmt: skip
    words = [word for word in words if len(word) > 3 and word != "/root"]
    return [MARKER, MARKER[::-1], *(word.encode() for word in words)]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    write_hidden(tmp_path / "tasks", REVERSE)
    return tmp_path / "tasks"


async def test_a_failed_build_tells_nothing(tasks: Path) -> None:
    async with one_pool() as pool:
        known = secrets(pool.image, tasks)
        cleaner = Cleaner.of_host(paths=[pool.image, tasks, cache_dir()])
        for name, dump in DUMPS.items():
            hidden = msgspec.structs.replace(REVERSE, build=b"{ " + dump + b"\n} 1>&2\nexit 3\n")
            result = await grade(pool, hidden, (File(path="main.py", data=SOLUTION),), cleaner=cleaner)
            assert result.compile_status == "failed" and result.passed == 0
            assert 0 < len(result.compile_stderr) <= COMPILE_STDERR_BYTES
            told = msgspec.msgpack.encode(result)
            assert [word for word in known if word in told] == [], (name, result.compile_stderr)


async def test_an_agent_is_told_nothing(tmp_path: Path, tasks: Path) -> None:
    async with services(tmp_path / "audit", mode="off") as shared:
        known = secrets(shared.agents.image, tasks)
        session = Session(
            OpenSession(request_id="o", episode="e1", suite="small", task="reverse", max_tests=1), REVERSE, shared
        )
        await session.open()
        for step, (name, dump) in enumerate(DUMPS.items()):
            submit = Submit(request_id=f"r{step}", episode="e1", step=step, action=run(dump))
            observation = (await session.submit(submit)).observation
            assert len(observation.stdout) <= STREAM_BYTES and len(observation.stderr) <= STREAM_BYTES
            told = msgspec.msgpack.encode(observation)
            assert [word for word in known if word in told] == [], (name, observation)
        await session.close("test")


async def test_what_a_case_prints_is_told_to_nobody(tasks: Path) -> None:
    """Of the cases only the count goes out: a submission that prints its input could hand it to the agent otherwise."""
    said: list[CommandResult | None] = []
    async with one_pool() as pool:
        source = b"import sys\ntext = sys.stdin.read()\nsys.stderr.write(text)\nprint(text)\nraise SystemExit(text)\n"
        result = await grade(
            pool,
            REVERSE,
            (File(path="main.py", data=source),),
            on_case=lambda case, outcome, passed: said.append(outcome),
        )
    assert all(outcome is not None and MARKER[::-1] in outcome.stderr for outcome in said)
    assert msgspec.to_builtins(result) == {"compile_status": "none", "total": 4}
