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
import posixpath
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detect.paths import ORACLE, UNKNOWN

Value = str | bytes | int | list

MAX_DEPTH = 60
MAX_LENGTH = 64 * 1024
MAX_ITEMS = 1024

_TEXT_METHODS = frozenset(
    ["lower", "upper", "strip", "lstrip", "rstrip", "title", "swapcase", "capitalize", "casefold"]
)


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
        self._values: dict[int, Value | None] | None = None

    def text(self, node: ast.expr) -> str | None:
        """`node` as a string (paths and bytes count as strings); parts not known are `UNKNOWN`."""
        value = self.fold(node)
        if isinstance(value, bytes):
            return value.decode("latin-1")
        return value if isinstance(value, str) else None

    def settle(self) -> None:
        """All constants are known: from now on, what an expression was found to be stays."""
        self._values = {}

    def fold(self, node: ast.AST, depth: int = 0) -> Value | None:
        function = _FOLDS.get(type(node))
        if function is None:
            return None
        values = self._values
        if values is not None and id(node) in values:
            return values[id(node)]
        self.spend(5)
        if depth > MAX_DEPTH:
            return None
        try:
            value = function(self, node, depth + 1)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, zlib.error, binascii.Error):
            value = None
        if isinstance(value, str | bytes):
            value = None if len(value) > MAX_LENGTH else value
        elif isinstance(value, list) and len(value) > MAX_ITEMS:
            value = None
        if values is not None:
            values[id(node)] = value
        return value

    def _constant(self, node: ast.Constant, depth: int) -> Value | None:
        value = node.value
        return value if isinstance(value, str | bytes) or type(value) is int else None

    def _name(self, node: ast.Name, depth: int) -> Value | None:
        return self.names.get(node.id)

    def _joined(self, node: ast.JoinedStr, depth: int) -> Value | None:
        return "".join(self._part(part, depth) for part in node.values)

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value | None:
        value = self.fold(node.operand, depth) if isinstance(node.op, ast.USub) else None
        return -value if isinstance(value, int) else None

    def _list(self, node: ast.List | ast.Tuple | ast.Set, depth: int) -> Value | None:
        items = [self.fold(item, depth) for item in node.elts[:MAX_ITEMS]]
        return [UNKNOWN if item is None else item for item in items]

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
        return self.names.get(dotted) if dotted else None

    def _either(self, node: ast.IfExp, depth: int) -> Value | None:
        return self.fold(node.body, depth) or self.fold(node.orelse, depth)

    def _named(self, node: ast.NamedExpr, depth: int) -> Value | None:
        return self.fold(node.value, depth)

    def _part(self, part: ast.expr, depth: int) -> str:
        value = self.fold(part.value if isinstance(part, ast.FormattedValue) else part, depth)
        return str(value) if isinstance(value, str | int) else UNKNOWN

    def _binary(self, node: ast.BinOp, depth: int) -> Value | None:
        left, right = self.fold(node.left, depth), self.fold(node.right, depth)
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
        if isinstance(left, int) and isinstance(right, int):
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.BitXor):
                return left ^ right
            if isinstance(node.op, ast.Mult) and max(abs(left), abs(right)) < 1 << 31:
                return left * right
        if isinstance(node.op, ast.Mult) and isinstance(left, str | bytes | list) and isinstance(right, int):
            return left * right if len(left) * right <= MAX_LENGTH else None
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> Value | None:
        value = self.fold(node.value, depth)
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
        """`[f(x) for x in <known list>]` with one plain loop variable."""
        if len(node.generators) != 1 or node.generators[0].ifs or not isinstance(node.generators[0].target, ast.Name):
            return None
        source = self.fold(node.generators[0].iter, depth)
        if not isinstance(source, str | bytes | list) or len(source) > MAX_ITEMS:
            return None
        name = node.generators[0].target.id
        inner = Folder({}, self.dotted, self.spend)
        results: list = []
        for item in source:
            inner.names = {**self.names, name: item}
            value = inner.fold(node.elt, depth)
            if value is None:
                return None
            results.append(value)
        return results

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        args = [self.fold(arg, depth) for arg in node.args[:32]]
        dotted = self.dotted(node.func)
        if dotted is not None and (function := _FUNCTIONS.get(dotted)) is not None:
            if dotted in _JOINS:
                return posixpath.join(*(a if isinstance(a, str) else UNKNOWN for a in args)) if args else None
            return None if None in args else function(*args)
        if dotted in ("map", "builtins.map") and len(node.args) == 2 and isinstance(args[1], str | bytes | list):
            mapped = _FUNCTIONS.get(self.dotted(node.args[0]) or "")
            return None if mapped is None else [mapped(item) for item in list(args[1])[:MAX_ITEMS]]
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, args, depth)
        return None

    def _method(self, node: ast.Call, func: ast.Attribute, args: list[Value | None], depth: int) -> Value | None:
        owner = self.fold(func.value, depth)
        name = func.attr
        if isinstance(owner, str):
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
            if name == "translate" or None in args:
                return None
            if name == "replace":
                return _replace(owner, *args)
            if name in _TEXT_METHODS or name in ("removeprefix", "removesuffix"):
                return getattr(owner, name)(*args)
        if isinstance(owner, bytes):
            if name == "decode":
                return owner.decode("latin-1")
            if name == "hex":
                return owner.hex()
            if name == "replace" and None not in args:
                return _replace(owner, *args)
            if name in _TEXT_METHODS and None not in args:
                return getattr(owner, name)(*args)
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

_FOLDS: dict[type[ast.AST], Callable[[Folder, Any, int], Value | None]] = {
    ast.Constant: Folder._constant,
    ast.Name: Folder._name,
    ast.JoinedStr: Folder._joined,
    ast.BinOp: Folder._binary,
    ast.UnaryOp: Folder._unary,
    ast.List: Folder._list,
    ast.Tuple: Folder._list,
    ast.Set: Folder._list,
    ast.Subscript: Folder._subscript,
    ast.Call: Folder._call,
    ast.Attribute: Folder._attribute,
    ast.GeneratorExp: Folder._comprehension,
    ast.ListComp: Folder._comprehension,
    ast.NamedExpr: Folder._named,
    ast.IfExp: Folder._either,
}
"""How each kind of expression is folded; all others are not known."""
