"""Samples of any length in, packs of at most a budget of tokens out, without padding.

A pack is several whole sequences laid end to end with the offsets at which they start, so that memory depends on
the token budget and never on how uneven the lengths are. All per-token arrays are aligned with the token they are
about: entry i of `logprobs` is log p(token i | tokens before i), entry i of `values` is V(state before token i).
A sequence is never split and never truncated here: one that is longer than the budget gets a pack of its own.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


class Sample(msgspec.Struct, kw_only=True):
    """One sequence for the trainer; every array has shape [tokens]. `action_mask` is 1 on tokens to learn from.

    Fields that a step does not need (advantages for supervised learning, say) are filled with zeros by `sample`.
    """

    tokens: Ints
    action_mask: Ints
    logprobs: Floats
    """Old log-probs, which the ratio is taken to: recorded at rollout, at the sampling temperature."""
    advantages: Floats
    returns: Floats
    values: Floats
    """The critic's values when the advantages were computed."""
    weights: Floats
    """What the policy gradient of each token is multiplied by, see `rl.losses.importance_weights`; 1 by default."""
    ref_logprobs: Floats
    """Of the frozen reference policy, where there is one."""


def sample(
    tokens: Sequence[int] | Ints,
    action_mask: Sequence[int] | Ints,
    *,
    logprobs: Sequence[float] | Floats | None = None,
    advantages: Floats | None = None,
    returns: Floats | None = None,
    values: Floats | None = None,
) -> Sample:
    """Build a `Sample`, checking that everything is as long as `tokens`; raises ValueError if not."""
    length = len(tokens)
    floats = {
        "logprobs": logprobs,
        "advantages": advantages,
        "returns": returns,
        "values": values,
        "ref_logprobs": None,
    }
    arrays = {
        name: np.zeros(length, np.float32) if given is None else np.asarray(given, np.float32)
        for name, given in floats.items()
    }
    mask = np.asarray(action_mask, np.int8)
    for name, array in {"action_mask": mask, **arrays}.items():
        if array.shape != (length,):
            raise ValueError(f"sample of {length} tokens has {name} of shape {array.shape}")
    if length and mask[0]:
        raise ValueError("the first token of a sequence cannot be an action: nothing precedes it")
    return Sample(tokens=np.asarray(tokens, np.int64), action_mask=mask, weights=np.ones(length, np.float32), **arrays)


class Pack(msgspec.Struct, kw_only=True):
    """Sequences end to end. `cu_seqlens` [sequences + 1] starts with 0 and ends with the number of tokens T; every
    other array is [T], except `indices`: which sample each sequence is."""

    tokens: Ints
    cu_seqlens: Ints
    action_mask: Ints
    logprobs: Floats
    advantages: Floats
    returns: Floats
    values: Floats
    weights: Floats
    ref_logprobs: Floats
    indices: list[int]

    @property
    def lengths(self) -> list[int]:
        return np.diff(self.cu_seqlens).tolist()

    @property
    def action_tokens(self) -> int:
        return int(self.action_mask.sum())

    def split(self, aligned: NDArray) -> list[NDArray]:
        """Cut an array [T] back into one piece per sequence, in the order of `indices`."""
        return np.split(aligned, self.cu_seqlens[1:-1])


def pack_by_tokens(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group indices so that no group has more than `budget` tokens, placing the longest first where it fits best.

    A length above the budget gets its own group. Best-fit decreasing: at most 11/9 of the optimal number of groups
    (+1). The longest groups come first, so that a batch that does not fit in memory fails at its start.
    """
    if budget <= 0:
        raise ValueError(f"token budget {budget} must be positive")
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    groups: list[list[int]] = []
    space: list[tuple[int, int]] = []  # (tokens left, group), sorted
    for i in order:
        fit = bisect_left(space, (lengths[i], -1))
        if fit == len(space):
            groups.append([])
            left, group = budget, len(groups) - 1
        else:
            left, group = space.pop(fit)
        groups[group].append(i)
        if left > lengths[i]:
            insort(space, (left - lengths[i], group))
    return groups


def make_packs(samples: Sequence[Sample], budget: int) -> list[Pack]:
    """Pack samples (all of them, each once) into packs of at most `budget` tokens."""
    return [_join(samples, group) for group in pack_by_tokens([len(s.tokens) for s in samples], budget)]


def balance(lengths: Sequence[int], parts: int, *, attention_weight: float = 1 / 4096) -> list[list[int]]:
    """Share indices out over data-parallel ranks so that every rank gets about the same cost.

    Cost of a sequence of n tokens: n + n² · attention_weight (matrix products grow with n, attention with n²; they
    meet at 1 / attention_weight tokens: `ModelShape.attention_weight`). Longest first to the rank with least so far.
    """
    heap: list[tuple[float, int]] = [(0.0, part) for part in range(parts)]
    shares: list[list[int]] = [[] for _ in range(parts)]
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        cost, part = heapq.heappop(heap)
        shares[part].append(i)
        heapq.heappush(heap, (cost + lengths[i] + lengths[i] ** 2 * attention_weight, part))
    return shares


def _join(samples: Sequence[Sample], group: list[int]) -> Pack:
    members = [samples[i] for i in group]
    ends = np.cumsum([len(s.tokens) for s in members], dtype=np.int32)
    return Pack(
        tokens=np.concatenate([s.tokens for s in members]),
        cu_seqlens=np.concatenate([np.zeros(1, np.int32), ends]),
        action_mask=np.concatenate([s.action_mask for s in members]),
        logprobs=np.concatenate([s.logprobs for s in members]),
        advantages=np.concatenate([s.advantages for s in members]),
        returns=np.concatenate([s.returns for s in members]),
        values=np.concatenate([s.values for s in members]),
        weights=np.concatenate([s.weights for s in members]),
        ref_logprobs=np.concatenate([s.ref_logprobs for s in members]),
        indices=list(group),
    )
