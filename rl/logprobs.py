"""Log-probabilities and entropies from hidden states, without ever holding [tokens, vocabulary].

In: hidden states [tokens, hidden], this rank's rows of the output matrix [vocabulary / tp, hidden], and the target
tokens. Out: log p(target) and the exact entropy, [tokens], at a temperature. Logits exist for a chunk of tokens at a
time, in fp32 (or wider), and are computed again in the backward pass; the vocabulary may be split over the
tensor-parallel ranks. The gradient is written by hand: autograd would keep every chunk.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from rl import parallel

CHUNK_ELEMENTS = 512 * 49152
"""Logits held at once, 100 MB in fp32: 512 tokens of a vocabulary of 49152, many more of a small one."""


def logprobs_and_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """`hidden` [n, h], `weight` [v / tp, h], `targets` int64 [n] (global ids) -> log-probs [n], entropies [n].

    Differentiable in `hidden` and `weight`, through both outputs.
    """
    return _LogProbs.apply(hidden, weight, targets, 1.0 / temperature)  # pyright: ignore[reportReturnType]


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        n = hidden.shape[0]
        wide = torch.promote_types(hidden.dtype, torch.float32)
        logprob, entropy, log_z = (torch.empty(n, dtype=wide, device=hidden.device) for _ in range(3))
        local, mine = _local_targets(targets, weight.shape[0])
        for part in _chunks(n, weight.shape[0]):
            logits = F.linear(hidden[part], weight).to(wide)
            logits *= scale
            top = logits.amax(-1)
            _all_reduce(top, dist.ReduceOp.MAX)
            logits -= top[:, None]
            target = torch.where(mine[part], logits.gather(-1, local[part, None])[:, 0], 0)
            exp = logits.exp()
            sums = torch.stack([exp.sum(-1), exp.mul_(logits).sum(-1), target])
            _all_reduce(sums, dist.ReduceOp.SUM)
            log_z[part] = sums[0].log()
            logprob[part] = sums[2] - log_z[part]
            entropy[part] = log_z[part] - sums[1] / sums[0]
            log_z[part] += top
        ctx.save_for_backward(hidden, weight, local, mine, log_z, entropy)
        ctx.scale = scale
        return logprob, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_logprob, grad_entropy = grads
        hidden, weight, local, mine, log_z, entropy = ctx.saved_tensors
        with_entropy = bool(grad_entropy.any())
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        for part in _chunks(hidden.shape[0], weight.shape[0]):
            logits = F.linear(hidden[part], weight).to(log_z.dtype)
            logits *= ctx.scale
            log_p = logits.sub_(log_z[part, None])
            p = log_p.exp()
            # d logp(t)/d logit = [t] - p;  d H/d logit = -p (log p + H)
            if with_entropy:
                log_p += entropy[part, None]
                log_p *= grad_entropy[part, None]
                log_p += grad_logprob[part, None]
                grad = p.mul_(log_p).neg_()
            else:
                grad = p.mul_(-grad_logprob[part, None])
            own = torch.where(mine[part], grad_logprob[part], 0)
            grad.scatter_add_(-1, local[part, None], own[:, None])
            grad *= ctx.scale
            grad = grad.to(hidden.dtype)
            grad_hidden[part] = grad @ weight
            grad_weight.addmm_(grad.t(), hidden[part])
        _all_reduce(grad_hidden, dist.ReduceOp.SUM)
        return grad_hidden, grad_weight, None, None


def _chunks(tokens: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_ELEMENTS // vocabulary)
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, size)]


def _local_targets(targets: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Target ids as rows of this rank's part, and which of them it has (row 0 stands in for the others)."""
    local = targets - parallel.tp_rank() * rows
    mine = (local >= 0) & (local < rows)
    return torch.where(mine, local, 0), mine


def _all_reduce(tensor: Tensor, op: dist.ReduceOp.RedOpType) -> None:
    if parallel.tp_size() > 1:
        dist.all_reduce(tensor, op, group=parallel.tp_group())
