"""Programs that read what they are told to read, and print: nearly all that honest agents write.

Code is quiet when it starts nothing, loads nothing, connects to nothing, lists, writes and links nothing, opens files
only to read them and only by names that it is given. Where it opens any, it has no text in it that could lead out of
the folder that it runs in: no `/`, and nothing that makes letters of numbers that are known. That is told from its
tokens (`detect.quiet_tables`). Code of which anything else is not known is not quiet. What a quiet file says and
computes is for others to look at (`detect.screen`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from detect.decoded import WORKED_OUT
from detect.facts import Language
from detect.literals import set_of_words
from detect.needs import starts
from detect.opening import OPENING, harmless, has_any, opens
from detect.quiet_tables import DIALECTS, Dialect

MAX_BYTES = 8 * 1024

_USUAL = bytes([9, 10, *range(32, 127), *range(128, 256)])
"""No end of a line that only compilers see, and no end of the file."""
_COOKIE = re.compile(rb"[^\n]*\n?[^\n]*coding[:=]")
"""A line that says in which letters the others are to be read."""
_INSIDE = re.compile(
    rb"\{\{|\}\}|(\{[^{}'\"]*(?:(?:'[^'{}\\]*'|\"[^\"{}\\]*\"|\{[^{}'\"]*\})[^{}'\"]*)*\})",
)
"""Code in a literal, and braces that are only text."""
_PLACE = re.compile(rb"/(?<!\w/)\w")
"""What looks like a path from the root."""
_SLOT = re.compile(rb"%s|\{\w*\}|\{['\"]|['\"]\}")
"""Where another text is put into one."""
_TELLING = tuple(text.encode() for text, _, _ in starts(re.compile(WORKED_OUT.pattern.replace(r"\b", ""))) or ())
"""What nobody has a reason to put together of pieces."""
_NO_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isascii() or not chr(byte).isalpha())
_LETTERS = {
    letters: text
    for text in (*_TELLING, b"eval/main", b"test/hidden")
    if len(letters := text.translate(None, _NO_LETTERS).lower()) > 3
}
"""Nothing but their letters."""
_COMMON = b"QZXJVYDCBPHLEqzxjkv_:.bwyfgpmuhdclnsrtiaoe"
"""Letters, the rarest first."""


def _any_of(texts: Iterable[bytes]) -> re.Pattern[bytes]:
    """Texts that are looked for by the rarest letter of each, which is fast where there is none of them."""
    places = [(text, min(range(len(text)), key=lambda place: _COMMON.find(text[place : place + 1]))) for text in texts]
    ways = [
        rb"%b(?<=%b)%b" % (re.escape(text[at : at + 1]), re.escape(text[: at + 1]), re.escape(text[at + 1 :]))
        for text, at in places
    ]
    return re.compile(b"|".join(ways))


_ANY_TELLING, _ANY_LETTERS = _any_of(_TELLING), _any_of(_LETTERS)
_FORMS = tuple(text.encode() for form in "fFtT" for text in (form, f"{form}r", f"{form}R"))
"""What stands before a literal with code in it."""
_NAMED = {
    text: way
    for text, way in OPENING["python"]
    if way is not None and way.pattern == rb"%b(?<![/\w]%b)\b" % (text, text)
}
"""What opens files in Python and is a name of its own."""
_UNNAMED = tuple(
    (text, way) for text, way in OPENING["python"] if text not in _NAMED and text not in (b"import", b"from")
)
"""The rest of it, but for imports, which are all known."""
_STEP = re.compile(rb"::\s*\d")
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
    return None if _is_put_together(dialect, code, together, data) else together


def _is_put_together(dialect: Dialect, code: bytes, together: bytes, data: bytes) -> bool:
    """Whether literals may say together, or turned round, what nobody has a reason to put together."""
    if _ANY_TELLING.search(together) is not None and any([text in together and text not in data for text in _TELLING]):
        return True
    if not has_any(dialect.turning, code):
        return False
    turned = [together.translate(None, _NO_LETTERS).lower()]
    if b"::" in code or b"reversed" in code:
        turned.append(turned[0][::-1])
    if _STEP.search(code) is not None:
        turned += [turned[0][start::step] for step in (2, 3) for start in range(step)]
    found = b" ".join(turned)
    return _ANY_LETTERS.search(found) is not None and any(
        [text in found and whole not in data for text, whole in _LETTERS.items()]
    )


def _is_harmless(dialect: Dialect, language: Language, code: bytes, said: bytes, *, silent: bool) -> bool:
    """Whether code opens nothing (`silent`), or reads and cannot make names that lead out; `said`: its literals."""
    words = set_of_words(code)
    if not words.isdisjoint(dialect.denied) or not (silent or words.isdisjoint(dialect.spelling)):
        return False
    whole = code
    code = dialect.allowed.sub(b"()", code)
    if has_any(dialect.telling, code):
        return False
    if not words.isdisjoint(dialect.rare.keys()):
        for word in words & dialect.rare.keys():
            if any([way.search(code) for way in dialect.rare[word]]):
                return False
    if not words.isdisjoint(dialect.members.keys()) and dialect.imported is not None:
        for names in dialect.imported.findall(whole):
            for name in names.split(b","):
                if any([other.search(code) for other in dialect.members.get(name.strip(), ())]):
                    return False
    if silent and not (language == "python" and b"/" in code and _opens(language, code, words)):
        return _PLACE.search(said) is None
    if not words.isdisjoint(dialect.spelling) or dialect.says_letters.search(said) is not None:
        return False
    if has_any(dialect.letters, code):
        return False
    left, read = dialect.reading.subn(b"()", code)
    if has_any(dialect.asking, left) or _opens(language, left, words):
        return False
    if not read:
        return True
    sources = dialect.sources
    if sources is not None and (
        not words.isdisjoint(sources.words) or has_any(sources.says, said) or has_any(sources.ways, whole)
    ):
        return False
    return dialect.names_are_given is None or dialect.names_are_given(code)


def _opens(language: Language, code: bytes, words: frozenset[bytes]) -> bool:
    """What `opens` says, told faster by the words of the code."""
    if language != "python":
        return opens(language, code)
    # a name after a sign is not a part of a path
    code = code.replace(b"/", b" ")
    return has_any(_UNNAMED, b"\n" + code) or any([_NAMED[word].search(code) for word in words & _NAMED.keys()])


def _together(literals: list[bytes]) -> bytes:
    """Texts one behind the other, each put where the one before it has a place for one, and in the other order."""
    # no file has a byte 0 in it
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
            if b"{" not in text and b"}" not in text:
                return b'""'
            start = match.start()
            if match.string[max(start - 2, 0) : start].endswith(_FORMS):
                parts = _INSIDE.split(text)
                left = b"".join(parts[::2])
                # a comment may hide where the code ends
                if b"{" in left or b"}" in left or (b"#" in text and b"\n" in text):
                    raise _Odd
                return b"(%b)" % b" ".join(filter(None, parts[1::2]))
        return b'""'

    return blank
