"""Reads Python code into facts: imports, calls by dotted name, paths, programs started, and code in strings.

Aliases (`import os as o`, `from os import system`, `f = open`), `__import__`, `importlib`, `getattr` and folded
constants are followed, order and branches are not: what any line could do counts. The standard library's `ast` reads
it; text that is not Python cannot run as Python, so of such text only string literals and imports are kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from operator import attrgetter
from typing import Any, NamedTuple

from detect import python_run, python_tree
from detect.facts import Access, FactKind, Language, Origin, Place, Sink
from detect.paths import UNKNOWN, resolve
from detect.python_fold import Folder, Value
from detect.python_places import PythonPlaces
from detect.python_tables import (
    CODE_CALLS,
    EXEC_CALLS,
    HELD,
    IMPORT,
    LIST_CALLS,
    PATH_METHODS,
    PRINT_CALLS,
    PROGRAM_CALLS,
    ROUTES,
    SHELL_CALLS,
    STRING,
    WRITE_CALLS,
)
from detect.reader import Reader


def read(sink: Sink, data: bytes, origin: Origin) -> bool:
    """Read `data` into facts; False when it is not Python."""
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError:
        source = data.decode("latin-1")
    reader = PythonReader(sink, source, origin)
    try:
        tree = parse(source)
    except (RecursionError, MemoryError):
        # nested so deeply that CPython itself gives up
        reader.fact("opaque", "too_complex", 0)
        tree = None
    if tree is None:
        reader.unparsed()
    else:
        reader.run(tree)
    return tree is not None


def parse(source: str) -> ast.Module | None:
    """None for what is not Python. Raises RecursionError or MemoryError for what is nested too deeply."""
    source = source.lstrip("\ufeff").replace("\0", "")
    for text in (source, source.replace(UNKNOWN, "0")) if UNKNOWN in source else (source,):
        try:
            return python_tree.module(text)
        except (SyntaxError, ValueError):
            continue
    return None


_ROLES: dict[type[ast.AST], str] = {
    ast.Import: "learn",
    ast.ImportFrom: "learn",
    ast.Expr: "learn",
    ast.Assign: "assign",
    ast.AnnAssign: "assign",
    ast.AugAssign: "assign",
    ast.FunctionDef: "function",
    ast.ClassDef: "class",
    ast.For: "loop",
    ast.While: "loop",
    ast.Call: "call",
    ast.Compare: "compare",
    ast.Dict: "compare",
    ast.MatchValue: "compare",
    ast.Constant: "text",
    ast.JoinedStr: "text",
    ast.BinOp: "text",
}
"""What each kind of node is looked at for."""
_PLAIN_FIELDS = frozenset(
    [
        "ctx",
        "op",
        "ops",
        "id",
        "attr",
        "arg",
        "name",
        "names",
        "module",
        "level",
        "kind",
        "type_comment",
        "lineno",
        "conversion",
        "is_async",
        "simple",
        "rest",
    ]
)
"""Fields that hold no expressions or statements."""


class _Look(NamedTuple):
    """What a kind of node is looked at for, and how its fields are had in which there are more nodes."""

    role: str | None
    one: Callable[[Any], Any] | None
    several: Callable[[Any], tuple] | None


class _Looks(dict[type, _Look]):
    def __missing__(self, kind: type) -> _Look:
        fields = () if kind in (ast.Constant, ast.Import, ast.ImportFrom) else getattr(kind, "_fields", ())
        fields = [field for field in fields if field not in _PLAIN_FIELDS]
        get = attrgetter(*fields) if fields else None
        look = self[kind] = _Look(_ROLES.get(kind), *((get, None) if len(fields) == 1 else (None, get)))
        return look


_LOOKS = _Looks()


def _by_role(tree: ast.Module) -> tuple[dict[str, list[Any]], int]:
    """The nodes of a tree by what they are looked at for, in the order of `ast.walk`, and how many nodes it has."""
    found: dict[str, list[Any]] = {role: [] for role in _ROLES.values()}
    nodes: list[Any] = [tree]
    append = nodes.append
    looks = _LOOKS
    for node in nodes:
        role, one, several = looks[type(node)]
        if role is not None:
            found[role].append(node)
        for value in several(node) if several is not None else () if one is None else (one(node),):
            if type(value) is list:
                nodes += value
            elif value is not None:
                append(value)
    return found, len(nodes)


def _compared(node: ast.Compare | ast.Dict | ast.MatchValue) -> list[ast.expr]:
    """What a value is only compared with: strings there are no paths that are opened."""
    if isinstance(node, ast.MatchValue):
        return [node.value]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    parts = [node.left, *node.comparators]
    return parts + [e for p in parts if isinstance(p, ast.List | ast.Tuple | ast.Set) for e in p.elts]


_NAMED = (ast.Attribute, ast.Name, ast.Call)
_LONE_RETURN = re.compile(r"\r(?!\n)")
_TEXTS = frozenset([str, bytes])
_SILENT = frozenset(
    ["write", "append", "read", "readline", "readlines", "exit", "close", "add", "add_argument", "run", "strip"]
)
"""Methods whose value is no text that could be a path."""


@lru_cache(maxsize=4096)
def _usual_access(name: str) -> Access:
    """What a function does to a path that it is given."""
    return "list" if LIST_CALLS.fullmatch(name) else "write" if WRITE_CALLS.fullmatch(name) else "read"


class PythonReader(Reader["ast.AST | int"]):
    """Places are nodes of the tree; in text that does not parse, character positions."""

    language: Language = "python"

    def __init__(self, sink: Sink, source: str, origin: Origin) -> None:
        super().__init__(sink, origin)
        self.unit = origin.unit or origin.written or "<string>"
        self.source = source
        self.settled: dict[int, str | None] | None = None
        """Names of expressions, kept from when all aliases are known."""
        self.aliases: dict[str, str] = {}
        self.imported: set[str] = set()
        self.names: dict[str, Value] = {}
        self.folder = Folder(self.names, self.dotted, sink.spend)
        self.docstrings: set[int] = set()
        self.places = PythonPlaces(source, origin, self.unit)

    # --- reading -------------------------------------------------------------------------------------------------

    def run(self, tree: ast.Module) -> None:
        idle = self.opens_nothing(self.source.encode("utf-8", "replace"))
        self.harmless = idle and "/" in self.source
        by_role, size = _by_role(tree)
        self.sink.spend(5 * size)
        if "\r" in self.source and _LONE_RETURN.search(self.source) is not None:
            # lines that only the parser sees: what looks at the text takes them for one
            self.fact("opaque", "too_complex", 0)
        if self.sink.argv:
            self.names["sys.argv"] = list(self.sink.argv)
            self.sink.argv = []
        for node in by_role["learn"]:
            self._learn(node, node)
        if self.sink.earlier is not None and self.depth < 4:
            self._learn_from_earlier(by_role["learn"])
        for node in by_role["function"] if not idle else ():
            # the first of a name: methods of several classes are not told apart
            self.folder.functions.setdefault(node.name, node)
        self.folder.classes.update(node.name for node in by_role["class"])
        for node in by_role["assign"]:
            self._assign(node)
        if not idle and self._loops(by_role["loop"]):
            for node in by_role["assign"]:
                if not isinstance(node, ast.AugAssign):
                    self._assign(node)
        calls = by_role["call"]
        self._settle()
        for node in calls:
            name = self.dotted(node.func)
            if name in CODE_CALLS and node.args and (text := self.folder.text(node.args[0])):
                # what executed code imports is known to the code around it
                inner = self._quietly(text) if "import" in text else None
                for part in ast.walk(inner) if inner is not None else ():
                    if isinstance(part, ast.Import | ast.ImportFrom):
                        self._learn(part, node)
                        self._settle()
            elif name == "os.chdir" and node.args:
                text = self.folder.text(node.args[0])
                if text is not None and len(self.folders) < 8:
                    self.folders.append(resolve(text, self.folders[0]))
        mentioned: set[int] = set()
        for node in calls:
            self._call(node, mentioned)
        for node in by_role["compare"]:
            mentioned.update(id(part) for part in _compared(node))
        for node in by_role["text"]:
            if (type(node) is not ast.Constant or type(node.value) in _TEXTS) and id(node) not in self.docstrings:
                self._text(node, mentioned)

    def _settle(self) -> None:
        """All aliases and constants are known: what an expression is found to be stays."""
        self.settled = {}
        self.folder.settle()

    def _loops(self, nodes: list[ast.For | ast.While]) -> bool:
        """Works out loops over what is known; True when that told something."""
        found = False
        for node in nodes[:64]:
            changed = python_run.loop(self.folder, node)
            if changed:
                self.names.update(changed)
                found = True
        return found

    @staticmethod
    def _quietly(source: str) -> ast.Module | None:
        try:
            return parse(source)
        except (RecursionError, MemoryError):
            return None

    def unparsed(self) -> None:
        """Not Python: strings and imports are still worth a look (Python of another version, a template)."""
        self.fact("opaque", "does_not_parse", 0)
        for match in IMPORT.finditer(self.source):
            self.sink.spend(10)
            self.fact("import", match.group(1), match.start())
        for match in STRING.finditer(self.source):
            self.sink.spend(20)
            text = match.group(1).strip("'\"")
            if len(text) < 4096:
                self.fact("string", text, match.start())
                if "/" in text and " " not in text:
                    self.path(text, "read", "open", match.start())

    def _learn(self, node: ast.AST, where: ast.AST) -> None:
        """Imports with their aliases, and which strings are documentation."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.fact("import", alias.name, where)
                self.imported.add(alias.name)
                self.aliases[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            self.fact("import", module, where)
            for alias in node.names:
                self.fact("import", f"{module}.{alias.name}", where)
                held = HELD.get(alias.name)
                if module.lstrip("_") == held:
                    held = None
                if held is not None:
                    self.fact("import", held, where)
                    self.imported.add(held)
                self.aliases[alias.asname or alias.name] = held or f"{module}.{alias.name}"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
            self.docstrings.add(id(node.value))

    def _learn_from_earlier(self, nodes: list[ast.AST]) -> None:
        """Constants of modules that an earlier step wrote: `from conf import NAME`, `conf.NAME`."""
        modules = {
            name
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        for module in sorted(modules)[:32]:
            data = self.sink.earlier_file(resolve(module.replace(".", "/") + ".py", self.folders[0]))
            tree = self._quietly(data.decode("utf-8", "replace")) if data is not None else None
            if tree is None:
                continue
            self.sink.spend(len(data or b""))
            other = PythonReader(Sink(), "", Origin(self.origin.span, cwd=self.folders[0]))
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                    other._assign(node)
            for name, value in other.names.items():
                self.names[f"{module}.{name}"] = value
                for alias, dotted in list(self.aliases.items()):
                    if dotted == f"{module}.{name}":
                        self.names.setdefault(alias, value)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    self._bind(part, value)
            elif isinstance(node, ast.AugAssign):
                if isinstance(target, ast.Name) and isinstance(node.op, ast.Add):
                    before, more = self.names.get(target.id), self.folder.fold(node.value)
                    if isinstance(before, str) and isinstance(more, str) and len(before) + len(more) < 65536:
                        self.names[target.id] = before + more
            else:
                self._bind(target, node.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript) and self.dotted(target.value) == "os.environ":
            args = tuple(self.folder.text(part) or UNKNOWN for part in (target.slice, value))
            self.fact("call", "os.environ.__setitem__", value, args=args)
            return
        name = target.id if isinstance(target, ast.Name) else None
        if isinstance(target, ast.Attribute):
            name = self.dotted(target)
        if name is None:
            return
        folded = self.folder.fold(value)
        if folded is not None:
            # of two values, the longer string is kept: a placeholder must not hide a path
            before = self.names.get(name)
            if isinstance(before, str) and isinstance(folded, str) and UNKNOWN in folded and UNKNOWN not in before:
                own = target.id if isinstance(target, ast.Name) else ""
                if any(isinstance(part, ast.Name) and part.id == own for part in ast.walk(value)):
                    return  # what is added in a loop is worked out there
            if not isinstance(before, str) or not isinstance(folded, str) or len(folded) >= len(before):
                self.names[name] = folded
        elif isinstance(target, ast.Name) and isinstance(value, ast.Lambda):
            self.folder.functions.setdefault(target.id, value)
        elif isinstance(target, ast.Name) and (dotted := self.dotted(value)) is not None and dotted != name:
            self.aliases[name] = dotted
            if dotted.endswith("()") and dotted[:-2] in self.folder.classes:
                self.folder.classes.add(name)

    # --- calls ---------------------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST, depth: int = 0) -> str | None:
        """The dotted name of what an expression stands for, through aliases, `__import__` and `getattr`."""
        if self.settled is None:
            return self._dotted(node, depth)
        if id(node) not in self.settled:
            self.settled[id(node)] = self._dotted(node, depth)
        return self.settled[id(node)]

    def _dotted(self, node: ast.AST, depth: int) -> str | None:
        if depth > 40:
            return None
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value, depth + 1)
            return None if owner is None else self._member(owner, node.attr)
        if isinstance(node, ast.Call):
            callee = self.dotted(node.func, depth + 1)
            if callee in ("__import__", "importlib.import_module", "importlib.__import__") and node.args:
                return self.folder.text(node.args[0])
            if callee == "getattr" and len(node.args) >= 2:
                owner, name = self.dotted(node.args[0], depth + 1), self.folder.text(node.args[1])
                return None if owner is None or name is None else self._member(owner, name)
            if callee == "operator.attrgetter()" and node.args and isinstance(node.func, ast.Call) and node.func.args:
                owner, name = self.dotted(node.args[0], depth + 1), self.folder.text(node.func.args[0])
                if owner is None or name is None:
                    return None
                return reduce(self._member, name.split(".")[:8], owner)
            return None if callee is None else f"{callee}()"
        if isinstance(node, ast.Subscript) and isinstance(key := self.folder.fold(node.slice), str):
            owner = self.dotted(node.value, depth + 1)
            if owner in ("sys.modules", "globals()", "__builtins__", "__builtins__.__dict__", "vars()", "locals()"):
                return HELD.get(key, key)
            if owner is not None and owner.endswith(".__dict__"):
                return self._member(owner.removesuffix(".__dict__"), key)
        return None

    def _member(self, owner: str, name: str) -> str:
        """The dotted name of an attribute; a module that another one holds has the name that all know it by."""
        if owner in ("builtins", "__builtins__"):
            return name
        if name in HELD and owner.lstrip("_") != HELD[name] and (name != HELD[name] or owner in self.imported):
            return HELD[name]
        return f"{owner}.{name}"

    def _call(self, node: ast.Call, mentioned: set[int]) -> None:
        name = self.dotted(node.func)
        if name is None:
            return
        texts = [self.folder.text(arg) for arg in node.args[:32]]
        keywords = {k.arg: self.folder.text(k.value) for k in node.keywords if k.arg}
        for keyword in node.keywords:
            # `Popen(**kw)`
            if keyword.arg is None and isinstance(known := self.folder.fold(keyword.value), dict):
                keywords |= {str(k): v for k, v in known.items() if isinstance(v, str)}
                command = known.get("args")
                if isinstance(command, list) and name in PROGRAM_CALLS:
                    self.program([str(word) for word in command], node)
        shown = [self._shown(arg, text) for arg, text in zip(node.args, texts, strict=False)]
        shown += [f"{k}={v if v is not None else UNKNOWN}" for k, v in keywords.items()]
        self.fact("call", name, node, args=tuple(shown))
        last = name.rsplit(".", 1)[-1]
        built = isinstance(node.func, ast.Attribute) or name in self.folder.functions
        whole = self.folder.text(node) if built and last not in _SILENT else None
        if whole is not None and whole.startswith("/") and whole not in texts and name not in PRINT_CALLS:
            self.path(whole, "read", name if name == "shutil.which" else "", node)
        if last == "partial" and len(node.args) > 1 and (function := self.dotted(node.args[0])) is not None:
            # what is called later with these arguments
            ahead = ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node)
            self._call(ahead, mentioned)
            name = function
        shows = name in PRINT_CALLS and not (name.endswith(("Error", "Exception")) and ".args" in self.source)
        if shows or (last in ROUTES and isinstance(node.func, ast.Attribute)):
            mentioned.update(map(id, node.args))
            return
        if name in ("__import__", "importlib.import_module") and texts and texts[0]:
            self.fact("import", texts[0], node)
        if name in CODE_CALLS and node.args:
            self._code(node, texts[0])
        self._programs(name, node, texts, keywords)
        access = self._access(name, texts, keywords)
        for arg, text in zip(node.args, texts, strict=False):
            mentioned.add(id(arg))
            if text is not None:
                self.path(text, access, name, node)
        for text in keywords.values():
            if text is not None:
                self.path(text, access, name, node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in PATH_METHODS:
            owner = self.folder.text(node.func.value)
            if owner is not None:
                self.path(owner, access, name, node)
                if last in ("glob", "rglob") and texts and texts[0]:
                    self.path(f"{owner}/{texts[0]}", "list", name, node)

    def _shown(self, arg: ast.expr, text: str | None) -> str:
        """An argument as a string; a dotted constant (`socket.AF_INET`) is shown by name, a list by its parts."""
        if text is not None and text != UNKNOWN:
            return text
        if isinstance(arg, _NAMED):
            return self.dotted(arg) or UNKNOWN
        value = self.folder.fold(arg)
        if isinstance(value, list):
            return " ".join(str(item) for item in value[:16])
        return str(value) if isinstance(value, int) else UNKNOWN

    def _access(self, name: str, texts: list[str | None], keywords: dict[str, str | None]) -> Access:
        if name in ("open", "io.open", "codecs.open") or name.endswith(".open"):
            mode = keywords.get("mode") or (texts[1] if len(texts) > 1 else None) or "r"
            return "write" if set(mode) & set("wax") else "read"
        return _usual_access(name)

    def _programs(self, name: str, node: ast.Call, texts: list[str | None], keywords: dict[str, str | None]) -> None:
        if name not in SHELL_CALLS and name not in PROGRAM_CALLS and name not in EXEC_CALLS:
            return
        shell = any(
            k.arg == "shell" and isinstance(k.value, ast.Constant) and bool(k.value.value) for k in node.keywords
        )
        first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in ("args", "cmd")), None)
        if first is None:
            return
        value = self.folder.fold(first)
        if name in SHELL_CALLS or (name in PROGRAM_CALLS and shell):
            script = " ".join(map(str, value)) if isinstance(value, list) else self.folder.text(first)
            if script is None:
                self.fact("opaque", "unknown_script", node)
            else:
                self.inner(script, "shell", node, unit="sh", cwd=self.folders[-1])
        elif name in PROGRAM_CALLS:
            words = [str(item) for item in value] if isinstance(value, list) else [texts[0] or UNKNOWN] if texts else []
            if name.startswith("asyncio"):
                words = [t if t is not None else UNKNOWN for t in texts]
            self.program(words, node)
        elif name in EXEC_CALLS:
            words: list[str] = []
            for arg in node.args:
                folded = self.folder.fold(arg)
                words += [str(item) for item in folded] if isinstance(folded, list) else [str(folded)] if folded else []
            self.program(words[:1] + words[2:] if "spawn" not in name else words[1:2] + words[2:], node)

    def _code(self, node: ast.Call, text: str | None) -> None:
        if text is None or not text.replace(UNKNOWN, ""):
            self.fact("opaque", "unknown_code", node)
            return
        self.inner(text.encode("utf-8", "replace"), "python", node)

    # --- strings and paths ---------------------------------------------------------------------------------------

    def _text(self, node: ast.Constant | ast.JoinedStr | ast.BinOp, mentioned: set[int]) -> None:
        text = self.folder.text(node)
        if not text or len(text) > 4096:
            return
        self.fact("string", text, node)
        if id(node) not in mentioned and "/" in text:
            self.path(text, "read" if text.startswith(("/", "@/")) else "mention", "", node)

    def place(self, where: ast.AST | int, kind: FactKind) -> Callable[[], Place]:
        return partial(self.places.told, where, kind)

    def located(self, where: ast.AST | int) -> tuple[tuple[int, int], int]:
        return self.places.located(where)
