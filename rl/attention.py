"""Core attention for packed sequences, as a Megatron module: causal within each sequence, nothing across.

In: queries, keys and values of a pack, [tokens, 1, heads, head_dim], and where its sequences begin. Out:
[tokens, 1, heads * head_dim]. Memory is linear in the tokens. In half precision on CUDA one variable-length kernel
does it; otherwise torch's fused attention is called once per sequence, which on CPU is faster than one call with a
block mask (measured: 3x) and needs no padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer import MegatronModule, TransformerConfig
from torch import Tensor


@dataclass
class PackedSequences(PackedSeqParams):
    """Where the sequences of a pack begin. `cu_seqlens` int32 [sequences + 1], `lengths` their lengths.

    `qkv_format` stays "sbhd": Megatron then applies the rotary embedding to the whole pack at once, with the
    per-token angles the model hands it, instead of cutting the pack into sequences in every layer.
    """

    qkv_format: str = "sbhd"
    cu_seqlens: Tensor = field(default_factory=lambda: torch.zeros(1, dtype=torch.int32))
    lengths: list[int] = field(default_factory=list)
    recompute: bool = False
    """Layers keep only their input and run again in the backward pass."""


class PackedAttention(MegatronModule):
    """What the layer spec puts in the place of Megatron's core attention (which needs CUDA and refuses packing)."""

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        softmax_scale: float | None = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        self.scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels or 1)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: PackedSequences | None = None,
    ) -> Tensor:
        assert packed_seq_params is not None and attention_mask is None and attention_bias is None
        q, k, v = query.squeeze(1), key.squeeze(1), value.squeeze(1)
        if q.is_cuda and q.dtype in (torch.bfloat16, torch.float16):
            out = _one_kernel(q, k, v, packed_seq_params, self.scale)
        else:
            out = _per_sequence(q, k, v, packed_seq_params.lengths, self.scale)
        return out.reshape(out.shape[0], 1, -1)


def _per_sequence(q: Tensor, k: Tensor, v: Tensor, lengths: list[int], scale: float) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    # split, not slicing: the backward of a slice fills a gradient as long as the whole pack, once per sequence
    pieces = [
        F.scaled_dot_product_attention(
            a.transpose(0, 1)[None],
            b.transpose(0, 1)[None],
            c.transpose(0, 1)[None],
            is_causal=True,
            scale=scale,
            enable_gqa=grouped,
        )[0].transpose(0, 1)
        for a, b, c in zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True)
    ]
    return torch.cat(pieces)


def _one_kernel(q: Tensor, k: Tensor, v: Tensor, packed: PackedSequences, scale: float) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    starts, longest = packed.cu_seqlens, max(packed.lengths)
    out = varlen_attn(
        q,
        k,
        v,
        starts,
        starts,
        longest,
        longest,
        window_size=(-1, 0),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    assert isinstance(out, Tensor)
    return out
