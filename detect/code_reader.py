"""Reads Go, Rust, Java and JavaScript into facts: imports, calls by full name, paths, programs started, strings.

One tree-sitter parse and one query for what matters (calls, strings, sums, assignments, imports); order and branches
are not followed: what any line could do counts. Strings that are only shown, compared or used as keys are no paths.
"""

from __future__ import annotations

import bisect
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from detect import trees
from detect.code_fold import Expressions, Value, operator
from detect.code_tables import (
    CALLS,
    CODE_CALLS,
    FILE_LISTS,
    FILE_WRITES,
    IDENTIFIERS,
    IMPORT_CALLS,
    KINDS,
    MENTIONING,
    PROGRAM_CALLS,
    SHELL_CALLS,
    SHOWN_MACROS,
    STRINGS,
    WITHOUT_NAME,
)
from detect.facts import MAX_DEPTH, Access, Fact, Language, Sink
from detect.paths import UNKNOWN, resolve

if TYPE_CHECKING:
    from tree_sitter import Node

_APPENDS = re.compile(rb"\.(?:append|push_str|WriteString|push)\(")
_GENERATE = re.compile(rb"^//go:generate[ \t]+(.+)$", re.M)


def read(
    sink: Sink,
    data: bytes,
    language: Language,
    *,
    written: str | None,
    span: tuple[int, int],
    offset: int | None,
    depth: int,
    cwd: str | None,
) -> None:
    CodeReader(sink, data, language, written=written, span=span, offset=offset, depth=depth, cwd=cwd).run()


class CodeReader:
    def __init__(
        self,
        sink: Sink,
        data: bytes,
        language: Language,
        *,
        written: str | None,
        span: tuple[int, int],
        offset: int | None,
        depth: int,
        cwd: str | None,
        known: Expressions | None = None,
    ) -> None:
        self.sink = sink
        self.data = data
        self.language: Language = language
        self.written = written
        self.outer_span = span
        self.offset = offset
        self.depth = depth
        self.cwd = cwd
        self.known = Expressions(data, language, sink.spend)
        if known is not None:
            self.known.names, self.known.aliases, self.known.packages = known.names, known.aliases, known.packages
        self.done: set[tuple[int, int]] = set()
        """Where strings stand that need no second look: shown, compared, or part of something bigger."""
        self.programs: dict[str, list[tuple[int, list[str]]]] = {}
        """Variables that hold a program that is still given arguments."""
        self.newlines: list[int] | None = None

    def run(self) -> None:
        if len(self.data) > trees.MAX_BYTES:
            self._fact("opaque", "too_large", 0, len(self.data))
        self.sink.spend(len(self.data) // 4)
        found = trees.collect(self.language, self.data, KINDS[self.language])
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
            self._program(words, min([end for end, _ in parts], default=0), len(self.data))
        for node in sums:
            self._sum(node)
        for node in found.get("list", ()):
            self._characters(node)
        for node in found.get("string", ()):
            self._string(node)
        if self.language == "go":
            for match in _GENERATE.finditer(self.data):
                self._shell(match.group(1).decode("latin-1"), match.start(1), match.end(1))

    # --- imports and assignments -----------------------------------------------------------------------------------

    def _import(self, node: Node) -> None:
        source = self.known.source(node)
        aliases = self.known.aliases
        if self.language == "go":
            path, name = node.child_by_field_name("path"), node.child_by_field_name("name")
            if path is None:
                return
            self._leave(path, deep=False)
            module = self.known.text(path) or ""
            alias = self.known.source(name) if name is not None else module.rsplit("/", 1)[-1]
            if alias == ".":
                self.known.packages.append(module)
            else:
                aliases[alias] = module
            self._imported(module, node)
        elif self.language == "rust":
            for path, alias in _use(re.sub(r"\s+", " ", re.sub(r"^.*?\buse\s+|;\s*$", "", source))):
                name = path.replace("::", ".")
                if name.endswith(".*"):
                    self.known.packages.append(name[:-2])
                else:
                    aliases[alias] = name
                self._imported(name.removesuffix(".*"), node)
        elif self.language == "java":
            match = re.search(r"import\s+(static\s+)?([\w.]+?)(\.\*)?\s*;", source)
            if match:
                name = match.group(2)
                if not match.group(3):
                    aliases[name.rsplit(".", 1)[-1]] = name
                self._imported(name, node)
        else:
            self._import_javascript(node, source)

    def _import_javascript(self, node: Node, source: str) -> None:
        path = node.child_by_field_name("source")
        if path is None:
            return
        self._leave(path, deep=False)
        module = (self.known.text(path) or "").removeprefix("node:")
        self._imported(module, node)
        clause = source.partition("import")[2].rpartition("from")[0]
        for name, alias in re.findall(r"([\w$*]+)(?:\s+as\s+([\w$]+))?", clause):
            if name == "*" or (name == "default" and alias):
                self.known.aliases[alias] = module
            elif "{" in clause.split(name, 1)[0]:
                self.known.aliases[alias or name] = f"{module}.{name}"
            else:
                self.known.aliases[alias or name] = module

    def _imported(self, module: str, node: Node) -> None:
        self._fact("import", module, node.start_byte, node.end_byte)
        if module.startswith("/"):
            self._path(module, "read", "import", node)

    def _bind(self, node: Node) -> None:
        field = node.child_by_field_name
        targets = [n for n in (field("left") or field("pattern"),) if n is not None] or node.children_by_field_name(
            "name"
        )
        value = field("right") or field("value")
        if value is None or not targets:
            return
        values = [value]
        if value.type == "expression_list":
            values = value.named_children
        if targets[0].type == "expression_list":
            targets = targets[0].named_children
        more = field("operator") is not None and (field("operator") or node).type == "+="
        more = more or any(child.type == "+=" for child in node.children)
        for target, part in zip(targets, values, strict=False):
            if target.type == "object_pattern":
                self._pattern(target, part)
            else:
                self._assign(target, part, more)

    def _assign(self, target: Node, value: Node, more: bool) -> None:
        names, aliases = self.known.names, self.known.aliases
        name = re.split(r"\.|::", self.known.source(target))[-1]
        folded = self.known.fold(value)
        if folded is not None:
            before = names.get(name)
            if more and isinstance(before, str) and isinstance(folded, str | int):
                names[name] = (before + str(folded))[:65536]
            elif not isinstance(before, str) or not isinstance(folded, str) or len(folded) >= len(before):
                # of two values, the longer string is kept: a placeholder must not hide a path
                names[name] = folded
        if target.type in IDENTIFIERS and (dotted := self.known.dotted(value)) is not None and dotted != name:
            if PROGRAM_CALLS.get(dotted.removesuffix("()")) is not None and dotted.endswith("()"):
                self.programs.setdefault(name, [])
            aliases[name] = dotted

    def _pattern(self, target: Node, value: Node) -> None:
        """`const {execSync: run} = require('child_process')`."""
        owner = self.known.dotted(value)
        if owner is None:
            return
        for part in target.named_children:
            key, alias = part.child_by_field_name("key"), part.child_by_field_name("value")
            name = self.known.source(key if key is not None else part).strip("'\"")
            self.known.aliases[self.known.source(alias) if alias is not None else name] = f"{owner}.{name}"

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> None:
        name, last, owner, given = self.known.callee(node)
        if name is None:
            name = f"?.{last}" if last else ""
        if not name:
            return
        values = [self.known.fold(argument) for argument in given]
        shown = tuple(self._shown(argument, value) for argument, value in zip(given, values, strict=True))
        self._fact("call", name, node.start_byte, node.end_byte, args=shown)
        if isinstance(whole := self.known.fold(node), str) and whole not in values and "/" in whole:
            self._path(whole, "read" if whole.startswith("/") else "mention", "", node)
        access = _access(name)
        if access == "mention":
            for argument in (*given, owner):
                if argument is not None:
                    self._leave(argument, deep=False)
            return
        first = values[0] if values else None
        if IMPORT_CALLS.fullmatch(name) and isinstance(first, str):
            self._fact("import", first.removeprefix("node:"), node.start_byte, node.end_byte)
            if "/" not in first:
                return
        if name in CODE_CALLS and given and self.language == "javascript":
            self._code(node, values[-1] if name == "Function" else first)
        if self._programs(node, name, last, owner, values):
            return
        for argument, value in zip(given, values, strict=True):
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and "/" in text:
                    self._path(text, access, name, argument)
        if owner is not None and (_opens(name) or access != "read"):
            text = self.known.text(owner)
            if text and "/" in text:
                self._path(text, access, name, owner)

    def _shown(self, node: Node, value: Value | None) -> str:
        if isinstance(value, list):
            return " ".join(str(item) for item in value[:16])
        if value is not None:
            return str(value)
        if node.type == "object":
            return self.known.source(node)[:300]
        return self.known.dotted(node) or UNKNOWN

    def _append(self, node: Node) -> None:
        """`b.append("al")`, `s.push_str("al")`, `b.WriteString("al")` as statements."""
        _, last, owner, given = self.known.callee(node)
        if last not in ("append", "push_str", "WriteString", "push") or owner is None or owner.type not in IDENTIFIERS:
            return
        key = self.known.source(owner)
        before = self.known.names.get(key, "" if last == "WriteString" else None)
        if isinstance(before, str) and given and isinstance(text := self.known.fold(given[0]), str):
            self.known.names[key] = (before + text)[:65536]

    def _programs(self, node: Node, name: str, last: str, owner: Node | None, values: list[Value | None]) -> bool:
        """Programs that a call starts; True when the arguments have been dealt with."""
        first = values[0] if values else None
        if name in SHELL_CALLS and values:
            if isinstance(first, str):
                self._shell(first, node.start_byte, node.end_byte)
            elif isinstance(first, list):
                self._program(_words(first), node.start_byte, node.end_byte)
            else:
                self._fact("opaque", "unknown_script", node.start_byte, node.end_byte)
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
            self._program(words, node.start_byte, node.end_byte)
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

    def _program(self, words: list[str], start: int, end: int) -> None:
        if not words or not words[0].strip():
            return
        if len(words) == 1 and " " in words[0]:
            self._shell(words[0], start, end)
            return
        self._shell(" ".join("'" + word.replace("'", "'\\''") + "'" for word in words), start, end)

    def _shell(self, script: str, start: int, end: int) -> None:
        self.sink.read(
            script.encode("latin-1", "replace"),
            "shell",
            written=self.written,
            span=self._span(start, end),
            depth=self.depth + 1,
            cwd=self.cwd,
            unit="sh",
        )

    def _code(self, node: Node, text: Value | None) -> None:
        if not isinstance(text, str) or not text.replace(UNKNOWN, ""):
            self._fact("opaque", "unknown_code", node.start_byte, node.end_byte)
            return
        self.sink.read(
            text.encode("latin-1", "replace"),
            self.language,
            written=self.written,
            span=self._span(node.start_byte, node.end_byte),
            depth=self.depth + 1,
            cwd=self.cwd,
        )

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
                self._path(text, "read", f"{name}!", node)
            return
        if name == "concat":
            text = self.known.text(node)
            if text and "/" in text:
                self._path(text, "read" if text.startswith("/") else "mention", "concat!", node)
        shown = name in SHOWN_MACROS or name == "format"
        for child in tree.named_children if shown else ():
            if child.type in STRINGS:
                self.done.add((child.start_byte, child.end_byte))
        inner = self.data[tree.start_byte + 1 : tree.end_byte - 1]
        if b"(" not in inner or len(inner) > 4096 or self.depth >= MAX_DEPTH or name == "macro_rules":
            return
        for child in tree.named_children:
            self._leave(child, deep=True)
        CodeReader(
            self.sink,
            b"fn m(){println(" + inner + b");}",
            self.language,
            written=self.written,
            span=self._span(node.start_byte, node.end_byte),
            offset=None,
            depth=self.depth + 1,
            cwd=self.cwd,
            known=self.known,
        ).run()

    # --- strings ---------------------------------------------------------------------------------------------------

    def _leave(self, node: Node, *, deep: bool) -> None:
        """Strings in `node` are shown or compared; without `deep`, only those that it is made of."""
        stack = [(node, 0)]
        while stack:
            current, depth = stack.pop()
            self.sink.spend(1)
            if current.type in STRINGS or current.type == "binary_expression":
                self.done.add((current.start_byte, current.end_byte))
            if current.type in CALLS and not deep:
                continue
            if depth < 12:
                stack += [(child, depth + 1) for child in current.named_children]

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
                self._fact("string", text, node.start_byte, node.end_byte)
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
        self._fact("string", text, node.start_byte, node.end_byte)
        if "/" in text:
            self._path(text, "read" if text.startswith("/") else "mention", "", node)

    def _path(self, text: str, access: Access, by: str, node: Node) -> None:
        if not text or len(text) > 1024 or "\n" in text or " " in text.strip():
            return
        where = resolve(text.removeprefix("file://"), self.cwd, self.sink.links)
        if where is not None:
            self._fact("path", where, node.start_byte, node.end_byte, access=access, given=text, by=by)

    def _span(self, start: int, end: int) -> tuple[int, int]:
        return self.outer_span if self.offset is None else (self.offset + start, self.offset + end)

    def _fact(
        self,
        kind,
        value: str,
        start: int,
        end: int,
        *,
        args: tuple[str, ...] = (),
        access: Access = "",
        given: str = "",
        by: str = "",
    ) -> None:
        if self.newlines is None:
            self.newlines = [match.start() for match in re.finditer(rb"\n", self.data)]
        self.sink.add(
            Fact(
                kind,
                value,
                self.language,
                args=args,
                access=access,
                written=self.written,
                span=self._span(start, end),
                line=bisect.bisect_left(self.newlines, start) + 1,
                given=given,
                by=by,
            )
        )


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


def _use(tree: str, prefix: str = "") -> list[tuple[str, str]]:
    """The paths of a `use`, each with the name it gets: `std::{fs, net::TcpStream as T}`."""
    tree = tree.strip()
    if "{" in tree:
        head, _, rest = tree.partition("{")
        inside = rest.rpartition("}")[0]
        found: list[tuple[str, str]] = []
        level, start = 0, 0
        for index, char in enumerate(inside + ","):
            level += (char == "{") - (char == "}")
            if char == "," and level == 0:
                if inside[start:index].strip() and len(found) < 128:
                    found += _use(inside[start:index], prefix + head)
                start = index + 1
        return found
    path, _, alias = tree.partition(" as ")
    path = (prefix + path.strip()).removesuffix("::self").strip(":")
    return [(path, alias.strip() or path.rsplit("::", 1)[-1])]
