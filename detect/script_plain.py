"""Builtins and methods of plain values, for a Python program that is run by hand; and what its files are made of.

They call CPython's own functions, on values that are bounded and known to be plain; what those raise, the program gets.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator

from detect.script_calls import root, special, truth
from detect.script_expressions import MAX_SIZE, MAX_STEPS, Expressions, told_as_is
from detect.script_values import PLAIN, Class, Ends, Function, Inner, Instance, Kind, Method, Native
from detect.script_world import File, Unsure

TYPES: dict[str, type] = {
    "int": int, "float": float, "str": str, "bytes": bytes, "bool": bool, "list": list, "tuple": tuple, "dict": dict,
    "set": set, "range": range, "enumerate": enumerate, "zip": zip, "reversed": reversed, "object": object,
}  # fmt: skip
PLAIN_CALLS: dict[str, Callable] = {
    "len": len, "abs": abs, "chr": chr, "ord": ord, "divmod": divmod, "round": round, "hex": hex, "bin": bin,
    "oct": oct, "any": any, "all": all, "iter": iter, "next": next,
}  # fmt: skip
METHODS: dict[type, frozenset[str]] = {
    str: frozenset([
        "upper", "lower", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "join", "replace", "startswith",
        "endswith", "find", "rfind", "index", "count", "title", "capitalize", "isdigit", "isalpha", "isalnum",
        "isspace", "isupper", "islower", "swapcase", "partition", "rpartition", "removeprefix", "removesuffix",
        "encode", "expandtabs", "translate",
        "zfill", "ljust", "rjust", "center", "casefold", "isnumeric", "isidentifier",
    ]),
    bytes: frozenset([
        "decode", "hex", "strip", "rstrip", "join", "index",
        "split", "startswith", "endswith", "replace", "count", "find", "splitlines", "upper",
        "lower",
    ]),
    bool: frozenset(),
    type(None): frozenset(),
    Counter: frozenset(["most_common", "get", "keys", "values", "items", "update", "pop", "elements", "copy"]),
    defaultdict: frozenset(["get", "keys", "values", "items", "pop", "setdefault", "update", "clear"]),
    deque: frozenset(["append", "appendleft", "pop", "popleft", "extend", "clear", "rotate", "remove", "count"]),
    frozenset: frozenset(["union", "intersection", "difference", "issubset"]),
    list: frozenset(["append", "extend", "insert", "pop", "remove", "reverse", "index", "count", "copy", "clear"]),
    dict: frozenset(["get", "keys", "values", "items", "pop", "setdefault", "update", "copy", "clear"]),
    set: frozenset([
        "add", "discard", "remove", "union", "intersection", "difference", "update", "issubset", "issuperset", "copy",
    ]),
    tuple: frozenset(["index", "count"]),
    int: frozenset(["bit_length", "to_bytes", "bit_count"]),
    float: frozenset(["is_integer", "hex"]),
}  # fmt: skip


class Module:
    def __init__(self, name: str, members: dict[str, object]) -> None:
        self.name = name
        self.members = members
        self.path = ""
        """Where it lies, of one of the program's own."""


class Opened:
    """A file that a program has open."""

    def __init__(self, path: str, file: File, mode: str) -> None:
        self.name = path
        self.file = file
        self.mode = mode
        self.rest = file.text if "r" in mode else ""
        self.status: int | None = None
        """What closing it returns, of a pipe."""


class Path:
    def __init__(self, text: str) -> None:
        self.text = posixpath.normpath(text) if text else "."


class Done:
    """What `subprocess.run` returns."""

    def __init__(self, args: object, status: int, out: object, err: object) -> None:
        self.members = {"args": args, "returncode": status, "stdout": out, "stderr": err}

    def shown(self, repr_: Callable[[object], str]) -> str:
        said = [f"{n}={repr_(v)}" for n, v in self.members.items() if v is not None or n not in ("stdout", "stderr")]
        return f"CompletedProcess({', '.join(said)})"


class Unordered(list):
    """Names of a folder: in which order they come, only the file system knows."""


def real(run: Callable[[], object]) -> object:
    """A function of CPython's own on plain values: what it raises is what the program sees."""
    try:
        return run()
    except UnicodeError:
        raise Unsure from None
    except (ArithmeticError, LookupError, TypeError, ValueError, StopIteration) as error:
        told_as_is(error)
        raise Inner(error) from None


def unsure() -> object:
    raise Unsure


def unsure_text() -> str:
    raise Unsure


def kind_of(kind: type) -> Kind:
    def call(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        if (
            kind is object
            or len(arguments) > 3
            or (kind is not dict and set(keywords) - {"start", "base", "strict", "encoding"})
        ):
            raise Unsure
        if kind is str and len(arguments) == 1 and not keywords:
            return interpreter.around.text(arguments[0])
        if kind is dict and len(arguments) <= 1 and all(isinstance(a, dict) for a in arguments):
            return dict(*arguments, **keywords)
        if kind in (list, tuple, set, dict, enumerate, zip, reversed):
            given = [iterable(interpreter, a) if n == 0 or kind is zip else a for n, a in enumerate(arguments)]
            made = real(lambda: kind(*given, **keywords))  # pyright: ignore
            return iter(list(made)) if kind in (enumerate, zip, reversed) else made  # pyright: ignore
        if not all(isinstance(a, int | float | str | bytes | bool) for a in arguments) and kind is not bool:
            raise Inner(TypeError(_not_a_number(kind, arguments[0]))) if kind in (int, float) else Unsure
        if kind is bool and arguments:
            return truth(interpreter, arguments[0])
        if kind is bytes and any(isinstance(a, int) and a > MAX_SIZE for a in arguments):
            raise Unsure
        if kind in (str, bytes) and not {*arguments[1:], *keywords.values()} <= _CODECS:
            raise Unsure
        if kind is range:
            made = real(lambda: range(*arguments))  # type: ignore[call-overload]
            return made if len(made) <= MAX_STEPS else unsure()  # type: ignore[arg-type]
        return real(lambda: kind(*arguments, **keywords))

    return Kind(kind, call)


def _not_a_number(kind: type, value: object) -> str:
    if not isinstance(value, PLAIN):
        raise Unsure
    if kind is int:
        text = "int() argument must be a string, a bytes-like object or a real number"
    else:
        text = "float() argument must be a string or a real number"
    return f"{text}, not '{type(value).__name__}'"


def iterable(interpreter: Expressions, value: object) -> list:
    if not isinstance(value, (*PLAIN, Opened, Iterator, Instance)) and type(value) not in (
        type({}.keys()), type({}.values()), type({}.items()),
    ):  # fmt: skip
        raise Unsure
    if isinstance(value, Unordered):
        raise Unsure
    values = list(interpreter.each(value, interpreter.frames[-1].node))  # type: ignore[arg-type]
    interpreter.weighed(values)
    return values


def plain(call: Callable) -> Callable:
    """A function of the standard library that is safe on plain values."""

    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        if keywords or not arguments:
            raise Unsure
        given = []
        if call is len and isinstance(arguments[0], Instance):
            return special(interpreter, arguments[0], "__len__")
        if call is next:
            return _next(interpreter, arguments)
        for argument in arguments:
            if isinstance(argument, Instance | Function | Method | Class | Native | Module | Path):
                raise Unsure
            if call in (any, all, iter):
                argument = iterable(interpreter, argument)
            given.append(argument)
        if call is round and any(isinstance(a, int) and abs(a) > 400 for a in given[1:]):
            raise Unsure
        return real(lambda: call(*given))

    return run


def _next(interpreter: Expressions, arguments: list) -> object:
    source, *default = arguments
    if isinstance(source, Instance):
        return special(interpreter, source, "__next__")
    if not isinstance(source, Iterator):
        raise (
            Inner(TypeError(f"'{type(source).__name__}' object is not an iterator"))
            if isinstance(source, PLAIN)
            else Unsure
        )
    for value in source:
        return value
    if default:
        return default[0]
    raise Inner(StopIteration())


def method(holder: object, name: str) -> Callable:
    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        given = []
        for argument in arguments:
            if isinstance(argument, Iterator):
                argument = list(argument)
            if isinstance(holder, str | bytes | set) and not isinstance(argument, PLAIN):
                raise Unsure
            if name in ("ljust", "rjust", "center", "zfill") and (
                not isinstance(argument, int | str) or argument == ""
            ):
                raise Unsure
            if isinstance(argument, int) and not isinstance(holder, list | dict | set) and abs(argument) > MAX_SIZE:
                raise Unsure
            given.append(argument)
        interpreter.weighed(*given, *keywords.values())
        if name not in _QUICK:
            interpreter.weighed(holder)
        if any(isinstance(v, int) and abs(v) > MAX_SIZE for v in keywords.values()):
            raise Unsure
        if not isinstance(holder, set | frozenset) and any(_unordered(v) for v in given):
            raise Unsure
        if name in ("encode", "decode") and not {*given, *keywords.values()} <= _CODECS:
            raise Unsure
        if _grown(holder, name, [*given, *keywords.values()]) > MAX_SIZE * 4:
            raise Unsure
        longer = len(str(given[1])) + 1 if name == "replace" and len(given) > 1 else 0
        if isinstance(holder, str | bytes) and (len(holder) + 1) * longer > MAX_SIZE * 4:
            raise Unsure
        if name in ("extend", "update") and given and isinstance(given[0], Unordered):
            raise Unsure
        return real(lambda: getattr(holder, name)(*given, **keywords))

    return run


_CODECS = {"utf-8", "utf8", "UTF-8", "ascii", "latin-1", "latin1", "replace", "ignore", "strict"}
_QUICK = ("append", "appendleft", "pop", "popleft", "get", "add", "discard", "setdefault", "keys", "values", "items")
"""Methods that take no longer on a large holder."""


def _unordered(value: object) -> bool:
    """A set that comes in another order in another process."""
    return isinstance(value, set | frozenset) and len(value) > 1 and not all(isinstance(one, int) for one in value)


def _grown(holder: object, name: str, given: list) -> int:
    """How much a method may make of what it is given, at most."""
    if name in ("extend", "update") and isinstance(holder, list | deque | set | dict):
        return len(holder) + sum(len(v) for v in given if isinstance(v, PLAIN) and hasattr(v, "__len__"))  # type: ignore[arg-type]
    if name == "elements" and isinstance(holder, Counter):
        return sum(max(n, 0) for n in holder.values())
    if not isinstance(holder, str | bytes) or not given:
        return 0
    first = given[0]
    if name == "join" and isinstance(first, list | tuple | dict | set | str | bytes):
        return len(holder) * len(first) + sum(len(v) for v in first if isinstance(v, str | bytes))
    if name == "translate" and isinstance(first, dict):
        return len(holder) * max((len(v) for v in first.values() if isinstance(v, str)), default=1)
    if name == "expandtabs" and isinstance(first, int):
        return len(holder) * max(first, 1)
    return 0


FROM_TYPES: dict[tuple[type, str], Callable] = {
    (int, "from_bytes"): int.from_bytes, (bytes, "fromhex"): bytes.fromhex, (str, "maketrans"): str.maketrans,
    (dict, "fromkeys"): dict.fromkeys, (float, "fromhex"): float.fromhex,
}  # fmt: skip


def of_type(kind: type, name: str) -> Callable:
    """`int.from_bytes`, and methods that are named with their type (`str.upper`). Raises Unsure."""
    if (kind, name) in FROM_TYPES:
        return plain_keywords(FROM_TYPES[kind, name])
    if name not in METHODS.get(kind, ()):
        raise Unsure

    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        if not arguments or not isinstance(arguments[0], kind):
            raise Unsure
        return method(arguments[0], name)(interpreter, arguments[1:], keywords)

    return run


def plain_keywords(call: Callable) -> Callable:
    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        if not all(isinstance(a, PLAIN) for a in (*arguments, *keywords.values())) or any(map(_unordered, arguments)):
            raise Unsure
        interpreter.weighed(*arguments)
        return real(lambda: call(*arguments, **keywords))

    return run


def formatted(text: str, arguments: list, keywords: dict) -> str:
    if re.search(r"\{[^}:]*[.\[!{]|\{[^{}]*\{|\d{4,}", text) or not all(
        isinstance(v, int | float | str) for v in (*arguments, *keywords.values())
    ):
        raise Unsure
    return str(real(lambda: text.format(*arguments, **keywords)))


def sorted_(interpreter: Expressions, arguments: list, keywords: dict) -> list:
    if len(arguments) != 1 or set(keywords) - {"key", "reverse"}:
        raise Unsure
    given = arguments[0]
    if isinstance(given, list) and given and all(isinstance(v, Path) for v in given) and "key" not in keywords:
        return sorted(given, key=lambda path: path.text.split("/"), reverse=bool(keywords.get("reverse")))
    values = list(arguments[0]) if isinstance(arguments[0], Unordered | set) else iterable(interpreter, arguments[0])
    key = keywords.get("key")
    keys = [interpreter.call(key, [v], {}) for v in values] if key is not None else values
    if not all(isinstance(k, PLAIN) for k in keys):
        raise Unsure
    interpreter.weighed(keys)
    order = real(lambda: sorted(range(len(values)), key=lambda n: keys[n], reverse=bool(keywords.get("reverse"))))  # type: ignore
    return [values[n] for n in order]  # type: ignore[union-attr]


def sum_(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    if keywords or not 1 <= len(arguments) <= 2:
        raise Unsure
    values = iterable(interpreter, arguments[0])
    if not all(isinstance(v, int | float | str) for v in values):
        raise Unsure
    return real(lambda: sum(values, *arguments[1:]))  # pyright: ignore


def least(call: Callable) -> Callable:
    def run(interpreter: Expressions, arguments: list, keywords: dict) -> object:
        if set(keywords) - {"key", "default"} or not arguments:
            raise Unsure
        values = iterable(interpreter, arguments[0]) if len(arguments) == 1 else arguments
        if not values and "default" in keywords:
            return keywords["default"]
        key = keywords.get("key")
        keys = [interpreter.call(key, [v], {}) for v in values] if key is not None else values
        if not all(isinstance(k, PLAIN) for k in keys):
            raise Unsure
        interpreter.weighed(keys)
        if not values:
            raise Inner(ValueError(f"{call.__name__}() arg is an empty sequence"))
        return values[real(lambda: call(range(len(values)), key=lambda n: keys[n]))]  # type: ignore[call-overload]

    return run


def map_(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
    if len(arguments) < 2 or keywords:
        raise Unsure
    rows = zip(*(iterable(interpreter, a) for a in arguments[1:]), strict=False)
    try:
        return iter([interpreter.call(arguments[0], list(row), {}) for row in rows])
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):
        raise Unsure from None  # it fails where it is used


def filter_(interpreter: Expressions, arguments: list, keywords: dict) -> Iterator:
    if len(arguments) != 2 or keywords:
        raise Unsure
    function, values = arguments[0], iterable(interpreter, arguments[1])
    kept = [v for v in values if truth(interpreter, v if function is None else interpreter.call(function, [v], {}))]
    return iter(kept)


def isinstance_(interpreter: Expressions, arguments: list, keywords: dict) -> bool:
    value, wanted = arguments
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    for kind in kinds:
        if isinstance(kind, Kind):
            if kind.kind not in (int, float, str, bytes, bool, list, tuple, dict, set):
                raise Unsure
            if isinstance(value, kind.kind):
                return True
        elif isinstance(kind, type) and issubclass(kind, BaseException):
            of_value = root(value.of) if isinstance(value, Instance) else type(value)
            if of_value is not None and issubclass(of_value, kind):
                return True
        elif isinstance(kind, Class) and isinstance(value, Instance):
            of: object = value.of
            while isinstance(of, Class):
                if of is kind:
                    return True
                of = of.base
        elif not isinstance(kind, Class):
            raise Unsure
    return False


def exit_(interpreter: Expressions, arguments: list, keywords: dict) -> None:
    value = arguments[0] if arguments else None
    if value is None or isinstance(value, bool | int):
        raise Ends(int(value or 0) & 255)
    raise Ends(1, interpreter.around.text(value) + "\n")
