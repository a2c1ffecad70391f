"""Which cores commands get: the least loaded, in turns, and never more than they may use."""

from __future__ import annotations

import pytest

from sandbox.cores import Cores


def test_commands_are_spread_over_the_cores() -> None:
    cores = Cores([4, 5, 6])
    with cores.take(1) as a, cores.take(1) as b, cores.take(1) as c:
        assert sorted(a + b + c) == [4, 5, 6]
        with cores.take(1) as d:
            pass
        with cores.take(1) as e:
            assert e != d, "equally loaded ones take turns"
    with cores.take(2) as two, cores.take(1) as one:
        assert not set(two) & set(one)


def test_the_least_loaded_is_taken() -> None:
    cores = Cores([0, 1])
    with cores.take(1) as first, cores.take(1), cores.take(1) as third:
        assert third == first
        with cores.take(1) as fourth:
            assert fourth != third


def test_who_may_use_all_is_not_bound() -> None:
    cores = Cores([0, 1])
    with cores.take(2) as all_of_them, cores.take(9) as more:
        assert (all_of_them, more) == ([], [])
    with Cores([3]).take(1) as only:
        assert only == []


def test_a_command_that_fails_gives_its_core_back() -> None:
    cores = Cores([0, 1])
    with pytest.raises(ValueError), cores.take(1):
        raise ValueError
    assert set(cores._load.values()) == {0}
