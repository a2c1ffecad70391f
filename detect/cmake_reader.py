"""Reads CMake into facts: commands as calls, the programs that they start, files that they read or fetch.

Variables set to literals are followed. What `COMMAND` is given is read as the shell command it amounts to.
"""

from __future__ import annotations

import re

from detect.facts import Access, Fact, Sink
from detect.paths import UNKNOWN, resolve

_COMMAND = re.compile(r"([A-Za-z_]\w*)\s*\(((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\([^()]*\))*)\)")
_COMMENT = re.compile(r"(\"(?:[^\"\\]|\\.)*\")|#[^\n]*")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"()]+)')
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_KEYWORDS = re.compile(r"[A-Z][A-Z_]{4,}")
_STARTING = frozenset(["execute_process", "add_custom_command", "add_custom_target", "add_test", "exec_program"])
_READING: dict[str, Access] = {
    "READ": "read",
    "STRINGS": "read",
    "COPY": "read",
    "GLOB": "list",
    "GLOB_RECURSE": "list",
}
_MENTIONING = frozenset(["message", "project", "set_property", "option", "if", "elseif", "cmake_minimum_required"])
MAX_COMMANDS = 2000


def read(sink: Sink, data: bytes, *, written: str | None, span: tuple[int, int], depth: int, cwd: str | None) -> None:
    text = _COMMENT.sub(lambda m: m.group(1) or "", data.decode("latin-1"))
    sink.spend(len(text) // 4)
    folder = cwd or "/work"
    variables = dict.fromkeys(["CMAKE_SOURCE_DIR", "CMAKE_CURRENT_SOURCE_DIR", "PROJECT_SOURCE_DIR"], folder)
    variables |= dict.fromkeys(["CMAKE_BINARY_DIR", "CMAKE_CURRENT_BINARY_DIR"], folder)

    def fact(kind, value: str, args: tuple[str, ...] = (), access: Access = "", by: str = "") -> None:
        sink.add(Fact(kind, value, "cmake", args=args, access=access, written=written, span=span, given=value, by=by))

    for number, match in enumerate(_COMMAND.finditer(text)):
        if number >= MAX_COMMANDS:
            fact("opaque", "too_complex")
            return
        name = match.group(1).lower()
        sink.spend(20 + len(match.group(2)) // 2)
        args = tuple(
            _VARIABLE.sub(lambda m: variables.get(m.group(1), UNKNOWN), quoted or plain)[:4096]
            for quoted, plain in _ARGUMENT.findall(match.group(2))[:256]
        )
        fact("call", name, args)
        if name == "set" and args:
            variables[args[0]] = ";".join(a for a in args[1:] if a not in ("CACHE", "PARENT_SCOPE"))[:4096]
        elif name == "string" and args[:1] == ("APPEND",) and len(args) > 1:
            variables[args[1]] = (variables.get(args[1], "") + "".join(args[2:]))[:4096]
        elif name == "string" and args[:1] in (("CONCAT",), ("JOIN",)) and len(args) > 2:
            variables[args[1 + (args[0] == "JOIN")]] = (
                "".join(args[2:]) if args[0] == "CONCAT" else args[1].join(args[3:])
            )[:4096]
        if name in _STARTING:
            for command in _commands(args):
                quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
                sink.read(
                    quoted.encode("latin-1", "replace"), "shell", written=written, span=span, depth=depth + 1, cwd=cwd
                )
        if name in _MENTIONING:
            continue
        access = _READING.get(args[0], "write") if name == "file" and args else "read"
        for arg in args:
            if "/" in arg and " " not in arg and (where := resolve(arg, cwd, sink.links)) is not None:
                fact("path", where, access=access if arg.startswith(("/", "..")) else "mention", by=name)


def _commands(args: tuple[str, ...]) -> list[list[str]]:
    """The word lists after each COMMAND (and DEPENDS and the like end them)."""
    found: list[list[str]] = []
    reading = False
    for arg in args:
        if arg == "COMMAND":
            found.append([])
            reading = True
        elif reading and _KEYWORDS.fullmatch(arg):
            reading = False
        elif reading:
            found[-1] += arg.split(";")
    return [words for words in found if words]
