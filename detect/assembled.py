"""Names that code puts together letter by letter, in all languages that are read: shifted, xored, picked from a table.

Two looks at the text of a piece of code, both only where something computes with letters at all. A literal that is a
name of evaluation material or the reference under *one* shift or xor key has the same differences between neighbouring
letters as that name, whatever the key is: such a literal is undone. Where that does not tell, a file, program or
module that is opened by a name which flows from literals through arithmetic on letters, and from no input, is opaque.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import sub, xor

from detect.literals import Finder, noughts
from detect.shell_expand import unescape

Span = tuple[int, int]
Flows = dict[str, list[str]]

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
MAX_ORIGIN = 16384
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
    rb"[-+\]*\[0](?:(?<=[-+])(?:[-+]\s*\(?\*|\s*(?:\d+|'.')\s*[);},])|(?<=\])(?:\s*(?:[-+^]=|--|\+\+)|\s*[-+]\s*\w)"
    rb"|(?<=\*)(?:\s*\w+\s*[-+]|\w+\)(?:--|\+\+))|(?<=\[)(?:\w*[+*%]\w*\]|\w+\[)|(?<=-)\s*1\s*-|(?<=0)x[0-9a-fA-F]{8})"
)
"""Something that computes with letters, or picks them one by one; it begins with one of few signs: that is fast."""
_ARITHMETIC = re.compile(
    r"\^|charCodeAt|codePointAt|fromCharCode|fromCodePoint|o(?<=\bo)rd\(|c(?<=\bc)hr\(|as char|as u8|from_u32"
    r"|wrapping_|translate\(|to_bytes"
    r"|\][ ]*[-+^]=|-(?<![\w)]-)-\s*\(?\*|\+(?<![\w)]\+)\+\s*\(?\*|\][ ]*(?:--|\+\+)|\*\s*\w+\s*[-+^]=?\s*\w"
    r"|\(\*\w+\)(?:--|\+\+)|\[(?<=\w\[)\w+\]\s*[-+]\s*\w"
    r"|r(?<=\br)une\s+&?\w+\s*\)\s*(?:->\s*\w+\s*)?\{[^}]*[-+]|c(?<=\bc)har\s+&?\w+\s*\)\s*(?:->\s*\w+\s*)?\{[^}]*[-+]"
    r"|r(?<=\br)une\s*\{[^}]*[-+]|b(?<=\bb)yte\s*\{[^}]*[-+]"
    r"|r(?<=\br)eturn\s+\w\s*[-+]\s*(?:\d+|k|key)\b"
    r"|\[(?<=\w\[)\w+\[|\[[^\]\n]*-\s*1\s*-\s*\w+\]|reduce\(|Reversed?\(|reversed?\(|\.rev\(\)|replace(?:All)?\("
    r"|Replacer?\b|\.substr\w*\(|\.slice\(|\[::|Template\(|methodcaller|format_map|zip\("
    r"|re\.sub\(|f(?<=\bf)ilter\(|n(?<=\bn)ext\(|unhexlify|fromhex|b64decode|a85decode|rot_?13|swapcase|parseInt\(|charAt\("
)
"""Each way begins with a letter of its own, what must stand before it is asked for after that: so it is found fast."""
_ARITHMETIC_WORDS = (
    *("^", "charCodeAt", "codePointAt", "fromC", "ord(", "chr(", "as char", "as u8", "from_u32", "wrapping_", "rune"),
    *("translate(", "to_bytes", "char", "byte", "reduce(", "everse", ".rev()", "eplace"),
    *(".substr", ".slice(", "[::", "Template(", "methodcaller", "format_map", "zip(", "re.sub(", "filter(", "next("),
    *("unhexlify", "fromhex", "b64decode", "a85decode", "rot13", "rot_13", "swapcase", "parseInt(", "charAt("),
)
_ARITHMETIC_SIGNS = re.compile(
    r"\](?:[ ]*[-+]|\s*[-+])|--|\+\+|\*\s*\w+\s*[-+]|\[(?:\w+\[|[^\]\n]*-\s*1\s*-)|return\s+\w\s*[-+]"
)
"""What `_ARITHMETIC` cannot do without, quickly looked for."""
_INPUT = re.compile(
    r"\bargv?\b|\bargs\b|stdin|Args\b|getenv|environ|\binput\(|Scanner|readline|readLine|getline"
    r"|optarg|\brand|random|\btime\b"
    r"|getpid|\.lines\(|mktemp|temp_dir|getcwd|current_dir|__file__|process\.env"
)
_INPUT_WORDS = (
    *("arg", "stdin", "Args", "getenv", "environ", "input(", "Scanner", "readline", "readLine", "getline", "rand"),
    *("time", "getpid", ".lines(", "mktemp", "temp_dir", "getcwd", "current_dir", "__file__", "process.env"),
)
_LITERAL = re.compile(
    r"\"(?:[^\"\\\n]|\\.){3,}\"|'(?:[^'\\\n]|\\.){3,}'|(?:(?:\d+|0x[0-9a-fA-F]+|'[^'\n]+')\s*,\s*){3}"
)
_STRING = re.compile(rb"\"((?:[^\"\\\n]|\\.){4,512})\"|'((?:[^'\\\n]|\\.){4,512})'|`([^`\n]{4,512})`")
_ONE = rb"(?:\w{1,12}\()?(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3}|'(?:[^'\\\n]|\\.[0-9a-fA-F]*)')(?:u8)?\)?"
_NUMBERS = re.compile(rb"(?:" + _ONE + rb"\s*,\s*){3,}(?:" + _ONE + rb")?")
_BETWEEN = re.compile(rb",\s*" + _ONE + rb"\s*,\s*" + _ONE + rb"\s*,")
"""What every list of numbers has in it; quickly looked for."""
_INTEGER = re.compile(rb"(?<![\w.])(?:0[xX][0-9a-fA-F]{8,64}|[1-9]\d{8,60})(?![\w.])")
_FIGURES = noughts(b"0123456789")
_FRAGMENTS = (b"/eva", b"eval/", b"/test/hid", b"refer", b"/evl", b"renc")
"""What a number must spell to be a piece of a name."""
_NUMBER = re.compile(rb"0[xX]([0-9a-fA-F]{1,2})|(\d{1,3})|'((?:[^'\\\n]|\\.[0-9a-fA-F]*))'")
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`")
_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"=(?<![=!<>]=)(?![=>])\s*+([^;\n]{1,400}(?:\n\s*\.[^;\n]{1,200})*)")
_TARGET = re.compile(r"([A-Za-z_]\w*+)\s*+(?:\[[^\]\n]{0,80}\]\s*+)?(?::[\w<>\[\]&; ]++)?[-:+^|&%]?$")
"""What stands to the left of an assignment."""
_FIRST_LETTER = re.compile(r"[A-Za-z_]\w*")
_ASSIGNING = ("-", ":", "+", "^", "|", "&", "%")
_NO_TYPE = re.compile(r"[^:\w<>\[\]&; ]")
"""What stands in no type between a name's colon and the assignment."""
_MUTATION = re.compile(
    r"(?<!\w)([A-Za-z_]\w{0,60}+)\s{0,8}+(?:\[[^\]\n]{0,80}\])?\)?\s*(?:[-+^|%]=\s*[^;\n]{1,80}|--|\+\+)|(?:--|\+\+)\s*\(?\*\s*([A-Za-z_]\w*)"
)
_LOOP = re.compile(
    r"f(?<=\bf)or\s*\(?\s*(?:auto|char|const|let|var|int|mut|unsigned)?\s*(?:char|char\s*&"
    r"|&)?\s*([\w, &]{1,40}?)\s{0,8}(?::=\s*range|\bin\b|\bof\b|:(?!=))\s*([^{;\n]{1,200})"
)
_GROWING = re.compile(
    r"\.(?<=\w\.)(?:push|push_str|push_back|append|extend|WriteByte|WriteString|WriteRune|insert)\(([^;\n]{1,200})"
)
_LAST_WORD = re.compile(r"\b[A-Za-z_]\w*\Z")
_CHANGE = re.compile(r"[-+^|%]=|--|\+\+")
"""What a match of `_MUTATION` has in it."""
_FUNCTIONS = (
    (
        re.compile(r"d(?<=\bd)ef\s|f(?<=\bf)(?:unc|unction|n)\s"),
        r"(?:d(?<=\bd)ef|f(?<=\bf)unc|f(?<=\bf)n|f(?<=\bf)unction)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)\s*[(<]",
    ),
    (
        re.compile(r"=\s*(?:lambda|function|\[[&=]?\]\s*\()|=>"),
        r"\b([A-Za-z_]\w*)\s*=\s*(?:lambda\b|\([^()\n]*\)\s*=>|\w+\s*=>|function\b|\[[&=]?\]\s*\()",
    ),
    (
        re.compile(r"\)\s*(?:throws\s+[\w, ]+)?\{"),
        r"\n[ \t]*(?:[\w:<>\[\]*&]+[ \t]+)+\*?([A-Za-z_]\w*)\s*\([^;{}()]*\)\s*(?:throws\s+[\w, ]+)?\{",
    ),
)
"""How a function is defined, each way with what it cannot do without."""
_MAIN = re.compile(r"main\(\s*(?:final\s+)?String\s*(?:\[\]|\.\.\.)\s*(\w+)")
_DEFINED = re.compile(r"\s*[(<=]")
"""What stands behind the name of a function where it is defined."""
_GIVEN = re.compile(r"[^;)\n]*")
_WORD_PART = re.compile(r"\w")
_ANY_WORD = re.compile(r"\w+")
_WRITES = re.compile(r"[^;\n]{0,120},\s*[rb]?[\"'][wax]b?\+?[\"']|[^;\n]{0,120}O_CREAT")
"""A file that is opened to be written: the names of what `split` writes are counted up letter by letter."""
_CALLS = {
    "c": (
        r"\b(?:fopen(?:64)?|freopen|open(?:64|at)?|popen|system|exec[lv]p?e?|dlopen|dlsym"
        r"|posix_spawnp?|opendir)\s*\(|\bi?fstream\s+\w+\s*[({]"
    ),
    "go": (
        r"\b(?:os\.(?:Open|ReadFile|OpenFile|ReadDir|Symlink|Link|StartProcess)"
        r"|syscall\.(?:Exec|Open)|ioutil\.\w+|plugin\.Open|net\.Dial)\(|\b\w*exec\.Command\("
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
        r"(?<![\w.])(?:open|exec|eval|__import__|(?:importlib\.)?import_module|Path|Popen)\(|(?<![\w.])\w+\.Popen\("
        r"|\bos\.(?:open|exec\w+|system|popen|listdir|spawn\w+)\(|\bsubprocess\.\w+\(|\brunpy\.\w+\("
    ),
}
_CALLS["cpp"] = _CALLS["c"]


@lru_cache(maxsize=16)
def _opening(language: str) -> Finder[str] | None:
    return Finder(_CALLS[language]) if language in _CALLS else None


_OPERATORS = re.compile(
    rb"\](?:[ ]*[-+^]=|[ ]*--|[ ]*\+\+|\s*[-+]\s*\w)|\*\s*\w+\s*[-+^]|\*\w+\)[-+]|[-+][-+]\s*\(?\*|\[\w+\[|-\s*1\s*-"
    rb"|return\s+\w\s*[-+]"
)


def computes_letters(data: bytes) -> bool:
    """Whether any of this can be about `data`; cheap."""
    if len(data) > MAX_TEXT:
        return False
    return _worded(data) or _PREFILTER.search(data) is not None


@lru_cache(maxsize=4)
def _worded(data: bytes) -> bool:
    """Whether a word says that something computes with letters; asked twice about the same code."""
    return any(word in data for word in _WORDS)


# --- one key for a whole literal -----------------------------------------------------------------------------------


def _steps(text: bytes) -> tuple[bytes, bytes]:
    """Differences of neighbours, and their xor: what a shift or an xor by one key leaves as it is."""
    return bytes([number & 255 for number in map(sub, text[1:], text)]), bytes(map(xor, text[1:], text))


_WANTED = [(name, *_steps(name)) for name in HIDDEN]
_SHORTEST = (b"/eval", b"eval/main", b"/test/", b"reference", b"/dev/tcp", b"sitecustomize", b"conftest.py")
"""One of these stands in every name of `HIDDEN`."""
_TRACES = {_steps(text)[0] for name in _SHORTEST for text in (name, name[::-1])}
_XOR_TRACES = {_steps(text)[1] for name in _SHORTEST for text in (name, name[::-1])}
"""What any name of `HIDDEN`, forwards or backwards, leaves in the steps of a text that it stands in under one key."""


def _traced(data: bytes) -> bool:
    """Whether a name of `HIDDEN` stands anywhere in `data` under one key; all bytes at once, as one number.

    `before - after` byte by byte is worked out without carries from one byte into the next.
    """
    size = len(data) - 1
    if size < 1:
        return False
    after, before = int.from_bytes(data[1:], "big"), int.from_bytes(data[:-1], "big")
    high = int.from_bytes(b"\x80" * size, "big")
    low = high ^ ((1 << 8 * size) - 1)
    apart = ((after | high) - (before & low)) ^ ((after ^ before ^ low ^ high) & high)
    differences, xored = apart.to_bytes(size, "big"), (after ^ before).to_bytes(size, "big")
    return any([trace in differences for trace in _TRACES]) or any([trace in xored for trace in _XOR_TRACES])


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
    # a literal says what it says with the escapes in it undone
    said = unescape(data.decode("latin-1")).encode("latin-1", "replace") if b"\\" in data else data
    traced = b"/lave/" in said or b"neddih/tset/" in said or _traced(said)
    for match in _STRING.finditer(data) if traced else ():
        raw = match[match.lastindex or 1]
        if b" " in raw:
            continue  # a sentence, or nothing that any key undoes
        text = unescape(raw.decode("latin-1")).encode("latin-1", "replace") if b"\\" in raw else raw
        found = undone(text) or undone(text[::-1])
        if found is not None:
            yield found.decode("latin-1"), match.span()
        if b"/lave/" in text or b"neddih/tset/" in text:
            yield text[::-1].decode("latin-1"), match.span()
    long = b"0x" in data or b"0X" in data or b"000000000" in data.translate(_FIGURES)
    for match in _INTEGER.finditer(data) if long else ():
        number = int(match[0], 0)
        raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
        for text in (raw, raw[::-1]):
            if text.isascii() and any(part in text for part in _FRAGMENTS):
                yield text.decode("latin-1"), match.span()
    for match in _lists(data):
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


def _lists(data: bytes) -> Iterator[re.Match[bytes]]:
    """Lists of numbers, each looked for where two numbers stand between commas."""
    after = 0
    between = _BETWEEN.search(data)
    while between is not None:
        # the first number stands before the comma, and may be a comma itself
        start = data.rfind(b",", 0, max(data.rfind(b",", 0, between.start()), 0)) + 1
        match = _NUMBERS.search(data, max(start, after))
        if match is None:
            return
        yield match
        after = match.end()
        between = _BETWEEN.search(data, after)


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
        (match.span(), _inside(text, match.end())) for match in opening.finditer(text) if not _writes(text, match.end())
    ][:32]
    calls = [(span, given) for span, given in calls if _open_ended(_bare(given))]
    if not calls:
        return None
    if not _worded(data) and _OPERATORS.search(data) is None:
        return None
    flowing = _Flowing(text)
    for span, given in calls:
        origin = flowing.origin(given)
        if origin is not None and _LITERAL.search(origin) and _arithmetic(_bare(origin)):
            return span
    return None


def _bare(text: str) -> str:
    """Text without what is quoted in it."""
    return _QUOTED.sub('""', text)


def _arithmetic(bare: str) -> bool:
    """Whether something computes with letters."""
    if _ARITHMETIC_SIGNS.search(bare) is None and not any(word in bare for word in _ARITHMETIC_WORDS):
        return False
    return _ARITHMETIC.search(bare) is not None


def _input(bare: str) -> bool:
    return any(word in bare for word in _INPUT_WORDS) and _INPUT.search(bare) is not None


def _writes(text: str, place: int) -> bool:
    """Whether the call whose arguments begin at `place` opens a file to write it."""
    # the mode stands behind a comma
    if text.find(",", place, place + 121) < 0 and text.find("O_CREAT", place, place + 127) < 0:
        return False
    return _WRITES.match(text, place) is not None


def _open_ended(given: str) -> bool:
    """Whether an argument names something, and not at once what is input."""
    return _WORD.search(given) is not None and not _input(given)


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


def _target(left: str) -> str | None:
    """The name that `left`, the text before `=`, assigns to."""
    given = left
    # a name, perhaps with an operator behind it
    if left.endswith(_ASSIGNING):
        left = left[:-1]
    left = left.rstrip()
    typed = ":" in left and _NO_TYPE.search(left, left.rindex(":")) is None
    if typed or left.endswith("]") or given.endswith("\n"):
        target = _TARGET.search(given)
        return None if target is None else target[1]
    words = left.rsplit(None, 1)
    if words and words[-1].isascii() and words[-1].isidentifier():
        return words[-1]
    word = _ANY_WORD.match(left.rstrip()[::-1])
    name = None if word is None else _FIRST_LETTER.search(word[0][::-1])
    return None if name is None else name[0]


def _changing(text: str) -> str:
    """The lines of `text` that a match of `_MUTATION` can be on: those with an operator that changes, and around.

    White space in a match may go over two line ends before the operator, and over two behind it. What is left out is
    a `;`, which no match goes over.
    """
    if _CHANGE.search(text) is None:
        return ""
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line and not line.isspace()]
    kept: list[str] = []
    next_line = 0
    for place, number in enumerate(filled):
        if _CHANGE.search(lines[number]) is None:
            continue
        first = filled[max(0, place - 2)]
        last = filled[place + 2] if place + 2 < len(filled) else len(lines) - 1
        if first > next_line:
            kept.append(";")
        kept += lines[max(first, next_line) : last + 1]
        next_line = max(next_line, last + 1)
    return "\n".join(kept)


def _assignments(text: str) -> Flows:
    """The right sides of what is assigned to each variable."""
    flows: Flows = {}
    for match in _ASSIGNMENT.finditer(text):
        target = _target(text[max(0, match.start() - 60) : match.start()])
        if target is not None:
            flows.setdefault(target, []).append(match[1])
    return flows


def _flows(text: str, assigned: Flows, loops: Sequence[re.Match[str]]) -> Flows:
    """What each variable is made of: right sides, what it is appended, what changes it in place."""
    flows = {name: list(sources) for name, sources in assigned.items()}
    for match in _MUTATION.finditer(_changing(text)):
        flows.setdefault(match[1] or match[2], []).append(match[0])
    for match in _GROWING.finditer(text):
        name = _LAST_WORD.search(text, max(match.start() - 60, 0), match.start())
        if name is not None:
            flows.setdefault(name[0], []).append(match[1])
    for match in loops:
        for name in _WORD.findall(match[1]):
            flows.setdefault(name, []).append(match[2])
            # a loop by reference changes what it goes over
            if "&" in match[0].partition(":")[0] or "iter_mut" in match[2]:
                for source in _WORD.findall(match[2]):
                    flows.setdefault(source, []).extend(flows[name][:8])
    return flows


@lru_cache(maxsize=8)
def _either(ways: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(ways))


def _functions(text: str) -> Iterator[tuple[str, str]]:
    ways = tuple(pattern for needed, pattern in _FUNCTIONS if needed.search(text) is not None)
    if not ways:
        return
    text = "\n" + text
    found = itertools.islice(_either(ways).finditer(text), MAX_NAMES)
    places = [(match.start() + (match[0][0] == "\n"), match[match.lastindex or 0]) for match in found]
    for number, (start, name) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else len(text)
        if name != "main":
            yield name, text[start : min(end, start + 600)]


class _Flowing:
    """What flows into names of one text. Everything is worked out when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        main = _MAIN.search(text)
        self.own = main[1] if main is not None else None
        """What `main` is given, in Java."""
        self._names: dict[str, tuple[list[str], bool]] = {}

    @cached_property
    def assigned(self) -> Flows:
        return _assignments(self.text)

    @cached_property
    def loops(self) -> list[re.Match[str]]:
        return list(_LOOP.finditer(self.text))

    @cached_property
    def looped(self) -> Flows:
        """What each variable goes over."""
        looped: Flows = {}
        for match in self.loops:
            for name in _WORD.findall(match[1]):
                looped.setdefault(name, []).append(match[2])
        return looped

    @cached_property
    def flows(self) -> Flows:
        return _flows(self.text, self.assigned, self.loops)

    def is_input(self, names: Iterable[str]) -> bool:
        """Whether input flows into names by assignments and loops alone, which is found out fast."""
        seen: set[str] = set()
        work = list(names)
        while work and len(seen) < MAX_NAMES:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            for source in (*self.assigned.get(name, ())[:16], *self.looped.get(name, ())[:16]):
                words, entered = self._read(source)
                if entered:
                    return True
                work += words
        return False

    @cached_property
    def functions(self) -> dict[str, str]:
        """Functions that compute with letters."""
        return {name: body for name, body in _functions(self.text) if _arithmetic(_bare(body))}

    @cached_property
    def handed(self) -> list[tuple[str, set[str]]]:
        """Those functions' bodies, each with the words that it is called with anywhere."""
        text = self.text
        found: list[tuple[str, set[str]]] = []
        for name, body in self.functions.items():
            words: set[str] = set()
            start = text.find(name + "(")
            while start >= 0:
                end = start + len(name) + 1
                given = _GIVEN.match(text, end)
                if given is not None and not (start and _WORD_PART.match(text, start - 1)):
                    words.update(_ANY_WORD.findall(given[0]))
                start = text.find(name + "(", end)
            found.append((body, words))
        return found

    def _read(self, source: str) -> tuple[list[str], bool]:
        """The names in a piece of text, and whether it is or asks for input."""
        known = self._names.get(source)
        if known is None:
            bare = _bare(source)
            entered = _input(bare) or (self.own is not None and self.own in _ANY_WORD.findall(bare))
            known = self._names[source] = (_WORD.findall(bare), entered)
        return known

    def origin(self, given: str) -> str | None:
        """Everything that flows into the names in `given`, as text; None when input does.

        Quotes end on their line and what is input does not go over several, so each part is looked at by itself.
        """
        parts = [given]
        size = len(given)
        words, entered = self._read(given)
        if entered or self.is_input(words):
            return None
        seen: set[str] = set()
        work = list(words)
        while work and len(seen) < MAX_NAMES and size <= MAX_ORIGIN:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            for more in (self._assigned, self._computed):
                for source in more(name):
                    words, entered = self._read(source)
                    parts.append(source)
                    size += len(source) + 1
                    if entered and size <= MAX_ORIGIN:
                        return None
                    work += words
        origin = "\n".join(parts)
        if size > MAX_ORIGIN:
            origin = origin[:MAX_ORIGIN]
            # the last part is cut
            if self._read(origin)[1]:
                return None
        return origin

    def _assigned(self, name: str) -> list[str]:
        return self.flows.get(name, [])[:16]

    def _is_defined(self, name: str) -> bool:
        """Whether anything of that name could be a function; cheap."""
        start = self.text.find(name)
        while start >= 0:
            if _DEFINED.match(self.text, start + len(name)) is not None:
                return True
            start = self.text.find(name, start + 1)
        return False

    def _computed(self, name: str) -> list[str]:
        """The function of that name, else those that change what has the name: functions of its own are handed it."""
        changed = name in self.flows
        if not changed and not self._is_defined(name):
            return []
        if name in self.functions:
            return [self.functions[name]]
        if changed and self.functions:
            return [body for body, words in self.handed if name in words]
        return []
