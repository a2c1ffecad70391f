"""Patterns that are tried only where something stands that they cannot match without.

Looking whether a text has a few words takes a tenth of the time that a pattern of many alternatives takes, and most
texts have none of them. What is needed is read off the pattern itself (`detect.needs`). A pattern that needs a whole
word (`\\bword\\b`) costs next to nothing: the words of a text are collected once for all patterns, and tell at once
which of them to try. One that begins with a known text is tried only where that stands.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from typing import AnyStr, ClassVar, Generic, cast

import msgspec

from detect.needs import MAX_TEXTS, MAX_WORDS, Need, alternatives, needs, starts

MAX_CLAUSES = 3
_RARE = b"$~|`@?%^\\#&"
"""Signs that tell something by themselves; all others nearly every code has."""
_WORD = re.compile(r"\w+", re.ASCII)
_LETTERS = bytes(code if code < 128 and (chr(code).isalnum() or code == 95) else 32 for code in range(256))
"""Every byte that is no part of a word as a blank."""


def noughts(letters: bytes) -> bytes:
    """A table for `translate`: `letters` as noughts, all else as blanks. A run of such letters is found fast then."""
    return bytes(48 if code in letters else 32 for code in range(256))


def set_of_words(text: bytes) -> frozenset[bytes]:
    """The longest runs of ASCII letters, figures and `_` in a text."""
    return frozenset(text.translate(_LETTERS).split())


class Words:
    """The words of a text: the longest runs of ASCII letters, figures and `_` in it."""

    def __init__(self, text: bytes, joined: bytes | None = None) -> None:
        self.text = text
        self.all = set_of_words(text) if joined is None else frozenset(joined.split())
        self.joined = b" ".join(self.all)
        """All of them in a row: a part of a word is found there faster than in the text."""
        self._ways = (0, 0)
        """The ways that words are for, and how many ways all finders had when these were collected."""

    @cached_property
    def lowered(self) -> Words:
        """Those of the text in small letters."""
        return Words(self.text.lower(), self.joined.lower())

    def ways(self) -> int:
        """The ways of all finders that one of the words is for, as bits."""
        ways, asked = self._ways
        # read before the words are: what another thread adds meanwhile is looked for at the next ask
        known = Finder.known
        if asked != known:
            ways = 0
            for word in self.all & Finder.words:
                ways |= Finder.of_word[word]
            self._ways = ways, known
        return ways


@lru_cache(maxsize=256)
def words_of(text: str | bytes) -> Words:
    """The words of a text; what is not Latin-1 counts as a sign, so that a word may end too early, but never too late.

    Only ASCII words are ever asked for, and of those all are found.
    """
    return Words(text) if isinstance(text, bytes) else words_of(text.encode("latin-1", "replace"))


class Clause(msgspec.Struct, frozen=True):
    """One of `words` stands in every match as a whole word, or one of `parts` within one, or one of `texts` anywhere.

    A word in `more` counts only where one of the longer texts stands as well that it is a part of.
    """

    words: frozenset[bytes]
    more: dict[bytes, tuple[bytes, ...]]
    parts: tuple[bytes, ...]
    texts: tuple[bytes, ...]

    def holds(self, words: Words) -> bool:
        if not words.all.isdisjoint(self.words):
            if not self.more:
                return True
            for word in words.all & self.words:
                for one in self.more.get(word, (word,)):
                    if one in words.text:
                        return True
        # most clauses have neither parts nor texts
        for one in self.parts:
            if one in words.joined:
                return True
        for one in self.texts:  # noqa: SIM110
            if one in words.text:
                return True
        return False


def _hold(clauses: Sequence[Clause], words: Words) -> bool:
    # one after the other is twice as fast as all()
    for clause in clauses:  # noqa: SIM110
        if not clause.holds(words):
            return False
    return True


class _Way(Generic[AnyStr]):
    """One alternative of a pattern, and what its matches begin with, by the words that are a part of that."""

    def __init__(self, pattern: re.Pattern[AnyStr]) -> None:
        self.pattern = pattern
        self._of_word: dict[bytes, list[bytes]] = {}
        self._others: list[bytes] = []
        folded = bool(pattern.flags & re.IGNORECASE)
        known = starts(pattern)
        self._anchored = known is not None and all(text.isascii() for text, _, _ in known)
        for given, left, right in known if known is not None and self._anchored else ():
            text = given.lower() if folded else given
            whole = _whole_words(text, left, right)
            (self._of_word.setdefault(max(whole, key=len).encode(), []) if whole else self._others).append(
                text.encode()
            )
        self._words = frozenset(self._of_word)

    def _standing(self, words: Words) -> list[bytes]:
        """Of what matches begin with, what may stand in a text."""
        return [start for word in words.all & self._words for start in self._of_word[word]] + self._others

    def places(self, words: Words) -> list[int] | None:
        """Where there may be matches; None where that is not known."""
        if not self._anchored:
            return None
        find = words.text.find
        found: list[int] = []
        for start in self._standing(words):
            place = find(start)
            while place >= 0:
                found.append(place)
                place = find(start, place + 1)
        return found

    def search(self, text: AnyStr, words: Words) -> re.Match[AnyStr] | None:
        """The leftmost match; `words` are those of `text`, in small letters where case does not matter."""
        if not self._anchored:
            return self.pattern.search(text)
        match, find, first = self.pattern.match, words.text.find, None
        for start in self._standing(words):
            place = find(start)
            while place >= 0 and (first is None or place < first.start()):
                found = match(text, place)
                if found is not None:
                    first = found
                    break
                place = find(start, place + 1)
        return first


Needs = tuple[int, int, tuple[list[int], list[tuple[bytes, int]], list[tuple[bytes, int]]] | None]
"""The number of the first of some ways among those of all finders, the ways as bits, and the rest of them.

The rest is what words do not tell: numbers of the ways that are always possible, those by parts of words and those by
texts; None where there is none.
"""


def _standing(needs: Needs, words: Words) -> list[int]:
    """The numbers of ways, from the first of them, of which the first thing that they need stands in a text."""
    first, every, rest = needs
    ways = words.ways() & every
    numbers: list[int] = []
    if rest is not None:
        always, parts, texts = rest
        numbers += always
        joined, whole = words.joined, words.text
        numbers += [number for part, number in parts if part in joined]
        numbers += [number for one, number in texts if one in whole]
    if not ways:
        return numbers
    ways >>= first
    while ways:
        numbers.append((ways & -ways).bit_length() - 1)
        ways &= ways - 1
    return numbers


class Finder(Generic[AnyStr]):
    """A pattern that is asked as a compiled one is, and answers faster where there is little to be found."""

    known: ClassVar[int] = 0
    """How many ways to match all of them have; raised when all else about the new ones is in place."""
    of_word: ClassVar[dict[bytes, int]] = {}
    """The ways for which a word is enough to be tried, as bits."""
    words: ClassVar[frozenset[bytes]] = frozenset()
    _adding: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, pattern: AnyStr | re.Pattern[AnyStr], flags: int = 0, *, tail: AnyStr | None = None) -> None:
        """`tail` stands behind `pattern`, and is looked for before the whole is, as it is found faster."""
        whole = pattern if tail is None else cast("AnyStr", pattern) + tail
        self.pattern: re.Pattern[AnyStr] = re.compile(whole, flags)
        self._tail: Finder[AnyStr] | None = None if tail is None else Finder(tail, flags)
        self._folded = bool(self.pattern.flags & re.IGNORECASE)

    def __repr__(self) -> str:
        return f"Finder({self.pattern.pattern!r})"

    @cached_property
    def _ways(self) -> list[tuple[_Way[AnyStr], tuple[Clause, ...]]]:
        """The ways to match, each with what it needs."""
        ways = [(_Way(way), choices) for way in alternatives(self.pattern) for choices in [clauses_of(way)]]
        return [(way, clauses) for way, choices in ways for clauses in choices]

    @property
    def clauses(self) -> list[tuple[Clause, ...]]:
        """What each of the ways needs."""
        return [clauses for _, clauses in self._ways]

    @cached_property
    def needs(self) -> Needs:
        """What tells which of the ways are possible; all finders learn of the words."""
        always, parts, texts = [], [], []
        with Finder._adding:
            first = Finder.known
            for number, (_, clauses) in enumerate(self._ways):
                if not clauses:
                    always.append(number)
                    continue
                for word in clauses[0].words:
                    Finder.of_word[word] = Finder.of_word.get(word, 0) | 1 << (first + number)
                parts += [(part, number) for part in clauses[0].parts]
                texts += [(text, number) for text in clauses[0].texts]
            Finder.words = frozenset(Finder.of_word)
            Finder.known = first + len(self._ways)
        rest = (always, parts, texts) if always or parts or texts else None
        return first, (1 << len(self._ways)) - 1 << first, rest

    def _possible(self, text: AnyStr) -> tuple[list[_Way[AnyStr]], Words]:
        """The ways in which `text` can be matched, and its words."""
        words = words_of(text)
        if self._folded:
            words = words.lowered
        numbers = _standing(self.needs, words)
        if not numbers:
            return [], words
        choices = [self._ways[number] for number in sorted(set(numbers))]
        found = list(dict.fromkeys([way for way, clauses in choices if _hold(clauses, words)]))
        if found and self._tail is not None and not self._tail.occurs(text):
            return [], words
        return found, words

    def may_match(self, text: AnyStr) -> bool:
        """Whether there can be a match anywhere in `text`; False only where there certainly is none."""
        return bool(self._possible(text)[0])

    def search(self, text: AnyStr) -> re.Match[AnyStr] | None:
        """The leftmost match, and of those that begin at one place that of the alternative that is named first."""
        ways, words = self._possible(text)
        first: re.Match[AnyStr] | None = None
        for way in ways:
            found = way.search(text, words)
            if found is not None and (first is None or found.start() < first.start()):
                first = found
        return first

    def occurs(self, text: AnyStr) -> bool:
        """Whether there is a match, which is found out faster than where."""
        ways, words = self._possible(text)
        # one after the other is twice as fast as any()
        for way in ways:  # noqa: SIM110
            if way.search(text, words) is not None:
                return True
        return False

    def finditer(self, text: AnyStr) -> Iterator[re.Match[AnyStr]]:
        ways, words = self._possible(text)
        places: set[int] = set()
        for way in ways:
            known = way.places(words)
            if known is None:
                yield from self.pattern.finditer(text)
                return
            places.update(known)
        end = 0
        for place in sorted(places):
            if place >= end and (found := self.pattern.match(text, place)) is not None:
                yield found
                end = found.end()

    def overlapping(self, text: AnyStr) -> Iterator[re.Match[AnyStr]]:
        """The matches of each alternative by itself."""
        ways, words = self._possible(text)
        for way in ways:
            places = way.places(words)
            if places is None:
                yield from way.pattern.finditer(text)
            else:
                yield from filter(None, (way.pattern.match(text, place) for place in sorted(set(places))))


class Group(Generic[AnyStr]):
    """Finders that are asked together: most texts are done with after one look for all of them."""

    def __init__(self, finders: Iterable[Finder[AnyStr]]) -> None:
        self._finders = tuple(finders)

    @cached_property
    def _needs(self) -> tuple[Needs, dict[int, tuple[tuple[Clause, ...], Finder[AnyStr]]]]:
        """What all of them need, and all that each way does and whose it is, by its number among those of all."""
        every, always, parts, texts = 0, list[int](), list[tuple[bytes, int]](), list[tuple[bytes, int]]()
        ways_of: dict[int, tuple[tuple[Clause, ...], Finder[AnyStr]]] = {}
        for one in self._finders:
            first, ways, rest = one.needs
            every |= ways
            ways_of.update((first + number, (clauses, one)) for number, clauses in enumerate(one.clauses))
            if rest is not None:
                always += [first + number for number in rest[0]]
                parts += [(part, first + number) for part, number in rest[1]]
                texts += [(text, first + number) for text, number in rest[2]]
        return (0, every, (always, parts, texts)), ways_of

    def may_match(self, text: AnyStr) -> bool:
        """Whether any of them may match; False only where certainly none does. Case has to matter to all of them."""
        needs, ways = self._needs
        words = words_of(text)
        for number in _standing(needs, words):
            clauses, one = ways[number]
            if _hold(clauses, words) and one.may_match(text):
                return True
        return False


@cache
def finder(pattern: str) -> Finder[str]:
    """The one finder of a rule's pattern: all finders are told apart for as long as the process lives."""
    return Finder(pattern)


def clauses_of(pattern: re.Pattern[AnyStr]) -> list[tuple[Clause, ...]]:
    """What each way in which `pattern` matches needs, all of it; nothing where nothing is known."""
    folded = bool(pattern.flags & re.IGNORECASE)
    return [_clauses(way, folded) for way in needs(pattern)]


def _clauses(way: Iterable[Need], folded: bool) -> tuple[Clause, ...]:
    known = [clause for need in way if (clause := _clause(need, folded)) is not None]
    # what nearly every text has tells nothing beside others; words are asked for fastest, and long ones are rare
    telling = [one for one in known if one.words or not any(map(_is_common, (*one.parts, *one.texts)))] or known
    return tuple(sorted(telling, key=_cost)[:MAX_CLAUSES])


def _cost(clause: Clause) -> tuple[int, int]:
    return len(clause.parts) + 2 * len(clause.texts), -min(map(len, clause.words), default=0)


def _is_common(text: bytes) -> bool:
    return len(text) == 1 and text not in _RARE


def one_of(texts: Iterable[str]) -> Clause:
    """What holds where one of `texts` stands."""
    given = tuple(texts)
    clause = _clause(frozenset((text, False, False) for text in given), False, len(given))
    if clause is not None:
        return clause
    return Clause(frozenset(), {}, (), tuple(text.encode("latin-1", "replace") for text in given))


def _whole_words(text: str, left: bool, right: bool) -> list[str]:
    """The words in a text that are no parts of longer ones; `left`, `right`: no letter stands before it, behind it."""
    found = _WORD.finditer(text)
    return [one[0] for one in found if (left or one.start()) and (right or one.end() < len(text))]


def _clause(need: Need, folded: bool, most: int = MAX_TEXTS) -> Clause | None:
    words: set[str] = set()
    more: dict[str, set[str]] = {}
    texts: set[str] = set()
    for given, left, right in need:
        text = given.lower() if folded else given
        if not text.isascii():
            return None
        whole = _whole_words(text, left, right)
        if not whole:
            texts.add(text)
            continue
        word = max(whole, key=len)
        words.add(word)
        more.setdefault(word, set()).add(text)
    # a text with another one in it says nothing more
    least = [text for text in texts if not any(other in text and other != text for other in texts)]
    if len(least) > most or len(words) > MAX_WORDS:
        return None
    parts = {text for text in least if _WORD.fullmatch(text)}

    def ready(some: Iterable[str]) -> tuple[bytes, ...]:
        return tuple(text.encode() for text in sorted(some))

    longer = {word.encode(): ready(with_it) for word, with_it in more.items() if word not in with_it}
    return Clause(frozenset(ready(words)), longer, ready(parts), ready(set(least) - parts))
