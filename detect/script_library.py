"""Modules of Python's standard library that only work on plain values, for a program that is run by hand.

CPython's own functions are called, on values that are bounded; what they raise, the program gets. A use that takes more
than plain values is not known.
"""

from __future__ import annotations

import ast
import base64
import binascii
import bisect
import collections
import hashlib
import heapq
import itertools
import math
import operator
import re
import string
import struct
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from detect.script_plain import Module, iterable, real, unsure
from detect.script_regex import within
from detect.script_values import EXCEPTIONS, PLAIN, Class, Field, Function, Inner, Instance, Kind, Native, Wrapped
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions

MAX_TEXT = 4096
MAX_ITEMS = 2000

_PURE: dict[str, dict[str, Callable]] = {
    "math": {
        name: getattr(math, name)
        for name in (
            "sqrt", "floor", "ceil", "gcd", "lcm", "log", "log2", "log10", "sin", "cos", "tan", "exp", "isclose",
            "trunc", "isnan", "isinf", "fabs", "fmod", "isqrt", "radians", "degrees", "atan2", "copysign", "prod",
            "fsum", "hypot",
        )
    },
    "base64": {n: getattr(base64, n) for n in ("b64encode", "b64decode", "b32encode", "b32decode", "b16encode")},
    "binascii": {n: getattr(binascii, n) for n in ("hexlify", "unhexlify", "crc32")},
    "textwrap": {n: getattr(textwrap, n) for n in ("dedent", "wrap", "fill", "indent", "shorten")},
    "struct": {n: getattr(struct, n) for n in ("pack", "unpack", "calcsize")},
    "bisect": {n: getattr(bisect, n) for n in ("bisect_left", "bisect_right", "bisect", "insort")},
    "heapq": {n: getattr(heapq, n) for n in ("heappush", "heappop", "heapify", "nlargest", "nsmallest", "heapreplace")},
    "operator": {n: getattr(operator, n) for n in ("add", "sub", "mul", "mod", "eq", "lt", "gt", "and_", "or_", "xor")},
}  # fmt: skip
_VALUES: dict[str, dict[str, object]] = {
    "math": {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "tau": math.tau},
    "string": {
        n: getattr(string, n)
        for n in ("ascii_lowercase", "ascii_uppercase", "digits", "ascii_letters", "punctuation", "hexdigits")
    },
    "errno": {"ENOENT": 2, "EACCES": 13, "EEXIST": 17, "EISDIR": 21, "ENOSPC": 28, "EROFS": 30, "EPERM": 1},
    "signal": {"SIGINT": 2, "SIGKILL": 9, "SIGTERM": 15},
    "typing": {},
}  # fmt: skip


def members(name: str) -> dict[str, object]:
    """What is known of a module; empty if it is another one."""
    made: dict[str, object] = {n: Native(_on_plain(call)) for n, call in _PURE.get(name, {}).items()}
    made |= _VALUES.get(name, {})
    return made | _MADE.get(name, dict)()


_OPERATED: dict[Callable, ast.operator] = {operator.add: ast.Add(), operator.mul: ast.Mult(), operator.mod: ast.Mod()}
_BY_FORM = (format, struct.pack, struct.unpack, struct.calcsize)


def _on_plain(call: Callable) -> Callable:
    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        given = [list(a) if isinstance(a, Iterator) else a for a in arguments]
        interpreter.weighed(*given, *keywords.values())
        if call in _OPERATED and len(given) == 2:
            return interpreter.operation(ast.Pass(), _OPERATED[call], *given)
        if call in (math.prod, math.lcm) and len(str([*given, *keywords.values()])) > MAX_TEXT:
            raise Unsure
        if not all(isinstance(a, PLAIN) for a in (*given, *keywords.values())):
            raise Unsure
        if any(isinstance(a, str | bytes) and len(a) > MAX_TEXT for a in (*given, *keywords.values())):
            raise Unsure
        if call in _BY_FORM and any(isinstance(a, str | bytes) and re.search(r"\d{4}", str(a)) for a in given[:2]):
            raise Unsure  # of any width
        sizes = [a for a in (*given, *keywords.values()) if isinstance(a, int)]
        if call in _PURE["textwrap"].values() and any(abs(size) > MAX_TEXT for size in sizes):
            raise Unsure
        return real(lambda: call(*given, **keywords))

    return run


# --- re -------------------------------------------------------------------------------------------------------------


class Matched:
    def __init__(self, match: re.Match) -> None:
        self.match = match


class Pattern:
    def __init__(self, pattern: re.Pattern) -> None:
        self.pattern = pattern


_SLOW = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+|][^)]*\)[*+{]|\\\d|\(\?[<!=]")
"""Patterns that may take long on a short text."""


def compiled(given: object, flags: object = 0) -> re.Pattern:
    if isinstance(given, Pattern):
        return given.pattern
    if not isinstance(given, str) or not isinstance(flags, int) or len(given) > 200 or _SLOW.search(given):
        raise Unsure
    try:
        return re.compile(given, flags)
    except re.error:
        raise Unsure from None


def _searching(name: str) -> Callable:
    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        pattern, *rest = arguments
        flags = keywords.pop("flags", 0)
        replacing = name in ("sub", "subn")
        wanted = 2 if replacing else 1
        if len(rest) > wanted and name in ("search", "match", "fullmatch", "findall", "finditer"):
            flags = rest.pop()
        return searched(interpreter, compiled(pattern, flags), name, rest, keywords)

    return run


def searched(interpreter: Expressions, pattern: re.Pattern, name: str, rest: list, keywords: dict) -> object:
    if set(keywords) - {"count", "maxsplit"} or any(isinstance(a, str) and len(a) > MAX_TEXT for a in rest):
        raise Unsure
    for text in rest:
        if isinstance(text, str):
            within(pattern, text)
    if name in ("sub", "subn"):
        replacement = rest[0]
        if isinstance(replacement, str) and len(replacement) * (len(str(rest[-1])) + 1) > 16 * MAX_TEXT:
            raise Unsure
        if isinstance(replacement, Function):
            function = replacement
            rest[0] = lambda match: interpreter.call(function, [Matched(match)], {})
        elif not isinstance(replacement, str):
            raise Unsure
    if not rest or not isinstance(rest[-1], PLAIN):
        raise Unsure
    if not isinstance(rest[-1], str | int):
        raise (Inner(TypeError(f"expected string or bytes-like object, got '{type(rest[-1]).__name__}'")))
    try:
        found = getattr(pattern, name)(*rest, **keywords)
    except (re.error, TypeError):
        raise Unsure from None
    if name == "finditer":
        return iter([Matched(match) for match in found])
    return Matched(found) if isinstance(found, re.Match) else found


def attribute(holder: object, name: str) -> object | None:
    """Of a pattern or a match; None if it is neither. Raises Unsure."""
    if isinstance(holder, Pattern):
        if name == "pattern":
            return holder.pattern.pattern
        if name not in ("search", "match", "fullmatch", "findall", "finditer", "sub", "split"):
            raise Unsure
        return Native(lambda i, a, k: searched(i, holder.pattern, name, a, k))
    if isinstance(holder, Matched):
        if name not in ("group", "groups", "start", "end", "span", "groupdict"):
            raise Unsure
        return Native(lambda _, a, k: real(lambda: getattr(holder.match, name)(*a, **k)))
    return None


def _re() -> dict[str, object]:
    names = ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split")
    made: dict[str, object] = {name: Native(_searching(name)) for name in names}
    flags = {n: int(getattr(re, n)) for n in ("I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE")}
    made["compile"] = Native(lambda _, a, k: Pattern(compiled(*a, **k)))
    made["escape"] = Native(_on_plain(re.escape))
    return made | flags


# --- collections, itertools, functools ------------------------------------------------------------------------------


def _counter(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    if keywords or len(arguments) > 1:
        raise Unsure
    given = arguments[0] if arguments and isinstance(arguments[0], dict) else None
    return real(lambda: collections.Counter(given or (iterable(interpreter, arguments[0]) if arguments else ())))


def _defaultdict(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    if len(arguments) != 1 or keywords:
        raise Unsure
    factory = arguments[0]
    if isinstance(factory, Kind) and factory.kind in (list, int, dict, set, str, float):
        return collections.defaultdict(factory.kind)
    if isinstance(factory, Function) and not factory.yields:
        return collections.defaultdict(lambda: interpreter.call(factory, [], {}))
    raise Unsure


def _deque(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    if set(keywords) - {"maxlen"} or len(arguments) > 2:
        raise Unsure
    given = iterable(interpreter, arguments[0]) if arguments else []
    return real(lambda: collections.deque(given, *arguments[1:], **keywords))


def _taken(call: Callable) -> Callable:
    """A function of `itertools`: arguments that can be iterated over, and numbers."""

    def run(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
        given = [a if isinstance(a, int | None) else iterable(interpreter, a) for a in arguments]
        if set(keywords) - {"repeat", "fillvalue"} or any(isinstance(a, int) and abs(a) > MAX_ITEMS for a in given):
            raise Unsure
        made = []
        for one in call(*given, **keywords):
            made.append(one)
            interpreter.weighed(one)
            if len(made) > MAX_ITEMS:
                raise Unsure
        return iter(made)

    return run


def _sliced(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
    values, *numbers = arguments
    if keywords or not all(isinstance(n, int | None) for n in numbers):
        raise Unsure
    source = values if isinstance(values, Iterator) else iter(iterable(interpreter, values))
    return iter(list(itertools.islice(source, *numbers)))


def _grouped(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
    key = keywords.get("key") or (arguments[1] if len(arguments) > 1 else None)
    groups: list[tuple[object, list]] = []
    for value in iterable(interpreter, arguments[0]):
        of = value if key is None else interpreter.call(key, [value], {})
        if groups and interpreter.same(groups[-1][0], of):
            groups[-1][1].append(value)
        else:
            groups.append((of, [value]))
    return iter([(of, iter(values)) for of, values in groups])


def _accumulated(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
    if keywords or len(arguments) > 2:
        raise Unsure
    found: list = []
    for value in iterable(interpreter, arguments[0]):
        if not found:
            found.append(value)
        elif len(arguments) > 1:
            found.append(interpreter.call(arguments[1], [found[-1], value], {}))
        elif isinstance(value, int | float):
            found.append(found[-1] + value)
        else:
            raise Unsure
    return iter(found)


def _reduced(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    function, values, *start = arguments
    rest = iterable(interpreter, values)
    if not rest and not start:
        raise Inner(TypeError("reduce() of empty iterable with no initial value"))
    made = start[0] if start else rest.pop(0)
    for value in rest:
        made = interpreter.call(function, [made, value], {})
    return made


def _partial(_: Expressions, arguments: list, keywords: dict) -> object:
    function, *given = arguments
    return Native(lambda i, a, k: i.call(function, [*given, *a], keywords | k))


def _remembering(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    """`lru_cache` and `cache`: what a function returns depends on its arguments alone, or it is not known."""
    if arguments and isinstance(arguments[0], Function):
        return arguments[0]
    return Native(lambda _, a, k: a[0])


def _decorating(_: Expressions, arguments: list, keywords: dict) -> object:
    return Native(lambda _, a, k: a[0])


def _dataclass(_: Expressions, arguments: list, keywords: dict) -> object:
    if set(keywords) - {"frozen", "order"} or keywords.get("order"):
        raise Unsure
    if not arguments:
        return Native(_dataclass)
    (of,) = arguments
    if not isinstance(of, Class) or any(name in of.members for name in ("__repr__", "__eq__", "__init__")):
        raise Unsure
    above = of.base.fields if isinstance(of.base, Class) and of.base.fields else {}
    fields: dict[str, object] = dict(above)
    for name in of.annotated:
        default = of.members.get(name)
        if name in of.members and default is None:
            default = Field(None)
        fields[name] = default
    of.fields = fields
    return of


def _field(_: Expressions, arguments: list, keywords: dict) -> object:
    if arguments or set(keywords) - {"default", "default_factory"}:
        raise Unsure
    return Field(keywords.get("default"), keywords.get("default_factory"))


def _anything(_: Expressions, arguments: list, keywords: dict) -> object:
    return unsure()


_MADE: dict[str, Callable[[], dict[str, object]]] = {
    "re": _re,
    "collections": lambda: {
        "Counter": Native(_counter), "defaultdict": Native(_defaultdict), "deque": Native(_deque),
    },
    "itertools": lambda: {
        **{
            n: Native(_taken(getattr(itertools, n)))
            for n in ("chain", "product", "permutations", "combinations", "zip_longest", "pairwise", "repeat")
        },
        "islice": Native(_sliced), "groupby": Native(_grouped), "accumulate": Native(_accumulated),
    },
    "functools": lambda: {
        "reduce": Native(_reduced), "partial": Native(_partial), "lru_cache": Native(_remembering),
        "cache": Native(_remembering), "wraps": Native(_decorating), "total_ordering": Native(_anything),
    },
    "dataclasses": lambda: {"dataclass": Native(_dataclass), "field": Native(_field)},
    "typing": lambda: {
        name: Module(f"typing.{name}", {})
        for name in ("List", "Dict", "Optional", "Any", "Iterator", "Iterable", "Tuple", "Set", "Union", "Callable")
    },
    "hashlib": lambda: {n: Native(_hashed(n)) for n in ("md5", "sha1", "sha256", "sha512")},
    "builtins": dict,
    "contextlib": dict,
    "time": lambda: {"sleep": Native(lambda _, a, k: None)},
}  # fmt: skip


def _hashed(name: str) -> Callable:
    def run(_: Expressions, arguments: list, keywords: dict) -> object:
        data = arguments[0] if arguments else b""
        if not isinstance(data, bytes) or keywords:
            raise Unsure
        digest = getattr(hashlib, name)(data)
        made: dict[str, object] = {
            "hexdigest": Native(lambda _, a, k: digest.hexdigest()),
            "digest": Native(lambda _, a, k: digest.digest()),
        }
        return Module(f"hashlib.{name}", made)

    return run


# --- builtins that take functions and classes -----------------------------------------------------------------------


def _wrapped(kind: str) -> Native:
    return Native(lambda _, a, k: Wrapped(kind, a[0]))


def _type(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    (value,) = arguments
    if isinstance(value, Instance):
        return value.of
    if isinstance(value, BaseException):
        return type(value)
    if type(value) in (int, float, str, bytes, bool, list, tuple, dict, set, type(None)):
        return interpreter.around.builtin(type(value).__name__) or Module("NoneType", {"__name__": "NoneType"})
    raise Unsure


def _getattr(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    holder, name, *default = arguments
    try:
        return interpreter.attribute_of(holder, name)
    except Inner as inner:
        if default and isinstance(inner.value, AttributeError):
            return default[0]
        raise


def _hasattr(interpreter: Expressions, arguments: list, keywords: dict) -> bool:
    missing = object()
    return _getattr(interpreter, [*arguments, missing], {}) is not missing


def _callable(_: Expressions, arguments: list, keywords: dict) -> bool:
    (value,) = arguments
    if not isinstance(value, (*PLAIN, Function, Native, Class)):
        raise Unsure
    return not isinstance(value, PLAIN)


def builtins() -> dict[str, object]:
    return {
        "property": _wrapped("property"), "staticmethod": _wrapped("staticmethod"),
        "classmethod": _wrapped("classmethod"),
        "type": Native(_type), "getattr": Native(_getattr), "hasattr": Native(_hasattr), "callable": Native(_callable),
        "pow": Native(_on_plain(_power)), "format": Native(_on_plain(format)), "ascii": Native(_on_plain(ascii)),
        "IOError": EXCEPTIONS["OSError"], "__debug__": True,
        "frozenset": Native(lambda i, a, k: frozenset(iterable(i, a[0]) if a else ())),
        "bytearray": Native(_anything),
    }  # fmt: skip


def _power(base: int, exponent: int, modulus: int | None = None) -> object:
    if not all(isinstance(n, int | float | None) for n in (base, exponent, modulus)) or abs(exponent) > 64:
        raise Unsure
    return pow(base, exponent, modulus)
