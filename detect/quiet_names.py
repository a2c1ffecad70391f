"""Looks at code by its words and brackets, without a reader: for what quiet code calls the files that it opens."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
MAX_PLACES = 300
"""How often the names of files that are opened stand in code that is looked at: honest code has a tenth of them."""
_MAX_TEXT = 2000
"""How far is looked for the end of an expression."""
_RESULT = re.compile(rb"\s*[\w*.]*(?:\[\w*\][\w*.]*)*\s*\Z")
_BRACE = re.compile(rb"[{}]")
_BALANCED = re.compile(rb"\([^()]*\)")


def places(code: bytes, word: bytes) -> Iterator[int]:
    """Where a word stands."""
    start = code.find(word)
    while start >= 0:
        end = start + len(word)
        if (not start or code[start - 1] not in _LETTERS) and (end == len(code) or code[end] not in _LETTERS):
            yield start
        start = code.find(word, end)


def last_word(text: bytes) -> bytes:
    """The word that a text ends with, if it ends with one."""
    text = text.rstrip()[-40:]
    return text[len(text.rstrip(_LETTERS)) :]


def unclosed(text: bytes) -> tuple[bytes, bytes] | None:
    """What stands before the last `(` that is not closed in a text, and behind it, both without what is in brackets."""
    text = without_brackets(text)
    start = text.rfind(b"(")
    return None if start < 0 else (text[:start], text[start + 1 :])


def without_brackets(text: bytes) -> bytes:
    for _ in range(16):
        shorter = _BALANCED.sub(b"", text)
        if shorter == text:
            break
        text = shorter
    return text


def closing(text: bytes) -> int | None:
    """Where the first `)` ends that closes what was opened before the text."""
    depth = 0
    for place, sign in enumerate(text[:_MAX_TEXT]):
        if sign == 41:
            if not depth:
                return place + 1
            depth -= 1
        elif sign == 40:
            depth += 1
    return None


def block(code: bytes, start: int) -> tuple[int, int] | None:
    """The block of a function of whose parameters one stands at a place; None where that is not plain."""
    end = closing(code[start : start + _MAX_TEXT])
    begin = -1 if end is None else code.find(b"{", start + end)
    if end is None or begin < 0:
        return None
    result = _RESULT.match(code, start + end, begin)
    if result is None or last_word(result[0]) in (b"interface", b"struct"):
        return None
    depth = 0
    for brace in _BRACE.finditer(code, begin):
        depth += 1 if brace[0] == b"{" else -1
        if depth == 0:
            return begin, brace.end()
    return None


def parts(text: bytes, ends: bytes = b";") -> list[bytes]:
    """What stands between commas, up to the end of an expression: a bracket that closes it, or one of `ends`."""
    found, depth, begin = [], 0, 0
    for place, sign in enumerate(text[:_MAX_TEXT]):
        if depth == 0 and (sign in b")]}," or sign in ends):
            found.append(text[begin:place])
            begin = place + 1
            if sign != 44:
                return found
        elif sign in b"([{":
            depth += 1
        elif sign in b")]}":
            depth -= 1
    return [*found, b"?"]
