"""Context parallelism: the tokens of one pack on several ranks, so that one long episode need not fit on one of them.

In: a pack's length. Out: which tokens are this rank's, and collectives along the tokens. A pack is cut into twice as
many chunks as there are ranks; rank r has chunk r from the front and chunk r from the back, since in causal attention a
token costs as much as there are tokens before it. Keys and values are gathered for each layer (Llama 3, Grattafiori et
al. 2024, section 3.3.2), which for grouped queries is a small part of the activations.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rl import parallel


def multiple() -> int:
    """What the length of a pack must be a multiple of; what is missing is padding."""
    chunks = 2 * parallel.cp_size() if parallel.cp_size() > 1 else 1
    return chunks * (parallel.tp_size() if parallel.sequence_parallel() else 1)


def own_ranges(tokens: int) -> list[tuple[int, int]]:
    """[begin, end) of this rank's tokens of a pack of `tokens` (a multiple of `multiple`), in order."""
    ranks, rank = parallel.cp_size(), parallel.cp_rank()
    if ranks == 1:
        return [(0, tokens)]
    size = tokens // (2 * ranks)
    return [(i * size, (i + 1) * size) for i in (rank, 2 * ranks - 1 - rank)]


def gather(own: Tensor, *, sum_gradients: bool) -> Tensor:
    """[own tokens, ...] -> [tokens, ...] of the whole pack.

    With `sum_gradients` the ranks go on to compute different things with it, without it all of them the same.
    """
    if parallel.cp_size() == 1:
        return own
    out = _Gather.apply(own, sum_gradients)
    assert isinstance(out, Tensor)
    return out


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, sum_gradients: bool) -> Tensor:
        ctx.sum_gradients = sum_gradients
        parts = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(parallel.cp_size())]
        dist.all_gather(parts, own.contiguous(), group=parallel.cp_group())
        front, back = zip(*(part.chunk(2) for part in parts), strict=True)
        return torch.cat([*front, *reversed(back)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,) = grads
        if ctx.sum_gradients:
            grad = grad.contiguous().clone()
            dist.all_reduce(grad, group=parallel.cp_group())
        return torch.cat([grad[begin:end] for begin, end in own_ranges(len(grad))]), None
