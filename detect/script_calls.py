"""Calls, classes and special methods of a Python program that is run by hand: how arguments are bound, what is made of
a class, which method an operator asks for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from detect import script_suggest
from detect.script_traceback import Frame, Raised
from detect.script_values import (
    EXCEPTIONS,
    PLAIN,
    Class,
    Field,
    Function,
    Inner,
    Instance,
    Method,
    Native,
    Scope,
    Super,
    Wrapped,
)
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions

MAX_YIELDS = 256


class Enough(Exception):
    """A generator has been followed as far as it is going to be."""


def root(of: Class) -> type[BaseException] | None:
    """The built-in exception that a class derives from."""
    base = of.base
    while isinstance(base, Class):
        base = base.base
    return base


def derives(of: Class, wanted: Class) -> bool:
    base: object = of
    while isinstance(base, Class):
        if base is wanted:
            return True
        base = base.base
    return False


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + f", and {quoted[-1]}"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def bound(function: Function, arguments: list, keywords: dict[str, object], name: str) -> dict[str, object]:
    """The parameters of a call by name. Raises Inner for what CPython calls a TypeError."""
    wanted = function.node.args
    names = [argument.arg for argument in (*wanted.posonlyargs, *wanted.args)]
    only = [argument.arg for argument in wanted.kwonlyargs]
    made: dict[str, object] = dict(zip(names, arguments, strict=False))
    rest: dict[str, object] = {}
    for key, value in keywords.items():
        if key in made and key in names:
            raise Inner(TypeError(f"{name}() got multiple values for argument '{key}'"))
        if key in names or key in only:
            made[key] = value
        elif wanted.kwarg is not None:
            rest[key] = value
        else:
            raise Inner(TypeError(f"{name}() got an unexpected keyword argument '{key}'"))
    if len(arguments) > len(names) and wanted.vararg is None:
        if only:
            raise Unsure
        least = len(names) - len(function.defaults)
        if function.defaults:
            takes = f"from {least} to {_plural(len(names), 'positional argument')}"
        else:
            takes = _plural(len(names), "positional argument")
        given = f"{len(arguments)} {'was' if len(arguments) == 1 else 'were'} given"
        raise Inner(TypeError(f"{name}() takes {takes} but {given}"))
    for key, value in zip(reversed(names), reversed(function.defaults), strict=False):
        made.setdefault(key, value)
    for key, value in function.named.items():
        made.setdefault(key, value)
    for kind, of in (("positional", names), ("keyword-only", only)):
        if missing := [key for key in of if key not in made]:
            said = f"missing {_plural(len(missing), f'required {kind} argument')}: {_listed(missing)}"
            raise Inner(TypeError(f"{name}() {said}"))
    if wanted.vararg is not None:
        made[wanted.vararg.arg] = tuple(arguments[len(names) :])
    if wanted.kwarg is not None:
        made[wanted.kwarg.arg] = rest
    return made


def call(interpreter: Expressions, function: object, arguments: list, keywords: dict[str, object]) -> object:
    if isinstance(function, Method):
        return call(interpreter, function.function, [function.owner, *arguments], keywords)
    if isinstance(function, Native):
        interpreter.steps += 1
        return interpreter.bounded(function.call(interpreter, arguments, keywords))
    if isinstance(function, Wrapped) and function.kind == "staticmethod":
        return call(interpreter, function.function, arguments, keywords)
    if isinstance(function, Class):
        return made(interpreter, function, arguments, keywords)
    if isinstance(function, Instance):
        found = function.of.find("__call__")
        if not isinstance(found, Function):
            raise Unsure
        return call(interpreter, found, [function, *arguments], keywords)
    if isinstance(function, type) and function in EXCEPTIONS.values() and not keywords:
        return function(*arguments)
    if isinstance(function, PLAIN):
        raise Inner(TypeError(f"'{type(function).__name__}' object is not callable"))
    if not isinstance(function, Function):
        raise Unsure
    return _called(interpreter, function, arguments, keywords)


def _called(interpreter: Expressions, function: Function, arguments: list, keywords: dict[str, object]) -> object:
    inside = Scope(function.scope, bound(function, arguments, keywords, function.name))
    inside.owner = function.owner
    inside.first = arguments[0] if arguments else None
    inside.prefix = f"{function.name}.<locals>."
    node = function.node
    frame = Frame(function.name.rpartition(".")[2], function.unit, function.source)
    if isinstance(node, ast.Lambda):
        return interpreter.enter(frame, lambda: interpreter.value(node.body, inside))
    inside.own = function.own
    if function.yields:
        return _generated(interpreter, function, inside, frame)
    return interpreter.body(node, inside, frame)


def _generated(interpreter: Expressions, function: Function, inside: Scope, frame: Frame) -> Iterator[object]:
    """What a generator yields. It is followed to its end when it is first asked, so it must do nothing else."""
    assert not isinstance(function.node, ast.Lambda)
    if any(isinstance(n, ast.Name) and n.id in ("print", "open", "input") for n in ast.walk(function.node)):
        raise Unsure
    inside.yielded = yielded = []
    raised, more = None, False
    try:
        interpreter.body(function.node, inside, frame)
    except Raised as error:
        raised = error
    except Enough:
        more = True
    yield from yielded
    if raised is not None:
        raise raised
    if more:
        raise Unsure


def made(interpreter: Expressions, of: Class, arguments: list, keywords: dict[str, object]) -> Instance:
    instance = Instance(of)
    start = of.find("__init__")
    if root(of) is not None:
        instance.attributes["args"] = tuple(arguments)
    if of.fields is not None and start is None:
        _filled(interpreter, of, instance, arguments, keywords)
    elif isinstance(start, Function):
        interpreter.call(start, [instance, *arguments], keywords)
    elif (arguments or keywords) and root(of) is None:
        raise Inner(TypeError(f"{of.name}() takes no arguments"))
    return instance


def _filled(
    interpreter: Expressions, of: Class, instance: Instance, arguments: list, keywords: dict[str, object]
) -> None:
    """What a data class does with its arguments."""
    assert of.fields is not None
    interpreter.steps += len(of.fields)
    text = ", ".join(name if field is None else f"{name}=None" for name, field in of.fields.items())
    lambda_ = ast.parse(f"lambda self, {text}: 0", mode="eval").body
    assert isinstance(lambda_, ast.Lambda)
    defaults = [field for field in of.fields.values() if field is not None]
    made = bound(Function(lambda_, Scope(None), defaults), [instance, *arguments], keywords, f"{of.qualified}.__init__")
    for name in of.fields:
        value = made[name]
        if isinstance(value, Field):
            value = value.default if value.factory is None else interpreter.call(value.factory, [], {})
        instance.attributes[name] = value
    after = of.find("__post_init__")
    if isinstance(after, Function):
        interpreter.call(after, [instance], {})


def attribute(interpreter: Expressions, holder: Instance | Class | Super, name: str) -> object:
    """Raises Inner, Unsure."""
    if isinstance(holder, Super):
        return _of_super(holder, name)
    if isinstance(holder, Class):
        found = holder.find(name)
        if name in ("__name__", "__qualname__"):
            return holder.name
        if found is None:
            raise Unsure
        if isinstance(found, Wrapped) and found.kind == "classmethod":
            return Method(found.function, holder)
        return found.function if isinstance(found, Wrapped) and found.kind == "staticmethod" else found
    if name in holder.attributes:
        return holder.attributes[name]
    found = holder.of.find(name)
    if isinstance(found, Function):
        return Method(found, holder)
    if isinstance(found, Wrapped):
        if found.kind == "property":
            return interpreter.call(found.function, [holder], {})
        return Method(found.function, holder.of) if found.kind == "classmethod" else found.function
    if found is not None:
        return Method(found, holder) if isinstance(found, Native) else found
    if name == "__class__":
        return holder.of
    if name == "__dict__":
        return holder.attributes
    if root(holder.of) is not None or name.startswith("__"):
        raise Unsure
    error = AttributeError(f"'{holder.of.name}' object has no attribute '{name}'")
    known: set[str] = {*holder.attributes, *dir(object), "__dict__", "__module__", "__weakref__"}
    of: object = holder.of
    while isinstance(of, Class):
        known |= of.members.keys()
        of = of.base
    error.hint = script_suggest.hint(name, sorted(known))  # type: ignore[attr-defined]
    raise Inner(error)


def _of_super(holder: Super, name: str) -> object:
    base = holder.above.base
    if isinstance(base, Class) and (found := base.find(name)) is not None:
        return Method(found, holder.owner) if isinstance(found, Function) else found
    if name == "__init__":

        def start(_: Expressions, arguments: list, keywords: dict) -> None:
            if keywords or (arguments and root(holder.above) is None):
                raise Unsure
            if root(holder.above) is not None:
                holder.owner.attributes["args"] = tuple(arguments)

        return Native(start)
    raise Unsure


def special(interpreter: Expressions, value: object, name: str, *arguments: object) -> object:
    """The special method of an instance; Unsure where its class has none."""
    if not isinstance(value, Instance):
        raise Unsure
    found = value.of.find(name)
    if not isinstance(found, Function):
        raise Unsure
    return interpreter.call(found, [value, *arguments], {})


_METHODS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitOr: "or", ast.BitAnd: "and", ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.USub: "neg",
}  # fmt: skip


def operated(interpreter: Expressions, op: ast.AST, left: object, right: object) -> object:
    """An operator where one side is an instance."""
    if isinstance(op, ast.In | ast.NotIn):
        found = special(interpreter, right, "__contains__", left)
        return bool(found) != isinstance(op, ast.NotIn)
    name = _METHODS.get(type(op))
    if name is None:
        raise Unsure
    if isinstance(op, ast.Eq | ast.NotEq):
        same = _equal(interpreter, left, right)
        return same == isinstance(op, ast.Eq)
    if not isinstance(left, Instance) or left.of.find(f"__{name}__") is None:
        raise Unsure
    return special(interpreter, left, f"__{name}__", right)


def _equal(interpreter: Expressions, left: object, right: object) -> bool:
    if isinstance(left, Instance) and left.of.find("__eq__") is not None:
        return bool(special(interpreter, left, "__eq__", right))
    if isinstance(right, Instance) and right.of.find("__eq__") is not None:
        raise Unsure
    if isinstance(left, Instance) and left.of.fields is not None and isinstance(right, Instance):
        if right.of is not left.of:
            return False
        return all(interpreter.same(left.attributes[n], right.attributes[n]) for n in left.of.fields)
    return left is right


def truth(interpreter: Expressions, value: object) -> bool:
    if not isinstance(value, Instance):
        return bool(value)
    for name in ("__bool__", "__len__"):
        if value.of.find(name) is not None:
            return bool(special(interpreter, value, name))
    return True
