from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from audit.errors import EctypeError
from rl import checkpoint, parallel
from rl.models import MegatronModel, OptimizerConfig
from rl.packing import make_packs
from tests.rl.megatron_data import SHAPE, losses, samples

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]


def pair(seed: int) -> dict[str, MegatronModel]:
    return {
        name: MegatronModel(SHAPE, critic=name == "critic", seed=seed, optimizer=OptimizerConfig(lr=1e-2))
        for name in ("actor", "critic")
    }


def train(models: dict[str, MegatronModel], steps: range) -> list[dict[str, float]]:
    history = []
    for step in steps:
        batch = samples(5, seed=step)
        for model, loss in zip(models.values(), losses(batch), strict=True):
            history.append(model.train_step(make_packs(batch, 200), loss))
    return history


def weights(models: dict[str, MegatronModel]) -> list[torch.Tensor]:
    return [p.clone() for model in models.values() for p in model.gpt.parameters()]


def test_training_goes_on_exactly_where_it_stopped(tmp_path: Path) -> None:
    straight = pair(0)
    train(straight, range(2))
    folder = checkpoint.save(tmp_path, straight, b"state of the trainer", step=2, keep=1)
    expected = train(straight, range(2, 4))
    resumed = pair(1)
    train(resumed, range(7, 8))  # whatever was there before is gone
    assert checkpoint.latest(tmp_path) == folder
    assert checkpoint.load(folder, resumed) == b"state of the trainer"
    assert train(resumed, range(2, 4)) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(straight), weights(resumed), strict=True))


def test_a_model_without_optimizer_reads_the_weights_only(tmp_path: Path) -> None:
    models = pair(0)
    train(models, range(1))
    folder = checkpoint.save(tmp_path, models, b"", step=1, keep=1)
    reader = {"actor": MegatronModel(SHAPE, seed=9)}
    checkpoint.load(folder, reader)
    assert all(
        torch.equal(a, b)
        for a, b in zip(models["actor"].gpt.parameters(), reader["actor"].gpt.parameters(), strict=True)
    )


def test_newest_are_kept_and_incomplete_ones_ignored_and_removed(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "nowhere") is None
    models = pair(0)
    for step in (1, 2, 30):
        checkpoint.save(tmp_path, models, b"%d" % step, step=step, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000002", "step-000030"]
    (tmp_path / ".step-000040.partial").mkdir()
    (tmp_path / "step-000050").mkdir()  # no marker: not a checkpoint
    assert checkpoint.latest(tmp_path) == tmp_path / "step-000030"
    checkpoint.save(tmp_path, models, b"again", step=30, keep=2)
    assert (tmp_path / "step-000030" / "extra").read_bytes() == b"again"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000002", "step-000030", "step-000050"]


def test_another_shape_or_format_is_refused(tmp_path: Path) -> None:
    models = pair(0)
    folder = checkpoint.save(tmp_path, models, b"", step=1, keep=1)
    other = {"actor": MegatronModel(msgspec.structs.replace(SHAPE, layers=1), seed=0)}
    with pytest.raises(EctypeError, match="actor has the shape") as caught:
        checkpoint.load(folder, other)
    assert str(folder) in str(caught.value) and caught.value.remedy
    marker = (folder / "complete").read_bytes()
    (folder / "complete").write_bytes(marker.replace(b'"format":1', b'"format":99'))
    with pytest.raises(EctypeError, match="format 99"):
        checkpoint.load(folder, models)
    with pytest.raises(EctypeError, match="not a checkpoint"):
        checkpoint.load(tmp_path, models)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    with pytest.raises(EctypeError, match="cannot write a checkpoint") as caught:
        checkpoint.save(tmp_path / "in the way" / "checkpoints", {}, b"", step=0, keep=1)
    assert "in the way" in caught.value.where


def test_a_disk_that_refuses_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    models = pair(0)
    previous = checkpoint.save(tmp_path, models, b"first", step=1, keep=3)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        with pytest.raises(EctypeError, match="cannot write a checkpoint") as caught:
            checkpoint.save(tmp_path, models, b"second", step=2, keep=3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "step-000002" in caught.value.where and "make room" in caught.value.remedy
    assert list(tmp_path.iterdir()) == [previous]
    assert checkpoint.load(previous, models) == b"first"


def test_training_goes_on_while_it_is_written_and_the_copy_is_of_before(tmp_path: Path, monkeypatch: Any) -> None:
    models = pair(0)
    train(models, range(2))
    before, go = weights(models), threading.Event()
    flush = checkpoint._flush
    monkeypatch.setattr(checkpoint, "_flush", lambda paths: (go.wait(), flush(paths)))
    write = checkpoint.begin(tmp_path, models, b"before", step=2, keep=1)
    train(models, range(2, 4))
    assert not write.done() and checkpoint.latest(tmp_path) is None
    go.set()
    folder = write.result()
    loaded = pair(1)
    assert checkpoint.load(folder, loaded) == b"before"
    assert all(torch.equal(a, b) for a, b in zip(before, weights(loaded), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(before, weights(models), strict=True))
    assert [m.optimizer.steps for m in loaded.values() if m.optimizer] == [2, 2]


def test_a_write_that_fails_in_the_background_is_reported(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    models = pair(0)
    previous = checkpoint.save(tmp_path, models, b"first", step=1, keep=3)

    def full(paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "_flush", full)
    write = checkpoint.begin(tmp_path, models, b"second", step=2, keep=3)
    with pytest.raises(EctypeError, match="No space left on device"):
        write.result()
    assert "No space left on device" in caplog.text
    assert list(tmp_path.iterdir()) == [previous] and checkpoint.latest(tmp_path) == previous


def test_the_same_step_again_is_complete_under_one_name_or_the_other(tmp_path: Path, monkeypatch: Any) -> None:
    models = pair(0)
    checkpoint.save(tmp_path, models, b"first", step=1, keep=1)
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, models, b"second", step=1, keep=1)
    monkeypatch.undo()
    newest = checkpoint.latest(tmp_path)
    assert newest is not None and checkpoint.load(newest, models) == b"first"
    checkpoint.save(tmp_path, models, b"third", step=1, keep=1)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]
    assert (tmp_path / "step-000001" / "extra").read_bytes() == b"third"


def write_for_ever(root: Path, first: int) -> None:
    """A trainer that saves all the time: every weight of step n is n, and moves on while n is written."""
    parallel.init(threads=1)
    models, write = pair(0), None
    for step in range(first, 10**6):
        for model in models.values():
            for parameter in model.gpt.parameters():
                parameter.data.fill_(step)
        if write is not None:
            write.result()
        write = checkpoint.begin(root, models, b"%d" % step, step=step, keep=2)


def test_killed_fifty_times_while_writing_the_latest_complete_one_always_loads(tmp_path: Path) -> None:
    """SIGKILL at random moments; a server that has imported everything forks the writers."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rl.test_checkpoint"])
    rng = random.Random(0)
    reader = pair(5)
    step, cut_short = 0, 0
    for _ in range(50):
        writer = context.Process(target=write_for_ever, args=(tmp_path, step + 1))
        writer.start()
        try:
            while (found := checkpoint.latest(tmp_path)) is None or int(found.name.removeprefix("step-")) <= step:
                assert writer.is_alive(), "the writer failed"
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.15))
        finally:
            writer.kill()
            writer.join()
        cut_short += any(tmp_path.glob(".step-*.partial"))
        newest = checkpoint.latest(tmp_path)
        assert newest is not None
        at = int(newest.name.removeprefix("step-").removesuffix(checkpoint.REPLACED))
        assert at > step, "what was complete before the kill is complete after it"
        step = at
        assert int(checkpoint.load(newest, reader)) == step
        assert all((p == step).all() for model in reader.values() for p in model.gpt.parameters())
    assert cut_short > 10, "kills that met a write half done"
