from __future__ import annotations

import math

import pytest
import torch

from rl.losses import (
    categorical_value_loss,
    hl_gauss,
    importance_weights,
    policy_loss,
    supervised_loss,
    value_loss,
)

F64 = torch.float64


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=F64)


def policy(logprobs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, **options):
    return policy_loss(
        logprobs, old, advantages, mask, **{"eps_low": 0.2, "eps_high": 0.3, "normalizer": 1.0, **options}
    )


@pytest.mark.parametrize("mode", ["mask", "clip"])
def test_token_level_not_episode_level(mode: str) -> None:
    # two episodes of 1 and 3 action tokens with advantages +1 and -1: (-1 + 3) / 4
    zeros = torch.zeros(4, dtype=F64)
    loss, _ = policy(zeros, zeros, t(1, -1, -1, -1), torch.ones(4), normalizer=4, mode=mode)
    assert loss.item() == 0.5


def test_mask_mode_drops_both_sides() -> None:
    ratios = t(0.5, 0.79, 0.81, 1.0, 1.29, 1.31, 4.0)
    logprobs = ratios.log().requires_grad_()
    for sign in (1.0, -1.0):
        logprobs.grad = None
        loss, stats = policy(logprobs, torch.zeros_like(ratios), sign * torch.ones_like(ratios), torch.ones(7))
        loss.backward()
        assert loss.item() == pytest.approx(-sign * (0.81 + 1.0 + 1.29))
        assert logprobs.grad is not None
        torch.testing.assert_close(logprobs.grad, -sign * t(0, 0, 0.81, 1.0, 1.29, 0, 0))
        assert stats["outside"].item() == 4


def test_clip_mode_is_ppo() -> None:
    ratios = t(0.5, 2.0, 0.5, 2.0)
    logprobs = ratios.log().requires_grad_()
    loss, _ = policy(logprobs, torch.zeros_like(ratios), t(1, 1, -1, -1), torch.ones(4), mode="clip")
    loss.backward()
    # pessimistic: +1 keeps 0.5 and clips 2.0 at 1.3; -1 clips 0.5 at 0.8 and keeps 2.0
    assert loss.item() == pytest.approx(-0.5 - 1.3 + 0.8 + 2.0)
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, t(-0.5, 0, 0, 2.0))


@pytest.mark.parametrize("mode", ["mask", "clip"])
def test_masked_tokens_contribute_nothing_even_if_infinite(mode: str) -> None:
    logprobs = t(0.0, 1e30, -1e30).requires_grad_()
    loss, stats = policy(
        logprobs,
        t(0, -1e30, 1e30),
        t(1, math.inf, math.nan),
        t(1, 0, 0),
        mode=mode,
        entropy=t(2, math.nan, math.nan),
        entropy_coef=0.1,
        ref_logprobs=t(0, math.inf, 5),
        kl_coef=1.0,
    )
    loss.backward()
    assert loss.item() == pytest.approx(-1.2)
    assert logprobs.grad is not None and torch.isfinite(logprobs.grad).all()
    assert all(torch.isfinite(value) for value in stats.values())


def test_huge_ratio_stays_finite() -> None:
    logprobs = torch.tensor([500.0], requires_grad=True)
    loss, stats = policy(logprobs, torch.zeros(1), torch.ones(1), torch.ones(1))
    loss.backward()
    assert loss.item() == 0.0 and torch.isfinite(stats["kl"])
    assert logprobs.grad is not None and logprobs.grad.item() == 0.0


def test_entropy_and_reference() -> None:
    loss, stats = policy(
        t(-1.0), t(-1.0), t(0.0), t(1), entropy=t(2.0), entropy_coef=0.5, ref_logprobs=t(-1.5), kl_coef=2.0
    )
    expected_kl = math.exp(-0.5) + 0.5 - 1
    assert stats["ref_kl"].item() == pytest.approx(expected_kl)
    assert loss.item() == pytest.approx(-1.0 + 2 * expected_kl)
    assert stats["entropy"].item() == 2.0 and stats["kl"].item() == 0.0


@pytest.mark.parametrize("mode", ["mask", "clip"])
def test_any_split_gives_the_same_gradient(mode: str) -> None:
    g = torch.Generator().manual_seed(0)
    n = 40
    logprobs, old, adv, ent = (torch.randn(n, generator=g, dtype=F64) * 0.3 for _ in range(4))
    mask = torch.rand(n, generator=g) > 0.4
    normalizer = float(mask.sum())

    def gradient(parts: list[slice]) -> tuple[torch.Tensor, float]:
        leaf = logprobs.clone().requires_grad_()
        total = 0.0
        for part in parts:
            loss, _ = policy(
                leaf[part], old[part], adv[part], mask[part], normalizer=normalizer, mode=mode,
                entropy=ent[part], entropy_coef=0.01,
            )  # fmt: skip
            loss.backward()
            total += loss.item()
        assert leaf.grad is not None
        return leaf.grad, total

    whole, total = gradient([slice(0, n)])
    split, total_split = gradient([slice(0, 7), slice(7, 8), slice(8, 30), slice(30, n)])
    torch.testing.assert_close(whole, split, atol=1e-10, rtol=0)
    assert total == pytest.approx(total_split, abs=1e-10)


def test_value_loss() -> None:
    values = t(1.0, 0.05, 5.0).requires_grad_()
    loss, stats = value_loss(values, t(0, 0, 0), t(1.0, 1.0, 0.0), t(1, 1, 0), clip=0.2, normalizer=2)
    loss.backward()
    # token 0: unclipped error 0, clipped value 0.2 -> 0.64; token 1 inside the band: 0.9025
    assert loss.item() == pytest.approx(0.5 * (0.64 + 0.9025) / 2)
    assert stats["value_clipped"].item() == 0.5
    assert values.grad is not None
    torch.testing.assert_close(values.grad, t(0.0, -0.475, 0.0))
    plain, _ = value_loss(values, t(0, 0, 0), t(1.0, 1.0, 0.0), t(1, 1, 0), clip=None, normalizer=2)
    assert plain.item() == pytest.approx(0.5 * 0.9025 / 2)


def test_clipped_counts_the_gradients_that_the_band_took_away() -> None:
    ratios = t(0.5, 2.0, 0.5, 2.0, 1.0)
    advantages = t(1, 1, -1, -1, 1)
    for mode, expected in (("clip", 2), ("mask", 4)):
        logprobs = ratios.log().requires_grad_()
        loss, stats = policy(logprobs, torch.zeros_like(ratios), advantages, torch.ones(5), mode=mode)
        loss.backward()
        assert logprobs.grad is not None
        assert stats["clipped"].item() == expected == (logprobs.grad == 0).sum().item()
        assert stats["outside"].item() == 4


def test_importance_weights_are_truncated_from_above() -> None:
    trainer, engine = t(2.0, 0.5, 1.0, 9.0).log(), t(1.0, 1.0, 1.0, 1.0).log()
    weights = importance_weights(trainer.requires_grad_(), engine, t(1, 1, 1, 0), cap=1.5)
    torch.testing.assert_close(weights, t(1.5, 0.5, 1.0, 1.0))
    assert not weights.requires_grad
    assert importance_weights(t(500.0), t(0.0), t(1), cap=2.0).item() == 2.0


@pytest.mark.parametrize("mode", ["mask", "clip"])
def test_weights_scale_the_policy_gradient_and_nothing_else(mode: str) -> None:
    logprobs = t(-1.0, -1.0, -1.0).requires_grad_()
    loss, stats = policy(
        logprobs, t(-1, -1, -1), t(1, -2, 4), t(1, 1, 0), mode=mode, weights=t(0.5, 1.5, math.inf),
        entropy=t(1, 1, 1), entropy_coef=1.0, normalizer=2,
    )  # fmt: skip
    loss.backward()
    assert loss.item() == pytest.approx((-0.5 + 3.0) / 2 - 1.0)
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, t(-0.25, 1.5, 0.0))
    assert stats["ratio"].item() == 1.0


def test_reference_penalty_and_its_gradient() -> None:
    for estimator, value, slope in (("k3", math.exp(-0.5) - 0.5, 1 - math.exp(-0.5)), ("k2", 0.125, 0.5)):
        logprobs = t(-1.0, 7.0).requires_grad_()
        loss, stats = policy(
            logprobs, t(-1, 0), t(0, 0), t(1, 0), ref_logprobs=t(-1.5, 0), kl_coef=2.0, kl_estimator=estimator
        )
        loss.backward()
        assert stats["ref_kl"].item() == pytest.approx(value)
        assert loss.item() == pytest.approx(2 * value)
        assert logprobs.grad is not None
        torch.testing.assert_close(logprobs.grad, t(2 * slope, 0.0))


def test_the_gradient_of_k_two_is_that_of_the_exact_kl() -> None:
    """Expected over the policy's own samples, as Tang & Munos (2025) have it; k3's is not."""
    g = torch.Generator().manual_seed(0)
    scores, reference = (torch.randn(5, generator=g, dtype=F64) for _ in range(2))

    def gradient(loss) -> torch.Tensor:
        leaf = scores.clone().requires_grad_()
        loss(leaf.log_softmax(0)).backward()
        assert leaf.grad is not None
        return leaf.grad

    ref = reference.log_softmax(0)
    exact = gradient(lambda log_p: (log_p.exp() * (log_p - ref)).sum())
    probabilities = scores.softmax(0)

    def estimated(estimator: str) -> torch.Tensor:
        total = torch.zeros(5, dtype=F64)
        for token in range(5):
            total += probabilities[token] * gradient(
                lambda log_p, token=token: policy(
                    log_p[token, None],
                    log_p[token, None].detach(),
                    t(0),
                    t(1),
                    ref_logprobs=ref[token, None],
                    kl_coef=1.0,
                    kl_estimator=estimator,
                )[0]
            )
        return total

    torch.testing.assert_close(estimated("k2"), exact, atol=1e-12, rtol=0)
    assert not torch.allclose(estimated("k3"), exact, atol=1e-3)


def test_hl_gauss_is_the_mass_of_a_bell_in_each_bin() -> None:
    target = hl_gauss(t(1.0, 0.5, 99.0), t(0, 1, 2), 1.0)
    torch.testing.assert_close(target[0], t(0.5, 0.5))
    # normal cdf at -0.5, 0.5, 1.5: 0.308538, 0.691462, 0.933193
    torch.testing.assert_close(target[1], t(0.382925, 0.241730) / 0.624655, atol=1e-5, rtol=0)
    # beyond the bins: as at the last edge, 0.341345 and 0.135905 of the 0.477250 inside
    torch.testing.assert_close(target[2], t(0.135905, 0.341345) / 0.477250, atol=1e-5, rtol=0)


def test_categorical_value_loss() -> None:
    logits = t(0, 0, math.log(3), 0, 5, 5).reshape(3, 2).requires_grad_()
    loss, stats = categorical_value_loss(
        logits, t(1.0, 1.0, math.nan), t(1, 1, 0), edges=t(0, 1, 2), sigma=1.0, normalizer=2
    )
    loss.backward()
    # targets (0.5, 0.5): log 2 for the uniform one; -(log 0.75 + log 0.25) / 2 for the other
    expected = (math.log(2) - 0.5 * math.log(0.75 * 0.25)) / 2
    assert loss.item() == pytest.approx(expected)
    assert stats["value_loss"].item() == pytest.approx(expected - math.log(2))
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, t(0, 0, 0.125, -0.125, 0, 0).reshape(3, 2))


def test_supervised_loss() -> None:
    loss, _ = supervised_loss(t(-1.0, -2.0, -math.inf), t(1, 1, 0), normalizer=2)
    assert loss.item() == 1.5
