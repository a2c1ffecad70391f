# ruff: noqa: RUF001 - the compiler really prints typographic quotes
"""GCC 12 on small C programs of a played script: what it complains about, and what the program then prints.

Source goes in; the errors and warnings that are known, and the output and exit status of a program that takes no input,
come out. Anything else of C is not judged: such code is taken to compile, and to print what is not known.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from detect import trees
from detect.script_world import Unsure

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_STEPS = 50_000
_LETTERS = string.ascii_letters + string.digits
_HEADERS: dict[str, list[str]] = {
    "stdio.h": [
        "printf", "puts", "putchar", "fprintf", "fopen", "fclose", "fgets", "fputs", "getchar", "scanf", "snprintf",
        "sprintf", "fflush", "popen", "pclose", "getc", "putc", "perror", "fread", "fwrite", "sscanf", "stdin",
        "stdout", "stderr", "EOF", "NULL", "FILE", "getline", "fscanf", "fputc", "fgetc", "rewind", "fseek", "ftell",
        "remove", "rename", "size_t", "BUFSIZ", "feof", "ferror", "ungetc", "setvbuf", "vprintf",
    ],
    "stdlib.h": [
        "malloc", "free", "exit", "system", "atoi", "calloc", "realloc", "abs", "getenv", "strtol", "qsort", "rand",
        "srand", "NULL", "abort", "EXIT_SUCCESS", "EXIT_FAILURE", "size_t", "atof", "strtod", "strtoul",
    ],
    "string.h": [
        "strlen", "strcmp", "strcpy", "strcat", "memcpy", "memset", "strchr", "strncmp", "strstr", "strdup",
        "strtok", "NULL", "memcmp", "strncpy", "strrchr", "size_t", "memmove", "strerror",
    ],
    "ctype.h": [
        "isdigit", "isalpha", "isspace", "toupper", "tolower", "isalnum", "isupper", "islower", "ispunct",
    ],
    "unistd.h": [
        "read", "write", "close", "fork", "execvp", "execv", "execl", "execlp", "sleep", "getpid", "STDIN_FILENO",
        "STDOUT_FILENO", "_exit", "dup2", "pipe", "access", "unlink", "getopt", "optarg", "optind", "ssize_t",
    ],
    "stdbool.h": [
        "true", "false", "bool",
    ],
}  # fmt: skip
_KINDS = {
    "int": 32, "char": 8, "long": 64, "unsigned": 32, "unsigned int": 32, "size_t": 64, "short": 16, "long long": 64,
    "long int": 64, "unsigned long": 64,
}  # fmt: skip


class Compiled(msgspec.Struct, frozen=True):
    said: str
    fails: bool
    runs: tuple[str, int] | None


def compile_c(code: str, name: str, *, warnings: bool, header: Callable[[str], bool], linked: bool) -> Compiled:
    """`header` tells whether a file of that name is there to be included. Raises Unsure."""
    if not code.isascii() or "\t" in code or len(code) > 8192:
        return Compiled("", False, None)
    lines = code.split("\n")
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if match and not header(match[1]):
            at = line.index('"')
            said = _message(name, number, at, f"fatal error: {match[1]}: No such file or directory", line)
            said += _under(number, line, at, len(match[1]) + 2) + "compilation terminated.\n"
            return Compiled(said, True, None)
    unit = _Unit(code, name, lines)
    return unit.judged(warnings=warnings, linked=linked)


def _message(name: str, line: int, column: int, text: str, _source: str) -> str:
    return f"{name}:{line}:{column + 1}: {text}\n"


def _under(line: int, source: str, column: int, length: int) -> str:
    return f"{line:5} | {source}\n      | {' ' * column}^{'~' * (length - 1)}\n"


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


class _Unit:
    def __init__(self, code: str, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines
        self.root = trees.parse("c", code.encode()).root_node
        self.included = re.findall(r"^\s*#\s*include\s*<([\w./]+)>", code, re.M)
        self.plain = not re.search(r"^\s*#\s*(?!include\b)\w", code, re.M) and set(self.included) <= set(_HEADERS)
        self.known = {word for header in self.included for word in _HEADERS.get(header, ())}
        self.functions: dict[str, Node] = {}
        self.declared: set[str] = set()
        for node in self.root.children:
            if node.type == "function_definition" and (title := _title(node)):
                self.functions[title] = node
            for inside in _walk(node) if node.type in ("declaration", "type_definition") else ():
                if inside.type in ("identifier", "type_identifier"):
                    self.declared.add(self.text(inside))
            for inside in _walk(node):
                if inside.type == "enumerator":
                    self.declared.add(self.text(inside.children[0]))

    def text(self, node: Node) -> str:
        return (node.text or b"").decode()

    def at(self, node: Node, kind: str, *, mark: bool = True) -> str:
        line, column = node.start_point
        said = _message(self.name, line + 1, column, kind, "")
        length = max(node.end_point[1] - column if node.end_point[0] == line else 1, 1)
        return said + (_under(line + 1, self.lines[line], column, length) if mark else "")

    def judged(self, *, warnings: bool, linked: bool) -> Compiled:
        if self.root.has_error:
            return Compiled(self.broken(), True, None)
        if not self.plain:
            return Compiled("", False, None)
        said, fails = "", False
        noted = False
        for title, function in self.functions.items():
            found, wrong = self.looked_at(function, warnings=warnings)
            if wrong and not noted:
                first, _, rest = found.partition("(first use in this function)\n")
                shown, rest = rest.split("\n", 2)[:2], rest.split("\n", 2)[2]
                place = re.findall(r"^\S+:\d+:\d+:", first, re.M)[-1]
                note = (
                    f"{place} note: each undeclared identifier is reported only once for each function it appears in\n"
                )
                found = first + "(first use in this function)\n" + "\n".join(shown) + "\n" + note + rest
                noted = True
            if found:
                said += f"{self.name}: In function ‘{title}’:\n" + found
            fails = fails or wrong
        if fails:
            return Compiled(said, True, None)
        if linked and (missing := self.unlinked()):
            return Compiled(said + missing, True, None)
        try:
            runs = _Machine(self).run() if linked else None
        except (Unsure, RecursionError):
            runs = None
        return Compiled(said, False, runs)

    def broken(self) -> str:
        """What is said of code that does not parse, where that is one missing `;` or the end."""
        missing = [node for node in _walk(self.root) if node.is_missing]
        errors = [node for node in _walk(self.root) if node.type == "ERROR"]
        title = next((t for n in self.root.children if n.type == "function_definition" and (t := _title(n))), "")
        lost = missing[0] if len(missing) == 1 and not errors and missing[0].type == ";" else None
        if len(errors) == 1 and not missing and errors[0].named_child_count == 1 and errors[0].child_count == 1:
            lost = errors[0]  # an expression that no `;` makes a statement
            if lost.children[0].type not in ("call_expression", "assignment_expression", "update_expression"):
                raise Unsure
        if lost is not None and title:
            line, column = lost.end_point
            following = next((n for n in range(line + 1, len(self.lines)) if self.lines[n].strip()), None)
            word = re.match(r"(\s*)(\w+|\})", self.lines[following]) if following is not None else None
            if lost.parent is None or lost.parent.type == "declaration" or word is None:
                raise Unsure
            if following != line + 1:
                raise Unsure
            title = next(t for t, f in self.functions.items() if f.start_point[0] <= line <= f.end_point[0])
            said = f"{self.name}: In function ‘{title}’:\n"
            said += _message(self.name, line + 1, column, f"error: expected ‘;’ before ‘{word[2]}’", "")
            said = said.replace("‘}’", "‘}’ token")
            said += f"{line + 1:5} | {self.lines[line]}\n      | {' ' * column}^\n      | {' ' * column};\n"
            below = word[1] + "~" * len(word[2])
            said += f"{line + 2:5} | {self.lines[line + 1]}\n      | {below}{' ' * (column + 1 - len(below))}\n"
            return said
        if len(missing) == 1 and not errors and missing[0].type == "}" and title:
            last = len(self.lines) - 1
            while last and not self.lines[last].strip():
                last -= 1
            word = re.match(r"(\s*)(\w+)", self.lines[last])
            statements = [n for n in _walk(self.root) if n.type.endswith("_statement") and n.start_point[0] == last]
            if word is None or not statements or statements[0].type != "return_statement":
                raise Unsure
            said = f"{self.name}: In function ‘{title}’:\n"
            text = "error: expected declaration or statement at end of input"
            said += _message(self.name, last + 1, len(word[1]), text, "")
            return said + _under(last + 1, self.lines[last], len(word[1]), len(word[2]))
        raise Unsure

    def looked_at(self, function: Node, *, warnings: bool) -> tuple[str, bool]:
        """Complaints about names in one function, and whether one is an error."""
        own: dict[str, tuple[Node, bool]] = {}
        used: set[str] = set()
        said, fails, seen = "", False, set()
        for node in _walk(function):
            if node.type != "identifier" or node.parent is None:
                continue
            word = self.text(node)
            parent = node.parent
            if parent.type in ("function_declarator",):
                continue
            if self.declares(node):
                local = _above(node, "parameter_declaration") is None
                own.setdefault(word, (node, local))
                continue
            called = parent.type == "call_expression" and parent.children[0] == node
            used.add(word)
            if word in own or word in self.functions or word in self.declared or word in self.known or word in seen:
                continue
            seen.add(word)
            if not called:
                fails = True
                said += self.at(node, f"error: ‘{word}’ undeclared (first use in this function)")
                continue
            warning = f"warning: implicit declaration of function ‘{word}’ [-Wimplicit-function-declaration]"
            said += self.at(node, warning)
            if word == "puts" and not self.included:
                said += f"{self.name}:1:1: note: include ‘<stdio.h>’ or provide a declaration of ‘puts’\n"
                said += f"  +++ |+#include <stdio.h>\n    1 | {self.lines[0]}\n"
            elif any(word in words for words in _HEADERS.values()):
                raise Unsure  # a note tells of a header, and some are built in
        if warnings and not fails:
            for word, (node, local) in reversed(own.items()):
                if word not in used and local:
                    said += self.at(node, f"warning: unused variable ‘{word}’ [-Wunused-variable]")
        return said, fails

    def declares(self, node: Node) -> bool:
        inside, above = node, node.parent
        while above is not None:
            if above.type == "init_declarator":
                if above.children[0] != inside:
                    return False
            elif above.type in ("declaration", "parameter_declaration"):
                return True
            elif above.type == "array_declarator":
                if above.children[0] != inside:
                    return False
            elif above.type not in ("pointer_declarator", "function_declarator", "parenthesized_declarator"):
                return False
            inside, above = above, above.parent
        return False

    def unlinked(self) -> str:
        """What the linker says of one function that is nowhere; what the compiler draws is drawn from the code."""
        for title, function in self.functions.items():
            for node in _walk(function):
                if node.type != "call_expression" or node.children[0].type != "identifier":
                    continue
                word = self.text(node.children[0])
                if word in self.functions or any(word in words for words in _HEADERS.values()):
                    continue
                digest = hashlib.sha256("\n".join(self.lines).encode()).digest()
                drawn = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:6])
                return (
                    f"/usr/bin/ld: /tmp/cc{drawn}.o: in function `{title}':\n"
                    f"{self.name}:(.text+0x{0x0A + digest[6] % 0x30:x}): undefined reference to `{word}'\n"
                    "collect2: error: ld returned 1 exit status\n"
                )
        return ""


def _above(node: Node, kind: str) -> Node | None:
    above = node.parent
    while above is not None and above.type != kind:
        above = above.parent
    return above


def _title(function: Node) -> str:
    found = next((n for n in _walk(function) if n.type == "function_declarator"), None)
    return (found.children[0].text or b"").decode() if found is not None else ""


class _Leaves(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class _Breaks(Exception):
    pass


class _Continues(Exception):
    pass


class _Machine:
    """Runs `main` of a unit whose values are whole numbers, arrays of them, and literal texts."""

    def __init__(self, unit: _Unit) -> None:
        self.unit = unit
        self.out = ""
        self.steps = 0
        self.depth = 0

    def run(self) -> tuple[str, int]:
        main = self.unit.functions.get("main")
        if main is None:
            raise Unsure
        used = {self.unit.text(n) for n in _walk(main.child_by_field_name("body") or main) if n.type == "identifier"}
        if used & {"argc", "argv"}:
            raise Unsure
        status = self.call("main", [])
        return self.out, (status if isinstance(status, int) else 0) & 255

    def call(self, name: str, given: list) -> object:
        function = self.unit.functions[name]
        self.depth += 1
        if self.depth > 40:
            raise Unsure
        declarator = next(n for n in _walk(function) if n.type == "function_declarator")
        names = [
            self.unit.text(next(n for n in _walk(p) if n.type == "identifier"))
            for p in declarator.children[1].children
            if p.type == "parameter_declaration" and any(n.type == "identifier" for n in _walk(p))
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
        kind = self.unit.text(node.child_by_field_name("type"))  # type: ignore[arg-type]
        text = "char" in kind
        for child in node.named_children:
            if child.type == "identifier":
                scope[self.unit.text(child)] = None
            elif child.type == "init_declarator":
                target, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
                assert target is not None and value is not None
                if target.type == "identifier" and kind in _KINDS:
                    scope[self.unit.text(target)] = self.number(value, scope)
                elif target.type == "array_declarator" and value.type == "initializer_list" and kind == "int":
                    name = self.unit.text(target.children[0])
                    values = [self.number(item, scope) for item in value.named_children]
                    size = target.child_by_field_name("size")
                    if size is not None:
                        values += [0] * (self.number(size, scope) - len(values))
                    scope[name] = values
                elif target.type == "pointer_declarator" and text and value.type == "string_literal":
                    scope[self.unit.text(target.named_children[-1])] = self.value(value, scope)
                else:
                    raise Unsure
            elif child.type == "array_declarator" and kind == "int":
                size = child.child_by_field_name("size")
                scope[self.unit.text(child.children[0])] = [None] * (
                    self.number(size, scope) if size else self.unsure()
                )
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
            text = self.unit.text(node)
            return int(text) if re.fullmatch(r"0|[1-9]\d{0,9}", text) else self.unsure()
        if kind == "char_literal":
            text = _plain(self.unit.text(node)[1:-1])
            return ord(text) if len(text) == 1 else self.unsure()
        if kind == "string_literal":
            return _plain(self.unit.text(node)[1:-1])
        if kind == "identifier":
            found = scope.get(self.unit.text(node))
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
            scope[self.unit.text(target)] = value
            return
        if target.type != "subscript_expression":
            raise Unsure
        values, index = self.value(target.named_children[0], scope), self.number(target.named_children[1], scope)
        if not isinstance(values, list) or not 0 <= index < len(values):
            raise Unsure
        values[index] = value

    def called(self, node: Node, scope: dict) -> object:
        name = self.unit.text(node.children[0])
        arguments = node.child_by_field_name("arguments")
        assert arguments is not None
        given = [self.value(argument, scope) for argument in arguments.named_children]
        if name in self.unit.functions:
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
