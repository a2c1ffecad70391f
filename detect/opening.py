"""Which files have nothing in them to open a file, start a program, load code, list a folder, write or connect with.

In such a file strings are only text. A file is one only where all that it can get at is known: it is a whole program,
imports what is listed here, calls no function of another file, and has none of the words and signs below, wherever they
stand (in a string, as an attribute of another module). Code that is not harmless is not suspicious: its strings are
looked at, as those of most files are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from detect.literals import words_of
from detect.opening_words import REACHING
from detect.whole_programs import is_whole

if TYPE_CHECKING:
    from detect.facts import Language

Way = tuple[bytes, "re.Pattern[bytes] | None"]
"""A text, and the pattern that must be found where it occurs; None where the text is enough."""


def ways(texts: str, *patterns: tuple[str, bytes]) -> tuple[Way, ...]:
    """Each of `texts` is enough; a pattern is looked for only where one of the texts before it occurs."""
    looked_for = ((text, re.compile(pattern, re.M)) for some, pattern in patterns for text in some.split())
    return (*((text.encode(), None) for text in texts.split()), *((t.encode(), pattern) for t, pattern in looked_for))


def _names(names: str) -> list[tuple[str, bytes]]:
    """Each of `names` as a whole word that is no part of a path."""
    return [(name, rf"{name}(?<![/\w]{name})\b".encode()) for name in names.split()]


OPENING: dict[str, tuple[Way, ...]] = {
    "c": ways(
        "open syscall ## %: ??",
        ("stat", rb"stat(?:(?<!\wstat)|(?<=[lf]stat)(?<!\w\wstat))(?:at|x|fs|vfs)?(?:64)?\b"),
        ("include", rb"include\b(?![ \t]*<(?:sys/)?\w+(?:\.h)?>)"),
        ("extern", rb'extern(?!\s+(?:"C"\s*\{|char\s*\*+\s*(?:optarg|environ)\b|int\s+opt\w+\b))'),
        ("\\", rb"\\[ \t]*\r?\n\w"),
    ),
    "go": ways(
        'exec ioutil syscall filepath "C" unsafe plugin embed go: reflect',
        ("os.", rb"os\.(?<!\wos\.)(?!Args|Exit|Stdin|Stdout|Stderr)"),
    ),
    "rust": ways(
        "",
        ("fs File", rb"\b(?:fs|File)\b"),
        ("include Path", rb"\b(?:include|Path)"),
        ("mod", rb"mod(?<!\wmod)\b(?!\s+\w+\s*\{)"),
        ("use", rb"use(?<!\wuse)\s+(?!(?:::\s*)?(?:std|core|alloc|self|super|crate|[A-Z]\w*)\s*::)"),
        ("::", rb"::(?<![\w>\])}]::)\s*(?!(?:std|core|alloc)\b)[a-z]"),
    ),
    "java": ways(
        r"\u reflect nio",
        ("Path", rb"\bPaths?\b"),
        ("File Process Script load", rb"\b(?:File|Process|Script|load)"),
        (
            "PrintWriter PrintStream",
            rb"Print(?:Writer|Stream)(?!\s+\w+\s*[=;:,)]|\s*\(\s*(?:System\.|new\s|\(\))|[;>])",
        ),
        (
            "java",
            rb"java(?<!\.java)\b(?!\.(?:util\.(?:\*|[A-Z]|function\.|stream\.|regex\.|concurrent\.)|math\.|text\.|time\."
            rb"|lang\.[A-Z]|io\.(?:\*|[A-Z])))",
        ),
        ("import", rb"import\b(?!\s+java\.|\s+static\s+java\.)"),
    ),
    "python": ways(
        "; sys.path",
        ("open", rb"open(?<![/\w]open)\b"),
        *(
            (name, rb"%b(?<![/\w]%b)\b" % (name.encode(), name.encode()))
            for name in ["os", "exec", "eval", "compile", "help"]
        ),
        (
            "__",
            rb"__(?<![/\w]__)(?!(?:name|main|eq|ne|lt|le|gt|ge|hash|repr|str|len|iter|next|bool|contains|getitem|setitem"
            rb"|add|future|slots|doc|all)__|init__(?:(?<=def __init__)|(?<=super\(\)\.__init__))\()\w",
        ),
        # classes of objects, and attributes in patterns
        (
            "type",
            rb"type(?<![\w.'\"]type)\b(?!\s*=(?!=)|\([\w.]+\)(?:\.__name__\b|\s+(?:is|in|not)\b|\s*[!=]=)"
            rb"|(?:(?<=is type)|(?<=not type)|(?<=[!=]= type))\([\w.]+\)(?!\s*[.(]))",
        ),
        ("raw", rb"\.[\s\\]*raw\b"),
        ("case", rb"^[ \t]*case\b[^\n]*(?:\w\s*=(?!=)|[(\[{,|\\]\s*$)"),
        (
            "ArgumentParser",
            rb"ArgumentParser\b(?!\((?:\s*+\w++=(?:\"[^\"\n]*+\"|'[^'\n]*+'|[\w.]++)\s*+,?)*+\s*+\)"
            rb"|(?<=import ArgumentParser)[,\r\n])",
        ),
        ("parse_", rb"parse_(?:known_)?args\b(?!\([\w.\[\]:]*\))|parse_\w*intermixed"),
        ("wraps", rb"\bwraps\b(?!\(\w+\))"),
        # text that is no ASCII when it is read
        (
            "coding",
            rb"\A(?:[^\r\n]*(?:\r\n?|\n)){0,2}[ \t\f]*#[^\r\n]*?coding[:=][ \t]*(?!(?:utf-?8|ascii|latin-?1)\b)",
        ),
    ),
}
OPENING["cpp"] = OPENING["c"]
"""Texts of which code needs one, or one of the `opening_words`, to open a file by name.

A pattern that begins with its text is found fast. Code is given a line break before it.
"""

_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|tests?/[^/]*|[^/]*_test\.\w+)$")
"""Files that may call what they test."""


def opens(language: str, code: bytes) -> bool:
    """Whether code of a language of `OPENING` has any of its texts in it."""
    return has_any(OPENING[language], b"\n" + code)


def has_any(wanted: tuple[Way, ...], code: bytes) -> bool:
    for text, way in wanted:  # noqa: SIM110
        if text in code and (way is None or way.search(code) is not None):
            return True
    return False


def harmless(language: Language, code: bytes, written: str | None) -> bool:
    """Whether a file of such code has nothing in it to open a file with."""
    if written is None or language not in OPENING:
        return False
    return not _reaches(language, code, language in ("c", "cpp") and _TEST.search(written) is not None)


@lru_cache(maxsize=4)
def _reaches(language: Language, code: bytes, test: bool) -> bool:
    """Asked by more than one reader of the same code."""
    if language == "python" and not code.isascii():
        return True
    if opens(language, code) or not words_of(code).all.isdisjoint(REACHING[language]):
        return True
    return not test and not is_whole(language, code)
