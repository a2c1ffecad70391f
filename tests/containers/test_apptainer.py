"""The client of the Apptainer command line: starting, talking, ending, and saying what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from containers.apptainer import Apptainer, ApptainerMissing, Bind, ImageBroken
from containers.isolation import Isolation


async def test_no_apptainer_is_said_with_the_remedy() -> None:
    with pytest.raises(ApptainerMissing, match="no-such-apptainer") as caught:
        await Apptainer.find("no-such-apptainer")
    assert "install.sh" in caught.value.remedy
    assert "PATH=" in caught.value.where


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs containers as somebody else")
async def test_a_missing_user_is_said_with_the_remedy() -> None:
    with pytest.raises(ApptainerMissing, match="no-such-user") as caught:
        await Apptainer.find(run_as="no-such-user")
    assert "useradd" in caught.value.remedy


@pytest.mark.apptainer
class TestContainers:
    async def test_version(self, apptainer: Apptainer) -> None:
        assert (await apptainer.version())[0].isdigit()

    async def test_input_and_output_are_streams(self, apptainer: Apptainer, base_image: Path) -> None:
        container = await apptainer.start(base_image, ["cat"], isolation=Isolation())
        try:
            container.stdin.write(b"\0\xff")
            container.stdin.write_eof()
            assert await container.stdout.read() == b"\0\xff"
            assert await container.wait() == 0
        finally:
            await container.kill()

    async def test_environment_binds_user_and_hostname(
        self, apptainer: Apptainer, base_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("APPTAINER_BIND", "/etc:/mnt")
        monkeypatch.setenv("SECRET_TOKEN", "x")
        binds = [Bind(source=Path("/usr/share"), target="/mnt")]
        container = await apptainer.start(
            base_image,
            ["sh", "-c", "env; id -u; hostname 2>/dev/null || cat /proc/sys/kernel/hostname; touch /mnt/x; ls / /mnt"],
            isolation=Isolation(),
            binds=binds,
            env={"GIVEN": "a b"},
            hostname="given",
        )
        try:
            text = (await container.stdout.read()).decode()
        finally:
            await container.kill()
        assert "GIVEN=a b\n" in text and "\ngiven\n" in text and "SECRET_TOKEN" not in text
        assert "\n0\n" not in text  # never root
        assert "zoneinfo" in text or "locale" in text
        assert "touch" in container.stderr_tail()

    async def test_killing_ends_every_process(self, apptainer: Apptainer, base_image: Path) -> None:
        script = 'trap "" TERM INT HUP; (setsid sleep 3600 &); echo up; while :; do sleep 1; done'
        container = await apptainer.start(base_image, ["sh", "-c", script], isolation=Isolation())
        assert await container.stdout.readline() == b"up\n"
        group = [int(p) for p in os.listdir("/proc") if p.isdigit() and _session(p) == container.pid]
        assert group
        await container.kill()
        assert not set(group) & {int(p) for p in os.listdir("/proc") if p.isdigit()}
        assert not container.running
        await container.kill()

    async def test_killing_at_any_moment_of_the_start(self, apptainer: Apptainer, base_image: Path) -> None:
        before = _children()
        for pause in (0.0, 0.01, 0.05, 0.1, 0.15):
            starting = asyncio.create_task(apptainer.start(base_image, ["sleep", "3600"], isolation=Isolation()))
            await asyncio.sleep(pause)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await starting).kill()
        assert _children() <= before

    async def test_a_broken_image_is_named(self, apptainer: Apptainer, tmp_path: Path) -> None:
        with pytest.raises(ImageBroken, match="no such image") as missing:
            await apptainer.start(tmp_path / "gone", ["true"], isolation=Isolation())
        assert str(tmp_path) in missing.value.where and missing.value.remedy
        damaged = Path("/var/tmp") / f"ectype-test-damaged-{os.getpid()}.sif"
        damaged.write_bytes(b"not an image")
        damaged.chmod(0o644)
        try:
            with pytest.raises(ImageBroken) as broken:
                await apptainer.start(damaged, ["true"], isolation=Isolation())
        finally:
            damaged.unlink()
        assert str(damaged) in broken.value.where
        assert "FATAL" in broken.value.what or "image" in broken.value.what


def _session(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[3])
    except OSError:
        return -1


def _children() -> set[int]:
    """Children of this process that are neither gone nor waited for."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            found |= set(map(int, file.read().split()))
    return found


def test_room_for_descriptors() -> None:
    program = """
import resource
from containers.apptainer import make_room_for_descriptors
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
make_room_for_descriptors()
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard % 2**64, 65536), hard))
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)
    assert done.stdout == "True\n", done.stderr
