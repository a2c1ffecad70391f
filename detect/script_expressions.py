"""Expressions of a Python program that is run by hand: names, operators, calls, and what fails in them.

`detect.script_interpreter` runs the statements around them.
"""

from __future__ import annotations

import ast
import builtins
import operator
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from detect import python_tree, script_suggest
from detect.script_calls import (
    MAX_YIELDS,
    Enough,
    attribute,
    call,
    operated,
    special,
    truth,
)
from detect.script_traceback import Frame, Raised, place
from detect.script_values import (
    PLAIN,
    Class,
    Function,
    Inner,
    Instance,
    Native,
    Scope,
    Super,
)
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_modules import Surroundings

MAX_STEPS = 20_000
MAX_DEPTH = 60
MAX_SIZE = 1 << 16
MAX_BITS = 4096
_OF_MODULES = ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__annotations__", "__builtins__")

_OPERATORS: dict[type[ast.AST], Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor, ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip


_HOLDERS = (list, tuple, dict, set, frozenset, deque)
_OURS = re.compile(
    r"\b(Instance|Function|Native|Kind|Class|Module|Method|Super|Wrapped|Opened|Done|Matched)\b|detect\."
)


def told_as_is(error: BaseException) -> None:
    """What CPython says of a value that is ours names a class that no program knows. Raises Unsure."""
    if not all(isinstance(one, (str, int, float, type(None))) for one in error.args) or _OURS.search(str(error)):
        raise Unsure


class Expressions:
    def __init__(self, code: str, unit: str, around: Surroundings) -> None:
        self.tree = python_tree.module(code)
        self.around = around
        self.unit = unit
        self.source = tuple(code.split("\n"))
        self.frames = [Frame("<module>", unit, self.source)]
        self.steps = 0
        self.handled: list[Raised] = []
        names: dict[str, object] = {"__name__": "__main__"}
        if not unit.startswith("<"):
            names["__file__"] = unit
        self.globals = Scope(None, names)
        around.interpreter = self

    # --- failures ---------------------------------------------------------------------------------------------------

    def at(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        self.frames[-1].node = node

    def raised(self, value: BaseException, inner: str = "", shown: str = "") -> Raised:
        if not isinstance(value, KeyError | OSError):
            told_as_is(value)
        places = [place(frame) for frame in self.frames]
        places[-1] = place(self.frames[-1], inner)
        if not shown:
            said = str(value) if not isinstance(value, KeyError) else self.around.repr(value.args[0])
            named = getattr(value, "shown", type(value).__name__)
            shown = named + (f": {said}" if said else "") + getattr(value, "hint", "")
        return Raised(value, tuple(places), shown, self.handled[-1] if self.handled else None)

    def told(self, inner: Inner) -> Raised:
        """What the library raised."""
        raised = self.raised(inner.value, inner.frames)
        raised.context = inner.context or raised.context
        return raised

    def attempt(self, node: ast.AST, run: Callable[[], object]) -> object:
        """One operation on plain values; what it raises is the program's."""
        self.at(node)
        try:
            return self.bounded(run())
        except UnicodeError:
            raise Unsure from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if not isinstance(error, KeyError):
                told_as_is(error)
            raise self.raised(error) from None

    def library(self, node: ast.AST, run: Callable[[], object]) -> object:
        """A call of the standard library; only what it says to be the program's is."""
        self.at(node)
        try:
            value = run()
            self.at(node)
            return self.bounded(value)
        except Inner as inner:
            self.at(node)
            raise self.told(inner) from None
        except (OSError, ImportError) as error:
            self.at(node)
            raise self.raised(error) from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
            raise Unsure from None

    def weighed(self, *values: object) -> None:
        """What holds others is compared, hashed and shown with all that is in them. Raises Unsure for too much."""
        rest = [value for value in values if isinstance(value, _HOLDERS)]
        while rest:
            one = rest.pop()
            inner = [*one, *one.values()] if isinstance(one, dict) else one
            self.steps += 1 + len(inner) // 16
            self.steps += sum(len(value) for value in inner if isinstance(value, str | bytes)) // 64
            if self.steps > MAX_STEPS:
                raise Unsure
            rest += [value for value in inner if isinstance(value, _HOLDERS)]

    def key(self, key: object) -> object:
        """What is between brackets, or is to be hashed. Raises Unsure."""
        if not isinstance(key, (*PLAIN, slice, Class)):
            raise Unsure
        self.weighed(key)
        return key

    def bounded(self, value: object) -> object:
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise Unsure
        if isinstance(value, str | bytes | list | dict | set | tuple):
            self.steps += len(value) // 64  # large values take their time
            if len(value) > MAX_SIZE or self.steps > MAX_STEPS:
                raise Unsure
        return value

    # --- names and functions ------------------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: object, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            where: Scope | None = scope.outermost() if target.id in scope.globals else scope
            while target.id in scope.outer and where is not None and (where is scope or target.id not in where.names):
                where = where.above
            if where is None:
                raise Unsure
            where.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for item, one in zip(target.elts, self._unpacked(target, list(self.each(value, target))), strict=True):
                self.bind(item.value if isinstance(item, ast.Starred) else item, one, scope)
        elif isinstance(target, ast.Subscript):
            holder, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(holder, Instance):
                self.at(target)
                special(self, holder, "__setitem__", key, value)
                return
            if isinstance(holder, str | tuple):
                self.at(target)
                raise self.raised(TypeError(f"'{type(holder).__name__}' object does not support item assignment"))
            if not isinstance(holder, list | dict | deque) or isinstance(key, Instance):
                raise Unsure
            self.key(key)
            if isinstance(key, slice) and isinstance(value, _HOLDERS) and len(holder) + len(value) > MAX_SIZE:
                raise Unsure
            self.attempt(target, lambda: operator.setitem(holder, key, value))  # type: ignore[arg-type]
        elif isinstance(target, ast.Attribute):
            holder = self.value(target.value, scope)
            if not isinstance(holder, Instance):
                raise Unsure
            holder.attributes[target.attr] = value
        else:
            raise Unsure

    def _unpacked(self, target: ast.Tuple | ast.List, values: list) -> list:
        """As many values as there are targets; a starred one gets a list."""
        wanted = len(target.elts)
        starred = next((n for n, item in enumerate(target.elts) if isinstance(item, ast.Starred)), None)
        if starred is not None:
            after = wanted - starred - 1
            if len(values) < wanted - 1:
                raise Unsure
            middle = values[starred : len(values) - after]
            return [*values[:starred], middle, *values[len(values) - after :]]
        if len(values) != wanted:
            self.at(target)
            said = f"not enough values to unpack (expected {wanted}, got {len(values)})"
            if len(values) > wanted:
                said = f"too many values to unpack (expected {wanted})"
            raise self.raised(ValueError(said))
        return values

    def function(self, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Function:
        defaults = [self.value(d, scope) for d in node.args.defaults]
        named = {
            argument.arg: self.value(default, scope)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        made = Function(node, scope, defaults, named)
        made.unit, made.source = self.frames[-1].unit, self.frames[-1].source
        return made

    def body(self, node: ast.FunctionDef, inside: Scope, frame: Frame) -> object:
        """What a function returns."""
        raise NotImplementedError

    def load(self, name: str, path: str, code: str) -> dict[str, object]:
        """The names of a module that lies in the workspace."""
        raise NotImplementedError

    # --- expressions ------------------------------------------------------------------------------------------------

    def true(self, node: ast.expr, scope: Scope) -> bool:
        return truth(self, self.value(node, scope))

    def each(self, value: object, node: ast.AST) -> Iterator[object]:
        if isinstance(value, int | float | None) and not isinstance(value, Iterator):
            self.at(node)
            raise self.raised(TypeError(f"'{type(value).__name__}' object is not iterable"))
        if isinstance(value, Iterator):
            return value
        if isinstance(value, Instance):
            return self.each(special(self, value, "__iter__"), node)
        if isinstance(value, set | frozenset) and len(value) > 1 and not all(isinstance(one, int) for one in value):
            raise Unsure
        if isinstance(value, range) and len(value) > MAX_STEPS:
            raise Unsure
        if isinstance(value, list | tuple | dict | str | bytes | range | set | type({}.keys()) | type({}.values())):
            return iter(list(value))
        if isinstance(value, type({}.items())):
            return iter(list(value))
        if isinstance(value, deque | frozenset):
            return iter(list(value))
        return self.around.lines(value)

    def value(self, node: ast.expr, scope: Scope) -> object:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        method = getattr(self, "_of_" + type(node).__name__.lower(), None)
        if method is None:
            raise Unsure
        return method(node, scope)

    def _of_constant(self, node: ast.Constant, scope: Scope) -> object:
        return node.value

    def _of_name(self, node: ast.Name, scope: Scope) -> object:
        where: Scope | None = scope
        while where is not None:
            hidden = where.of_class and where is not scope
            if node.id in where.names and not hidden:
                return where.names[node.id]
            if node.id in where.own and node.id not in where.globals | where.outer:
                return self._unbound(node, scope is where)
            where = where.above
        if (known := self.around.builtin(node.id)) is not None:
            return known
        if node.id in vars(builtins):
            raise Unsure
        self.at(node)
        error = NameError(f"name '{node.id}' is not defined")
        own = [] if scope.above is None else [*scope.names, *scope.own]
        everywhere = [*_OF_MODULES, *scope.outermost().names]
        error.hint = script_suggest.hint(node.id, own, everywhere, dir(builtins))  # type: ignore[attr-defined]
        raise self.raised(error)

    def _unbound(self, node: ast.Name, here: bool) -> object:
        if not here:
            raise Unsure
        self.at(node)
        said = f"cannot access local variable '{node.id}' where it is not associated with a value"
        raise self.raised(UnboundLocalError(said))

    def _of_list(self, node: ast.List, scope: Scope) -> list:
        items = self._items(node.elts, scope)
        self.bounded(items)
        return items

    def _of_tuple(self, node: ast.Tuple, scope: Scope) -> tuple:
        items = tuple(self._items(node.elts, scope))
        self.bounded(items)
        return items

    def _of_set(self, node: ast.Set, scope: Scope) -> set:
        return {self.key(item) for item in self._items(node.elts, scope)}

    def _items(self, nodes: Sequence[ast.expr], scope: Scope) -> list:
        found = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += list(self.each(self.value(node.value, scope), node))
                self.bounded(found)
            else:
                found.append(self.value(node, scope))
        return found

    def _of_dict(self, node: ast.Dict, scope: Scope) -> dict:
        made: dict = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.value(value, scope)
                if not isinstance(more, dict):
                    raise Unsure
                made |= more
                continue
            made[self.key(self.value(key, scope))] = self.value(value, scope)
        return made

    def _of_joinedstr(self, node: ast.JoinedStr, scope: Scope) -> str:
        parts = []
        try:
            for part in node.values:
                if not isinstance(part, ast.FormattedValue):
                    parts.append(str(self.value(part, scope)))
                    continue
                value = self.value(part.value, scope)
                form = "" if part.format_spec is None else str(self.value(part.format_spec, scope))
                if part.conversion == ord("r"):
                    value = self.around.repr(value)
                elif part.conversion not in (-1, ord("s")):
                    raise Unsure
                if form:
                    if not isinstance(value, int | float | str) or len(form) > 12 or re.search(r"\d{4}", form):
                        raise Unsure
                    parts.append(format(value, form))
                else:
                    parts.append(self.around.text(value))
        except (Raised, ValueError, TypeError):
            raise Unsure from None  # where in the text it stands is not known
        if sum(map(len, parts)) > MAX_SIZE:
            raise Unsure
        return "".join(parts)

    def _of_binop(self, node: ast.BinOp, scope: Scope) -> object:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        return self.operation(node, node.op, left, right)

    def operation(
        self, node: ast.AST, op: ast.operator, left: object, right: object, *, inplace: bool = False
    ) -> object:
        if self.around.is_path(left) and isinstance(op, ast.Div):
            return self.around.joined(left, right)
        if isinstance(left, Instance) or isinstance(right, Instance):
            return operated(self, op, left, right)
        if not isinstance(left, PLAIN) or not isinstance(right, PLAIN):
            raise Unsure
        if isinstance(op, ast.Mult):
            sizes = [len(v) for v in (left, right) if isinstance(v, str | bytes | list | tuple)]
            times = [v for v in (left, right) if isinstance(v, int)]
            if sizes and times and max(sizes[0], 1) * max(times) > MAX_SIZE:
                raise Unsure
        if isinstance(op, ast.Pow):
            if not isinstance(left, int | float) or not isinstance(right, int | float) or abs(right) > 64:
                raise Unsure
            return self.attempt(node, lambda: operator.pow(left, right))
        if isinstance(op, ast.LShift):
            if not isinstance(right, int) or right > MAX_BITS:
                raise Unsure
            return self.attempt(node, lambda: operator.lshift(left, right))  # type: ignore[arg-type]
        if isinstance(op, ast.Mod) and isinstance(left, str):
            given = right if isinstance(right, tuple) else (right,)
            if not all(isinstance(v, int | float | str) for v in given) or any(c.isdigit() or c == "*" for c in left):
                raise Unsure
        function = _OPERATORS.get(type(op))
        if function is None:
            raise Unsure
        if inplace and isinstance(op, ast.Add) and isinstance(left, int | float) and isinstance(right, str):
            names = f"'{type(left).__name__}' and 'str'"
            self.at(node)
            raise self.raised(TypeError(f"unsupported operand type(s) for +=: {names}"))
        if inplace and isinstance(left, int | float) != isinstance(right, int | float) and not isinstance(left, str):
            raise Unsure  # the message names the operator as it is written
        return self.attempt(node, lambda: function(left, right))

    def _of_unaryop(self, node: ast.UnaryOp, scope: Scope) -> object:
        value = self.value(node.operand, scope)
        if not isinstance(value, PLAIN):
            raise Unsure
        return self.attempt(node, lambda: _OPERATORS[type(node.op)](value))

    def _of_boolop(self, node: ast.BoolOp, scope: Scope) -> object:
        value: object = None
        for part in node.values:
            value = self.value(part, scope)
            if truth(self, value) != isinstance(node.op, ast.And):
                return value
        return value

    def _of_compare(self, node: ast.Compare, scope: Scope) -> object:
        left = self.value(node.left, scope)
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self.value(other, scope)
            among = isinstance(right, type({}.keys())) and isinstance(op, ast.In | ast.NotIn)
            plain = isinstance(left, PLAIN) and isinstance(right, PLAIN)
            if (isinstance(left, Instance) or isinstance(right, Instance)) and not isinstance(op, ast.Is | ast.IsNot):
                self.at(node)
                if not self._compared(op, left, right):
                    return False
                left = right
                continue
            if not (plain or among or isinstance(op, ast.Is | ast.IsNot)):
                raise Unsure
            if not isinstance(op, ast.Is | ast.IsNot):
                self.weighed(left, right)
                if isinstance(right, range) and not isinstance(left, int):
                    raise Unsure
            if not self.attempt(node, lambda op=op, left=left, right=right: _OPERATORS[type(op)](left, right)):
                return False
            left = right
        return True

    def _compared(self, op: ast.cmpop, left: object, right: object) -> bool:
        if isinstance(op, ast.In | ast.NotIn) and isinstance(right, list | tuple):
            return any(self.same(left, one) for one in right) != isinstance(op, ast.NotIn)
        return truth(self, operated(self, op, left, right))

    def _of_ifexp(self, node: ast.IfExp, scope: Scope) -> object:
        return self.value(node.body if self.true(node.test, scope) else node.orelse, scope)

    def _of_lambda(self, node: ast.Lambda, scope: Scope) -> Function:
        return self.function(node, scope)

    def _of_slice(self, node: ast.Slice, scope: Scope) -> slice:
        parts = [None if part is None else self.value(part, scope) for part in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _of_subscript(self, node: ast.Subscript, scope: Scope) -> object:
        holder, key = self.value(node.value, scope), self.value(node.slice, scope)
        if isinstance(holder, Instance):
            self.at(node)
            return special(self, holder, "__getitem__", key)
        if not isinstance(holder, PLAIN):
            raise Unsure
        self.key(key)
        return self.attempt(node, lambda: operator.getitem(holder, key))  # type: ignore[arg-type]

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope) -> list:
        name = {ast.ListComp: "listcomp", ast.SetComp: "setcomp", ast.DictComp: "dictcomp"}.get(type(node), "genexpr")
        first = self.value(node.generators[0].iter, scope)
        found: list = []
        inside = Scope(scope)

        def turn(number: int) -> None:
            if number == len(node.generators):
                if isinstance(node, ast.DictComp):
                    found.append((self.value(node.key, inside), self.value(node.value, inside)))
                else:
                    found.append(self.value(node.elt, inside))
                return
            part = node.generators[number]
            items = first if number == 0 else self.value(part.iter, inside)
            for value in self.each(items, part.iter):
                self.bind(part.target, value, inside)
                if all(self.true(condition, inside) for condition in part.ifs):
                    turn(number + 1)

        self.at(node)
        self.enter(Frame(f"<{name}>", self.frames[-1].unit, self.frames[-1].source), lambda: turn(0))
        return found

    def _of_listcomp(self, node: ast.ListComp, scope: Scope) -> list:
        return self._comprehension(node, scope)

    def _of_setcomp(self, node: ast.SetComp, scope: Scope) -> set:
        return {self.key(item) for item in self._comprehension(node, scope)}

    def _of_dictcomp(self, node: ast.DictComp, scope: Scope) -> dict:
        return {self.key(key): value for key, value in self._comprehension(node, scope)}

    def _of_generatorexp(self, node: ast.GeneratorExp, scope: Scope) -> object:
        try:
            return iter(self._comprehension(node, scope))
        except Raised:
            raise Unsure from None  # it fails where it is used, not where it stands

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> object:
        holder = self.value(node.value, scope)
        return self.library(node, lambda: self.attribute_of(holder, node.attr))

    def attribute_of(self, holder: object, name: str) -> object:
        """Raises Inner, Unsure."""
        if isinstance(holder, Instance | Class | Super):
            return attribute(self, holder, name)
        return self.around.attribute(holder, name)

    def _super(self, scope: Scope) -> Super:
        where: Scope | None = scope
        while where is not None and where.owner is None:
            where = where.above
        if where is None or where.owner is None or not isinstance(where.first, Instance):
            raise Unsure
        return Super(where.owner, where.first)

    def _of_yield(self, node: ast.Yield, scope: Scope) -> None:
        self._yields([None if node.value is None else self.value(node.value, scope)], scope)

    def _of_yieldfrom(self, node: ast.YieldFrom, scope: Scope) -> None:
        self._yields(list(self.each(self.value(node.value, scope), node)), scope)

    def _yields(self, values: list, scope: Scope) -> None:
        if scope.yielded is None:
            raise Unsure
        scope.yielded += values
        if len(scope.yielded) > MAX_YIELDS:
            raise Enough

    def _of_namedexpr(self, node: ast.NamedExpr, scope: Scope) -> object:
        value = self.value(node.value, scope)
        self.bind(node.target, value, scope)
        return value

    def _of_call(self, node: ast.Call, scope: Scope) -> object:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(scope)
        function = self.value(node.func, scope)
        arguments = self._items(node.args, scope)
        keywords: dict[str, object] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                keywords |= value
            else:
                raise Unsure
        self.at(node)
        if isinstance(function, Native):
            return self.library(node, lambda: function.call(self, arguments, keywords))
        value = self.call(function, arguments, keywords)
        self.at(node)
        return value

    def call(self, function: object, arguments: list, keywords: dict[str, object]) -> object:
        try:
            return call(self, function, arguments, keywords)
        except Inner as inner:
            raise self.told(inner) from None

    def same(self, left: object, right: object) -> bool:
        if isinstance(left, Instance) or isinstance(right, Instance):
            return bool(operated(self, ast.Eq(), left, right))
        self.weighed(left, right)
        return left == right

    def enter(self, frame: Frame, run: Callable[[], object]) -> object:
        if len(self.frames) > MAX_DEPTH:
            raise Unsure
        depth = len(self.frames)
        self.frames.append(frame)
        try:
            return run()
        finally:
            del self.frames[depth:]
