"""Constant folding for Python: what a string expression evaluates to, without evaluating it.

An expression and the constants known by name go in, its possible values come out (few, bounded), or none when it
cannot be known. Concatenation, formatting, joins, slices, `chr`, base64, hex, rot13, `os.path.join` and the like are
computed by this module itself: no code of the action ever runs.
"""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import itertools
import json
import operator
import pickletools
import posixpath
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detect import python_run, python_tree
from detect.paths import ORACLE, UNKNOWN

Value = str | bytes | int | list | dict

MAX_STATEMENTS = 1000
MAX_DEPTH = 60
MAX_LENGTH = 64 * 1024
MAX_ITEMS = 1024

_FAILURES = (
    *(ValueError, TypeError, AttributeError, LookupError, OverflowError, ZeroDivisionError),
    *(zlib.error, binascii.Error, SyntaxError),
)
_TEXTS = frozenset([str, bytes])
_UNASKED = object()
_TEXT_METHODS = frozenset(
    ["lower", "upper", "strip", "lstrip", "rstrip", "title", "swapcase", "capitalize", "casefold"]
)
_APPLYING = frozenset(["map", "builtins.map", "functools.reduce", "reduce"])
_METHODS = _TEXT_METHODS | {
    *("to_bytes", "index", "count", "tobytes", "tostring", "copy", "substitute", "safe_substitute", "format_map"),
    *("join", "format", "joinpath", "expanduser", "resolve", "absolute", "as_posix", "encode", "split", "translate"),
    *("find", "ljust", "rjust", "zfill", "center", "splitlines", "replace", "removeprefix", "removesuffix"),
    *("get", "keys", "values", "items", "decode", "hex"),
}
"""Methods that are worked out, of whatever they are methods."""


class Folder:
    """Folds expressions.

    `names` are constants by variable, `dotted` resolves the dotted name of a callee, `spend` is told the work.
    """

    def __init__(
        self, names: Mapping[str, Value], dotted: Callable[[ast.expr], str | None], spend: Callable[[int], None]
    ) -> None:
        self.names = names
        self.dotted = dotted
        self.spend = spend
        self.globals = names
        """Constants that functions see, besides their arguments."""
        self.functions: dict[str, python_run.Function] = {}
        """Functions of the code itself by name, methods too."""
        self.classes: set[str] = set()
        """Classes of the code itself, and variables that hold an object of one."""
        self.yielded: list = []
        """What the generator that is being worked out has given so far."""
        self.left = [MAX_STATEMENTS]
        """Statements that may still be worked out, in all loops and functions together."""
        self.calls = 0
        """How many of them are being worked out, one in the other."""
        self.calls_left = [python_run.MAX_ALL_CALLS]
        self.blind: dict[tuple[int, int], object] | None = None
        """What functions return that are given nothing known, kept from when all constants are known."""
        self._values: dict[int, Value | None] | None = None

    def within(self, names: Mapping[str, Value]) -> Folder:
        """A folder for the inside of a loop or function, with names of its own."""
        inner = Folder(names, self.dotted, self.spend)
        inner.globals, inner.functions, inner.calls = self.globals, self.functions, self.calls
        inner.classes, inner.left, inner.calls_left = self.classes, self.left, self.calls_left
        inner.blind = self.blind
        return inner

    def truth(self, node: ast.expr) -> bool | None:
        """Whether a condition holds; None when that is not known."""
        if isinstance(node, ast.BoolOp):
            values = [self.truth(part) for part in node.values]
            decides = isinstance(node.op, ast.Or)
            return decides if decides in values else None if None in values else not decides
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value = self.truth(node.operand)
            return None if value is None else not value
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.fold(node.left), self.fold(node.comparators[0])
            test = _TESTS.get(type(node.ops[0]))
            if left is None or right is None or test is None:
                return None
            try:
                return bool(test(left, right))
            except TypeError:
                return None
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        value = self.fold(node)
        return None if value is None else bool(value)

    def text(self, node: ast.expr) -> str | None:
        """`node` as a string (paths and bytes count as strings); parts not known are `UNKNOWN`."""
        value = self.fold(node)
        if value is None or type(value) is str:
            return value
        return value.decode("latin-1") if isinstance(value, bytes) else None

    def settle(self) -> None:
        """All constants are known: from now on, what an expression was found to be stays."""
        self._values = {}
        self.blind = {}

    def fold(self, node: ast.AST, depth: int = 0) -> Value | None:
        kind = type(node)
        values = self._values
        # most of what there is: constants, and names of which nothing is known
        if kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if values is None:
                self.spend(5)
            if type(value) is int:
                return value if depth <= MAX_DEPTH else None
            return value if type(value) in _TEXTS and len(value) <= MAX_LENGTH and depth <= MAX_DEPTH else None
        if kind is ast.Name:
            value = self.names.get(node.id)  # type: ignore[attr-defined]
            if value is None or type(value) is int:
                if values is None:
                    self.spend(5)
                return value if depth <= MAX_DEPTH else None
        function = _FOLDS.get(kind)
        if function is None:
            return None
        if values is not None:
            known = values.get(id(node), _UNASKED)
            if known is not _UNASKED:
                return known  # type: ignore[return-value]
        self.spend(5)
        if depth > MAX_DEPTH:
            return None
        try:
            value = function(self, node, depth + 1)
        except _FAILURES:
            value = None
        if value is not None:
            kind = type(value)
            if kind is str or kind is bytes:
                value = None if len(value) > MAX_LENGTH else value  # type: ignore[arg-type]
            elif kind is list and len(value) > MAX_ITEMS:  # type: ignore[arg-type]
                value = None
        if values is not None:
            values[id(node)] = value
        return value

    def _name(self, node: ast.Name, depth: int) -> Value | None:
        return self.names.get(node.id)

    def _joined(self, node: ast.JoinedStr, depth: int) -> Value | None:
        return "".join(self._part(part, depth) for part in node.values)

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value | None:
        value = self.fold(node.operand, depth)
        if not isinstance(value, int):
            return None
        return -value if isinstance(node.op, ast.USub) else ~value if isinstance(node.op, ast.Invert) else None

    def _list(self, node: ast.List | ast.Tuple | ast.Set, depth: int) -> Value | None:
        items = [self.fold(item, depth) for item in node.elts[:MAX_ITEMS]]
        return [UNKNOWN if item is None else item for item in items]

    def _dict(self, node: ast.Dict, depth: int) -> Value | None:
        if len(node.keys) > MAX_ITEMS or None in node.keys:
            return None
        pairs = [
            (self.fold(key, depth), self.fold(value, depth))
            for key, value in zip(node.keys, node.values, strict=True)
            if key
        ]
        return {key: value for key, value in pairs if isinstance(key, str | int | bytes) and value is not None}

    def _attribute(self, node: ast.Attribute, depth: int) -> Value | None:
        dotted = self.dotted(node)
        if dotted in ("os.sep", "os.path.sep", "posixpath.sep"):
            return "/"
        if dotted == "sys.executable":
            return "python3"
        if dotted == "string.ascii_lowercase":
            return "abcdefghijklmnopqrstuvwxyz"
        if node.attr == "parent" and isinstance(value := self.fold(node.value, depth), str):
            return posixpath.dirname(value)
        if dotted and dotted in self.names:
            return self.names[dotted]
        # `self.base`, `Conf.base`, `Conf().base`: assigned in a class, or under another name for the object
        owner = node.value.func if isinstance(node.value, ast.Call) else node.value
        if isinstance(owner, ast.Name) and (owner.id in ("self", "cls") or owner.id in self.classes):
            return self.names.get(f"self.{node.attr}", self.names.get(node.attr))
        return None

    def _either(self, node: ast.IfExp, depth: int) -> Value | None:
        holds = self.truth(node.test)
        if holds is not None:
            return self.fold(node.body if holds else node.orelse, depth)
        return self.fold(node.body, depth) or self.fold(node.orelse, depth)

    def _chosen(self, node: ast.BoolOp, depth: int) -> Value | None:
        values = [value for value in (self.fold(part, depth) for part in node.values) if value]
        if not values:
            return None
        return values[0] if isinstance(node.op, ast.Or) else values[-1]

    def _starred(self, node: ast.Starred, depth: int) -> Value | None:
        return self.fold(node.value, depth)

    def _named(self, node: ast.NamedExpr, depth: int) -> Value | None:
        return self.fold(node.value, depth)

    def _part(self, part: ast.expr, depth: int) -> str:
        value = self.fold(part.value if isinstance(part, ast.FormattedValue) else part, depth)
        return str(value) if isinstance(value, str | int) else UNKNOWN

    def _binary(self, node: ast.BinOp, depth: int) -> Value | None:
        left, right = self.fold(node.left, depth), self.fold(node.right, depth)
        if left is None and right is None:
            return None
        if type(left) is int and type(right) is int:
            return _counted(type(node.op), left, right)
        if type(node.op) in _COUNTING and not (isinstance(left, int) and isinstance(right, int)):
            return None
        if isinstance(node.op, ast.Add):
            if isinstance(left, str) and (right is None or isinstance(right, str)):
                return left + (UNKNOWN if right is None else right)
            if left is None and isinstance(right, str):
                return UNKNOWN + right
            if isinstance(left, list) and right is None:
                return [*left, UNKNOWN]
            if isinstance(right, list) and left is None:
                return [UNKNOWN, *right]
            if type(left) is type(right) and isinstance(left, bytes | int | list):
                return left + right  # type: ignore[operator]
        if isinstance(node.op, ast.Div) and isinstance(left, str):
            return posixpath.join(left, right if isinstance(right, str) else UNKNOWN)
        if isinstance(node.op, ast.Mod) and isinstance(left, str) and right is not None:
            values = right if isinstance(right, list) else [right]
            return left % tuple(values) if _is_short(left, values) else None
        if isinstance(left, int) and isinstance(right, int) and not isinstance(node.op, ast.Add):
            return _counted(type(node.op), left, right)
        if isinstance(node.op, ast.Mult) and isinstance(left, str | bytes | list) and isinstance(right, int):
            return left * right if len(left) * right <= MAX_LENGTH else None
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> Value | None:
        value = self.fold(node.value, depth)
        if isinstance(value, dict):
            key = self.fold(node.slice, depth)
            return value.get(key) if isinstance(key, str | int | bytes) else None
        if not isinstance(value, str | bytes | list):
            return None
        if isinstance(node.slice, ast.Slice):
            edges = [
                None if e is None else self.fold(e, depth)
                for e in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            given = (node.slice.lower, node.slice.upper, node.slice.step)
            if any(e is not None and not isinstance(v, int) for e, v in zip(given, edges, strict=True)):
                return None
            return value[slice(*edges)]
        index = self.fold(node.slice, depth)
        return value[index] if isinstance(index, int) else None

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp, depth: int) -> Value | None:
        """`[f(x) for x in <known list> if ...]`, up to three loops in one."""
        # what is gone through first is seldom known
        if len(node.generators) > 3 or not isinstance(self.fold(node.generators[0].iter, depth), str | bytes | list):
            return None
        results: list = []
        inner = self.within({})
        inner.names = dict(self.names)
        return results if self._generate(inner, node, 0, results, depth) else None

    def _generate(
        self, inner: Folder, node: ast.GeneratorExp | ast.ListComp, level: int, results: list, depth: int
    ) -> bool:
        """Runs the loops from `level` on; False when something in them is not known."""
        if level == len(node.generators):
            value = inner.fold(node.elt, depth)
            results.append(value)
            return value is not None and len(results) <= MAX_ITEMS
        loop = node.generators[level]
        source = inner.fold(loop.iter, depth)
        if not isinstance(source, str | bytes | list) or len(source) > MAX_ITEMS:
            return False
        for item in source:
            if not inner.bind(loop.target, item):
                return False
            chosen = [inner.truth(test) for test in loop.ifs]
            if None in chosen:
                return False
            if all(chosen) and not self._generate(inner, node, level + 1, results, depth):
                return False
        return True

    def bind(self, target: ast.expr, value: Value) -> bool:
        """Gives a loop's variables their values, in names of its own."""
        if isinstance(target, ast.Name):
            self.names[target.id] = value  # type: ignore[index]
            return True
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, str | bytes | list):
            parts = list(value)
            return len(parts) == len(target.elts) and all(map(self.bind, target.elts, parts))
        return False

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        dotted = self.dotted(node.func)
        if not self._answers(node.func, dotted) or self._is_silent(node.func, dotted, depth):
            return None
        args = [self.fold(arg, depth) for arg in node.args[:32]]
        if dotted is not None and (function := _FUNCTIONS.get(dotted)) is not None:
            if dotted in _JOINS:
                return posixpath.join(*(a if isinstance(a, str) else UNKNOWN for a in args)) if args else None
            return None if None in args else function(*args)
        if dotted in ("map", "builtins.map") and len(node.args) == 2 and isinstance(args[1], str | bytes | list):
            own = node.args[0] if isinstance(node.args[0], ast.Lambda) else None
            if own is None and isinstance(node.args[0], ast.Name):
                own = self.functions.get(node.args[0].id)
            if own is not None:
                try:
                    return [python_run.call(self, own, [item], {}) for item in list(args[1])[:MAX_ITEMS]]
                except python_run.Unknown:
                    return None
            mapped = _FUNCTIONS.get(self.dotted(node.args[0]) or "")
            return None if mapped is None else [mapped(item) for item in list(args[1])[:MAX_ITEMS]]
        if dotted in ("functools.reduce", "reduce") and node.args:
            try:
                return self._reduced(node, args)
            except python_run.Unknown:
                return None
        if isinstance(node.func, ast.Attribute) and (value := self._method(node, node.func, args, depth)) is not None:
            return value
        return self._own(node, args, depth)

    def _answers(self, func: ast.expr, dotted: str | None) -> bool:
        """Whether a call of `func` can be worked out at all, whatever it is given."""
        if dotted is not None and (dotted in _FUNCTIONS or dotted in _APPLYING):
            return True
        if isinstance(func, ast.Attribute):
            return func.attr in _METHODS or func.attr in self.functions
        return isinstance(func, ast.Lambda) or (isinstance(func, ast.Name) and func.id in self.functions)

    def _is_silent(self, func: ast.expr, dotted: str | None, depth: int) -> bool:
        """Whether `func` is a method of something that is not known, and nothing else."""
        return (
            isinstance(func, ast.Attribute)
            and func.attr not in self.functions
            and dotted not in _FUNCTIONS
            and dotted not in _APPLYING
            and self.fold(func.value, depth) is None
        )

    def _reduced(self, node: ast.Call, args: list[Value | None]) -> Value | None:
        """`reduce(f, items)` with a function of the code, or one of `operator`."""
        items = args[1] if len(args) > 1 else None
        if not isinstance(items, str | bytes | list) or not items or len(items) > MAX_ITEMS:
            return None
        values = list(items) if len(args) < 3 or args[2] is None else [args[2], *items]
        function = node.args[0]
        own = function if isinstance(function, ast.Lambda) else self.functions.get(getattr(function, "id", ""))
        total: Value | None = values[0]
        for value in values[1:]:
            if own is not None:
                total = python_run.call(self, own, [total, value], {})
            elif type(total) is type(value) and isinstance(total, str | int):
                total = _FUNCTIONS["sum"]([total, value], 0) if isinstance(total, int) else f"{total}{value}"
            else:
                return None
            if total is None:
                return None
        return total

    def _own(self, node: ast.Call, args: list[Value | None], depth: int) -> Value | None:
        """What a function of the code itself, or a lambda on the spot, returns."""
        func = node.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        function = func if isinstance(func, ast.Lambda) else self.functions.get(name)
        if function is None:
            return None
        keywords = {k.arg: self.fold(k.value, depth) for k in node.keywords if k.arg}
        try:
            return python_run.call(self, function, args, keywords)
        except python_run.Unknown:
            return None

    def _method(self, node: ast.Call, func: ast.Attribute, args: list[Value | None], depth: int) -> Value | None:
        owner = self.fold(func.value, depth)
        if owner is None:
            return None
        name = func.attr
        if isinstance(owner, int) and name == "to_bytes" and isinstance(args[0], int) and args[0] < 4096:
            order = (
                args[1]
                if len(args) > 1
                else next((self.fold(k.value) for k in node.keywords if k.arg == "byteorder"), "big")
            )
            return owner.to_bytes(args[0], "little" if order == "little" else "big")
        if isinstance(owner, list):
            if name in ("index", "count") and None not in args:
                return getattr(owner, name)(*args)
            if name in ("tobytes", "tostring") and all(isinstance(item, int) for item in owner):
                return bytes(owner)
            return list(owner) if name == "copy" else None
        if isinstance(owner, str):
            if name in ("substitute", "safe_substitute"):
                values = {k.arg: self.fold(k.value, depth) for k in node.keywords if k.arg}
                values |= args[0] if args and isinstance(args[0], dict) else {}
                return re.sub(r"\$\{?(\w+)\}?", lambda m: str(values.get(m[1]) or UNKNOWN), owner)
            if name == "format_map" and args and isinstance(args[0], dict) and _is_short(owner, list(args[0].values())):
                return owner.format_map(args[0])
            if name == "join" and len(args) == 1 and isinstance(args[0], str | list):
                if len(owner) * len(args[0]) > MAX_LENGTH:
                    return None
                return owner.join(item if isinstance(item, str) else UNKNOWN for item in args[0])
            if name == "format":
                keywords = {k.arg: self.fold(k.value, depth) for k in node.keywords if k.arg}
                known = [UNKNOWN if a is None else a for a in (*args, *keywords.values())]
                if not _is_short(owner, known):
                    return None
                return owner.format(*known[: len(args)], **dict(zip(keywords, known[len(args) :], strict=True)))
            if name in ("joinpath",):
                return posixpath.join(owner, *(a if isinstance(a, str) else UNKNOWN for a in args))
            if name in ("expanduser", "resolve", "absolute", "as_posix"):
                return owner
            if name == "encode":
                return owner.encode("utf-8")
            if name == "split" and all(isinstance(a, str) for a in args[:1]) and len(args) < 2:
                return list(owner.split(args[0] if args and isinstance(args[0], str) else None))
            if None in args:
                return None
            if name == "translate" and isinstance(args[0], dict):
                longest = max((len(v) for v in args[0].values() if isinstance(v, str)), default=1)
                return owner.translate(args[0]) if len(owner) * longest <= MAX_LENGTH else None
            if name in ("ljust", "rjust", "zfill", "center") and isinstance(args[0], int) and args[0] > MAX_LENGTH:
                return None
            if name in ("find", "index", "count", "ljust", "rjust", "zfill", "center", "splitlines"):
                return getattr(owner, name)(*args)
            if name == "replace":
                return _replace(owner, *args)
            if name in _TEXT_METHODS or name in ("removeprefix", "removesuffix"):
                return getattr(owner, name)(*args)
        if isinstance(owner, dict):
            if name == "get" and args and isinstance(args[0], str | int | bytes):
                return owner.get(args[0], args[1] if len(args) > 1 else None)
            return {"keys": list(owner), "values": list(owner.values()), "items": [list(i) for i in owner.items()]}.get(
                name
            )
        if isinstance(owner, bytes):
            if name == "translate" and args and isinstance(args[0], bytes):
                return owner.translate(args[0])
            if name == "decode":
                return owner.decode("latin-1")
            if name == "hex":
                return owner.hex()
            if name == "replace" and None not in args:
                return _replace(owner, *args)
            if name in _TEXT_METHODS and None not in args:
                return getattr(owner, name)(*args)
        return None


def _counted(kind: type[ast.operator], left: int, right: int) -> int | None:
    """What two whole numbers give."""
    if (function := _WHOLE.get(kind)) is not None:
        return function(left, right)
    if kind is ast.LShift and 0 <= right < 64 and abs(left) < 1 << 63:
        return left << right
    if kind is ast.Mult and max(abs(left), abs(right)) < 1 << 31:
        return left * right
    return None


def _is_short(template: str, values: Sequence[Value]) -> bool:
    """Whether formatting `values` by `template` cannot become long: by a width it gives, or by repeating a value."""
    if re.search(r"\d{5}|%[^a-zA-Z%]*\*|\{[^{}]*\{", template):
        return False
    widths = sum(map(int, re.findall(r"\d+", template)))
    longest = max((len(value) if isinstance(value, str | bytes | list) else 20 for value in values), default=0)
    return widths + (template.count("{") + template.count("%")) * longest <= MAX_LENGTH


def _replace(text: Any, old: Any, new: Any, count: Any = -1) -> Value | None:
    if (text.count(old) + 1) * len(new) > MAX_LENGTH:
        return None
    return text.replace(old, new, count)


def _bytes(value: Value) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value  # type: ignore[return-value]


def _inflate(value: Value) -> bytes:
    return zlib.decompressobj().decompress(_bytes(value), MAX_LENGTH)


def _to_bytes(value: Value, *_: Value) -> bytes | None:
    if isinstance(value, list):
        return bytes(value)
    return _bytes(value) if isinstance(value, str | bytes) else None


def _packed(form: Value, *values: Value) -> bytes | None:
    if not isinstance(form, str) or len(form) > 64 or re.search(r"\d{4}", form):
        return None
    try:
        return struct.pack(form, *values)
    except struct.error:
        return None


def _parsed(text: Value, *_: Value) -> Value | None:
    value = json.loads(text) if isinstance(text, str | bytes) else None
    return value if isinstance(value, str | int | list | dict) else None


def _pickled(data: Value, *_: Value) -> str | None:
    """The last text in a pickle, which is not loaded."""
    texts = [arg for _, arg, _ in pickletools.genops(_bytes(data)) if isinstance(arg, str)]
    return texts[-1] if texts else None


def _range(*edges: Any) -> list | None:
    numbers = range(*edges)
    return list(numbers) if len(numbers) <= MAX_ITEMS else None


def _rot(value: Value, encoding: Value = "") -> Value | None:
    if encoding in ("rot13", "rot_13", "rot-13"):
        return codecs.decode(value, "rot13") if isinstance(value, str) else None
    if encoding in ("hex", "base64", "hex_codec", "base64_codec"):
        return codecs.decode(_bytes(value), str(encoding))
    return None


def _path(*parts: Value) -> str:
    return posixpath.join(*(p for p in parts if isinstance(p, str)))


_JOINS = frozenset(["os.path.join", "posixpath.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"])
_FUNCTIONS: dict[str, Callable[..., Value | None]] = {
    "chr": chr,
    "shlex.split": lambda value, *_: value.split() if isinstance(value, str) else None,
    "ord": ord,
    "str": lambda value, *_: value.decode("latin-1") if isinstance(value, bytes) else str(value),
    "bytes": _to_bytes,
    "bytearray": _to_bytes,
    "string.Template": lambda value: value,
    "struct.pack": _packed,
    "json.loads": _parsed,
    "pickle.loads": _pickled,
    "array.array": lambda _, values: list(values),
    "ast.literal_eval": lambda text: (
        ast.literal_eval(python_tree.expression(text)) if isinstance(text, str) and len(text) < 4096 else None
    ),
    "range": _range,
    "enumerate": lambda value, start=0: [[n, item] for n, item in enumerate(value, start)],
    "zip": lambda *values: [list(items) for items in zip(*values, strict=False)],
    "itertools.zip_longest": lambda *values: [list(items) for items in itertools.zip_longest(*values, fillvalue="")],
    "itertools.chain": lambda *values: [item for value in values for item in value],
    "itertools.chain.from_iterable": lambda values: [item for value in values for item in value],
    "itertools.cycle": lambda value: (list(value) * (MAX_ITEMS // max(len(value), 1)))[:MAX_ITEMS],
    "sorted": lambda value: sorted(value),
    "len": lambda value: len(value),
    "sum": lambda value, start=0: sum(value, start),
    "min": lambda *values: min(*values),
    "max": lambda *values: max(*values),
    "abs": lambda value: abs(value),
    "divmod": lambda a, b: list(divmod(a, b)),
    "hex": lambda value: hex(value),
    "str.maketrans": lambda *values: str.maketrans(*values),
    "bytes.maketrans": lambda a, b: bytes.maketrans(a, b),
    "str.join": lambda by, parts: by.join(parts),
    "dict": lambda value: dict(value) if isinstance(value, dict) else {k: v for k, v in value},
    "list": lambda value: list(value),
    "tuple": lambda value: list(value),
    "reversed": lambda value: list(value)[::-1],
    "int": lambda value, base=10: int(value, base) if isinstance(value, str) else value,
    "base64.b64decode": lambda value, *_: base64.b64decode(_bytes(value)),
    "base64.urlsafe_b64decode": lambda value: base64.urlsafe_b64decode(_bytes(value)),
    "base64.b32decode": lambda value, *_: base64.b32decode(_bytes(value)),
    "base64.b16decode": lambda value, *_: base64.b16decode(_bytes(value)),
    "base64.b85decode": lambda value: base64.b85decode(_bytes(value)),
    "base64.decodebytes": lambda value: base64.b64decode(_bytes(value)),
    "binascii.unhexlify": lambda value: binascii.unhexlify(_bytes(value)),
    "binascii.a2b_base64": lambda value: binascii.a2b_base64(_bytes(value)),
    "bytes.fromhex": lambda value: bytes.fromhex(value),
    "bytearray.fromhex": lambda value: bytes.fromhex(value),
    "codecs.decode": _rot,
    "codecs.encode": _rot,
    "zlib.decompress": lambda value, *_: _inflate(value),
    "shutil.which": lambda value, *_: ORACLE if value == "reference" else None,
    "os.environ.get": lambda _, default=None: default,
    "os.getenv": lambda _, default=None: default,
    "os.fspath": lambda value: value,
    "os.path.expanduser": lambda value: value,
    "os.path.normpath": lambda value: posixpath.normpath(value),
    "os.path.abspath": lambda value: value,
    "os.path.realpath": lambda value: value,
    **dict.fromkeys(_JOINS, _path),
}

_WHOLE: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
    ast.RShift: operator.rshift,
}
_COUNTING = frozenset([ast.Sub, ast.BitXor, ast.BitAnd, ast.BitOr, ast.FloorDiv, ast.LShift, ast.RShift])
"""What only whole numbers are given to."""
_TESTS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FOLDS: dict[type[ast.AST], Callable[[Folder, Any, int], Value | None]] = {
    ast.Name: Folder._name,
    ast.JoinedStr: Folder._joined,
    ast.BinOp: Folder._binary,
    ast.UnaryOp: Folder._unary,
    ast.List: Folder._list,
    ast.Tuple: Folder._list,
    ast.Set: Folder._list,
    ast.Dict: Folder._dict,
    ast.Subscript: Folder._subscript,
    ast.Call: Folder._call,
    ast.Attribute: Folder._attribute,
    ast.GeneratorExp: Folder._comprehension,
    ast.ListComp: Folder._comprehension,
    ast.NamedExpr: Folder._named,
    ast.IfExp: Folder._either,
    ast.BoolOp: Folder._chosen,
    ast.Starred: Folder._starred,
}
"""How each kind of expression is folded; all others are not known."""
