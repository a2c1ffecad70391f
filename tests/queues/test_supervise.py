"""Nothing that the supervised command starts outlives the one who asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import queues.supervise

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for session in (False, True):  # a child, and one that leaves the session and whose parent dies
    if os.fork() == 0:
        if session:
            os.setsid()
            if os.fork():
                os._exit(0)
        os.write(1, b"pid %d\\n" % os.getpid())
        time.sleep(1000)
os.write(1, b"pid %d\\n" % os.getpid())
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A copy of the supervisor that does not wait ten seconds for processes which ignore SIGTERM."""
    source = Path(queues.supervise.__file__).read_text()
    assert "GRACE_S = 10.0" in source
    (tmp_path / "supervise.py").write_text(source.replace("GRACE_S = 10.0", "GRACE_S = 0.2"))


def command(tmp_path: Path, *program: str, limit: int = 1 << 20) -> list[str]:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    return [
        sys.executable,
        "-I",
        str(tmp_path / "supervise.py"),
        str(tmp_path / "log"),
        str(limit),
        str(folder),
        *program,
    ]


def announced(tmp_path: Path, count: int) -> Iterator[int]:
    """The processes that `STUBBORN` has named in the log, once there are `count`."""
    while True:
        log = tmp_path / "log"
        pids = [int(line.split()[1]) for line in log.read_text().splitlines()] if log.exists() else []
        if len(pids) == count:
            yield from pids
            return
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_gone(pids: list[int]) -> None:
    while any(map(alive, pids)):
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_all_is_ended(tmp_path: Path, how: str) -> None:
    process = subprocess.Popen(command(tmp_path, sys.executable, "-c", STUBBORN), stdin=subprocess.PIPE)
    pids = list(announced(tmp_path, 3))
    assert all(map(alive, pids))
    assert process.stdin is not None
    process.stdin.close() if how == "closed" else process.terminate()
    assert process.wait() == 128 + signal.SIGKILL
    assert not any(map(alive, pids))
    assert not (tmp_path / "folder").exists()


def test_all_is_ended_when_the_asker_is_killed(tmp_path: Path) -> None:
    asker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()",
            *command(tmp_path, sys.executable, "-c", STUBBORN),
        ]
    )
    pids = list(announced(tmp_path, 3))
    asker.kill()
    asker.wait()
    wait_gone(pids)


def test_what_a_dead_command_left_behind_is_ended(tmp_path: Path) -> None:
    leaves = STUBBORN.replace(
        'os.write(1, b"pid %d\\n" % os.getpid())\ntime.sleep(1000)\n', "time.sleep(1); os._exit(3)"
    )
    process = subprocess.Popen(command(tmp_path, sys.executable, "-c", leaves), stdin=subprocess.PIPE)
    pids = list(announced(tmp_path, 2))
    assert process.wait() == 3
    assert not any(map(alive, pids))
    assert (tmp_path / "folder/file").exists(), "it is left to the asker"


def test_the_command_gets_sigterm_first_and_its_status_is_passed_on(tmp_path: Path) -> None:
    polite = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"print('pid', {os.getpid()}, flush=True)\ntime.sleep(1000)"
    )
    process = subprocess.Popen(command(tmp_path, sys.executable, "-c", polite), stdin=subprocess.PIPE)
    list(announced(tmp_path, 1))
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 7


def test_the_log_is_bounded_and_ends_with_the_last_words(tmp_path: Path) -> None:
    loud = "import sys\nfor i in range(20000): print(i)\nprint('the end', file=sys.stderr)"
    process = subprocess.Popen(command(tmp_path, sys.executable, "-c", loud, limit=10_000), stdin=subprocess.PIPE)
    assert process.wait() == 0
    assert (tmp_path / "log").read_text().endswith("the end\n")
    assert sum(path.stat().st_size for path in tmp_path.glob("log*")) <= 20_000
