"""Reads Go, Rust, Java and JavaScript into facts: imports, calls by full name, paths, programs started, strings.

One tree-sitter parse and one query for what matters (calls, strings, sums, assignments, imports); order and branches
are not followed: what any line could do counts. Strings that are only shown, compared or used as keys are no paths.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from detect import trees
from detect.code_fold import Expressions, Value, operator
from detect.code_names import NameReader
from detect.code_tables import (
    CODE_CALLS,
    FILE_LISTS,
    FILE_WRITES,
    IMPORT_CALLS,
    MENTIONING,
    PROGRAM_CALLS,
    ROLES,
    SHELL_CALLS,
    SHOWN_MACROS,
    STRINGS,
    WITHOUT_NAME,
)
from detect.facts import MAX_DEPTH, Access, Language, Origin, Sink
from detect.paths import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

_APPENDS = re.compile(rb"\.(?:append|push_str|WriteString|push)\(")
_EMBED = re.compile(rb"^//go:embed[ \t]+(.+)$", re.M)
_GENERATE = re.compile(rb"^//go:generate[ \t]+(.+)$", re.M)


def read(sink: Sink, data: bytes, language: Language, origin: Origin) -> None:
    CodeReader(sink, data, language, origin).run()


class CodeReader(NameReader):
    def run(self) -> None:
        if len(self.data) > trees.MAX_BYTES:
            self.fact("opaque", "partly_read", (0, len(self.data)))
        self.sink.spend(len(self.data) // 4)
        found = trees.collect(self.language, self.data, ROLES[self.language])
        self.sink.spend(2 * sum(len(nodes) for nodes in found.values()))
        for node in found.get("import", ()):
            self._import(node)
        for node in found.get("bind", ()):
            self._bind(node)
        if _APPENDS.search(self.data):
            for node in found.get("call", ()):
                self._append(node)
        self.known.settled = True
        for node in found.get("pattern", ()):
            self._leave(node, deep=True)
        for name, field in (("label", "value"), ("key", "key")):
            for node in found.get(name, ()):
                part = node.child_by_field_name(field)
                if part is not None:
                    self._leave(part, deep=True)
        sums: list[Node] = []
        for node in found.get("binary", ()):
            kind = operator(node)
            if kind == "+":
                sums.append(node)
            elif kind in ("==", "!=", "===", "!=="):
                self._leave(node, deep=False)
        for node in found.get("macro", ()):
            self._macro(node)
        for node in found.get("call", ()):
            self._call(node)
        for parts in self.programs.values():
            words = [word for _, part in sorted(parts) for word in part]
            self._program(words, (min([end for end, _ in parts], default=0), len(self.data)))
        for node in sums:
            self._sum(node)
        for node in found.get("list", ()):
            self._characters(node)
        for node in found.get("string", ()):
            self._string(node)
        if self.language == "go":
            for match in _EMBED.finditer(self.data):
                for name in match.group(1).decode("latin-1").split():
                    self.path(name.strip('"`').removeprefix("all:"), "read", "go:embed", match.span(1))
            for match in _GENERATE.finditer(self.data):
                self.inner(match.group(1), "shell", match.span(1), unit="sh")

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> None:
        name, last, owner, given = self.known.callee(node)
        if name is None:
            name = f"?.{last}" if last else ""
        if not name:
            return
        values = [self.known.fold(argument) for argument in given]
        self.fact("call", name, node, args=tuple(map(self._shown, given, values)))
        whole = self.known.fold(node)
        if isinstance(whole, str) and "/" in whole and whole not in values:
            self.path(whole, "read" if whole.startswith("/") else "mention", "", node)
        access = _access(name)
        if access == "mention":
            for argument in (*given, owner):
                if argument is not None:
                    self._leave(argument, deep=False)
            return
        first = values[0] if values else None
        if IMPORT_CALLS.fullmatch(name) and isinstance(first, str):
            self.fact("import", first.removeprefix("node:"), node)
            if "/" not in first:
                return
        if name in CODE_CALLS and given and self.language == "javascript":
            self._code(node, values[-1] if name == "Function" else first)
        if self._programs(node, name, last, owner, values):
            return
        for argument, value in zip(given, values, strict=True):
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and "/" in text:
                    self.path(text, access, name, argument)
        if owner is not None and (_opens(name) or access != "read"):
            text = self.known.text(owner)
            if text and "/" in text:
                self.path(text, access, name, owner)

    def _shown(self, node: Node, value: Value | None) -> str:
        if value is not None:
            return " ".join(str(item) for item in value[:16]) if isinstance(value, list) else str(value)
        if node.type == "object":
            return self.known.source(node)[:300]
        return self.known.dotted(node) or UNKNOWN

    def _programs(self, node: Node, name: str, last: str, owner: Node | None, values: list[Value | None]) -> bool:
        """Programs that a call starts; True when the arguments have been dealt with."""
        first = values[0] if values else None
        if name in SHELL_CALLS and values:
            if isinstance(first, str):
                self.inner(first, "shell", node, unit="sh")
            elif isinstance(first, list):
                self._program(_words(first), node)
            else:
                self.fact("opaque", "unknown_script", node)
            return True
        if name in PROGRAM_CALLS:
            words: list[str] = []
            for value in values[PROGRAM_CALLS[name] :]:
                words += _words(value) if isinstance(value, list) else [UNKNOWN if value is None else str(value)]
            if name in WITHOUT_NAME:
                words = words[:1] + words[2:]
            if self.language == "rust":
                words += self._chained(node)
                holder = _holder(node, self.known)
                if holder in self.programs:
                    self.programs[holder].append((node.end_byte, words))
                    return True
            self._program(words, node)
            return True
        if last in ("arg", "args") and owner is not None and self.language == "rust":
            root = owner
            while root.type == "call_expression":
                self.sink.spend(4)
                function = root.child_by_field_name("function")
                value = function.child_by_field_name("value") if function is not None else None
                if value is None:
                    break
                root = value
            parts = self.programs.get(self.known.source(root)[:200]) if root.type == "identifier" else None
            if parts is not None:
                words = _words(first) if isinstance(first, list) else [UNKNOWN if first is None else str(first)]
                parts.append((node.end_byte, words))
            return parts is not None
        return False

    def _chained(self, node: Node) -> list[str]:
        """`.arg("-c").args([...])` behind `Command::new("sh")`."""
        words: list[str] = []
        current: Node = node
        for _ in range(64):
            member = current.parent
            call = member.parent if member is not None and member.type == "field_expression" else None
            if call is None or call.type != "call_expression":
                break
            _, last, _, given = self.known.callee(call)
            if last in ("arg", "args") and given:
                value = self.known.fold(given[0])
                words += _words(value) if isinstance(value, list) else [UNKNOWN if value is None else str(value)]
            current = call
        return words

    def _program(self, words: list[str], where: Node | tuple[int, int]) -> None:
        if len(words) == 1 and " " in words[0]:
            self.inner(words[0], "shell", where, unit="sh")
        else:
            self.program(words, where)

    def _code(self, node: Node, text: Value | None) -> None:
        if not isinstance(text, str) or not text.replace(UNKNOWN, ""):
            self.fact("opaque", "unknown_code", node)
            return
        self.inner(text, self.language, node)

    def _macro(self, node: Node) -> None:
        """Rust's macros are token soup to the grammar: strings in it are shown, code in it is read as arguments."""
        name = self.known.source(node).partition("!")[0].rsplit("::", 1)[-1].strip()
        tree = next((child for child in node.named_children if child.type == "token_tree"), None)
        if tree is None:
            return
        if name in ("include_str", "include_bytes", "include", "include_dir"):
            # `concat!` inside is one more tree of tokens
            trees_inside = [tree, *(child for child in tree.named_children if child.type == "token_tree")]
            parts = [self.known.fold(child) for inner in trees_inside for child in inner.named_children]
            text = "".join(part for part in parts if isinstance(part, str))
            if text:
                self.path(text, "read", f"{name}!", node)
            return
        if name == "concat":
            text = self.known.text(node)
            if text and "/" in text:
                self.path(text, "read" if text.startswith("/") else "mention", "concat!", node)
        shown = name in SHOWN_MACROS or name == "format"
        for child in tree.named_children if shown else ():
            if child.type in STRINGS:
                self.done.add((child.start_byte, child.end_byte))
        inner = self.data[tree.start_byte + 1 : tree.end_byte - 1]
        if b"(" not in inner or len(inner) > 4096 or self.depth >= MAX_DEPTH or name == "macro_rules":
            return
        for child in tree.named_children:
            self._leave(child, deep=True)
        origin = Origin(self.span(node.start_byte, node.end_byte), self.written, None, self.depth + 1, self.origin.cwd)
        reader = CodeReader(self.sink, b"fn m(){println(" + inner + b");}", self.language, origin, self.known)
        reader.harmless = self.harmless
        reader.run()

    # --- strings ---------------------------------------------------------------------------------------------------

    def _sum(self, node: Node) -> None:
        if (node.start_byte, node.end_byte) in self.done:
            return
        parts = self.known.operands(node)
        current: Node | None = node
        while current is not None and current.type == "binary_expression":
            self.done.add((current.start_byte, current.end_byte))
            current = current.child_by_field_name("left")
        text = self.known.text(node)
        for part in parts:
            if part.type in STRINGS:
                self.done.add((part.start_byte, part.end_byte))
        if text is not None:
            self._text(text, node)

    def _string(self, node: Node) -> None:
        text = self.known.text(node)
        if not text:
            return
        if (node.start_byte, node.end_byte) in self.done:
            if len(text) <= 4096:
                self.fact("string", text, node)
            return
        self._text(text, node)

    def _characters(self, node: Node) -> None:
        """`{'/', 'e', 'v', ...}` is a string too."""
        value = self.known.fold(node)
        if not isinstance(value, list) or not 3 < len(value) <= 512:
            return
        if not all(isinstance(v, int) or (isinstance(v, str) and len(v) == 1) for v in value):
            return
        text = "".join(chr(v & 255) if isinstance(v, int) else v for v in value)
        if text.isprintable():
            self._text(text, node)

    def _text(self, text: str, node: Node) -> None:
        if len(text) > 4096:
            return
        self.fact("string", text, node)
        if "/" in text:
            self.path(text, "read" if text.startswith("/") else "mention", "", node)


@lru_cache(maxsize=4096)
def _access(name: str) -> Access:
    """What a function does to a path that it is given."""
    if MENTIONING.fullmatch(name) and not _opens(name):
        return "mention"
    return "write" if FILE_WRITES.fullmatch(name) else "list" if FILE_LISTS.fullmatch(name) else "read"


def _opens(name: str) -> bool:
    """Names that say `write` or `create` but open files by path."""
    return name.startswith(("java.nio.file.", "fs.", "std.fs.", "os.")) and not name.startswith("os.Stdout")


def _holder(node: Node, known: Expressions) -> str:
    """The variable that a chain of calls is assigned to, or empty."""
    current = node.parent
    while current is not None and current.type in ("field_expression", "call_expression", "await_expression"):
        current = current.parent
    if current is None or current.type != "let_declaration":
        return ""
    pattern = current.child_by_field_name("pattern")
    return known.source(pattern) if pattern is not None else ""


def _words(values: list) -> list[str]:
    return [UNKNOWN if value is None else str(value) for value in values[:256]]
