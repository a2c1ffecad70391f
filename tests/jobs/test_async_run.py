"""A whole run that plays while it learns, its trainer killed in the middle: each episode is learnt from once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from audit.metrics import read_metrics
from rl.episode import Episode
from tests.cluster.command_line import SMALL, CommandLine
from tests.jobs.test_local_run import Run

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron]
SIZE, BOUND = 4, 2


class AsyncRun(Run):
    """`SMALL` in the asynchronous mode, with a checkpoint after every third step only."""

    def __init__(self, line: CommandLine) -> None:
        super().__init__(line)
        self.config = line.folder / "async.yaml"
        text = SMALL.read_text().replace("checkpoint_every: 1", "checkpoint_every: 3")
        self.config.write_text(text.replace("rollout: {", "rollout: {mode: async, in_flight: 8, "))

    def train(self, steps: int):
        return self.line.start("train", str(self.config), "--run", str(self.path), "--steps", str(steps))


def learnt(run: Path, steps: int) -> list[list[Episode]]:
    """The episodes of every step of the run as it is in the end."""
    files = [run / "episodes" / f"step-{step:06d}.msgpack" for step in range(1, steps + 1)]
    played = [msgspec.msgpack.decode(file.read_bytes(), type=list[Episode]) for file in files]
    return [[e for e in episodes if e.reward is not None] for episodes in played]


def saved_step(run: Path) -> int:
    """Of the newest checkpoint, which is written while the run goes on; 0: none."""
    return max((int(p.name.removeprefix("step-")) for p in (run / "checkpoints").glob("step-*")), default=0)


def test_its_trainer_killed_each_episode_is_learnt_from_once_and_in_time(command_line: CommandLine) -> None:
    run = AsyncRun(command_line)
    process = run.train(1000)
    run.wait(process, "five steps and a checkpoint", lambda: len(run.steps()) >= 5 and saved_step(run.path) >= 3)
    os.kill(run.pid("trainer"), signal.SIGKILL)
    process.communicate()
    saved = saved_step(run.path)
    steps = saved + 3
    process = run.train(steps)
    _, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert run.steps() == list(range(1, steps + 1))

    batches = learnt(run.path, steps)
    every = [e.id for batch in batches for e in batch]
    assert [len(batch) for batch in batches] == [SIZE] * steps and len(set(every)) == len(every)
    rows = read_metrics(run.path / "metrics" / "trainer.jsonl")
    assert rows[-1]["restarted"] > 0 and rows[saved - 1]["restarted"] == 0
    if rows[-1]["discarded"] == 0:
        assert set(every) == {f"{n // SIZE + 1:06d}-{n % SIZE:04d}" for n in range(steps * SIZE)}, "none is lost"
    for step, batch in enumerate(batches):
        versions = [v for e in batch for v in e.versions if v >= 0]
        assert max(versions) <= step and step - min(versions) <= BOUND
