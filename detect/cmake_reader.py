"""Reads CMake into facts: commands as calls, the programs that they start, files that they read or fetch.

Variables set to literals are followed. What `COMMAND` is given is read as the shell command it amounts to.
"""

from __future__ import annotations

import re

from detect.facts import WORKSPACE, Access, Language, Origin, Sink
from detect.paths import ORACLE, UNKNOWN
from detect.reader import Reader

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


def read(sink: Sink, data: bytes, origin: Origin) -> None:
    CMakeReader(sink, origin).run(_COMMENT.sub(lambda m: m.group(1) or "", data.decode("latin-1")))


class CMakeReader(Reader[None]):
    language: Language = "cmake"

    def located(self, where: None) -> tuple[tuple[int, int], int]:
        return self.origin.span, 1

    def run(self, text: str) -> None:
        self.sink.spend(len(text) // 4)
        folder = self.origin.cwd or WORKSPACE
        variables = dict.fromkeys(["CMAKE_SOURCE_DIR", "CMAKE_CURRENT_SOURCE_DIR", "PROJECT_SOURCE_DIR"], folder)
        variables |= dict.fromkeys(["CMAKE_BINARY_DIR", "CMAKE_CURRENT_BINARY_DIR"], folder)
        for number, match in enumerate(_COMMAND.finditer(text)):
            if number >= MAX_COMMANDS:
                self.fact("opaque", "too_complex", None)
                return
            self.sink.spend(20 + len(match.group(2)) // 2)
            args = tuple(
                _VARIABLE.sub(lambda m: variables.get(m.group(1), UNKNOWN), quoted or plain)[:4096]
                for quoted, plain in _ARGUMENT.findall(match.group(2))[:256]
            )
            self._command(match.group(1).lower(), args, variables)

    def _command(self, name: str, args: tuple[str, ...], variables: dict[str, str]) -> None:
        self.fact("call", name, None, args=args, given=name)
        if name == "set" and args:
            variables[args[0]] = ";".join(a for a in args[1:] if a not in ("CACHE", "PARENT_SCOPE"))[:4096]
        elif name == "string" and args[:1] == ("APPEND",) and len(args) > 1:
            variables[args[1]] = (variables.get(args[1], "") + "".join(args[2:]))[:4096]
        elif name in ("string", "list") and (made := _made(name, args, variables)) is not None:
            variables[made[0]] = made[1][:4096]
        elif name == "string" and args[:1] in (("CONCAT",), ("JOIN",)) and len(args) > 2:
            variables[args[1 + (args[0] == "JOIN")]] = (
                "".join(args[2:]) if args[0] == "CONCAT" else args[1].join(args[3:])
            )[:4096]
        if name in _STARTING:
            for command in _commands(args):
                self.program(command, None)
                if (
                    "OUTPUT_VARIABLE" in args[:-1]
                    and "reference" in command
                    and command[0] in ("which", "command", "type")
                ):
                    variables[args[args.index("OUTPUT_VARIABLE") + 1]] = ORACLE
        if name in _MENTIONING:
            return
        access = _READING.get(args[0], "write") if name == "file" and args else "read"
        for arg in args:
            if "/" in arg and " " not in arg:
                self.path(arg, access if arg.startswith(("/", "..")) else "mention", name, None)


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


def _made(command: str, args: tuple[str, ...], variables: dict[str, str]) -> tuple[str, str] | None:
    """The variable that `string(...)` or `list(...)` sets, and its value; None for what is not computed here."""
    kind, rest = args[0] if args else "", args[1:]
    try:
        if command == "list":
            items = variables.get(rest[0], UNKNOWN).split(";")
            if kind == "REVERSE":
                return rest[0], ";".join(reversed(items))
            if kind == "APPEND":
                return rest[0], ";".join([*(item for item in items if item != UNKNOWN), *rest[1:]])
            if kind == "JOIN":
                return rest[2], rest[1].join(items)
            if kind == "GET":
                return rest[-1], ";".join(items[int(number)] for number in rest[1:-1])
            return None
        if kind == "REPLACE":
            return rest[2], "".join(rest[3:]).replace(rest[0], rest[1])
        if kind == "REGEX" and rest[0] == "REPLACE" and not re.search(r"[*+?]\)?[*+?]", rest[1]):
            return rest[3], re.sub(rest[1][:80], rest[2].replace("\\\\", "\\"), "".join(rest[4:])[:1024])
        if kind in ("TOLOWER", "TOUPPER"):
            return rest[1], rest[0].lower() if kind == "TOLOWER" else rest[0].upper()
        if kind == "SUBSTRING":
            start, size = int(rest[1]), int(rest[2])
            return rest[3], rest[0][start:] if size < 0 else rest[0][start : start + size]
        if kind == "ASCII":
            return rest[-1], "".join(chr(int(number) & 255) for number in rest[:-1])
        if kind == "REVERSE":
            return rest[1], rest[0][::-1]
        if kind == "REPEAT":
            return rest[2], rest[0] * min(int(rest[1]), 64)
        if kind == "STRIP":
            return rest[1], rest[0].strip()
        if kind == "PREPEND":
            return rest[0], "".join(rest[1:]) + variables.get(rest[0], "")
    except (IndexError, ValueError, re.error):
        return None
    return None
