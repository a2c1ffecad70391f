"""Clears files without reading them: those that are quiet, and whose words no rule could be about.

Of a quiet file (`detect.quiet`) the facts that only a reader finds are known well enough without one: it starts no
program and opens nothing but files of its own folder; what it imports, calls and says stands in its words. So each
alternative of a rule is asked whether it may hold: exactly, where it is about the text, its traits, tables or the name
of the file, and by the words that it needs, where it is about the rest. Whatever may hold has the file read, and only
then anything is decided: a screen clears, and never accuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from detect.conditions import Looking, test_of
from detect.facts import Language, TooComplex, facts_of_text, language_of
from detect.features import Feature, Index, features_of
from detect.literals import words_of
from detect.needs import starts
from detect.quiet import is_quiet, may_import
from detect.rule_set import Condition, PathCondition, Rule, compiled
from queues.context import EpisodeContext
from queues.messages import Action

if TYPE_CHECKING:
    from detect.earlier import Earlier

_ONE_PATH = re.compile(r"\^((?:/\w*)+)\$")
"""A pattern that a single path matches."""
MayHold = Callable[[Looking, frozenset[Feature]], bool]
"""Whether a condition may hold for a quiet file with these facts, and these features that it may have besides."""
_UNTOLD = frozenset([b"java", b"lang", b"std", b"libc"])
"""Parts of names that need not stand in the code that uses them."""
_FROM_TEXT = frozenset(
    ["hidden_name", "computed_name", "hidden_text", "too_large", "too_deep", "too_complex", "too_many_facts"]
)
"""Reasons that the text alone tells, or that no quiet file gives: it is short, and is understood without being read."""
_OF_READERS = frozenset(["assembled", "partly_read", "unknown_code", "unknown_script"])
"""Reasons for which only what is not quiet gives cause: code that is run, texts put together to what matters."""


_READING: frozenset[Feature] = frozenset([("access", "read"), ("access", "mention")])
"""What quiet files do with others."""
_OF_NAME = frozenset(
    [
        *("access", "action access", "write word", "list word", "run word", "place", "folder", "vague", "code"),
        *("command",),
    ]
)
"""Kinds of features of which a quiet file has no more than its name and language say."""
_NAMES = 64


class Screen:
    def __init__(self, alternatives: Iterable[tuple[Rule, Condition]]) -> None:
        kept = [(rule, condition) for rule, condition in alternatives if _is_possible(condition)]
        self._index = Index(condition for _, condition in kept)
        self._tests = [_may_hold(condition, rule.languages) for rule, condition in kept]
        self._of_names: dict[tuple[str, Language], Index] = {}
        self._named: dict[bytes, list[tuple[frozenset[bytes], Feature]]] = {}
        """Calls and imports that rules ask for, by the last word of the name, each with the words that it needs."""
        for kind in ("call", "import"):
            for name in self._index.asked.get(kind, ()):
                words = _needed(str(name))
                self._named.setdefault(words[-1] if words else b"", []).append((frozenset(words), (kind, name)))
        self._path_words = {
            kind: frozenset(values)
            for kind, values in self._index.asked.items()
            if kind in ("read word", "mention word")
        }

    def clears(self, action: Action, earlier: Earlier | None, context: EpisodeContext) -> bool:
        """Whether no rule can be about the action; False tells nothing."""
        if action.kind != "write" or action.path is None:
            return False
        body = action.body
        language = language_of(action.path, body)
        if not is_quiet(language, body):
            return False
        try:
            facts = facts_of_text(action.path, body, language, earlier)
        except TooComplex:
            return False
        looking = Looking(facts, context)
        more = self._features(language, words_of(facts.text).all)
        candidates = self._of_name(action.path, language).candidates(facts, looking.by_kind, context.task, more, body)
        return not any([self._tests[number](looking, more) for number in candidates])

    def _of_name(self, path: str, language: Language) -> Index:
        """The index for files of that name: most conditions about paths are decided by it."""
        index = self._of_names.get((path, language))
        if index is None:
            if len(self._of_names) >= _NAMES:
                self._of_names.clear()
            named = facts_of_text(path, b"", language)
            met = features_of(named) | _READING
            index = self._of_names[path, language] = self._index.where(met, _OF_NAME)
        return index

    def _features(self, language: Language, words: frozenset[bytes]) -> frozenset[Feature]:
        """What a quiet file of these words may have besides what its text tells."""
        found: set[Feature] = {("string", "")}
        for word in words & self._named.keys():
            found.update([feature for needed, feature in self._named[word] if needed <= words])
        found = {(kind, name) for kind, name in found if kind != "import" or may_import(language, str(name))}
        for kind, asked in self._path_words.items():
            found.update([(kind, word) for word in words & asked])
        return frozenset(found)


def _needed(name: str) -> list[bytes]:
    """Words that stand in any code that uses a function or module of that name."""
    words = [word.encode() for word in re.findall(r"\w+", name, re.ASCII)]
    return [word for word in words if not word.startswith(b"__") and word not in _UNTOLD]


def _is_possible(condition: Condition) -> bool:
    """Whether a condition could hold for any quiet file."""
    if condition.any is not None:
        return any(map(_is_possible, condition.any))
    if condition.all is not None:
        return all(map(_is_possible, condition.all))
    return condition.command is None and (
        condition.path is None or "write" in condition.path.access or not _leads_out(condition.path)
    )


def _leads_out(path: PathCondition) -> bool:
    """Whether what is meant lies outside of the folder that all files of a quiet program are in."""
    if path.under or path.covers:
        return not any(f"{folder}/".startswith("/work/") for folder in (*path.under, *path.covers))
    if (only := _ONE_PATH.fullmatch(path.match)) is not None:
        return not only[1].startswith("/work/")
    known = starts(compiled(path.match)) if path.match else None
    return known is not None and not any(
        text.startswith("/work"[: len(text)]) or not text.startswith("/") for text, _, _ in known
    )


def _may_hold(condition: Condition, languages: tuple[str, ...]) -> MayHold:
    if condition.any is not None or condition.all is not None:
        parts = [_may_hold(part, languages) for part in condition.any or condition.all or ()]
        if condition.any is not None:
            return lambda looking, more: any([part(looking, more) for part in parts])
        return lambda looking, more: all(part(looking, more) for part in parts)
    if condition.none is not None:
        without = [test_of(part, languages) for part in condition.none if _is_exact(part)]
        return lambda looking, more: not any(test(looking) for test in without)
    if _is_exact(condition):
        test = test_of(condition, languages)
        return lambda looking, more: bool(test(looking))
    if (call := condition.call) is not None:
        features = [("call", name.removesuffix("*") if name.endswith(".*") else name) for name in call.name]
        return _one_of(call.languages or languages, features)
    if (imports := condition.imports) is not None:
        features = [("import", name) for module in imports.module for name in (module, f"{module}.")]
        return _one_of(imports.languages or languages, features)
    return lambda looking, more: condition.command is None


def _one_of(languages: tuple[str, ...], features: Iterable[Feature]) -> MayHold:
    """Whether a file in one of the languages (any, when there are none) may have one of the features."""
    wanted = frozenset(features)
    if not languages:
        return lambda looking, more: not wanted.isdisjoint(more)
    return lambda looking, more: looking.facts.codes[0].language in languages and not wanted.isdisjoint(more)


def _is_exact(condition: Condition) -> bool:
    """Whether the text of a quiet file alone tells if a condition holds."""
    parts = condition.any or condition.all or condition.none
    if parts is not None:
        return all(map(_is_exact, parts))
    if condition.path is not None:
        return set(condition.path.access) <= {"write", "list", "run"} or _leads_out(condition.path)
    if condition.opaque is not None:
        return bool(condition.opaque.reason) and set(condition.opaque.reason) <= _FROM_TEXT | _OF_READERS
    return condition.call is None and condition.imports is None and condition.string is None
