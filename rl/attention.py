"""Core attention for packed sequences, as a Megatron module: causal within each sequence, nothing across.

In: queries, keys and values of a pack, [tokens, 1, heads, head_dim], and where its sequences begin. Out:
[tokens, 1, heads * head_dim]. Memory is linear in the tokens. In half precision on CUDA one variable-length kernel
does it; otherwise torch's fused attention is called once per sequence, which on CPU is faster than one call with a
block mask (measured: 3x) and needs no padding. With context parallelism the queries are this rank's tokens, and the
keys and values of the whole pack are gathered; only there, and only on CPU, a mask of one piece is held.
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
from torch.nn.attention.bias import causal_lower_right

from rl import context, parallel


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

    def pieces(self) -> list[tuple[int, int, int]]:
        """(queries, first key, end of keys) of what this rank's tokens are cut into, in order: within a piece the last
        query sees all of the keys. Without context parallelism a piece is a sequence."""
        found = []
        for low, high in context.own_ranges(sum(self.lengths)):
            start = 0
            for length in self.lengths:
                begin, end = max(start, low), min(start + length, high)
                if begin < end:
                    found.append((end - begin, start, end))
                start += length
        return found


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
        half_on_gpu = q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)
        if parallel.cp_size() > 1:
            k, v = (context.gather(x, sum_gradients=True) for x in (k, v))
            pieces = packed_seq_params.pieces()
            out = (_one_kernel_of_pieces if half_on_gpu else _per_piece)(q, k, v, pieces, self.scale)
        elif half_on_gpu:
            out = _one_kernel(q, k, v, packed_seq_params.cu_seqlens, packed_seq_params.lengths, self.scale)
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


def _per_piece(q: Tensor, k: Tensor, v: Tensor, pieces: list[tuple[int, int, int]], scale: float) -> Tensor:
    """Queries of this rank against keys and values of the whole pack, see `PackedSequences.pieces`."""
    out = []
    for queries, (count, begin, end) in zip(q.split([piece[0] for piece in pieces]), pieces, strict=True):
        seen = causal_lower_right(count, end - begin)
        attended = F.scaled_dot_product_attention(
            queries.transpose(0, 1)[None],
            k[begin:end].transpose(0, 1)[None],
            v[begin:end].transpose(0, 1)[None],
            # pyright does not know that the bias is a tensor
            attn_mask=seen,  # pyright: ignore[reportArgumentType]
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        out.append(attended[0].transpose(0, 1))
    return torch.cat(out)


def _one_kernel_of_pieces(q: Tensor, k: Tensor, v: Tensor, pieces: list[tuple[int, int, int]], scale: float) -> Tensor:
    keys = [end - begin for _, begin, end in pieces]
    k, v = (torch.cat([x[begin:end] for _, begin, end in pieces]) for x in (k, v))
    counts = [count for count, _, _ in pieces]
    return _one_kernel(q, k, v, _starts(counts, q.device), counts, scale, _starts(keys, q.device), keys)


def _starts(lengths: list[int], device: torch.device) -> Tensor:
    return F.pad(torch.tensor(lengths, dtype=torch.int32, device=device).cumsum(0, dtype=torch.int32), (1, 0))


def _one_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    starts: Tensor,
    lengths: list[int],
    scale: float,
    key_starts: Tensor | None = None,
    key_lengths: list[int] | None = None,
) -> Tensor:
    """Causal from the end: the last query of a sequence sees all of its keys."""
    from torch.nn.attention.varlen import varlen_attn

    out = varlen_attn(
        q,
        k,
        v,
        starts,
        starts if key_starts is None else key_starts,
        max(lengths),
        max(key_lengths or lengths),
        window_size=(-1, 0),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    assert isinstance(out, Tensor)
    return out
