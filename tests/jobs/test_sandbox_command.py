"""`ectype sandbox`: the agent's sandbox for people. Exit status, JSON, files, limits, and that nothing stays."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from jobs.sandbox_command import files_of, parse_limits
from sandbox.limits import Limits, LimitsError
from sandbox.sandbox import CommandResult
from tests.sandbox.processes import alive, command_line, tree, until

ROOT = Path(__file__).parents[2]


def ectype(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "jobs.cli", *arguments], cwd=ROOT, input=stdin, capture_output=True)


def test_limits_are_read() -> None:
    assert parse_limits(()) == Limits()
    words = ["wall_s=2.5,processes=9", "memory_bytes=512M", "file_bytes=4096"]
    assert parse_limits(words) == Limits(wall_s=2.5, processes=9, memory_bytes=512 << 20, file_bytes=4096)
    for word, said in {
        "wal_s=1": "did you mean `wall_s`",
        "speed=1": "choose among: wall_s",
        "wall_s": "no number: ``",
        "wall_s=1M": "no number",
        "processes=1.5": "no number",
        "memory_bytes=M": "such as 64M",
        "memory_bytes=1K": "out of range",
        "wall_s=nan": "out of range",
    }.items():
        with pytest.raises(LimitsError, match=re.escape(said)):
            parse_limits([word])


def test_only_regular_files_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "x").write_bytes(b"\xff")
    (folder / "deep" / "er" / "x").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    os.mkfifo(folder / "fifo")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n")).touch()
    found = {file.path: (file.data, file.mode) for file in files_of(folder, Limits())}
    assert set(found) == {"/work/deep/er/x", "/work/\udcff\n"}
    assert found["/work/deep/er/x"] == (b"\xff", 0o755)


@pytest.mark.apptainer
class TestCommands:
    def test_the_exit_status_and_the_bytes_are_the_commands(self) -> None:
        done = ectype("sandbox", "run", "--", "bash", "-c", "printf 'out\\377'; printf 'err\\376' >&2; exit 42")
        assert (done.returncode, done.stdout, done.stderr) == (42, b"out\xff", b"err\xfe")

    @pytest.mark.parametrize(
        ("options", "script", "status", "said"),
        [
            ((), "kill -SEGV $$", 139, b"killed, signal 11"),
            (("--limits", "wall_s=0.5"), "echo part; sleep 60", 124, b"timeout"),
            (("--limits", "cpu_s=0.2"), "echo part; while :; do :; done", 124, b"timeout"),
            (("--limits", "output_bytes=4"), "echo part; yes | head", 0, b"output_truncated, exit status 0, stdout tr"),
        ],
    )
    def test_how_it_ended_is_said(self, options: Sequence[str], script: str, status: int, said: bytes) -> None:
        done = ectype("sandbox", "run", *options, "--", "bash", "-c", script)
        assert (done.returncode, done.stdout[:4]) == (status, b"part" if options else b"")
        assert b"ectype: " + said in done.stderr

    def test_json_files_and_input(self, tmp_path: Path) -> None:
        (tmp_path / "main.c").write_text(
            '#include <stdio.h>\nint main() { return printf("%c", getchar() + 128) != 1; }'
        )
        build = "gcc -o main main.c && ./main"
        options = ("--json", "--files", str(tmp_path), "--stdin", "-", "--limits", "processes=64")
        done = ectype("sandbox", "run", *options, "--", "sh", "-c", build, stdin=b"a")
        assert (done.returncode, done.stderr) == (0, b"")
        record = json.loads(done.stdout)
        assert set(record) == {*CommandResult.__struct_fields__, "limits", "isolation"}
        assert (record["status"], record["exit_status"], record["signal"]) == ("ok", 0, None)
        assert base64.b64decode(record["stdout"]["base64"]) == b"\xe1"
        assert record["stderr"] == {"utf8": ""}
        assert msgspec.convert(record["limits"], Limits) == Limits(processes=64)
        assert [path.name for path in tmp_path.iterdir()] == ["main.c"]

    def test_it_is_the_agents_sandbox(self) -> None:
        script = "id -u; pwd; echo $HOME; ls /sys/class/net 2>/dev/null; command -v reference; ps -e -o comm=; true"
        done = ectype("sandbox", "run", "--", "bash", "-c", script)
        assert done.stdout == b"1000\n/work\n/work\nbash\nps\n"

    def test_mistakes_are_explained(self, tmp_path: Path) -> None:
        done = ectype("sandbox", "run", "--limits", "wall=1", "--", "true")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"remedy: did you mean `wall_s`?" in done.stderr
        (tmp_path / "large").write_bytes(b"x" * 100_000)
        done = ectype("sandbox", "run", "--limits", "workspace_bytes=65536", "--files", str(tmp_path), "--", "true")
        assert done.returncode == 2
        assert b"do not fit" in done.stderr and b"remedy:" in done.stderr
        done = ectype("sandbox", "run", "--stdin", str(tmp_path / "gone"), "--", "true")
        assert done.returncode == 2
        assert b"No such file" in done.stderr
        assert ectype("sandbox", "run").returncode == 2

    def test_the_shell_keeps_files_and_nothing_else(self) -> None:
        script = (
            b"echo one > f; cd /tmp; x=1\npwd; cat f; echo $x; echo \xff\nfor i in 1 2; do \\\necho $i; done\nexit 3\n"
        )
        done = ectype("sandbox", "shell", stdin=script)
        assert done.stdout == b"/work\none\n\n\xff\n1\n2\n"
        assert (done.returncode, done.stderr) == (3, b"[nonzero, exit status 3]\n")
        assert ectype("sandbox", "shell", stdin=b"false\nexit\necho never\n").stdout == b""

    def test_packages_of_a_site_are_seen(self) -> None:
        with tempfile.TemporaryDirectory(prefix="ectype-packages-", dir="/tmp") as name:
            folder = Path(name)
            folder.chmod(0o755)
            (folder / "modules").mkdir()
            done = ectype("sandbox", "run", "--packages", name, "--", "sh", "-c", "ls /srv; echo $GOPROXY")
            assert (done.returncode, done.stdout) == (0, b"modules\nfile:///srv/modules\n"), done.stderr
            (folder / "modules").rmdir()
            refused = ectype("sandbox", "run", "--packages", name, "--", "true")
            assert refused.returncode == 2 and b"nothing in it that can be used" in refused.stderr

    async def test_the_shell_at_a_terminal(self) -> None:
        master, slave = pty.openpty()
        shell = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jobs.cli", "sandbox", "shell", cwd=ROOT, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        os.write(master, b"echo $((20 + 3))\nexit\n")
        assert await shell.wait() == 0
        shown = os.read(master, 65536)
        os.close(master)
        assert b"A fresh sandbox" in shown and b"sandbox$ " in shown and b"23\r\n" in shown

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
    @pytest.mark.parametrize("command", ["run", "shell"])
    async def test_an_interrupt_leaves_nothing(self, command: str, number: signal.Signals) -> None:
        arguments = ["run", "--", "sleep", "3599"] if command == "run" else ["shell"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jobs.cli", "sandbox", *arguments,
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdin is not None and process.stderr is not None
            if command == "shell":
                process.stdin.write(b"exec sleep 3599\n")
                await process.stdin.drain()
            await until(lambda: any(command_line(p).startswith(b"sleep\x003599") for p in tree(process.pid)))
            pids = tree(process.pid)
            process.send_signal(number)
            assert await process.wait() == (130 if number == signal.SIGINT else -number)
            if number == signal.SIGINT:
                assert b"error" not in (said := await process.stderr.read()) and b"interrupted" in said
            await until(lambda: alive(pids) == [])
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
