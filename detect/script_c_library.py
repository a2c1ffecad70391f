"""Functions of the C library that a program calls that is run by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from detect.script_c_values import (
    CHAR,
    DOUBLE,
    INT,
    LONG,
    MAX_BYTES,
    SIZE,
    VOID,
    Pointer,
    Raw,
    Stream,
    Type,
    formatted,
    put,
    text_at,
)
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_c_run import Machine

_TEXT = Type("pointer", of=CHAR)
_FILE = Type("pointer", of=Type("file"))
_ERRORS = {
    0: "Success", 2: "No such file or directory", 13: "Permission denied", 21: "Is a directory",
    30: "Read-only file system",
}  # fmt: skip
_CLASSES: dict[str, Callable[[str], bool]] = {
    "isdigit": lambda c: "0" <= c <= "9", "isalpha": lambda c: c.isascii() and c.isalpha(),
    "isalnum": lambda c: c.isascii() and c.isalnum(), "isspace": lambda c: c in " \t\n\v\f\r",
    "isupper": lambda c: "A" <= c <= "Z", "islower": lambda c: "a" <= c <= "z",
    "ispunct": lambda c: "!" <= c <= "~" and not c.isalnum(), "isprint": lambda c: " " <= c <= "~",
}  # fmt: skip
_MATHS = ("sqrt", "floor", "ceil", "fabs", "sin", "cos", "log", "exp")


class Leaves(Exception):
    """`exit`"""

    def __init__(self, status: int) -> None:
        self.status = status


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise Unsure
    return value


def _stream(value: object) -> Stream:
    if not isinstance(value, Stream):
        raise Unsure
    return value


def _at(given: object, offset: int) -> Pointer:
    if not isinstance(given, Pointer) or not isinstance(given.at, int):
        raise Unsure
    return Pointer(given.cells, given.at + offset, given.of)


def _found(given: object, at: int) -> object:
    return 0 if at < 0 else _at(given, at)


def call(machine: Machine, name: str, given: list) -> tuple[object, Type]:
    """Raises Unsure, Leaves."""
    if name in _CLASSES:
        code = _number(given[0])
        return int(0 <= code < 256 and _CLASSES[name](chr(code))), INT
    if name in _MATHS:
        if not isinstance(given[0], int | float):
            raise Unsure
        try:
            return float(getattr(math, name)(given[0])), DOUBLE
        except ValueError:
            raise Unsure from None
    function = _FUNCTIONS.get(name)
    if function is None:
        raise Unsure
    try:
        return function(machine, given)
    except (IndexError, UnicodeError):
        raise Unsure from None


def _printf(machine: Machine, given: list) -> tuple[object, Type]:
    text = formatted(text_at(given[0]), given[1:])
    machine.write(text)
    return len(text), INT


def _fprintf(machine: Machine, given: list) -> tuple[object, Type]:
    text = formatted(text_at(given[1]), given[2:])
    machine.write(text, _stream(given[0]))
    return len(text), INT


def _sprintf(machine: Machine, given: list) -> tuple[object, Type]:
    text = formatted(text_at(given[1]), given[2:])
    put(given[0], text)
    return len(text), INT


def _snprintf(machine: Machine, given: list) -> tuple[object, Type]:
    text = formatted(text_at(given[2]), given[3:])
    put(given[0], text[: max(_number(given[1]) - 1, 0)])
    return len(text), INT


def _puts(machine: Machine, given: list) -> tuple[object, Type]:
    machine.write(text_at(given[0]) + "\n")
    return 1, INT


def _fputs(machine: Machine, given: list) -> tuple[object, Type]:
    machine.write(text_at(given[0]), _stream(given[1]))
    return 1, INT


def _putchar(machine: Machine, given: list) -> tuple[object, Type]:
    machine.write(chr(_number(given[0]) & 255), _stream(given[1]) if len(given) > 1 else None)
    return given[0], INT


def _getchar(machine: Machine, given: list) -> tuple[object, Type]:
    stream = _stream(given[0]) if given else machine.stdin
    char, stream.rest = stream.rest[:1], stream.rest[1:]
    return (ord(char) if char else -1), INT


def _fgets(machine: Machine, given: list) -> tuple[object, Type]:
    target, size, stream = given[0], _number(given[1]), _stream(given[2])
    if not stream.rest or size < 2:
        return 0, _TEXT
    end = stream.rest.find("\n") + 1 or len(stream.rest)
    line = stream.rest[: min(end, size - 1)]
    stream.rest = stream.rest[len(line) :]
    put(target, line)
    return target, _TEXT


def _fopen(machine: Machine, given: list) -> tuple[object, Type]:
    opened = machine.opened(text_at(given[0]), text_at(given[1]))
    return (0 if opened is None else opened), _FILE


def _fread(machine: Machine, given: list) -> tuple[object, Type]:
    target, size, count, stream = given
    wanted = _number(size) * _number(count)
    text = _stream(stream).rest[:wanted]
    stream.rest = stream.rest[wanted:]
    if isinstance(target, Pointer) and isinstance(target.cells, list) and isinstance(target.at, int):
        if target.at + len(text) > len(target.cells):
            raise Unsure
        target.cells[target.at : target.at + len(text)] = list(text.encode("latin-1"))
    return len(text) // max(_number(size), 1), SIZE


def _fwrite(machine: Machine, given: list) -> tuple[object, Type]:
    source, size, count, stream = given
    wanted = _number(size) * _number(count)
    if not isinstance(source, Pointer) or not isinstance(source.cells, list) or not isinstance(source.at, int):
        raise Unsure
    machine.write("".join(chr(c & 255) for c in source.cells[source.at : source.at + wanted]), _stream(stream))
    return given[2], SIZE


def _perror(machine: Machine, given: list) -> tuple[object, Type]:
    machine.write(f"{text_at(given[0])}: {_ERRORS[machine.errno]}\n", machine.stderr)
    return 0, VOID


def _compared(left: str, right: str) -> tuple[object, Type]:
    return (left > right) - (left < right), INT  # only the sign is told


def _copied(machine: Machine, given: list) -> tuple[object, Type]:
    put(given[0], text_at(given[1]))
    return given[0], _TEXT


def _appended(machine: Machine, given: list) -> tuple[object, Type]:
    put(given[0], text_at(given[0]) + text_at(given[1]))
    return given[0], _TEXT


def _memset(machine: Machine, given: list) -> tuple[object, Type]:
    target, value, count = given
    if not isinstance(target, Pointer) or not isinstance(target.cells, list) or not isinstance(target.at, int):
        raise Unsure
    size = max(target.of.bits // 8, 1)
    if value not in (0,) and size > 1:
        raise Unsure
    cells = _number(count) // size
    if target.at + cells > len(target.cells):
        raise Unsure
    target.cells[target.at : target.at + cells] = [value] * cells
    return target, _TEXT


def _atoi(machine: Machine, given: list) -> tuple[object, Type]:
    text = text_at(given[0]).lstrip()
    digits = text[:1] if text[:1] in "+-" else ""
    for char in text[len(digits) :]:
        if not "0" <= char <= "9":
            break
        digits += char
    return (int(digits) if digits.strip("+-") else 0), INT


def _memory(machine: Machine, size: int, *, zero: bool) -> tuple[object, Type]:
    machine.cells += max(size, 1)
    if not 0 <= size <= MAX_BYTES or machine.cells > 4 * MAX_BYTES:
        raise Unsure
    return Raw(size, zero), Type("pointer", of=VOID)


def _system(machine: Machine, given: list) -> tuple[object, Type]:
    return machine.system(text_at(given[0])) << 8, INT


def _popen(machine: Machine, given: list) -> tuple[object, Type]:
    if text_at(given[1]) != "r":
        raise Unsure
    return machine.piped(text_at(given[0])), _FILE


def _fclose(machine: Machine, given: list) -> tuple[object, Type]:
    return _stream(given[0]).status << 8, INT


def _exit(machine: Machine, given: list) -> tuple[object, Type]:
    raise Leaves(_number(given[0]))


def _flushed(machine: Machine, given: list) -> tuple[object, Type]:
    machine.flush()
    return 0, INT


_FUNCTIONS: dict[str, Callable[[Machine, list], tuple[object, Type]]] = {
    "printf": _printf, "fprintf": _fprintf, "sprintf": _sprintf, "snprintf": _snprintf, "puts": _puts, "fputs": _fputs,
    "putchar": _putchar, "fputc": _putchar, "putc": _putchar, "getchar": _getchar, "getc": _getchar, "fgetc": _getchar,
    "fgets": _fgets, "fopen": _fopen, "fread": _fread, "fwrite": _fwrite, "perror": _perror, "fclose": _fclose,
    "pclose": _fclose, "popen": _popen, "system": _system, "exit": _exit, "fflush": _flushed, "atoi": _atoi,
    "memset": _memset, "strcpy": _copied, "strcat": _appended,
    "strlen": lambda m, g: (len(text_at(g[0])), SIZE),
    "strcmp": lambda m, g: _compared(text_at(g[0]), text_at(g[1])),
    "strncmp": lambda m, g: _compared(text_at(g[0])[: _number(g[2])], text_at(g[1])[: _number(g[2])]),
    "strchr": lambda m, g: (_found(g[0], (text_at(g[0]) + "\0").find(chr(_number(g[1])))), _TEXT),
    "strrchr": lambda m, g: (_found(g[0], (text_at(g[0]) + "\0").rfind(chr(_number(g[1])))), _TEXT),
    "strstr": lambda m, g: (_found(g[0], text_at(g[0]).find(text_at(g[1]))), _TEXT),
    "toupper": lambda m, g: (ord(chr(_number(g[0])).upper()) if 97 <= _number(g[0]) <= 122 else g[0], INT),
    "tolower": lambda m, g: (ord(chr(_number(g[0])).lower()) if 65 <= _number(g[0]) <= 90 else g[0], INT),
    "abs": lambda m, g: (abs(_number(g[0])), INT),
    "labs": lambda m, g: (abs(_number(g[0])), LONG),
    "malloc": lambda m, g: _memory(m, _number(g[0]), zero=False),
    "calloc": lambda m, g: _memory(m, _number(g[0]) * _number(g[1]), zero=True),
    "free": lambda m, g: (0, VOID),
    "pow": lambda m, g: (float(g[0]) ** float(g[1]), DOUBLE),
    "strerror": lambda m, g: (m.text(_ERRORS[_number(g[0])]), _TEXT),
}  # fmt: skip
