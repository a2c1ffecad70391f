from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from audit.errors import EctypeError
from rl import checkpoint, hf, parallel
from rl.models import MegatronModel, ModelShape
from tests.rl.processes import REPO, ranks
from tests.rl.ranks import SHAPES, name_of, pair, work

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, one_rank: None) -> dict[str, tuple[Path, dict]]:
    """What one rank does, by shape."""
    folders = {name: tmp_path_factory.mktemp("alone") for name in SHAPES}
    return {name: (folder, work(SHAPES[name], folder)) for name, folder in folders.items()}


def trained_state(shape: ModelShape, folder: Path) -> dict[str, torch.Tensor]:
    """Weights and first moments of a checkpoint, loaded into this one rank."""
    models = pair(shape)
    found = checkpoint.latest(folder / "checkpoints")
    assert found is not None
    checkpoint.load(found, models)
    state = {}
    for name, model in models.items():
        assert model.optimizer is not None and model.optimizer.steps == 2
        for key, parameter in model.gpt.named_parameters():
            state[f"{name} {key}"] = parameter.detach()
            state[f"{name} moment {key}"] = model.optimizer.moments[key][0]
    return state


def check(result: dict, folder: Path, name: str, alone: dict[str, tuple[Path, dict]]) -> None:
    """fp64: losses, statistics, gradients, weights, samples; and checkpoint and export can be read by one rank."""
    reference_folder, expected = alone[name]
    for model in ("actor", "critic"):
        for ours, theirs in zip(result[model], expected[model], strict=True):
            assert ours == pytest.approx(theirs, abs=1e-10)
        assert result["fp32"][model][0] == pytest.approx(expected["fp32"][model][0], abs=1e-5)
        # what another layout wrote, one step later; Adam amplifies rounding into the third step
        assert result["resumed"][model][0] == pytest.approx(expected["resumed"][model][0], abs=1e-7)
    assert result["inference"] == pytest.approx(expected["inference"], abs=1e-9)
    assert result["imported"] == pytest.approx(expected["imported"], abs=1e-6)
    assert result["tokens"] == expected["tokens"]
    for ours, theirs in zip(result["logprobs"], expected["logprobs"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
    reference = trained_state(SHAPES[name], reference_folder)
    for key, tensor in trained_state(SHAPES[name], folder).items():
        # after one step of Adam a gradient near zero is amplified into a step of up to the learning rate
        tolerance = 1e-10 if "moment" in key else 1e-8
        torch.testing.assert_close(tensor, reference[key], atol=tolerance, rtol=0, msg=lambda m, k=key: f"{k}: {m}")
    exported = MegatronModel(hf.read_shape(folder / "hf"), dtype=torch.float64, initialize=False)
    hf.load_weights(folder / "hf", exported)
    for key, parameter in exported.gpt.named_parameters():
        torch.testing.assert_close(parameter.detach(), reference[f"actor {key}"], atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    ("world", "layouts"),
    [
        (2, [(2, 1, 1, 0), (1, 2, 1, 0), (1, 1, 1, 0), (1, 1, 2, 0), (2, 1, 1, 1)]),
        (4, [(2, 2, 1, 0), (1, 2, 1, 0), (2, 1, 1, 0), (1, 2, 2, 0), (2, 1, 2, 1)]),
        pytest.param(8, [(2, 2, 1, 0), (2, 2, 2, 1)], marks=pytest.mark.slow),
    ],
)
def test_every_layout_learns_the_same(
    world: int, layouts: list[tuple[int, ...]], alone: dict[str, tuple[Path, dict]], tmp_path: Path
) -> None:
    """(tensor, pipeline, context) parallel sizes and whether sequence parallel; what is left is data parallel."""
    told = [name_of(layout) for layout in layouts]
    with ranks(world, "tests.rl.ranks", str(tmp_path), *told) as started:
        errors = [rank.communicate(timeout=600)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)
    for layout, (tp, pp, *_) in zip(told, layouts, strict=True):
        for name in SHAPES:
            folder = tmp_path / layout / name
            result = json.loads((folder / "result.json").read_text())
            check(result, folder, name, alone)
            # beside weights and gradients a rank holds its share of the state, not all of it
            (whole,) = alone[name][1]["state_bytes"]
            assert max(result["state_bytes"]) <= 1.01 * whole / (world // tp // pp)
            assert sum(result["state_bytes"]) >= whole


def test_a_second_layout_in_one_process_is_refused() -> None:
    parallel.init(tp=1)
    with pytest.raises(EctypeError, match="already runs with tp=1"):
        parallel.init(tp=2)


def test_a_world_that_does_not_divide_is_refused() -> None:
    code = "from rl import parallel; parallel.init(tp=2)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=REPO, capture_output=True, text=True,
        env=os.environ | {"WORLD_SIZE": "3", "RANK": "0"},
    )  # fmt: skip
    assert "3 ranks cannot be split into groups of tp=2" in done.stderr and "remedy" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU can do it")
def test_sequence_parallelism_is_refused_without_a_gpu() -> None:
    with pytest.raises(EctypeError, match="needs a GPU") as caught:
        parallel.init(tp=1, sequence=True)
    assert caught.value.where == "parallel.sequence"
