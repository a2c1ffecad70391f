"""Runs small Python programs of agents by hand, in the world of a played script: functions, classes, loops, exceptions.

Code goes in, what it prints and how it ends come out. Nothing of it is executed: every operation is worked out here on
plain values, with bounds on steps and sizes. Whatever is not known raises `Unsure`; nothing is guessed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from detect import python_tree
from detect.script_calls import (
    derives,
    root,
    special,
    truth,
)
from detect.script_expressions import MAX_SIZE, MAX_STEPS, Expressions
from detect.script_traceback import Frame, Place, Raised, place, report, syntax_error
from detect.script_values import (
    EXCEPTIONS,
    Class,
    Ends,
    Expecting,
    Function,
    Inner,
    Instance,
    Kind,
    Scope,
)
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_modules import Surroundings


class _Return(Exception):
    def __init__(self, value: object) -> None:
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def interpret(code: str, unit: str, around: Surroundings) -> tuple[str, str, int]:
    """Standard output, standard error and exit status of a program. Raises Unsure.

    As all texts of a played script, code and what is printed hold bytes as latin-1 characters.
    """
    if not code.isascii():
        try:
            code = code.encode("latin-1").decode("utf-8")
        except UnicodeError:
            raise Unsure from None
        out, err, status = _interpret(code, unit, around)
        return out.encode("utf-8").decode("latin-1"), err.encode("utf-8").decode("latin-1"), status
    return _interpret(code, unit, around)


def _interpret(code: str, unit: str, around: Surroundings) -> tuple[str, str, int]:
    if (said := syntax_error(code, unit)) is not None:
        return "", said, 1
    player = Interpreter(code, unit, around)
    err, status = "", 0
    try:
        player.run()
    except Ends as ends:
        err, status = ends.said, ends.status
    except Raised as raised:
        if isinstance(raised.value, SystemExit):
            err, status = _exit(raised.value, around)
        else:
            err, status = report(raised), 1
    except (_Return, _Break, _Continue, RecursionError, AttributeError, TypeError, ValueError, LookupError):
        raise Unsure from None
    finally:
        around.player.shared.steps += player.steps // 5
    around.flush()
    return around.out, around.err + err, status


def tested(run: Callable[[Interpreter], tuple[str, int]], around: Surroundings) -> tuple[str, str, int]:
    """What `unittest` says when it is asked from outside: the module that is tested is all there is. Raises Unsure."""
    interpreter = Interpreter("", "<unittest>", around)
    interpreter.frames.clear()
    interpreter.frames.append(Frame("<unittest>", "<unittest>", ("",), ast.Pass(lineno=1)))
    try:
        err, status = run(interpreter)
    except (Raised, Inner, Ends, RecursionError, AttributeError, TypeError, ValueError, LookupError):
        raise Unsure from None
    finally:
        around.player.shared.steps += interpreter.steps // 5
    around.flush()
    return around.out, around.err + err, status


def _exit(value: SystemExit, around: Surroundings) -> tuple[str, int]:
    code = value.args[0] if value.args else None
    if code is None or isinstance(code, int):
        return "", int(code or 0) & 255
    return around.text(code) + "\n", 1


class Interpreter(Expressions):
    def run(self) -> None:
        self.block(self.tree.body, self.globals)

    def load(self, name: str, path: str, code: str) -> dict[str, object]:
        """The names of a module that lies in the workspace."""
        if syntax_error(code, path) is not None:
            raise Unsure
        scope = Scope(None, {"__name__": name, "__file__": path})
        tree = python_tree.module(code)
        self.enter(Frame("<module>", path, tuple(code.split("\n"))), lambda: self.block(tree.body, scope))
        return scope.names

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
            if len(old) + len(value) > MAX_SIZE:
                raise Unsure
            old.extend(value)
            self.bounded(old)
            return
        self.bind(node.target, self.operation(node, node.op, old, value, inplace=True), scope)

    def _nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer.update(node.names)

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id in scope.names:
                del scope.names[target.id]
                continue
            if not isinstance(target, ast.Subscript):
                raise Unsure
            holder, key = self.value(target.value, scope), self.value(target.slice, scope)
            if not isinstance(holder, list | dict):
                raise Unsure
            self.key(key)
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
        decorators = [self.value(decorator, scope) for decorator in node.decorator_list]
        made: object = self.function(node, scope)
        for decorator in reversed(decorators):
            self.at(node)
            made = self.call(decorator, [made], {})
        self.bind(ast.Name(node.name, ast.Store()), made, scope)

    def _classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        if node.keywords or len(node.bases) > 1:
            raise Unsure
        decorators = [self.value(decorator, scope) for decorator in node.decorator_list]
        base = self.value(node.bases[0], scope) if node.bases else None
        if isinstance(base, Kind) and base.kind is object:
            base = None
        if base is not None and not isinstance(base, Class) and base not in EXCEPTIONS.values():
            raise Unsure
        inside = Scope(scope)
        inside.of_class, inside.prefix = True, f"{scope.prefix}{node.name}."
        self.block(node.body, inside)
        made = Class(node.name, base, inside.names)  # type: ignore[arg-type]
        made.qualified = scope.prefix + node.name
        made.module = str(scope.outermost().names["__name__"])
        for member in inside.names.values():
            for inner in (member, getattr(member, "function", None)):
                if isinstance(inner, Function):
                    inner.owner = made
        made.annotated = tuple(
            n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        )
        for decorator in reversed(decorators):
            self.at(node)
            self.call(decorator, [made], {})
        scope.names[node.name] = made

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
        module = self.library(node, lambda: self.around.module(name))
        for alias in node.names:
            member = self.library(node, lambda alias=alias: self.around.member(name, alias.name, module))
            scope.names[alias.asname or alias.name] = member

    def _assert(self, node: ast.Assert, scope: Scope) -> None:
        if self.true(node.test, scope):
            return
        said = [] if node.msg is None else [self.around.text(self.value(node.msg, scope))]
        self.at(node.test)
        raise self.raised(AssertionError(*said))

    def _raise(self, node: ast.Raise, scope: Scope) -> None:
        if node.exc is None:
            if not self.handled:
                raise Unsure
            raise self._again(self.handled[-1], ())
        value = self.value(node.exc, scope)
        cause = None if node.cause is None else self.value(node.cause, scope)
        self.at(node)
        if isinstance(value, type) and value in EXCEPTIONS.values():
            value = value()
        if isinstance(value, Class):
            value = self.call(value, [], {})
        if self.handled and value in (self.handled[-1].value, getattr(self.handled[-1].value, "instance", None)):
            if node.cause is not None:
                raise Unsure
            raise self._again(self.handled[-1], (place(self.frames[-1]),))
        raised = self.exception(value)
        if node.cause is not None:
            if cause is None:
                raised.context = None
            elif raised.context is not None and cause is raised.context.value:
                raised.direct = True
            else:
                raise Unsure
        raise raised

    def _again(self, handled: Raised, here: tuple[Place, ...]) -> Raised:
        """What is being handled is raised once more."""
        outside = tuple(place(frame) for frame in self.frames[:-1])
        raised = Raised(handled.value, (*outside, *here, *handled.places), handled.shown, handled.context)
        raised.direct, raised.below = handled.direct, handled.below
        return raised

    def exception(self, value: object) -> Raised:
        if isinstance(value, BaseException):
            return self.raised(value)
        if isinstance(value, Instance) and (kind := root(value.of)) is not None:
            given = value.attributes.get("args", ())
            holder = kind(*given) if isinstance(given, tuple) else kind()
            holder.__dict__["instance"] = value
            said = self.around.text(value)
            return self.raised(holder, shown=f"{value.of.module}.{value.of.qualified}" + (f": {said}" if said else ""))
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
            if isinstance(one, Class) and instance is not None and derives(instance.of, one):
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
        self._within(list(node.items), node, scope)

    def _within(self, items: list[ast.withitem], node: ast.With, scope: Scope) -> None:
        if not items:
            return self.block(node.body, scope)
        item, *rest = items
        manager = self.value(item.context_expr, scope)
        value = manager
        if isinstance(manager, Instance):
            value = special(self, manager, "__enter__")
        elif not self.around.is_file(manager) and not isinstance(manager, Expecting):
            raise Unsure
        if item.optional_vars is not None:
            self.bind(item.optional_vars, value, scope)
        depth = len(self.frames)
        try:
            self._within(rest, node, scope)
        except Raised as raised:
            del self.frames[depth:]
            self.at(item.context_expr)
            if not self._left(manager, raised):
                raise
        else:
            self.at(item.context_expr)
            self._left(manager, None)
        return None

    def _left(self, manager: object, raised: Raised | None) -> bool:
        """A context is left; whether what was raised in it ends there."""
        if isinstance(manager, Expecting):
            try:
                return manager.leave(raised)
            except Inner as inner:
                raise self.told(inner) from None
        if not isinstance(manager, Instance):
            return False
        told = (None, None, None)
        if raised is not None:
            of = getattr(raised.value, "instance", raised.value)
            told = (type(of) if not isinstance(of, Instance) else of.of, of, None)
        return truth(self, special(self, manager, "__exit__", *told))

    def body(self, node: ast.FunctionDef, inside: Scope, frame: Frame) -> object:
        try:
            self.enter(frame, lambda: self.block(node.body, inside))
        except _Return as returned:
            return returned.value
        return None
