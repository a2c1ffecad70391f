"""The network of an actor or a critic: Megatron-Core's GPT model, configured and put together for this rank.

In: a shape and the layout of `rl.parallel`. Out: this pipeline stage's layers with tensor-parallel matrices, whose core
attention is `rl.attention` and whose output is an output matrix or a value head.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_layer_local_spec,
    get_gpt_layer_with_transformer_engine_spec,
)
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_layer import TransformerLayer
from torch.utils.checkpoint import checkpoint

from rl import parallel
from rl.attention import PackedAttention
from rl.shape import ModelShape
from rl.value_head import ValueHead, ValueSupport


class Norm:
    """torch's RMSNorm. Megatron's wrapper of it refuses sequence parallelism; `rl.optimizer` adds its gradients up."""

    def __new__(cls, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> torch.nn.RMSNorm:
        return torch.nn.RMSNorm(hidden_size, eps)


class RecomputedLayer(TransformerLayer):
    """A layer that keeps only its input for the backward pass, and runs again there, when the pack asks for it.

    Megatron's own recomputation restores CUDA random states; there is no randomness in these layers.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs["packed_seq_params"].recompute:
            return checkpoint(super().forward, *args, **kwargs, use_reentrant=False, preserve_rng_state=False)
        return super().forward(*args, **kwargs)


def transformer_config(shape: ModelShape, dtype: torch.dtype) -> TransformerConfig:
    return TransformerConfig(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_query_groups=shape.kv_heads,
        kv_channels=shape.head_dim,
        ffn_hidden_size=shape.ffn,
        normalization="RMSNorm",
        layernorm_epsilon=shape.norm_eps,
        gated_linear_unit=True,
        activation_func=F.silu,
        add_bias_linear=False,
        add_qkv_bias=shape.qkv_bias,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        qk_layernorm=shape.qk_norm,
        tensor_model_parallel_size=parallel.tp_size(),
        pipeline_model_parallel_size=parallel.pp_size(),
        pipeline_dtype=dtype,
        sequence_parallel=parallel.sequence_parallel(),
        # Megatron's 0.02 suits widths of thousands; a narrow model starts too close to zero and learns late
        init_method_std=max(0.02, shape.hidden**-0.5),
        params_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        # `rl.parameters` does it, so that the weights are the same in every layout
        use_cpu_initialization=True,
        perform_initialization=False,
        # fused kernels that come with Apex or Transformer Engine, or only on CUDA
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        apply_rope_fusion=False,
    )


def build(shape: ModelShape, config: TransformerConfig, critic: bool, support: ValueSupport | None) -> GPTModel:
    """This pipeline stage's part of the model, on the CPU, with undefined matrices."""
    one_stage = parallel.pp_size() == 1
    gpt = GPTModel(
        config,
        _layers(shape, config),
        vocab_size=shape.vocab,
        max_sequence_length=shape.max_positions,
        pre_process=parallel.is_first_stage(),
        post_process=parallel.is_last_stage(),
        parallel_output=True,
        # a critic is built as if tied, so that no output matrix is allocated for it; with several stages Megatron would
        # tie over CUDA, and `MegatronModel` does it instead
        share_embeddings_and_output_weights=one_stage and (shape.tied or critic),
        position_embedding_type="rope",
        rotary_base=shape.rope_base,  # pyright: ignore[reportArgumentType]
    )
    gpt.share_embeddings_and_output_weights = shape.tied and not critic
    if critic and parallel.is_last_stage():
        gpt.output_layer = ValueHead(config, support)  # pyright: ignore[reportAttributeAccessIssue]
    return gpt


def _layers(shape: ModelShape, config: TransformerConfig) -> Any:
    """Transformer Engine's layers in half precision on a GPU, where it is installed, else Megatron's own, with our
    attention and in the latter case our norms."""
    on_gpu = parallel.device().type == "cuda" and config.params_dtype in (torch.bfloat16, torch.float16)
    engine = on_gpu and importlib.util.find_spec("transformer_engine") is not None
    if engine:
        spec: Any = get_gpt_layer_with_transformer_engine_spec(qk_layernorm=shape.qk_norm)
    else:
        spec = get_gpt_layer_local_spec(normalization="RMSNorm", qk_layernorm=shape.qk_norm)
    spec.module = RecomputedLayer
    attention = spec.submodules.self_attention.submodules
    attention.core_attention = PackedAttention
    if engine:
        return spec
    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    if shape.qk_norm:
        attention.q_layernorm = attention.k_layernorm = Norm
    own_layers = shape.layers // parallel.pp_size()
    return TransformerBlockSubmodules(
        layer_specs=[spec] * own_layers,
        layer_norm=Norm,  # pyright: ignore[reportArgumentType]
    )
