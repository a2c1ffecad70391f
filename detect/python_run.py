"""Small loops and functions of Python, worked out on what is known: how letters are put together to a name.

Assignments, loops over known values, branches and returns, over the values that `python_fold` computes; no code of the
action ever runs. Whatever is not known for certain ends the attempt, and a bounded number of steps does too.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detect.python_fold import Folder, Value

MAX_STEPS = 800
MAX_CALLS = 24
"""How deep functions may call each other."""
MAX_ALL_CALLS = 256
"""Calls that are worked out for one piece of code, all together."""


class Unknown(Exception):
    """Something is not known, or it takes too long: nothing can be said."""


class _Returned(Exception):
    def __init__(self, value: Value | None) -> None:
        self.value = value


class _Left(Exception):
    """`break` (`again`: `continue`)."""

    def __init__(self, again: bool) -> None:
        self.again = again


Function = ast.FunctionDef | ast.Lambda
_BRANCHING = (ast.If, ast.For, ast.While, ast.Return, ast.Break, ast.Continue)
_SILENT = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
_CHANGES = frozenset(["append", "extend", "insert", "reverse"])
"""Methods of lists that are worked out."""


def call(
    folder: Folder, function: Function, args: list[Value | None], keywords: dict[str, Value | None]
) -> Value | None:
    """What a function returns for these arguments. Raises Unknown."""
    given = function.args
    if (
        folder.blind is None
        or keywords
        or given.defaults
        or given.kwonlyargs
        or given.vararg
        or any(arg is not None for arg in args)
    ):
        return _call(folder, function, args, keywords)
    # of calls of which nothing is known one is enough
    key = (id(function), len(args))
    if key not in folder.blind:
        try:
            folder.blind[key] = _call(folder, function, args, keywords)
        except Unknown:
            folder.blind[key] = _NOTHING
    value = folder.blind[key]
    if value is _NOTHING:
        raise Unknown
    return value  # type: ignore[return-value]


_NOTHING = object()


def _call(
    folder: Folder, function: Function, args: list[Value | None], keywords: dict[str, Value | None]
) -> Value | None:
    if (
        folder.calls >= MAX_CALLS
        or folder.calls_left[0] <= 0
        or (isinstance(function, ast.FunctionDef) and _fails(function.body))
    ):
        raise Unknown
    folder.calls_left[0] -= 1
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    inner = folder.within({})
    inner.calls = folder.calls + 1
    known: dict[str, Value | None] = dict(zip(names, args, strict=False))
    for name, default in zip(reversed(names), reversed(function.args.defaults), strict=False):
        if name not in known:
            known[name] = folder.fold(default)
    known |= {
        name: value
        for name, value in keywords.items()
        if name in names or name in [a.arg for a in function.args.kwonlyargs]
    }
    if function.args.vararg is not None:
        known[function.args.vararg.arg] = [value for value in args[len(names) :] if value is not None]
    inner.names = {**folder.globals, **{name: value for name, value in known.items() if value is not None}}
    for name, value in known.items():
        if value is None:
            inner.names.pop(name, None)
    if isinstance(function, ast.Lambda):
        return inner.fold(function.body)
    steps = [MAX_STEPS]
    inner.yielded = []
    try:
        _block(inner, function.body, steps)
    except _Returned as returned:
        return returned.value
    except _Left:
        raise Unknown from None
    return inner.yielded or None


def loop(folder: Folder, node: ast.For | ast.While) -> dict[str, Value] | None:
    """The variables after a loop, when all that it does is known; the folder's own names stay as they are."""
    # most loops go through what is read, which is soon seen
    first = folder.fold(node.iter) if isinstance(node, ast.For) else folder.truth(node.test)
    if first is None or _fails(node.body):
        return None
    inner = folder.within({})
    inner.names = {
        name: value.copy() if isinstance(value, list | dict) else value for name, value in folder.names.items()
    }
    try:
        _statement(inner, node, [MAX_STEPS])
    except (Unknown, _Returned, _Left):
        return None
    changed = {name: value for name, value in inner.names.items() if folder.names.get(name) != value}
    return changed or None


def _fails(body: list[ast.stmt]) -> bool:
    """Whether what certainly comes to its turn in `body` is nothing that can be worked out; seen without values."""
    for node in body:
        if isinstance(node, _BRANCHING):
            return False
        if isinstance(node, ast.Expr):
            value = node.value
            if isinstance(value, ast.Call) and not (
                isinstance(value.func, ast.Attribute)
                and isinstance(value.func.value, ast.Name)
                and value.func.attr in _CHANGES
            ):
                return True
        elif not isinstance(node, _SILENT):
            return True
    return False


def _block(folder: Folder, body: list[ast.stmt], steps: list[int]) -> None:
    for node in body:
        _statement(folder, node, steps)


def _statement(folder: Folder, node: ast.stmt, steps: list[int]) -> None:
    steps[0] -= 1
    folder.left[0] -= 1
    folder.spend(10)
    if steps[0] < 0 or folder.left[0] < 0:
        raise Unknown
    if isinstance(node, ast.Assign):
        value = _known(folder, node.value)
        for target in node.targets:
            _bind(folder, target, value)
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            _bind(folder, node.target, _known(folder, node.value))
    elif isinstance(node, ast.AugAssign):
        target = node.target
        whole = ast.BinOp(
            ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target, node.op, node.value
        )
        _bind(folder, target, _known(folder, whole))
    elif isinstance(node, ast.For):
        _for(folder, node, steps)
    elif isinstance(node, ast.While):
        while _truth(folder, node.test):
            steps[0] -= 1
            if steps[0] < 0:
                raise Unknown
            try:
                _block(folder, node.body, steps)
            except _Left as left:
                if not left.again:
                    break
    elif isinstance(node, ast.If):
        _block(folder, node.body if _truth(folder, node.test) else node.orelse, steps)
    elif isinstance(node, ast.Return):
        raise _Returned(None if node.value is None else _known(folder, node.value))
    elif isinstance(node, ast.Break | ast.Continue):
        raise _Left(isinstance(node, ast.Continue))
    elif isinstance(node, ast.Expr):
        _expression(folder, node.value)
    elif not isinstance(node, ast.Pass | ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom):
        raise Unknown


def _for(folder: Folder, node: ast.For, steps: list[int]) -> None:
    items = _known(folder, node.iter)
    if not isinstance(items, str | bytes | list) or len(items) > MAX_STEPS:
        raise Unknown
    for item in items:
        _bind(folder, node.target, item)
        try:
            _block(folder, node.body, steps)
        except _Left as left:
            if not left.again:
                break


def _expression(folder: Folder, node: ast.expr) -> None:
    """`out.append(x)` and the like; a text as a comment."""
    if isinstance(node, ast.Constant):
        return
    if isinstance(node, ast.Yield | ast.YieldFrom) and node.value is not None:
        value = _known(folder, node.value)
        folder.yielded += (
            [value] if isinstance(node, ast.Yield) else list(value) if isinstance(value, str | bytes | list) else []
        )
        return
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        raise Unknown
    owner = folder.fold(node.func.value)
    if not isinstance(owner, list) or not isinstance(node.func.value, ast.Name) or len(owner) > MAX_STEPS:
        raise Unknown
    args = [_known(folder, arg) for arg in node.args]
    name = node.func.attr
    if name == "append" and len(args) == 1:
        changed = [*owner, args[0]]
    elif name == "extend" and len(args) == 1 and isinstance(args[0], str | bytes | list):
        changed = [*owner, *args[0]]
    elif name == "insert" and len(args) == 2 and isinstance(args[0], int):
        changed = [*owner[: args[0]], args[1], *owner[args[0] :]]
    elif name == "reverse" and not args:
        changed = owner[::-1]
    else:
        raise Unknown
    folder.names = {**folder.names, node.func.value.id: changed}


def _bind(folder: Folder, target: ast.expr, value: Value) -> None:
    if isinstance(target, ast.Name):
        folder.names[target.id] = value  # type: ignore[index]
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, str | bytes | list)
        and len(value) == len(target.elts)
    ):
        for part, item in zip(target.elts, value, strict=True):
            _bind(folder, part, item)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        owner, index = folder.fold(target.value), folder.fold(target.slice)
        if isinstance(owner, list) and isinstance(index, int) and -len(owner) <= index < len(owner):
            owner = owner.copy()
            owner[index] = value
        elif isinstance(owner, dict) and isinstance(index, str | int):
            owner = {**owner, index: value}
        elif isinstance(owner, bytes) and isinstance(index, int) and isinstance(value, int) and index < len(owner):
            owner = bytes([*owner[:index], value & 255, *owner[index + 1 :]])
        else:
            raise Unknown
        folder.names[target.value.id] = owner  # type: ignore[index]
    else:
        raise Unknown


def _known(folder: Folder, node: ast.expr) -> Value:
    value = folder.fold(node)
    if value is None or (isinstance(value, str) and "\x01" in value):
        raise Unknown
    return value


def _truth(folder: Folder, node: ast.expr) -> bool:
    value = folder.truth(node)
    if value is None:
        raise Unknown
    return value
