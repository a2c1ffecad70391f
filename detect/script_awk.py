"""`awk` in the player's world: patterns, `print`, `printf`, variables, arrays, conditions, loops and its own functions.

A program goes in, what it prints comes out. In which order an array is gone through is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from detect.script_builtins import formatted
from detect.script_regex import compiled
from detect.script_tools import Answer
from detect.script_world import Unsure
from detect.shell_expand import unescape

if TYPE_CHECKING:
    from detect.script_player import Player

MAX_STEPS = 20_000
MAX_SIZE = 4096
_TOKEN = re.compile(
    r"[ \t]*(?:\\\n[ \t]*)*(?:#[^\n]*)?"
    r"(?P<token>\n|\"(?:[^\"\\\n]|\\.)*\"|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|[A-Za-z_]\w*"
    r"|\+\+|--|&&|\|\||[-+*/%^=!<>]=|!~|[-+*/%^=!<>~?:,;(){}\[\]$|])"
)
_LEVELS = (
    ("||",), ("&&",), ("in",), ("~", "!~"), ("<", "<=", "==", "!=", ">", ">="), (" ",), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_FUNCTIONS = ("length", "substr", "toupper", "tolower", "index", "split", "sub", "gsub", "sprintf", "int", "sqrt")

Value = str | float
Node = tuple


class _Next(Exception):
    pass


class _Ends(Exception):
    pass


class _Parser:
    """A program as nodes: tuples of a kind and its parts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.token = ""
        self.pattern = ""
        self.inside = 0
        self.printing = False
        self.read()

    def read(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            if self.text[self.at :].strip(" \t"):
                raise Unsure
            self.token = ""
            return
        self.token, self.at = match["token"], match.end()

    def take(self, *wanted: str) -> str:
        if self.token not in wanted or not self.token:
            return ""
        token = self.token
        self.read()
        return token

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            raise Unsure

    def lines(self) -> None:
        while self.take("\n", ";"):
            pass

    def program(self) -> list[tuple[Node | str | None, list[Node] | None]]:
        rules = []
        self.lines()
        while self.token:
            pattern: Node | str | None = None
            if self.token in ("BEGIN", "END"):
                pattern = self.take("BEGIN", "END")
            elif self.token != "{":
                pattern = self.expression()
                if self.token == ",":
                    raise Unsure
            rules.append((pattern, self.block() if self.token == "{" else None))
            self.lines()
        return rules

    def block(self) -> list[Node]:
        self.need("{")
        found = []
        self.lines()
        while self.token != "}":
            found.append(self.statement())
            self.lines()
        self.need("}")
        return found

    def body(self) -> list[Node]:
        while self.take("\n"):
            pass
        return self.block() if self.token == "{" else [self.statement()]

    def statement(self) -> Node:
        if self.take("if"):
            self.need("(")
            condition = self.expression()
            self.need(")")
            then = self.body()
            mark = self.at, self.token
            self.lines()
            if self.take("else"):
                return "if", condition, then, self.body()
            self.at, self.token = mark
            return "if", condition, then, []
        if self.take("while"):
            self.need("(")
            condition = self.expression()
            self.need(")")
            return "for", None, condition, None, self.body()
        if self.take("for"):
            return self.loop()
        if word := self.take("print", "printf"):
            self.printing = True
            values = [] if self.token in (";", "\n", "}", "") else self.values()
            self.printing = False
            if self.token in (">", "|"):
                raise Unsure
            return word, values
        if word := self.take("next", "exit"):
            return word, None
        if self.token in ("function", "getline", "delete", "do", "break", "continue", "return", "{"):
            raise Unsure
        return "expression", self.expression()

    def loop(self) -> Node:
        self.need("(")
        first = None if self.token == ";" else self.expression()
        if first is not None and first[0] == "in" and self.token == ")":
            self.need(")")
            return "each", first[1], first[2], self.body()
        self.need(";")
        condition = None if self.token == ";" else self.expression()
        self.need(";")
        step = None if self.token == ")" else self.expression()
        self.need(")")
        return "for", first, condition, step, self.body()

    def values(self) -> list[Node]:
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        return found

    def expression(self) -> Node:
        left = self.ternary()
        if operator := self.take("=", "+=", "-=", "*=", "/=", "%="):
            return "assign", operator, left, self.expression()
        return left

    def ternary(self) -> Node:
        condition = self.level(0)
        if self.take("?"):
            then = self.ternary()
            self.need(":")
            return "?", condition, then, self.ternary()
        return condition

    def level(self, number: int) -> Node:
        if number == len(_LEVELS):
            return self.unary()
        left = self.level(number + 1)
        while True:
            if _LEVELS[number] == (" ",):
                starts = self.token and (self.token[0] in '"$(!' or re.match(r"[\w.]", self.token))
                if not starts or self.token in ("in", "else", "!~", "!="):
                    return left
                left = (" ", left, self.level(number + 1))
                continue
            if self.printing and not self.inside and self.token == ">":
                return left
            operator = self.take(*_LEVELS[number])
            if not operator:
                return left
            left = (operator, left, self.level(number + 1))

    def unary(self) -> Node:
        if operator := self.take("!", "-", "+"):
            return "unary", operator, self.unary()
        if operator := self.take("++", "--"):
            return "step", operator, self.unary(), True
        left = self.primary()
        if self.take("^"):
            left = ("^", left, self.unary())
        if self.token in ("++", "--"):
            return "step", self.take("++", "--"), left, False
        return left

    def primary(self) -> Node:
        if self.token == "/":
            return self.regex()
        if self.take("$"):
            return "field", self.unary() if self.token in ("++", "--") else self.primary()
        if self.take("("):
            self.inside += 1
            inside = self.expression()
            self.inside -= 1
            self.need(")")
            return inside
        token = self.token
        if token[:1] == '"':
            self.read()
            return "text", unescape(token[1:-1].replace('\\"', '"'))
        if re.match(r"[\d.]", token):
            self.read()
            return "number", float(token)
        if not re.match(r"[A-Za-z_]", token):
            raise Unsure
        self.read()
        if token in _FUNCTIONS:
            if token == "length" and self.token != "(":
                return "call", token, []
            self.need("(")
            self.inside += 1
            given = [] if self.token == ")" else self.values()
            self.inside -= 1
            self.need(")")
            return "call", token, given
        if self.token == "(" and self.text[self.at - 2 : self.at - 1] != " ":
            raise Unsure
        if self.take("["):
            key = self.expression()
            self.need("]")
            return "element", token, key
        return "name", token

    def regex(self) -> Node:
        end = self.at
        while end < len(self.text) and self.text[end] != "/":
            end += 2 if self.text[end] == "\\" else 1
        pattern = self.text[self.at : end].replace("\\/", "/")
        self.at = end + 1
        self.read()
        return "regex", compiled(pattern, extended=True)


class _Run:
    def __init__(self, rules: list, variables: dict[str, Value]) -> None:
        self.rules = rules
        self.names: dict[str, Value] = {"FS": " ", "OFS": " ", "ORS": "\n", "NR": 0.0, "NF": 0.0} | variables
        self.arrays: dict[str, dict[str, Value]] = {}
        self.record = ""
        self.fields: list[str] = []
        self.out = ""
        self.steps = 0

    def run(self, lines: Sequence[str]) -> str:
        try:
            self.all("BEGIN")
            if any(pattern != "BEGIN" for pattern, _ in self.rules):
                for number, line in enumerate(lines, 1):
                    self.names["NR"] = self.names["FNR"] = float(number)
                    self.split(line)
                    self.one()
        except _Ends:
            pass
        with suppress(_Ends):
            self.all("END")
        return self.out

    def all(self, name: str) -> None:
        for pattern, body in self.rules:
            if pattern == name:
                self.block(body or [])

    def one(self) -> None:
        try:
            for pattern, body in self.rules:
                if pattern in ("BEGIN", "END") or (pattern is not None and not self.true(pattern)):
                    continue
                if body is None:
                    self.out += self.record + "\n"
                else:
                    self.block(body)
        except _Next:
            pass

    def split(self, line: str) -> None:
        self.record = line
        self.fields = self.parts(line, str(self.names["FS"]))
        self.names["NF"] = float(len(self.fields))

    def parts(self, line: str, mark: str) -> list[str]:
        if mark == " ":
            return line.split()
        if not line:
            return []
        if len(mark) == 1:
            return line.split(mark)
        return compiled(mark, extended=True).split(line)

    def block(self, body: Sequence[Node]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: Node) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.out) > 1 << 16:
            raise Unsure
        kind = node[0]
        if kind == "expression":
            self.value(node[1])
        elif kind == "print":
            texts = [self.text(self.value(part)) for part in node[1]] if node[1] else [self.record]
            self.out += str(self.names["OFS"]).join(texts) + str(self.names["ORS"])
        elif kind == "printf":
            form, *values = (self.text(self.value(part)) for part in node[1])
            self.out += formatted(form, values)
        elif kind == "if":
            self.block(node[2] if self.true(node[1]) else node[3])
        elif kind == "for":
            if node[1] is not None:
                self.value(node[1])
            while node[2] is None or self.true(node[2]):
                self.block(node[4])
                self.steps += 1
                if self.steps > MAX_STEPS:
                    raise Unsure
                if node[3] is not None:
                    self.value(node[3])
        elif kind == "each":
            keys = list(self.arrays.get(node[2][1], {}))
            if len(keys) > 1:
                raise Unsure
            for key in keys:
                self.store(node[1], key)
                self.block(node[3])
        elif kind == "next":
            raise _Next
        else:
            raise _Ends

    # --- values -----------------------------------------------------------------------------------------------------

    def text(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"

    def number(self, value: Value) -> float:
        if not isinstance(value, str):
            return value
        match = re.match(r"\s*[+-]?(\d{1,15}\.?\d{0,9}|\.\d{1,9})(?:[eE][+-]?\d{1,2})?", value)
        return float(match[0]) if match else 0.0

    def true(self, node: Node) -> bool:
        value = self.value(node)
        if isinstance(value, str) and node[0] in ("field", "element", "name") and _looks(value):
            return float(value) != 0
        return value not in ("", 0.0)

    def value(self, node: Node) -> Value:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        kind = node[0]
        if kind in ("text", "number"):
            return node[1]
        if kind == "regex":
            return float(node[1].search(self.record) is not None)
        if kind == "name":
            return self.names.get(node[1], "")
        if kind == "element":
            return self.arrays.setdefault(node[1], {}).setdefault(self.text(self.value(node[2])), "")
        if kind == "field":
            number = int(self.number(self.value(node[1])))
            return self.record if not number else self.fields[number - 1] if number <= len(self.fields) else ""
        if kind == "assign":
            value = self.value(node[3])
            if node[1] != "=":
                value = self.worked(node[1][0], self.number(self.value(node[2])), self.number(value))
            return self.store(node[2], value)
        if kind == "step":
            before = self.number(self.value(node[2]))
            after = before + (1 if node[1] == "++" else -1)
            self.store(node[2], after)
            return after if node[3] else before
        if kind == "unary":
            if node[1] == "!":
                return float(not self.true(node[2]))
            number = self.number(self.value(node[2]))
            return -number if node[1] == "-" else number
        if kind == "?":
            return self.value(node[2] if self.true(node[1]) else node[3])
        if kind == "call":
            return self.called(node[1], node[2])
        return self.operated(node)

    def operated(self, node: Node) -> Value:
        kind, left, right = node
        if kind in ("&&", "||"):
            if self.true(left) != (kind == "&&"):
                return float(kind == "||")
            return float(self.true(right))
        if kind == "in":
            return float(self.text(self.value(left)) in self.arrays.get(right[1], {}))
        if kind in ("~", "!~"):
            pattern = right[1] if right[0] == "regex" else compiled(self.text(self.value(right)), extended=True)
            return float((pattern.search(self.text(self.value(left))) is not None) == (kind == "~"))
        a, b = self.value(left), self.value(right)
        if kind == " ":
            made = self.text(a) + self.text(b)
            if len(made) > MAX_SIZE:
                raise Unsure
            return made
        if kind in _COMPARED:
            sides = ((a, left), (b, right))
            if all(isinstance(v, float) or (n[0] not in ("text", " ") and _looks(v)) for v, n in sides):
                return float(_COMPARED[kind](self.number(a), self.number(b)))
            return float(_COMPARED[kind](self.text(a), self.text(b)))
        return self.worked(kind, self.number(a), self.number(b))

    def worked(self, operator: str, a: float, b: float) -> float:
        if operator in "/%" and not b:
            raise Unsure
        if operator == "^" and (abs(b) > 64 or abs(a) > 1e6):
            raise Unsure
        if operator == "%":
            return a - b * int(a / b)
        work: dict[str, Callable[[], float]] = {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "^": lambda: a**b,
        }  # fmt: skip
        return work[operator]()

    def store(self, target: Node, value: Value) -> Value:
        if isinstance(value, str) and len(value) > MAX_SIZE:
            raise Unsure
        if target[0] == "name":
            if target[1] in ("NF", "NR"):
                raise Unsure
            self.names[target[1]] = value
        elif target[0] == "element":
            self.arrays.setdefault(target[1], {})[self.text(self.value(target[2]))] = value
        elif target[0] == "field":
            number = int(self.number(self.value(target[1])))
            if not 1 <= number <= 100:
                raise Unsure
            self.fields += [""] * (number - len(self.fields))
            self.fields[number - 1] = self.text(value)
            self.names["NF"] = float(len(self.fields))
            self.record = str(self.names["OFS"]).join(self.fields)
            if len(self.record) > 4 * MAX_SIZE:
                raise Unsure
        else:
            raise Unsure
        return value

    def called(self, name: str, given: list[Node]) -> Value:
        if name in ("sub", "gsub"):
            return self.substituted(name, given)
        if name == "split":
            mark = self.text(self.value(given[2])) if len(given) > 2 else str(self.names["FS"])
            parts = self.parts(self.text(self.value(given[0])), mark)
            self.arrays[given[1][1]] = {str(n): part for n, part in enumerate(parts, 1)}
            return float(len(parts))
        if name == "length" and given and given[0][0] == "name" and given[0][1] in self.arrays:
            return float(len(self.arrays[given[0][1]]))
        values = [self.value(node) for node in given]
        if name == "sprintf":
            return formatted(self.text(values[0]), [self.text(v) for v in values[1:]])
        if name in ("int", "sqrt"):
            number = self.number(values[0])
            return float(int(number)) if name == "int" else number**0.5
        text = self.text(values[0]) if values else self.record
        if not text.isascii():
            raise Unsure
        if name == "length":
            return float(len(text))
        if name == "index":
            return float(text.find(self.text(values[1])) + 1)
        if name == "substr":
            first = round(self.number(values[1]))
            last = len(text) + 1 if len(values) < 3 else first + round(self.number(values[2]))
            return text[max(first, 1) - 1 : max(last - 1, 0)]
        return text.upper() if name == "toupper" else text.lower()

    def substituted(self, name: str, given: list[Node]) -> Value:
        pattern = given[0][1] if given[0][0] == "regex" else compiled(self.text(self.value(given[0])), extended=True)
        replacement = self.text(self.value(given[1]))
        if "\\" in replacement:
            raise Unsure
        target = given[2] if len(given) > 2 else ("field", ("number", 0.0))
        if (len(self.text(self.value(target))) + 1) * len(replacement) > 4 * MAX_SIZE:
            raise Unsure
        made, count = pattern.subn(
            lambda m: replacement.replace("&", m[0]), self.text(self.value(target)), count=int(name == "sub")
        )
        if count and target == ("field", ("number", 0.0)):
            self.split(made)
        elif count:
            self.store(target, made)
        return float(count)


_COMPARED: dict[str, Callable] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _looks(value: Value) -> bool:
    """Whether input looks like a number, and is compared as one."""
    return not isinstance(value, str) or re.fullmatch(r"\s*[+-]?(\d{1,15}\.?\d{0,9}|\.\d{1,9})\s*", value) is not None


def awk(player: Player, words: list[str], inputs: Callable, lines_of: Callable) -> Answer:
    """`inputs` reads the files that are named, `lines_of` splits a text."""
    rest = words[1:]
    variables: dict[str, Value] = {}
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if match := re.fullmatch(r"-F(.*)", word, re.S):
            variables["FS"] = unescape(match[1] or (rest.pop(0) if rest else ""))
        elif match := re.fullmatch(r"-v(.*)", word, re.S):
            name, _, value = (match[1] or (rest.pop(0) if rest else "")).partition("=")
            variables[name] = unescape(value)
        else:
            raise Unsure
    if not rest or any("=" in name for name in rest[1:]):
        raise Unsure
    try:
        rules = _Parser(rest[0]).program()
    except (RecursionError, ValueError, LookupError):
        raise Unsure from None
    found: list[tuple[str, str]] = []
    if any(pattern != "BEGIN" for pattern, _ in rules):
        found, err, status = inputs(player, "awk", rest[1:])
        if status:
            return "", err, 2
    run = _Run(rules, variables)
    try:
        lines = [line for _, text in found for line in lines_of(text)]
        return run.run(lines), "", 0
    except (IndexError, ValueError, TypeError, ArithmeticError, RecursionError):
        raise Unsure from None
    finally:
        player.shared.steps += run.steps // 5
