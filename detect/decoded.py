"""Names that stand in an action only in another spelling: encoded, backwards, as numbers, or in pieces.

Honest code says what it opens, starts and imports. So what matters is not how a name was hidden but that it was: text
that decodes to a path of the system, an address, a program or a module (`hidden_text`), and a name that the readers
worked out although its letters stand nowhere in the action (`assembled`). Both looks cost little where nothing is
hidden, and a bounded amount anywhere.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from detect.literals import one_of, words_of
from detect.paths import UNKNOWN

if TYPE_CHECKING:
    from detect.facts import Found

Span = tuple[int, int]
MAX_BYTES = 64 * 1024
MAX_TOKENS = 600
MAX_UNPACKED = 16 * 1024

TELLING = re.compile(
    r"(?<![\w.])/(?:eval|tests?|proc|usr|bin|sbin|etc|dev|root|home|run|var|srv|opt|mnt|case|logs?|work|sys)(?:/|\b)"
    r"|\b(?:https?|ftp|git|ssh|wss?)://|\bgit@|/\.\./\.\./"
    r"|\b(?:subprocess|socket|urllib|requests|http\.client|child_process|ctypes|importlib|unittest|pytest|xmlrpc|ftplib|smtplib|aiohttp"
    r"|reference|busybox|toybox|coreutils|util-linux|openssl|nsenter|unshare|curl|wget|ncat|netcat|telnet|socat|sitecustomize|usercustomize|conftest"
    r"|execvp?e?|posix_spawnp?|popen|execlp?|memfd_create|LD_PRELOAD|PYTHONPATH|__import__|os\.system|fsockopen"
    r"|getrlimit|getppid|gethostname|clock_gettime)\b"
    r"|\bimport\s+\w|\bexec\s*\(|\beval\s*\(|\bsystem\s*\(|\bopen\s*\(|\brequire\s*\(|#!\s*/|\bbash\s+-|\bsh\s+-c|\bcat\s+/|\bcp\s+/|\blambda\b"
    r"|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|edu|gov)\b(?:/|:|$)"
)
"""What nobody has a reason to hide."""
_BACKWARDS = (
    *(
        "sptth",
        "//:ptth",
        "//:ptf",
        "ecnerefer",
        "ssecorpbus",
        "ssecorp_dlihc",
        "tekcos",
        "bilru",
        "bilitropmi",
        "sepytc",
        "tseuqer",
    ),
    *(
        "/lave/",
        "neddih/tset/",
        "/corp/",
        "/rsu/",
        "/nib/",
        "/cte/",
        "xobysub",
        "slituero",
        "lruc",
        "tegw",
        "lsspo",
        "metsys.",
        "nepop",
    ),
    *("ezimotsucetis", "tsetftnoc", "tsettinu", "DAOLERP_DL", "pvcexe", "nwaps", "cexe", "pct/ved/", "evrlovmt"),
)
"""Names backwards, as they stand between quotes."""
_ANY_BACKWARDS = one_of(_BACKWARDS)
_BACKWARDS_AT = re.compile("[\"'`=\\s]([^\"'`\\s]*(?:" + "|".join(map(re.escape, _BACKWARDS)) + ")[^\"'`\\s]*)")
_TOKEN = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,6}")
_TOKEN_LETTERS = bytes(code if re.match(rb"[A-Za-z0-9+/_-]", bytes([code])) else 32 for code in range(256))
"""Every byte that is no part of a token as a blank."""
_HEXED = re.compile(r"(?:0x)?((?:[2-7][0-9a-fA-F]){5,512})")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_ANY_ESCAPE = one_of(("\\x", "\\u", "\\0", "\\1", "&#", "%2", "%6", "%7"))
_ESCAPED = re.compile(
    r"(?:\\x[2-7][0-9a-fA-F]|\\u00[2-7][0-9a-fA-F]|\\u\{[2-7][0-9a-fA-F]\}|\\0?[01][0-7]{2}|%[2-7][0-9a-fA-F]|&#x?[0-9a-fA-F]{2,3};|[\w/:.-])+"
)
_BEFORE = re.compile(r"[\w/:.-]+\Z")
_ESCAPE = re.compile(
    r"\\x([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|\\u\{([0-9a-fA-F]{2})\}|\\0?([01][0-7]{2})|%([0-9a-fA-F]{2})|&#x([0-9a-fA-F]{2});|&#(\d{2,3});"
)
_HAS_ESCAPE = re.compile(
    r"[\\&%](?:(?<=\\)(?:x[2-7][0-9a-fA-F]|u00[2-7]|u\{[2-7]|0?[01][0-7]{2})|(?<=&)#x?[0-9a-fA-F]{2,3};"
    r"|(?<=%)[2-7][0-9a-fA-F](?:%[2-7][0-9a-fA-F]){2})"
)
"""It begins with one of three signs, and so is found fast."""
_ONE = r"(?:0[xX][2-7][0-9a-fA-F]|1[0-2]\d|[4-9]\d|0?1?[0-7]{2})"
_NUMBERS = re.compile(rf"(?<![\w.]){_ONE}(?:(?:\s*[,;|:]\s*|[ \t]+|\\+[xn0]?){_ONE}){{5,400}}(?![\w.])")
_SOME = r"(?:\d{2,3}|0[xX][0-9a-fA-F]{2})[,;|: \t\\]+"
_NUMBER_AHEAD = re.compile(r"\d(?:\d{1,2}|(?<=0)[xX][0-9a-fA-F]{2})[,;|: \t\\]+" + _SOME + _SOME + r"\d")
"""It begins with a figure, and so is found fast."""
_ITEM = r"(?:\(?\w{0,8}\)?\s*+)?(?:0[xX][0-9a-fA-F]{1,2}|\d{1,3}|'(?:[^'\\\n]|\\.[0-9a-fA-F]{0,2})')(?:u8)?"
_LISTED = re.compile(rf"(?=[\w()'])(?:(?>{_ITEM}\s*+,)\s*+){{7,200}}{_ITEM}")
"""White space in front of it belongs to it. Every item ends at its comma in one way only: time grows with the text."""
_LISTED_AHEAD = re.compile(rf",(?:\s*+(?>{_ITEM}\s*+,)){{6}}")
"""Stands in every list, and is found fast: it begins with a comma."""
_LISTED_ITEM = re.compile(r"0[xX]([0-9a-fA-F]{1,2})|'([^'\\\n])'|(\d{1,3})")
_PATH_LIKE = re.compile(r"/[a-z*?][\w*?\[\]{},.-]*(?:/[\w*?\[\]{},.-]+)+/?")
_TURNS = re.compile(r"revers|\[::-1\]|\brev\b|\.rev\(|-\s*1\s*-|--")
_ANY_SHORT_BACKWARDS = one_of(("lave", "tset", "neddih", "corp"))
_SHORT_BACKWARDS = re.compile(r"[\"'`]([^\"'`\s\w]?(?:lave|tset|neddih|corp)/?)[\"'`]")
_SINGLE = re.compile(
    r"[\"'][A-Za-z/._:-]{1,2}[\"']\s*[,+;.]\s*(?:[\"'][A-Za-z/._:-]{1,2}[\"']\s*[,+;.]\s*){2,39}[\"'][A-Za-z/._:-]{1,2}[\"']"
)
_QUOTED_LETTERS = re.compile(r"[\"']([A-Za-z/._:-]{1,2})[\"']")
_PROGRAMS = frozenset(
    [
        *(
            "openssl",
            "busybox",
            "toybox",
            "reference",
            "curl",
            "wget",
            "python",
            "python3",
            "perl",
            "gawk",
            "mawk",
            "ruby",
            "lua",
            "node",
            "bash",
            "sort",
        ),
        *(
            "uniq",
            "expr",
            "factor",
            "base64",
            "md5sum",
            "sha1sum",
            "cksum",
            "column",
            "paste",
            "join",
            "comm",
            "unexpand",
            "expand",
            "tsort",
            "numfmt",
        ),
        *(
            "fold",
            "fmt",
            "head",
            "tail",
            "tac",
            "rev",
            "seq",
            "cut",
            "eval",
            "exec",
            "system",
            "popen",
            "socket",
            "subprocess",
            "git",
            "diff",
            "qalc",
        ),
    ]
)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_ROT13 = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm"
)
_ROTATED = tuple(
    codecs.encode(name, "rot13")
    for name in (
        *(
            "https://",
            "http://",
            "subprocess",
            "socket",
            "urllib",
            "child_process",
            "reference",
            "/eval/",
            "/test/",
            "/proc/",
            "/usr/bin",
        ),
        *("unittest", "busybox", "coreutils", "import ", "os.system", "ctypes", "/etc/", "openssl", "wget ", "curl "),
    )
)
_ANY_ROTATED = one_of(_ROTATED)
_UNPRINTABLE = re.compile(rb"[^\t\n\r -~]")


def _readable(data: bytes) -> bool:
    return len(data) >= 4 and _UNPRINTABLE.search(data) is None


def _unpacked(data: bytes) -> bytes:
    """What a compressed text says, up to a bound; the data itself when it is not compressed."""
    for bits in (15, 31, -15) if data[:1] in (b"x", b"\x1f") or (not _readable(data[:64]) and len(data) > 24) else ():
        try:
            return zlib.decompressobj(bits).decompress(data, MAX_UNPACKED)
        except zlib.error:
            continue
    return data


def _from_base(token: str) -> bytes | None:
    plain = token.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        return None
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return None


def _decoded(token: str) -> Iterator[bytes]:
    """What a token may say: in base 64, 32 or 16, packed or not, forwards or backwards."""
    if (hexed := _HEXED.fullmatch(token)) is not None:
        data = bytes.fromhex(hexed[1])
        yield from (way for way in (data, data[::-1]) if _readable(way))
    if _BASE32.fullmatch(token) is not None:
        plain = token.rstrip("=")
        try:
            data = base64.b32decode(plain + "=" * (-len(plain) % 8))
        except (binascii.Error, ValueError):
            data = b""
        if _readable(data):
            yield data
    if token.isupper() or ("_" in token and not token.endswith("=")):
        return
    data = _from_base(token)
    if data is not None:
        yield from (way for way in (_unpacked(data), _unpacked(data[::-1])) if _readable(way))
    if len(token) > 12 and (backwards := _from_base(token[::-1])) is not None and _readable(backwards):
        yield backwards


def _may_say(run: bytes) -> bool:
    """Whether a run of letters may say something: no words of a language do, nor names in the styles of programs."""
    return not run[1:].islower() or run[:1].isdigit()


def _said(token: str) -> list[str]:
    """What a token says that nobody has a reason to hide."""
    if token.isdigit() or (token[1:].islower() and not _HEXED.fullmatch(token)):
        return []
    return [found for way in _decoded(token) if TELLING.search(found := way.decode("latin-1"))]


def _tokens(text: str) -> Iterator[tuple[str, Span]]:
    """What the tokens of a text say, with their places."""
    runs = [run for run in words_of(text).text.translate(_TOKEN_LETTERS).split() if len(run) >= 8][: MAX_TOKENS + 1]
    # a name is taken for base 64 where `=` stands behind it
    if not any(_said(run.decode() + "=" * (b"_" in run)) for run in set(runs) if _may_say(run)):
        return
    told: dict[str, list[str]] = {}
    for match in itertools.islice(_TOKEN.finditer(text), MAX_TOKENS + 1):
        token = match[0]
        if token not in told:
            told[token] = _said(token)
        yield from ((found, match.span()) for found in told[token])


def hidden(text: str, language: str) -> Iterator[tuple[str, Span]]:
    """Texts that stand in `text` in another spelling, and are names that nobody has a reason to hide."""
    if len(text) > MAX_BYTES:
        return
    yield from _tokens(text)
    words = words_of(text)
    # what the shell does with escapes its reader knows
    escapes = language != "shell" and _ANY_ESCAPE.holds(words)
    after = 0
    for ahead in _HAS_ESCAPE.finditer(text) if escapes else ():
        if ahead.start() < after or (match := _ESCAPED.match(text, ahead.start())) is None:
            continue
        after = match.end()
        # what stands in front of the first escape belongs to it
        start = max(after - len(match[0]) - 40, 0)
        before = _BEFORE.search(text, start, match.start())
        whole = (before[0] if before is not None else "") + match[0]
        found = _ESCAPE.sub(_letter, whole)
        if (hit := TELLING.search(found)) is not None and hit[0] not in whole:
            yield found, match.span()
            break
    if _NUMBER_AHEAD.search(text) is not None:
        for match in _NUMBERS.finditer(text):
            yield from ((found, match.span()) for found in _numbers(match[0]) if TELLING.search(found))
    end = 0
    for match in _lists(text):
        if (found := _unlocked(match[0])) is not None:
            yield found, (end + len(text[end : match.start()].rstrip()), match.end())
        end = match.end()
    if _ANY_BACKWARDS.holds(words):
        for match in _BACKWARDS_AT.finditer(text):
            if TELLING.search(found := match[1][::-1]) or match[1] in _BACKWARDS:
                yield found, match.span(1)
    if _ANY_SHORT_BACKWARDS.holds(words) and _TURNS.search(text) is not None:
        for match in _SHORT_BACKWARDS.finditer(text):
            # not where a test says what it is backwards
            if (found := match[1][::-1]).strip("/") + match[0][0] not in text:
                yield found, match.span()
    for match in _SINGLE.finditer(text) if text.count("'") + text.count('"') >= 8 else ():
        spelled = "".join(_QUOTED_LETTERS.findall(match[0]))
        if (
            TELLING.search(spelled)
            or spelled in _PROGRAMS
            or spelled[::-1] in _PROGRAMS
            or spelled[::-1].startswith(("/eval", "/test"))
        ):
            yield spelled, match.span()
    for word in _ROTATED if _ANY_ROTATED.holds(words) else ():
        if word in text:
            start = text.find(word)
            yield text[start : start + 60].translate(_ROT13), (start, start + len(word))


def _lists(text: str) -> Iterator[re.Match[str]]:
    """Lists of bytes, each looked for where most of one stands behind a comma."""
    after = 0
    while (ahead := _LISTED_AHEAD.search(text, after)) is not None:
        # the first item stands before the comma: a number, and a type or a cast before that
        number = len(text[after : ahead.start()].rstrip()) - 6
        start = after + max(len(text[after : after + max(number, 0)].rstrip()) - 10, 0)
        match = _LISTED.search(text, start)
        if match is None:
            return
        yield match
        after = match.end()


def _unlocked(listed: str) -> str | None:
    """The path that a list of bytes is under one key of addition or xor, if it is one: it begins with a slash."""
    values = [
        int(first, 16) if first else ord(second) if second else int(third)
        for first, second, third in _LISTED_ITEM.findall(listed)
    ]
    if max(values) > 255:
        return None
    first = values[0]
    for way in (
        [value ^ first ^ 47 for value in values],
        [(value - first + 47) & 255 for value in values],
        [value ^ values[-1] ^ 47 for value in reversed(values)],
    ):
        found = bytes(way).split(b"\0")[0].decode("latin-1")
        if len(found) >= 6 and _PATH_LIKE.fullmatch(found):
            return found
    return None


def _letter(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8), (5, 16), (6, 16), (7, 10)):
        if match[group]:
            return chr(int(match[group], base) & 255)
    return match[0]


def _numbers(listed: str) -> Iterator[str]:
    """What a list of numbers spells, decimal or octal, forwards or backwards."""
    given = _NUMBER.findall(listed)
    ways = [[int(number, 16) if number[:2] in ("0x", "0X") else int(number) for number in given]]
    if all(set(number) <= set("01234567") for number in given):
        ways.append([int(number, 8) for number in given])
    for numbers in ways:
        data = bytes(number & 255 for number in numbers)
        if _readable(data):
            yield data.decode("latin-1")
            yield data[::-1].decode("latin-1")


# --- names whose letters stand nowhere ----------------------------------------------------------------------------

_MODULES = frozenset(
    [
        *(
            "subprocess",
            "socket",
            "urllib",
            "requests",
            "http",
            "ctypes",
            "os",
            "pty",
            "importlib",
            "unittest",
            "pytest",
            "xmlrpc",
            "ftplib",
            "smtplib",
        ),
        *(
            "child_process",
            "https",
            "net",
            "dns",
            "tls",
            "dgram",
            "vm",
            "runpy",
            "imp",
            "asyncio",
            "shutil",
            "pathlib",
            "posix",
            "marshal",
            "pickle",
        ),
    ]
)
_SKIPPED = frozenset(
    [
        *(
            "cat",
            "ls",
            "program",
            "main",
            "echo",
            "printf",
            "python3",
            "python",
            "head",
            "tail",
            "sort",
            "wc",
            "grep",
            "diff",
            "cmp",
        ),
        *(
            "cc",
            "gcc",
            "g++",
            "c++",
            "cpp",
            "make",
            "ar",
            "rm",
            "as",
            "ld",
            "f77",
            "sh",
            "true",
            "false",
            "export",
            "cd",
            "test",
            "[",
        ),
    ]
)
"""Programs that tools name by themselves (`$(CC)`), that readers make up, or that hide nothing."""
WORKED_OUT = re.compile(
    r"(?:https?|ftp|git|ssh)://(?=\w)|\b(?:subprocess|child_process|socket|urllib|unittest|TestCase|pytest|ctypes|importlib|xmlrpc|http\.client"
    r"|reference|busybox|toybox|coreutils|openssl|nsenter|sitecustomize|usercustomize|conftest|LD_PRELOAD|BASH_ENV|PYTHONPATH|memfd_create"
    r"|execvp|posix_spawn|popen|os\.system|__import__|assertEqual|reallyExit)\b"
)
"""Words that nobody adds up from pieces."""
_TOP = re.compile(
    r"/(eval|test|proc|usr|etc|dev|root|home|run|var|srv|opt|mnt|case|logs|sys|boot|bin|sbin)(?:/([A-Za-z0-9_.-]+))?"
)


def assembled(facts: Iterable[Found], text: str) -> Iterator[tuple[str, Found]]:
    """Programs, modules and places of the system that `facts` name, and whose letters do not stand in `text`."""
    for fact in facts:
        value = fact.value
        if fact.kind == "command":
            if (
                fact.by in ("", "xargs", "find", "env", "exec")
                and value.isascii()
                and len(value) > 1
                and value not in _SKIPPED
            ):
                name = fact.given.rsplit("/", 1)[-1] or value
                if (
                    UNKNOWN not in value
                    and re.fullmatch(r"[a-z][\w.+-]*", name)
                    and name not in text
                    and value not in text
                ):
                    yield value, fact
        elif fact.kind in ("string", "call"):
            for said in (value,) if fact.kind == "string" else fact.args[:4]:
                if len(said) < 4096 and (hit := WORKED_OUT.search(said)) is not None and hit[0] not in text:
                    yield said[max(hit.start() - 40, 0) : hit.end() + 40], fact
                    break
        elif fact.kind == "import":
            head = value.split(".", 1)[0].split("/", 1)[0]
            if head in _MODULES and head not in text:
                yield value, fact
        elif (
            fact.kind == "path"
            and fact.access in ("read", "run", "list", "write")
            and (found := _TOP.match(value)) is not None
            and not fact.by.startswith(("which", "command", "type"))
            and not value.startswith(("/dev/", "/usr/bin/", "/bin/"))
            and found[1] not in text
            and value != "/run/bin/reference"
        ):
            yield value, fact
