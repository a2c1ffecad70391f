"""Programs that read what they are told to read, and print: nearly all that honest agents write.

Code is quiet when it starts nothing, loads nothing, connects to nothing, lists, writes and links nothing, opens files
only to read them and only by names that it is given. Where it opens any, it has no text in it that could lead out of
the folder that it runs in: no `/`, and nothing that makes letters of numbers that are known. That is told from its
tokens (`detect.quiet_tables`). Code of which anything else is not known is not quiet. What a quiet file says and
computes is for others to look at (`detect.screen`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from detect.decoded import WORKED_OUT
from detect.facts import Language
from detect.literals import set_of_words
from detect.opening import harmless, has_any, opens
from detect.quiet_tables import DIALECTS, Dialect

MAX_BYTES = 8 * 1024

_USUAL = bytes([9, 10, *range(32, 127), *range(128, 256)])
"""No end of a line that only compilers see, and no end of the file."""
_COOKIE = re.compile(rb"[^\n]*\n?[^\n]*coding[:=]")
"""A line that says in which letters the others are to be read."""
_INSIDE = re.compile(rb"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
"""Code in a literal."""
_PLACE = re.compile(rb"/(?<!\w/)\w")
"""What looks like a path from the root."""
_SLOT = re.compile(rb"%s|\{\w*\}")
"""Where another text is put into one."""
_TELLING = re.compile(WORKED_OUT.pattern.replace(r"\b", "").encode())
_FORMS = frozenset([b"fr", b"fR", b"Fr", b"FR"])
"""With `f` itself, what stands before a literal with code in it."""
_QUOTES = frozenset(b"\"'`")
_RAW, _BACKSLASH = b"r\\"


def is_quiet(language: Language, data: bytes) -> bool:
    """Whether nothing that such code does matters to any rule; False is no accusation."""
    return texts(language, data) is not None


def texts(language: Language, data: bytes) -> bytes | None:
    """What the literals of quiet code say, put together in both orders; None where code is not quiet."""
    dialect = DIALECTS.get(language)
    if dialect is None or len(data) > MAX_BYTES or data.translate(None, _USUAL):
        return None
    if b"coding" in data and _COOKIE.match(data) is not None:
        return None
    literals, comments = [], []
    try:
        code = dialect.tokens.sub(_blanking(dialect.free, literals, comments), data)
    except _Odd:
        return None
    # names may be spelled in other letters than they are known by
    if not code.isascii():
        return None
    # of what opens nothing, readers take paths for mere text, if they look for paths at all
    silent = b"/" in data and harmless(language, data, "")
    said = b"\n".join(literals)
    if dialect.says.search(said) is not None or dialect.remarks.search(b"\n".join(comments)) is not None:
        return None
    if not _is_harmless(dialect, language, code, said, silent=silent):
        return None
    together = _together(literals)
    # nobody has a reason to put these together of pieces
    return together if all(found in data for found in _TELLING.findall(together)) else None


def _is_harmless(dialect: Dialect, language: Language, code: bytes, said: bytes, *, silent: bool) -> bool:
    """Whether code opens nothing (`silent`), or reads and cannot make names that lead out; `said`: its literals."""
    words = set_of_words(code)
    if not words.isdisjoint(dialect.denied):
        return False
    code = dialect.allowed.sub(b"()", code)
    if has_any(dialect.telling, code):
        return False
    if silent:
        return _PLACE.search(said) is None
    if not words.isdisjoint(dialect.spelling) or dialect.says_letters.search(said) is not None:
        return False
    left, read = dialect.reading.subn(b"()", code)
    if has_any(dialect.letters, code) or opens(language, left):
        return False
    return not read or dialect.names_are_given is None or dialect.names_are_given(code)


def _together(literals: list[bytes]) -> bytes:
    """Texts one behind the other, each put where the one before it has a place for one, and in the other order."""
    pieces = _SLOT.sub(b"", b"\0".join([text.strip(b"\"'`") for text in literals])).split(b"\0")
    return b"\n".join([b"".join(pieces), b"".join(pieces[::-1])])


def may_import(language: str, name: str) -> bool:
    """Whether quiet code can import a module, header or package of that name (or below it, where it ends in a dot)."""
    return DIALECTS[language].imports.match(name) is not None


class _Odd(Exception):
    """Something may end in another place than it seems."""


def _blanking(
    free: dict[bytes, bytes], literals: list[bytes], comments: list[bytes]
) -> Callable[[re.Match[bytes]], bytes]:
    """Leaves the code of a file, and collects what is none. Raises _Odd."""

    def blank(match: re.Match[bytes]) -> bytes:
        text = match[0]
        first = text[0]
        if first not in _QUOTES and first != _RAW:
            if first == _BACKSLASH or text == b"/*" or text.endswith(b"\\") or b"/*" in text[1:]:
                raise _Odd
            comments.append(text)
            return b" "
        if len(text) == 1 or (first == _RAW and text.count(b'"') < 2):
            raise _Odd
        if first != _RAW and text[-1] != first:
            return text  # what says in Rust how long something lives
        elif text in free:
            if b"/" not in text:
                literals.append(text)
            return free[text]
        else:
            literals.append(text)
            start = match.start()
            before = match.string[max(start - 2, 0) : start]
            if before.endswith((b"f", b"F")) or before in _FORMS:
                if text.count(b"{") != text.count(b"}"):
                    raise _Odd
                return b"(%b)" % b" ".join(_INSIDE.findall(text))
        return b'""'

    return blank
