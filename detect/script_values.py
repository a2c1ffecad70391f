"""Values of a Python program that is run by hand: functions, classes, what the library offers, ways out."""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detect.script_expressions import Expressions
    from detect.script_traceback import Raised

PLAIN = (int, float, str, bytes, bool, type(None), list, tuple, dict, set, frozenset, range, deque)
EXCEPTIONS: dict[str, type[BaseException]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception | SystemExit) and not issubclass(value, Warning)
}


class Ends(Exception):
    """`sys.exit`"""

    def __init__(self, status: int, said: str = "") -> None:
        self.status = status
        self.said = said


class Function:
    def __init__(
        self,
        node: ast.FunctionDef | ast.Lambda,
        scope: Scope,
        defaults: Sequence[object],
        named: dict[str, object] | None = None,
    ) -> None:
        self.node = node
        self.scope = scope
        self.defaults = defaults
        self.named = named or {}
        """Defaults of parameters that are given by name only."""
        self.name = scope.prefix + (node.name if isinstance(node, ast.FunctionDef) else "<lambda>")
        self.unit = ""
        self.source: tuple[str, ...] = ()
        self.owner: Class | None = None
        """The class in whose body it stands."""
        self.own, self.yields = _looked_through(node)


def _looked_through(node: ast.FunctionDef | ast.Lambda) -> tuple[frozenset[str], bool]:
    """Names that a function binds (they are its own, wherever in it they are read), and whether it is a generator."""
    names: set[str] = set()
    yields = False
    rest: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else []
    while rest:
        inside = rest.pop()
        if isinstance(inside, ast.FunctionDef | ast.ClassDef):
            names.add(inside.name)
            continue
        if isinstance(inside, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(inside, ast.Name) and isinstance(inside.ctx, ast.Store):
            names.add(inside.id)
        yields = yields or isinstance(inside, ast.Yield | ast.YieldFrom)
        rest.extend(ast.iter_child_nodes(inside))
    return frozenset(names), yields


class Class:
    def __init__(self, name: str, base: Class | type[BaseException] | None, members: dict[str, object]) -> None:
        self.name = name
        self.qualified = name
        self.module = "unittest"
        self.base = base
        self.members = members
        self.fields: dict[str, object] | None = None
        """Of a data class: its fields with their defaults, None where there is none."""
        self.annotated: tuple[str, ...] = ()
        """Names that have a type in its body, in order."""

    def find(self, name: str) -> object | None:
        if name in self.members:
            return self.members[name]
        return self.base.find(name) if isinstance(self.base, Class) else None


class Instance:
    def __init__(self, of: Class) -> None:
        self.of = of
        self.attributes: dict[str, object] = {}


class Method:
    def __init__(self, function: object, owner: object) -> None:
        self.function = function
        self.owner = owner


class Super:
    """`super()` in a method of `above`."""

    def __init__(self, above: Class, owner: Instance) -> None:
        self.above = above
        self.owner = owner


class Wrapped:
    """A property, a static method or a class method."""

    def __init__(self, kind: str, function: object) -> None:
        self.kind = kind
        self.function = function


class Field:
    """The default of a data class's field: a value, or what makes one."""

    def __init__(self, default: object, factory: object = None) -> None:
        self.default = default
        self.factory = factory


class Native:
    """A function of the standard library that is known; it gets the interpreter, its arguments and keywords."""

    def __init__(self, call: Callable[[Expressions, list, dict], object]) -> None:
        self.call = call


class Kind(Native):
    """A type of plain values."""

    def __init__(self, kind: type, call: Callable) -> None:
        super().__init__(call)
        self.kind = kind


class Expecting:
    """A context of the standard library's: what it makes of what is raised in it."""

    def __init__(self, leave: Callable[[Raised | None], bool]) -> None:
        self.leave = leave


class Scope:
    def __init__(self, above: Scope | None, names: dict[str, object] | None = None) -> None:
        self.above = above
        self.names: dict[str, object] = {} if names is None else names
        self.globals: set[str] = set()
        self.outer: set[str] = set()
        """Names of `nonlocal`."""
        self.own: frozenset[str] = frozenset()
        """Names that belong here even before they are bound."""
        self.prefix = ""
        """What the names of functions begin with that are defined here."""
        self.of_class = False
        """Whether it is the body of a class: functions in it do not see its names."""
        self.owner: Class | None = None
        self.first: object = None
        """In a method: its class, and the object that it is called for."""
        self.yielded: list[object] | None = None

    def outermost(self) -> Scope:
        return self if self.above is None else self.above.outermost()


class Inner(Exception):
    """A failure below a call of the standard library: the exception, and the library's own frames."""

    def __init__(self, value: BaseException, frames: str = "") -> None:
        self.value = value
        self.frames = frames
        self.context: Raised | None = None
        """What the library was handling when it raised it."""
