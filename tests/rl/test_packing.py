from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.packing import balance, make_packs, pack_by_tokens, sample


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 120), max_size=60), st.integers(1, 200))
def test_every_index_once_and_within_the_budget(lengths: list[int], budget: int) -> None:
    groups = pack_by_tokens(lengths, budget)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert sum(lengths[i] for i in group) <= budget or len(group) == 1
    # best fit: no two groups could have been one
    sizes = sorted(sum(lengths[i] for i in group) for group in groups)
    assert len(sizes) < 2 or sizes[0] + sizes[1] > budget


def test_longest_first() -> None:
    assert pack_by_tokens([10, 90, 30, 60, 100], 100) == [[4], [1, 0], [3, 2]]
    assert pack_by_tokens([500, 1], 100) == [[0], [1]]
    assert pack_by_tokens([], 100) == []
    with pytest.raises(ValueError, match="budget"):
        pack_by_tokens([1], 0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40000), max_size=60), st.integers(1, 8))
def test_no_rank_waits_longer_than_one_sequence_takes(lengths: list[int], parts: int) -> None:
    shares = balance(lengths, parts)
    assert len(shares) == parts
    assert sorted(i for share in shares for i in share) == list(range(len(lengths)))
    cost = [sum(lengths[i] + lengths[i] ** 2 / 4096 for i in share) for share in shares]
    longest = max(lengths, default=0)
    assert max(cost) - min(cost) <= (longest + longest**2 / 4096) * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(1, 400))
def test_every_token_is_in_one_pack(lengths: list[int], budget: int) -> None:
    starts = np.cumsum([0, *lengths])
    made = [sample(np.arange(a, b), np.zeros(b - a)) for a, b in pairwise(starts)]
    packs = make_packs(made, budget)
    assert sorted(t for pack in packs for t in pack.tokens) == list(range(starts[-1]))
    for pack in packs:
        assert len(pack.tokens) == pack.cu_seqlens[-1] and pack.cu_seqlens[0] == 0
        # what is longer than the budget stands alone, and comes before everything that is not
        assert len(pack.tokens) <= budget or len(pack.indices) == 1
    sizes = [len(pack.tokens) > budget for pack in packs]
    assert sizes == sorted(sizes, reverse=True)


def test_packs_keep_every_array_aligned() -> None:
    rng = np.random.default_rng(0)
    lengths = [5, 17, 1, 9, 40]
    samples = [
        sample(
            rng.integers(0, 50, n),
            np.r_[0, rng.integers(0, 2, n - 1)],
            logprobs=rng.normal(size=n),
            advantages=rng.normal(size=n),
            returns=rng.normal(size=n),
            values=rng.normal(size=n),
        )
        for n in lengths
    ]
    packs = make_packs(samples, 32)
    assert sorted(i for p in packs for i in p.indices) == list(range(5))
    for pack in packs:
        assert pack.lengths == [lengths[i] for i in pack.indices]
        assert pack.action_tokens == sum(int(samples[i].action_mask.sum()) for i in pack.indices)
        for name in ("tokens", "action_mask", "logprobs", "advantages", "returns", "values"):
            for i, piece in zip(pack.indices, pack.split(getattr(pack, name)), strict=True):
                np.testing.assert_array_equal(piece, getattr(samples[i], name))


def test_sample_refuses_what_does_not_align() -> None:
    with pytest.raises(ValueError, match="logprobs"):
        sample([1, 2], [0, 1], logprobs=[0.0])
    with pytest.raises(ValueError, match="first token"):
        sample([1, 2], [1, 1])


def test_balance_shares_by_attention_cost() -> None:
    shares = balance([8192, 4096, 4096, 4096, 10, 10], 2)
    assert sorted(i for share in shares for i in share) == list(range(6))
    cost = [sum(n + n * n / 4096 for n in ([8192, 4096, 4096, 4096, 10, 10][i] for i in share)) for share in shares]
    assert abs(cost[0] - cost[1]) < 100
