"""Keeps a worker's guard on the rule set that is in force in its run.

The activations of a `RuleBook` are looked at several times a second. A new set is read beside the event loop and then
put in place between two actions: an action is judged and faked by one set. What a worker cannot read it refuses, goes
on with the set it has, and says so. Both are audit events, with the time at which they took effect here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from audit.errors import EctypeError
from audit.events import AuditLog
from detect import image_programs
from detect.engine import Engine
from detect.guard import Guard, GuardMode
from detect.rule_book import SHORT, Activation, RuleBook, Taken

log = logging.getLogger(__name__)

WATCH_S = 0.25
"""How often a worker looks for an activation. With reading a set (0.1-0.3 s) well under two seconds."""
_KEPT = 4
"""Sets that stay ready for use, so that a roll-back has nothing to read."""


class RuleWatch:
    """Raises RuleError on creation when the set in force cannot be used: a worker does not start without rules."""

    def __init__(
        self,
        book: RuleBook,
        audit: AuditLog,
        worker: str,
        *,
        mode: GuardMode,
        programs: frozenset[str] = image_programs.BASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._book = book
        self._audit = audit
        self._worker = worker
        self._clock = clock
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        activation = book.activations()[-1]
        self.guard = Guard(self._engine(activation.hash), mode, programs)
        self._number = activation.number
        self._record(activation)

    async def run(self) -> None:
        """Follow the activations until this task is cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            await self.look()

    async def look(self) -> None:
        """Take the newest activation, if it is a new one."""
        try:
            activation = (await asyncio.to_thread(self._book.activations))[-1]
        except (EctypeError, OSError) as error:
            log.warning("the activations of rule sets cannot be read: %s", error)
            return
        if activation.number == self._number:
            return
        self._number = activation.number
        try:
            engine = await asyncio.to_thread(self._engine, activation.hash)
        except Exception as error:  # whatever is wrong with a set, the worker keeps the one it has
            log.error("rule set %s is refused: %s", activation.hash[:SHORT], error)
            self._record(activation, refused=str(error))
            return
        self.guard.use(engine)
        self._record(activation)

    def _engine(self, digest: str) -> Engine:
        engine = self._engines.pop(digest, None) or Engine(self._book.load(digest))
        self._engines[digest] = engine
        while len(self._engines) > _KEPT:
            self._engines.popitem(last=False)
        return engine

    def _record(self, activation: Activation, *, refused: str = "") -> None:
        now, in_force = self._clock(), self.guard.engine.rules.hash
        self._audit.write(
            "rules_refused" if refused else "rules_taken",
            number=activation.number,
            kind_of_activation=activation.kind,
            name=activation.name,
            version=activation.version,
            hash=activation.hash,
            in_force=in_force,
            activated=activation.at,
            after_s=round(now - activation.at, 6),
            by=activation.by,
            why=activation.why,
            reason=refused,
        )
        taken = Taken(worker=self._worker, number=activation.number, hash=in_force, at=now, refused=refused)
        self._book.note(taken)
