"""What simple text programs print when their input is known: how a disguise is undone without running anything.

`echo`, `printf`, `cat`, `rev`, `tr`, `base64 -d`, `xxd -r -p`, `sed s///`
and the like, for literal arguments and input. The answer is None whenever it is not certain.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
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
    if name in ("basename", "dirname") and plain:
        function = posixpath.basename if name == "basename" else posixpath.dirname
        return function(plain[0]) + "\n"
    if name in ("realpath", "readlink") and plain:
        where = resolve(plain[0])
        return None if where is None else where + "\n"
    if name in ("true", ":", "mkdir", "rm", "touch", "chmod", "set", "unset", "shopt"):
        return ""
    text = _input(name, args, plain, stdin, content)
    if text is None or (UNKNOWN in text and name not in ("cat", "head", "tail", "tee")):
        return None
    return _filter(name, args, text)


def _input(name, args, plain, stdin, content) -> str | None:
    takes_program = {"tr": 2, "sed": 1}.get(name, 0)
    named = [] if name in ("xxd", "tr") else [a for a in plain[takes_program:] if a != "-"]
    if not named:
        return stdin
    contents = [content(a) for a in named]
    return None if any(c is None for c in contents) else "".join(c for c in contents if c is not None)


def _filter(name: str, args: tuple[str, ...], text: str) -> str | None:
    try:
        if name == "cat" or (name in ("head", "tail", "sort", "uniq") and not args):
            return text
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
    except (binascii.Error, ValueError):
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
    form = unescape(args[0].replace("%%", "\0"))
    values = list(args[1:])
    slots = len(re.findall(r"%[-0-9.]*[a-zA-Z]", form))
    pieces = []
    while True:
        pieces.append(re.sub(r"%[-0-9.]*([a-zA-Z])", lambda m: _slot(m.group(1), values), form))
        if not values or not slots or len(pieces) > 256:
            break
    return "".join(pieces).replace("\0", "%")


def _slot(kind: str, values: list[str]) -> str:
    value = values.pop(0) if values else ""
    if kind == "b":
        return unescape(value)
    if kind == "c":
        return value[:1]
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
    """A few `s/literal/literal/` commands; anything that needs a real sed is not known."""
    for command in program.split(";"):
        if len(command) < 4 or command[0] != "s":
            return None
        parts = command[1:].split(command[1])
        if len(parts) != 4 or parts[3] not in ("", "g") or re.search(r"[\\.*[\]^$&]", parts[1] + parts[2]):
            return None
        text = "\n".join(line.replace(parts[1], parts[2], -1 if parts[3] else 1) for line in text.split("\n"))
    return text
