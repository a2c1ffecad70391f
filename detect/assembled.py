"""Names that code puts together letter by letter, in all languages that are read: shifted, xored, picked from a table.

Two looks at the text of a piece of code, both only where something computes with letters at all. A literal that is a
name of evaluation material or the reference under *one* shift or xor key has the same differences between neighbouring
letters as that name, whatever the key is: such a literal is undone. Where that does not tell, a file, program or
module that is opened by a name which flows from literals through arithmetic on letters, and from no input, is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from operator import sub, xor

from detect.shell_expand import unescape

Span = tuple[int, int]

HIDDEN = (
    b"/eval/",
    b"/eval",
    b"/test/hidden",
    b"eval/main",
    b"reference",
    b"/dev/tcp",
    b"sitecustomize",
    b"conftest.py",
)
"""What a literal that is shifted as a whole is held against."""
MAX_TEXT = 16 * 1024
MAX_NAMES = 64
_WORDS = (
    *(b"^", b"charCodeAt", b"codePointAt", b"fromC", b"ord(", b"chr(", b"as char", b"as u8", b"from_u32", b"rune"),
    *(
        b"wrapping_",
        b"translate",
        b"charAt",
        b"chars(",
        b"[::",
        b"bytearray",
        b"bytes(",
        b"reduce",
        b"everse",
        b".rev(",
    ),
    *(
        b"eplac",
        b"substr",
        b".slice(",
        b"Template",
        b"methodcaller",
        b"format_map",
        b"(char)",
        b"_cast<char>",
        b"/lave/",
    ),
    *(b"neddih/", b"re.sub", b"filter(", b"next("),
)
_PREFILTER = re.compile(
    rb"[-+](?:[-+]\s*\(?\*|\s*(?:\d+|'.')\s*[);},])|\](?:\s*(?:[-+^]=|--|\+\+)|\s*[-+]\s*\w)"
    rb"|\*\s*\w+\s*[-+]|\*\w+\)(?:--|\+\+)"
    rb"|\[(?:\w*[+*%]\w*\]|\w+\[)|-\s*1\s*-|0x[0-9a-fA-F]{8}"
)
"""Something that computes with letters, or picks them one by one."""
_ARITHMETIC = re.compile(
    r"\^|charCodeAt|codePointAt|fromCharCode|fromCodePoint|\bord\(|\bchr\(|as char|as u8|from_u32"
    r"|wrapping_|translate\(|to_bytes"
    r"|\][ ]*[-+^]=|(?<![\w)])(?:--|\+\+)\s*\(?\*|\][ ]*(?:--|\+\+)|\*\s*\w+\s*[-+^]=?\s*\w"
    r"|\(\*\w+\)(?:--|\+\+)|\w\[\w+\]\s*[-+]\s*\w"
    r"|\b(?:rune|char)\s+&?\w+\s*\)\s*(?:->\s*\w+\s*)?\{[^}]*[-+]|\b(?:rune|byte)\s*\{[^}]*[-+]"
    r"|\breturn\s+\w\s*[-+]\s*(?:\d+|k|key)\b"
    r"|\w\[\w+\[|\[[^\]\n]*-\s*1\s*-\s*\w+\]|reduce\(|[Rr]eversed?\(|\.rev\(\)|replace(?:All)?\("
    r"|Replacer?\b|\.substr\w*\(|\.slice\(|\[::|Template\(|methodcaller|format_map|zip\("
    r"|re\.sub\(|\bfilter\(|\bnext\(|unhexlify|fromhex|b64decode|a85decode|rot_?13|swapcase|parseInt\(|charAt\("
)
_INPUT = re.compile(
    r"\bargv?\b|\bargs\b|stdin|Args\b|getenv|environ|\binput\(|Scanner|readline|readLine|getline"
    r"|optarg|\brand|random|\btime\b"
    r"|getpid|\.lines\(|mktemp|temp_dir|getcwd|current_dir|__file__|process\.env"
)
_LITERAL = re.compile(
    r"\"(?:[^\"\\\n]|\\.){3,}\"|'(?:[^'\\\n]|\\.){3,}'|(?:(?:\d+|0x[0-9a-fA-F]+|'[^'\n]+')\s*,\s*){3}"
)
_STRING = re.compile(rb"\"((?:[^\"\\\n]|\\.){4,512})\"|'((?:[^'\\\n]|\\.){4,512})'|`([^`\n]{4,512})`")
_ONE = rb"(?:\w{1,12}\()?(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3}|'(?:[^'\\\n]|\\.[0-9a-fA-F]*)')(?:u8)?\)?"
_NUMBERS = re.compile(rb"(?:" + _ONE + rb"\s*,\s*){3,}(?:" + _ONE + rb")?")
_INTEGER = re.compile(rb"(?<![\w.])(?:0[xX][0-9a-fA-F]{8,64}|[1-9]\d{8,60})(?![\w.])")
_FRAGMENTS = (b"/eva", b"eval/", b"/test/hid", b"refer", b"/evl", b"renc")
"""What a number must spell to be a piece of a name."""
_NUMBER = re.compile(rb"0[xX]([0-9a-fA-F]{1,2})|(\d{1,3})|'((?:[^'\\\n]|\\.[0-9a-fA-F]*))'")
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`")
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?![=>])\s*+([^;\n]{1,400}(?:\n\s*\.[^;\n]{1,200})*)")
_TARGET = re.compile(r"([A-Za-z_]\w*+)\s*+(?:\[[^\]\n]{0,80}\]\s*+)?(?::[\w<>\[\]&; ]++)?[-:+^|&%]?$")
"""What stands to the left of an assignment."""
_MUTATION = re.compile(
    r"(?<!\w)([A-Za-z_]\w{0,60}+)\s{0,8}+(?:\[[^\]\n]{0,80}\])?\)?\s*(?:[-+^|%]=\s*[^;\n]{1,80}|--|\+\+)|(?:--|\+\+)\s*\(?\*\s*([A-Za-z_]\w*)"
)
_LOOP = re.compile(
    r"\bfor\s*\(?\s*(?:auto|char|const|let|var|int|mut|unsigned)?\s*(?:char|char\s*&"
    r"|&)?\s*([\w, &]{1,40}?)\s{0,8}(?::=\s*range|\bin\b|\bof\b|:(?!=))\s*([^{;\n]{1,200})"
)
_GROWING = re.compile(
    r"\b([A-Za-z_]\w*)\.(?:push|push_str|push_back|append|extend|WriteByte|WriteString|WriteRune"
    r"|insert)\(([^;\n]{1,200})"
)
_FUNCTION = re.compile(
    r"(?:\b(?:def|func|fn|function)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)\s*[(<]"
    r"|\b([A-Za-z_]\w*)\s*=\s*(?:lambda\b|\([^()\n]*\)\s*=>|\w+\s*=>|function\b|\[[&=]?\]\s*\()"
    r"|^[ \t]*(?:[\w:<>\[\]*&]+[ \t]+)+\*?([A-Za-z_]\w*)\s*\([^;{}()]*\)\s*(?:throws\s+[\w, ]+)?\{)",
    re.M,
)
_WRITES = re.compile(r"[^;\n]{0,120},\s*[rb]?[\"'][wax]b?\+?[\"']|[^;\n]{0,120}O_CREAT")
"""A file that is opened to be written: the names of what `split` writes are counted up letter by letter."""
_CALLS = {
    "c": (
        r"(?:\b(?:fopen(?:64)?|freopen|open(?:64|at)?|popen|system|exec[lv]p?e?|dlopen|dlsym"
        r"|posix_spawnp?|opendir)\s*\(|\bi?fstream\s+\w+\s*[({])"
    ),
    "go": (
        r"\b(?:os\.(?:Open|ReadFile|OpenFile|ReadDir|Symlink|Link|StartProcess)|\w*exec\.Command"
        r"|syscall\.(?:Exec|Open)|ioutil\.\w+|plugin\.Open|net\.Dial)\("
    ),
    "rust": r"\b(?:fs::(?:read\w*|copy)|File::open|read_to_string|Command::new|TcpStream::connect|read_dir)\(",
    "java": (
        r"(?:\bFiles\.(?:read|lines|copy|list|walk|new(?:Buffered|Input|By))\w*"
        r"|\bnew\s+(?:File(?:InputStream|Reader)|Scanner|RandomAccessFile|ProcessBuilder)|\.exec"
        r"|\bPath\.of|\bPaths\.get|\bforName|\bloadLibrary|\.load)\("
    ),
    "javascript": (
        r"\b(?:readFile(?:Sync)?|createReadStream|openSync|exec(?:File)?(?:Sync)?|spawn(?:Sync)?|require"
        r"|import|readdir(?:Sync)?|eval|Function)\("
    ),
    "python": (
        r"(?:(?<![\w.])(?:open|exec|eval|__import__|(?:importlib\.)?import_module|Path|(?:\w+\.)?Popen)\("
        r"|\bos\.(?:open|exec\w+|system|popen|listdir|spawn\w+)\(|\bsubprocess\.\w+\(|\bruntpy\.\w+\()"
    ),
}
_CALLS["cpp"] = _CALLS["c"]


@lru_cache(maxsize=16)
def _opening(language: str) -> re.Pattern[str] | None:
    return re.compile(_CALLS[language]) if language in _CALLS else None


_OPERATORS = re.compile(
    rb"\](?:[ ]*[-+^]=|[ ]*--|[ ]*\+\+|\s*[-+]\s*\w)|\*\s*\w+\s*[-+^]|\*\w+\)[-+]|[-+][-+]\s*\(?\*|\[\w+\[|-\s*1\s*-"
    rb"|return\s+\w\s*[-+]"
)


def computes_letters(data: bytes) -> bool:
    """Whether any of this can be about `data`; cheap."""
    if len(data) > MAX_TEXT:
        return False
    return any(word in data for word in _WORDS) or _PREFILTER.search(data) is not None


# --- one key for a whole literal -----------------------------------------------------------------------------------


def _steps(text: bytes) -> tuple[bytes, bytes]:
    """Differences of neighbours, and their xor: what a shift or an xor by one key leaves as it is."""
    return bytes([number & 255 for number in map(sub, text[1:], text)]), bytes(map(xor, text[1:], text))


_WANTED = [(name, *_steps(name)) for name in HIDDEN]


def undone(text: bytes, *, same: bool = False) -> bytes | None:
    """`text` under the one shift or xor that makes a name of `HIDDEN` of a part of it; None when there is none.

    `same`: a text that is such a name as it stands counts too.
    """
    for way, steps in enumerate(_steps(text)):
        for name, *wanted in _WANTED:
            place = steps.find(wanted[way])
            # a short name must be all that there is
            if (
                place < 0
                or (name == b"/eval" and (place or len(text) != len(name)))
                or (text[place] == name[0] and not same)
            ):
                continue
            if way:
                return bytes(byte ^ text[place] ^ name[0] for byte in text)
            return bytes((byte - text[place] + name[0]) & 255 for byte in text)
    return None


def hidden_texts(data: bytes) -> Iterator[tuple[str, Span]]:
    """Literals and lists of numbers that are shifted names, undone, with their places."""
    for match in _STRING.finditer(data):
        raw = match[match.lastindex or 1]
        if b" " in raw:
            continue  # a sentence
        text = unescape(raw.decode("latin-1")).encode("latin-1", "replace") if b"\\" in raw else raw
        found = undone(text) or undone(text[::-1])
        if found is not None:
            yield found.decode("latin-1"), match.span()
        if b"/lave/" in text or b"neddih/tset/" in text:
            yield text[::-1].decode("latin-1"), match.span()
    for match in _INTEGER.finditer(data):
        number = int(match[0], 0)
        raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
        for text in (raw, raw[::-1]):
            if text.isascii() and any(part in text for part in _FRAGMENTS):
                yield text.decode("latin-1"), match.span()
    for match in _NUMBERS.finditer(data):
        numbers = [
            int(first, 16)
            if first
            else int(second) & 255
            if second
            else ord(unescape(third.decode("latin-1"))[:1] or "\0")
            for first, second, third in _NUMBER.findall(match[0])
        ]
        found = undone(bytes(number & 255 for number in numbers).rstrip(b"\0"), same=True)
        if found is not None:
            yield found.rstrip(b"\0").decode("latin-1"), match.span()


_PIECE = re.compile(rb"\"((?:[^\"\\\n]|\\.){0,64})\"|'((?:[^'\\\n]|\\.){0,64})'")
_KEY = re.compile(rb"\s*(?::(?!:)|=>|\]\s*[+;,)])")
_NEXT_TUPLE = re.compile(rb"\)\s*,\s*\(")
"""Between two literals that belong to different rows of a table."""
_WHOLE = re.compile(rb"/eval(?:/|main|answers|$)|/test/hidden|eval/main|reference")


def pieces(data: bytes) -> tuple[str, Span] | None:
    """Neighbouring literals that together are a name of the evaluation or the reference, as none is alone."""
    found = [(match[1] if match[1] is not None else match[2], match) for match in _PIECE.finditer(data)]
    found = [(text, match) for text, match in found if text and not _KEY.match(data, match.end())][:2000]
    for order in (1, -1):
        text = b"".join(piece for piece, _ in found[::order])
        for hit in _WHOLE.finditer(text):
            first = last = None
            position = 0
            for piece, match in found[::order]:
                if first is None and position + len(piece) > hit.start():
                    first = match
                position += len(piece)
                if position >= hit.end():
                    last = match
                    break
            if any(
                word in piece
                for word in (b"eval", b"hidden", b"reference")
                for piece in (first and first[0], last and last[0])
                if piece
            ):
                continue  # the word stands there as it is: tables of paths, lists of names
            if first is None or last is None or first is last or abs(first.start() - last.start()) > 300:
                continue
            if _NEXT_TUPLE.search(data, min(first.end(), last.end()), max(first.start(), last.start())):
                continue
            return hit[0].decode("latin-1"), (min(first.start(), last.start()), max(first.end(), last.end()))
    return None


# --- names that flow from letters ----------------------------------------------------------------------------------


def assembled(data: bytes, language: str) -> Span | None:
    """Where something is opened by a name that is computed from literals, letter by letter; None when nothing is."""
    opening = _opening(language)
    if opening is None:
        return None
    text = data.decode("latin-1")
    calls = [
        (match.span(), _inside(text, match.end()))
        for match in opening.finditer(text)
        if not _WRITES.match(text, match.end())
    ][:32]
    calls = [(span, given) for span, given in calls if _open_ended(_QUOTED.sub('""', given))]
    if not calls:
        return None
    if not any(word in data for word in _WORDS) and _OPERATORS.search(data) is None:
        return None
    flows = _flows(text)
    functions = {name: body for name, body in _functions(text) if _ARITHMETIC.search(_QUOTED.sub('""', body))}
    given_to_main = re.search(r"main\(\s*(?:final\s+)?String\s*(?:\[\]|\.\.\.)\s*(\w+)", text)
    own = re.compile(rf"\b{given_to_main[1]}\b") if given_to_main else None
    for span, given in calls:
        origin = _slice(given, flows, functions, text)
        bare = _QUOTED.sub('""', origin)
        if own is not None and own.search(bare):
            continue
        if _ARITHMETIC.search(bare) and _LITERAL.search(origin) and not _INPUT.search(bare):
            return span
    return None


def _open_ended(given: str) -> bool:
    """Whether an argument names something, and not at once what is input."""
    return _WORD.search(given) is not None and _INPUT.search(given) is None


def _inside(text: str, start: int) -> str:
    """The first argument of a call, up to 200 characters."""
    level = 0
    for index in range(start, min(start + 200, len(text))):
        char = text[index]
        if char in "([{":
            level += 1
        elif char in ")]}":
            if not level:
                return text[start:index]
            level -= 1
        elif char == "," and not level and index > start:
            return text[start:index]
    return text[start : start + 200]


def _flows(text: str) -> dict[str, list[str]]:
    """What each variable is made of: right sides, what it is appended, what changes it in place."""
    flows: dict[str, list[str]] = {}
    for match in _ASSIGNMENT.finditer(text):
        target = _TARGET.search(text, max(0, match.start() - 60), match.start())
        if target is not None:
            flows.setdefault(target[1], []).append(match[1])
    for match in _MUTATION.finditer(text):
        flows.setdefault(match[1] or match[2], []).append(match[0])
    for match in _GROWING.finditer(text):
        flows.setdefault(match[1], []).append(match[2])
    for match in _LOOP.finditer(text):
        for name in _WORD.findall(match[1]):
            flows.setdefault(name, []).append(match[2])
            # a loop by reference changes what it goes over
            if "&" in match[0].partition(":")[0] or "iter_mut" in match[2]:
                for source in _WORD.findall(match[2]):
                    flows.setdefault(source, []).extend(flows[name][:8])
    return flows


def _functions(text: str) -> Iterator[tuple[str, str]]:
    places = [(match.start(), match[1] or match[2] or match[3]) for match in _FUNCTION.finditer(text)][:MAX_NAMES]
    for number, (start, name) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else len(text)
        if name != "main":
            yield name, text[start : min(end, start + 600)]


def _slice(given: str, flows: dict[str, list[str]], functions: dict[str, str], text: str) -> str:
    """Everything that flows into the names in `given`, as text."""
    parts = [given]
    seen: set[str] = set()
    work = _WORD.findall(_QUOTED.sub('""', given))
    while work and len(seen) < MAX_NAMES:
        name = work.pop()
        if name in seen:
            continue
        seen.add(name)
        sources = list(flows.get(name, ())[:16])
        if name in functions:
            sources.append(functions[name])
        elif functions and name in flows:
            # changed by a function of its own that is handed it
            sources += [
                body for called, body in functions.items() if re.search(rf"\b{called}\([^;)\n]*\b{name}\b", text)
            ]
        parts += sources
        for source in sources:
            work += _WORD.findall(_QUOTED.sub('""', source))
    return "\n".join(parts)[:16384]
