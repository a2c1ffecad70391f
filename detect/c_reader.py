"""Reads C and C++ into facts: includes, calls by name with literal arguments, strings, and what `system` is given.

A tree-sitter parse with object-like macros replaced and neighbouring string literals joined. Control flow and types
are not looked at: any call counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from detect import c_macros, trees
from detect.facts import Language, Origin, Sink
from detect.paths import UNKNOWN
from detect.reader import TreeReader
from detect.shell_expand import unescape

if TYPE_CHECKING:
    from tree_sitter import Node

SHELL_CALLS = frozenset(["system", "popen", "std::system"])
EXEC_CALLS = frozenset(
    [
        *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"),
        *("posix_spawn", "posix_spawnp"),
    ]
)
PRINT_CALLS = frozenset(
    [
        "printf",
        "puts",
        "fputs",
        "fprintf",
        "perror",
        "fwrite",
        "write",
        "snprintf",
        "sprintf",
        "strcmp",
        "strncmp",
        "strstr",
        "strlen",
    ]
)
_BUILDING = frozenset(
    [
        "strcpy",
        "strncpy",
        "stpcpy",
        "strcat",
        "strncat",
        "strlcat",
        "strlcpy",
        "sprintf",
        "snprintf",
        "memcpy",
        "memmove",
        "mempcpy",
    ]
)
_POINTER = re.compile(r"\(?\s*\*\s*(\w+)\s*\)?\s*\(")
_SLOT = re.compile(r"%[-+#0-9.*]*[a-zA-Z]+")
_LEAVES = frozenset(
    [
        *("identifier", "field_identifier", "type_identifier", "primitive_type", "number_literal", "char_literal"),
        *("comment", "preproc_include", "preproc_def", "storage_class_specifier", "type_qualifier", "null", "true"),
        *("false", "statement_identifier", "sized_type_specifier", "preproc_arg", "break_statement"),
    ]
)
"""Nodes in which there is nothing to look at."""
_ROLES = (
    *((kind, "leaf") for kind in sorted(_LEAVES)),
    ("identifier", "name"),
    ("string_literal", "string"),
    ("raw_string_literal", "raw string"),
    ("concatenated_string", "strings"),
    ("call_expression", "call"),
    ("init_declarator", "declared"),
    ("assignment_expression", "assigned"),
    ("binary_expression", "binary"),
    ("initializer_list", "list"),
)
"""What each kind of node is looked at for."""
_DEFINE = re.compile(
    rb'^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+((?:"(?:[^"\\\n]|\\.)*"[ \t]*|[A-Za-z_]\w*[ \t]*)+)$', re.M
)
_WORD = rb'(?:[A-Za-z_]\w*+|"(?:[^"\\\n]|\\.)*+")'
_NEIGHBOURS = re.compile(rb"\b([A-Za-z_]\w*+)\s*+[(=]\s*+(" + _WORD + rb"(?:\s*+" + _WORD + rb")++)\s*+[,);]")
_PARTS = re.compile(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)')
_INCLUDE = re.compile(
    rb"^[ \t]*(?:#[ \t]*(?:include(?:_next)?|import|embed)|(?:export[ \t]+)?import)(?:[ \t]|/\*[^*\n]*\*/)*"
    rb'[<"]([^>"\n]+)[>"]',
    re.M,
)
_INCLUDED = re.compile(rb'^[ \t]*#[ \t]*define[ \t]+\w+[ \t]+[<"]([^>"\n]*/[^>"\n]*)[>"][ \t]*$', re.M)
"""A file whose name a macro holds, where one is included by such a name."""
_INCLUDES_MACRO = re.compile(rb"#[ \t]*include[ \t]+[A-Za-z_]")
_INCBIN = re.compile(rb'\.incbin[ \t\\"]+([^"\\\n]+)')


def read(sink: Sink, data: bytes, language: Language, origin: Origin) -> None:
    CReader(sink, data, language, origin).run()


class CReader(TreeReader):
    def __init__(self, sink: Sink, data: bytes, language: Language, origin: Origin) -> None:
        super().__init__(sink, data, language, origin)
        self.macros: dict[str, bytes] = {}
        self.variables: dict[str, str] = {}
        """Variables that were given a known string."""
        self.ends: dict[str, str] = {}
        """Pointers to the end of a string that is being built, and the variable that holds it."""
        self.role = trees.roles(language, _ROLES).get
        """What a kind of node is looked at for, by its number."""

    def run(self) -> None:
        for match in _DEFINE.finditer(self.data):
            self.macros[match.group(1).decode("latin-1")] = match.group(2).strip()
        named = _INCLUDED.finditer(self.data) if _INCLUDES_MACRO.search(self.data) is not None else ()
        for match in (*_INCLUDE.finditer(self.data), *named):
            name = match.group(1).decode("latin-1")
            self.fact("import", name, match.span(1))
            self.path(name, "read", "#include", match.span(1))
        for match in _INCBIN.finditer(self.data):
            self.path(match.group(1).decode("latin-1"), "read", ".incbin", match.span(1))
        if self.macros:
            self._neighbours()
            if (self.written or "").endswith((".h", ".hh", ".hpp")):
                self._told()
        if b"#" in self.data and self.depth < 3 and (pasted := c_macros.expanded(self.data)) is not None:
            self.inner(pasted, self.language, (0, len(self.data)))
        tree = trees.parse(self.language, self.data)
        if len(self.data) > trees.MAX_BYTES:
            self.fact("opaque", "partly_read", (0, len(self.data)))
        self.sink.spend(6 * tree.root_node.descendant_count)
        role = self.role
        printed, outside = False, list[bool]()
        """Whether strings are only printed or compared here, and in the calls around."""
        stack: list[Node | None] = [tree.root_node]
        pop = stack.pop
        while stack:
            node = pop()
            if node is None:
                printed = outside.pop()
                continue
            kind = role(node.kind_id)
            if kind is not None:
                if kind in ("leaf", "name"):
                    continue
                if kind in ("string", "strings", "raw string"):
                    self._text(self._string(node), node, printed)
                    continue
                if kind == "call":
                    # the end of the call: what stands behind it is looked at as what stands before it
                    stack.append(None)
                    outside.append(printed)
                    printed = self._call(node)
                elif kind == "declared":
                    self._assign(node, "declarator", "value")
                elif kind == "assigned":
                    self._assign(node, "left", "right")
                elif kind == "list":
                    self._characters(node)
                elif self.language == "cpp":
                    self._text(self._string(node), node, printed)
            children = node.named_children
            if children:
                stack += children[::-1]

    def _text(self, text: str | None, node: Node, printed: bool) -> None:
        if text:
            self.fact("string", text, node)
            if not printed and text.startswith("/"):
                self.path(text, "read", "open", node)

    def _told(self) -> None:
        """Paths that a header gives names to: who includes it opens them."""
        for match in _DEFINE.finditer(self.data):
            text = self._macro(match.group(1).decode("latin-1"), 0)
            if text is not None and text.startswith("/"):
                self.path(text, "read", "open", match.span(2))

    def _neighbours(self) -> None:
        """`system(A B)`: macros and literals side by side are one string, which the grammar takes for an error."""
        for match in _NEIGHBOURS.finditer(self.data):
            self.sink.spend(4)
            parts = _PARTS.findall(match.group(2).decode("latin-1"))
            texts = [unescape(text) if not word else self._macro(word, 0) for text, word in parts]
            known = [text for text in texts if text is not None]
            if len(known) < max(len(texts), 2):
                continue
            text, where = "".join(known), match.span(2)
            self.fact("string", text, where)
            name = match.group(1).decode("latin-1")
            if name in SHELL_CALLS:
                self.inner(text, "shell", where, unit="sh")
            elif name in EXEC_CALLS:
                self.program([text], where)
            elif text.startswith("/") and name not in PRINT_CALLS:
                self.path(text, "read", "open", where)

    def _assign(self, node: Node, left: str, right: str) -> None:
        target, value = node.child_by_field_name(left), node.child_by_field_name(right)
        if target is None or value is None:
            return
        name = self._source(target).strip("*& ").split("[")[0]
        called = self.data[value.start_byte : min(value.end_byte, value.start_byte + 40)].decode("latin-1").strip("& ")
        if called in SHELL_CALLS or called in EXEC_CALLS:
            # called by another name from here on
            pointer = _POINTER.match(self._source(target)[:100])
            self.macros.setdefault(pointer[1] if pointer else name, called.encode("latin-1"))
        text = self._string(value)
        if text is None:
            return
        if name in self.variables and any(child.type == "+=" for child in node.children):
            self.variables[name] = (self.variables[name] + text)[:65536]
            return
        # of two values, the longer one is kept: a placeholder must not hide a path
        if len(text) >= len(self.variables.get(name, "")):
            self.variables[name] = text

    def _call(self, node: Node) -> bool:
        """Records one call; True when its strings are only printed or compared."""
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        if function is None or arguments is None:
            return False
        name = self._source(function)
        name = self.macros[name].decode("latin-1") if name in self.macros else name
        name = name.removeprefix("::").removeprefix("std::")
        given = arguments.named_children
        known = [self._string(argument) for argument in given[:32]]
        texts = []
        for argument, text in zip(given, known, strict=False):
            if text is None:
                source = self._source(argument)[:200]
                text = self.macros[source].decode("latin-1") if source in self.macros else source
            texts.append(text)
        self.fact("call", name, node, args=tuple(texts))
        for argument, text in zip(given, known, strict=False):
            if text and argument.type == "identifier" and text.startswith("/") and name not in PRINT_CALLS:
                self.path(text, "read", "open", argument)
        if name in _BUILDING and len(known) > 1:
            self._built(name, given, known, node)
        if name in SHELL_CALLS and known:
            if known[0] is None:
                self.fact("opaque", "unknown_script", node)
            else:
                self.inner(known[0], "shell", node, unit="sh")
        elif name in EXEC_CALLS:
            words = [text for text in known if text is not None]
            if words:
                self.program([words[0], *words[2:]], node)
        return name in PRINT_CALLS

    def _source(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("latin-1")

    def _string(self, node: Node) -> str | None:
        """A string literal, several in a row, or a macro that is one; None when it is not known."""
        kind = self.role(node.kind_id)
        if kind == "name":
            name = self._source(node)
            return self.variables.get(name) if name in self.variables else self._macro(name, 0)
        if kind == "string":
            source = self._source(node)
            return unescape(source[source.find('"') + 1 : -1])
        if kind == "raw string":
            match = re.search(r'R"([^(]*)\((.*)\)\1"', self._source(node), re.S)
            return match.group(2) if match else None
        if kind == "strings":
            return "".join(self._string(child) or UNKNOWN for child in node.named_children)
        if kind == "list":
            return self._letters(node)
        if kind == "binary" and self.language == "cpp":
            return self._sum(node)
        if kind == "call" and self.data.startswith((b"std::string(", b"string("), node.start_byte):
            arguments = node.child_by_field_name("arguments")
            return self._string(arguments.named_children[0]) if arguments and arguments.named_children else None
        return None

    def _sum(self, node: Node) -> str | None:
        """`std::string("/ev") + "al"`: what it adds up to, when all of it is known."""
        parts: list[str] = []
        current: Node | None = node
        while current is not None and current.type == "binary_expression" and len(parts) < 64:
            self.sink.spend(2)
            operator, right = current.child_by_field_name("operator"), current.child_by_field_name("right")
            text = self._string(right) if right is not None else None
            if operator is None or operator.type != "+" or text is None:
                return None
            parts.append(text)
            current = current.child_by_field_name("left")
        first = self._string(current) if current is not None else None
        return None if first is None else first + "".join(reversed(parts))

    def _macro(self, name: str, depth: int) -> str | None:
        value = self.macros.get(name)
        if value is None or depth > 8:
            return None
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)', value.decode("latin-1"))
        texts = [unescape(text) if not word else self._macro(word, depth + 1) for text, word in parts]
        return None if None in texts else "".join(t for t in texts if t is not None)

    def _characters(self, node: Node) -> None:
        """`{'/', 'e', 'v', ...}` is a string too."""
        self._text(self._letters(node), node, printed=False)

    def _letters(self, node: Node) -> str | None:
        children = node.named_children
        if not 2 < len(children) <= 512:
            return None
        text = ""
        for child in children:
            if child.type == "char_literal":
                text += unescape(self._source(child)[1:-1])
            elif child.type == "number_literal" and re.fullmatch(r"\d{1,3}|0x[0-9a-fA-F]{1,2}", self._source(child)):
                text += chr(int(self._source(child), 0) & 255)
            else:
                return None
        text = text.split("\0", 1)[0]
        return text if text.isprintable() and text else None

    def _built(self, name: str, given: list[Node], known: list[str | None], where: Node) -> None:
        """`strcpy`, `strcat`, `sprintf` and the like put a string together in a variable."""
        source = self._source(given[0]).strip("*& (")
        target = re.split(r"[^\w.>-]|-(?!>)", source)[0]
        # `p + 4`, `&p[4]`, `p + strlen(p)`, or where an earlier call ended: more of the same string
        more = "cat" in name or target in self.ends or re.search(r"\+|\[(?!0?\])", source) is not None
        target = self.ends.get(target, target)
        holder = where.parent
        if name in ("stpcpy", "mempcpy") and holder is not None:
            left = holder.child_by_field_name("left") or holder.child_by_field_name("declarator")
            if left is not None:
                self.ends[self._source(left).strip("* ")] = target
        before = self.variables.get(target, "")
        if not name.endswith("printf"):
            part = known[1] if len(known) > 1 else None
            if part is not None and "n" in name and len(given) > 2 and self._source(given[2]).isdigit():
                part = part[: int(self._source(given[2]))]
            if part is None and name.startswith("mem"):
                return
            value = (before if more else "") + (UNKNOWN if part is None else part)
        else:
            first = 2 if "n" in name.removeprefix("v").removesuffix("printf") else 1
            form = known[first] if len(known) > first else None
            left = iter(known[first + 1 :])
            value = "" if form is None else _SLOT.sub(lambda match: next(left, None) or UNKNOWN, form)
        if UNKNOWN not in value or value.startswith("/"):
            self.variables[target] = value[:4096]
        if value.startswith("/"):
            self.path(value, "read", "open", where)
