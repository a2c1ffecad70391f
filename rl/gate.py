"""Who uses the policy's weights: generation, or the learner that changes them.

In: the blocking `Serve` of an engine, called by the rollout's thread, and claims of the learner's thread. An action is
sampled by one policy version from its first token to its last: a claim waits until the actions that are being sampled
have ended, and no other is begun before it is over. With the actor's own weights the learner claims them for a whole
update, and lets generation have them between two optimizer steps (`interlude`); with weights of its own, a server
generates during the update, and only their exchange is claimed. This module never looks at tokens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rl.rollout import Deliver, Generation, Poll, Serve


class Gate:
    """`version` is what every action is stamped with; whoever has claimed the weights sets it.

    What is sampled in an interlude, by an actor in the middle of an update, counts as of the version before it: older
    than it is, never younger.
    """

    def __init__(self, serve: Serve, *, version: int) -> None:
        self.version = version
        self._serve = serve
        self._turn = threading.Condition()
        self._claimed = False
        self._generating = False
        self._closed = False
        self._waiting: tuple[Poll, Deliver] | None = None
        """The rollout's thread is blocked, with this in hand."""
        self._generate_s = 0.0

    def serve(self, poll: Poll, deliver: Deliver) -> None:
        """`rl.rollout.Serve`: waits for its turn, and ends early when the learner claims the weights."""
        with self._turn:
            self._waiting = poll, deliver
            self._turn.wait_for(lambda: not self._claimed or self._closed)
            self._waiting = None
            if self._closed:
                return
            self._generating = True
        try:
            self._generate(lambda: [] if self._claimed or self._closed else poll(), deliver)
        finally:
            with self._turn:
                self._generating = False
                self._turn.notify_all()

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Have the weights alone, once what is being sampled has ended."""
        with self._turn:
            self._claimed = True
            self._turn.wait_for(lambda: not self._generating)
        try:
            yield
        finally:
            with self._turn:
                self._claimed = False
                self._turn.notify_all()

    def interlude(self) -> None:
        """Called by the thread that has claimed the weights: generate one action for each episode that waits."""
        with self._turn:
            waiting = self._waiting
        if waiting is None or self._closed:
            return
        poll, deliver = waiting
        arrivals = [poll()]
        if arrivals[0]:
            self._generate(lambda: arrivals.pop() if arrivals else [], deliver)

    def close(self) -> None:
        """Let nobody in any more, and wait until the rollout's thread is out."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._generating)

    def take_generate_s(self) -> float:
        """Seconds of generation since the last call."""
        seconds, self._generate_s = self._generate_s, 0.0
        return seconds

    def _generate(self, poll: Poll, deliver: Deliver) -> None:
        version, started = self.version, time.monotonic()

        def stamped(number: int, generation: Generation) -> None:
            deliver(number, replace(generation, version=version))

        try:
            self._serve(poll, stamped)
        finally:
            self._generate_s += time.monotonic() - started
