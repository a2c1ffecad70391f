"""What `test_parallel.py` runs on every rank of a world: python -m tests.rl.ranks FOLDER TP,PP,CP,SP [TP,PP,CP,SP ...].

For each layout and shape: two optimizer steps of actor and critic on a fixed batch shared out over the data-parallel
ranks, generation, a checkpoint, a Hugging Face export; then what the layout before it wrote is loaded and trained
once more. Rank 0 writes what happened to FOLDER/TP,PP,CP,SP/SHAPE/result.json. SP 1 is sequence parallelism, which
Megatron has on GPUs only: there a stand-in takes the place of the two things of CUDA that its layers ask for.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel

from rl import checkpoint, hf, parallel
from rl.engine import MegatronEngine
from rl.models import MegatronModel, ModelShape, OptimizerConfig
from rl.packing import Pack, balance, make_packs
from rl.rollout import generate_all
from tests.rl.megatron_data import SHAPE, losses, samples

SHAPES = {
    "tied": SHAPE,
    "untied, biased": msgspec.structs.replace(SHAPE, tied=False, qkv_bias=True, kv_heads=4),
    "normed": msgspec.structs.replace(SHAPE, qk_norm=True, head_size=12),
}
BATCH = samples(9)
CONFIG = OptimizerConfig(lr=1e-3, clip_grad=0.5)


def pair(shape: ModelShape, dtype: torch.dtype = torch.float64) -> dict[str, MegatronModel]:
    """Actor and critic, with opinions and with norms that are not all ones."""
    models = {
        n: MegatronModel(shape, critic=n == "critic", seed=4, dtype=dtype, optimizer=CONFIG)
        for n in ("actor", "critic")
    }
    for name, parameter in models["actor"].named_parameters():
        if parameter.ndim == 1 and not name.endswith(".bias"):
            # the same on every rank: these are whole everywhere
            parameter.data += torch.linspace(-0.3, 0.3, len(parameter), dtype=dtype)
    models["actor"].weights_written()
    models["critic"].copy_body(models["actor"])
    if parallel.is_last_stage():
        torch.nn.init.normal_(models["critic"].value_head.weight, generator=torch.Generator().manual_seed(0))
    models["critic"].weights_written()
    return models


def packs(budget: int) -> list[Pack]:
    """This data-parallel rank's part of the batch."""
    share = balance([len(s.tokens) for s in BATCH], parallel.dp_size())[parallel.dp_rank()]
    return make_packs([BATCH[i] for i in share], budget)


def steps(models: dict[str, MegatronModel], count: int, budget: int) -> dict[str, Any]:
    return {
        name: [model.train_step(packs(budget), loss) for _ in range(count)]
        for (name, model), loss in zip(models.items(), losses(BATCH), strict=True)
    }


def inference(models: dict[str, MegatronModel], budget: int) -> dict[str, Any]:
    """Sums of log-probs and values over the whole batch, as a number that any mistake would change."""
    mine = packs(budget)
    with_final = models["critic"].values_and_final(mine)
    return parallel.sum_over_dp(
        {
            "logprobs": sum(float(x.square().sum()) for x in models["actor"].logprobs(mine)),
            "values": sum(float(x.square().sum()) for x in models["critic"].values(mine)),
            "final": sum(float(final.square().sum()) for _, final in with_final),
        }
    )


def work(
    shape: ModelShape, folder: Path, *, budget: int = 150, recompute: bool = False, before: Path | None = None
) -> dict[str, Any]:
    """`recompute`: layers run again in the backward pass; `before`: the folder that another layout worked in."""
    models = pair(shape)
    for model in models.values():
        model._activation_limit = 0 if recompute else model._activation_limit
    stats: dict[str, Any] = {"inference": inference(models, budget), **steps(models, 2, budget)}
    answers = generate_all(
        MegatronEngine(models["actor"]),
        [s.tokens[:9].tolist() for s in BATCH],
        seeds=range(9),
        max_new_tokens=12,
        stop_tokens={1, 2},
    )
    stats["tokens"] = [a.tokens for a in answers]
    stats["logprobs"] = [a.logprobs for a in answers]
    state_bytes: list[int] = [0] * parallel.world()
    optimizer = models["actor"].optimizer
    assert optimizer is not None
    dist.all_gather_object(state_bytes, optimizer.state_bytes)
    stats["state_bytes"] = state_bytes
    checkpoint.save(folder / "checkpoints", models, b"x", step=2, keep=1)
    hf.export(models["actor"], folder / "hf")
    found = checkpoint.latest((before or folder) / "checkpoints")
    assert found is not None
    fresh = pair(shape)
    checkpoint.load(found, fresh)
    stats["resumed"] = steps(fresh, 1, budget)
    imported = MegatronModel(shape, dtype=torch.float64, initialize=False)
    hf.load_weights((before or folder) / "hf", imported)
    stats["imported"] = inference({"actor": imported, "critic": models["critic"]}, budget)["logprobs"]
    stats["fp32"] = steps(pair(shape, torch.float32), 1, budget)
    return stats


def name_of(layout: tuple[int, ...]) -> str:
    return ",".join(map(str, layout))


def stand_in_for_cuda() -> None:
    """The device of buffers, and a random state that dropout would need."""
    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment,return-value]
    tensor_parallel.get_cuda_rng_tracker = lambda: SimpleNamespace(fork=nullcontext)  # type: ignore[assignment]


def main() -> None:
    folder, layouts = Path(sys.argv[1]), [tuple(map(int, told.split(","))) for told in sys.argv[2:]]
    before: Path | None = None
    for number, layout in enumerate(layouts):
        tp, pp, cp, sp = layout
        parallel.init(tp=tp, pp=pp, cp=cp, threads=1)
        if sp:
            stand_in_for_cuda()
        parallel._sequence[0] = bool(sp)
        for name, shape in SHAPES.items():
            place = folder / name_of(layout) / name
            budget, recompute = (150, 1, 10**6)[number % 3], number % 2 == 1
            result = work(shape, place, budget=budget, recompute=recompute, before=before and before / name)
            if parallel.rank() == 0:
                (place / "result.json").write_text(json.dumps(result))
        before = folder / name_of(layout)
        parallel_state.destroy_model_parallel()
    parallel.destroy()


if __name__ == "__main__":
    main()
