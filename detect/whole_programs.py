"""Whether a file is a whole program: one that imports nothing but what is known, and calls no function of another file.

What is called is told from what stands before a parenthesis: text is looked at backwards for that, since patterns that
begin with a known sign are found fast. Only where that is not enough, comments and literals are left out, and macros
and types of the file are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from detect import opening_words as words

if TYPE_CHECKING:
    from detect.facts import Language

_PATHS = bytes(c if (chr(c).isalnum() and c < 128) or c in b"_.:" else 32 for c in range(256))
"""Leaves words and the signs between their parts."""
_MAIN = {
    "c": re.compile(rb"main(?<!\wmain)\s*\("),
    "cpp": re.compile(rb"main(?<!\wmain)\s*\("),
    "go": re.compile(rb"func main\(\)"),
    "rust": re.compile(rb"fn(?<!\wfn)\s+main\s*\("),
    "java": re.compile(rb"void(?<!\wvoid)\s+main\s*\("),
}
"""How a program begins: texts of what is a part of one may be opened in another part."""
_TEXTS = re.compile(
    rb"/(?:\*.*?\*/|/[^\n]*)|\"(?<!R\")(?:[^\"\\\n]|\\.)*+\"|'(?<![0-9A-Za-z_]')(?:[^'\\\n]|\\[^\n]{1,3})'|`[^`]*`",
    re.S,
)
"""Comments and literals."""
_CALLED = re.compile(rb"\((?!\s*\)\s*\w+\s*\*\s*\()[\s)]*+(\w++)(?<!\d)(?!\s*+(?:\.|>-))")
"""Backwards: what is called, or declared as a function; not through a pointer, and no member of something."""
_DEFINED = re.compile(rb"\{\s*(?:tsnoc\s*|tpecxeon\s*|edirrevo\s*)*\)[^(){};]*\(\s*(\w++)")
"""Backwards: what a body follows."""
_MEMBERS = re.compile(rb"\([\s)]*+([\w.]++)")
"""Backwards: what is called, with what it is a member of."""
_MACRO = re.compile(rb"define[ \t]+(\w+)\([^)\n]*\)")
_TYPE = re.compile(rb"typedef\b[^;{}()]*?(\w+)\s*;")
_GO_IMPORT = re.compile(
    rb'import(?<!\wimport)\b(?![ \t]+"(?:%b)"[ \t]*\n|[ \t]*\((?:\s*"(?:%b)"[ \t]*\n)*\s*\))'
    % ((words.GO_IMPORTS.encode(),) * 2)
)
_GO_OWN = re.compile(rb"func(?<=\nfunc)[ \t]+(?:\([^)\n]*\)[ \t]*)?(\w+)[^\n]*\{[^\n]*")
_GO_INNER = re.compile(rb"(\w+)[ \t]*:?=[ \t]*func\b")
_JAVA_PACKAGE = re.compile(rb"(?<![\w.])(?!java\.)[a-z]\w*+(?:\.[a-z]\w*+)*\.[A-Z]")
_JAVA_INNER = re.compile(rb"\.[A-Z]")
_JAVA_BASE = re.compile(rb"extends\s+([A-Z]\w*)")
_JAVA_CLASS = re.compile(rb"class\s+(\w+)")
_JAVA_OTHER = re.compile(rb"(?:interface|enum|record)\s+(\w+)")
_PYTHON_IMPORT = re.compile(
    rb"import(?<=\nimport)[ \t]+(?:%b)(?:[ \t]*,[ \t]*(?:%b))*(?:[ \t]+as[ \t]+\w+)?[ \t]*(?:#[^\r\n]*)?(?=\r?\n|\Z)"
    % ((words.PYTHON_IMPORTS.encode(),) * 2)
)
_PYTHON_FROM = re.compile(rb"from(?<=\nfrom)[ \t]+(?:%b)[ \t]+import[ \t]+[\w(]" % words.PYTHON_IMPORTS.encode())


def is_whole(language: Language, code: bytes) -> bool:
    """Whether code of a file gets at nothing but what it names itself."""
    if language in _MAIN and _MAIN[language].search(code) is None:
        return False
    return not _OUTSIDE[language](b"\n" + code)


def _reversed(names: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(name[::-1] for name in names)


_C_KNOWN, _GO_KNOWN = _reversed(words.C_KNOWN), _reversed(words.GO_KNOWN)


def _outside_c(code: bytes) -> bool:
    backwards = code[::-1]
    unknown = set(_CALLED.findall(backwards)) - _C_KNOWN
    if unknown.issubset(_DEFINED.findall(backwards)):
        return False
    code = _TEXTS.sub(b" ", code)
    own = _reversed(_MACRO.findall(code) + _TYPE.findall(code))
    backwards = _MACRO.sub(b" ; ", code)[::-1]
    unknown = set(_CALLED.findall(backwards)) - _C_KNOWN - own
    return not unknown.issubset(_DEFINED.findall(backwards))


def _outside_go(code: bytes) -> bool:
    if _GO_IMPORT.search(code) is not None:
        return True
    own = _reversed(_GO_OWN.findall(code))
    if own.issuperset(set(_CALLED.findall(code[::-1])) - _GO_KNOWN):
        return False
    code = _TEXTS.sub(b" ", code)
    inner = _reversed(_GO_INNER.findall(code))
    return not set(_CALLED.findall(code[::-1])) <= _GO_KNOWN | own | inner


def _outside_rust(code: bytes) -> bool:
    """Whether a path begins in something else than the standard library or the file."""
    roots = {piece.rpartition(b" ")[2] for piece in code.translate(_PATHS).split(b"::")[:-1]}
    return any(root[:1].islower() and root not in words.RUST_KNOWN and b"." not in root for root in roots)


def _outside_java(code: bytes) -> bool:
    """Whether a class is used that is neither known nor of this file."""
    named = set(b" ".join(_MEMBERS.findall(code[::-1]))[::-1].split())
    if b"::" in code:
        named.update([piece.rpartition(b" ")[2] for piece in code.translate(_PATHS).split(b"::")[:-1]])
    if b"extends" in code:
        named.update(_JAVA_BASE.findall(code))
    joined = b" ".join(named)
    if _JAVA_INNER.search(joined) is not None and _JAVA_PACKAGE.search(joined) is not None:
        return True
    unknown = {name.partition(b".")[0] for name in named if name[:1].isupper()} - words.JAVA_KNOWN
    unknown = unknown.difference(_JAVA_CLASS.findall(code))
    return bool(unknown) and not unknown.issubset(_JAVA_OTHER.findall(code))


def _outside_python(code: bytes) -> bool:
    """Whether something is imported in another way than on a line of its own, from a module that opens nothing."""
    return code.count(b"import") != len(_PYTHON_IMPORT.findall(code)) + len(_PYTHON_FROM.findall(code))


_OUTSIDE: dict[Language, Callable[[bytes], bool]] = {
    "c": _outside_c,
    "cpp": _outside_c,
    "go": _outside_go,
    "rust": _outside_rust,
    "java": _outside_java,
    "python": _outside_python,
}
