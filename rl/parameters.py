"""What every parameter of a model is: its name in the whole model, how ranks share it, and how it begins.

In: the names that Megatron gives parameters on one pipeline stage. Out: names that do not depend on the stage, the
dimension that tensor-parallel ranks split, and first values that depend on a seed and on nothing else: every rank
draws the whole model from one generator, in one order, and keeps its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from megatron.core.transformer import TransformerConfig
from torch import Tensor
from torch.nn import Parameter

EMBEDDING = "embedding.word_embeddings.weight"
OUTPUT = "output_layer.weight"
_LAYERS = "decoder.layers."
_SPLIT_ROWS = ("embedding.word_embeddings.weight", "output_layer.weight", ".linear_qkv.weight", ".linear_qkv.bias")
_SPLIT_COLUMNS = (".linear_proj.weight", ".linear_fc2.weight")
_GATED = ".linear_fc1.weight"
_FUSED = {
    "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
    "mlp.linear_fc1.layer_norm_weight": "pre_mlp_layernorm.weight",
}
_PER_HEAD = (".q_layernorm.weight", ".k_layernorm.weight")


def global_name(name: str, first_layer: int) -> str:
    """The name in the whole model of what is called `name` on a stage that begins with layer `first_layer`.

    Transformer Engine's layers have the norms inside the matrices that follow; they get the names of separate ones.
    """
    if not name.startswith(_LAYERS):
        return name
    layer, rest = name.removeprefix(_LAYERS).split(".", 1)
    return f"{_LAYERS}{int(layer) + first_layer}.{_FUSED.get(rest, rest)}"


def split_dimension(name: str) -> int | None:
    """The dimension of which tensor-parallel ranks hold different parts; None: each holds all of it."""
    if name.endswith((*_SPLIT_ROWS, _GATED)):
        return 0
    return 1 if name.endswith(_SPLIT_COLUMNS) else None


def is_gated(name: str) -> bool:
    """Whether it is two matrices, gate and up, one above the other, of which each is split by itself."""
    return name.endswith(_GATED)


def has_partial_gradient(name: str, sequence_parallel: bool) -> bool:
    """Whether a parameter is whole on every tensor-parallel rank and yet has only a part of its gradient there: that of
    the heads, or with sequence parallelism of the tokens, that the rank sees."""
    return name.endswith(_PER_HEAD) or (sequence_parallel and name.endswith("layernorm.weight"))


def share(name: str, whole: Tensor, tp: int, rank: int) -> Tensor:
    """What tensor-parallel rank `rank` of `tp` has of a parameter."""
    dimension = split_dimension(name)
    if dimension is None or tp == 1:
        return whole
    if is_gated(name):
        return torch.cat([half.chunk(tp)[rank] for half in whole.chunk(2)])
    return whole.chunk(tp, dimension)[rank]


def initialize(
    parameters: dict[str, Parameter], config: TransformerConfig, *, layers: int, vocab: int, tied: bool, rank: int
) -> None:
    """Draw the matrices of a model, by their global names, from torch's generator on the CPU.

    The order and the deviations are those of Megatron's own CPU initialization of an undivided model. Norms keep
    their ones, biases become zero. Parameters of other stages are drawn too, and dropped.
    """
    tp = config.tensor_model_parallel_size
    for name, parameter in parameters.items():
        if name.endswith(".bias"):
            parameter.data.zero_()
    for name, rows, columns, draw in _matrices(config, layers, vocab, tied):
        whole = torch.empty(rows, columns)
        draw(whole)
        # a tied output matrix is a second copy of the embedding, on the last of several stages
        for own in (name, OUTPUT) if tied and name == EMBEDDING else (name,):
            if own in parameters:
                parameters[own].data.copy_(share(own, whole, tp, rank))


def _matrices(
    config: TransformerConfig, layers: int, vocab: int, tied: bool
) -> Iterator[tuple[str, int, int, Callable[[Tensor], object]]]:
    """(global name, rows, columns, how to fill) of every matrix, in the order in which they are drawn."""
    plain, scaled = config.init_method, config.output_layer_init_method
    assert plain is not None and scaled is not None and config.kv_channels and config.num_query_groups
    hidden, ffn = config.hidden_size, config.ffn_hidden_size
    assert ffn is not None
    queries, keys = config.num_attention_heads * config.kv_channels, config.num_query_groups * config.kv_channels
    yield EMBEDDING, vocab, hidden, plain
    for layer in range(layers):
        prefix = f"{_LAYERS}{layer}."
        yield f"{prefix}self_attention.linear_proj.weight", hidden, queries, scaled
        yield f"{prefix}self_attention.linear_qkv.weight", queries + 2 * keys, hidden, plain
        yield f"{prefix}mlp.linear_fc1.weight", 2 * ffn, hidden, plain
        yield f"{prefix}mlp.linear_fc2.weight", hidden, ffn, scaled
    if not tied:
        yield OUTPUT, vocab, hidden, plain
