"""What a regular expression cannot match without: words and texts, some of which stand in whatever it matches.

Looking whether a text has a few words takes a tenth of the time that a pattern of many alternatives takes, and most
texts have none of them. What is needed is read off the pattern itself, so nobody has to keep two lists in step; where
nothing can be told of a pattern, it is always tried. A pattern that needs a whole word (`\\bword\\b`) costs next to
nothing: the words of a text are collected once for all patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, AnyStr, Generic

import msgspec

MAX_TEXTS = 64
MAX_WORDS = 256
MAX_CLAUSES = 3
MAX_LETTERS = 8
"""Of a class of letters, how many are tried one by one."""


_RARE = "$~|`@?%^\\#&"
"""Signs that tell something by themselves; all others nearly every code has."""


class Words(Generic[AnyStr]):
    """The words of a text, which are the longest runs of what `\\w` matches in it."""

    __slots__ = ("all", "joined", "text")

    def __init__(self, text: AnyStr) -> None:
        self.text = text
        found: list[Any]
        if isinstance(text, bytes):
            found = text.translate(_LETTERS).split()
        elif text.isascii():
            # the same text as bytes is nearly always asked about too
            found = words_of(text.encode()).joined.decode().split()  # type: ignore[union-attr]
        else:
            found = _WORD.findall(text)
        self.all: frozenset[AnyStr] = frozenset(found)
        self.joined: AnyStr = (b" " if isinstance(text, bytes) else " ").join(self.all)  # type: ignore[assignment, arg-type]
        """All of them in a row: a part of a word is found there faster than in the text."""


words_of = lru_cache(maxsize=256)(Words)


class Clause(msgspec.Struct, Generic[AnyStr], frozen=True):
    """One of `words` stands in every match as a whole word, or one of `parts` within one, or one of `texts` anywhere.

    A word in `more` counts only where one of the longer texts stands as well that it is a part of.
    """

    words: frozenset[AnyStr]
    more: dict[AnyStr, tuple[AnyStr, ...]]
    parts: tuple[AnyStr, ...]
    texts: tuple[AnyStr, ...]

    def holds(self, words: Words[AnyStr]) -> bool:
        if not words.all.isdisjoint(self.words):
            if not self.more:
                return True
            for word in words.all & self.words:
                longer = self.more.get(word)
                if longer is None or any(one in words.text for one in longer):  # type: ignore[operator]
                    return True
        # most clauses have neither parts nor texts
        for one in self.parts:
            if one in words.joined:  # type: ignore[operator]
                return True
        for one in self.texts:  # noqa: SIM110
            if one in words.text:  # type: ignore[operator]
                return True
        return False


_WORD = re.compile(r"\w+")
_LETTERS = bytes(code if code < 128 and (chr(code).isalnum() or code == 95) else 32 for code in range(256))
"""Every byte that is no part of a word as a blank."""


@lru_cache(maxsize=4)
def _lowered(text: AnyStr) -> AnyStr:
    return text.lower()


def one_of(texts: Iterable[str]) -> Clause[str]:
    """What holds where one of `texts` stands."""
    given = tuple(texts)
    clause = _clause(frozenset((text, False, False) for text in given), False, False, True, len(given))
    return Clause(frozenset(), {}, (), given) if clause is None else clause


def may_match(pattern: re.Pattern[AnyStr], text: AnyStr) -> bool:
    """Whether `pattern` can match anywhere in `text`; False only where it certainly does not."""
    clauses, folded = needed(pattern)
    if not clauses:
        return True
    words = words_of(_lowered(text) if folded else text)
    if not _hold(clauses, words):
        return False
    ways = _needed_by_way(pattern)
    return not ways or any([_hold(way, words) for way in ways])


def _hold(clauses: tuple[Clause[AnyStr], ...], words: Words[AnyStr]) -> bool:
    # one after the other is twice as fast as all()
    for clause in clauses:  # noqa: SIM110
        if not clause.holds(words):
            return False
    return True


def search(pattern: re.Pattern[AnyStr], text: AnyStr) -> re.Match[AnyStr] | None:
    """As `pattern.search(text)`, and faster where there is little; groups are kept where the pattern has any."""
    return _search(pattern, text, False)


def occurs(pattern: re.Pattern[AnyStr], text: AnyStr) -> bool:
    """Whether `pattern` matches anywhere in `text`, which is found out faster than where."""
    return _search(pattern, text, True) is not None


def _search(pattern: re.Pattern[AnyStr], text: AnyStr, anywhere: bool) -> re.Match[AnyStr] | None:
    clauses, folded = needed(pattern)
    words = words_of(_lowered(text) if folded else text)
    if not _hold(clauses, words):
        return None
    ways = _ready_ways(pattern)
    if not ways:
        return pattern.search(text) if may_match(pattern, text) else None
    first: re.Match[AnyStr] | None = None
    # the leftmost, and of those that begin at one place the alternative that is named first
    for way, needs in ways:
        if _hold(needs, words):
            found = way.search(text)
            if found is not None and (first is None or found.start() < first.start()):
                first = found
                if anywhere:
                    break
    return first


@lru_cache(maxsize=1024)
def _ready_ways(
    pattern: re.Pattern[AnyStr],
) -> tuple[tuple[re.Pattern[AnyStr], tuple[Clause[AnyStr], ...]], ...]:
    """The alternatives of a pattern that has some, each with what it needs."""
    ways = alternatives(pattern)
    return tuple((way, needed(way)[0]) for way in ways) if len(ways) > 1 else ()  # type: ignore[return-value]


_SPLITTING = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|[()|]", re.S)


@lru_cache(maxsize=1024)
def alternatives(pattern: re.Pattern[AnyStr]) -> tuple[re.Pattern[AnyStr], ...]:
    """The alternatives that a pattern without groups is made of, each as a pattern; else the pattern itself."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    if pattern.groups or pattern.flags & re.VERBOSE or (text.startswith("(?") and text[2:3].isalpha()):
        return (pattern,)
    level, start, parts = 0, 0, []
    for match in _SPLITTING.finditer(text):
        level += (match[0] == "(") - (match[0] == ")")
        if match[0] == "|" and not level:
            parts.append(text[start : match.start()])
            start = match.end()
    parts.append(text[start:])
    ways = [part.encode("latin-1") if isinstance(source, bytes) else part for part in parts]
    return tuple(re.compile(way, pattern.flags) for way in ways) if len(ways) > 1 else (pattern,)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def needed(pattern: re.Pattern[AnyStr]) -> tuple[tuple[Clause[AnyStr], ...], bool]:
    """What every match has in it, all of it (none: nothing is known), and whether case does not matter."""
    folded = bool(pattern.flags & re.IGNORECASE)
    if pattern.flags & re.VERBOSE:
        return (), False
    return _clauses(parser.parse(pattern.pattern, pattern.flags), pattern), folded


@lru_cache(maxsize=1024)
def _needed_by_way(pattern: re.Pattern[AnyStr]) -> tuple[tuple[Clause[AnyStr], ...], ...]:
    """As `needed`, for each alternative of a pattern that has some; nothing where one of them needs nothing."""
    items = [] if pattern.flags & re.VERBOSE else list(parser.parse(pattern.pattern, pattern.flags))
    for place, (code, value) in enumerate(items):
        if code is codes.BRANCH:
            ways = [_clauses([*items[:place], *way, *items[place + 1 :]], pattern) for way in value[1]]
            return tuple(ways) if all(ways) and len(ways) > 1 else ()
    return ()


def _clauses(items: Any, pattern: re.Pattern[AnyStr]) -> tuple[Clause[AnyStr], ...]:
    of_bytes = isinstance(pattern.pattern, bytes)
    # words are what letters of all languages make up
    bounded = of_bytes or not pattern.flags & re.ASCII
    found = _of_all(items, False, False)
    clauses = [_clause(need, bool(pattern.flags & re.IGNORECASE), of_bytes, bounded) for need in found]
    known = [one for one in clauses if one is not None]
    # what nearly every text has tells nothing beside others; words are asked for fastest
    telling = [one for one in known if one.words or not any(map(_is_common, (*one.parts, *one.texts)))] or known
    return tuple(sorted(telling, key=lambda one: len(one.parts) + 2 * len(one.texts))[:MAX_CLAUSES])  # type: ignore[return-value]


def _is_common(text: str | bytes) -> bool:
    return len(text) == 1 and (text if isinstance(text, str) else text.decode()) not in _RARE


Part = tuple[str, bool, bool]
"""A text, and whether no letter can stand before it and none behind it."""
Need = frozenset[Part]
"""One of these stands in every match."""


def _clause(need: Need, folded: bool, of_bytes: bool, bounded: bool, most: int = MAX_TEXTS) -> Clause[Any] | None:
    words: set[str] = set()
    more: dict[str, set[str]] = {}
    texts: set[str] = set()
    for given, left, right in need:
        text = given.lower() if folded else given
        if not text.isascii():
            return None
        pieces = [match for match in _WORD.finditer(text) if bounded]
        whole = [match[0] for match in pieces if (left or match.start()) and (right or match.end() < len(text))]
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
    parts = [text for text in least if bounded and _WORD.fullmatch(text)]

    def ready(text: str) -> Any:
        return text.encode() if of_bytes else text

    longer = {ready(word): tuple(map(ready, sorted(with_it))) for word, with_it in more.items() if word not in with_it}
    texts -= {*parts}
    least = [text for text in least if text in texts]
    return Clause(
        frozenset(map(ready, words)), longer, tuple(map(ready, sorted(parts))), tuple(map(ready, sorted(least)))
    )


def _weight(need: Need) -> tuple[int, int]:
    """Of two needs the greater one tells more."""
    return min(len(text) for text, _, _ in need), -len(need)


def _of_all(items: Any, left: bool, right: bool) -> list[Need]:
    """What parts in a row need; `left` and `right`: no letter stands before the first, behind the last."""
    needs: list[Need] = []
    run, open_left = frozenset([""]), left
    """What the parts just before can be, and whether no letter stands before that."""

    def close(behind: bool) -> None:
        if "" not in run:
            needs.append(frozenset((text, open_left, behind) for text in run))

    for place, (code, value) in enumerate(items):
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            if value[0] < 0:
                if run == {""} and code is codes.ASSERT_NOT and _any_letter(value[1]):
                    open_left = True
            elif _no_letter(items, place, False):
                close(True)
                run, open_left = frozenset([""]), False
            continue
        if code is codes.AT:
            close(_no_letter(items, place, right))
            run, open_left = frozenset([""]), value is not codes.AT_NON_BOUNDARY
            continue
        few = _few(code, value)
        if few is not None and len(run) * len(few) <= MAX_TEXTS:
            run = frozenset(before + text for before in run for text in few)
            continue
        close(_no_letter(items, place, right))
        ends_bare = open_left if run == {""} else "" not in run and not any(map(_is_letter, (text[-1] for text in run)))
        if few is not None:
            run, open_left = few, ends_bare
            continue
        run, open_left = frozenset([""]), False
        behind = _no_letter(items, place + 1, right)
        if code is codes.SUBPATTERN and not value[1] and not value[2]:
            needs += _of_all(value[3], ends_bare, behind)
        elif code is codes.ATOMIC_GROUP:
            needs += _of_all(value, ends_bare, behind)
        elif code is codes.BRANCH:
            ways = [max(_of_all(way, ends_bare, behind), key=_weight, default=None) for way in value[1]]
            known = [way for way in ways if way is not None]
            if len(known) == len(ways):
                needs.append(frozenset().union(*known))
        elif code in _REPEATS:
            least, _, inside = value
            if least:
                needs += _of_all(inside, False, False)
        open_left = _ends_bare([(code, value)], ends_bare)
    close(right)
    return needs


_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def _few(code: Any, value: Any) -> frozenset[str] | None:
    """All that a part can match, where that is little."""
    if code is codes.LITERAL:
        return frozenset([chr(value)])
    if code is codes.IN:
        letters = [chr(one) for kind, one in value if kind is codes.LITERAL]
        return frozenset(letters) if len(letters) == len(value) <= MAX_LETTERS else None
    if code is codes.SUBPATTERN:
        return None if value[1] or value[2] else _few_of_all(value[3])
    if code is codes.BRANCH:
        return _united(_few_of_all(way) for way in value[1])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[:2] == (0, 1):
        few = _few_of_all(value[2])
        return None if few is None else few | {""}
    return None


def _united(ways: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    for way in ways:
        if way is None:
            return None
        found |= way
    return found if len(found) <= MAX_WORDS else None


def _few_of_all(items: Any) -> frozenset[str] | None:
    found = frozenset([""])
    for code, value in items:
        few = _few(code, value)
        if few is None or len(found) * len(few) > MAX_TEXTS:
            return None
        found = frozenset(before + text for before in found for text in few)
    return found


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


def _any_letter(items: Any) -> bool:
    """Whether these parts match every letter, and one alone."""
    return (
        len(items) == 1
        and items[0][0] is codes.IN
        and (codes.CATEGORY, codes.CATEGORY_WORD) in items[0][1]
        and items[0][1][0][0] is not codes.NEGATE
    )


def _no_letter(items: Any, place: int, right: bool) -> bool:
    """Whether what parts from `place` on match cannot begin with a letter, where a letter stands before them."""
    for number in range(place, len(items)):
        code, value = items[number]
        if code is codes.AT:
            return value in (codes.AT_BOUNDARY, codes.AT_END, codes.AT_END_STRING, codes.AT_END_LINE)
        if code is codes.ASSERT:
            if value[0] > 0 and _no_letter(value[1], 0, False):
                return True
        elif code is codes.ASSERT_NOT:
            if value[0] > 0 and _any_letter(value[1]):
                return True
        elif code is codes.LITERAL:
            return not _is_letter(chr(value))
        elif code is codes.IN:
            return all(_is_bare(*one) for one in value) or (
                value[0][0] is codes.NEGATE and (codes.CATEGORY, codes.CATEGORY_WORD) in value
            )
        elif code is codes.SUBPATTERN and not value[1] and not value[2]:
            return _no_letter(value[3], 0, _no_letter(items, number + 1, right))
        elif code is codes.ATOMIC_GROUP:
            return _no_letter(value, 0, _no_letter(items, number + 1, right))
        elif code is codes.BRANCH:
            behind = _no_letter(items, number + 1, right)
            return all(_no_letter(way, 0, behind) for way in value[1])
        elif code in _REPEATS:
            if not _no_letter(value[2], 0, False):
                return False
            if value[0]:
                return True
        else:
            return False
    return right


def _ends_bare(items: Any, left: bool) -> bool:
    """Whether what parts match cannot end with a letter; `left`: none stands before them."""
    for number in range(len(items) - 1, -1, -1):
        code, value = items[number]
        if code in (codes.LITERAL, codes.IN):
            return _no_letter([(code, value)], 0, False)
        if code is codes.SUBPATTERN and not value[1] and not value[2]:
            return _ends_bare(value[3], _ends_bare(items[:number], left))
        if code is codes.ATOMIC_GROUP:
            return _ends_bare(value, _ends_bare(items[:number], left))
        if code is codes.BRANCH:
            before = _ends_bare(items[:number], left)
            return all(_ends_bare(way, before) for way in value[1])
        if code in _REPEATS:
            if not _ends_bare(value[2], False):
                return False
            if value[0]:
                return True
        elif code is codes.AT:
            return value in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING, codes.AT_BEGINNING_LINE)
        elif code not in (codes.ASSERT, codes.ASSERT_NOT):
            return False
    return left


def _is_bare(kind: Any, value: Any) -> bool:
    """Whether a member of a class is no letter."""
    if kind is codes.CATEGORY:
        return value in (codes.CATEGORY_SPACE, codes.CATEGORY_NOT_WORD)
    return kind is codes.LITERAL and not _is_letter(chr(value))
