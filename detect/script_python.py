"""What a Python program prints up to the statement at which it fails, as far as that stands in its text.

Only statements at the outer level that bind, import or print what can be computed from literals are followed; a line
that fails is told by whoever asks. Nothing is imported or executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from detect import python_tree
from detect.script_world import Unsure

STANDARD = frozenset([
    "argparse", "array", "ast", "base64", "binascii", "bisect", "calendar", "codecs", "collections", "contextlib",
    "copy", "csv", "ctypes", "dataclasses", "datetime", "difflib", "enum", "errno", "fcntl", "fileinput", "fnmatch",
    "functools", "gc", "getopt", "glob", "gzip", "hashlib", "heapq", "html", "http", "importlib", "inspect", "io",
    "itertools", "json", "keyword", "linecache", "locale", "logging", "math", "mmap", "numbers", "operator", "os",
    "pathlib", "pickle", "platform", "pprint", "queue", "random", "re", "resource", "select", "shlex", "shutil",
    "signal", "site", "socket", "ssl", "stat", "statistics", "string", "struct", "subprocess", "sys", "sysconfig",
    "tempfile", "textwrap", "threading", "time", "timeit", "token", "tokenize", "traceback", "types", "typing",
    "unicodedata", "unittest", "urllib", "uuid", "warnings", "weakref", "xml", "zipfile", "zlib", "__future__",
    "builtins", "concurrent", "asyncio", "abc", "atexit", "bdb", "bz2", "cmath", "cmd", "code", "codeop", "colorsys",
    "compileall", "configparser", "contextvars", "copyreg", "crypt", "curses", "cProfile", "dbm", "decimal", "dis",
    "doctest", "email", "encodings", "faulthandler", "filecmp", "fractions", "ftplib", "getpass", "gettext", "graphlib",
    "grp", "hmac", "imaplib", "imp", "ipaddress", "lzma", "mailbox", "marshal", "mimetypes", "multiprocessing",
    "optparse", "pdb", "pickletools", "pkgutil", "posix", "posixpath", "profile", "pstats", "pty", "pwd", "py_compile",
    "pydoc", "quopri", "readline", "reprlib", "runpy", "sched", "secrets", "selectors", "shelve", "smtplib",
    "socketserver", "sqlite3", "sre_compile", "sre_parse", "symtable", "syslog", "tabnanny", "tarfile", "telnetlib",
    "termios", "this", "tomllib", "trace", "tracemalloc", "tty", "turtle", "wave", "webbrowser", "wsgiref", "xmlrpc",
    "zipapp", "zipimport", "zoneinfo",
])  # fmt: skip
_FUNCTIONS: dict[str, Callable] = {
    "len": len, "sum": sum, "min": min, "max": max, "abs": abs, "str": str, "int": int, "sorted": sorted, "list": list,
    "repr": repr, "chr": chr, "ord": ord, "bool": bool, "tuple": tuple, "range": range, "reversed": reversed,
    "set": set,
}  # fmt: skip
_METHODS = frozenset(["join", "upper", "lower", "strip", "split", "replace", "title", "count", "encode"])
MAX_SIZE = 4096

Shell = Callable[[str, str], "tuple[str, str, int]"]
"""Plays a command line of `os.system` (`sh`) or `subprocess` (`/bin/sh`): output, errors, status."""


def play(code: str, fails_at: int | None, shell: Shell) -> tuple[str, str]:
    """Standard output and standard error up to line `fails_at`, or to the end. Raises Unsure.

    With `fails_at` what is not known is taken to print nothing; without, it raises.
    """
    try:
        tree = python_tree.module(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unsure from None
    names: dict[str, object] = {}
    modules: dict[str, str] = {}
    out, err, buffered = "", "", ""
    for statement in tree.body:
        if fails_at is not None and (statement.end_lineno or statement.lineno) >= fails_at:
            break
        try:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                _import(statement, modules)
            elif (
                isinstance(statement, ast.Assign)
                and len(statement.targets) == 1
                and isinstance(statement.targets[0], ast.Name)
            ):
                names[statement.targets[0].id] = _value(statement.value, names)
            elif isinstance(statement, ast.Expr):
                said = _call(statement.value, names, modules, shell)
                if isinstance(said, str):
                    buffered += said
                elif said is not None:
                    out += said[0]
                    err += said[1]
            elif not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Pass):
                raise Unsure
        except Unsure:
            if fails_at is None:
                raise
    return out + buffered, err


def _import(statement: ast.Import | ast.ImportFrom, modules: dict[str, str]) -> None:
    if isinstance(statement, ast.ImportFrom):
        if (statement.module or "").split(".")[0] not in STANDARD or statement.level:
            raise Unsure
        for alias in statement.names:
            modules[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
        return
    for alias in statement.names:
        if alias.name.split(".")[0] not in STANDARD:
            raise Unsure
        modules[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]


def _dotted(node: ast.expr, modules: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, modules)}.{node.attr}"
    if isinstance(node, ast.Name):
        return modules.get(node.id, node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__" and node.args:
        return str(_value(node.args[0], {}))
    return "?"


def _call(
    node: ast.expr, names: dict[str, object], modules: dict[str, str], shell: Shell
) -> str | tuple[str, str, int] | None:
    """What a statement that is one call prints: buffered text, or what a shell printed at once."""
    if isinstance(node, ast.Constant):
        return None
    if not isinstance(node, ast.Call):
        raise Unsure
    function = _dotted(node.func, modules)
    if function == "print":
        keywords = {k.arg: _value(k.value, names) for k in node.keywords}
        if set(keywords) - {"sep", "end", "flush"}:
            raise Unsure
        values = [_text(_value(argument, names)) for argument in node.args]
        return str(keywords.get("sep", " ")).join(values) + str(keywords.get("end", "\n"))
    if function == "sys.stdout.write" and len(node.args) == 1:
        return _text(_value(node.args[0], names))
    if function in ("sys.stdout.flush",):
        return None
    if function == "os.system" and len(node.args) == 1:
        return shell(_text(_value(node.args[0], names)), "sh")
    if function in ("subprocess.run", "subprocess.call", "subprocess.Popen"):
        keywords = {k.arg: k.value for k in node.keywords}
        if list(keywords) == ["shell"] and len(node.args) == 1:
            return shell(_text(_value(node.args[0], names)), "/bin/sh")
    raise Unsure


def _text(value: object) -> str:
    text = str(value)
    if len(text) > MAX_SIZE:
        raise Unsure
    return text


def _value(node: ast.expr, names: dict[str, object], depth: int = 0) -> object:
    """The value of an expression of literals and known names. Raises Unsure."""
    if depth > 30:
        raise Unsure
    deeper = depth + 1
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(item, names, deeper) for item in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.JoinedStr):
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion != -1:
                    raise Unsure
                parts.append(_text(_value(part.value, names, deeper)))
            else:
                parts.append(_text(_value(part, names, deeper)))
        return "".join(parts)
    if isinstance(node, ast.BinOp):
        return _operation(node, _value(node.left, names, deeper), _value(node.right, names, deeper))
    if isinstance(node, ast.Call) and not node.keywords:
        values = [_value(argument, names, deeper) for argument in node.args]
        try:
            if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
                if node.func.id == "range" and any(not isinstance(v, int) or abs(v) > MAX_SIZE for v in values):
                    raise Unsure
                return _FUNCTIONS[node.func.id](*values)
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                target = _value(node.func.value, names, deeper)
                if isinstance(target, str):
                    return getattr(target, node.func.attr)(*values)
        except (TypeError, ValueError, LookupError, ArithmeticError):
            raise Unsure from None
    raise Unsure


def _operation(node: ast.BinOp, left: object, right: object) -> object:
    if not isinstance(left, int | float | str) or not isinstance(right, int | float | str):
        raise Unsure
    try:
        if isinstance(node.op, ast.Add):
            return left + right  # type: ignore[operator]
        if isinstance(node.op, ast.Sub):
            return left - right  # type: ignore[operator]
        if isinstance(node.op, ast.Mult):
            size = max(len(str(left)), len(str(right))) * (
                min(v for v in (left, right) if isinstance(v, int))
                if isinstance(left, str) or isinstance(right, str)
                else 1
            )
            if size > MAX_SIZE:
                raise Unsure
            return left * right  # type: ignore[operator]
        if isinstance(node.op, ast.FloorDiv):
            return left // right  # type: ignore[operator]
        if isinstance(node.op, ast.Mod) and not isinstance(left, str):
            return left % right  # type: ignore[operator]
        if isinstance(node.op, ast.Div):
            return left / right  # type: ignore[operator]
    except (TypeError, ValueError, ArithmeticError):
        pass
    raise Unsure
