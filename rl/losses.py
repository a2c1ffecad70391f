"""The PPO losses, as pure functions on torch tensors of one pack.

In: what the model says now and what was recorded, all [tokens] and aligned, and the number of action tokens of the
*global* batch. Out: a scalar to differentiate, and statistics. Both are sums over this pack divided by that number:
adding them over packs and ranks gives the token-level mean of the global batch, so no split into micro-batches and
no packing order changes the gradient. Tokens that are no actions contribute nothing, whatever they hold.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Stats = dict[str, Tensor]

_LOG_RATIO_LIMIT = 20.0
"""exp(20) is far outside every trust band; beyond it fp32 would overflow into inf * 0."""


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
    normalizer: float,
    mode: Literal["mask", "clip"] = "mask",
    entropy: Tensor | None = None,
    entropy_coef: float = 0.0,
    ref_logprobs: Tensor | None = None,
    kl_coef: float = 0.0,
) -> tuple[Tensor, Stats]:
    """Policy gradient with the ratio r to the log-probs recorded at rollout. All tensors [tokens].

    `mode="mask"` (double-sided, SAO): -r·A where 1 - eps_low <= r <= 1 + eps_high, and nothing outside, in either
    direction: what has drifted out of the trust band, by staleness or by this update, teaches nothing.
    `mode="clip"` (PPO): -min(r·A, clip(r, 1 - eps_low, 1 + eps_high)·A).

    Entropy (exact, of the model's distribution) is subtracted times `entropy_coef`. The penalty to a reference is
    the low-variance estimate exp(d) - d - 1, d = ref - logprob, times `kl_coef`.

    Statistics: policy_loss, kl (to the recorded policy, estimate r - 1 - log r), ratio, outside (fraction of tokens
    outside the band), entropy and ref_kl when given.
    """
    keep = mask != 0
    zero = torch.zeros((), dtype=logprobs.dtype, device=logprobs.device)
    log_ratio = torch.where(keep, logprobs - old_logprobs, zero).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    gain = torch.where(keep, advantages, zero)
    ratio = log_ratio.exp()
    inside = (ratio.detach() >= 1 - eps_low) & (ratio.detach() <= 1 + eps_high)
    if mode == "mask":
        per_token = -torch.where(inside, ratio, zero) * gain
    else:
        per_token = -torch.minimum(ratio * gain, ratio.clamp(1 - eps_low, 1 + eps_high) * gain)
    loss = per_token.sum() / normalizer
    with torch.no_grad():
        stats = {
            "policy_loss": loss.detach(),
            "kl": torch.where(keep, ratio - 1 - log_ratio, zero).sum() / normalizer,
            "ratio": torch.where(keep, ratio, zero).sum() / normalizer,
            "outside": (keep & ~inside).sum().to(logprobs.dtype) / normalizer,
        }
    if entropy is not None:
        mean_entropy = torch.where(keep, entropy, zero).sum() / normalizer
        loss = loss - entropy_coef * mean_entropy
        stats["entropy"] = mean_entropy.detach()
    if ref_logprobs is not None:
        distance = torch.where(keep, ref_logprobs - logprobs, zero).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        ref_kl = (distance.exp() - distance - 1).sum() / normalizer
        loss = loss + kl_coef * ref_kl
        stats["ref_kl"] = ref_kl.detach()
    return loss, stats


def value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, *, clip: float | None, normalizer: float
) -> tuple[Tensor, Stats]:
    """Half the squared error to the returns, with PPO's clipping around the old values. All tensors [tokens].

    With `clip` c: 0.5 · max((v - R)², (old + clamp(v - old, -c, c) - R)²); None: 0.5 · (v - R)².
    Statistics: value_loss, value_clipped (fraction where the clipped branch is the larger).
    """
    keep = mask != 0
    zero = torch.zeros((), dtype=values.dtype, device=values.device)
    error = torch.where(keep, values - returns, zero) ** 2
    clipped = torch.zeros_like(keep)
    if clip is not None:
        bounded = old_values + (values - old_values).clamp(-clip, clip)
        bounded_error = torch.where(keep, bounded - returns, zero) ** 2
        # inside the band the two errors are equal but for rounding, which must not be counted
        clipped = ((values - old_values).abs() > clip) & (bounded_error > error)
        error = torch.maximum(error, bounded_error)
    loss = 0.5 * error.sum() / normalizer
    return loss, {
        "value_loss": loss.detach(),
        "value_clipped": clipped.sum().to(values.dtype) / normalizer,
    }


def supervised_loss(logprobs: Tensor, mask: Tensor, *, normalizer: float) -> tuple[Tensor, Stats]:
    """Negative log-likelihood of the masked tokens, for the warm start on demonstrations. Tensors [tokens]."""
    loss = -torch.where(mask != 0, logprobs, torch.zeros_like(logprobs)).sum() / normalizer
    return loss, {"nll": loss.detach()}
