from __future__ import annotations

import numpy as np
import pytest

from rl.diagnostics import actions, bucket_name, critic_quality, packing_quality, terminal_signal
from rl.packing import Sample, make_packs, sample


def played(count: int, values: float, returns: float) -> Sample:
    """An episode of `count` actions of two tokens, each after one observation token."""
    mask = [0, 1, 1] * count
    return sample(
        np.zeros(len(mask), np.int64),
        mask,
        values=np.full(len(mask), values),
        returns=np.where(np.asarray(mask) > 0, returns, 0.0),
    )


def test_actions_are_runs_of_action_tokens() -> None:
    assert [actions(np.asarray(mask)) for mask in ([], [0, 0], [0, 1, 1, 0, 1], [0, 1])] == [0, 0, 2, 1]


def test_buckets() -> None:
    names = [bucket_name(n) for n in (1, 4, 5, 16, 17, 64, 65, 10_000)]
    assert names == [f"steps_{b}" for b in ("1_4", "1_4", "5_16", "5_16", "17_64", "17_64", "65_up", "65_up")]


def test_a_critic_that_only_knows_the_length_is_found_out() -> None:
    # short ones fail, long ones succeed, but for one of each; the critic says 0.25 and 0.75 by the length alone
    batch = [played(2, 0.25, r) for r in (0, 0, 0, 1)]
    batch += [played(8, 0.75, r) for r in (1, 1, 1, 0)]
    stats = critic_quality(batch)
    assert stats["explained_variance_steps_1_4"] == pytest.approx(0.0)
    assert stats["explained_variance_steps_5_16"] == pytest.approx(0.0)
    assert stats["explained_variance"] > 0.15
    assert (stats["value_mean"], stats["return_mean"]) == (0.5, 0.5)


def test_a_bucket_whose_returns_do_not_vary_has_nothing_to_explain() -> None:
    stats = critic_quality([played(2, 0.0, 0.0), played(2, 0.1, 1.0), played(90, 0.5, 1.0)])
    assert set(stats) == {"explained_variance", "value_mean", "return_mean", "explained_variance_steps_1_4"}


def test_share_of_the_terminal_signal() -> None:
    # alpha 1.5: lambda of 1 token counts nowhere; of 2 is 2/3; of 100,000 leaves exp(-1/1.5)
    assert terminal_signal([1], gamma=1.0, alpha=1.5)["terminal_signal"] == 1.0
    stats = terminal_signal([1, 2], gamma=0.9, alpha=1.5)
    assert stats == pytest.approx({"terminal_signal": (1 + 0.6) / 2, "terminal_signal_min": 0.6})
    long = terminal_signal([100_000], gamma=1.0, alpha=1.5)["terminal_signal_min"]
    assert long == pytest.approx(np.exp(-1 / 1.5), rel=1e-4)
    assert terminal_signal([1000], gamma=1.0, alpha=0.1)["terminal_signal_min"] < 1e-4


def test_packs_hold_tokens_only() -> None:
    packs = make_packs([played(n, 0, 0) for n in (10, 5, 5, 1)], 30)
    assert packing_quality(packs, 30) == {"pack_fill": 63 / 90, "padding_waste": 0.0}
    filled = sum(len(pack.tokens) + -len(pack.tokens) % 8 for pack in packs)
    assert packing_quality(packs, 30, 8)["padding_waste"] == pytest.approx(1 - 63 / filled) and filled > 63
    assert packing_quality([], 30) == {"pack_fill": 0.0, "padding_waste": 0.0}
