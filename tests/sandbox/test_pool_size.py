"""The size of a pool and the pauses after failed starts, number by number."""

from __future__ import annotations

from sandbox.pool_size import Backoff, Bounds


def test_the_size_follows_the_demand_within_the_bounds() -> None:
    bounds = Bounds(most=4, least=1, spare=1)
    assert [bounds.wanted(demand) for demand in (0, 1, 2, 3, 4, 9)] == [1, 2, 3, 4, 4, 4]
    to_zero = Bounds(most=4, spare=2)
    assert [to_zero.wanted(demand) for demand in (0, 1, 2, 3)] == [0, 3, 4, 4]


def test_pauses_double_up_to_the_longest() -> None:
    backoff, now, pauses = Backoff(first_s=0.2, longest_s=2.0), 100.0, []
    assert backoff.retry_at < now
    for _ in range(6):
        backoff.failed(now)
        pauses.append(round(backoff.retry_at - now, 6))
        now = backoff.retry_at
    assert pauses == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert backoff.failures == 6


def test_attempts_that_fail_together_count_once() -> None:
    backoff = Backoff(first_s=1.0, longest_s=8.0)
    for now in (10.0, 10.1, 10.9):
        backoff.failed(now)
    assert (backoff.failures, backoff.retry_at) == (1, 11.0)
    backoff.succeeded()
    assert backoff.failures == 0 and backoff.retry_at < 0


def test_a_node_that_never_recovers_does_not_overflow() -> None:
    backoff, now = Backoff(first_s=0.2, longest_s=30.0), 0.0
    for _ in range(5000):
        backoff.failed(now)
        now = backoff.retry_at
    assert backoff.retry_at < 5001 * 30
