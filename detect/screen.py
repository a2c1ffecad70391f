"""Clears files without reading them: those that are quiet, and whose words no rule could be about.

Of a quiet file (`detect.quiet`) the facts that only a reader finds are known well enough without one: it starts no
program and opens nothing but files of its own folder; what it imports, calls and says stands in its words. So each
alternative of a rule is asked whether it may hold: exactly, where it is about the text, its traits, tables or the name
of the file, and by the words that it needs, where it is about the rest. Whatever may hold has the file read, and only
then anything is decided: a screen clears, and never accuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from detect.conditions import Looking, test_of
from detect.facts import Language, facts_of_text, language_of
from detect.features import Feature, Index, features_of, leaf_features
from detect.literals import clauses_of, words_of
from detect.needs import Need, anchors
from detect.quiet import may_import, texts
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
_TOLD = frozenset(
    [
        *("hidden_name", "computed_name", "hidden_text"),
        *("too_large", "too_deep", "too_complex", "too_many_facts", "partly_read"),
        *("assembled", "unknown_code", "unknown_script"),
    ]
)
"""Reasons that the text alone tells; that no quiet file gives, as it is short and understood without being read; or for
which only what is not quiet gives cause: code that is run, texts put together to what matters."""
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
        always: set[Feature] = {("string", "")}
        always.update(("opaque", why) for why in self._index.asked.get("opaque", ()) if why not in _TOLD)
        self._named: dict[bytes, list[tuple[frozenset[bytes], Feature]]] = {}
        """Calls and imports that rules ask for, by the last word of the name, each with the words that it needs."""
        for kind in ("call", "import"):
            for name in self._index.asked.get(kind, ()):
                words = _needed(str(name))
                if words:
                    self._named.setdefault(words[-1], []).append((frozenset(words), (kind, name)))
                else:
                    always.add((kind, name))
        self._always = frozenset(always)
        """What any file may have."""
        self._in_paths = frozenset(word for _, condition in kept for word in _in_paths(condition))
        """Words of the paths of other files that rules ask for."""

    def clears(self, action: Action, earlier: Earlier | None, context: EpisodeContext) -> bool:
        """Whether no rule can be about the action; False tells nothing."""
        if action.kind != "write" or action.path is None:
            return False
        try:
            return self._is_clear(action.path, action.body, earlier, context)
        except Exception:
            # too much to look at, or a look that fails: the file is read, where that is dealt with
            return False

    def _is_clear(self, path: str, body: bytes, earlier: Earlier | None, context: EpisodeContext) -> bool:
        language = language_of(path, body)
        said = texts(language, body)
        if said is None:
            return False
        facts = facts_of_text(path, body, language, earlier)
        looking = Looking(facts, context)
        more = self._features(language, words_of(facts.text).all, said)
        index = self._of_name(path, language)
        candidates = index.candidates(facts, looking.by_kind, context.task, more, said + b"\n" + body)
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

    def _features(self, language: Language, words: frozenset[bytes], said: bytes) -> frozenset[Feature]:
        """What a quiet file may have besides what its text tells; `said`: with what its literals say together."""
        found: set[Feature] = set()
        for word in words & self._named.keys():
            found.update([feature for needed, feature in self._named[word] if needed <= words])
        found = {(kind, name) for kind, name in found if kind != "import" or may_import(language, str(name))}
        for word in [*(words & self._in_paths), *[word for word in self._in_paths if word in said]]:
            found.update((("read word", word), ("mention word", word)))
        return self._always | found


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
    path = condition.path
    about = path or condition.call or condition.imports or condition.string or condition.trait or condition.opaque
    if condition.command is not None or (about is not None and about.code == "action"):
        return False
    return path is None or "write" in path.access or not _leads_out(path)


def _in_paths(condition: Condition) -> Iterator[bytes]:
    """Words of paths that a condition asks for where it is about other files than the one that is written."""
    for part in condition.parts:
        yield from _in_paths(part)
    if (path := condition.path) is None or _is_exact(condition) or not path.match:
        return
    pattern = compiled(path.match)
    ways, begins = clauses_of(pattern), anchors(pattern)
    for number, way in enumerate(ways):
        if len(ways) != len(begins) or not _is_elsewhere(begins[number]):
            yield from (word for clause in way for word in clause.words)


def _leads_out(path: PathCondition) -> bool:
    """Whether what is meant lies outside of the folder that all files of a quiet program are in."""
    if path.under or path.covers:
        return not any(f"{folder}/".startswith("/work/") for folder in (*path.under, *path.covers))
    if (only := _ONE_PATH.fullmatch(path.match)) is not None:
        return not only[1].startswith("/work/")
    return bool(path.match) and all(map(_is_elsewhere, anchors(compiled(path.match))))


def _is_elsewhere(begins: Need | None) -> bool:
    """Whether no path that begins so lies in the folder."""
    return begins is not None and not any(
        text.startswith("/work"[: len(text)]) or not text.startswith("/") for text, _, _ in begins
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
    if (named := condition.call or condition.imports) is not None:
        return _one_of(named.languages or languages, leaf_features(condition))
    return lambda looking, more: condition.command is None


def _one_of(languages: tuple[str, ...], wanted: frozenset[Feature]) -> MayHold:
    """Whether a file in one of the languages (any, when there are none) may have one of the `wanted`."""
    if not languages:
        return lambda looking, more: not wanted.isdisjoint(more)
    return lambda looking, more: looking.facts.codes[0].language in languages and not wanted.isdisjoint(more)


def _is_exact(condition: Condition) -> bool:
    """Whether the text of a quiet file alone tells if a condition holds."""
    if condition.parts:
        return all(map(_is_exact, condition.parts))
    if condition.path is not None:
        return set(condition.path.access) <= {"write", "list", "run"} or _leads_out(condition.path)
    if condition.opaque is not None:
        return bool(condition.opaque.reason) and set(condition.opaque.reason) <= _TOLD
    return condition.call is None and condition.imports is None and condition.string is None
