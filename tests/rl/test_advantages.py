from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.advantages import adaptive_lambda, explained_variance, gae, whiten
from rl.config import PPOConfig


def test_discount_counts_action_tokens_only() -> None:
    advantages, returns = gae([0, 0, 1], [0, 0, 0], [1, 0, 1], gamma=0.5, lam=1.0)
    assert returns[[0, 2]].tolist() == [0.5, 1.0]
    assert advantages[1] == returns[1] == 0.0


def test_value_of_an_observation_does_not_leak() -> None:
    advantages, _ = gae([0, 1, 0], [0, 0, 100], [1, 1, 0], gamma=1.0, lam=0.95)
    assert advantages.tolist() == [0.95, 1.0, 0.0]


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_reward_after_the_final_observation_counts_with_its_sign(reward: float) -> None:
    advantages, returns = gae([0, 0, 0, 0, reward], [0] * 5, [0, 1, 1, 0, 0], gamma=1.0, lam=1.0)
    assert advantages.tolist() == returns.tolist() == [0, reward, reward, 0, 0]


def test_reward_before_the_first_action_is_nobodys() -> None:
    advantages, _ = gae([5, 0, 1], [0, 0, 0], [0, 1, 1], gamma=1.0, lam=1.0)
    assert advantages.tolist() == [0, 1, 1]


def test_truncation_bootstraps_and_termination_does_not() -> None:
    ended, _ = gae([0, 0], [0.5, 0.5], [1, 1], gamma=1.0, lam=1.0)
    cut, _ = gae([0, 0], [0.5, 0.5], [1, 1], gamma=1.0, lam=1.0, bootstrap=0.75)
    assert ended.tolist() == [-0.5, -0.5]
    assert cut.tolist() == [0.25, 0.25]


def test_empty_masked_and_one_token_episodes() -> None:
    for rewards, mask in (([], []), ([1.0, 1.0], [0, 0])):
        advantages, returns = gae(rewards, [3.0] * len(mask), mask, gamma=1.0, lam=0.9)
        assert not advantages.any() and not returns.any()
    advantages, returns = gae([0, 1], [0, 0.25], [0, 1], gamma=0.9, lam=0.5)
    assert advantages.tolist() == [0, 0.75] and returns.tolist() == [0, 1.0]
    zeros, _ = gae([0, 0], [0, 0], [1, 1], gamma=1.0, lam=1.0)
    assert zeros.tolist() == [0, 0]


def test_matches_the_textbook_recursion() -> None:
    rng = np.random.default_rng(0)
    n = 50
    rewards, values, mask = rng.normal(size=n), rng.normal(size=n), np.ones(n)
    advantages, returns = gae(rewards, values, mask, gamma=0.97, lam=0.9, bootstrap=0.3)
    expected = np.zeros(n)
    for t in range(n):
        for k in range(t, n):
            following = values[k + 1] if k + 1 < n else 0.3
            expected[t] += (0.97 * 0.9) ** (k - t) * (rewards[k] + 0.97 * following - values[k])
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    np.testing.assert_allclose(returns, expected + values, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 7)), min_size=1, max_size=8), st.integers(0, 10**6))
def test_any_observations_between_leave_advantages_unchanged(turns: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    total = sum(actions for actions, _ in turns)
    rewards, values = rng.normal(size=total), rng.normal(size=total)
    plain, _ = gae(rewards, values, np.ones(total), gamma=0.99, lam=0.95)
    spread_rewards: list[float] = []
    spread_values: list[float] = []
    mask: list[int] = []
    at = 0
    for actions, observed in turns:
        spread_rewards += [*rewards[at : at + actions], *([0.0] * observed)]
        spread_values += [*values[at : at + actions], *(rng.normal(size=observed) * 100)]
        mask += [1] * actions + [0] * observed
        at += actions
    spread, _ = gae(spread_rewards, spread_values, mask, gamma=0.99, lam=0.95)
    np.testing.assert_allclose(spread[np.asarray(mask) == 1], plain, atol=1e-12)


def test_terminal_signal_reaches_the_first_token_of_a_long_episode_with_the_defaults() -> None:
    ppo = PPOConfig()
    tokens, steps = 30, 200
    lam = adaptive_lambda(steps * tokens, ppo.actor_lambda_alpha)
    rewards, mask = np.zeros(2 * steps * tokens), np.tile([1] * tokens + [0] * tokens, steps)
    rewards[-1] = 1.0  # after the last observation
    advantages, _ = gae(rewards, np.zeros(len(mask)), mask, gamma=ppo.gamma, lam=lam)
    assert advantages[0] == pytest.approx(np.exp(-1 / 1.5), rel=1e-3)
    _, returns = gae(rewards, np.zeros(len(mask)), mask, gamma=ppo.gamma, lam=ppo.critic_lambda)
    assert (returns[mask == 1] == 1.0).all(), "the critic is told the outcome whole, everywhere"


@pytest.mark.parametrize("length", [1, 2, 500])
def test_all_zero_episodes(length: int) -> None:
    ones, zeros = np.ones(length), np.zeros(length)
    for mask in (ones, zeros):
        advantages, returns = gae(zeros, zeros, mask, gamma=1.0, lam=adaptive_lambda(int(mask.sum()), 1.5))
        assert not advantages.any() and not returns.any()
        assert not whiten([advantages], [mask])[0].any()
        assert explained_variance([zeros], [returns], [mask]) == 0.0


def test_adaptive_lambda() -> None:
    assert adaptive_lambda(0, 1.5) == 0.0
    assert adaptive_lambda(1, 1.5) == pytest.approx(1 / 3)
    assert adaptive_lambda(1, 0.5) == 0.0
    assert adaptive_lambda(100, 1.5) == pytest.approx(1 - 1 / 150)


def test_whiten_is_over_the_tokens_of_the_batch() -> None:
    whitened = whiten([[1.0, 9.0], [3.0, 5.0, 7.0]], [[1, 0], [1, 1, 1]])
    tokens = np.concatenate([whitened[0][:1], whitened[1]])
    assert tokens.mean() == pytest.approx(0) and tokens.std() == pytest.approx(1)
    assert whitened[0][1] == 0.0
    assert whiten([[2.0]], [[1]])[0].tolist() == [0.0]
    assert whiten([[2.0, 2.0], [2.0]], [[1, 1], [0]])[0].tolist() == [0.0, 0.0]
    assert whiten([[4.0]], [[0]])[0].tolist() == [0.0]
    assert whiten([], []) == []


def test_explained_variance() -> None:
    returns, mask = [[0.0, 1.0, 9.0]], [[1, 1, 0]]
    assert explained_variance([[0.0, 1.0, 0.0]], returns, mask) == 1.0
    assert explained_variance([[0.5, 0.5, 0.0]], returns, mask) == 0.0
    assert explained_variance([[1.0, 0.0, 0.0]], returns, mask) == -3.0
    assert explained_variance([[1.0]], [[1.0]], [[1]]) == 0.0
