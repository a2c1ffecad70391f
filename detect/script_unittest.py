"""`unittest.main()` of a small test file that is run by hand: which tests pass, and what is said of the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from detect.script_traceback import Raised, report
from detect.script_values import Class, Ends, Function, Inner, Native
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_interpreter import Interpreter

_HOOKS = ("setUp", "tearDown", "setUpClass", "tearDownClass")


def members() -> dict[str, object]:
    """`TestCase`, with the assertions whose words are known, and `main`."""
    checks: dict[str, Callable[[list], str]] = {
        "assertEqual": lambda a: "" if a[0] == a[1] else f"{_shown(a[0])} != {_shown(a[1])}",
        "assertNotEqual": lambda a: "" if a[0] != a[1] else f"{_shown(a[0])} == {_shown(a[1])}",
        "assertTrue": lambda a: "" if a[0] else f"{_shown(a[0])} is not true",
        "assertFalse": lambda a: f"{_shown(a[0])} is not false" if a[0] else "",
        "assertIsNone": lambda a: "" if a[0] is None else f"{_shown(a[0])} is not None",
    }
    return {
        "TestCase": Class("TestCase", None, {n: Native(_check(c)) for n, c in checks.items()}),
        "main": Native(_main),
    }


def _shown(value: object) -> str:
    """Only of values whose difference unittest does not lay out in lines."""
    if value is not None and not isinstance(value, int | float):
        raise Unsure
    return repr(value)


def _check(said: Callable[[list], str]) -> Callable:
    def check(interpreter: Interpreter, arguments: list, keywords: dict) -> None:
        if keywords or len(arguments) > 2 or not all(isinstance(a, int | float | str | list | None) for a in arguments):
            raise Unsure
        if text := said(arguments):
            raise Inner(AssertionError(text))

    return check


def _main(interpreter: Interpreter, arguments: list, keywords: dict) -> None:
    if arguments or keywords or len(interpreter.around.argv) > 1:
        raise Unsure
    marks, bad, count = "", {"ERROR": "", "FAIL": ""}, 0
    numbers = {"ERROR": 0, "FAIL": 0}
    found = [c for c in interpreter.globals.names.values() if isinstance(c, Class) and isinstance(c.base, Class)]
    for case in sorted(found, key=lambda case: case.name):
        assert isinstance(case.base, Class)
        if case.base.name != "TestCase" or any(hook in case.members for hook in _HOOKS):
            raise Unsure
        for name in sorted(n for n, f in case.members.items() if n.startswith("test") and isinstance(f, Function)):
            count += 1
            depth = len(interpreter.frames)
            try:
                interpreter.call(case.members[name], [interpreter.call(case, [], {})], {})
            except Raised as raised:
                del interpreter.frames[depth:]
                raised.places = raised.places[depth:]
                kind = "FAIL" if isinstance(raised.value, AssertionError) else "ERROR"
                marks += kind[0]
                numbers[kind] += 1
                bad[kind] += f"{'=' * 70}\n{kind}: {name} (__main__.{case.name}.{name})\n{'-' * 70}\n{report(raised)}\n"
            else:
                marks += "."
    digest = hashlib.sha256("\n".join(interpreter.source).encode("utf-8", "replace")).digest()
    text = f"{marks}\n{bad['ERROR']}{bad['FAIL']}{'-' * 70}\n"
    text += f"Ran {count} test{'' if count == 1 else 's'} in 0.00{digest[0] % 2}s\n\n"
    counts = [f"{word}={numbers[kind]}" for kind, word in (("FAIL", "failures"), ("ERROR", "errors")) if numbers[kind]]
    raise Ends(1 if counts else 0, text + (f"FAILED ({', '.join(counts)})\n" if counts else "OK\n"))
