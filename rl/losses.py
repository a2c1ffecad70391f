"""The PPO losses, as pure functions on torch tensors of one pack.

In: what the model says now and what was recorded, all [tokens] and aligned, and the number of action tokens of the
*global* batch. Out: a scalar to differentiate, and statistics. Both are sums over this pack divided by that number:
adding them over packs and ranks gives the token-level mean of the global batch, so no split into micro-batches and
no packing order changes the gradient. Tokens that are no actions contribute nothing, whatever they hold.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
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
    kl_estimator: Literal["k2", "k3"] = "k3",
    weights: Tensor | None = None,
) -> tuple[Tensor, Stats]:
    """Policy gradient with the ratio r to the old log-probs, recorded or recomputed. All tensors [tokens].

    `mode="mask"` (double-sided, SAO): -r·A where 1 - eps_low <= r <= 1 + eps_high, and nothing outside, in either
    direction: what has drifted out of the trust band, by staleness or by this update, teaches nothing.
    `mode="clip"` (PPO): -min(r·A, clip(r, 1 - eps_low, 1 + eps_high)·A).

    `weights` multiplies the policy gradient of each token: `importance_weights` of old log-probs that are not those
    of the engine that sampled. Entropy (exact, of the model's distribution) is subtracted times `entropy_coef`. The
    penalty to a reference is added times `kl_coef`; with d = ref - logprob it is `k3`: exp(d) - d - 1, unbiased and
    never negative, or `k2`: d² / 2, whose gradient is, on policy, the one of the exact KL (Schulman 2020; Tang &
    Munos 2025).

    Statistics: policy_loss, kl (to the old policy, estimate r - 1 - log r), ratio, outside (fraction of tokens
    outside the band), clipped (fraction whose policy gradient the band took away), entropy and ref_kl when given.
    """
    keep = mask != 0
    zero = torch.zeros((), dtype=logprobs.dtype, device=logprobs.device)
    log_ratio = torch.where(keep, logprobs - old_logprobs, zero).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
    gain = torch.where(keep, advantages, zero)
    ratio = log_ratio.exp()
    inside = (ratio.detach() >= 1 - eps_low) & (ratio.detach() <= 1 + eps_high)
    if mode == "mask":
        per_token = -torch.where(inside, ratio, zero) * gain
        cut = ~inside
    else:
        per_token = -torch.minimum(ratio * gain, ratio.clamp(1 - eps_low, 1 + eps_high) * gain)
        cut = ~inside & (torch.sign(ratio.detach() - 1) == torch.sign(gain))
    if weights is not None:
        per_token = per_token * torch.where(keep, weights, zero)
    loss = per_token.sum() / normalizer
    with torch.no_grad():
        stats = {
            "policy_loss": loss.detach(),
            "kl": torch.where(keep, ratio - 1 - log_ratio, zero).sum() / normalizer,
            "ratio": torch.where(keep, ratio, zero).sum() / normalizer,
            "outside": (keep & ~inside).sum().to(logprobs.dtype) / normalizer,
            "clipped": (keep & cut).sum().to(logprobs.dtype) / normalizer,
        }
    if entropy is not None:
        mean_entropy = torch.where(keep, entropy, zero).sum() / normalizer
        loss = loss - entropy_coef * mean_entropy
        stats["entropy"] = mean_entropy.detach()
    if ref_logprobs is not None:
        distance = torch.where(keep, ref_logprobs - logprobs, zero).clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
        per_token = 0.5 * distance**2 if kl_estimator == "k2" else distance.exp() - distance - 1
        ref_kl = per_token.sum() / normalizer
        loss = loss + kl_coef * ref_kl
        stats["ref_kl"] = ref_kl.detach()
    return loss, stats


def importance_weights(logprobs: Tensor, behaviour_logprobs: Tensor, mask: Tensor, *, cap: float) -> Tensor:
    """min(exp(logprob - behaviour), cap) of action tokens, 1 elsewhere: truncated importance sampling (TIS).

    `behaviour_logprobs` are the engine's, `logprobs` the trainer's of the same policy: they differ by kernels and
    precision, and without correction the gradient is of neither. All [tokens], no gradient.
    """
    ratio = (logprobs - behaviour_logprobs).detach().clamp(-_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT).exp().clamp(max=cap)
    return torch.where(mask != 0, ratio, torch.ones_like(ratio))


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


def hl_gauss(returns: Tensor, edges: Tensor, sigma: float) -> Tensor:
    """Target distributions of a categorical critic: returns [n], bin edges [bins + 1] -> probabilities [n, bins].

    The probability of a bin is the mass that a normal distribution around the return puts into it, divided by the
    mass inside all bins (HL-Gauss; Farebrother et al. 2024, "Stop Regressing"). `sigma` in units of the returns.
    """
    clamped = returns.clamp(edges[0], edges[-1])
    below = 0.5 * (1 + torch.erf((edges - clamped[:, None]) / (sigma * math.sqrt(2))))
    mass = below.diff(dim=-1)
    return mass / mass.sum(-1, keepdim=True)


def categorical_value_loss(
    logits: Tensor, returns: Tensor, mask: Tensor, *, edges: Tensor, sigma: float, normalizer: float
) -> tuple[Tensor, Stats]:
    """Cross entropy of a categorical critic to `hl_gauss` targets. `logits` [tokens, bins], others [tokens].

    Statistics: value_loss (the cross entropy less the entropy of the targets, so that 0 is perfect), value_clipped
    (always 0: there is nothing to clip, errors cannot be large).
    """
    keep = (mask != 0).nonzero()[:, 0]
    target = hl_gauss(returns[keep].to(logits.dtype), edges.to(logits.dtype), sigma)
    loss = F.cross_entropy(logits[keep], target, reduction="sum") / normalizer
    floor = torch.special.entr(target).sum() / normalizer
    return loss, {"value_loss": loss.detach() - floor, "value_clipped": torch.zeros_like(floor)}


def supervised_loss(logprobs: Tensor, mask: Tensor, *, normalizer: float) -> tuple[Tensor, Stats]:
    """Negative log-likelihood of the masked tokens, for the warm start on demonstrations. Tensors [tokens]."""
    loss = -torch.where(mask != 0, logprobs, torch.zeros_like(logprobs)).sum() / normalizer
    return loss, {"nll": loss.detach()}
