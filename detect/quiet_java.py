"""Whether the names of the files that Java code opens are its arguments, or names that stand in it as they are.

In Java a text of nearly every object has a `/` in it, so what names are made of is followed backwards, as far as
plain code goes: parameters of `main`, items of arrays and lists, loops over these. A name of which anything else is
not known is none that is given. Literals of `code` are blanked.
"""

from __future__ import annotations

import re

from detect.literals import set_of_words
from detect.opening import has_any, ways
from detect.quiet_names import places

_OPENED = rb"([A-Za-z_][\w.]*+(?:\[[\w+ -]*\])?(?:(?<=\.get)\(\w+\))?)"
"""What a file is called that is opened: a variable, a field, an item of a list."""
READING = re.compile(
    rb"new\s+File(?:InputStream|Reader)\(\s*" + _OPENED + rb"\s*\)"
    rb"|new\s+(?:Scanner|FileInputStream|FileReader)\(\s*new\s+File\(\s*" + _OPENED + rb"\s*\)\s*\)"
    rb"|Files\.(?:readAllBytes|readAllLines|readString|lines|newBufferedReader|newInputStream)\(\s*(?:Path\.of"
    rb"|Paths\.get)\(\s*" + _OPENED + rb"\s*\)"
)
"""Ways to open a file to read it."""
_NAME = re.compile(rb"[A-Za-z_]\w*")
_INNER = rb"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
"""What stands in parentheses, with others in it."""
_SIMPLE = re.compile(
    rb"\s*(?:null|\"\"|new\s+ArrayList<>\(\)|(?!null\b)([A-Za-z_]\w*)(?:\[[^\[\]]*\]|\.get\([\w+ -]*\))?)\s*"
)
"""What most names are set to; the others are looked at more closely."""
_ASIDE = re.compile(
    rb"\[[^\[\]]*\]|\.\s*(?:get|remove)\([\w+ -]*\)|\.\s*(?:length|isEmpty\(\)|size\(\)|toList\(\))(?!\w)"
    rb"|\.\s*(?:filter|equals|startsWith|skip)\(" + _INNER + rb"\)|\bnew\s+(?:ArrayList|LinkedList|ArrayDeque)<\w*>\(\)"
    rb"|\bnew\s+String\[[^\[\]]*\]|\bList\.of\(\)|\bArrays\s*\.\s*(?:stream|asList)(?=\()|[!=<>]=|\"\""
)
"""What of an expression makes no text: which item is meant, what is asked about, containers that are empty."""
_PLAIN = re.compile(rb"[\w\s.?:<>()!&|]*")
_CALLED = re.compile(rb"\w\s*\(|->|::")
_AFTER = re.compile(
    rb"\s*(\[[^\[\]]*\]\s*)?(?:(\+\+|--|(?:[-+*/%&|^]|<<|>>+)=(?!=)|::|->)|=(?!=)([^;]*)"
    rb"|\.\s*(?:(?:add|addFirst|addLast|offer|push)\(("
    + _INNER
    + rb")\)|(\w+)\s*(\(?))|:("
    + _INNER
    + rb")\)|([;,)])|)"
)
"""What is done to a variable where it stands: changed, set, a method called, filled in a loop."""
_FAR = 400
"""Bytes behind a name that are looked at."""
_WORD_BEFORE = re.compile(rb"(?:\w+|(?<!-)>|\]|\.\.\.)\Z")
_IN_LOOP = re.compile(rb"\bfor\s*\(\s*(?:final\s+)?(?:String|var)\Z")
_IN_MAIN = re.compile(rb"\bmain\s*\(\s*(?:final\s+)?String\s*(?:\[\s*\]|\.\.\.)\Z")
_KEYWORDS = frozenset(b"return new case throw else assert yield instanceof".split())
_READING = frozenset(
    b"charAt chars compareTo contains containsKey endsWith equals equalsIgnoreCase forEach get getFirst getLast"
    b" hashCode indexOf isBlank isEmpty iterator lastIndexOf length matches remove size split startsWith stream strip"
    b" substring toCharArray trim".split()
)
_TYPES = frozenset(b"String int long var ] ...".split())
_LISTS = rb"(?:ArrayDeque|ArrayList|Collection|Deque|Iterable|LinkedList|List|Queue|Set)"
_LIST = re.compile(rb"\b" + _LISTS + rb"\s*<String>\Z")
_OWN = ways(
    "",
    *(
        (kind, kind.encode() + rb"\s+(?:Arrays|String|" + _LISTS + rb")\b")
        for kind in ("class", "enum", "interface", "record")
    ),
)


def names_are_given(code: bytes) -> bool:
    """Whether the names of the files that code opens are put together nowhere."""
    if has_any(_OWN, code):
        return False
    known: set[bytes] = set()
    unknown = _of_lambdas(code)
    left = [match[match.lastindex or 0] for match in READING.finditer(code)]
    while left:
        names = _names(left.pop())
        if names is None:
            return False
        for name in names:
            if name in known:
                continue
            known.add(name)
            if len(known) > 12 or name in unknown or (sources := _sources(name, code)) is None:
                return False
            left += sources
    return True


def _names(expression: bytes) -> list[bytes] | None:
    """The names that the value of an expression may come from; None where it may be made up."""
    if (simple := _SIMPLE.fullmatch(expression)) is not None:
        return [simple[1]] if simple[1] is not None else []
    for _ in range(4):
        expression, count = _ASIDE.subn(b" ", expression)
        if not count:
            break
    if _PLAIN.fullmatch(expression) is None or _CALLED.search(expression) is not None:
        return None
    return [name for name in _NAME.findall(expression) if name != b"null"]


def _sources(name: bytes, code: bytes) -> list[bytes] | None:
    """All expressions that a variable may get its value or items from; None where others may be among them."""
    found: list[bytes] = []
    types: set[bytes] = set()
    shared = False
    for number, at in enumerate(places(code, name)):
        before = code[max(at - 80, 0) : at].rstrip()
        match = _AFTER.match(code, at + len(name), at + len(name) + _FAR)
        assert match is not None
        item, changed, value, added, method, called, loop, end = match.groups()
        word = _WORD_BEFORE.search(before[-16:])
        declared = word is not None and word[0] not in _KEYWORDS
        if word is not None and declared:
            if word[0] not in _TYPES and (word[0] != b">" or _LIST.search(before) is None):
                return None
            types.add(word[0])
        if (
            number > 64
            or match.end() == at + len(name) + _FAR
            or changed is not None
            or before.endswith((b"++", b"--", b"::"))
        ):
            return None
        if value is not None:
            found.append(value)
        elif added is not None:
            found.append(added)
        elif method is not None:
            if method not in _READING or not (called or method == b"length"):
                return None
        elif declared:
            if loop is not None and _IN_LOOP.search(before) is not None:
                found.append(loop)
            elif end != b";" and (end != b")" or _IN_MAIN.search(before) is None or len([*places(code, b"main")]) > 1):
                return None
        else:
            # whoever else gets hold of an array or list may change it
            looked_at = item is not None or (end == b")" and before.endswith((b":", b"Arrays.stream(")))
            shared = shared or not looked_at
    # what is declared elsewhere is not known, and a text does not change
    return None if not types or (shared and types != {b"String"}) else found


def _of_lambdas(code: bytes) -> frozenset[bytes]:
    """Names of what lambdas are given and patterns take apart, where these stand in parentheses."""
    parts = [part.rstrip() for part in code.split(b"->")[:-1]]
    return set_of_words(b" ".join([part[part.rfind(b"(") :] for part in parts if part.endswith(b")")]))
