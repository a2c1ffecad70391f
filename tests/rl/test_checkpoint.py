from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest
import torch

from audit.errors import EctypeError
from rl import checkpoint
from rl.models import MegatronModel, OptimizerConfig
from rl.packing import make_packs
from tests.rl.megatron_data import SHAPE, losses, samples

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
REPO = Path(__file__).parents[2]


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


def test_killed_while_writing_the_latest_complete_one_loads(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from rl import checkpoint, parallel
        from tests.rl.test_checkpoint import pair
        parallel.init(threads=1)
        models = pair(0)
        for step in range(1, 10**6):
            checkpoint.save(Path(sys.argv[1]), models, b"%d" % step, step=step, keep=2)
            print(step, flush=True)
        """
    )
    for delay_s in (0.0, 0.02, 0.05):
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)],
            cwd=REPO, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(REPO)},
        )  # fmt: skip
        try:
            assert process.stdout is not None
            for _ in range(2):
                said = int(process.stdout.readline())
            time.sleep(delay_s)
        finally:
            process.kill()
            process.wait()
        newest = checkpoint.latest(tmp_path)
        assert newest is not None and int(newest.name.removeprefix("step-")) >= said
        assert int(checkpoint.load(newest, pair(5))) == int(newest.name.removeprefix("step-"))
