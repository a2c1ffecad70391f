"""Runs small Python programs of agents by hand, in the world of a played script: functions, classes, loops, exceptions.

Code goes in, what it prints and how it ends come out. Nothing of it is executed: every operation is worked out here on
plain values, with bounds on steps and sizes. Whatever is not known raises `Unsure`; nothing is guessed.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from detect import python_tree
from detect.script_traceback import Frame, Raised, place, report, syntax_error
from detect.script_values import EXCEPTIONS, PLAIN, Class, Ends, Function, Inner, Instance, Method, Native, Scope
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_modules import Surroundings

MAX_STEPS = 20_000
MAX_DEPTH = 60
MAX_SIZE = 1 << 16
MAX_BITS = 4096

_OPERATORS: dict[type[ast.AST], Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor, ast.RShift: operator.rshift, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_,
    ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip


class _Return(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def interpret(code: str, unit: str, around: Surroundings) -> tuple[str, str, int]:
    """Standard output, standard error and exit status of a program. Raises Unsure."""
    if (said := syntax_error(code, unit)) is not None:
        return "", said, 1
    player = Interpreter(code, unit, around)
    err, status = "", 0
    try:
        player.run()
    except Ends as ends:
        err, status = ends.said, ends.status
    except Raised as raised:
        err, status = report(raised), 1
    except (_Return, _Break, _Continue, RecursionError, AttributeError, TypeError, ValueError, LookupError):
        raise Unsure from None
    around.flush()
    return around.out, around.err + err, status


class Interpreter:
    def __init__(self, code: str, unit: str, around: Surroundings) -> None:
        self.tree = python_tree.module(code)
        self.around = around
        self.unit = unit
        self.source = tuple(code.split("\n"))
        self.frames = [Frame("<module>", unit, self.source)]
        self.steps = 0
        self.handled: list[Raised] = []
        self.globals = Scope(None, {"__name__": "__main__", "__file__": unit})

    def run(self) -> None:
        self.block(self.tree.body, self.globals)

    # --- failures ---------------------------------------------------------------------------------------------------

    def at(self, node: ast.AST) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        self.frames[-1].node = node

    def raised(self, value: BaseException, inner: str = "", shown: str = "") -> Raised:
        places = [place(frame) for frame in self.frames]
        places[-1] = place(self.frames[-1], inner)
        if not shown:
            said = str(value) if not isinstance(value, KeyError) else self.around.repr(value.args[0])
            shown = getattr(value, "shown", type(value).__name__) + (f": {said}" if said else "")
        return Raised(value, tuple(places), shown, self.handled[-1] if self.handled else None)

    def attempt(self, node: ast.AST, run: Callable[[], object]) -> object:
        """One operation on plain values; what it raises is the program's."""
        self.at(node)
        try:
            return self.bounded(run())
        except UnicodeError:
            raise Unsure from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
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
            raise self.raised(inner.value, inner.frames) from None
        except (OSError, ImportError) as error:
            self.at(node)
            raise self.raised(error) from None
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
            raise Unsure from None

    def bounded(self, value: object) -> object:
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise Unsure
        if isinstance(value, str | bytes | list | dict | set | tuple):
            self.steps += len(value) // 64  # large values take their time
            if len(value) > MAX_SIZE or self.steps > MAX_STEPS:
                raise Unsure
        return value

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Unsure
            method = getattr(self, "_" + type(statement).__name__.lower(), None)
            if method is None:
                raise Unsure
            method(statement, scope)

    def _expr(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def _pass(self, node: ast.Pass, scope: Scope) -> None:
        pass

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.bind(target, value, scope)

    def _annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, scope), scope)

    def _augassign(self, node: ast.AugAssign, scope: Scope) -> None:
        old = self.value(node.target, scope)
        value = self.value(node.value, scope)
        if isinstance(old, list) and isinstance(node.op, ast.Add) and isinstance(value, list | tuple | str):
            old.extend(value)
            self.bounded(old)
            return
        self.bind(node.target, self.operation(node, node.op, old, value, inplace=True), scope)

    def bind(self, target: ast.expr, value: object, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            where = scope.outermost() if target.id in scope.globals else scope
            where.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            if any(isinstance(item, ast.Starred) for item in target.elts):
                raise Unsure
            values = list(self.each(value, target))
            if len(values) != len(target.elts):
                raise Unsure
            for item, one in zip(target.elts, values, strict=True):
                self.bind(item, one, scope)
        elif isinstance(target, ast.Subscript):
            holder, key = self.value(target.value, scope), self.value(target.slice, scope)
            if not isinstance(holder, list | dict) or isinstance(key, Instance):
                raise Unsure
            self.attempt(target, lambda: operator.setitem(holder, key, value))  # type: ignore[arg-type]
        elif isinstance(target, ast.Attribute):
            holder = self.value(target.value, scope)
            if not isinstance(holder, Instance):
                raise Unsure
            holder.attributes[target.attr] = value
        else:
            raise Unsure

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Subscript):
                raise Unsure
            holder, key = self.value(target.value, scope), self.value(target.slice, scope)
            if not isinstance(holder, list | dict):
                raise Unsure
            self.attempt(target, lambda holder=holder, key=key: operator.delitem(holder, key))  # type: ignore[arg-type]

    def _if(self, node: ast.If, scope: Scope) -> None:
        self.block(node.body if self.true(node.test, scope) else node.orelse, scope)

    def _while(self, node: ast.While, scope: Scope) -> None:
        while self.true(node.test, scope):
            if not self.once(node, scope):
                return
        self.block(node.orelse, scope)

    def _for(self, node: ast.For, scope: Scope) -> None:
        for value in self.each(self.value(node.iter, scope), node.iter):
            self.bind(node.target, value, scope)
            if not self.once(node, scope):
                return
        self.block(node.orelse, scope)

    def once(self, node: ast.While | ast.For, scope: Scope) -> bool:
        """Run the body of a loop once; False where it breaks out."""
        try:
            self.block(node.body, scope)
        except _Break:
            return False
        except _Continue:
            pass
        return True

    def _break(self, node: ast.Break, scope: Scope) -> None:
        raise _Break

    def _continue(self, node: ast.Continue, scope: Scope) -> None:
        raise _Continue

    def _return(self, node: ast.Return, scope: Scope) -> None:
        raise _Return(None if node.value is None else self.value(node.value, scope))

    def _global(self, node: ast.Global, scope: Scope) -> None:
        scope.globals.update(node.names)

    def _functiondef(self, node: ast.FunctionDef, scope: Scope) -> None:
        if node.decorator_list or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            raise Unsure
        scope.names[node.name] = Function(node, scope, [self.value(d, scope) for d in node.args.defaults])

    def _classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        if node.decorator_list or node.keywords or len(node.bases) > 1:
            raise Unsure
        base = self.value(node.bases[0], scope) if node.bases else None
        if base is not None and not isinstance(base, Class) and base not in EXCEPTIONS.values():
            raise Unsure
        inside = Scope(scope)
        self.block(node.body, inside)
        scope.names[node.name] = Class(node.name, base, inside.names)  # type: ignore[arg-type]

    def _import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            module = self.library(node, lambda alias=alias: self.around.module(alias.name))
            if alias.asname is None and "." in alias.name:
                module = self.around.module(alias.name.split(".")[0])
            scope.names[alias.asname or alias.name.split(".")[0]] = module

    def _importfrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        if node.level or node.module is None:
            raise Unsure
        name = node.module
        if name == "__future__":
            return
        self.library(node, lambda: self.around.module(name))
        for alias in node.names:
            scope.names[alias.asname or alias.name] = self.around.member(name, alias.name)

    def _assert(self, node: ast.Assert, scope: Scope) -> None:
        if self.true(node.test, scope):
            return
        said = [] if node.msg is None else [self.around.text(self.value(node.msg, scope))]
        self.at(node.test)
        raise self.raised(AssertionError(*said))

    def _raise(self, node: ast.Raise, scope: Scope) -> None:
        if node.exc is None:
            raise Unsure
        value = self.value(node.exc, scope)
        cause = None if node.cause is None else self.value(node.cause, scope)
        self.at(node)
        if isinstance(value, type) and value in EXCEPTIONS.values():
            value = value()
        if isinstance(value, Class):
            value = self.call(value, [], {})
        raised = self.exception(value)
        if node.cause is not None:
            if cause is None:
                raised.context = None
            elif raised.context is not None and cause is raised.context.value:
                raised.direct = True
            else:
                raise Unsure
        raise raised

    def exception(self, value: object) -> Raised:
        if isinstance(value, BaseException):
            return self.raised(value)
        if isinstance(value, Instance) and (kind := _root(value.of)) is not None:
            given = value.attributes.get("args", ())
            holder = kind(*given)  # type: ignore[misc]
            holder.__dict__["instance"] = value
            said = str(holder)
            return self.raised(holder, shown=f"__main__.{value.of.name}" + (f": {said}" if said else ""))
        raise Unsure

    def _try(self, node: ast.Try, scope: Scope) -> None:
        depth = len(self.frames)
        try:
            try:
                self.block(node.body, scope)
            except Raised as raised:
                del self.frames[depth:]
                for handler in node.handlers:
                    if self._catches(handler, raised, scope):
                        raised.places = raised.places[depth - 1 :]
                        return self._handle(handler, raised, scope)
                raise
            self.block(node.orelse, scope)
        finally:
            if node.finalbody:
                self.block(node.finalbody, scope)
        return None

    def _catches(self, handler: ast.ExceptHandler, raised: Raised, scope: Scope) -> bool:
        if handler.type is None:
            return True
        wanted = self.value(handler.type, scope)
        instance = getattr(raised.value, "instance", None)
        for one in wanted if isinstance(wanted, tuple) else (wanted,):
            if isinstance(one, type) and isinstance(raised.value, one):
                return True
            if isinstance(one, Class) and instance is not None and _derives(instance.of, one):
                return True
            if not isinstance(one, type | Class):
                raise Unsure
        return False

    def _handle(self, handler: ast.ExceptHandler, raised: Raised, scope: Scope) -> None:
        if handler.name:
            scope.names[handler.name] = getattr(raised.value, "instance", raised.value)
        self.handled.append(raised)
        try:
            self.block(handler.body, scope)
        finally:
            self.handled.pop()

    def _with(self, node: ast.With, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if not self.around.is_file(value):
                raise Unsure
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, scope)
        self.block(node.body, scope)

    # --- expressions ------------------------------------------------------------------------------------------------

    def true(self, node: ast.expr, scope: Scope) -> bool:
        value = self.value(node, scope)
        if isinstance(value, Instance):
            raise Unsure
        return bool(value)

    def each(self, value: object, node: ast.AST) -> Iterator[object]:
        if isinstance(value, int | float | None) and not isinstance(value, Iterator):
            self.at(node)
            raise self.raised(TypeError(f"'{type(value).__name__}' object is not iterable"))
        if isinstance(value, Iterator):
            return value
        if isinstance(value, set) and len(value) > 1 and not all(isinstance(one, int) for one in value):
            raise Unsure
        if isinstance(value, range) and len(value) > MAX_STEPS:
            raise Unsure
        if isinstance(value, list | tuple | dict | str | bytes | range | set | type({}.keys()) | type({}.values())):
            return iter(list(value))
        if isinstance(value, type({}.items())):
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
            if node.id in where.names:
                return where.names[node.id]
            if node.id in where.own and node.id not in where.globals:
                raise Unsure
            where = where.above
        if (known := self.around.builtin(node.id)) is not None:
            return known
        if node.id in vars(builtins):
            raise Unsure
        self.at(node)
        if difflib.get_close_matches(node.id, [*scope.names, *self.globals.names, *dir(builtins)], cutoff=0.5):
            raise Unsure  # CPython may suggest one of them
        raise self.raised(NameError(f"name '{node.id}' is not defined"))

    def _of_list(self, node: ast.List, scope: Scope) -> list:
        return self._items(node.elts, scope)

    def _of_tuple(self, node: ast.Tuple, scope: Scope) -> tuple:
        return tuple(self._items(node.elts, scope))

    def _of_set(self, node: ast.Set, scope: Scope) -> set:
        return set(self._items(node.elts, scope))

    def _items(self, nodes: Sequence[ast.expr], scope: Scope) -> list:
        found = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += list(self.each(self.value(node.value, scope), node))
            else:
                found.append(self.value(node, scope))
        return found

    def _of_dict(self, node: ast.Dict, scope: Scope) -> dict:
        made: dict = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise Unsure
            made[self.value(key, scope)] = self.value(value, scope)
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
        return "".join(parts)

    def _of_binop(self, node: ast.BinOp, scope: Scope) -> object:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        return self.operation(node, node.op, left, right)

    def operation(
        self, node: ast.AST, op: ast.operator, left: object, right: object, *, inplace: bool = False
    ) -> object:
        if self.around.is_path(left) and isinstance(op, ast.Div):
            return self.around.joined(left, right)
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
            if not all(isinstance(v, int | float | str) for v in given) or any(c.isdigit() for c in left):
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
            if isinstance(value, Instance):
                raise Unsure
            if bool(value) != isinstance(node.op, ast.And):
                return value
        return value

    def _of_compare(self, node: ast.Compare, scope: Scope) -> object:
        left = self.value(node.left, scope)
        for op, other in zip(node.ops, node.comparators, strict=True):
            right = self.value(other, scope)
            among = isinstance(right, type({}.keys())) and isinstance(op, ast.In | ast.NotIn)
            plain = isinstance(left, PLAIN) and isinstance(right, PLAIN)
            if not (plain or among or isinstance(op, ast.Is | ast.IsNot)):
                raise Unsure
            if not self.attempt(node, lambda op=op, left=left, right=right: _OPERATORS[type(op)](left, right)):
                return False
            left = right
        return True

    def _of_ifexp(self, node: ast.IfExp, scope: Scope) -> object:
        return self.value(node.body if self.true(node.test, scope) else node.orelse, scope)

    def _of_lambda(self, node: ast.Lambda, scope: Scope) -> Function:
        return Function(node, scope, [self.value(d, scope) for d in node.args.defaults])

    def _of_slice(self, node: ast.Slice, scope: Scope) -> slice:
        parts = [None if part is None else self.value(part, scope) for part in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _of_subscript(self, node: ast.Subscript, scope: Scope) -> object:
        holder, key = self.value(node.value, scope), self.value(node.slice, scope)
        if not isinstance(holder, PLAIN) or isinstance(key, Instance):
            raise Unsure
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
        self.enter(Frame(f"<{name}>", self.unit, self.source), lambda: turn(0))
        return found

    def _of_listcomp(self, node: ast.ListComp, scope: Scope) -> list:
        return self._comprehension(node, scope)

    def _of_setcomp(self, node: ast.SetComp, scope: Scope) -> set:
        return set(self._comprehension(node, scope))

    def _of_dictcomp(self, node: ast.DictComp, scope: Scope) -> dict:
        return dict(self._comprehension(node, scope))

    def _of_generatorexp(self, node: ast.GeneratorExp, scope: Scope) -> object:
        try:
            return iter(self._comprehension(node, scope))
        except Raised:
            raise Unsure from None  # it fails where it is used, not where it stands

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> object:
        holder = self.value(node.value, scope)
        if isinstance(holder, Instance):
            if node.attr in holder.attributes:
                return holder.attributes[node.attr]
            found = holder.of.find(node.attr)
            if isinstance(found, Function):
                return Method(found, holder)
            if found is not None:
                return found
            if _root(holder.of) is not None:
                raise Unsure
            if difflib.get_close_matches(node.attr, [*holder.attributes, *holder.of.members], cutoff=0.5):
                raise Unsure
            self.at(node)
            raise self.raised(AttributeError(f"'{holder.of.name}' object has no attribute '{node.attr}'"))
        return self.library(node, lambda: self.around.attribute(holder, node.attr))

    def _of_call(self, node: ast.Call, scope: Scope) -> object:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            raise Unsure
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Call)
            and isinstance(node.func.value.func, ast.Name)
            and node.func.value.func.id == "super"
        ):
            raise Unsure
        function = self.value(node.func, scope)
        arguments = self._items(node.args, scope)
        keywords: dict[str, object] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Unsure
            keywords[keyword.arg] = self.value(keyword.value, scope)
        self.at(node)
        if isinstance(function, Native):
            return self.library(node, lambda: function.call(self, arguments, keywords))
        return self.call(function, arguments, keywords)

    def call(self, function: object, arguments: list, keywords: dict[str, object]) -> object:
        if isinstance(function, Method):
            return self.call(function.function, [function.owner, *arguments], keywords)
        if isinstance(function, Native):
            return function.call(self, arguments, keywords)
        if isinstance(function, Class):
            made = Instance(function)
            start = function.find("__init__")
            if _root(function) is not None:
                if start is not None or keywords:
                    raise Unsure
                made.attributes["args"] = tuple(arguments)
            elif isinstance(start, Function):
                self.call(start, [made, *arguments], keywords)
            elif arguments or keywords:
                raise Unsure
            return made
        if isinstance(function, type) and function in EXCEPTIONS.values() and not keywords:
            return function(*arguments)
        if not isinstance(function, Function):
            raise Unsure
        return self._call(function, arguments, keywords)

    def _call(self, function: Function, arguments: list, keywords: dict[str, object]) -> object:
        wanted = function.node.args
        if wanted.kwonlyargs or wanted.kwarg or wanted.posonlyargs:
            raise Unsure
        names = [argument.arg for argument in wanted.args]
        inside = Scope(function.scope)
        if len(arguments) > len(names) and wanted.vararg is None:
            raise Unsure
        for name, value in zip(names, arguments, strict=False):
            inside.names[name] = value
        if wanted.vararg is not None:
            inside.names[wanted.vararg.arg] = tuple(arguments[len(names) :])
        for name, value in keywords.items():
            if name not in names or name in inside.names:
                raise Unsure
            inside.names[name] = value
        for name, value in zip(reversed(names), reversed(function.defaults), strict=False):
            inside.names.setdefault(name, value)
        if any(name not in inside.names for name in names):
            raise Unsure
        node = function.node
        if isinstance(node, ast.Lambda):
            return self.enter(Frame("<lambda>", self.unit, self.source), lambda: self.value(node.body, inside))
        inside.own = _bound(node)
        try:
            self.enter(Frame(node.name, self.unit, self.source), lambda: self.block(node.body, inside))
        except _Return as returned:
            return returned.value
        return None

    def enter(self, frame: Frame, run: Callable[[], object]) -> object:
        if len(self.frames) > MAX_DEPTH:
            raise Unsure
        depth = len(self.frames)
        self.frames.append(frame)
        try:
            return run()
        finally:
            del self.frames[depth:]


def _root(of: Class) -> type[BaseException] | None:
    """The built-in exception that a class derives from."""
    base = of.base
    while isinstance(base, Class):
        base = base.base
    return base


def _derives(of: Class, wanted: Class) -> bool:
    base: object = of
    while isinstance(base, Class):
        if base is wanted:
            return True
        base = base.base
    return False


def _bound(node: ast.AST) -> frozenset[str]:
    """Names that a function binds: its own, wherever in it they are read."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
