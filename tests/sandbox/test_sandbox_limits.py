"""Every limit holds, is reported by its own status, and leaves a sandbox that works."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sandbox.limits import Limits, LimitsError
from sandbox.sandbox import CellSpec, Sandbox
from tests.sandbox.processes import pythons, tree

MIB = 1 << 20


def _place_in_the_order(process: Path) -> str:
    return (process / "oom_score_adj").read_text()


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(LimitsError, match="wall_s"):
        Limits(wall_s=0)
    with pytest.raises(LimitsError, match="memory_bytes"):
        Limits(memory_bytes=1)


@pytest.mark.apptainer
class TestLimits:
    @pytest.fixture(autouse=True)
    def _sandbox(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def works(self) -> None:
        assert (await self.sandbox.run(b"echo $((1+1))")).stdout == b"2\n"
        processes = await self.sandbox.run(b"ps -e -o comm=")
        assert sorted(processes.stdout.split()) == [b"bash", b"ps"] or processes.stdout.split() == [b"ps"]

    async def test_a_timeout_returns_what_there_was(self) -> None:
        started = time.monotonic()
        result = await self.sandbox.run(b"echo part; echo err >&2; sleep 100", limits=Limits(wall_s=0.5))
        assert (result.status, result.exit_status, result.signal) == ("timeout", None, None)
        assert (result.stdout, result.stderr) == (b"part\n", b"err\n")
        assert time.monotonic() - started < 10
        await self.works()

    @pytest.mark.parametrize(
        "script",
        [
            b"setsid sleep 1000 & sleep 0.1",
            b"nohup sleep 1000 >/dev/null 2>&1 & sleep 0.1",
            b"(setsid bash -c 'trap \"\" TERM INT HUP; sleep 1000' &)& sleep 0.1",
            b"python3 -c 'import os,time\nfor _ in 1,2:\n if os.fork(): os._exit(0)\n os.setsid()\ntime.sleep(1000)'",
            b"sleep 1000 & kill -STOP $!; sleep 0.1",
            b"(trap '' TERM; while :; do sleep 0.1; done) & sleep 0.1",
        ],
    )
    @pytest.mark.parametrize("ending", [b"", b"; sleep 1000"])
    async def test_nothing_survives_a_command(self, script: bytes, ending: bytes) -> None:
        result = await self.sandbox.run(script + ending, limits=Limits(wall_s=0.8 if ending else 20))
        assert result.status == ("timeout" if ending else "ok")
        await self.works()

    async def test_a_stopped_command_times_out(self) -> None:
        assert (await self.sandbox.run(b"kill -STOP $$", limits=Limits(wall_s=0.5))).status == "timeout"

    async def test_a_fast_signal_death_is_not_a_timeout(self) -> None:
        result = await self.sandbox.run(b"kill -9 $$", limits=Limits(wall_s=30))
        assert (result.status, result.signal) == ("killed", 9)

    async def test_cpu_time_of_one_and_of_many_processes(self) -> None:
        limits = Limits(cpu_s=1, wall_s=60)
        assert (await self.sandbox.run(b"while :; do :; done", limits=limits)).status == "timeout"
        result = await self.sandbox.run(b"for i in 1 2 3; do (while :; do :; done) & done; wait", limits=limits)
        assert result.status == "timeout"
        assert result.cpu_s < 10
        # processes that end before anybody looks count too
        result = await self.sandbox.run(
            b"while :; do (i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done); done", limits=limits
        )
        assert result.status == "timeout"

    async def test_memory_of_one_process(self) -> None:
        limits = Limits(memory_bytes=200 * MIB)
        hog = b"python3 -c 'x=[]\nwhile True: x.append(bytearray(1<<20))'"
        assert (await self.sandbox.run(hog, limits=limits)).status == "out_of_memory"
        # asking for too much at once is an ordinary failure of the program: nothing was used
        once = await self.sandbox.run(b"python3 -c 'bytearray(1<<40)'", limits=limits)
        assert (once.status, b"MemoryError" in once.stderr) == ("nonzero", True)
        await self.works()

    async def test_memory_of_many_processes_together(self) -> None:
        limits = Limits(memory_bytes=300 * MIB)
        hogs = b"for i in 1 2 3 4 5; do python3 -c 'x=bytearray(100<<20)\nimport time; time.sleep(100)' & done; wait"
        started = time.monotonic()
        assert (await self.sandbox.run(hogs, limits=limits)).status == "out_of_memory"
        assert time.monotonic() - started < 20
        await self.works()

    async def test_shared_memory_counts_once(self) -> None:
        limits = Limits(memory_bytes=300 * MIB)
        shared = b"""python3 -c '
import os, time
x = bytearray(150 << 20)
for _ in range(4):
    if not os.fork():
        time.sleep(0.5); os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break
'"""
        assert (await self.sandbox.run(shared, limits=limits)).status == "ok"

    async def test_shared_memory_of_processes_that_end_while_it_is_counted(self) -> None:
        shared = b"""
import os, time
x = bytearray(150 << 20)
for i in range(10):
    if not os.fork():
        time.sleep(0.1 + 0.01 * i); os._exit(0)
while True:
    try: os.wait()
    except ChildProcessError: break
"""
        for _ in range(3):
            result = await self.sandbox.run(
                argv=["python3", "-c", shared.decode()], limits=Limits(memory_bytes=300 * MIB)
            )
            assert result.status == "ok"

    async def test_idle_sockets_are_no_memory_as_long_as_they_fit(self) -> None:
        script = "import socket, time; s = [socket.socketpair() for _ in range(100)]; time.sleep(0.3)"
        for size, status in ((200, "ok"), (64, "out_of_memory")):  # 400 sockets may hold 83 MiB
            limits = Limits(memory_bytes=size * MIB, wall_s=10)
            result = await self.sandbox.run(argv=["python3", "-c", f"import os; os.fork(); {script}"], limits=limits)
            assert result.status == status

    async def test_memory_that_belongs_to_no_process_cannot_be_had(self) -> None:
        script = b"python3 -c 'import os; os.memfd_create(\"x\")'"
        assert b"Function not implemented" in (await self.sandbox.run(script)).stderr

    @pytest.mark.parametrize("folder", [b"/work", b"/tmp", b"/dev/shm"])
    async def test_a_full_disk(self, folder: bytes) -> None:
        await self.sandbox.open(CellSpec(), Limits(workspace_bytes=4 * MIB, workspace_inodes=64))
        full = await self.sandbox.run(b"head -c 100000000 /dev/zero > %s/x" % folder)
        assert full.status == "disk_full"
        await self.sandbox.run(b"rm %s/x" % folder)
        inodes = await self.sandbox.run(b"cd %s; for i in $(seq 100); do touch n$i || exit 1; done" % folder)
        assert inodes.status == "disk_full"
        assert (await self.sandbox.run(b"rm -f %s/*" % folder)).status == "ok"
        await self.works()

    async def test_an_ordinary_failure_on_a_disk_that_others_have_filled(self) -> None:
        await self.sandbox.open(CellSpec(), Limits(workspace_bytes=4 * MIB, workspace_inodes=64))
        assert (await self.sandbox.run(b"head -c 100000000 /dev/zero > full")).status == "disk_full"
        failed = await self.sandbox.run(b"ls /work /tmp; exit 3")
        assert (failed.status, failed.exit_status) == ("nonzero", 3)
        assert (await self.sandbox.run(b"ls none")).status == "nonzero"
        assert (await self.sandbox.run(b"echo $((1+1))")).status == "ok"
        for script in (b"echo more > new", b"echo more >> full", b"mkdir d && echo x > d/e"):
            assert (await self.sandbox.run(script)).status == "disk_full", script

    async def test_a_disk_that_a_command_filled_and_emptied_again(self) -> None:
        await self.sandbox.open(CellSpec(), Limits(workspace_bytes=4 * MIB))
        result = await self.sandbox.run(b"head -c 100000000 /dev/zero > full; sleep 0.5; rm full; exit 1")
        assert result.status == "disk_full"
        assert (await self.sandbox.run(b"false")).status == "nonzero"

    async def test_one_core_for_a_command_and_no_way_to_another(self) -> None:
        busy = b"nproc; for i in 1 2 3; do timeout 1 bash -c 'while :; do :; done' & done; wait"
        result = await self.sandbox.run(busy)
        assert result.stdout == b"1\n"
        assert 0 < result.cpu_s <= 1.15 * result.wall_s
        moved = await self.sandbox.run(b"python3 -c 'import os; os.sched_setaffinity(0, range(os.cpu_count()))'")
        assert b"PermissionError" in moved.stderr or os.cpu_count() == 1
        two = await self.sandbox.run(b"nproc", limits=Limits(cpus=2))
        assert two.stdout == b"%d\n" % min(2, len(os.sched_getaffinity(0)))

    async def test_no_command_chooses_cores(self) -> None:
        """Not its own, whether it is bound or not, and not the init's."""
        script = b"python3 -c 'import os, sys; os.sched_setaffinity(int(sys.argv[1]), range(os.cpu_count()))'"
        for limits in (Limits(cpus=1), Limits(cpus=4096)):
            for target in (b" 0", b" 1"):
                assert b"PermissionError" in (await self.sandbox.run(script + target, limits=limits)).stderr

    async def test_the_kernel_kills_a_command_before_the_init(self) -> None:
        init = Path(f"/proc/{pythons(tree(self.sandbox._container.pid))[1]}")
        before = _place_in_the_order(init)
        assert (await self.sandbox.run(b"cat /proc/self/oom_score_adj")).stdout == b"1000\n"
        assert _place_in_the_order(init) == before != "1000\n"

    async def test_what_a_command_has_used(self) -> None:
        idle = await self.sandbox.run(b"true")
        assert idle.cpu_s < 0.2 and idle.memory_bytes < 40 * MIB and idle.written_bytes < 1000
        burn = b"""
import time
x = bytearray(100 << 20)
while time.process_time() < 1:
    pass
"""
        await self.sandbox.write("burn.py", burn)
        used = await self.sandbox.run(b"python3 burn.py", limits=Limits(wall_s=300))
        assert used.status == "ok"
        assert 1.0 <= used.cpu_s < 2.5
        assert 100 * MIB <= used.memory_bytes < 160 * MIB
        # of a process that nobody in the cell waits for
        await self.sandbox.run(b"true")
        orphan = await self.sandbox.run(
            b"(setsid sh -c 'python3 burn.py; touch done' &); while [ ! -e done ]; do sleep 0.05; done",
            limits=Limits(wall_s=300),
        )
        assert orphan.cpu_s >= 1.0 and 100 * MIB <= orphan.memory_bytes < 160 * MIB
        together = b"""
import glob, os, time
x = bytearray(60 << 20)
open(f"there-{os.getpid()}", "w")
while len(glob.glob("there-*")) < 3: time.sleep(0.01)
time.sleep(1)
"""
        await self.sandbox.write("together.py", together)
        three = await self.sandbox.run(
            b"for i in 1 2 3; do python3 together.py & done; wait", limits=Limits(wall_s=300)
        )
        assert 180 * MIB <= three.memory_bytes < 260 * MIB

    async def test_what_a_command_has_read_and_written(self) -> None:
        script = b"head -c 20000000 /dev/zero > a; cat a > b; (cat b > /dev/null &) ; sleep 0.3"
        used = await self.sandbox.run(script)
        assert 60_000_000 <= used.written_bytes < 61_000_000, "to /dev/null as well"
        assert 60_000_000 <= used.read_bytes < 61_000_000
        loud = await self.sandbox.run(b"head -c 5000000 /dev/zero")
        assert 5_000_000 <= loud.written_bytes < 5_100_000, "what the cell's init reads is not the command's"
        assert loud.read_bytes < 5_100_000
        usage = self.sandbox.usage
        assert usage.commands == 2 and usage.written_bytes == used.written_bytes + loud.written_bytes

    async def test_writing_a_file_to_a_full_disk(self) -> None:
        await self.sandbox.open(CellSpec(), Limits(workspace_bytes=MIB))
        assert (await self.sandbox.write("x", b"x" * 2 * MIB)).status == "disk_full"
        assert (await self.sandbox.run(b"rm -f x")).status == "ok"
        assert (await self.sandbox.write("x", b"x" * 1000)).status == "ok"

    async def test_one_file_too_large(self) -> None:
        result = await self.sandbox.run(b"exec head -c 10000000 /dev/zero > x", limits=Limits(file_bytes=MIB))
        assert (result.status, result.signal) == ("disk_full", 25)

    async def test_too_many_processes(self) -> None:
        limits = Limits(processes=20, wall_s=10)
        script = b"python3 -c 'import os,time\nfor i in range(100):\n if not os.fork(): time.sleep(100)'"
        result = await self.sandbox.run(script, limits=limits)
        assert result.status == "too_many_processes"
        assert b"Resource temporarily unavailable" in result.stderr
        await self.works()

    async def test_a_fork_bomb(self) -> None:
        limits = Limits(processes=32, wall_s=2)
        result = await self.sandbox.run(b":(){ :|:& };:; wait; sleep 100", limits=limits)
        assert result.status in ("timeout", "too_many_processes")
        await self.works()

    async def test_open_files(self) -> None:
        script = b"python3 -c 'x=[open(\"/dev/null\") for _ in range(1000)]'"
        result = await self.sandbox.run(script, limits=Limits(open_files=64))
        assert (result.status, b"Too many open files" in result.stderr) == ("nonzero", True)
        few = Limits(open_files=16)
        assert (await self.sandbox.run(b"echo on", limits=few)).stdout == b"on\n"
        case = await self.sandbox.run_case(["true"], stdin=b"", files=(), limits=few, program="/usr/bin/true")
        assert (case.status, case.stderr) == ("ok", b""), "what the init has open leaves room for the program"

    async def test_terminals_that_all_of_the_host_share(self) -> None:
        script = b"python3 -c 'import os\nwhile True: print(os.open(\"/dev/ptmx\", 2), flush=True)'"
        result = await self.sandbox.run(script)
        assert 8 < len(result.stdout.split()) <= 64

    async def test_limits_cannot_be_raised(self) -> None:
        script = b"ulimit -v unlimited || ulimit -u 10000 || ulimit -n 10000 || ulimit -f unlimited || ulimit -t 1000"
        assert (await self.sandbox.run(script)).status == "nonzero"

    async def test_a_flood_on_both_streams_until_the_timeout(self) -> None:
        limits = Limits(wall_s=1.5, output_bytes=5000)
        result = await self.sandbox.run(b"yes >&2 & yes", limits=limits)
        assert (result.status, len(result.stdout), len(result.stderr)) == ("timeout", 5000, 5000)
        assert result.stdout_truncated and result.stderr_truncated
        await self.works()
