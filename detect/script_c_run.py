"""Runs small C programs by hand: functions, loops and conditions over whole numbers, arrays of them, and texts.

The functions of a unit that compiles go in, what `main` prints and its status come out. Whatever else C knows, and
whatever it leaves undefined, raises `Unsure`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from detect.script_world import Unsure

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 50_000
_KINDS = {
    "int": 32, "char": 8, "long": 64, "unsigned": 32, "unsigned int": 32, "size_t": 64, "short": 16, "long long": 64,
    "long int": 64, "unsigned long": 64,
}  # fmt: skip


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def text_of(node: Node) -> str:
    return (node.text or b"").decode()


class _Leaves(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class _Breaks(Exception):
    pass


class _Continues(Exception):
    pass


class Machine:
    """Runs `main` of a unit whose values are whole numbers, arrays of them, and literal texts."""

    def __init__(self, functions: Mapping[str, Node]) -> None:
        self.functions = functions
        self.out = ""
        self.steps = 0
        self.depth = 0

    def run(self) -> tuple[str, int]:
        main = self.functions.get("main")
        if main is None:
            raise Unsure
        used = {text_of(n) for n in walk(main.child_by_field_name("body") or main) if n.type == "identifier"}
        if used & {"argc", "argv"}:
            raise Unsure
        status = self.call("main", [])
        return self.out, (status if isinstance(status, int) else 0) & 255

    def call(self, name: str, given: list) -> object:
        function = self.functions[name]
        self.depth += 1
        if self.depth > 40:
            raise Unsure
        declarator = next(n for n in walk(function) if n.type == "function_declarator")
        names = [
            text_of(next(n for n in walk(p) if n.type == "identifier"))
            for p in declarator.children[1].children
            if p.type == "parameter_declaration" and any(n.type == "identifier" for n in walk(p))
        ]
        scope: dict = dict(zip(names, given, strict=False))
        if len(names) != len(given) and name != "main":
            raise Unsure
        body = function.child_by_field_name("body")
        try:
            assert body is not None
            self.statement(body, scope)
        except _Leaves as leaves:
            return leaves.value
        finally:
            self.depth -= 1
        return 0

    def statement(self, node: Node, scope: dict) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.out) > 65536:
            raise Unsure
        kind = node.type
        if kind == "compound_statement":
            for child in node.named_children:
                self.statement(child, scope)
        elif kind == "declaration":
            self.declaration(node, scope)
        elif kind == "expression_statement":
            for child in node.named_children:
                self.value(child, scope)
        elif kind == "return_statement":
            value = self.value(node.named_children[0], scope) if node.named_children else 0
            raise _Leaves(value if isinstance(value, int) else self.unsure())
        elif kind == "if_statement":
            condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
            other = node.child_by_field_name("alternative")
            if self.value(condition, scope):
                self.statement(then, scope)  # type: ignore[arg-type]
            elif other is not None:
                self.statement(other.named_children[0], scope)
        elif kind in ("while_statement", "for_statement", "do_statement"):
            self.loop(node, scope)
        elif kind == "break_statement":
            raise _Breaks
        elif kind == "continue_statement":
            raise _Continues
        elif kind != "comment":
            raise Unsure

    def loop(self, node: Node, scope: dict) -> None:
        if node.type == "for_statement" and (first := node.child_by_field_name("initializer")) is not None:
            self.statement(first, scope) if first.type == "declaration" else self.value(first, scope)
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        update = node.child_by_field_name("update")
        if node.type == "do_statement" or body is None:
            raise Unsure
        while condition is None or self.value(condition, scope):
            try:
                self.statement(body, scope)
            except _Breaks:
                return
            except _Continues:
                pass
            if update is not None:
                self.value(update, scope)

    def declaration(self, node: Node, scope: dict) -> None:
        kind = text_of(node.child_by_field_name("type"))  # type: ignore[arg-type]
        text = "char" in kind
        for child in node.named_children:
            if child.type == "identifier":
                scope[text_of(child)] = None
            elif child.type == "init_declarator":
                target, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
                assert target is not None and value is not None
                if target.type == "identifier" and kind in _KINDS:
                    scope[text_of(target)] = self.number(value, scope)
                elif target.type == "array_declarator" and value.type == "initializer_list" and kind == "int":
                    name = text_of(target.children[0])
                    values = [self.number(item, scope) for item in value.named_children]
                    size = target.child_by_field_name("size")
                    if size is not None:
                        values += [0] * (self.number(size, scope) - len(values))
                    scope[name] = values
                elif target.type == "pointer_declarator" and text and value.type == "string_literal":
                    scope[text_of(target.named_children[-1])] = self.value(value, scope)
                else:
                    raise Unsure
            elif child.type == "array_declarator" and kind == "int":
                size = child.child_by_field_name("size")
                scope[text_of(child.children[0])] = [None] * (self.number(size, scope) if size else self.unsure())
            elif child.type not in ("primitive_type", "type_qualifier", "sized_type_specifier", "type_identifier"):
                raise Unsure

    def unsure(self) -> int:
        raise Unsure

    def number(self, node: Node | None, scope: dict) -> int:
        value = self.value(node, scope)
        if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
            raise Unsure
        return value

    def value(self, node: Node | None, scope: dict) -> object:
        self.steps += 1
        if node is None or self.steps > MAX_STEPS:
            raise Unsure
        kind = node.type
        if kind == "number_literal":
            text = text_of(node)
            return int(text) if re.fullmatch(r"0|[1-9]\d{0,9}", text) else self.unsure()
        if kind == "char_literal":
            text = _plain(text_of(node)[1:-1])
            return ord(text) if len(text) == 1 else self.unsure()
        if kind == "string_literal":
            return _plain(text_of(node)[1:-1])
        if kind == "identifier":
            found = scope.get(text_of(node))
            return found if found is not None else self.unsure()
        if kind in ("parenthesized_expression",):
            return self.value(node.named_children[0], scope)
        if kind == "binary_expression":
            return self.binary(node, scope)
        if kind == "unary_expression":
            value = self.number(node.child_by_field_name("argument"), scope)
            return {"-": -value, "!": int(not value), "+": value, "~": ~value}.get(node.children[0].type) or 0
        if kind in ("assignment_expression", "update_expression"):
            return self.assigned(node, scope)
        if kind == "subscript_expression":
            values, index = self.value(node.named_children[0], scope), self.number(node.named_children[1], scope)
            if isinstance(values, str) and 0 <= index <= len(values):
                return ord((values + "\0")[index])
            if not isinstance(values, list) or not 0 <= index < len(values) or values[index] is None:
                raise Unsure
            return values[index]
        if kind == "conditional_expression":
            condition, then, other = node.named_children
            return self.value(then if self.value(condition, scope) else other, scope)
        if kind == "call_expression":
            return self.called(node, scope)
        raise Unsure

    def binary(self, node: Node, scope: dict) -> int:
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        assert operator is not None
        left = self.number(left_node, scope)
        if operator.type in ("&&", "||"):
            if bool(left) != (operator.type == "&&"):
                return int(bool(left))
            return int(bool(self.number(right_node, scope)))
        return _work(operator.type, left, self.number(right_node, scope))

    def assigned(self, node: Node, scope: dict) -> int:
        if node.type == "update_expression":
            target = node.child_by_field_name("argument")
            before = self.number(target, scope)
            sign = "++" if any(c.type == "++" for c in node.children) else "--"
            value = before + (1 if sign == "++" else -1)
            self.store(target, value, scope)
            return value if node.children[0].type == sign else before
        target, operator = node.child_by_field_name("left"), node.child_by_field_name("operator")
        assert operator is not None
        value = self.number(node.child_by_field_name("right"), scope)
        if operator.type != "=":
            value = _work(operator.type[:-1], self.number(target, scope), value)
        self.store(target, value, scope)
        return value

    def store(self, target: Node | None, value: int, scope: dict) -> None:
        if target is None or not -(1 << 31) <= value < 1 << 31:
            raise Unsure
        if target.type == "identifier":
            scope[text_of(target)] = value
            return
        if target.type != "subscript_expression":
            raise Unsure
        values, index = self.value(target.named_children[0], scope), self.number(target.named_children[1], scope)
        if not isinstance(values, list) or not 0 <= index < len(values):
            raise Unsure
        values[index] = value

    def called(self, node: Node, scope: dict) -> object:
        name = text_of(node.children[0])
        arguments = node.child_by_field_name("arguments")
        assert arguments is not None
        given = [self.value(argument, scope) for argument in arguments.named_children]
        if name in self.functions:
            return self.call(name, given)
        if name == "puts" and isinstance(given[0], str):
            self.out += given[0] + "\n"
            return 1
        if name == "putchar" and isinstance(given[0], int):
            self.out += chr(given[0] & 127)
            return given[0]
        if name == "printf" and isinstance(given[0], str):
            self.out += _formatted(given[0], given[1:])
            return 1
        if name == "strlen" and isinstance(given[0], str):
            return len(given[0])
        if name == "exit" and isinstance(given[0], int):
            raise Unsure
        raise Unsure


def _work(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise Unsure
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    if operator in ("<<", ">>") and not 0 <= right < 31:
        raise Unsure
    table: dict[str, Callable[[], int]] = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "&": lambda: left & right,
        "|": lambda: left | right, "^": lambda: left ^ right, "<<": lambda: left << right, ">>": lambda: left >> right,
        "==": lambda: int(left == right), "!=": lambda: int(left != right), "<": lambda: int(left < right),
        ">": lambda: int(left > right), "<=": lambda: int(left <= right), ">=": lambda: int(left >= right),
    }  # fmt: skip
    if operator not in table:
        raise Unsure
    value = table[operator]()
    if not -(1 << 31) <= value < 1 << 31:
        raise Unsure
    return value


def _plain(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "0": "\0"}
    if re.search(r"\\[^nt\\\"'0]", text) or re.search(r"\\0.", text):
        raise Unsure
    return re.sub(r"\\(.)", lambda m: escapes[m[1]], text)


def _formatted(form: str, given: list) -> str:
    values = list(given)

    def one(match: re.Match[str]) -> str:
        flags, width, kind = match.groups()
        if kind == "%":
            return "%"
        if not values:
            raise Unsure
        value = values.pop(0)
        if kind == "s" and isinstance(value, str):
            text = value
        elif kind == "c" and isinstance(value, int):
            text = chr(value & 127)
        elif kind in ("d", "i", "ld", "u", "zu", "x") and isinstance(value, int):
            if value < 0 and kind in ("u", "zu", "x"):
                raise Unsure
            text = format(value, "x" if kind == "x" else "d")
        else:
            raise Unsure
        if not width:
            return text
        return text.ljust(int(width)) if "-" in flags else text.rjust(int(width), "0" if "0" in flags else " ")

    made = re.sub(r"%([-0]*)(\d{0,3})(ld|zu|[%sdiucx])", one, form)
    if re.search(r"%[^%sdiuczlx\d-]", form) or values:
        raise Unsure
    return made
