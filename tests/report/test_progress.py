"""Live progress, drawn from files that grow while it looks."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from rich.console import Console

from audit.metrics import MetricsLog
from jobs import progress
from tests.report import synthetic


def drawn(run: Path, *, title: str = "") -> str:
    console = Console(file=io.StringIO(), width=110, force_terminal=False)
    console.print(progress.panel(run, title=title))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_before_anything_is_there(tmp_path: Path) -> None:
    assert "starting" in drawn(tmp_path / "not-yet")


def test_warm_start(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "metrics" / "warm_start.jsonl") as metrics:
        for number in range(1, 4):
            metrics.write(number, batches=9, nll=3.0 / number)
    assert "batch 3 of 9, loss 1.000" in drawn(tmp_path)


def test_the_panel(tmp_path: Path) -> None:
    text = drawn(synthetic.write_run(tmp_path / "on", enforce=True, steps=10), title="Anti-cheat on")
    for word in (
        "Anti-cheat on",
        "step 10 of 10",
        "640 episodes",
        "Honest success",
        "Cheat attempts",
        "Blocked",
        "41.5",
    ):
        assert word in text
    assert "Entropy" not in text


def test_time_left(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path / "on", enforce=True, steps=10)
    (run / "run.yaml").write_text("format: 1\ntrainer:\n  steps: 30\n")
    assert "about 64 s left" in drawn(run)


def test_lines_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = synthetic.write_run(tmp_path / "on", enforce=True, steps=3)
    stop = threading.Event()
    viewer = threading.Thread(target=progress.follow, args=(run, stop))
    viewer.start()
    with MetricsLog(run / "metrics" / "trainer.jsonl") as metrics:
        metrics.write(4, reward=0.5)
    stop.set()
    viewer.join()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1/3", "2/3", "3/3", "4/3"]
    assert "explained variance -" in lines[0]
    assert "reward 0.50  honest -" in lines[3]


def test_a_torn_or_damaged_file_is_waited_for(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path / "on", enforce=True, steps=3)
    with (run / "metrics" / "trainer.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "rew')
    assert "step 3 of 3" in drawn(run)
    (run / "metrics" / "trainer.jsonl").write_bytes(b"nonsense\n")
    assert "starting" in drawn(run)


def test_sparkline() -> None:
    assert progress.sparkline([0.0, 0.5, 1.0, 2.0, float("nan")]) == "▁▅██ "
