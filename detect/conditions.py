"""What a rule's condition asks of an action, made ready to be asked: evidence in, when it holds, else nothing.

An action is looked at through its facts (`Looking`); tables and lists of paths are worked out when a condition asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from detect import tables, trees
from detect.facts import Access, Code, Fact, FactKind, Facts, Found
from detect.literals import finder, one_of, words_of
from detect.paths import covers, is_vague, touches
from detect.rule_set import Condition, PathCondition, Place, QueryCondition, TableCondition, compiled
from queues.context import EpisodeContext


class Evidence(msgspec.Struct, frozen=True):
    """Why a condition holds: bytes of the action's body, and the fact that was found there, if it was one."""

    span: tuple[int, int]
    fact: Fact | None = None


class Looking:
    """One action under one set of rules: its facts by kind and value, its tables as they are asked for."""

    def __init__(self, facts: Facts, context: EpisodeContext) -> None:
        self.facts = facts
        self.context = context
        self.by_kind: dict[str, list[Found]] = {}
        self.by_value: dict[str, dict[str, list[Found]]] = {"command": {}, "call": {}, "import": {}}
        for fact in facts.found:
            self.by_kind.setdefault(fact.kind, []).append(fact)
            if (values := self.by_value.get(fact.kind)) is not None:
                values.setdefault(fact.value, []).append(fact)
        self.tables: dict[int, tables.Table] = {}
        self._reaching: dict[tuple, list[Found]] = {}

    @cached_property
    def _folders(self) -> frozenset[str]:
        """Every path as it says, and the folders that it is in."""
        found: set[str] = set()
        for fact in self.by_kind.get("path", ()):
            path = fact.value
            end = path.find("/", 1)
            while end >= 0:
                found.add(path[:end])
                end = path.find("/", end + 1)
            found.add(path)
        return frozenset(found)

    @cached_property
    def _vague(self) -> list[Found]:
        """Paths that may be others than they say."""
        return [fact for fact in self.by_kind.get("path", ()) if is_vague(fact.value)]

    def reaching(self, wanted: tuple[tuple[str, ...], tuple[str, ...], tuple[Access, ...]]) -> Sequence[Found]:
        """Path facts at or below folders, else those from which a walk meets others, else all; of some accesses."""
        found = self._reaching.get(wanted)
        if found is None:
            under, covered, access = wanted
            known = under and self._folders.isdisjoint(under)
            found = [
                fact
                for fact in (self._vague if known else self.by_kind.get("path", ()))
                if fact.access in access
                and (touches(fact.value, under) if under else not covered or covers(fact.value, covered))
            ]
            self._reaching[wanted] = found
        return found

    def named(self, kind: FactKind, names: Sequence[str], beginnings: frozenset[str] = frozenset()) -> list[Found]:
        """Facts of a kind whose value is one of `names` or begins with one of `beginnings` (each up to a dot)."""
        values = self.by_value[kind]
        found = [fact for name in names if name in values for fact in values[name]] if values else []
        if beginnings and values:
            start = tuple(beginnings)
            found += [fact for fact in self.by_kind[kind] if fact.value.startswith(start) and fact not in found]
        return found


Test = Callable[[Looking], list[Evidence]]
"""A condition, ready to be asked: evidence that it holds, empty when it does not."""
_HOLDS = [Evidence((0, 0))]
_NOTHING: list[Evidence] = []


def test_of(condition: Condition, languages: tuple[str, ...]) -> Test:
    """Compile a condition of a rule that is about `languages` (all, when there are none)."""
    if condition.any is not None:
        parts = [test_of(part, languages) for part in condition.any]
        return lambda looking: [found for part in parts for found in part(looking)]
    if condition.all is not None:
        parts = [test_of(part, languages) for part in condition.all]
        return lambda looking: _all(parts, looking)
    if condition.none is not None:
        parts = [test_of(part, languages) for part in condition.none]
        return lambda looking: [] if any(part(looking) for part in parts) else _HOLDS
    if condition.regex is not None:
        wanted = finder(condition.regex)
        return lambda looking: [Evidence(m.span()) for m in itertools.islice(wanted.finditer(looking.facts.text), 16)]
    if (texts := condition.contains) is not None:
        clause = one_of(texts)
        return lambda looking: _HOLDS if clause.holds(words_of(looking.facts.text)) else _NOTHING
    if condition.query is not None:
        query = condition.query
        return lambda looking: _query(query, looking)
    if (table := condition.table) is not None:
        return lambda looking: _table(table, looking)
    if (observed := condition.observed) is not None:
        events, times = observed.events, observed.times
        return lambda looking: (
            _HOLDS if sum(event in events for event in looking.context.observed.events) >= times else []
        )
    if (task := condition.task) is not None:
        return lambda looking: (
            _HOLDS if looking.context.task in task.name or looking.context.suite in task.suite else []
        )
    candidates, place, test = _leaf(condition)

    anywhere = not languages and place.code == "any" and not place.file and not place.languages

    def facts(looking: Looking) -> list[Evidence]:
        found = candidates(looking)
        if not found:
            return _NOTHING
        if anywhere:
            return [_evidence(fact) for fact in found if test(fact)]
        return [
            _evidence(fact)
            for fact in found
            if (not languages or fact.language in languages) and test(fact) and _in_place(fact, place)
        ]

    return facts


def _evidence(found: Found) -> Evidence:
    return Evidence(found.fact.span, found.fact)


def _all(parts: Sequence[Test], looking: Looking) -> list[Evidence]:
    evidence: list[Evidence] = []
    for part in parts:
        found = part(looking)
        if not found:
            return []
        evidence += found
    return evidence


def _leaf(condition: Condition) -> tuple[Callable[[Looking], Sequence[Found]], Place, Callable[[Found], bool]]:
    """Which facts a condition could be about, where they must be, and what must hold of one."""
    if (path := condition.path) is not None:
        wanted = (path.under, path.covers, path.access)
        return (lambda looking: looking.reaching(wanted)), path, _pathtest_of(path)
    if (command := condition.command) is not None:
        own = command.task_program

        def commands(looking: Looking) -> Sequence[Found]:
            return looking.named("command", (*command.name, looking.context.task) if own else command.name)

        return commands, command, lambda fact: _args_match(command, fact)
    if (call := condition.call) is not None:
        exact, below = _names(call.name)
        return (lambda looking: looking.named("call", exact, below)), call, lambda fact: _args_match(call, fact)
    if (imports := condition.imports) is not None:
        exact, below = _names([*imports.module, *(f"{name}.*" for name in imports.module)])
        return (lambda looking: looking.named("import", exact, below)), imports, lambda fact: True
    if (string := condition.string) is not None:
        search = compiled(string.match).search
        return (lambda looking: looking.by_kind.get("string", ())), string, lambda fact: search(fact.value) is not None
    if (trait := condition.trait) is not None:
        traits = frozenset(trait.name)
        return (lambda looking: looking.by_kind.get("trait", ())), trait, lambda fact: fact.value in traits
    opaque = condition.opaque
    assert opaque is not None
    reasons = frozenset(opaque.reason)
    return (
        (lambda looking: looking.by_kind.get("opaque", ())),
        opaque,
        lambda fact: not reasons or fact.value in reasons,
    )


def _names(wanted: Sequence[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names as they are, and what those that end in `.*` begin with."""
    exact = tuple(dict.fromkeys(name for name in wanted if not name.endswith(".*")))
    return exact, frozenset(name[:-1] for name in wanted if name.endswith(".*"))


def _table(condition: TableCondition, looking: Looking) -> list[Evidence]:
    found = []
    answers = looking.context.observed.answers
    quotes = condition.entries * (2 if condition.digests else 4)
    for number, code in enumerate(looking.facts.codes):
        if code.written is None or not compiled(condition.file).search(code.written):
            continue
        if (condition.answered and not answers) or code.data.count(b'"') + code.data.count(b"'") < quotes:
            continue
        if condition.share and 2 * _quoted(code.data) < condition.share * len(code.data):
            continue
        if number not in looking.tables:
            looking.tables[number] = tables.read_table(code.data)
        table = looking.tables[number]
        if table.entries < condition.entries or table.share < condition.share:
            continue
        if condition.digests and table.digests < condition.entries:
            continue
        if condition.answered and table.answered(answers) < condition.answered:
            continue
        found.append(Evidence(code.span))
    return found


def _quoted(data: bytes) -> int:
    """About how many bytes stand between quotes; cheap."""
    return sum(map(len, data.split(b'"')[1::2])) + sum(map(len, data.split(b"'")[1::2]))


def _query(query: QueryCondition, looking: Looking) -> list[Evidence]:
    found = []
    needs = [text.encode() for text in ((query.needs,) if isinstance(query.needs, str) else query.needs)]
    for code in looking.facts.codes:
        wanted = query.code == "any" or (query.code == "file") == (code.written is not None)
        if (
            code.language != query.language
            or not wanted
            or not code.valid
            or not any(text in code.data for text in needs)
        ):
            continue
        for start, end in trees.captures(trees.parse(code.language, code.data), query):
            found.append(Evidence(_body_span(code, start, end), None))
    return found


def _body_span(code: Code, start: int, end: int) -> tuple[int, int]:
    return code.span if code.offset is None else (code.offset + start, code.offset + end)


def _in_place(fact: Found, place: Place) -> bool:
    if place.code == "action" and fact.written is not None:
        return False
    if place.code == "file" and fact.written is None:
        return False
    if place.file and (fact.written is None or not compiled(place.file).search(fact.written)):
        return False
    return not place.languages or fact.language in place.languages


def _pathtest_of(condition: PathCondition) -> Callable[[Found], bool]:
    match = compiled(condition.match).search if condition.match else None
    by = compiled(condition.by).fullmatch if condition.by else None
    both = bool(condition.under and condition.covers)

    def test(fact: Found) -> bool:
        if match is not None and match(fact.value) is None:
            # what is a link of /proc to the root is still a look at the process
            if not fact.given.startswith("/proc/") or match(fact.given) is None:
                return False
            return by is None or by(fact.by) is not None
        if by is not None and by(fact.by) is None:
            return False
        return not both or covers(fact.value, condition.covers)

    return test


def _args_match(condition, fact: Found) -> bool:
    joined = " ".join(fact.args)
    if condition.args and not compiled(condition.args).search(joined):
        return False
    return not (condition.without and compiled(condition.without).search(joined))
