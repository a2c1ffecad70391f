"""What a regular expression cannot match without: texts, one of which stands in whatever it matches.

Looking for a few words in a text takes a tenth of the time that a pattern of many alternatives takes, and most texts
have none of them. The texts are read off the pattern itself, so nobody has to keep two lists in step; where nothing can
be told of a pattern, it is always tried.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, AnyStr

MAX_TEXTS = 64


def may_match(pattern: re.Pattern[AnyStr], text: AnyStr) -> bool:
    """Whether `pattern` can match anywhere in `text`; False only where it certainly does not."""
    wanted, folded = needed(pattern)
    if not wanted:
        return True
    where = text.lower() if folded else text
    return any(one in where for one in wanted)  # type: ignore[operator]


def search(pattern: re.Pattern[AnyStr], text: AnyStr) -> re.Match[AnyStr] | None:
    """As `pattern.search(text)`, and faster where there is little; groups are kept where the pattern has any."""
    if not may_match(pattern, text):
        return None
    first: re.Match[AnyStr] | None = None
    # the leftmost, and of those that begin at one place the alternative that is named first
    for way in alternatives(pattern):
        if may_match(way, text):
            found = way.search(text)
            if found is not None and (first is None or found.start() < first.start()):
                first = found
    return first


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
def needed(pattern: re.Pattern[AnyStr]) -> tuple[tuple[AnyStr, ...], bool]:
    """The texts one of which every match has in it (none: nothing is known), and whether case does not matter."""
    folded = bool(pattern.flags & re.IGNORECASE)
    texts = None if pattern.flags & re.VERBOSE else _of_all(parser.parse(pattern.pattern, pattern.flags))
    if texts is None or len(texts) > MAX_TEXTS or not all(text.isascii() for text in texts):
        return (), False
    # a text with another one in it says nothing more
    least = [text for text in texts if not any(other in text and other != text for other in texts)]
    ready = sorted(text.lower() if folded else text for text in least)
    return tuple(text.encode() if isinstance(pattern.pattern, bytes) else text for text in ready), folded  # type: ignore[misc]


def _of_all(items: Any) -> frozenset[str] | None:
    """Of parts that follow each other: the texts of the part that tells most."""
    ways: list[frozenset[str]] = []
    run = ""
    for code, value in [*items, (None, None)]:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        if run:
            ways.append(frozenset([run]))
            run = ""
        if code is not None and (way := _of_one(code, value)) is not None:
            ways.append(way)
    return max(ways, key=lambda way: (min(map(len, way)), -len(way)), default=None)


def _of_one(code: Any, value: Any) -> frozenset[str] | None:
    if code is codes.BRANCH:
        ways = [_of_all(part) for part in value[1]]
        return None if None in ways else frozenset().union(*(way for way in ways if way is not None))
    if code is codes.SUBPATTERN:
        _, more_flags, fewer_flags, inside = value
        return None if more_flags or fewer_flags else _of_all(inside)
    if code is codes.ATOMIC_GROUP:
        return _of_all(value)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, _, inside = value
        return _of_all(inside) if least else None
    return None
