"""Arithmetic of bash in a played script: `$((...))`, `((...))`, the three parts of a C-like `for`, and subscripts.

An expression over whole numbers and variables goes in, its value comes out; assignments change the variables. What is
not known raises `Unsure`.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from detect.script_world import Unsure

_TOKEN = re.compile(
    r"\s*(\d+#\w+|0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*(?:\[\w+\])?"
    r"|\+\+|--|\*\*=?|<<=?|>>=?|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%()<>!~?:,=&|^])"
)
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
MAX_TOKENS = 200


def evaluate(expression: str, variables: MutableMapping[str, str]) -> int:
    """Raises Unsure."""
    tokens, position = [], 0
    expression = expression.strip()
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None or len(tokens) > MAX_TOKENS:
            raise Unsure
        tokens.append(match.group(1))
        position = match.end()
        if not expression[position:].strip():
            break
    if not tokens:
        return 0
    parser = _Parser(tokens, variables)
    value = parser.comma()
    if parser.index != len(tokens):
        raise Unsure
    return value


class _Parser:
    def __init__(self, tokens: list[str], variables: MutableMapping[str, str]) -> None:
        self.tokens = tokens
        self.variables = variables
        self.index = 0

    def at(self, *texts: str) -> str:
        found = self.tokens[self.index] if self.index < len(self.tokens) else ""
        return found if found in texts else ""

    def take(self) -> str:
        if self.index >= len(self.tokens):
            raise Unsure
        self.index += 1
        return self.tokens[self.index - 1]

    def comma(self) -> int:
        value = self.assignment()
        while self.at(","):
            self.index += 1
            value = self.assignment()
        return value

    def assignment(self) -> int:
        name = self.tokens[self.index] if self.index < len(self.tokens) else ""
        following = self.tokens[self.index + 1] if self.index + 1 < len(self.tokens) else ""
        if _is_name(name) and following.endswith("=") and following not in ("==", "!=", "<=", ">="):
            self.index += 2
            value = self.assignment()
            if following != "=":
                value = _work(following[:-1], self.value_of(name), value)
            self.variables[name] = str(value)
            return value
        return self.choice()

    def choice(self) -> int:
        condition = self.level(0)
        if not self.at("?"):
            return condition
        raise Unsure

    def level(self, number: int) -> int:
        if number == len(_LEVELS):
            return self.unary()
        value = self.level(number + 1)
        while operator := self.at(*_LEVELS[number]):
            self.index += 1
            if operator in ("&&", "||") and any("=" in t or t in ("++", "--") for t in self.tokens[self.index :]):
                raise Unsure  # what comes after may not be worked out at all
            value = _work(operator, value, self.level(number + 1))
        return value

    def unary(self) -> int:
        if operator := self.at("-", "+", "!", "~"):
            self.index += 1
            value = self.unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[operator]
        if operator := self.at("++", "--"):
            self.index += 1
            name = self.take()
            return self.step(name, operator)
        if self.at("("):
            self.index += 1
            value = self.comma()
            if self.take() != ")":
                raise Unsure
            return value
        token = self.take()
        if _is_name(token):
            if operator := self.at("++", "--"):
                self.index += 1
                value = self.value_of(token)
                self.step(token, operator)
                return value
            return self.value_of(token)
        if re.fullmatch(r"\d{1,18}", token):
            if re.fullmatch(r"0[89]\d*|0\d*[89]\d*", token):
                raise Unsure
            return int(token, 8 if token[0] == "0" else 10)
        if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}", token):
            return int(token, 16)
        raise Unsure

    def step(self, name: str, operator: str) -> int:
        if not _is_name(name):
            raise Unsure
        value = self.value_of(name) + (1 if operator == "++" else -1)
        self.variables[name] = str(value)
        return value

    def value_of(self, name: str) -> int:
        text = self.variables.get(name, "") or "0"
        if not re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
            raise Unsure
        return int(text)


def _is_name(token: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*(?:\[\w+\])?", token) is not None


def _work(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise Unsure
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - right * quotient
    if operator in ("<<", ">>", "**") and not 0 <= right < 63:
        raise Unsure
    value = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "**": lambda: left**right,
        "<<": lambda: left << right, ">>": lambda: left >> right, "&": lambda: left & right,
        "|": lambda: left | right, "^": lambda: left ^ right, "==": lambda: int(left == right),
        "!=": lambda: int(left != right), "<": lambda: int(left < right), "<=": lambda: int(left <= right),
        ">": lambda: int(left > right), ">=": lambda: int(left >= right), "&&": lambda: int(bool(left and right)),
        "||": lambda: int(bool(left or right)),
    }[operator]()  # fmt: skip
    if not -(1 << 63) <= value < 1 << 63:
        raise Unsure
    return value
