"""What `test_parallel.py` runs on every rank of a layout: python -m tests.rl.ranks TP SHAPE FOLDER.

Two optimizer steps of actor and critic in fp64 on a fixed batch shared out over the data-parallel ranks, generation,
a checkpoint and a Hugging Face export. Rank 0 writes what happened to FOLDER/result.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch

from rl import checkpoint, hf, parallel
from rl.engine import MegatronEngine
from rl.models import MegatronModel, ModelShape, OptimizerConfig
from rl.packing import balance, make_packs
from tests.rl.megatron_data import SHAPE, losses, samples

SHAPES = {
    "tied": SHAPE,
    "untied, biased": msgspec.structs.replace(SHAPE, tied=False, qkv_bias=True, kv_heads=4),
}


def work(shape: ModelShape, folder: Path) -> dict[str, Any]:
    batch = samples(9)
    share = balance([len(s.tokens) for s in batch], parallel.dp_size())[parallel.dp_rank()]
    packs = make_packs([batch[i] for i in share], 150)
    models = {
        name: MegatronModel(
            shape, critic=name == "critic", seed=4, dtype=torch.float64, optimizer=OptimizerConfig(lr=1e-3)
        )
        for name in ("actor", "critic")
    }
    models["critic"].copy_body(models["actor"])
    torch.nn.init.normal_(models["critic"].value_head.weight, generator=torch.Generator().manual_seed(0))
    stats: dict[str, Any] = {}
    for (name, model), loss in zip(models.items(), losses(batch), strict=True):
        stats[name] = [model.train_step(packs, loss) for _ in range(2)]
    answers = MegatronEngine(models["actor"]).generate(
        [s.tokens[:9].tolist() for s in batch], seeds=range(9), max_new_tokens=12, stop_tokens={1, 2}
    )
    stats["tokens"] = [a.tokens for a in answers]
    stats["logprobs"] = [a.logprobs for a in answers]
    checkpoint.save(folder / "checkpoints", models, b"x", step=2, keep=1)
    hf.export(models["actor"], folder / "hf")
    return stats


def main() -> None:
    tp, shape, folder = int(sys.argv[1]), SHAPES[sys.argv[2]], Path(sys.argv[3])
    parallel.init(tp=tp, threads=1)
    try:
        result = work(shape, folder)
        if parallel.rank() == 0:
            (folder / "result.json").write_text(json.dumps(result))
    finally:
        parallel.destroy()


if __name__ == "__main__":
    main()
