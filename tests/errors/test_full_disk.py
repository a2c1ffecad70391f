"""A disk that fills up in the middle of a run: said in these words, everything ended, and with space it resumes."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.command_line import SMALL, CommandLine
from tests.cluster.slurm import wait_for

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def steps(run: Path) -> list[int]:
    path = run / "metrics" / "trainer.jsonl"
    return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []


def test_a_disk_that_fills_up(command_line: CommandLine, disk: Path) -> None:
    run = disk / "run"
    process = command_line.start("train", str(SMALL), "--run", str(run), "--steps", "1000")
    wait_for("a step", lambda: len(steps(run)) >= 1 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    ballast = disk / "ballast"
    with contextlib.suppress(OSError):
        ballast.write_bytes(b"x" * (32 << 20))
    _, err = process.communicate()
    assert process.returncode == 2, err
    assert "the disk is full" in err
    assert str(disk) in err
    assert "free space" in err
    command_line.assert_nothing_left()

    ballast.unlink()
    done = max(steps(run))
    again = command_line.run("train", str(SMALL), "--run", str(run), "--steps", str(done + 1))
    assert again.returncode == 0, again.stderr
    assert steps(run) == list(range(1, done + 2))
