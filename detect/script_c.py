# ruff: noqa: RUF001 - the compiler really prints typographic quotes
"""GCC 12 on small C programs of a played script: what it complains about, and what the program then prints.

Source goes in; the errors and warnings that are known, and the output and exit status of a program that takes no input,
come out. Anything else of C is not judged: such code is taken to compile, and to print what is not known.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from detect import trees
from detect.script_c_run import Program, text_of, walk
from detect.script_world import Unsure

if TYPE_CHECKING:
    from tree_sitter import Node

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
    "errno.h": ["errno", "ENOENT"],
    "math.h": ["sqrt", "pow", "floor", "ceil", "fabs", "sin", "cos", "log", "exp", "M_PI"],
    "limits.h": ["INT_MAX", "INT_MIN", "CHAR_BIT"],
    "stddef.h": ["size_t", "NULL"],
    "stdint.h": ["uint8_t", "int32_t", "uint32_t", "int64_t", "uint64_t"],
}  # fmt: skip


class Compiled(msgspec.Struct, frozen=True):
    said: str
    fails: bool
    runs: Program | None


def compile_c(code: str, name: str, *, warnings: bool, header: Callable[[str], bool], linked: bool) -> Compiled:
    """`header` tells whether a file of that name is there to be included. Raises Unsure."""
    if not code.isascii() or "\t" in code or len(code) > 8192:
        return Compiled("", False, None)
    lines = code.split("\n")
    if (said := _absent(lines, name, header)) is not None:
        return Compiled(said, True, None)
    unit = _Unit(code, name, lines)
    return unit.judged(warnings=warnings, linked=linked)


def compile_cpp(code: str, name: str, *, header: Callable[[str], bool]) -> Compiled:
    """C++ is taken to compile where it parses; what it prints is known of programs that are C but for their output."""
    if not code.isascii() or "\t" in code or len(code) > 8192:
        return Compiled("", False, None)
    if (said := _absent(code.split("\n"), name, header)) is not None:
        return Compiled(said, True, None)
    root = trees.parse("cpp", code.encode()).root_node
    functions = {t: node for node in root.children if node.type == "function_definition" and (t := _title(node))}
    return Compiled("", False, None if root.has_error else Program(functions, root))


def _absent(lines: list[str], name: str, header: Callable[[str], bool]) -> str | None:
    """What is said of a header that is not there."""
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if match and not header(match[1]):
            at = line.index('"')
            said = _message(name, number, at, f"fatal error: {match[1]}: No such file or directory", line)
            return said + _under(number, line, at, len(match[1]) + 2) + "compilation terminated.\n"
    return None


def _message(name: str, line: int, column: int, text: str, _source: str) -> str:
    return f"{name}:{line}:{column + 1}: {text}\n"


def _under(line: int, source: str, column: int, length: int) -> str:
    return f"{line:5} | {source}\n      | {' ' * column}^{'~' * (length - 1)}\n"


class _Unit:
    def __init__(self, code: str, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines
        self.root = trees.parse("c", code.encode()).root_node
        self.included = re.findall(r"^\s*#\s*include\s*<([\w./]+)>", code, re.M)
        self.plain = not re.search(r"^\s*#\s*(?!include\b|define +\w+ +\d+\s*$)\w", code, re.M) and set(
            self.included
        ) <= set(_HEADERS)
        self.defined = set(re.findall(r"^\s*#\s*define +(\w+) +\d+\s*$", code, re.M))
        self.known = {word for header in self.included for word in _HEADERS.get(header, ())}
        self.functions: dict[str, Node] = {}
        self.declared: set[str] = set(self.defined)
        for node in self.root.children:
            if node.type == "function_definition" and (title := _title(node)):
                self.functions[title] = node
            for inside in walk(node) if node.type in ("declaration", "type_definition") else ():
                if inside.type in ("identifier", "type_identifier"):
                    self.declared.add(text_of(inside))
            for inside in walk(node):
                if inside.type == "enumerator":
                    self.declared.add(text_of(inside.children[0]))

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
        return Compiled(said, False, Program(self.functions, self.root) if linked else None)

    def broken(self) -> str:
        """What is said of code that does not parse, where that is one missing `;` or the end."""
        missing = [node for node in walk(self.root) if node.is_missing]
        errors = [node for node in walk(self.root) if node.type == "ERROR"]
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
            statements = [n for n in walk(self.root) if n.type.endswith("_statement") and n.start_point[0] == last]
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
        for node in walk(function):
            if node.type != "identifier" or node.parent is None:
                continue
            word = text_of(node)
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
            for node in walk(function):
                if node.type != "call_expression" or node.children[0].type != "identifier":
                    continue
                word = text_of(node.children[0])
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
    found = next((n for n in walk(function) if n.type == "function_declarator"), None)
    return (found.children[0].text or b"").decode() if found is not None else ""
