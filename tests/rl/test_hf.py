from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from audit.errors import EctypeError
from rl import hf
from rl.models import MegatronModel, ModelShape
from rl.packing import make_packs, sample
from tests.rl.megatron_data import SHAPE

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]

SHAPES = {
    "llama": msgspec.structs.replace(SHAPE, rope_base=50000.0),
    "llama untied": msgspec.structs.replace(SHAPE, tied=False, norm_eps=1e-6),
    "qwen2": msgspec.structs.replace(SHAPE, qkv_bias=True, kv_heads=1),
}


def logits(model: MegatronModel, tokens: list[int]) -> torch.Tensor:
    with torch.no_grad():
        pack = make_packs([sample(tokens, [0] * len(tokens))], 1)[0]
        return F.linear(model._hidden(pack), model.output_weight)


def transformers_logits(folder: Path, tokens: list[int]) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return reference(torch.tensor([tokens])).logits[0]


def scrambled(shape: ModelShape) -> MegatronModel:
    model = MegatronModel(shape, seed=0)
    g = torch.Generator().manual_seed(1)
    for parameter in model.gpt.parameters():
        parameter.data += torch.randn(parameter.shape, generator=g) * 0.1
    return model


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_transformers_computes_the_same_logits(
    shape: ModelShape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl.hf.SHARD_BYTES", 20_000)  # several files
    model = scrambled(shape)
    hf.export(model, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 1
    tokens = np.random.default_rng(0).integers(0, shape.vocab, 50).tolist()
    difference = transformers_logits(tmp_path / "out", tokens) - logits(model, tokens)
    assert difference.abs().max() < 1e-4
    assert hf.read_shape(tmp_path / "out") == shape
    again = MegatronModel(shape, initialize=False)
    hf.load_weights(tmp_path / "out", again)
    assert all(torch.equal(a, b) for a, b in zip(model.gpt.parameters(), again.gpt.parameters(), strict=True))


def test_an_export_never_overwrites(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match="exists"):
        hf.export(scrambled(SHAPE), tmp_path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_type": "mixtral"}, "mixtral"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "scaled"),
        ({"head_dim": 128}, "head size"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"attention_bias": True}, "biases"),
        ({"model_type": "qwen2", "use_sliding_window": True}, "sliding"),
    ],
)
def test_what_would_be_computed_differently_is_refused(change: dict[str, Any], word: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(hf._hf_config(SHAPE, "float32") | change))
    with pytest.raises(EctypeError, match=word) as caught:
        hf.read_shape(tmp_path)
    assert "config.json" in caught.value.where and caught.value.remedy


def test_a_folder_without_model_or_with_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match="no Hugging Face model"):
        hf.read_shape(tmp_path)
    model = scrambled(SHAPE)
    with pytest.raises(EctypeError, match=r"word_embeddings|embed_tokens"):
        hf.load_weights(tmp_path, model)
    hf.export(model, tmp_path / "out")
    with pytest.raises(EctypeError, match="has shape"):
        hf.load_weights(tmp_path / "out", MegatronModel(msgspec.structs.replace(SHAPE, ffn=64)))


@pytest.mark.slow
def test_smollm2_computes_what_transformers_computes_and_survives_an_export(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = hf.load_smollm2()
    shape = hf.read_shape(folder)
    assert (shape.layers, shape.heads, shape.kv_heads, shape.vocab) == (30, 9, 3, 49152)
    model = MegatronModel(shape, initialize=False)
    hf.load_weights(folder, model)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer.encode("<|im_start|>user\nWrite `wc -l` in C.<|im_end|>\n<|im_start|>assistant\n")
    ours = logits(model, tokens)
    assert (transformers_logits(folder, tokens) - ours).abs().max() < 1e-3
    hf.export(model, tmp_path / "out", tokenizer_from=folder)
    del model
    assert (transformers_logits(tmp_path / "out", tokens) - ours).abs().max() < 1e-3
    assert AutoTokenizer.from_pretrained(tmp_path / "out").encode("a <|im_end|>") == tokenizer.encode("a <|im_end|>")


@pytest.mark.slow
def test_smollm2_fits_only_tensor_parallel_sizes_that_divide_its_heads() -> None:
    shape = hf.read_shape(hf.load_smollm2())
    shape.validate(tp=3)
    with pytest.raises(EctypeError, match=r"tensor parallel size 2 does not divide heads = 9") as caught:
        shape.validate(tp=2)
    assert "[1, 3]" in caught.value.remedy
