"""Applies a rule set to an action: facts in, hits out, each with the evidence it stands on.

One engine judges any number of actions; it keeps no state between them. It never runs, opens or imports anything
that an action names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from detect import trees
from detect.earlier import Earlier
from detect.facts import Code, Fact, Facts, read_facts
from detect.paths import covers, touches
from detect.rule_set import Condition, PathCondition, Place, Rule, RuleSet, compiled
from queues.context import EpisodeContext
from queues.messages import Action


class Evidence(msgspec.Struct, frozen=True):
    """Why a condition holds: bytes of the action's body, and the fact that was found there, if it was one."""

    span: tuple[int, int]
    fact: Fact | None = None


class Hit(msgspec.Struct, frozen=True):
    rule: Rule
    evidence: tuple[Evidence, ...]


class Judged(msgspec.Struct, frozen=True):
    """Everything that was found out about one action."""

    facts: Facts
    hits: tuple[Hit, ...]


class Engine:
    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        trees.check_queries(rules.rules)

    def judge(self, action: Action, context: EpisodeContext) -> Judged:
        facts = read_facts(action, Earlier(context.history) if context.history else None)
        looking = _Looking(facts, context)
        hits = []
        for rule in self.rules.rules:
            evidence = looking.holds(rule.when, rule)
            if evidence:
                hits.append(Hit(rule, tuple(evidence)))
        return Judged(facts, tuple(hits))


class _Looking:
    """One action under one set of rules."""

    def __init__(self, facts: Facts, context: EpisodeContext) -> None:
        self.facts = facts
        self.context = context
        self.by_kind: dict[str, list[Fact]] = {}
        for fact in facts.items:
            self.by_kind.setdefault(fact.kind, []).append(fact)
        self.trees: dict[int, trees.Tree] = {}

    def holds(self, condition: Condition, rule: Rule) -> list[Evidence]:
        """Evidence that `condition` holds; empty when it does not."""
        if condition.any is not None:
            return [found for part in condition.any for found in self.holds(part, rule)]
        if condition.all is not None:
            parts = []
            for part in condition.all:
                found = self.holds(part, rule)
                if not found:
                    return []
                parts += found
            return parts
        if condition.none is not None:
            return [] if any(self.holds(part, rule) for part in condition.none) else [Evidence((0, 0))]
        if condition.regex is not None:
            matches = compiled(condition.regex).finditer(self.facts.text)
            return [Evidence(match.span()) for match, _ in zip(matches, range(16), strict=False)]
        if condition.query is not None:
            return self._query(condition, rule)
        return self._facts(condition, rule)

    def _facts(self, condition: Condition, rule: Rule) -> list[Evidence]:
        kind, place, test = self._leaf(condition)
        return [
            Evidence(fact.span, fact)
            for fact in self.by_kind.get(kind, ())
            if test(fact) and _in_place(fact, place) and (not rule.languages or fact.language in rule.languages)
        ]

    def _leaf(self, condition: Condition) -> tuple[str, Place, Callable[[Fact], bool]]:
        if (path := condition.path) is not None:
            return "path", path, lambda fact: _path_matches(path, fact)
        if (command := condition.command) is not None:
            names = set(command.name) | ({self.context.task} if command.task_program else set())
            return "command", command, lambda fact: fact.value in names and _args_match(command, fact)
        if (call := condition.call) is not None:
            return "call", call, lambda fact: _dotted(fact.value, call.name) and _args_match(call, fact)
        if (imports := condition.imports) is not None:
            return "import", imports, lambda fact: _dotted(fact.value, imports.module, below=True)
        if (string := condition.string) is not None:
            return "string", string, lambda fact: compiled(string.match).search(fact.value) is not None
        opaque = condition.opaque
        assert opaque is not None
        return "opaque", opaque, lambda fact: not opaque.reason or fact.value in opaque.reason

    def _query(self, condition: Condition, rule: Rule) -> list[Evidence]:
        query = condition.query
        assert query is not None
        found = []
        needs = query.needs.encode()
        for number, code in enumerate(self.facts.codes):
            wanted = query.code == "any" or (query.code == "file") == (code.written is not None)
            if code.language != query.language or not wanted or not code.valid or needs not in code.data:
                continue
            if number not in self.trees:
                self.trees[number] = trees.parse(code)
            for start, end in trees.captures(self.trees[number], query):
                found.append(Evidence(_body_span(code, start, end), None))
        return found


def _body_span(code: Code, start: int, end: int) -> tuple[int, int]:
    return code.span if code.offset is None else (code.offset + start, code.offset + end)


def _in_place(fact: Fact, place: Place) -> bool:
    if place.code == "action" and fact.written is not None:
        return False
    if place.code == "file" and fact.written is None:
        return False
    if place.file and (fact.written is None or not compiled(place.file).search(fact.written)):
        return False
    return not place.languages or fact.language in place.languages


def _path_matches(condition: PathCondition, fact: Fact) -> bool:
    if fact.access not in condition.access:
        return False
    if condition.by and not compiled(condition.by).fullmatch(fact.by):
        return False
    if condition.match and not compiled(condition.match).search(fact.value):
        # what is a link of /proc to the root is still a look at the process
        return fact.given.startswith("/proc/") and compiled(condition.match).search(fact.given) is not None
    if condition.under and not touches(fact.value, condition.under):
        return False
    return not condition.covers or covers(fact.value, condition.covers)


def _args_match(condition, fact: Fact) -> bool:
    joined = " ".join(fact.args)
    if condition.args and not compiled(condition.args).search(joined):
        return False
    return not (condition.without and compiled(condition.without).search(joined))


def _dotted(name: str, wanted: Sequence[str], *, below: bool = False) -> bool:
    for want in wanted:
        if name == want or (below and name.startswith(want + ".")):
            return True
        if want.endswith(".*") and name.startswith(want[:-1]):
            return True
    return False
