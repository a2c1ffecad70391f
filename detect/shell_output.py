"""What simple text programs print when their input is known: how a disguise is undone without running anything.

`echo`, `printf`, `cat`, `rev`, `tr`, `base64 -d`, `xxd -r -p`, `sed s///`
and the like, for literal arguments and input. The answer is None whenever it is not certain.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import itertools
import lzma
import posixpath
import re
import zlib
from collections.abc import Callable

from detect.paths import ORACLE, UNKNOWN
from detect.shell_expand import unescape

MAX_OUTPUT = 64 * 1024


def output(
    name: str,
    args: tuple[str, ...],
    stdin: str | None,
    *,
    cwd: str | None,
    content: Callable[[str], str | None],
    resolve: Callable[[str], str | None],
) -> str | None:
    text = _output(name, args, stdin, cwd, content, resolve)
    return None if text is None else text[:MAX_OUTPUT]


def _output(name, args, stdin, cwd, content, resolve) -> str | None:
    plain = [a for a in args if not a.startswith("-") or a == "-"]
    if name == "echo":
        return _echo(args)
    if name == "printf":
        return _printf(args)
    if name == "pwd":
        return None if cwd is None else cwd + "\n"
    if name in ("which", "command", "type"):
        if not plain or "/" in plain[0]:
            return None
        return f"{ORACLE}\n" if plain[0] == "reference" else f"/usr/bin/{plain[0]}\n"
    if name in ("gcc", "cc", "g++", "clang") and len(args) == 1 and args[0].startswith("-print-file-name="):
        return f"/usr/lib/gcc/{args[0].partition('=')[2]}\n"
    if name in ("gcc", "cc", "g++", "clang") and args and args[0] in ("-print-libgcc-file-name", "-print-search-dirs"):
        return "/usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a\n"
    if name in ("basename", "dirname") and plain:
        function = posixpath.basename if name == "basename" else posixpath.dirname
        return function(plain[0]) + "\n"
    if name in ("realpath", "readlink") and plain:
        where = resolve(plain[0])
        return None if where is None else where + "\n"
    if name in ("true", ":", "mkdir", "rm", "touch", "chmod", "set", "unset", "shopt"):
        return ""
    if name == "compgen" and "-c" in args:
        return "reference\n"
    if name == "seq" and plain and all(re.fullmatch(r"\d{1,4}", a) for a in plain):
        edges = [int(a) for a in plain]
        first, step, last = (
            (1, 1, edges[0]) if len(edges) == 1 else (edges[0], 1, edges[1]) if len(edges) == 2 else tuple(edges[:3])
        )
        return "".join(f"{number}\n" for number in range(first, last + 1, step or 1))
    if name == "paste" and len(named := [a for a in plain if a and a != "-"]) > 1 and "-s" not in "".join(args):
        contents = [content(a) for a in named if content(a) is not None]
        if len(contents) == len(named) - (named[0] not in ("", "-") and content(named[0]) is None) and contents:
            by = (
                args[args.index("-d") + 1]
                if "-d" in args[:-1]
                else re.sub("^-d", "", next((a for a in args if a.startswith("-d")), "-d\t"))
            )
            rows = itertools.zip_longest(*((c or "").splitlines() for c in contents), fillvalue="")
            return "".join(("" if by == "\\0" else by[:1]).join(row) + "\n" for row in rows)
    if name == "dc" and "-e" in args[:-1]:
        parts = re.findall(r"\[([^][]*)\][nP]", args[args.index("-e") + 1])
        return "".join(parts) if parts else None
    if name in ("awk", "gawk", "mawk") and plain and plain[0].lstrip().startswith("BEGIN"):
        return _awk_begin(plain[0])
    text = _input(name, args, plain, stdin, content)
    if text is None or (UNKNOWN in text and name not in ("cat", "head", "tail", "tee")):
        return None
    return _filter(name, args, text)


def _input(name, args, plain, stdin, content) -> str | None:
    takes_program = {"tr": 2, "sed": 1, "grep": 1, "awk": 1, "gawk": 1, "cut": 0}.get(name, 0)
    if name in ("cut", "head", "tail", "fold", "paste") and stdin is not None:
        return stdin
    named = [] if name in ("xxd", "tr") else [a for a in plain[takes_program:] if a != "-"]
    if not named:
        return stdin
    contents = [content(a) for a in named]
    return None if any(c is None for c in contents) else "".join(c for c in contents if c is not None)


def _filter(name: str, args: tuple[str, ...], text: str) -> str | None:
    try:
        if name == "cat" or (name in ("head", "tail", "sort", "uniq") and not args):
            return text
        if name in ("head", "tail"):
            return _ends(name, args, text)
        if name == "cut":
            return _cut(args, text)
        if name in ("grep", "egrep", "fgrep"):
            return _grep(args, text)
        if name in ("awk", "gawk", "mawk"):
            return _awk(args, text)
        if name == "sort" and set(args) <= {"-r", "-u", "-n", "-rn", "-nr", "-k1", "-k1n", "-V"}:
            lines = sorted(text.splitlines(), key=_numeric if any("n" in a for a in args) else None)
            return "".join(f"{line}\n" for line in (reversed(lines) if any("r" in a for a in args) else lines))
        if name == "paste" and "-s" in "".join(args):
            by = (
                re.sub(r"^-?s?d", "", args[-1])
                if args[-1].startswith(("-d", "-sd"))
                else args[-1]
                if len(args) > 1
                else "\t"
            )
            return ("" if by in ("\\0", "-s") else by).join(text.splitlines()) + "\n"
        if name in ("gunzip", "zcat") or (name == "gzip" and any("d" in a for a in args)):
            return zlib.decompressobj(31).decompress(text.encode("latin-1"), MAX_OUTPUT).decode("latin-1")
        if name in ("bunzip2", "bzcat") or (name == "bzip2" and any("d" in a for a in args)):
            return bz2.BZ2Decompressor().decompress(text.encode("latin-1"), MAX_OUTPUT).decode("latin-1")
        if name in ("unxz", "xzcat") or (name == "xz" and any("d" in a for a in args)):
            return (
                lzma.LZMADecompressor(memlimit=1 << 26).decompress(text.encode("latin-1"), MAX_OUTPUT).decode("latin-1")
            )
        if name == "rev":
            return "\n".join(line[::-1] for line in text.split("\n"))
        if name == "tac":
            return "".join(reversed(text.splitlines(keepends=True)))
        if name in ("base64", "openssl") and {"-d", "--decode", "-D", "-di"} & set(args):
            return base64.b64decode(re.sub(r"\s", "", text)).decode("latin-1")
        if name == "base32" and {"-d", "--decode"} & set(args):
            return base64.b32decode(re.sub(r"\s", "", text)).decode("latin-1")
        if name == "xxd" and any("r" in a for a in args if a.startswith("-")):
            return bytes.fromhex(re.sub(r"\s", "", text)).decode("latin-1")
        if name == "tr":
            return _tr(args, text)
        if name == "sed" and len([a for a in args if not a.startswith("-")]) == 1:
            return _sed(next(a for a in args if not a.startswith("-")), text)
    except (binascii.Error, ValueError, zlib.error, OSError, EOFError, lzma.LZMAError, re.error):
        return None
    return None


def _echo(args: tuple[str, ...]) -> str:
    newline, escapes, index = "\n", False, 0
    while index < len(args) and re.fullmatch(r"-[neE]+", args[index]):
        newline = "" if "n" in args[index] else newline
        escapes = "e" in args[index] or escapes
        index += 1
    text = " ".join(args[index:])
    return (unescape(text) if escapes else text) + newline


def _printf(args: tuple[str, ...]) -> str | None:
    if args and args[0] == "--":
        args = args[1:]
    if not args or args[0] == "-v":
        return None
    form = unescape(args[0].replace("%%", "\x02"))
    values = list(args[1:])
    slots = len(re.findall(r"%[-0-9.]*[a-zA-Z]", form))
    pieces = []
    while True:
        pieces.append(re.sub(r"%[-0-9.]*([a-zA-Z])", lambda m: _padded(m.group(), _slot(m.group(1), values)), form))
        if not values or not slots or len(pieces) > 256:
            break
    return "".join(pieces).replace("\x02", "%")


def _padded(form: str, text: str) -> str:
    """`%03o` and `%5s`: what a width adds."""
    width = re.match(r"%(-?)(0?)(\d{1,3})", form)
    if width is None:
        return text
    return text.ljust(int(width[3])) if width[1] else text.rjust(int(width[3]), "0" if width[2] else " ")


def _slot(kind: str, values: list[str]) -> str:
    value = values.pop(0) if values else ""
    if kind == "b":
        return unescape(value)
    if kind == "c":
        return value[:1]
    if kind in "dixXou" and (number := re.fullmatch(r"\s*(-?(?:0[xX][0-9a-fA-F]{1,12}|\d{1,15}))|['\"](.)", value)):
        whole = (
            ord(number[2])
            if number[2]
            else int(number[1], 8)
            if re.fullmatch(r"0[0-7]+", number[1])
            else int(number[1], 0)
        )
        return format(whole, kind if kind in "xXo" else "d")
    return value


def _tr(args: tuple[str, ...], text: str) -> str | None:
    options = [a for a in args if a.startswith("-") and len(a) > 1]
    sets = [_tr_set(a) for a in args if a not in options]
    if options in (["-d"], ["--delete"]) and len(sets) == 1:
        return "".join(c for c in text if c not in sets[0])
    if options or len(sets) != 2 or not sets[1]:
        return None
    source, target = sets
    target = target + target[-1] * (len(source) - len(target))
    return text.translate({ord(a): b for a, b in zip(source, target, strict=False)})


def _tr_set(text: str) -> str:
    text = unescape(text)
    for name, value in (("[:upper:]", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), ("[:lower:]", "abcdefghijklmnopqrstuvwxyz")):
        text = text.replace(name, value)
    ranges = re.compile(r"(.)-(.)", re.S)
    return ranges.sub(lambda m: "".join(map(chr, range(ord(m.group(1)), ord(m.group(2)) + 1))), text)


def _sed(program: str, text: str) -> str | None:
    """A few `s` and `y` commands; anything that needs a real sed is not known."""
    for command in program.split(";") if program.count("/") % 3 == 0 and ";" in program else [program]:
        command = command.strip()
        if len(command) < 4 or command[0] not in "sy":
            return None
        parts = re.split(r"(?<!\\)" + re.escape(command[1]), command[2:])
        if len(parts) != 3 or parts[2] not in ("", "g", "I", "gI"):
            return None
        old, new, flags = parts
        if command[0] == "y":
            if len(old) != len(new):
                return None
            text = text.translate(str.maketrans(old, new))
            continue
        if len(old) > 80 or re.search(r"[*+}]\)?[*+{]", old):
            return None
        pattern = re.compile(_basic(old), re.I if "I" in flags else 0)
        template = re.sub(r"(?<!\\)&", r"\\g<0>", new)
        if re.search(r"\\[UuLlEn]", template):
            return None
        lines = text[:4096].split("\n")
        text = "\n".join(pattern.sub(template, line, 0 if "g" in flags else 1) for line in lines)
    return text


def _basic(pattern: str) -> str:
    """A basic regular expression as Python has it: `(`, `{`, `|`, `+`, `?` are letters there without a backslash."""
    swapped = {"(": r"\(", ")": r"\)", "{": r"\{", "}": r"\}", "|": r"\|", "+": r"\+", "?": r"\?"}
    return (
        re.sub(r"\\([(){}|+?])|([(){}|+?])|\\.|\[[^\]]*\]", lambda m: m[1] or swapped.get(m[2] or "", m[0]), pattern)
        .replace("[[:upper:]]", "[A-Z]")
        .replace("[[:lower:]]", "[a-z]")
        .replace("[[:digit:]]", "[0-9]")
        .replace("[[:space:]]", r"\s")
    )


def _numeric(line: str) -> tuple[int, str]:
    number = re.match(r"\s*(-?\d{1,9})", line)
    return (int(number[1]) if number else 0, line)


def _ends(name: str, args: tuple[str, ...], text: str) -> str | None:
    match = re.fullmatch(
        r"-?(?:(c) ?)?(?:n ?)?(\+?)(\d{1,6})", " ".join(args).replace("--lines=", "-n").replace("--bytes=", "-c")
    )
    if match is None:
        return text if not args else None
    number = int(match[3])
    items = list(text) if match[1] else text.splitlines(keepends=True)
    if name == "head":
        return "".join(items[:number])
    return "".join(items[number - 1 :] if match[2] else items[-number:] if number else [])


def _ranges(given: str) -> list[tuple[int, int]] | None:
    found = []
    for part in given.split(","):
        match = re.fullmatch(r"(\d*)(-?)(\d*)", part)
        if match is None or part in ("", "-"):
            return None
        first = int(match[1] or 1)
        found.append((first, int(match[3]) if match[3] else 1 << 16 if match[2] else first))
    return found


def _cut(args: tuple[str, ...], text: str) -> str | None:
    joined = "\0".join(args)
    chosen = re.search(r"(?:^|\0)-([cbf])\0?([\d,-]+)", joined)
    by = re.search(r"(?:^|\0)(?:-d\0?|--delimiter=)([^\0])", joined)
    ranges = _ranges(chosen[2]) if chosen else None
    if chosen is None or ranges is None:
        return None
    separator = "" if chosen[1] in "cb" else by[1] if by else "\t"
    lines = []
    for line in text.splitlines():
        items = line.split(separator) if separator else list(line)
        if separator and len(items) == 1:
            lines.append(line)
            continue
        lines.append(separator.join(item for n, item in enumerate(items, 1) if any(a <= n <= b for a, b in ranges)))
    return "\n".join(lines) + "\n"


def _grep(args: tuple[str, ...], text: str) -> str | None:
    options = "".join(a[1:] for a in args if a.startswith("-") and len(a) > 1)
    patterns = [a for a in args if not a.startswith("-")]
    if (
        len(patterns) != 1
        or set(options) - set("EFiov")
        or len(patterns[0]) > 80
        or re.search(r"[*+}]\)?[*+{]", patterns[0])
    ):
        return None
    given = re.escape(patterns[0]) if "F" in options else patterns[0] if "E" in options else _basic(patterns[0])
    pattern = re.compile(given, re.I if "i" in options else 0)
    lines = text[:4096].splitlines()
    if "o" in options:
        return "".join(f"{match[0]}\n" for line in lines for match in pattern.finditer(line))
    return "".join(f"{line}\n" for line in lines if (pattern.search(line) is None) == ("v" in options))


def _awk_begin(program: str) -> str | None:
    """`BEGIN { print "a" "b" }` and `printf` with literals; variables and arithmetic are not known."""
    match = re.fullmatch(r"\s*BEGIN\s*\{\s*(print|printf)\s*\(?([^{}();]*)\)?\s*;?\s*\}\s*", program)
    if match is None or _AWK_REST.sub("", match[2]).strip(" ,\t"):
        return None
    groups = [part for part in re.split(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", match[2])]
    texts = [unescape("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', group))) for group in groups]
    return _printf(tuple(texts)) if match[1] == "printf" else " ".join(texts) + "\n"


_AWK_REST = re.compile(r'"(?:[^"\\]|\\.)*"')


def _awk(args: tuple[str, ...], text: str) -> str | None:
    """`{ print $2 "x" $1 }` over known lines, with `-F`."""
    joined = "\0".join(args)
    by = re.search(r"(?:^|\0)-F\0?([^\0]+)", joined)
    program = next((a for a in args if "{" in a), "")
    match = re.fullmatch(r"\s*\{\s*(print|printf)\s*\(?([^{}();]*)\)?\s*;?\s*\}\s*", program)
    if match is None:
        return None
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|\$(\d|NF)|(,)|([^\s])', match[2])
    if any(rest for *_, rest in parts):
        return None
    lines = []
    for line in text.splitlines():
        fields = line.split(by[1] if by else None)
        values = [""]
        for literal, field, comma, _ in parts:
            if comma:
                values.append("")
                continue
            number = len(fields) if field == "NF" else int(field or 0)
            values[-1] += (
                unescape(literal)
                if not field
                else line
                if not number
                else fields[number - 1]
                if number <= len(fields)
                else ""
            )
        lines.append((_printf(tuple(values)) or "") if match[1] == "printf" else " ".join(values) + "\n")
    return "".join(lines)
