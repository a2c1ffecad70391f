"""Applies a rule set to an action: facts in, hits out, each with the evidence it stands on.

One engine judges any number of actions; it keeps no state between them. It never runs, opens or imports anything
that an action names. Files that a look at their words clears (`detect.screen`) are not read.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cached_property

import msgspec

from detect import trees
from detect.conditions import Evidence, Looking, test_of
from detect.earlier import Earlier
from detect.facts import Facts, read_facts
from detect.features import Index
from detect.rule_set import Condition, Rule, RuleSet
from detect.screen import Screen
from queues.context import EpisodeContext
from queues.messages import Action


class Hit(msgspec.Struct, frozen=True):
    rule: Rule
    evidence: tuple[Evidence, ...]


class Judged:
    """Everything that was found out about one action. Facts of a cleared one are read when they are asked for."""

    def __init__(self, hits: tuple[Hit, ...], facts: Callable[[], Facts]) -> None:
        self.hits = hits
        self._read = facts

    @cached_property
    def facts(self) -> Facts:
        return self._read()


class Engine:
    def __init__(self, rules: RuleSet, *, screen: bool = True) -> None:
        """Without `screen` every action is read, which must not change a verdict."""
        self.rules = rules
        trees.check_queries(rules.rules)
        alternatives = [(rule, condition) for rule in rules.rules for condition in _alternatives(rule.when)]
        self._tests = [(rule, test_of(condition, rule.languages)) for rule, condition in alternatives]
        self._index = Index(condition for _, condition in alternatives)
        self._screen = Screen(alternatives) if screen else None

    def judge(self, action: Action, context: EpisodeContext) -> Judged:
        # a tree has thousands of nodes, and the collector would look at them over and over while all are alive
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._judge(action, context)
        finally:
            if collecting:
                gc.enable()

    def clears(self, action: Action, context: EpisodeContext) -> bool:
        """Whether an action is allowed without being read."""
        return self._clears(action, _earlier(context), context)

    def _clears(self, action: Action, earlier: Earlier | None, context: EpisodeContext) -> bool:
        return self._screen is not None and self._screen.clears(action, earlier, context)

    def _judge(self, action: Action, context: EpisodeContext) -> Judged:
        earlier = _earlier(context)
        if self._clears(action, earlier, context):
            return Judged((), lambda: read_facts(action, earlier))
        facts = read_facts(action, earlier)
        looking = Looking(facts, context)
        found: dict[str, tuple[Rule, list[Evidence]]] = {}
        for number in self._index.candidates(facts, looking.by_kind, context.task):
            rule, test = self._tests[number]
            if evidence := test(looking):
                found.setdefault(rule.id, (rule, []))[1].extend(evidence)
        return Judged(tuple(Hit(rule, tuple(evidence)) for rule, evidence in found.values()), lambda: facts)


def _earlier(context: EpisodeContext) -> Earlier | None:
    return Earlier(context.history) if context.history else None


def _alternatives(condition: Condition) -> list[Condition]:
    """The conditions one of which must hold for `condition` to hold."""
    if condition.any is None:
        return [condition]
    return [part for one in condition.any for part in _alternatives(one)]
