from __future__ import annotations

import math

import pytest
import torch

from rl.losses import policy_loss, supervised_loss, value_loss

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


def test_supervised_loss() -> None:
    loss, _ = supervised_loss(t(-1.0, -2.0, -math.inf), t(1, 1, 0), normalizer=2)
    assert loss.item() == 1.5
