from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from audit.errors import EctypeError
from rl.tensorboard import Board


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_numbers_are_found_again_under_their_section(tmp_path: Path) -> None:
    board = Board(tmp_path, resumed_step=0)
    for step in (1, 2):
        board.write(step, {"reward": step / 2, "kl": 0.25, "value_loss": 2.0, "update_s": 3.0, "entropy": math.nan})
    board.close()
    assert read(tmp_path) == {
        "episodes/reward": [(1, 0.5), (2, 1.0)],
        "actor/kl": [(1, 0.25), (2, 0.25)],
        "critic/value_loss": [(1, 2.0), (2, 2.0)],
        "speed/update_s": [(1, 3.0), (2, 3.0)],
    }


def test_after_a_resume_no_step_stands_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for resumed, rewards in ((0, {1: 0.1, 2: 0.2, 3: 0.3}), (1, {2: 0.5})):
        monkeypatch.setattr(time, "time", lambda resumed=resumed: 1e9 + resumed)  # files are read in their order
        board = Board(tmp_path, resumed_step=resumed)
        for step, reward in rewards.items():
            board.write(step, {"reward": reward})
        board.close()
    found = read(tmp_path)["episodes/reward"]
    assert [step for step, _ in found] == [1, 2] and found[1][1] == pytest.approx(0.5)


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(EctypeError, match="TensorBoard is asked for") as caught:
        Board(tmp_path, resumed_step=0)
    assert caught.value.where == "trainer.tensorboard" and "ectype[tensorboard]" in caught.value.remedy
