"""Combinations of settings that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rl.config import PPOConfig


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"tis_cap": 2.0}, "set ppo.old_logprobs to recomputed"),
        ({"value_bins": 31, "value_clip": 0.2}, "ppo.value_clip is for a critic of one number"),
        ({"value_bins": 31, "value_low": 1.0}, "ppo.value_low must be below ppo.value_high"),
        ({"value_bins": 6}, "ppo.value_bins must be above 6"),
        ({"lr_schedule": "sine"}, "'constant', 'linear' or 'cosine'"),
    ],
)
def test_refused(told: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        PPOConfig.model_validate(told)


def test_a_reference_is_kept_when_it_will_be_needed() -> None:
    kept = [PPOConfig(**told).with_reference for told in ({}, {"kl_coef": 0.1}, {"kl_coef_end": 0.1})]  # type: ignore[arg-type]
    assert kept == [False, True, True]
    assert not PPOConfig(kl_coef_end=0.0).with_reference
