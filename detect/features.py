"""What an action must have for a condition to hold, read off the condition itself.

Of some hundred alternatives of all rules an honest action can match a handful. Each alternative is taken apart into
needs, all of which an action must meet: one of some features (a fact of a kind with some value, a word of a path, a
word of the text), or a text in which one of some others stands. Needs only ever say no: whether a condition holds
where they are met is for the engine to ask.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from detect.facts import Facts, Found
from detect.literals import Clause, clauses_of, one_of, words_of
from detect.paths import is_vague
from detect.rule_set import Condition, PathCondition, Place, compiled

Feature = tuple[str, str | bytes]
"""Something that an action has or has not: a kind, and a value of it (or what its values begin with)."""
OWN = "\0"
"""The name of the task itself, among features."""
_LOOSE = "action "
"""What a kind of paths is called that the action itself touches: not the code that it writes."""
_COMMON = {"access": 4, "string": 4, "code": 3, "part": 2, "text": 2, "path": 2}
"""How common a kind of feature is, by the last word of its name; the others are rare."""
MAX_NAME = 200
"""Characters of a function's or module's name that any rule is about."""
_EVERYWHERE = frozenset([b"work", b"main"])
"""Words of nearly every path: files are written to the workspace, and what is graded has few names."""


class Need(NamedTuple):
    """One of `features` or one of `pieces`.

    Pieces are looked for where their kind says: in words of the text (`part`), in the `text`, or in a `path`.
    """

    features: frozenset[Feature] = frozenset()
    pieces: frozenset[tuple[str, bytes]] = frozenset()


def needs_of(condition: Condition) -> list[Need]:
    """What an action must have, all of it, for the condition to hold; nothing where nothing can be told."""
    if condition.all is not None:
        return [need for part in condition.all for need in needs_of(part)]
    if condition.any is not None:
        return _one_of([needs_of(part) for part in condition.any])
    if condition.regex is not None:
        return _one_of([[_said(clause) for clause in way] for way in _clauses(condition.regex)])
    if condition.contains is not None:
        return [_said(one_of(condition.contains))]
    if condition.path is not None:
        return _path_needs(condition.path)
    features = leaf_features(condition)
    return [Need(features)] if features else []


def _one_of(ways: list[list[Need]]) -> list[Need]:
    """What is needed where one of some ways is enough; nothing where one of them needs nothing."""
    if len(ways) == 1 or not all(ways):
        return ways[0] if len(ways) == 1 else []
    # what is best in each way: to look into the ways takes as long as to ask the condition
    return [_either([min(needs, key=_rank) for needs in ways])]


def leaf_features(condition: Condition) -> frozenset[Feature]:
    """One of these a condition needs that is about a single kind of fact, paths left out."""
    if (command := condition.command) is not None:
        own = [("command", OWN)] if command.task_program else []
        return frozenset([*(("command", name) for name in command.name), *own])
    if (call := condition.call) is not None:
        return frozenset(("call", name.removesuffix("*") if name.endswith(".*") else name) for name in call.name)
    if (imports := condition.imports) is not None:
        return frozenset(("import", name) for module in imports.module for name in (module, f"{module}."))
    if condition.string is not None:
        return frozenset([("string", "")])
    if (opaque := condition.opaque) is not None:
        return frozenset(("opaque", reason) for reason in opaque.reason or ("",))
    if (trait := condition.trait) is not None:
        return frozenset(("trait", name) for name in trait.name)
    if (query := condition.query) is not None:
        return frozenset([("code", query.language)])
    return frozenset()


def _path_needs(path: PathCondition) -> list[Need]:
    place = _placed(path)
    needs = [Need(frozenset((f"{place}access", access) for access in path.access))]
    if path.match:
        needs += _one_of([[_in_path(clause, path.access) for clause in way] for way in _clauses(path.match)])
    if path.under:
        needs.append(Need(frozenset([("vague", ""), *(("folder", folder) for folder in path.under)])))
    if path.covers:
        needs.append(Need(frozenset(("place", above) for folder in path.covers for above in _above(folder))))
    return needs


def _clauses(pattern: str) -> list[tuple[Clause, ...]]:
    """What each way of matching a pattern needs, all of it; nothing where case does not matter."""
    ready = compiled(pattern)
    return [()] if ready.flags & re.IGNORECASE else clauses_of(ready)


def _placed(place: Place) -> str:
    return _LOOSE if place.code == "action" else ""


def _above(folder: str) -> Iterator[str]:
    """The folders from which a walk meets `folder`."""
    yield "/"
    for end, char in enumerate(folder):
        if char == "/":
            yield folder[:end]


def _said(clause: Clause) -> Need:
    pieces = frozenset(_piece(text) for text in clause.parts + clause.texts)
    return Need(frozenset(("word", word) for word in clause.words), pieces)


def _in_path(clause: Clause, access: Sequence[str]) -> Need:
    words = frozenset((f"{kind} word", word) for kind in access for word in clause.words)
    return Need(words, frozenset(("path", piece) for piece in clause.parts + clause.texts))


def _piece(text: bytes) -> tuple[str, bytes]:
    """What is looked for to find `text`: letters among words, which are found there faster, where it has some."""
    letters = max(re.findall(rb"\w+", text), key=len, default=b"")
    return ("part", letters) if len(letters) > 2 else ("text", text)


def _either(needs: Sequence[Need]) -> Need:
    features, pieces = zip(*needs, strict=True)
    return Need(frozenset().union(*features), frozenset().union(*pieces))


def _rank(need: Need) -> tuple[int, int, int]:
    """Needs that are soon looked up and seldom met come first: long words are rare."""
    every = need.features | need.pieces
    commonness = max(map(_commonness, every), default=0)
    return commonness, -min((len(value) for _, value in every), default=0), len(every)


def _commonness(feature: Feature) -> int:
    kind, value = feature
    if value in _EVERYWHERE or (kind in ("part", "text", "path") and len(value) < 3):
        return 4
    return _COMMON.get(kind.rpartition(" ")[2], 0)


def _left(need: Need, known: Set[str]) -> Need:
    """What is left of a need where no features of the `known` kinds can meet it."""
    return Need(frozenset((kind, value) for kind, value in need.features if kind not in known), need.pieces)


class Index:
    """Which of many conditions may hold for an action, by what it has."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._fill([sorted(needs_of(condition), key=_rank) for condition in conditions])

    def _fill(self, every: list[list[Need] | None]) -> None:
        """What each condition needs; None for one that cannot hold."""
        self._needs = every
        self._rest: list[list[Need]] = []
        """What else each condition needs, besides one of the features that it is found by."""
        self._always: list[int] = []
        """Conditions that no features alone tell of."""
        self._found_by: dict[Feature, list[int]] = {}
        features: set[Feature] = set()
        for number, needs in enumerate(every):
            if needs is None:
                self._rest.append([])
                continue
            features.update(feature for need in needs for feature in need.features)
            if needs and not needs[0].pieces:
                for feature in needs[0].features:
                    self._found_by.setdefault(feature, []).append(number)
                needs = needs[1:]
            else:
                self._always.append(number)
            # a look-up costs a tenth of a look into the text: pieces come last, most are never looked for
            self._rest.append(sorted(needs, key=lambda need: bool(need.pieces)))
        self.asked: dict[str, set[str | bytes]] = {}
        """The values of each kind that any condition asks for."""
        for kind, value in features:
            self.asked.setdefault(kind, set()).add(value)

    def where(self, met: Set[Feature], known: Set[str]) -> Index:
        """The index for actions that have `met`, and no other features of the `known` kinds."""
        every: list[list[Need] | None] = []
        for needs in self._needs:
            left = [] if needs is None else [_left(need, known) for need in needs if need.features.isdisjoint(met)]
            every.append(left if needs is not None and all(need.features or need.pieces for need in left) else None)
        narrowed = Index(())
        narrowed._fill(every)
        return narrowed

    def candidates(
        self,
        facts: Facts,
        by_kind: Mapping[str, Sequence[Found]],
        task: str,
        more: Iterable[Feature] = (),
        paths: bytes = b"",
    ) -> list[int]:
        """Numbers of the conditions whose needs are met, in order; `by_kind` has the same facts.

        `more` and `paths` are features, and what paths say, that the action may have besides its facts.
        """
        has = _Has(facts, by_kind, task, self.asked)
        has.features.update(more)
        has.add_paths(paths)
        numbers = {*self._always}
        for feature in has.features & self._found_by.keys():
            numbers.update(self._found_by[feature])
        return sorted([number for number in numbers if has.all_of(self._rest[number])])


def features_of(facts: Facts) -> frozenset[Feature]:
    """What the paths and the code of an action are, by all kinds of features that have to do with them."""
    paths = [fact for fact in facts.found if fact.kind == "path"]
    values = _of_paths(paths, frozenset())
    values["folder"].update(above for fact in paths for above in _above(f"{fact.value}/"))
    values["code"].update(code.language for code in facts.codes)
    return frozenset((kind, value) for kind, found in values.items() for value in found)


class _Has:
    """What one action has of what is `asked` for."""

    def __init__(
        self,
        facts: Facts,
        by_kind: Mapping[str, Sequence[Found]],
        task: str,
        asked: Mapping[str, Set[str | bytes]],
    ) -> None:
        paths = by_kind.get("path", ())
        words = words_of(facts.text)
        given = "\n".join([text for fact in paths for text in (fact.value, fact.given)])
        self._places = {"part": words.joined, "text": words.text, "path": given.encode("latin-1", "replace")}
        values: dict[str, Set[str | bytes]] = {"word": words.all, "code": {code.language for code in facts.codes}}
        for kind in ("command", "call", "import", "opaque", "trait"):
            values[kind] = {fact.value for fact in by_kind.get(kind, ())}
        for kind in ("call", "import"):
            values[kind] = frozenset().union(values[kind], *[_beginnings(name[:MAX_NAME]) for name in values[kind]])
        if task in values["command"]:
            values["command"] |= {OWN}
        values["opaque"] |= {"" for _ in values["opaque"]}
        values["string"] = {""} if "string" in by_kind else set()
        values |= _of_paths(paths, asked.get("folder", frozenset()))
        self.features: set[Feature] = set()
        for kind, found in values.items():
            if known := found & asked.get(kind, frozenset()):
                self.features.update([(kind, value) for value in known])

    def add_paths(self, more: bytes) -> None:
        if more:
            self._places["path"] += b"\n" + more

    def all_of(self, needs: list[Need]) -> bool:
        # nearly all are decided by the first one
        for need in needs:  # noqa: SIM110
            if need.features.isdisjoint(self.features) and not self._piece_of(need):
                return False
        return True

    def _piece_of(self, need: Need) -> bool:
        for kind, piece in need.pieces:  # noqa: SIM110
            if piece in self._places[kind]:
                return True
        return False


def _of_paths(facts: Sequence[Found], folders: Set[str | bytes]) -> dict[str, set[str | bytes]]:
    """What paths say, by the kinds of features; of folders only these are asked for."""
    values: dict[str, set[str | bytes]] = defaultdict(set)
    for fact in facts:
        path, access = fact.value, fact.access
        values["place"].add(path)
        values["access"].add(access)
        if fact.written is None:
            values[f"{_LOOSE}access"].add(access)
        if is_vague(path):
            values["vague"].add("")
        values["folder"].update([folder for folder in folders if path == folder or path.startswith(f"{folder}/")])
        for text in (path, fact.given) if fact.given.startswith("/proc/") else (path,):
            values[f"{access} word"].update(words_of(text).all)
    return values


@lru_cache(maxsize=4096)
def _beginnings(name: str) -> tuple[str, ...]:
    """What a dotted name begins with, up to and with each dot."""
    return tuple(name[: end + 1] for end, char in enumerate(name) if char == ".")
