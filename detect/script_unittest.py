"""`unittest` on a small test file that is run by hand: which tests pass, and what is said of the others.

What an assertion says of plain values, CPython's own `unittest` is asked.
"""

from __future__ import annotations

import hashlib
import unittest
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from detect.script_calls import derives, root
from detect.script_traceback import Raised, report
from detect.script_values import PLAIN, Class, Ends, Expecting, Function, Inner, Instance, Native
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions

_CHECKS = (
    "assertEqual", "assertNotEqual", "assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone", "assertIn",
    "assertNotIn", "assertIs", "assertIsNot", "assertGreater", "assertLess", "assertGreaterEqual", "assertLessEqual",
    "assertAlmostEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual",
    "assertMultiLineEqual", "assertCountEqual", "fail",
)  # fmt: skip
_ASKED = unittest.TestCase()


def members() -> dict[str, object]:
    """`TestCase` and `main`."""
    checks: dict[str, object] = {name: Native(_check(name)) for name in _CHECKS}
    checks["assertRaises"] = Native(_expecting)
    return {"TestCase": Class("TestCase", None, checks), "main": Native(_main)}


def _check(name: str) -> Callable:
    def check(interpreter: Expressions, arguments: list, keywords: dict) -> None:
        given = arguments[1:]
        if not all(isinstance(a, PLAIN) for a in (*given, *keywords.values())) or any(
            isinstance(a, set) and len(a) > 1 for a in given
        ):
            raise Unsure
        try:
            getattr(_ASKED, name)(*given, **keywords)
        except AssertionError as error:
            raise Inner(AssertionError(*error.args)) from None
        except TypeError:
            raise Unsure from None

    return check


class _Context(Expecting):
    """`with self.assertRaises(...) as context`"""

    exception: object = None


def _expecting(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    _, wanted, *rest = arguments
    name = wanted.name if isinstance(wanted, Class) else getattr(wanted, "__name__", "")
    if keywords or not name:
        raise Unsure

    def leave(raised: Raised | None) -> bool:
        if raised is None:
            raise Inner(AssertionError(f"{name} not raised"))
        of = getattr(raised.value, "instance", raised.value)
        context.exception = of
        if isinstance(wanted, Class):
            return isinstance(of, Instance) and derives(of.of, wanted)
        kind = root(of.of) if isinstance(of, Instance) else type(of)
        return kind is not None and isinstance(wanted, type) and issubclass(kind, wanted)

    context = _Context(leave)
    if not rest:
        return context
    function, *given = rest
    depth = len(interpreter.frames)
    try:
        interpreter.call(function, given, {})
    except Raised as raised:
        del interpreter.frames[depth:]
        if leave(raised):
            return None
        raise
    raise Inner(AssertionError(f"{name} not raised by {getattr(function, 'name', 'it').rpartition('.')[2]}"))


def attribute(holder: object, name: str) -> object | None:
    return holder.exception if isinstance(holder, _Context) and name == "exception" else None


def _main(interpreter: Expressions, arguments: list, keywords: dict) -> None:
    options = set(interpreter.around.argv[1:])
    if arguments or set(keywords) - {"verbosity"} or options - {"-v", "-q"}:
        raise Unsure
    verbosity = keywords.get("verbosity", 2 if "-v" in options else 0 if "-q" in options else 1)
    text, status = run(interpreter, "__main__", interpreter.globals.names, verbosity)
    raise Ends(status, text)


class _Result(msgspec.Struct):
    marks: str = ""
    errors: list[str] = []
    failures: list[str] = []
    count: int = 0


def run(interpreter: Expressions, module: str, names: dict[str, object], verbosity: int) -> tuple[str, int]:
    """What is said of all tests of a module, and the status."""
    result = _Result()
    cases = [c for c in names.values() if isinstance(c, Class) and isinstance(c.base, Class) and c.module == module]
    for case in sorted(cases, key=lambda case: case.name):
        if any(hook in case.members for hook in ("setUpClass", "tearDownClass", "__init__")) or not _is_test(case):
            raise Unsure
        for name in sorted(n for n, f in case.members.items() if n.startswith("test") and isinstance(f, Function)):
            result.count += 1
            title = f"{name} ({module}.{case.name}.{name})"
            _one(interpreter, case, name, title, result, verbosity)
    digest = hashlib.sha256("\n".join(interpreter.source).encode("utf-8", "replace")).digest()
    text = result.marks + ("\n" if verbosity else "")
    text += "".join(result.errors) + "".join(result.failures) + f"{'-' * 70}\n"
    text += f"Ran {result.count} test{'' if result.count == 1 else 's'} in 0.00{digest[0] % 2}s\n\n"
    numbers = (("failures", len(result.failures)), ("errors", len(result.errors)))
    bad = [f"{word}={number}" for word, number in numbers if number]
    return text + (f"FAILED ({', '.join(bad)})\n" if bad else "OK\n"), int(bool(bad))


def _is_test(case: Class) -> bool:
    base: object = case
    while isinstance(base, Class):
        if base.name == "TestCase":
            return True
        base = base.base
    return False


def _one(interpreter: Expressions, case: Class, name: str, title: str, result: _Result, verbosity: int) -> None:
    if verbosity > 1:
        result.marks += f"{title} ... "
    depth = len(interpreter.frames)
    kind = ""
    try:
        test = interpreter.call(case, [], {})
        for method in ("setUp", name, "tearDown"):
            if (found := case.find(method)) is not None:
                interpreter.call(found, [test], {})
    except Raised as raised:
        del interpreter.frames[depth:]
        raised.places = raised.places[depth:]
        kind = "FAIL" if isinstance(raised.value, AssertionError) else "ERROR"
        said = f"{'=' * 70}\n{kind}: {title}\n{'-' * 70}\n{report(raised, by_library=True)}\n"
        (result.failures if kind == "FAIL" else result.errors).append(said)
    if verbosity:
        result.marks += (kind or "ok") + "\n" if verbosity > 1 else kind[:1] or "."
