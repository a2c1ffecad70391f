"""The normal path of a sandbox: commands, bytes, files, cases, cells."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.sandbox import (
    CellRefused,
    CellSpec,
    CommandResult,
    File,
    OracleCall,
    Sandbox,
    SandboxLost,
    WorkspaceError,
)
from tests.sandbox.guests import with_another_guest

pytestmark = pytest.mark.apptainer


async def test_a_command_reports_how_it_ended(sandbox: Sandbox) -> None:
    ok = await sandbox.run(b"echo out; echo err >&2")
    assert (ok.status, ok.exit_status, ok.signal, ok.stdout, ok.stderr) == ("ok", 0, None, b"out\n", b"err\n")
    assert ok.wall_s > 0
    failed = await sandbox.run(b"exit 7")
    assert (failed.status, failed.exit_status, failed.signal) == ("nonzero", 7, None)
    killed = await sandbox.run(b"kill -SEGV $$")
    assert (killed.status, killed.exit_status, killed.signal) == ("killed", None, 11)


async def test_words_in_stderr_decide_nothing(sandbox: Sandbox) -> None:
    result = await sandbox.run(b"echo 'fatal: no space left on device, out of memory, timeout' >&2; exit 1")
    assert result.status == "nonzero"


async def test_the_second_command_sees_the_workspace_of_the_first(sandbox: Sandbox) -> None:
    await sandbox.run(b"echo 'int main(){return 3;}' > m.c; gcc -o m m.c")
    assert (await sandbox.run(argv=["./m"])).exit_status == 3


async def test_any_bytes_pass_in_and_out(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 1000
    result = await sandbox.run(b"cat; cat >&2 <&0", stdin=data)
    assert result.stdout == data
    assert (await sandbox.run(b"printf '\\377\\000\\xfe'")).stdout == b"\xff\x00\xfe"
    assert (await sandbox.run("printf 'ä'; printf '".encode() + b"\xff'")).stdout == "ä".encode() + b"\xff"


async def test_input_larger_than_any_pipe_and_a_command_that_ignores_it(sandbox: Sandbox) -> None:
    data = os.urandom(20 << 20)
    assert (await sandbox.run(b"wc -c", stdin=data)).stdout.strip() == str(len(data)).encode()
    assert (await sandbox.run(b"exec <&-; echo done", stdin=data)).stdout == b"done\n"


async def test_output_beyond_the_limit_is_counted_and_dropped(sandbox: Sandbox) -> None:
    limits = Limits(output_bytes=1000)
    result = await sandbox.run(b"head -c 5000000 /dev/zero; echo short >&2", limits=limits)
    assert (result.status, result.exit_status) == ("output_truncated", 0)
    assert (result.stdout, result.stdout_truncated) == (b"\0" * 1000, True)
    assert (result.stderr, result.stderr_truncated) == (b"short\n", False)
    assert (await sandbox.run(b"head -c 5000000 /dev/zero; exit 3", limits=limits)).status == "nonzero"
    assert (await sandbox.run(b"head -c 1000 /dev/zero", limits=limits)).status == "ok"


@pytest.mark.parametrize("size", [100, 119_990, 300_000, 3_900_000])
async def test_scripts_of_any_size(sandbox: Sandbox, size: int) -> None:
    script = b"x='" + b"a" * size + b"'; echo ${#x}; nosuchprogram"
    result = await sandbox.run(script)
    assert (result.stdout, result.exit_status) == (b"%d\n" % size, 127)
    assert result.stderr == b"bash: line 1: nosuchprogram: command not found\n"


async def test_programs_that_cannot_be_started(sandbox: Sandbox) -> None:
    missing = await sandbox.run(argv=["./missing"])
    assert (missing.status, missing.exit_status) == ("nonzero", 127)
    assert missing.stderr == b"./missing: No such file or directory\n"
    await sandbox.write("data", b"x")
    assert (await sandbox.run(argv=["./data"])).exit_status == 126
    assert (await sandbox.run(argv=["true"], cwd="/work/gone")).status == "nonzero"
    for argv in (["echo", "a\0b"], ["echo", "\ud800"], ["echo", "x" * (1 << 20)], ["no\0such"]):
        result = await sandbox.run(argv=argv)
        assert (result.status, result.exit_status) == ("nonzero", 126)
    assert (await sandbox.run(b"true")).status == "ok"


async def test_environment_and_folder(sandbox: Sandbox) -> None:
    result = await sandbox.run(b"pwd; echo $NAME; env", env={"NAME": "a b\nc"}, cwd="/tmp")
    assert result.stdout.startswith(b"/tmp\na b c\n")
    names = {line.split(b"=")[0] for line in result.stdout.splitlines()}
    assert not any(name.startswith((b"APPTAINER", b"SINGULARITY", b"SLURM")) for name in names)


async def test_write_read_pack(sandbox: Sandbox) -> None:
    assert (await sandbox.write("a/b/c.txt", b"\0\xff", 0o755)).status == "ok"
    assert await sandbox.read("a/b/c.txt", 2) == b"\0\xff"
    assert (await sandbox.run(b"stat -c %a a/b/c.txt; rm -r a; mkdir 'x y'; echo 1 > 'x y/\xff\n'")).stdout == b"755\n"
    files = await sandbox.pack(max_bytes=100, max_files=5)
    assert [(os.fsencode(f.path), f.data) for f in files] == [(b"x y/\xff\n", b"1\n")]
    with pytest.raises(WorkspaceError, match="larger"):
        await sandbox.read(files[0].path, 1)
    with pytest.raises(WorkspaceError, match="No such file"):
        await sandbox.read("missing", 1)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", ".", "a//b", "a\0b", "\ud800"])
async def test_paths_that_leave_the_workspace_are_refused(sandbox: Sandbox, path: str) -> None:
    assert (await sandbox.write(path, b"x")).status == "nonzero"
    with pytest.raises(WorkspaceError):
        await sandbox.read(path, 10)
    assert (await sandbox.run(b"true")).status == "ok"


async def test_links_fifos_and_folders_are_never_followed(sandbox: Sandbox) -> None:
    await sandbox.run(
        b"ln -s /etc etc; ln -s /etc/passwd p; mkfifo f; mkdir d; ln -s ../p d/q; echo ok > real; ln real d/hard;"
        b"ln -s loop loop; touch secret; chmod 000 secret"
    )
    assert (await sandbox.write("etc/x", b"x")).status == "nonzero"
    assert (await sandbox.write("d", b"x")).status == "nonzero"
    for path in ("p", "f", "etc/passwd", "d/q", "loop", "d"):
        with pytest.raises(WorkspaceError):
            await sandbox.read(path, 10000)
    files = await sandbox.pack(max_bytes=1000, max_files=100)
    assert sorted(f.path for f in files) == ["d/hard", "real", "secret"]
    # a link in the way of a file is replaced, what it points to stays
    assert (await sandbox.write("p", b"mine")).status == "ok"
    assert await sandbox.read("p", 10) == b"mine"
    assert b"agent" in (await sandbox.run(b"cat /etc/passwd")).stdout


async def test_pack_is_bounded(sandbox: Sandbox) -> None:
    await sandbox.run(b"for i in 1 2 3 4; do head -c 1000 /dev/zero > $i; done")
    with pytest.raises(WorkspaceError, match="files"):
        await sandbox.pack(max_bytes=100000, max_files=3)
    with pytest.raises(WorkspaceError, match="bytes"):
        await sandbox.pack(max_bytes=3999, max_files=10)
    assert len(await sandbox.pack(max_bytes=4000, max_files=4)) == 4
    await sandbox.run(b"rm *; for i in $(seq 200); do mkdir d && cd d; done; touch x")
    with pytest.raises(WorkspaceError, match="deeper"):
        await sandbox.pack(max_bytes=4000, max_files=4)


async def test_a_fresh_cell_sees_nothing_of_the_one_before(sandbox: Sandbox) -> None:
    places = b"/work /tmp /var/tmp /dev/shm /case"
    await sandbox.run(b"for d in " + places + b"; do touch $d/left; done; (setsid sleep 1000 &); ipcmk -M 1000 -S 1")
    await sandbox.open(CellSpec(), Limits())
    found = await sandbox.run(b"find " + places + b" -name left; ps -e | grep sleep; ipcs -m -s | grep 0x")
    assert found.stdout == b""
    assert sandbox.cells == 2


async def test_nothing_but_the_cells_own_folders_can_be_written(sandbox: Sandbox) -> None:
    script = b"for d in / /dev /etc /run /sys /usr/bin /eval /proc; do touch $d/x && echo $d; done"
    assert (await sandbox.run(script)).stdout == b""
    script = b"""for d in $(awk '{print $5}' /proc/self/mountinfo); do
        [ -d $d ] && (echo x > $d/probe) 2>/dev/null && echo $d; done"""
    writable = set((await sandbox.run(script)).stdout.decode().split())
    assert writable == {"/work", "/tmp", "/var/tmp", "/dev/shm", "/case"}


async def test_decoys_are_there_and_read_only(sandbox: Sandbox) -> None:
    files = (
        File("/eval/main.py", b"print(1)\n"),
        File("/eval/deep/er/x", b"2"),
        File("/test/hidden/case", b"3"),
        File("/reference/program", b"#!/bin/bash\necho ran\n", 0o755),
        File("/work/given/start.txt", b"4"),
    )
    await sandbox.open(CellSpec(files=files), Limits())
    script = b"cat /eval/main.py /eval/deep/er/x /test/hidden/case given/start.txt; /reference/program"
    assert (await sandbox.run(script)).stdout == b"print(1)\n234ran\n"
    assert (await sandbox.run(b"rm /eval/main.py || chmod 777 /eval || touch /reference/x")).status == "nonzero"
    assert (await sandbox.run(b"echo 5 > given/start.txt")).status == "ok"


async def test_a_decoy_where_the_image_has_something_is_refused(sandbox: Sandbox) -> None:
    for path in ("/usr/lib/decoy", "/nowhere/decoy", "relative", "/eval/../etc/x"):
        with pytest.raises(CellRefused):
            await sandbox.open(CellSpec(files=(File(path, b""),)), Limits())
    await sandbox.open(CellSpec(), Limits())
    assert (await sandbox.run(b"true")).status == "ok"


async def test_masked_programs_do_not_exist(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(masked=("/usr/bin/wc", "/bin/sort", "/usr/bin/nosuch", "/usr/bin/awk")), Limits())
    result = await sandbox.run(
        b"wc; /usr/bin/wc; ls /usr/bin/wc /usr/bin/sort; command -v wc sort; type -a awk; which wc"
    )
    assert result.stdout == b""
    assert b"bash: line 1: wc: command not found" in result.stderr
    assert b"ls: cannot access '/usr/bin/wc': No such file or directory" in result.stderr
    assert (await sandbox.run(b"find / -name wc -o -name sort 2>/dev/null | grep -v /proc/")).stdout == b""
    assert (
        await sandbox.run(b"cat /proc/self/mountinfo | grep -c whiteout; echo a | grep a && ls / >/dev/null")
    ).status == "ok"
    await sandbox.open(CellSpec(), Limits())
    assert (await sandbox.run(b"echo | wc -l")).stdout == b"1\n"


async def test_masks_where_the_kernel_refuses_overlays(
    apptainer: Apptainer, base_image: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel before 5.11 does: the file stays visible, and is of no use."""
    with_another_guest(monkeypatch, 'folder, "overlay"', 'folder, "nosuchfs"')
    started = await Sandbox.start(apptainer, base_image, isolation)
    try:
        await started.open(CellSpec(masked=("/usr/bin/wc", "/usr/bin/awk")), Limits())
        assert (await started.run(b"cat /usr/bin/wc || cp /usr/bin/wc . || wc || chmod 755 /usr/bin/wc")).stdout == b""
        assert (await started.run(b"ls -l /usr/bin/wc; echo | sort")).stdout.startswith(b"---------- 1 agent agent 0 ")
    finally:
        await started.kill()


async def test_files_that_do_not_fit_are_not_our_failure(sandbox: Sandbox) -> None:
    files = (File("/work/a", b"x" * (2 << 20)),)
    with pytest.raises(WorkspaceError, match="No space left"):
        await sandbox.open(CellSpec(files=files), Limits(workspace_bytes=1 << 20))
    with pytest.raises(WorkspaceError):
        await sandbox.open(CellSpec(files=(File("/work/../etc/x", b""),)), Limits())
    await sandbox.open(CellSpec(files=files), Limits())
    assert (await sandbox.run(b"stat -c %s a")).stdout == b"2097152\n"


async def test_cases_run_in_clean_folders_against_a_sealed_workspace(sandbox: Sandbox) -> None:
    await sandbox.write(
        "p.sh", b"cat; cat x; pwd; touch left /tmp/left /dev/shm/left; ipcmk -Q >/dev/null; exit 5", 0o755
    )
    await sandbox.seal()
    assert b"Read-only" in (await sandbox.run(b"touch new")).stderr
    argv = ["bash", "/work/p.sh"]
    for name in ("1", "2"):
        case = await sandbox.run_case(
            argv, stdin=b"in ", files=(File("x", b"file "), File("d/y", b"")), limits=Limits()
        )
        assert (case.status, case.exit_status) == ("nonzero", 5), name
        assert case.stdout.startswith(b"in file /case/")
    listing = await sandbox.run_case(["ls", "-A", ".", "/tmp", "/dev/shm"], stdin=b"", files=(), limits=Limits())
    assert listing.stdout == b".:\n\n/dev/shm:\n\n/tmp:\n"
    assert b"0x" not in (await sandbox.run_case(["ipcs", "-q"], stdin=b"", files=(), limits=Limits())).stdout


async def test_files_of_a_case_cannot_leave_its_folder(sandbox: Sandbox) -> None:
    for path in ("../x", "/work/x", "a/../../x"):
        result = await sandbox.run_case(["true"], stdin=b"", files=(File(path, b"x"),), limits=Limits())
        assert result.status == "nonzero"
    assert (await sandbox.run(b"ls -A /work /case")).stdout == b"/case:\n\n/work:\n"


async def test_the_oracle_asks_the_host(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(oracle=True), Limits())
    calls: list[OracleCall] = []

    async def reference(call: OracleCall) -> CommandResult:
        calls.append(call)
        return CommandResult(status="nonzero", exit_status=4, stdout=b"\xff" * 200_000, stderr=b"err")

    await sandbox.run(b"mkdir d; echo one > a; echo two > d/b; ln -s a l")
    script = b"echo in | reference -x a d/b l /etc/passwd ../x n 'q r' | wc -c; echo ${PIPESTATUS[1]}"
    result = await sandbox.run(script, on_oracle=reference)
    assert (result.stdout, result.stderr) == (b"200000\n4\n", b"err")
    assert calls[0].argv == ("-x", "a", "d/b", "l", "/etc/passwd", "../x", "n", "q r")
    assert calls[0].stdin == b"in\n"
    assert [(f.path, f.data) for f in calls[0].files] == [("a", b"one\n"), ("d/b", b"two\n"), ("l", b"one\n")]
    result = await sandbox.run(b"for i in 1 2 3 4 5; do (reference $i | wc -c) & done; wait", on_oracle=reference)
    assert result.stdout == b"200000\n" * 5
    assert len(calls) == 6
    refused = await sandbox.run(b"reference")
    assert (refused.exit_status, refused.stderr) == (125, b"reference: call budget exhausted\n")


async def test_the_oracles_time_is_not_the_commands(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(oracle=True), Limits(wall_s=1))

    async def slow(call: OracleCall) -> CommandResult:
        await asyncio.sleep(1.5)
        return CommandResult(status="ok", exit_status=0, stdout=b"slow")

    assert (await sandbox.run(b"reference", on_oracle=slow)).stdout == b"slow"


async def test_a_command_that_ends_while_the_oracle_is_busy(sandbox: Sandbox) -> None:
    await sandbox.open(CellSpec(oracle=True), Limits())
    asked = asyncio.Event()

    async def late(call: OracleCall) -> CommandResult:
        asked.set()
        await asyncio.sleep(0.5)
        return CommandResult(status="ok", exit_status=0, stdout=b"x" * 3_000_000)

    assert (await sandbox.run(b"reference & sleep 0.3; echo end", on_oracle=late)).stdout == b"end\n"
    assert asked.is_set()
    assert (await sandbox.run(b"reference | wc -c", on_oracle=late)).stdout == b"3000000\n"


async def test_without_an_oracle_there_is_no_reference(sandbox: Sandbox) -> None:
    assert (await sandbox.run(b"reference")).exit_status == 127


async def test_loopback_needs_a_network_namespace_alone(sandbox: Sandbox) -> None:
    with pytest.raises(CellRefused, match="loopback"):
        await sandbox.open(CellSpec(loopback=True), Limits())


async def test_a_cancelled_command_ends_the_sandbox(sandbox: Sandbox) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(sandbox.run(b"sleep 100"), 0.5)
    assert not sandbox.alive
    with pytest.raises(SandboxLost):
        await sandbox.run(b"true")


async def test_requests_wait_for_each_other(sandbox: Sandbox) -> None:
    results = await asyncio.gather(*(sandbox.run(b"echo %d" % i) for i in range(10)))
    assert [r.stdout for r in results] == [b"%d\n" % i for i in range(10)]


async def test_without_a_cell_nothing_runs(sandbox: Sandbox) -> None:
    await sandbox.close_cell()
    await sandbox.ping()
    with pytest.raises(SandboxLost):
        await sandbox.run(b"true")
