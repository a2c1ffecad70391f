from __future__ import annotations

import pytest

from rl.config import PPOConfig
from rl.schedules import actor_learns, coefficient, critic_passes, learning_rate_factor


def factors(kind: str, **plan: float) -> list[float]:
    return [learning_rate_factor(step, total=4, kind=kind, **plan) for step in range(6)]  # type: ignore[arg-type]


def test_shapes_of_the_learning_rate() -> None:
    assert factors("constant") == [1.0] * 6
    assert factors("linear") == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    assert factors("cosine") == pytest.approx([1.0, 0.5 + 2**-1.5, 0.5, 0.5 - 2**-1.5, 0.0, 0.0])


def test_a_floor_is_where_it_ends() -> None:
    assert factors("linear", floor=0.2) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert factors("cosine", floor=0.2)[2:] == pytest.approx([0.6, 0.2 + 0.8 * (0.5 - 2**-1.5), 0.2, 0.2])


def test_a_warm_up_climbs_and_leaves_the_rest_of_the_steps_to_the_schedule() -> None:
    assert factors("linear", warmup=2) == pytest.approx([1 / 3, 2 / 3, 1.0, 0.5, 0.0, 0.0])
    assert factors("constant", warmup=1) == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert learning_rate_factor(3, total=3, kind="linear", warmup=3) == 1.0, "a warm-up as long as the run"


def test_a_coefficient_reaches_its_end_at_the_last_step() -> None:
    assert [coefficient(step, total=5, start=0.1, end=0.0) for step in range(6)] == pytest.approx(
        [0.1, 0.075, 0.05, 0.025, 0.0, 0.0]
    )
    assert coefficient(3, total=5, start=0.1, end=None) == 0.1
    assert coefficient(0, total=1, start=0.1, end=0.0) == 0.1


def test_the_critic_goes_first() -> None:
    assert [actor_learns(step, critic_warmup_steps=2) for step in range(4)] == [False, False, True, True]
    plan = {"epochs": 2, "critic_warmup_steps": 2}
    assert [critic_passes(step, **plan, warmup_epochs=8) for step in range(4)] == [8, 8, 2, 2]
    assert [critic_passes(step, **plan, warmup_epochs=None) for step in range(3)] == [2, 2, 2]


def test_the_defaults_are_a_straight_line_to_zero() -> None:
    ppo = PPOConfig()
    told = {"kind": ppo.lr_schedule, "warmup": ppo.lr_warmup_steps, "floor": ppo.lr_floor}
    assert [learning_rate_factor(step, total=24, **told) for step in range(24)] == [1.0 - s / 24 for s in range(24)]
    assert coefficient(5, total=24, start=ppo.entropy_coef, end=ppo.entropy_coef_end) == 0.0
