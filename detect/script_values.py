"""Values of a Python program that is run by hand: functions, classes, what the library offers, ways out."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detect.script_interpreter import Interpreter

PLAIN = (int, float, str, bytes, bool, type(None), list, tuple, dict, set, range)
EXCEPTIONS: dict[str, type[BaseException]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
}


class Ends(Exception):
    """`sys.exit`"""

    def __init__(self, status: int, said: str = "") -> None:
        self.status = status
        self.said = said


class Function:
    def __init__(self, node: ast.FunctionDef | ast.Lambda, scope: Scope, defaults: Sequence[object]) -> None:
        self.node = node
        self.scope = scope
        self.defaults = defaults


class Class:
    def __init__(self, name: str, base: Class | type[BaseException] | None, members: dict[str, object]) -> None:
        self.name = name
        self.base = base
        self.members = members

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


class Native:
    """A function of the standard library that is known; it gets the interpreter, its arguments and keywords."""

    def __init__(self, call: Callable[[Interpreter, list, dict], object]) -> None:
        self.call = call


class Scope:
    def __init__(self, above: Scope | None, names: dict[str, object] | None = None) -> None:
        self.above = above
        self.names: dict[str, object] = {} if names is None else names
        self.globals: set[str] = set()
        self.own: frozenset[str] = frozenset()
        """Names that belong here even before they are bound."""

    def outermost(self) -> Scope:
        return self if self.above is None else self.above.outermost()


class Inner(Exception):
    """A failure below a call of the standard library: the exception, and the library's own frames."""

    def __init__(self, value: BaseException, frames: str = "") -> None:
        self.value = value
        self.frames = frames
