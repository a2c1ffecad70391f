"""What names stand for in Go, Rust, Java and JavaScript: imports, assignments and text appended to variables.

The half of the code reader that fills the tables of `Expressions`; the other half (`code_reader`) looks at calls and
strings in their light.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from detect.code_fold import Expressions
from detect.code_tables import IDENTIFIERS, PROGRAM_CALLS
from detect.facts import Language, Origin, Sink
from detect.reader import TreeReader

if TYPE_CHECKING:
    from tree_sitter import Node


class NameReader(TreeReader):
    def __init__(
        self, sink: Sink, data: bytes, language: Language, origin: Origin, known: Expressions | None = None
    ) -> None:
        super().__init__(sink, data, language, origin)
        self.known = Expressions(data, language, sink.spend)
        if known is not None:
            self.known.names, self.known.aliases, self.known.packages = known.names, known.aliases, known.packages
        self.done: set[tuple[int, int]] = set()
        """Where strings stand that need no second look: shown, compared, or part of something bigger."""
        self.programs: dict[str, list[tuple[int, list[str]]]] = {}
        """Variables that hold a program that is still given arguments."""

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
        self.fact("import", module, node)
        if module.startswith("/"):
            self.path(module, "read", "import", node)

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
        more = b"+=" in self.data and any(child.type == "+=" for child in node.children)
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

    def _append(self, node: Node) -> None:
        """`b.append("al")`, `s.push_str("al")`, `b.WriteString("al")` as statements."""
        function, last, owner, given = self.known.shape(node)
        if function is not None and function.type == "subscript_expression":
            last = self.known.callee(node)[1]
        if last not in ("append", "push_str", "WriteString", "push") or owner is None or owner.type not in IDENTIFIERS:
            return
        key = self.known.source(owner)
        before = self.known.names.get(key, "" if last == "WriteString" else None)
        if isinstance(before, str) and given and isinstance(text := self.known.fold(given[0]), str):
            self.known.names[key] = (before + text)[:65536]

    def _leave(self, node: Node, *, deep: bool) -> None:
        """Strings in `node` are shown or compared; without `deep`, only those that it is made of."""
        role = self.known.role
        stack = [(node, 0)]
        while stack:
            current, depth = stack.pop()
            self.sink.spend(1)
            kind = role(current.kind_id)
            if kind in ("literal", "template", "binary"):
                self.done.add((current.start_byte, current.end_byte))
            elif kind == "call" and not deep:
                continue
            if depth < 12:
                stack += [(child, depth + 1) for child in current.named_children]


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
