"""Who uses the weights: threads of a scripted engine and a scripted learner, no model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rl.gate import Gate
from rl.rollout import Deliver, Generation, Poll, in_batches


def ask(*numbers: int) -> tuple[Poll, dict[int, Generation], Deliver]:
    """Requests that are there from the beginning, and where their answers will be."""
    arrivals = [[(number, [1], 0) for number in numbers]]
    answers: dict[int, Generation] = {}
    return lambda: arrivals.pop() if arrivals else [], answers, answers.__setitem__


class ScriptedEngine:
    """One token per context, when the test lets it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.fail = False

    def __call__(self, contexts: list[list[int]], seeds: list[int]) -> list[Generation]:
        del seeds
        self.begun.release()
        self.let.acquire()
        if self.fail:
            raise FloatingPointError
        return [Generation([5], [-1.0], stopped=True)] * len(contexts)


def until(condition: Callable[[], Any]) -> None:
    """Wait for another thread."""
    while not condition():
        threading.Event().wait(0.001)


def test_a_claim_waits_for_the_actions_that_are_being_sampled_and_lets_no_other_begin() -> None:
    engine = ScriptedEngine()
    gate = Gate(in_batches(engine), version=3)
    claimed, over = threading.Event(), threading.Event()

    def learn() -> None:
        with gate.claim():
            claimed.set()
            gate.version = 4
            over.wait()

    with ThreadPoolExecutor(3) as pool:
        poll, answers, deliver = ask(1)
        first = pool.submit(gate.serve, poll, deliver)
        engine.begun.acquire()
        learner = pool.submit(learn)
        until(lambda: gate._claimed)
        assert not claimed.is_set(), "an action is being sampled"
        engine.let.release()
        first.result()
        assert answers[1].version == 3
        claimed.wait()
        poll, later, deliver = ask(2)
        second = pool.submit(gate.serve, poll, deliver)
        until(lambda: gate._waiting)
        engine.let.release()
        assert not engine.begun.acquire(blocking=False), "the learner has the weights"
        over.set()
        learner.result()
        second.result()
        assert later[2].version == 4
    assert gate.take_generate_s() > 0 and gate.take_generate_s() == 0


def test_who_came_while_actions_were_sampled_waits_for_the_claim() -> None:
    """A claim must not wait for ever for an engine that always gets new requests."""
    arrivals = iter(range(10**9))
    served: list[int] = []
    gate = Gate(in_batches(lambda contexts, seeds: [Generation([5], [-1.0], stopped=True)] * len(contexts)), version=0)
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(gate.serve, lambda: [(next(arrivals), [1], 0)], lambda number, _: served.append(number))
        until(lambda: len(served) > 10)
        with gate.claim():
            seen = len(served)
            busy.result()
            assert len(served) == seen


def test_between_two_optimizer_steps_those_who_wait_get_an_action_of_the_old_version() -> None:
    engine = ScriptedEngine()
    gate = Gate(in_batches(engine), version=7)
    for _ in range(9):
        engine.let.release()
    with gate.claim():
        gate.interlude()
        assert not engine.begun.acquire(blocking=False), "nobody waits"
        with ThreadPoolExecutor(1) as pool:
            poll, answers, deliver = ask(1, 2)
            waiting = pool.submit(gate.serve, poll, deliver)
            until(lambda: gate._waiting)
            gate.interlude()
            assert {n: g.version for n, g in answers.items()} == {1: 7, 2: 7}
            assert not waiting.done(), "it is still the learner's turn"
            gate.close()
            waiting.result()


def test_after_the_end_nobody_gets_in_and_an_error_blocks_nobody() -> None:
    engine = ScriptedEngine()
    engine.fail = True
    engine.let.release()
    gate = Gate(in_batches(engine), version=0)
    poll, _, deliver = ask(1)
    with pytest.raises(FloatingPointError):
        gate.serve(poll, deliver)
    with gate.claim():
        pass
    gate.close()
    poll, answers, deliver = ask(2)
    gate.serve(poll, deliver)
    assert answers == {}
