"""What a regular expression cannot match without, read off the expression itself, so nobody keeps two lists in step.

`needs` are texts one of which stands in every match, `starts` those that every match begins with, `alternatives` the
ways of a pattern, each as a pattern of its own. Where nothing can be told, nothing is said. See `detect.literals`,
which looks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, AnyStr

MAX_TEXTS = 64
MAX_WORDS = 256
MAX_LETTERS = 8
"""Of a class of letters, how many are tried one by one."""

Part = tuple[str, bool, bool]
"""A text, and whether no letter can stand before it and none behind it."""
Need = frozenset[Part]
"""One of these stands in every match."""


def needs(pattern: re.Pattern[AnyStr]) -> list[list[Need]]:
    """What each way of matching needs, all of it; one way, unless the pattern has a choice all of which need something.

    Nothing is known of a way that needs nothing, and of verbose patterns.
    """
    if pattern.flags & re.VERBOSE:
        return [[]]
    items = list(parser.parse(pattern.pattern, pattern.flags))
    for place, (code, value) in enumerate(items):
        if code is codes.BRANCH:
            ways = [_of_all([*items[:place], *way, *items[place + 1 :]], False, False) for way in value[1]]
            if all(ways) and len(ways) > 1:
                return ways
            break
    return [_of_all(items, False, False)]


def starts(pattern: re.Pattern[AnyStr]) -> Need | None:
    """What every match begins with; None where that is not known, or is a single letter or sign."""
    if pattern.flags & re.VERBOSE:
        return None
    found = _starts(list(parser.parse(pattern.pattern, pattern.flags)), False)
    return None if found is None or any(len(text) < 2 for text, _, _ in found) else found


def anchors(pattern: re.Pattern[AnyStr]) -> list[Need | None]:
    """What each way of matching begins with, as in `needs`, where it only matches at the beginning; else None."""
    items = list(parser.parse(pattern.pattern, pattern.flags))
    ways = items[0][1][1] if len(items) == 1 and items[0][0] is codes.BRANCH else [items]
    beginning = [codes.AT_BEGINNING_STRING, *([] if pattern.flags & re.M else [codes.AT_BEGINNING])]
    anchored = [len(way) and way[0][0] is codes.AT and way[0][1] in beginning for way in ways]
    return [_starts(way, True) if alone else None for way, alone in zip(ways, anchored, strict=True)]


_SPLITTING = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|[()|]", re.S)


def alternatives(pattern: re.Pattern[AnyStr]) -> tuple[re.Pattern[AnyStr], ...]:
    """The alternatives that a pattern is made of, each as a pattern; the pattern itself where it has numbered groups.

    Named groups are there for the pattern's own sake: nobody asks a match for them.
    """
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    if pattern.groups > len(pattern.groupindex) or pattern.flags & re.VERBOSE:
        return (pattern,)
    # flags at the beginning are those of the pattern
    text = re.sub(r"\A\(\?[aiLmsux]+\)", "", text)
    level, start, parts = 0, 0, []
    for match in _SPLITTING.finditer(text):
        level += (match[0] == "(") - (match[0] == ")")
        if match[0] == "|" and not level:
            parts.append(text[start : match.start()])
            start = match.end()
    parts.append(text[start:])
    ways = [part.encode("latin-1") if isinstance(source, bytes) else part for part in parts]
    return tuple(re.compile(way, pattern.flags) for way in ways) if len(ways) > 1 else (pattern,)  # type: ignore[arg-type]


def _weight(need: Need) -> tuple[int, int]:
    """Of two needs the greater one tells more."""
    return min(len(text) for text, _, _ in need), -len(need)


def _starts(items: Any, left: bool) -> Need | None:
    """What parts in a row begin with; `left`: no letter stands before them."""
    run, open_left = frozenset([""]), left
    for place, (code, value) in enumerate(items):
        if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            # takes nothing: what comes behind it still follows at once
            if run == {""}:
                open_left = open_left or _no_letter_before(code, value)
            elif "" not in run and _no_letter(items, place, False):
                return frozenset((text, open_left, True) for text in run)
            continue
        few = _few(code, value)
        if few is not None and len(run) * len(few) <= MAX_TEXTS:
            run = frozenset(before + text for before in run for text in few)
            continue
        inside = _starts_inside(items, place, open_left)
        if inside is not None and len(run) * len(inside) <= MAX_WORDS:
            return frozenset(
                (before + text, open_left if before else alone, right)
                for before in run
                for text, alone, right in inside
            )
        return None if "" in run else frozenset((text, open_left, _no_letter(items, place, False)) for text in run)
    return None if "" in run else frozenset((text, open_left, False) for text in run)


def _starts_inside(items: Any, place: int, left: bool) -> Need | None:
    """What one of the parts, which has parts itself, and all behind it begin with."""
    code, value = items[place]
    if code is codes.BRANCH:
        return _together(_starts([*way, *items[place + 1 :]], left) for way in value[1])
    if code is codes.SUBPATTERN and not value[1] and not value[2]:
        return _starts([*value[3], *items[place + 1 :]], left)
    if code is codes.ATOMIC_GROUP or (code in _REPEATS and value[0]):
        return _starts(value if code is codes.ATOMIC_GROUP else value[2], left)
    return None


def _no_letter_before(code: Any, value: Any) -> bool:
    """Whether a part that takes nothing keeps letters from standing before a letter."""
    if code is codes.AT:
        return value in (codes.AT_BOUNDARY, codes.AT_BEGINNING, codes.AT_BEGINNING_STRING, codes.AT_BEGINNING_LINE)
    return code is codes.ASSERT_NOT and value[0] < 0 and _any_letter(value[1])


def _together(ways: Iterable[Need | None]) -> Need | None:
    found: Need = frozenset()
    for way in ways:
        if way is None or len(found := found | way) > MAX_WORDS:
            return None
    return found


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
            if code is codes.ASSERT:
                needs += _of_all(value[1], False, False)
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
