"""Values of a C program that is run by hand: kinds of numbers, pointers into lists of cells, texts, `printf`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from detect.script_world import File, Unsure

MAX_BYTES = 65536
"""Of one piece of memory."""


class Type(msgspec.Struct, frozen=True):
    """`int` with its bits, `double`, `void`, `pointer`, `array` and `struct`."""

    kind: str
    bits: int = 0
    signed: bool = True
    of: Type | None = None
    length: int = 0
    name: str = ""


INT, LONG, CHAR = Type("int", 32), Type("int", 64), Type("int", 8)
SIZE, UNSIGNED, DOUBLE, VOID = Type("int", 64, False), Type("int", 32, False), Type("double", 64), Type("void")
KINDS = {
    "int": INT, "char": CHAR, "long": LONG, "unsigned": UNSIGNED, "unsigned int": UNSIGNED, "size_t": SIZE,
    "short": Type("int", 16), "long long": LONG, "long int": LONG, "unsigned long": SIZE, "double": DOUBLE,
    "float": DOUBLE, "void": VOID, "bool": Type("int", 1, False), "_Bool": Type("int", 1, False), "ssize_t": LONG,
    "unsigned char": Type("int", 8, False), "long long int": LONG, "unsigned long long": SIZE, "FILE": Type("file"),
    "uint8_t": Type("int", 8, False), "int64_t": LONG, "uint32_t": UNSIGNED, "int32_t": INT, "uint64_t": SIZE,
}  # fmt: skip


class Pointer(msgspec.Struct, frozen=True):
    """To an element of an array, or to a field of a struct."""

    cells: list | dict
    at: int | str
    of: Type


class Raw(msgspec.Struct, frozen=True):
    """Memory that has no type yet."""

    size: int
    zero: bool


class Stream:
    """A file that is open: what is left to read, or where what is written goes."""

    def __init__(self, name: str, rest: str = "", file: File | None = None) -> None:
        self.name = name
        self.rest = rest
        self.file = file
        self.status = 0
        """What closing it returns, of a pipe."""


def size_of(kind: Type) -> int:
    if kind.kind in ("int", "double"):
        return max(kind.bits // 8, 1)
    if kind.kind == "pointer":
        return 8
    if kind.kind == "array" and kind.of is not None:
        return kind.length * size_of(kind.of)
    raise Unsure


def fitted(value: object, kind: Type) -> object:
    """A value as a variable of that kind holds it."""
    if kind.kind == "int":
        if isinstance(value, float):
            value = int(value)
        if not isinstance(value, int):
            raise Unsure
        if kind.bits == 1:
            return int(bool(value))
        if kind.signed and kind.bits >= 32 and not -(1 << (kind.bits - 1)) <= value < 1 << (kind.bits - 1):
            raise Unsure
        value &= (1 << kind.bits) - 1
        return value - (1 << kind.bits) if kind.signed and value >> (kind.bits - 1) else value
    if kind.kind == "double":
        if not isinstance(value, int | float):
            raise Unsure
        return float(value)
    if kind.kind == "pointer":
        if isinstance(value, Raw) and value.size > MAX_BYTES:
            raise Unsure
        if isinstance(value, Raw) and kind.of is not None and kind.of.kind in ("int", "double", "pointer"):
            return Pointer([0 if value.zero else None] * (value.size // size_of(kind.of)), 0, kind.of)
        if isinstance(value, Pointer | Stream) or value == 0:
            return value
    if kind.kind == "struct" and isinstance(value, dict):
        return dict(value)
    raise Unsure


def literal(text: str) -> Pointer:
    return Pointer([*text.encode("latin-1"), 0], 0, CHAR)


def text_at(value: object) -> str:
    """The characters up to the end mark."""
    if not isinstance(value, Pointer) or not isinstance(value.cells, list) or not isinstance(value.at, int):
        raise Unsure
    made = []
    for cell in value.cells[value.at :]:
        if not isinstance(cell, int):
            raise Unsure
        if cell == 0:
            return "".join(made)
        made.append(chr(cell & 255))
    raise Unsure


def put(target: object, text: str) -> None:
    """A text with its end mark, where there is room for it."""
    if not isinstance(target, Pointer) or not isinstance(target.cells, list) or not isinstance(target.at, int):
        raise Unsure
    if target.at + len(text) >= len(target.cells):
        raise Unsure
    target.cells[target.at : target.at + len(text) + 1] = [*text.encode("latin-1"), 0]


_SLOT = re.compile(r"%([-0+ #]*)(\d{0,3}|\*)(?:\.(\d{0,2}|\*))?(hh|h|ll|l|z)?([diuxXcsfgeo%])")


def formatted(form: str, given: Sequence[object]) -> str:
    values = list(given)

    def taken() -> object:
        if not values:
            raise Unsure
        return values.pop(0)

    def number() -> str:
        value = taken()
        if not isinstance(value, int):
            raise Unsure
        return str(value)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, size, kind = match.groups()
        if kind == "%":
            return "%"
        width = number() if width == "*" else width
        precision = number() if precision == "*" else precision
        if not re.fullmatch(r"\d*", width + (precision or "")) or len(width) > 3 or len(precision or "") > 2:
            raise Unsure
        after = "" if precision is None else "." + precision
        value = taken()
        if kind == "s":
            return f"%{flags}{width}{after}s" % text_at(value)
        if kind == "c" and isinstance(value, int):
            return f"%{flags}{width}s" % chr(value & 255)
        if kind in "diuxXo" and isinstance(value, int):
            if kind in "uxXo":
                value &= (1 << (64 if size in ("l", "ll", "z") else 32)) - 1
            return f"%{flags}{width}{after}{'d' if kind in 'diu' else kind}" % value
        if kind in "fge" and isinstance(value, float):
            return f"%{flags}{width}{after}{kind}" % value
        raise Unsure

    made = _SLOT.sub(one, form)
    if "%" in _SLOT.sub("", form) or values:
        raise Unsure
    return made


def plain(text: str) -> str:
    """A literal without its escapes."""
    escapes = {
        "n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "0": "\0", "r": "\r", "a": "\a", "b": "\b", "f": "\f",
    }  # fmt: skip
    if re.search(r"\\[^ntrabf\\\"'0]", text) or re.search(r"\\0[0-7]", text):
        raise Unsure
    return re.sub(r"\\(.)", lambda m: escapes[m[1]], text)
