"""Runs small C programs by hand: numbers, arrays, texts, pointers, structs, streams and files of the workspace.

The functions of a unit that compiles go in; what `main` prints and its status come out. Whatever else C knows, and
whatever it leaves undefined, raises `Unsure`. Of C++, programs that only print are known too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from detect.script_c_library import Leaves, call
from detect.script_c_outside import Outside
from detect.script_c_values import (
    CHAR,
    DOUBLE,
    INT,
    KINDS,
    LONG,
    SIZE,
    Pointer,
    Raw,
    Stream,
    Type,
    fitted,
    literal,
    plain,
    size_of,
    text_at,
)
from detect.script_world import Unsure

if TYPE_CHECKING:
    from tree_sitter import Node

    from detect.script_player import Player

MAX_STEPS = 50_000
MAX_CELLS = 1 << 16


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def text_of(node: Node) -> str:
    return (node.text or b"").decode()


class _Returns(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class _Breaks(Exception):
    pass


class _Continues(Exception):
    pass


Scope = dict[str, tuple[list, Type]]
"""Variables: a cell for each, and what kind it is."""


class Program:
    """A unit that was compiled, to be run with arguments and standard input."""

    def __init__(self, functions: Mapping[str, Node], root: Node) -> None:
        self.functions = functions
        self.root = root

    def run(self, player: Player, words: Sequence[str]) -> tuple[str, str, int]:
        """Standard output, standard error, status. Raises Unsure."""
        machine = Machine(self, player)
        try:
            return machine.run(words)
        except (RecursionError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError):
            raise Unsure from None
        finally:
            player.shared.steps += machine.steps // 12


class Machine(Outside):
    def __init__(self, program: Program, player: Player) -> None:
        self.functions = program.functions
        self.root = program.root
        super().__init__(player)
        self.steps = 0
        self.depth = 0
        self.cells = 0
        """Elements of all arrays that there were."""
        self.structs: dict[str, dict[str, Type]] = {}
        self.names: dict[str, Type] = {}
        self.globals: Scope = {
            "stdin": ([self.stdin], Type("pointer", of=Type("file"))),
            "stdout": ([self.stdout], Type("pointer", of=Type("file"))),
            "stderr": ([self.stderr], Type("pointer", of=Type("file"))),
            "NULL": ([0], Type("pointer", of=Type("void"))), "EOF": ([-1], INT),
            "true": ([1], INT), "false": ([0], INT),
            "EXIT_SUCCESS": ([0], INT), "EXIT_FAILURE": ([1], INT), "INT_MAX": ([2**31 - 1], INT),
            "BUFSIZ": ([8192], INT),
        }  # fmt: skip

    def run(self, words: Sequence[str]) -> tuple[str, str, int]:
        for node in self.root.named_children:
            if node.type in ("declaration", "struct_specifier", "type_definition", "preproc_def"):
                self.outside(node)
        given: list[tuple[object, Type]] = [
            (len(words), INT),
            (Pointer([*(literal(word) for word in words), 0], 0, Type("pointer", of=CHAR)), Type("pointer")),
        ]
        try:
            value = self.call("main", given)
            status = value if isinstance(value, int) else 0
        except Leaves as leaves:
            status = leaves.status
        self.flush()
        self.player.stdin = self.stdin.rest
        return self.out, self.err, status & 255

    # --- declarations -----------------------------------------------------------------------------------------------

    def outside(self, node: Node) -> None:
        if node.type == "preproc_def":
            value = node.child_by_field_name("value")
            if value is None or not re.fullmatch(r"\s*\d{1,9}\s*", text_of(value)):
                raise Unsure
            self.globals[text_of(node.child_by_field_name("name"))] = ([int(text_of(value))], INT)  # type: ignore[arg-type]
        elif node.type == "type_definition":
            kind = self.type_of(node.child_by_field_name("type"))
            name = node.child_by_field_name("declarator")
            if name is None or name.type != "type_identifier":
                raise Unsure
            self.names[text_of(name)] = kind
        elif node.type == "struct_specifier":
            self.type_of(node)
        else:
            self.declaration(node, self.globals)

    def type_of(self, node: Node | None) -> Type:
        if node is None:
            raise Unsure
        if node.type == "struct_specifier":
            named = node.child_by_field_name("name")
            body = node.child_by_field_name("body")
            name = text_of(named) if named is not None else f"{node.start_byte}"
            if body is not None:
                fields: dict[str, Type] = {}
                self.structs[name] = fields
                for field in body.named_children:
                    if field.type != "field_declaration":
                        continue
                    base = self.type_of(field.child_by_field_name("type"))
                    for declarator in field.children_by_field_name("declarator"):
                        title, kind = self.declared(declarator, base, self.globals)
                        fields[title] = kind
            return Type("struct", name=name)
        text = " ".join(text_of(node).split())
        if text in self.names:
            return self.names[text]
        if text in self.structs:
            return Type("struct", name=text)
        text = text.removeprefix("std::")
        if text not in KINDS:
            raise Unsure
        return KINDS[text]

    def declared(self, node: Node, base: Type, scope: Scope) -> tuple[str, Type]:
        """The name that a declarator declares, and its kind."""
        if node.type in ("identifier", "field_identifier", "type_identifier"):
            return text_of(node), base
        inner = node.child_by_field_name("declarator")
        if node.type == "pointer_declarator" and inner is not None:
            return self.declared(inner, Type("pointer", of=base), scope)
        if node.type == "array_declarator" and inner is not None:
            size = node.child_by_field_name("size")
            length = -1 if size is None else self.number(size, scope)
            return self.declared(inner, Type("array", of=base, length=length), scope)
        raise Unsure

    def blank(self, kind: Type, *, zero: bool) -> object:
        if kind.kind == "array":
            self.cells += kind.length
            if kind.of is None or kind.length < 0 or self.cells > MAX_CELLS:
                raise Unsure
            return [self.blank(kind.of, zero=zero) for _ in range(kind.length)]
        if kind.kind == "struct":
            self.cells += len(self.structs[kind.name])
            if self.cells > MAX_CELLS:
                raise Unsure
            return {name: self.blank(inner, zero=zero) for name, inner in self.structs[kind.name].items()}
        return (0.0 if kind.kind == "double" else 0) if zero else None

    def declaration(self, node: Node, scope: Scope) -> None:
        base = self.type_of(node.child_by_field_name("type"))
        static = any(text_of(c) == "static" for c in node.children if c.type == "storage_class_specifier")
        if static and scope is not self.globals:
            raise Unsure
        for child in node.children_by_field_name("declarator"):
            value = None
            if child.type == "init_declarator":
                value = child.child_by_field_name("value")
                child = child.child_by_field_name("declarator") or child
            if child.type == "function_declarator":
                continue
            name, kind = self.declared(child, base, scope)
            if value is not None:
                kind, made = self.initial(value, kind, scope)
                scope[name] = ([made], kind)
            else:
                scope[name] = ([self.blank(kind, zero=scope is self.globals)], kind)

    def initial(self, node: Node, kind: Type, scope: Scope) -> tuple[Type, object]:
        if node.type == "initializer_list":
            items = [child for child in node.named_children if child.type != "comment"]
            if any(item.type == "initializer_pair" for item in items):
                raise Unsure
            if kind.kind == "struct":
                fields = list(self.structs[kind.name].items())
                made = self.blank(kind, zero=True)
                assert isinstance(made, dict)
                for (name, inner), item in zip(fields, items, strict=False):
                    made[name] = self.initial(item, inner, scope)[1]
                return kind, made
            if kind.kind != "array" or kind.of is None:
                raise Unsure
            kind = Type("array", of=kind.of, length=len(items)) if kind.length < 0 else kind
            cells = self.blank(kind, zero=True)
            assert isinstance(cells, list)
            for number, item in enumerate(items):
                cells[number] = self.initial(item, kind.of, scope)[1]  # type: ignore[arg-type]
            return kind, cells
        if kind.kind == "array" and kind.of == CHAR and node.type in ("string_literal", "concatenated_string"):
            pointer, _ = self.value(node, scope)
            assert isinstance(pointer, Pointer) and isinstance(pointer.cells, list)
            size = len(pointer.cells) if kind.length < 0 else kind.length
            if size > MAX_CELLS:
                raise Unsure
            return Type("array", of=CHAR, length=size), (pointer.cells + [0] * size)[:size]
        return kind, fitted(self.decayed(*self.value(node, scope))[0], kind)

    # --- functions and statements -------------------------------------------------------------------------------------

    def call(self, name: str, given: list[tuple[object, Type]]) -> object:
        function = self.functions[name]
        self.depth += 1
        if self.depth > 40:
            raise Unsure
        scope: Scope = {}
        declarator = next(n for n in walk(function) if n.type == "function_declarator")
        parameters = [p for p in declarator.children[1].children if p.type == "parameter_declaration"]
        values = list(given)
        for parameter in parameters:
            inner = parameter.child_by_field_name("declarator")
            if inner is None:
                continue
            title, kind = self.declared(inner, self.type_of(parameter.child_by_field_name("type")), scope)
            kind = Type("pointer", of=kind.of) if kind.kind == "array" else kind
            scope[title] = ([fitted(values.pop(0)[0], kind)], kind)
        if values and name != "main":
            raise Unsure
        body = function.child_by_field_name("body")
        try:
            assert body is not None
            self.statement(body, scope)
        except _Returns as returns:
            kind = self.type_of(function.child_by_field_name("type"))
            outer = function.child_by_field_name("declarator")
            while outer is not None and outer.type == "pointer_declarator":
                kind, outer = Type("pointer", of=kind), outer.child_by_field_name("declarator")
            return returns.value if kind.kind in ("void", "pointer") else fitted(returns.value, kind)
        finally:
            self.depth -= 1
        return 0

    def statement(self, node: Node, scope: Scope) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        kind = node.type
        if kind == "compound_statement":
            inside = dict(scope)
            for child in node.named_children:
                self.statement(child, inside)
        elif kind == "declaration":
            self.declaration(node, scope)
        elif kind == "expression_statement":
            for child in node.named_children:
                self.value(child, scope)
        elif kind == "return_statement":
            inner = [child for child in node.named_children if child.type != "comment"]
            raise _Returns(self.decayed(*self.value(inner[0], scope))[0] if inner else 0)
        elif kind == "if_statement":
            then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            if self.true(node.child_by_field_name("condition"), scope):
                assert then is not None
                self.statement(then, scope)
            elif other is not None:
                self.statement(other.named_children[0] if other.type == "else_clause" else other, scope)
        elif kind in ("while_statement", "for_statement", "do_statement"):
            self.loop(node, dict(scope))
        elif kind == "switch_statement":
            self.switch(node, dict(scope))
        elif kind == "break_statement":
            raise _Breaks
        elif kind == "continue_statement":
            raise _Continues
        elif kind != "comment":
            raise Unsure

    def loop(self, node: Node, scope: Scope) -> None:
        if node.type == "for_statement" and (first := node.child_by_field_name("initializer")) is not None:
            if first.type == "declaration":
                self.declaration(first, scope)
            else:
                self.value(first, scope)
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        update = node.child_by_field_name("update")
        assert body is not None
        first_turn = node.type == "do_statement"
        while first_turn or condition is None or self.true(condition, scope):
            first_turn = False
            try:
                self.statement(body, scope)
            except _Breaks:
                return
            except _Continues:
                pass
            if update is not None:
                self.value(update, scope)

    def switch(self, node: Node, scope: Scope) -> None:
        wanted = self.number(node.child_by_field_name("condition"), scope)
        body = node.child_by_field_name("body")
        assert body is not None
        cases = [child for child in body.named_children if child.type == "case_statement"]
        values = [case.child_by_field_name("value") for case in cases]
        start = next((n for n, v in enumerate(values) if v is not None and self.number(v, scope) == wanted), None)
        start = next((n for n, v in enumerate(values) if v is None), None) if start is None else start
        try:
            for case in cases[start:] if start is not None else ():
                value = case.child_by_field_name("value")
                for child in case.named_children:
                    if child != value:
                        self.statement(child, scope)
        except _Breaks:
            pass

    # --- expressions --------------------------------------------------------------------------------------------------

    def true(self, node: Node | None, scope: Scope) -> bool:
        value, _ = self.decayed(*self.value(node, scope))
        return value != 0

    def number(self, node: Node | None, scope: Scope) -> int:
        value, _ = self.value(node, scope)
        if not isinstance(value, int):
            raise Unsure
        return value

    def decayed(self, value: object, kind: Type) -> tuple[object, Type]:
        """An array is a pointer to its first element wherever it is not taken whole."""
        if kind.kind == "array" and kind.of is not None and isinstance(value, list):
            return Pointer(value, 0, kind.of), Type("pointer", of=kind.of)
        return value, kind

    def place(self, node: Node | None, scope: Scope) -> Pointer:
        """Where a variable, an element or a field lies."""
        if node is None:
            raise Unsure
        if node.type == "identifier":
            cells, kind = self.variable(text_of(node), scope)
            return Pointer(cells, 0, kind)
        if node.type == "parenthesized_expression":
            return self.place(node.named_children[0], scope)
        if node.type == "subscript_expression":
            holder, kind = self.decayed(*self.value(node.child_by_field_name("argument"), scope))
            index = node.child_by_field_name("index") or node.named_children[1]
            return self.moved(holder, self.number(index, scope))
        if node.type == "pointer_expression" and node.children[0].type == "*":
            holder, _ = self.decayed(*self.value(node.child_by_field_name("argument"), scope))
            return self.moved(holder, 0)
        if node.type == "field_expression":
            argument = node.child_by_field_name("argument")
            name = text_of(node.child_by_field_name("field"))  # type: ignore[arg-type]
            if any(child.type == "->" for child in node.children):
                holder, _ = self.value(argument, scope)
                at = self.moved(holder, 0)
            else:
                at = self.place(argument, scope)
            fields = at.cells[at.at]  # type: ignore[index]
            if at.of.kind != "struct" or not isinstance(fields, dict):
                raise Unsure
            return Pointer(fields, name, self.structs[at.of.name][name])
        raise Unsure

    def moved(self, holder: object, by: int) -> Pointer:
        if not isinstance(holder, Pointer):
            raise Unsure
        if isinstance(holder.at, str):
            if by:
                raise Unsure
            return holder
        if not 0 <= holder.at + by <= len(holder.cells):
            raise Unsure
        return Pointer(holder.cells, holder.at + by, holder.of)

    def variable(self, name: str, scope: Scope) -> tuple[list, Type]:
        found = scope.get(name) or self.globals.get(name)
        if found is None:
            if name == "errno":
                return [self.errno], INT
            raise Unsure
        return found

    def read(self, at: Pointer) -> tuple[object, Type]:
        if isinstance(at.at, int) and at.at >= len(at.cells):
            raise Unsure
        value = at.cells[at.at]  # type: ignore[index]
        if value is None:
            raise Unsure  # what was never written
        return value, at.of

    def value(self, node: Node | None, scope: Scope) -> tuple[object, Type]:
        self.steps += 1
        if node is None or self.steps > MAX_STEPS:
            raise Unsure
        method = getattr(self, "_" + node.type, None)
        if method is None:
            raise Unsure
        return method(node, scope)

    def _number_literal(self, node: Node, scope: Scope) -> tuple[object, Type]:
        text = text_of(node)
        if re.fullmatch(r"\d+\.\d*|\d*\.\d+", text):
            return float(text), DOUBLE
        match = re.fullmatch(r"(0|[1-9]\d{0,18}|0[xX][0-9a-fA-F]{1,15})([uUlL]*)", text)
        if match is None:
            raise Unsure
        number = int(match[1], 0)
        return number, (LONG if "l" in match[2].lower() or number >= 1 << 31 else INT)

    def _char_literal(self, node: Node, scope: Scope) -> tuple[object, Type]:
        text = plain(text_of(node)[1:-1])
        if len(text) != 1:
            raise Unsure
        return ord(text), CHAR

    def _string_literal(self, node: Node, scope: Scope) -> tuple[object, Type]:
        self.steps += len(text_of(node)) // 64
        return literal(plain(text_of(node)[1:-1])), Type("pointer", of=CHAR)

    def _concatenated_string(self, node: Node, scope: Scope) -> tuple[object, Type]:
        if any(child.type != "string_literal" for child in node.named_children):
            raise Unsure
        text = "".join(plain(text_of(child)[1:-1]) for child in node.named_children)
        return literal(text), Type("pointer", of=CHAR)

    def _null(self, node: Node, scope: Scope) -> tuple[object, Type]:
        return 0, Type("pointer")

    def _true(self, node: Node, scope: Scope) -> tuple[object, Type]:
        return int(text_of(node) == "true"), INT

    _false = _true

    def _identifier(self, node: Node, scope: Scope) -> tuple[object, Type]:
        return self.read(self.place(node, scope))

    _subscript_expression = _field_expression = _identifier

    def _parenthesized_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        return self.value(next(child for child in node.named_children if child.type != "comment"), scope)

    _condition_clause = _parenthesized_expression

    def _pointer_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        if node.children[0].type == "*":
            return self._identifier(node, scope)
        at = self.place(node.child_by_field_name("argument"), scope)
        return at, Type("pointer", of=at.of)

    def _cast_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        described = node.child_by_field_name("type")
        assert described is not None
        kind = self.type_of(described.child_by_field_name("type"))
        if described.child_by_field_name("declarator") is not None:
            kind = Type("pointer", of=kind)
        value, _ = self.decayed(*self.value(node.child_by_field_name("value"), scope))
        return (0, kind) if kind.kind == "void" else (fitted(value, kind), kind)

    def _sizeof_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        described = node.child_by_field_name("type")
        if described is not None:
            if described.child_by_field_name("declarator") is not None:
                return 8, SIZE
            return size_of(self.type_of(described.child_by_field_name("type"))), SIZE
        inner = node.child_by_field_name("value")
        while inner is not None and inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        return size_of(self.place(inner, scope).of), SIZE

    def _conditional_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        chosen = "consequence" if self.true(node.child_by_field_name("condition"), scope) else "alternative"
        return self.value(node.child_by_field_name(chosen), scope)

    def _comma_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        self.value(node.child_by_field_name("left"), scope)
        return self.value(node.child_by_field_name("right"), scope)

    def _unary_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        value, kind = self.decayed(*self.value(node.child_by_field_name("argument"), scope))
        operator = node.children[0].type
        if operator == "!":
            return int(value == 0), INT
        if not isinstance(value, int | float) or (operator == "~" and isinstance(value, float)):
            raise Unsure
        kind = INT if kind.kind == "int" and kind.bits < 32 else kind
        return fitted({"-": lambda: -value, "+": lambda: value, "~": lambda: ~int(value)}[operator](), kind), kind

    def _binary_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        operator = node.child_by_field_name("operator")
        assert operator is not None
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator.type in ("&&", "||"):
            left = self.true(left_node, scope)
            if left != (operator.type == "&&"):
                return int(left), INT
            return int(self.true(right_node, scope)), INT
        if operator.type == "<<" and self.prints(node, scope):
            return 0, INT
        left, left_kind = self.decayed(*self.value(left_node, scope))
        right, right_kind = self.decayed(*self.value(right_node, scope))
        return self.work(operator.type, left, left_kind, right, right_kind)

    def work(
        self, operator: str, left: object, left_kind: Type, right: object, right_kind: Type
    ) -> tuple[object, Type]:
        if isinstance(left, Pointer | Stream | Raw) or isinstance(right, Pointer | Stream | Raw):
            return self.pointed(operator, left, left_kind, right, right_kind)
        if isinstance(left, float) or isinstance(right, float):
            kind = DOUBLE
        else:
            kind = max(
                (INT, left_kind, right_kind), key=lambda k: (k.bits, not k.signed) if k.kind == "int" else (0, 0)
            )
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise Unsure
        if operator in _COMPARED:
            if kind.kind == "int" and not kind.signed and (left < 0 or right < 0):
                raise Unsure
            return int(_COMPARED[operator](left, right)), INT
        if operator in ("/", "%") and kind.kind == "int":
            if not right:
                raise Unsure
            quotient = abs(int(left)) // abs(int(right)) * (1 if (left < 0) == (right < 0) else -1)
            return fitted(quotient if operator == "/" else int(left) - int(right) * quotient, kind), kind
        if operator in ("<<", ">>"):
            kind = left_kind if left_kind.bits > 32 else INT
            if not isinstance(left, int) or not isinstance(right, int) or not 0 <= right < kind.bits - 1:
                raise Unsure
        function = _WORKED.get(operator)
        if function is None:
            raise Unsure
        return fitted(function(left, right), kind), kind

    def pointed(
        self, operator: str, left: object, left_kind: Type, right: object, right_kind: Type
    ) -> tuple[object, Type]:
        if operator in ("==", "!="):
            same = left is right or (
                isinstance(left, Pointer) and isinstance(right, Pointer)
                and left.cells is right.cells and left.at == right.at
            )  # fmt: skip
            return int(same == (operator == "==")), INT
        if isinstance(left, Pointer) and isinstance(right, int) and operator in ("+", "-"):
            return self.moved(left, right if operator == "+" else -right), left_kind
        if isinstance(right, Pointer) and isinstance(left, int) and operator == "+":
            return self.moved(right, left), right_kind
        if not isinstance(left, Pointer) or not isinstance(right, Pointer) or left.cells is not right.cells:
            raise Unsure
        if not isinstance(left.at, int) or not isinstance(right.at, int):
            raise Unsure
        if operator == "-":
            return left.at - right.at, LONG
        return int(_COMPARED[operator](left.at, right.at)), INT

    def _assignment_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        operator = node.child_by_field_name("operator")
        assert operator is not None
        at = self.place(node.child_by_field_name("left"), scope)
        value, kind = self.decayed(*self.value(node.child_by_field_name("right"), scope))
        if operator.type != "=":
            before, of = self.read(at)
            value, _ = self.work(operator.type[:-1], before, of, value, kind)
        return self.store(at, value)

    def store(self, at: Pointer, value: object) -> tuple[object, Type]:
        if isinstance(at.at, int) and at.at >= len(at.cells):
            raise Unsure
        made = fitted(value, at.of)
        at.cells[at.at] = made  # type: ignore[index]
        return made, at.of

    def _update_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        at = self.place(node.child_by_field_name("argument"), scope)
        before, kind = self.read(at)
        first = node.children[0].type in ("++", "--")
        sign = "+" if any(child.type == "++" for child in node.children) else "-"
        after, _ = self.work(sign, before, kind, 1, INT)
        made, _ = self.store(at, after)
        return (made if first else before), kind

    def _call_expression(self, node: Node, scope: Scope) -> tuple[object, Type]:
        name = text_of(node.children[0]).removeprefix("std::")
        arguments = node.child_by_field_name("arguments")
        assert arguments is not None
        given = [
            self.decayed(*self.value(argument, scope))
            for argument in arguments.named_children
            if argument.type != "comment"
        ]
        if name in self.functions:
            kind = self.type_of(self.functions[name].child_by_field_name("type"))
            value = self.call(name, given)
            return value, (Type("pointer", of=kind) if isinstance(value, Pointer) else kind)
        self.steps += sum(len(value.cells) // 64 for value, _ in given if isinstance(value, Pointer))
        return call(self, name, [value for value, _ in given])

    # --- what C++ prints ----------------------------------------------------------------------------------------------

    def prints(self, node: Node, scope: Scope) -> bool:
        """`std::cout << a << b`"""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        assert left is not None and right is not None
        parts = [right]
        while left.type == "binary_expression" and text_of(left.child_by_field_name("operator")) == "<<":  # type: ignore[arg-type]
            parts.append(left.child_by_field_name("right") or left)
            left = left.child_by_field_name("left") or left
        stream = {"cout": self.stdout, "cerr": self.stderr}.get(text_of(left).removeprefix("std::"))
        if stream is None:
            return False
        for part in reversed(parts):
            if text_of(part).removeprefix("std::") == "endl":
                self.write("\n", stream)
                if stream is self.stdout:
                    self.flush()
                continue
            value, kind = self.decayed(*self.value(part, scope))
            self.write(_shown(value, kind), stream)
        return True


def _shown(value: object, kind: Type) -> str:
    if isinstance(value, Pointer):
        return text_at(value)
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, int):
        raise Unsure
    return chr(value & 255) if kind == CHAR else str(value)


_COMPARED = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}  # fmt: skip
_WORKED = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}  # fmt: skip
