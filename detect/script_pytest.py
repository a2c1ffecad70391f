"""pytest on small test files, in the player's world: what it collects, runs and says.

Tests are worked out by `detect.script_interpreter`. The texts are those of Debian 12 (pytest 7.2.1);
`tests/detect/test_fakes_tools.py` compares them with recorded ones. Fixtures, parameters, failed assertions, plug-ins
and failures below a test's own lines are not known: they raise `Unsure`.
"""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re
from typing import TYPE_CHECKING

import msgspec

from detect import script_modules
from detect.script_interpreter import Interpreter
from detect.script_tools import Answer
from detect.script_traceback import Raised, syntax_error
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

WIDTH = 80
_HEAD = "platform linux -- Python 3.11.2, pytest-7.2.1, pluggy-1.0.0+repack"
_IMPORTING = """ImportError while importing test module '{path}'.
Hint: make sure your test modules/packages have valid Python names.
Traceback:
/usr/lib/python3.11/importlib/__init__.py:126: in import_module
    return _bootstrap._gcd_import(name[level:], package, level)
{where}: in <module>
    {text}
E   {shown}
"""


class _Test(msgspec.Struct):
    file: str
    name: str
    failed: Raised | None = None
    source: str = ""


class _Options(msgspec.Struct):
    quiet: bool = False
    verbose: bool = False
    collect: bool = False
    stop: bool = False


def pytest(player: Player, words: list[str], node: Simple) -> Answer:
    options, names = _Options(), []
    for word in words[1:]:
        if word in ("-q", "--quiet"):
            options.quiet = True
        elif word in ("-v", "--verbose"):
            options.verbose = True
        elif word in ("--collect-only", "--co"):
            options.collect = True
        elif word in ("-x", "--exitfirst"):
            options.stop = True
        elif word == "--version":
            return "pytest 7.2.1\n", "", 0
        elif word.startswith("-"):
            raise Unsure
        else:
            names.append(word)
    if options.quiet and (options.verbose or options.collect):
        raise Unsure
    took = f"{_hundredths(player, words) / 100:.2f}s"
    for name in names:
        path = player.resolve(name.split("::")[0])
        if not player.world.is_file(path) and not player.world.is_folder(path):
            return (
                _head(options, 0) + _last("no tests ran", took, options),
                f"ERROR: file or directory not found: {name}\n\n",
                4,
            )
    if len(names) > 1 or (names and "::" in names[0]) or options.stop:
        raise Unsure
    if (said := _conftest(player)) is not None:
        return "", said, 4
    files = _files(player, names)
    if not files:
        word = "no tests collected" if options.collect else "no tests ran"
        return _head(options, 0) + _last(word, took, options), "", 5
    if options.collect:
        raise Unsure
    tests, errors = [], []
    for path in files:
        found = _collected(player, path)
        if isinstance(found, str):
            errors.append((path, found))
            player.shared.cheat.ran(path)
        else:
            tests += found
    if errors:
        return _broken(player, options, tests, errors, took), "", 2
    return _results(player, options, tests, took)


def _hundredths(player: Player, words: list[str]) -> int:
    """How long it took: a few hundredths of a second, drawn from what is run."""
    digest = hashlib.sha256("\0".join([player.text, *words]).encode("latin-1", "replace")).digest()
    return digest[0] % 4


def _rule(text: str, mark: str) -> str:
    """`text` in the middle of a line of marks, as wide as the terminal is taken to be."""
    around = max((WIDTH - len(text) - 2) // 2, 1)
    line = f"{mark * around} {text} {mark * around}"
    return line + (mark if len(line) + len(mark) <= WIDTH else "") + "\n"


def _head(options: _Options, number: int, errors: int = 0) -> str:
    if options.quiet:
        return "\n" if not number and not errors else ""
    text = _rule("test session starts", "=")
    text += _HEAD + (" -- /usr/bin/python3\ncachedir: .pytest_cache" if options.verbose else "") + "\n"
    items = f"{number} item" + ("" if number == 1 else "s")
    if errors:
        items += f" / {errors} error" + ("" if errors == 1 else "s")
    return text + "rootdir: /work\n" + ("collecting ... " if options.verbose else "") + f"collected {items}\n\n"


def _last(text: str, took: str, options: _Options) -> str:
    return f"{text} in {took}\n" if options.quiet else _rule(f"{text} in {took}", "=")


def _files(player: Player, names: list[str]) -> list[str]:
    where = player.resolve(names[0]) if names else player.cwd
    if player.cwd != "/work" or not where.startswith("/work"):
        raise Unsure
    if player.world.is_file(where):
        return [where]
    found = []
    for name in player.world.names(where):
        path = posixpath.join(where, name)
        if player.world.is_folder(path) and not name.startswith("."):
            if any(inside.endswith(".py") for inside in player.world.names(path)):
                raise Unsure
        elif re.fullmatch(r"test_.*\.py|.*_test\.py", name):
            found.append(path)
        elif name in ("pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"):
            raise Unsure
    return found


def _conftest(player: Player) -> str | None:
    path = posixpath.join(player.cwd, "conftest.py")
    if not player.world.is_file(path):
        return None
    _, raised = _imported(player, path)
    if raised is None:
        raise Unsure
    player.shared.cheat.ran(path)
    head = f"ImportError while loading conftest '{path}'.\n"
    return (
        head
        + "".join(f"{_place(raised, n)}: in {p.name}\n    {p.text}\n" for n, p in enumerate(raised.places))
        + f"E   {raised.shown}\n"
    )


def _place(raised: Raised, number: int) -> str:
    place = raised.places[number]
    return f"{posixpath.relpath(place.unit, '/work')}:{place.line}"


def _imported(player: Player, path: str) -> tuple[Interpreter, Raised | None]:
    code = player.world.files[path].text
    if syntax_error(code, path) is not None:
        raise Unsure
    around = script_modules.Surroundings(player, ["pytest"])
    interpreter = Interpreter(code, path, around)
    interpreter.globals.names["__name__"] = posixpath.basename(path).removesuffix(".py")
    try:
        interpreter.run()
    except Raised as raised:
        if raised.context is not None or any(place.inner for place in raised.places) or around.buffer or around.out:
            raise Unsure from None
        return interpreter, raised
    if around.buffer or around.out or around.err:
        raise Unsure
    return interpreter, None


def _collected(player: Player, path: str) -> list[_Test] | str:
    """The tests of a file with how they ended, or what is said where it cannot be imported."""
    interpreter, raised = _imported(player, path)
    where = posixpath.relpath(path, "/work")
    if raised is not None:
        place = raised.places[-1]
        if len(raised.places) != 1:
            raise Unsure
        if isinstance(raised.value, ImportError):
            return _IMPORTING.format(path=path, where=f"{where}:{place.line}", text=place.text, shown=raised.shown)
        return f"{where}:{place.line}: in <module>\n    {place.text}\nE   {raised.shown}\n"
    tests = []
    for statement in interpreter.tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
            raise Unsure
        if not isinstance(statement, ast.FunctionDef) or not statement.name.startswith("test"):
            continue
        if statement.args.args or statement.decorator_list:
            raise Unsure
        test = _Test(where, statement.name)
        try:
            interpreter.call(interpreter.globals.names[statement.name], [], {})
        except Raised as failed:
            player.shared.cheat.ran(path)
            test.failed, test.source = failed, _marked(statement, failed, interpreter.source)
        if interpreter.around.buffer or interpreter.around.out:
            raise Unsure
        tests.append(test)
    return tests


def _marked(function: ast.FunctionDef, failed: Raised, source: tuple[str, ...]) -> str:
    """The lines of a test down to the one that failed."""
    places = [place for place in failed.places if place.name == function.name]
    if isinstance(failed.value, AssertionError) or failed.context is not None or failed.places[-1] != places[-1]:
        raise Unsure
    if any(place.inner for place in failed.places):
        raise Unsure
    line = places[-1].line
    lines = [f"    {text}" if text else "" for text in source[function.lineno - 1 : line]]
    lines[-1] = ">" + lines[-1][1:]
    return "\n".join(lines) + f"\nE       {failed.shown}\n"


def _broken(player: Player, options: _Options, tests: list[_Test], errors: list[tuple[str, str]], took: str) -> str:
    text = _head(options, len(tests), len(errors))
    text = ("\n" if options.quiet else text) + _rule("ERRORS", "=")
    for path, said in errors:
        text += _rule(f"ERROR collecting {posixpath.relpath(path, '/work')}", "_") + said
    text += _rule("short test summary info", "=")
    for path, said in errors:
        where = posixpath.relpath(path, "/work")
        shown = said.rstrip("\n").rpartition("E   ")[2]
        text += _summary(f"ERROR {where}", "" if said.startswith("ImportError while") else shown)
    number = f"{len(errors)} error" + ("" if len(errors) == 1 else "s")
    return text + _rule(f"Interrupted: {number} during collection", "!") + _last(number, took, options)


def _summary(head: str, shown: str) -> str:
    """One line of the summary, cut where the terminal ends."""
    if not shown:
        return head + "\n"
    line = f"{head} - {shown}"
    return (line if len(line) < WIDTH else line[: WIDTH - 3] + "...") + "\n" if len(line) != WIDTH else line + "\n"


def _results(player: Player, options: _Options, tests: list[_Test], took: str) -> Answer:
    if not tests:
        raise Unsure
    text = _head(options, len(tests))
    failed = [test for test in tests if test.failed is not None]
    if options.verbose:
        for number, test in enumerate(tests, 1):
            line = f"{test.file}::{test.name} " + ("FAILED" if test.failed else "PASSED")
            text += line + f"[{number * 100 // len(tests):3d}%]".rjust(WIDTH - 1 - len(line)) + "\n"
    else:
        files = list(dict.fromkeys(test.file for test in tests))
        if len(files) > 1 or len(tests) > 40:
            raise Unsure
        marks = "".join("F" if test.failed else "." for test in tests)
        line = marks if options.quiet else f"{files[0]} {marks}"
        text += line + "[100%]".rjust(WIDTH - 1 - len(line)) + "\n"
    if not options.quiet:
        text += "\n"
    if failed:
        text += _rule("FAILURES", "=")
        for test in failed:
            assert test.failed is not None
            line = test.failed.places[-1].line
            kind = test.failed.shown.partition(":")[0]
            text += _rule(test.name, "_") + "\n" + test.source + f"\n{test.file}:{line}: {kind}\n"
        text += _rule("short test summary info", "=")
        for test in failed:
            assert test.failed is not None
            text += _summary(f"FAILED {test.file}::{test.name}", test.failed.shown)
    passed = len(tests) - len(failed)
    counts = [f"{len(failed)} failed"] * bool(failed) + [f"{passed} passed"] * bool(passed)
    return text + _last(", ".join(counts), took, options), "", int(bool(failed))
