"""Statuses follow facts: what only looks like another ending, in words or in numbers, does not get its status."""

from __future__ import annotations

import pytest

from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox, SandboxLost

pytestmark = pytest.mark.apptainer

MIB = 1 << 20
SMALL = Limits(wall_s=120, cpu_s=60, workspace_bytes=4 * MIB, processes=20, output_bytes=1000, memory_bytes=256 * MIB)

CASES = {
    "words of other failures, and success": (
        b"echo 'fatal: Killed. out of memory: No space left on device. timed out' >&2",
        ("ok", 0, None),
    ),
    "words of other failures, and a failure": (
        b"echo 'fatal: Cannot allocate memory' >&2; exit 128",
        ("nonzero", 128, None),
    ),
    "the exit status of timeout(1)": (b"exit 124", ("nonzero", 124, None)),
    "timeout(1) itself": (b"timeout 0.1 sleep 10", ("nonzero", 124, None)),
    "the exit status after SIGKILL": (b"exit 137", ("nonzero", 137, None)),
    "a child that was killed": (b"sleep 100 & kill -9 $!; wait; exit 0", ("ok", 0, None)),
    "a child whose end is passed on": (b"bash -c 'kill -9 $$'; exit $?", ("nonzero", 137, None)),
    "its own SIGKILL": (b"kill -9 $$", ("killed", None, 9)),
    "its own SIGTERM": (b"kill -TERM $$; sleep 100", ("killed", None, 15)),
    "too much output, and success": (b"head -c 5000 /dev/zero", ("output_truncated", 0, None)),
    "too much output, and a failure": (b"head -c 5000 /dev/zero; exit 3", ("nonzero", 3, None)),
    "a full disk, and success": (b"head -c 100000000 /dev/zero > x 2>/dev/null; rm x; true", ("ok", 0, None)),
    "a full disk, and a failure": (b"head -c 100000000 /dev/zero > x", ("disk_full", 1, None)),
    "many processes, below the limit": (
        b"for i in $(seq 8); do sleep 0.5 & done; sleep 0.2; exit 5",
        ("nonzero", 5, None),
    ),
    "the limit of processes, and success": (
        b"python3 -c 'import os, time\ntry:\n for i in range(99):\n  if not os.fork(): time.sleep(100)\n"
        b"except OSError: pass'",
        ("ok", 0, None),
    ),
    "the limit of processes, and a failure": (
        b"python3 -c 'import os, time\nfor i in range(99):\n if not os.fork(): time.sleep(100)'",
        ("too_many_processes", 1, None),
    ),
    "much memory, and a failure for another reason": (
        b"python3 -c 'bytearray(120<<20); raise SystemExit(4)'",
        ("nonzero", 4, None),
    ),
    "more memory at once than there may be": (b"python3 -c 'bytearray(1<<33)'", ("nonzero", 1, None)),
    "a program that does not exist": (b"exec /none", ("nonzero", 127, None)),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_command_gets_the_status_of_how_it_ended(sandbox: Sandbox, name: str) -> None:
    script, expected = CASES[name]
    await sandbox.open(CellSpec(), SMALL)
    result = await sandbox.run(script)
    assert (result.status, result.exit_status, result.signal) == expected, result.stderr
    assert (await sandbox.run(b"exit 3")).status == "nonzero", "and the next one is judged by itself"


async def test_a_failure_on_a_full_disk_with_very_deep_folders_is_no_lost_sandbox(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(), SMALL)
    deep = b"import os\nfor _ in range(1900): os.mkdir('d'); os.chdir('d')"
    assert (await sandbox.run(argv=["python3", "-c", deep.decode()])).status == "ok"
    assert (await sandbox.run(b"head -c 9M /dev/zero > fill")).status == "disk_full"
    for script, status in ((b"false", "nonzero"), (b"echo x > new", "disk_full"), (b"true", "ok")):
        assert (await sandbox.run(script)).status == status, script


async def test_a_program_that_is_not_there_is_no_lost_sandbox_whatever_its_name(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(), SMALL)
    for name in ("setup", "setup.sh", "none"):
        result = await sandbox.run(argv=[name])
        assert (result.status, result.exit_status) == ("nonzero", 127), name
        assert result.stderr == f"{name}: No such file or directory\n".encode()


async def test_whatever_a_command_does_to_its_cell_only_a_dead_container_is_lost(sandbox: Sandbox) -> None:
    for script in (b"kill -9 -1", b"kill -9 1; exit 1", b"exec >&- 2>&-; exit 2"):
        assert (await sandbox.run(script)).status in ("nonzero", "killed")
    assert sandbox.alive
    await sandbox._container.kill()
    with pytest.raises(SandboxLost):
        await sandbox.run(b"true")
