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
from tests.rl.memory import allocated

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]

SHAPES = {
    "llama": msgspec.structs.replace(SHAPE, rope_base=50000.0),
    "llama untied": msgspec.structs.replace(SHAPE, tied=False, norm_eps=1e-6),
    "qwen2": msgspec.structs.replace(SHAPE, qkv_bias=True, kv_heads=1),
    "qwen2 untied": msgspec.structs.replace(SHAPE, qkv_bias=True, tied=False),
    "qwen3": msgspec.structs.replace(SHAPE, qk_norm=True, head_size=20),
    "qwen3 untied": msgspec.structs.replace(SHAPE, qk_norm=True, tied=False, kv_heads=1),
    "llama of wide heads": msgspec.structs.replace(SHAPE, head_size=16),
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


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Llama", {"tie_word_embeddings": True}),
        ("Llama", {"head_dim": 16, "num_key_value_heads": 4}),
        ("Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
        ("Qwen2", {}),
        ("Qwen3", {"head_dim": 16}),
        ("Qwen3", {"tie_word_embeddings": True}),  # transformers' own head size of 128
    ],
)
def test_a_model_of_transformers_survives_the_way_in_and_out(kind: str, change: dict[str, Any], tmp_path: Path) -> None:
    """Several files in; the same logits here (fp32: 1e-5), and exactly the same in transformers after the export."""
    import transformers

    told = {
        "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.3, "tie_word_embeddings": False,
    }  # fmt: skip
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(told | change))
    original = getattr(transformers, f"{kind}ForCausalLM")(config)
    for parameter in original.parameters():
        if parameter.ndim == 1:  # norms are ones, and biases zero
            parameter.data += torch.randn_like(parameter) * 0.2
    original.save_pretrained(tmp_path / "in", max_shard_size="20KB")
    assert len(list((tmp_path / "in").glob("*.safetensors"))) > 1
    model = MegatronModel(hf.read_shape(tmp_path / "in"), initialize=False)
    hf.load_weights(tmp_path / "in", model)
    tokens = np.random.default_rng(0).integers(0, 60, 50).tolist()
    expected = transformers_logits(tmp_path / "in", tokens)
    assert expected.std() > 0.3
    assert (logits(model, tokens) - expected).abs().max() < 1e-5 * expected.abs().max()
    hf.export(model, tmp_path / "out")
    assert torch.equal(transformers_logits(tmp_path / "out", tokens), expected)


def test_weights_are_read_and_written_a_tensor_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the model itself, never more than a few tensors or one file's worth exist."""
    shape = msgspec.structs.replace(SHAPE, layers=48)
    model = scrambled(shape)
    size = sum(p.nbytes for p in model.gpt.parameters())
    largest = max(p.nbytes for p in model.gpt.parameters())
    file = size // 40
    monkeypatch.setattr("rl.hf.SHARD_BYTES", file)
    assert allocated(lambda: hf.export(model, tmp_path / "out")) < file + 4 * largest
    again = MegatronModel(shape, initialize=False)
    # a file counts as long as one of its tensors is looked at, although it is only mapped: at most six at a time
    assert allocated(lambda: hf.load_weights(tmp_path / "out", again)) < 6 * (file + largest) < size / 2


def test_an_export_never_overwrites(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match="exists"):
        hf.export(scrambled(SHAPE), tmp_path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_type": "mixtral"}, "mixtral"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "scaled"),
        ({"model_type": "qwen3", "attention_bias": True}, "biases"),
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
