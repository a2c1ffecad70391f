"""Values and names of expressions in Go, Rust, Java and JavaScript, as far as constants and imports tell.

Folds string building (sums, formats, joins, reversals, character lists, base64, hex) and resolves what a function's
name stands for through imports and aliases. Nothing is run; an answer that is not certain is None, or `UNKNOWN` for
the part of a string that is not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from detect import trees
from detect.code_tables import (
    FOLDED,
    FORMATS,
    IMPORT_CALLS,
    INNER,
    JAVA_CLASSES,
    JOINED_PATHS,
    MEMBERS,
    OF_FIRST,
    OF_LIST,
    RUST_TYPES,
    SAME,
    STRINGS,
)
from detect.paths import UNKNOWN
from detect.shell_expand import unescape

if TYPE_CHECKING:
    from tree_sitter import Node

Value = str | int | list
_FUNCTIONS = frozenset(
    [
        *JOINED_PATHS,
        *FORMATS,
        *OF_LIST,
        *OF_FIRST,
        "atob",
        "Buffer.from",
        "Uint8Array.from",
        "Uint8Array",
        "strings.Join",
        "strings.ReplaceAll",
        "strings.Replace",
        "String.join",
        "String.fromCharCode",
        "StringBuilder",
        "StringBuffer",
        "String.new",
    ]
)
"""Functions whose value can be told from their arguments, besides decoders."""
Callee = tuple[str | None, str, "Node | None", "list[Node]"]
Shape = tuple["Node | None", str, "Node | None", "list[Node]"]
MAX_TEXT = 65536
MAX_DEPTH = 40
MAX_ARGUMENTS = 64
_UNICODE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_FORM = re.compile(r"%[-+#0-9.$]*[a-zA-Z]|%%")
_BRACES = re.compile(r"\{([^{}]*)\}")


class Expressions:
    """The expressions of one piece of code; the reader fills `names` and `aliases` as it meets assignments."""

    def __init__(self, data: bytes, language: str, spend: Callable[[int], None]) -> None:
        self.data = data
        self.language = language
        self.spend = spend
        self.names: dict[str, Value] = {}
        self.aliases: dict[str, str] = {}
        self.packages: list[str] = []
        """What `import . "x"` and `use x::*` opened."""
        self.settled = False
        """Set when all assignments have been seen: from then on, what was found out about a call stays."""
        self.role = trees.roles(language, FOLDED).get
        """What a kind of node is, by its number."""
        self._shapes: dict[int, Shape] = {}
        self._callees: dict[int, Callee] = {}
        self._values: dict[int, Value | None] = {}

    def source(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("latin-1")

    # --- names -----------------------------------------------------------------------------------------------------

    def dotted(self, node: Node | None, depth: int = 0) -> str | None:
        """What an expression stands for, by its full name; `()` marks the result of a call."""
        if node is None or depth > MAX_DEPTH:
            return None
        role = self.role(node.kind_id)
        if role == "name":
            return self._name(self.source(node))
        self.spend(2)
        if role == "member":
            owner_field, name_field = MEMBERS[node.type]
            owner = self.dotted(node.child_by_field_name(owner_field), depth + 1)
            name = node.child_by_field_name(name_field) if owner is not None else None
            if owner is None or name is None:
                return None
            return self._member(owner, self.source(name))
        if role == "call":
            name, _, _, arguments = self.callee(node, depth + 1)
            if name is None:
                return None
            if arguments and IMPORT_CALLS.fullmatch(name):
                module = self.fold(arguments[0], depth + 1)
                return module.removeprefix("node:") if isinstance(module, str) else None
            return name if node.type in ("object_creation_expression", "new_expression") else f"{name}()"
        if role in ("scoped", "scoped type"):
            head, *rest = re.sub(r"\s|::<.*>$", "", self.source(node)).replace("::", ".").split(".")
            return ".".join([self._name(head), *rest])
        if role == "subscript":
            owner = self.dotted(node.child_by_field_name("object"), depth + 1)
            key = self.fold(node.child_by_field_name("index"), depth + 1)
            return self._member(owner, key) if owner is not None and isinstance(key, str) else None
        if role == "generic":
            return self.dotted(node.child_by_field_name("function") or node.named_children[0], depth + 1)
        if role == "inner":
            if node.type == "composite_literal":
                return self.dotted(node.child_by_field_name("type"), depth + 1)
            return self.dotted(_inner(node), depth + 1)
        return None

    def _name(self, name: str) -> str:
        known = self.aliases.get(name)
        if known is not None:
            return known
        if self.language == "java":
            return JAVA_CLASSES.get(name, name)
        if self.language == "rust" and name in RUST_TYPES and RUST_TYPES[name].rpartition(".")[0] in self.packages:
            return RUST_TYPES[name]
        if self.language == "go" and self.packages and name[:1].isupper():
            return f"{self.packages[0]}.{name}"
        return name

    def _member(self, owner: str, name: str) -> str:
        if owner in ("globalThis", "global", "window", "self") and self.language == "javascript":
            return self._name(name)
        return f"{owner}.{name}"

    def callee(self, node: Node, depth: int = 0) -> Callee:
        """Of a call: the full name, the last part of it, the object it is called on, and the arguments."""
        found = self._callees.get(node.id)
        if found is None:
            found = self._callee(node, depth)
            if self.settled:
                self._callees[node.id] = found
        return found

    def _callee(self, node: Node, depth: int) -> Callee:
        function, last, owner, given = self.shape(node)
        if function is None:
            if owner is None:
                return self.aliases.get(last, last) or None, last, None, given
            before = self.dotted(owner, depth + 1)
            return (f"{before}.{last}" if before is not None else None), last, owner, given
        if function.type == "subscript_expression":
            key = self.fold(function.child_by_field_name("index"), depth + 1)
            last = key if isinstance(key, str) else ""
        return self.dotted(function, depth + 1), last, owner, given

    def shape(self, node: Node) -> Shape:
        """Of a call, what no name changes: the function, the last part of its name, the object, the arguments.

        There is no function where the object and the last part are all that there is.
        """
        found = self._shapes.get(node.id)
        if found is None:
            found = self._shapes[node.id] = self._shape(node)
        return found

    def _shape(self, node: Node) -> Shape:
        field = node.child_by_field_name
        arguments = field("arguments")
        given = arguments.named_children[:MAX_ARGUMENTS] if arguments is not None else []
        if arguments is not None and self.role(arguments.kind_id) == "template":
            given = [arguments]
        if node.type == "method_invocation":
            name = field("name")
            return None, self.source(name) if name is not None else "", field("object"), given
        function = field("function") or field("constructor") or field("type")
        if function is None:
            return None, "", None, given
        role = self.role(function.kind_id)
        if role == "generic" and function.type == "generic_function":
            function = function.child_by_field_name("function") or function
            role = self.role(function.kind_id)
        if role == "name":
            return function, self.source(function), None, given
        if role == "member":
            owner_field, name_field = MEMBERS[function.type]
            name = function.child_by_field_name(name_field)
            last = self.source(name) if name is not None else ""
            return function, last, function.child_by_field_name(owner_field), given
        if role == "scoped":
            return function, self.source(function).rpartition("::")[2], None, given
        if role == "subscript":
            return function, "", function.child_by_field_name("object"), given
        return function, "", None, given

    # --- values ----------------------------------------------------------------------------------------------------

    def text(self, node: Node | None) -> str | None:
        value = self.fold(node)
        return value if isinstance(value, str) else None

    def fold(self, node: Node | None, depth: int = 0) -> Value | None:
        if node is None or depth > MAX_DEPTH:
            return None
        role = self.role(node.kind_id)
        if role is None:
            return None
        if role == "name":
            return self.names.get(self.source(node)) if self.names else None
        self.spend(2)
        if role == "literal":
            return self._literal(self.source(node))
        if role == "call":
            if node.id in self._values:
                return self._values[node.id]
            value = self._call(node, depth)
            if self.settled:
                self._values[node.id] = value
            return value
        if role in ("member", "scoped"):
            if self.language not in ("java", "rust"):
                return None
            return self.names.get(re.split(r"\.|::", self.source(node)[-200:])[-1])
        if role == "binary":
            return self._sum(self.operands(node), depth) if operator(node) == "+" else None
        if role == "inner":
            return self.fold(_inner(node), depth + 1)
        if role == "number":
            return _number(self.source(node))
        if role == "template":
            return self._template(node, depth)
        if role == "list":
            return [self.fold(child, depth + 1) for child in node.named_children[:512]]
        return self._macro(node) if role == "macro" else None

    def operands(self, node: Node) -> list[Node]:
        """What a chain of `+` adds up, in order; long chains nest to the left."""
        parts: list[Node] = []
        current: Node | None = node
        while current is not None and current.type == "binary_expression" and operator(current) == "+":
            self.spend(2)
            right = current.child_by_field_name("right")
            if right is not None:
                parts.append(right)
            current = current.child_by_field_name("left")
        if current is not None:
            parts.append(current)
        return parts[::-1]

    def _sum(self, parts: list[Node], depth: int) -> Value | None:
        values = [self.fold(part, depth + 1) for part in parts]
        if all(isinstance(value, int) for value in values):
            return sum(value for value in values if isinstance(value, int))
        if not any(isinstance(value, str) for value in values):
            return None
        return "".join(UNKNOWN if v is None or isinstance(v, list) else str(v) for v in values)[:MAX_TEXT]

    def _literal(self, source: str) -> str:
        source = source.lstrip("brc") if self.language == "rust" else source
        if source.startswith("#") or (self.language == "rust" and source.endswith("#")):
            source = source.strip("#")
            return source[1:-1]
        if source.startswith("`") and self.language == "go":
            return source[1:-1]
        text = source[3:-3] if source.startswith('"""') else source[1:-1]
        if "\\" not in text:
            return text
        return unescape(_UNICODE.sub(lambda m: chr(min(int(m.group(1), 16), 255)), text).replace("\\\n", ""))

    def _template(self, node: Node, depth: int) -> str:
        text = ""
        for child in node.named_children[:256]:
            if child.type == "template_substitution":
                value = self.fold(child.named_children[0], depth + 1) if child.named_children else None
                text += UNKNOWN if value is None or isinstance(value, list) else str(value)
            else:
                text += unescape(self.source(child))
        return text[:MAX_TEXT]

    def _call(self, node: Node, depth: int) -> Value | None:
        name, last, owner, given = self.callee(node, depth + 1)
        known = name is not None and (name in _FUNCTIONS or "encoding/" in name or ".get" in name)
        value = None if owner is None else self.fold(owner, depth + 1)
        if not known and value is None:
            return None
        values = [self.fold(argument, depth + 1) for argument in given]
        try:
            if known and name is not None and (result := self._function(name, values)) is not None:
                return result
            return None if value is None else _method(value, last, values)
        except (ValueError, binascii.Error, TypeError, IndexError):
            return None

    def _function(self, name: str, values: list[Value | None]) -> Value | None:
        first = values[0] if values else None
        second = values[1] if len(values) > 1 else None
        if name in ("atob", "Buffer.from", "Uint8Array.from", "Uint8Array") or "encoding/" in name or ".get" in name:
            if isinstance(first, list):
                return first
            if isinstance(first, str):
                coded = (
                    "base64"
                    if name == "atob" or second == "base64" or "base64" in name.lower()
                    else "hex"
                    if second == "hex" or name == "encoding/hex.DecodeString"
                    else ""
                )
                if coded and UNKNOWN not in first:
                    return _decode(first, coded)
                if name == "Buffer.from":
                    return first
        if name in JOINED_PATHS:
            return "/".join(UNKNOWN if not isinstance(v, str) else v for v in values)[:MAX_TEXT] if values else None
        if name in FORMATS and isinstance(first, str):
            return _format(first, values[1:])
        if name == "strings.Join" and isinstance(first, list):
            return _joined(first, second if isinstance(second, str) else "")
        if name in ("strings.ReplaceAll", "strings.Replace") and all(isinstance(v, str) for v in values[:3]):
            return str(first).replace(str(second), str(values[2]))[:MAX_TEXT]
        if name == "String.join" and isinstance(first, str):
            parts = second if isinstance(second, list) else values[1:]
            return _joined(parts, first)
        if name == "String.fromCharCode":
            return _characters(first if isinstance(first, list) else values)
        if name in OF_LIST:
            return first if len(values) == 1 and isinstance(first, list) else list(values)
        if name in ("StringBuilder", "StringBuffer", "String.new") and not values:
            return ""
        if name in OF_FIRST and values:
            if isinstance(first, list) and ("tring" in name or name.endswith("utf8")):
                return _characters(first)
            return first
        return None

    def _macro(self, node: Node) -> Value | None:
        name = self.source(node).partition("!")[0]
        tree = next((child for child in node.named_children if child.type == "token_tree"), None)
        if tree is None:
            return None
        tokens = tree.named_children[:512]
        if name == "concat":
            return "".join(str(self.fold(token)) for token in tokens if self.fold(token) is not None)
        if name == "vec":
            return [self.fold(token) for token in tokens]
        if name != "format" or not tokens or tokens[0].type not in STRINGS:
            return None
        values = [self.fold(token) for token in tokens[1:]]

        def slot(match: re.Match[str]) -> str:
            inside = match.group(1).partition(":")[0]
            if inside.isidentifier():
                value = self.names.get(inside)
            elif inside.isdigit():
                value = values[int(inside)] if int(inside) < len(values) else None
            else:
                value = values.pop(0) if values else None
            return UNKNOWN if value is None or isinstance(value, list) else str(value)

        return _BRACES.sub(slot, self._literal(self.source(tokens[0])))[:MAX_TEXT]


def _method(value: Value, name: str, values: list[Value | None]) -> Value | None:
    """A method of a known value."""
    first = values[0] if values else None
    if isinstance(value, list):
        if name in ("join", "concat") and value:
            return _joined(value, first if isinstance(first, str) else "," if name == "join" and not values else "")
        if name in ("reverse", "rev"):
            return value[::-1]
        return value if name in SAME else None
    if not isinstance(value, str):
        return None
    if name in SAME:
        return value
    if name in ("concat", "append", "join") and values:
        more = "".join(UNKNOWN if not isinstance(v, str | int) else str(v) for v in values)
        if name == "join":
            return more if more.startswith("/") else f"{value.rstrip('/')}/{more}"
        return (value + more)[:MAX_TEXT]
    if name in ("reverse", "rev"):
        return value[::-1]
    if name == "split" and isinstance(first, str):
        return list(value)[:512] if not first else value.split(first)[:512]
    if name in ("replace", "replaceAll") and isinstance(first, str) and isinstance(values[1], str):
        return value.replace(first, values[1])[:MAX_TEXT]
    if name in ("toLowerCase", "to_lowercase", "to_ascii_lowercase"):
        return value.lower()
    if name in ("substring", "slice", "substr") and all(isinstance(v, int) for v in values):
        numbers = [v for v in values if isinstance(v, int)]
        return value[numbers[0] : numbers[1] if len(numbers) > 1 else None]
    if name == "formatted":
        return _format(value, values)
    return None


def _inner(node: Node) -> Node | None:
    field = INNER[node.type]
    inner = node.child_by_field_name(field) if field else None
    return inner or (node.named_children[-1] if node.named_children else None)


def operator(node: Node) -> str:
    found = node.child_by_field_name("operator")
    return found.type if found is not None else ""


def _number(source: str) -> int | None:
    source = re.sub(r"(?<=[0-9a-fA-F])(?:u8|i32|u32|usize|i64|L|n)$", "", source.replace("_", ""))
    try:
        return int(source, 0) if len(source) < 20 else None
    except ValueError:
        return None


def _joined(parts: list, separator: str) -> str:
    return separator.join(UNKNOWN if not isinstance(part, str | int) else str(part) for part in parts)[:MAX_TEXT]


def _characters(values: list) -> str | None:
    if any(not isinstance(value, int | str) for value in values):
        return None
    return "".join(chr(value & 255) if isinstance(value, int) else value for value in values)


def _decode(text: str, coded: str) -> str:
    if coded == "hex":
        return bytes.fromhex(text).decode("latin-1")
    text = text.replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")


def _format(form: str, values: list[Value | None]) -> str:
    left = list(values)

    def slot(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        value = left.pop(0) if left else None
        if isinstance(value, int) and match.group()[-1] == "c":
            return chr(value & 255)
        return str(value) if isinstance(value, str | int) else UNKNOWN

    return _FORM.sub(slot, form)[:MAX_TEXT]
