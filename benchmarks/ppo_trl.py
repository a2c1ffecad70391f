"""The peer's side of `benchmarks.ppo`: TRL's PPOTrainer on given episodes, run by the Python of TRL's own environment.

`python -m benchmarks.ppo_trl FILE` reads the batch that `benchmarks.ppo` wrote and prints one JSON object. TRL's own
`train()` runs, unchanged. Three of its names are replaced from outside: `batch_generation`, which would sample, hands
it the episodes, padded on the right to the longest as TRL pads; `masked_whiten`, the last call before the inner
update, also starts the clock; `PPOTrainer.log`, the first call after it, stops the clock. So what is measured are its
epochs over minibatches and micro-batches: both models forward and backward, losses, statistics, optimizer. TRL knows
one turn only, so what the environment wrote is learnt from too, which costs it nothing more: it computes every position
anyway.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset  # pyright: ignore[reportMissingImports]
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer  # pyright: ignore[reportMissingImports]

from benchmarks import resident


def main() -> None:
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(given["threads"])
    torch.manual_seed(0)
    baseline = resident.now_mib()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(given, folder) | {"baseline_mib": baseline}))


def measure(given: dict[str, Any], folder: str) -> dict[str, Any]:
    episodes, prompt = given["episodes"], given["prompt"]
    shape, pad = given["shape"], given["shape"]["vocab"] - 1
    config = LlamaConfig(
        vocab_size=shape["vocab"],
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        intermediate_size=shape["ffn"],
        max_position_embeddings=given["context"],
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        num_labels=1,  # pyright: ignore[reportCallIssue]
        pad_token_id=0,
    )
    policy, value = LlamaForCausalLM(config), LlamaForSequenceClassification(config)
    trainer = PPOTrainer(
        args=PPOConfig(
            output_dir=folder,
            per_device_train_batch_size=given["micro_batch"],
            gradient_accumulation_steps=len(episodes) // given["micro_batch"],
            num_mini_batches=given["minibatches"],
            num_ppo_epochs=given["epochs"],
            total_episodes=len(episodes),
            response_length=1,
            learning_rate=1e-4,
            temperature=1.0,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            num_sample_generations=0,
            save_strategy="no",
            eval_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        processing_class=_tokenizer(pad),
        model=policy,
        ref_model=None,
        reward_model=LlamaForSequenceClassification(config),
        value_model=value,
        train_dataset=Dataset.from_list([{"input_ids": tokens[:prompt]} for tokens in episodes]),
        eval_dataset=Dataset.from_list([{"input_ids": episodes[0][:prompt]}]),
    )
    longest = max(map(len, episodes))
    padded = torch.full((len(episodes), longest), pad)
    for row, tokens in enumerate(episodes):
        padded[row, : len(tokens)] = torch.tensor(tokens)
    clock: dict[str, float] = {}
    whiten, log = ppo_trainer.masked_whiten, PPOTrainer.log
    positions = 0

    def count(_module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        nonlocal positions
        if clock:
            positions += inputs[0].shape[0] * inputs[0].shape[1]

    first: Any = policy.model.layers[0]
    first.mlp.register_forward_pre_hook(count)

    def generate(*_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return padded.clone(), torch.zeros(1).expand(len(episodes), longest - prompt, shape["vocab"])

    def start(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = whiten(*args, **kwargs)
        resident.reset_peak()
        clock["start"], clock["cpu_start"] = time.perf_counter(), time.process_time()
        return out

    def stop(self: Any, *args: Any, **kwargs: Any) -> None:
        clock["stop"], clock["cpu_stop"] = time.perf_counter(), time.process_time()
        clock["peak"] = resident.peak_mib()
        log(self, *args, **kwargs)

    ppo_trainer.batch_generation, ppo_trainer.masked_whiten, PPOTrainer.log = generate, start, stop
    trainer.train()
    return {
        "seconds": clock["stop"] - clock["start"],
        "cpu_seconds": clock["cpu_stop"] - clock["cpu_start"],
        "peak_mib": clock["peak"],
        "positions": positions,
        "parameters": sum(p.numel() for p in policy.parameters()),
        "critic_parameters": sum(p.numel() for p in value.parameters()),
        "finite": bool(np.isfinite([p.detach().sum().item() for p in policy.parameters()]).all()),
    }


def _tokenizer(pad: int) -> Any:
    """Token i is the word `i`; the last one is padding and end, and no episode contains it."""
    from tokenizers import Tokenizer, models

    words = {str(number): number for number in range(pad)} | {"[PAD]": pad}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="0"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", eos_token="[PAD]")


if __name__ == "__main__":
    main()
