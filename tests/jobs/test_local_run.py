"""Whole runs on this machine through the command line: ended in every way a run can end, and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.job import CANCEL_GRACE_S
from tests.cluster.command_line import SMALL, CommandLine
from tests.cluster.slurm import wait_for

pytestmark = [pytest.mark.apptainer, pytest.mark.megatron]


class Run:
    """One run folder and the command that works on it."""

    def __init__(self, line: CommandLine) -> None:
        self.line = line
        self.path = line.folder / "run"

    def train(self, steps: int) -> subprocess.Popen[str]:
        return self.line.start("train", str(SMALL), "--run", str(self.path), "--steps", str(steps))

    def steps(self) -> list[int]:
        path = self.path / "metrics" / "trainer.jsonl"
        return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []

    def record(self, job: str) -> dict[str, object]:
        path = self.path / "jobs" / f"{job}.json"
        return json.loads(path.read_text()) if path.exists() else {"state": "none", "pid": 0}

    def pid(self, job: str) -> int:
        return int(str(self.record(job)["pid"]))

    def stop(self) -> str | None:
        path = self.path / "stop"
        return json.loads(path.read_text())["reason"] if path.exists() else None

    def logs(self) -> str:
        return "\n".join(f"== {p}\n{p.read_text()}" for p in self.path.glob("logs/*/latest/*.err"))

    def wait(self, process: subprocess.Popen[str], what: str, condition: Callable[[], bool]) -> None:
        wait_for(what, lambda: condition() or process.poll() is not None)
        assert condition(), f"{process.communicate()}\n{self.logs()}"


@pytest.fixture
def run(command_line: CommandLine) -> Run:
    return Run(command_line)


def test_to_the_end_and_then_further(run: Run) -> None:
    process = run.train(2)
    run.wait(process, "the worker", lambda: run.record("sandbox-0")["state"] == "running")
    run.wait(process, "the trainer", lambda: run.record("trainer")["state"] == "running")

    second = run.line.run("train", str(SMALL), "--run", str(run.path), "--steps", "3")
    assert second.returncode == 2
    assert "the run folder is in use by process" in second.stderr
    assert "\n  steps: 2\n" in (run.path / "run.yaml").read_text(), "who is refused changes nothing"

    run.wait(process, "the end", lambda: process.poll() is not None)
    out, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert str(run.path) in out
    assert run.steps() == [1, 2]
    assert run.stop() == "finished"
    run.line.assert_nothing_left()
    assert sorted(p.name for p in (run.path / "tasks").iterdir()) == ["public"]

    run.path = run.path.rename(run.line.folder / "moved")
    shown = run.line.run("status", str(run.path))
    assert shown.returncode == 0 and "step 2 of 2" in shown.stdout, shown.stderr

    process = run.train(3)
    out, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert run.steps() == [1, 2, 3]
    assert "resumed at step 2" in run.logs()


def test_interrupt_stops_everything_and_the_run_resumes(run: Run) -> None:
    process = run.train(1000)
    run.wait(process, "a step", lambda: len(run.steps()) >= 1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err + run.logs()
    assert "interrupted; the newest checkpoint is step-" in err
    assert f"resume: ectype train {SMALL} --run {run.path}" in err
    assert run.stop() == "cancelled"
    run.line.assert_nothing_left()
    done = len(run.steps())

    process = run.train(done + 1)
    _, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert run.steps() == list(range(1, done + 2))


def test_interrupt_before_the_first_step_and_sigterm(run: Run) -> None:
    process = run.train(1000)
    run.wait(process, "the controller", lambda: run.record("controller")["state"] == "running")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143, err + run.logs()
    # the trainer may have come as far as saving the policy it starts from
    assert "no checkpoint was written yet" in err or "the newest checkpoint is step-0" in err
    assert "resume: ectype train" in err
    run.line.assert_nothing_left()


def test_killed_trainer_is_noticed_and_no_step_is_lost_or_repeated(run: Run) -> None:
    process = run.train(1000)
    run.wait(process, "two steps", lambda: len(run.steps()) >= 2)
    os.kill(run.pid("trainer"), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 2
    assert "trainer died without a word" in err
    assert "start the same command again" in err
    run.line.assert_nothing_left()
    saved = max(int(p.name.removeprefix("step-")) for p in (run.path / "checkpoints").glob("step-*"))

    process = run.train(saved + 2)
    _, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert run.steps() == list(range(1, saved + 3))


def test_a_dead_worker_ends_the_run(run: Run) -> None:
    process = run.train(1000)
    run.wait(process, "the worker", lambda: run.record("sandbox-0")["state"] == "running")
    os.kill(run.pid("sandbox-0"), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 2
    assert "sandbox-0 died without a word" in err
    assert f"log: {run.path}/logs/sandbox/0001/" in err


def test_a_killed_command_line_leaves_no_job(run: Run) -> None:
    process = run.train(1000)
    run.wait(process, "the worker", lambda: run.record("sandbox-0")["state"] == "running")
    process.kill()
    process.wait()
    run.line.assert_nothing_left()


def test_a_command_line_killed_in_the_middle_of_an_episode_leaves_no_trainer(run: Run) -> None:
    """The controller and the workers end at once; the trainer's requests are never answered."""
    config = run.line.folder / "long.yaml"
    config.write_text(SMALL.read_text().replace("episodes_per_step: 4", "episodes_per_step: 400"))
    process = run.line.start("train", str(config), "--run", str(run.path))
    played = run.path / "audit" / "sandbox-0.0000.jsonl"
    run.wait(process, "an episode", lambda: played.exists() and b"session_closed" in played.read_bytes())
    process.kill()
    process.wait()
    run.line.assert_nothing_left(patience_s=CANCEL_GRACE_S + 60)


def test_preemption_signal_requeues_the_trainer(run: Run) -> None:
    process = run.train(30)
    run.wait(process, "a step", lambda: len(run.steps()) >= 1)
    first = run.pid("trainer")
    os.kill(first, signal.SIGUSR2)
    run.wait(process, "the end", lambda: process.poll() is not None)
    _, err = process.communicate()
    assert process.returncode == 0, err + run.logs()
    assert run.pid("trainer") != first
    assert run.steps() == list(range(1, 31))
    assert "Requeued job" in run.logs()


def test_two_ranks_of_the_trainer_step_together(run: Run) -> None:
    config = run.line.folder / "two.yaml"
    config.write_text(SMALL.read_text() + "parallel: {dp: 2}\n")
    done = run.line.run("train", str(config), "--run", str(run.path), "--steps", "2")
    assert done.returncode == 0, done.stderr + run.logs()
    assert run.steps() == [1, 2]
    assert len(list(run.path.glob("logs/trainer/latest/*_log.err"))) == 2


def test_detached_run_is_shown_and_cancelled(run: Run) -> None:
    submitted = run.line.run("submit", str(SMALL), "--site", "local", "--run", str(run.path), "--steps", "1000")
    assert submitted.returncode == 0, submitted.stderr
    wait_for("a step", lambda: len(run.steps()) >= 1 or run.stop() is not None)
    assert run.stop() is None, run.logs()
    shown = run.line.run("status", str(run.path))
    assert shown.returncode == 0, shown.stderr
    assert "of 1 workers" in shown.stdout
    assert "of 1000" in shown.stdout
    worker = Path(f"/proc/{run.pid('sandbox-0')}/status").read_text()
    resident_kib = next(int(line.split()[1]) for line in worker.splitlines() if line.startswith("VmRSS"))
    assert resident_kib < 120 << 10
    cancelled = run.line.run("cancel", str(run.path))
    assert "trainer" in cancelled.stdout
    run.line.assert_nothing_left()
    assert "Nothing of this run was alive" in run.line.run("cancel", str(run.path)).stdout
    assert "cancelled" in run.line.run("status", str(run.path)).stdout
