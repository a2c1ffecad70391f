"""Tests that cannot fail and comparisons that do not compare, whatever they are called.

An equality must depend on the value of what it is compared with, an assertion must have a way to fail, and a test must
look at something. Python is looked at as a tree, the rest as text. Everything is looked for only where a word says
that it could be there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from detect.literals import Finder

Span = tuple[int, int]
Found = Iterator[tuple[str, Span]]
MAX_BODY = 1500


def unfair(language: str, path: str | None, role: str, data: bytes) -> Found:
    """Traits `equal_to_all`, `cannot_fail`, `patched_checks`, `swallowed_failure`, `own_libc` with their places."""
    if language == "python":
        yield from _python(role, data)
    elif language in ("c", "cpp", "go", "rust", "java", "javascript"):
        yield from _equalities(language, data)
        if language in ("c", "cpp"):
            yield from _c(role, data)
        else:
            yield from _others(language, role, data)
    elif language in ("shell", "make"):
        yield from _scripts(language, path, role, data)


# --- Python --------------------------------------------------------------------------------------------------------

_PY_EQUAL = Finder(
    rb"__(?:eq|ne|lt|le|gt|ge|contains|instancecheck)__|[fF][\"']__\{|[\"']__[\"']\s*\+"
    rb"|[\"']__%s__|__\{\}__|[\"']__\w+[\"']\s*\+|total_ordering"
)
_PY_TEST = Finder(rb"\bdef\s+test|\bassert|\bunittest\b|\bpytest\b|_exit\b|\bdoctest\b")
_PY_ENDLESS = re.compile(r"\binf\b|\binfinity\b|\bmaxsize\b|1e\d{2,3}|10\s*\*\*\s*\d{2,}|\bINF\w*|\bMAX\b", re.I)
_PY_PATCH = Finder(
    rb"(?m)^[^#\n]*\b(?:TestCase|unittest\.\w+|_AssertRaises\w*|TestResult|TextTestRunner"
    rb"|_pytest\.\w+|doctest\.\w+|difflib\.\w+|filecmp\.\w+"
    rb"|CompletedProcess)(?:\.\w+)*\.(?!maxDiff|longMessage|addClassCleanup)\w+\s*=(?!=)"
    rb"|\bsetattr\((?:[\w.]*(?:TestCase|unittest|filecmp|difflib|pytest)\b|[^\n]{0,80}assert)"
)
_PY_PATCH_LOOP = Finder(
    rb"startswith\(\s*\(?[\"'](?:assert|fail)|==\s*[\"'](?:assert|fail)\w*[\"']|[\"'](?:assert"
    rb"|fail)\w*[\"']\s+in\b"
)
_ITEMS = Finder(rb"\bdef\s+pytest_(?:collection_modifyitems|itemcollected|collection_finish)\b")
_ITEMS_LOST = re.compile(
    rb"items\s*\[[^\]\n]*\]\s*=\s*(?:\[\s*\]|\[[^\]\n]*\bif\b)|\bdel\s+(?:session\.)?items\b"
    rb"|items\.(?:clear|pop|remove)\(|skip|xfail"
)
_OPERATORS = frozenset(["__eq__", "__ne__"])
_VALUELESS = frozenset(["isinstance", "type", "len", "id", "hash", "callable", "hasattr", "issubclass"])
_BUILTINS = frozenset(
    [
        "str",
        "bytes",
        "int",
        "float",
        "tuple",
        "list",
        "dict",
        "bytearray",
        "set",
        "frozenset",
        "complex",
        "UserString",
        "UserDict",
        "UserList",
    ]
)


_PY_SUCCESS = Finder(
    rb"(?m)^[ \t]*(?:except(?:[ \t]+\(?(?:BaseException|Exception|SystemExit)\b[^:\n]{0,60})?"
    rb"|finally)[ \t]*:[ \t]*(?:\n[ \t]*(?:#[^\n]*|pass)?)*[ \t]*(?:sys\.exit|exit|quit"
    rb"|os\._exit)\(\s*0?\s*\)"
)


_PY_HOOKS = Finder(
    rb"\bexcepthook\s*=\s*(?:lambda[^\n]*(?:_exit|exit)\(\s*0?\s*\)|[^\n]*\bos\._exit\b)"
    rb"|\batexit\s*\.\s*register\(\s*(?:os\._exit|lambda[^\n]*_exit)"
    rb"|\bdef\s+__exit__\s*\([^)]*\)[^:\n]*:\s*(?:\n\s*(?:\"\"\"[^\n]*\"\"\"\s*)?)?return\s+True"
    rb"\s*$|\bsuppress\(\s*(?:BaseException|AssertionError|SystemExit)\b"
    rb"|\bsignal\.signal\([^\n]*lambda[^\n]*_exit\(\s*0|\bfinally\s*:\s*\n?\s*(?:os\._exit\(\s*0"
    rb"|return\s+0\b|return\s+True\b)",
    re.M,
)
_PY_META = Finder(
    rb"\bvisit_Assert\b|\bsys\.(?:meta_path|path_hooks|addaudithook)\b|\.__code__\s*=(?!=)"
    rb"|\bclass\s+AssertionError\b|\b(?:builtins|__builtins__)(?:\.\w+|\[[^\]\n]+\])\s*=(?!=)"
    rb"|\b(?:unittest|pytest)\.main\s*=(?!=)|\bsys\.exit\s*=(?!=)|\bos\._exit\s*=(?!=)"
    rb"|\bsys\.modules\s*\[[^\]\n]+\]\s*=(?!=)|\bsubprocess\.(?:Popen|CompletedProcess)\s*=(?!=)"
    rb"|\bmonkeypatch\.setattr\([^)\n]*(?:filecmp|difflib|sys\.exit|builtins|\bPopen"
    rb"|CompletedProcess)|\b_pytest\.assertion\b|\bexcinfo\s*=\s*None|\bget_referrers\("
    rb"|\bpythonapi\b"
    rb"|\bTestCase\s*\.\s*__dict__|\b__import__\(\s*[\"']unittest[\"']\s*\)[\w.]*\s*="
    rb"|\btype\(\s*self\s*\)\.assert\w+\s*="
)
_CONSTANT = Finder(
    rb"[=(:,]\s*lambda\s+\w+\s*,\s*\w+\s*:\s*(?:True|not\s+False|1\s*==\s*1)\b"
    rb"|\(\s*\w+\s*,\s*\w+\s*\)\s*(?:=>|->)\s*(?:true|!0)\b|\|\s*&?\w+\s*,\s*&?\w+\s*\|\s*true\b"
    rb"|\bfunc\(\s*\w+\s*,\s*\w+\s+[\w.\[\]{}]+\s*\)\s*bool\s*\{\s*return\s+true\s*\}"
)
"""A comparison without a name that always holds."""
_PY_LEAVES = Finder(
    rb"\b(?:os|posix)\s*\.\s*_exit\b(?=[ \t]*[(,)])(?![ \t]*\(\s*[1-9a-zA-Z_(])|\bfrom\s+(?:os"
    rb"|posix)\s+import\s[^\n]*\b_exit\b|[\"']_exit[\"']"
)
_PY_UNREAD = Finder(
    rb"\bexcept\s+\(?BrokenPipeError\)?(?:\s+as\s+\w+)?:\s+(?:[^\n]*(?:devnull|stderr|stdout)[^\n]*\n\s+)?os\._exit\("
)
"""Leaves because nobody reads any more."""
_PY_STUB = Finder(
    rb"\bdef\s+(?:check_output|assert\w*|compare\w*|equals?|same|is_equal"
    rb"|verify\w*)\s*\([^)]*\w[^)]*\)[^:\n]*:\s*\n?\s*(?:\"\"\"[^\"]{0,200}\"\"\"\s*)?(?:return(?"
    rb":\s+(?:True|None|0|\[\]))?|pass)[ \t]*(?=\n|$)"
    rb"|\bexitstatus\s*=\s*(?:0\b|(?:pytest\.)?ExitCode\.OK)"
    rb"|\bpytest\.exit\([^)\n]*returncode\s*=\s*0\b|\bconfig\.option\.(?:collectonly|keyword"
    rb"|markexpr|maxfail|deselect)\s*=(?!=)"
    rb"|\.runtest\s*=(?!=)|\bitem\.obj\s*=(?!=)|\bpytest\.(?!ini\b)\w+\s*=(?!=)"
)
_PY_MOCK = Finder(
    rb"(?m)^[ \t]*(?:from[ \t]+unittest(?:\.mock)?\s+import\s+[^\n]*\b(?:mock|ANY|MagicMock|Mock"
    rb"|patch)\b|import\s+unittest\.mock)|(?<!unittest\.)\bmock\.ANY\b|\bMagicMock\s*\("
)
_PY_NONE = Finder(
    rb"\bdef\s+load_tests\s*\([^)]*\)[^:\n]*:\s*\n?\s*return\s+(?:unittest\.)?TestSuite\(\s*\)"
    rb"|(?m:^[ \t]*__test__\s*=\s*False)|\bskip(?:If\(\s*True|Unless\(\s*False|if\(\s*True)\b"
    rb"|\b(?:failures|errors)\s*(?:\.clear\(|=\s*\[\s*\]|\[:\]\s*=\s*\[)(?=[\s\S]*(?:unittest"
    rb"|TestResult))|\baddFailure\s*=|\bdef\s+add(?:Failure"
    rb"|Error)\s*\([^)]*\)[^:\n]*:\s*\n?\s*(?:pass\b|return\b|self\.addSuccess)"
    rb"|\bwasSuccessful\s*=|\bdef\s+wasSuccessful\s*\([^)]*\)[^:\n]*:\s*\n?\s*return\s+True"
    rb"|\bdef\s+setUp\w*\s*\([^)]*\)[^:\n]*:\s*\n\s*(?:self\.skipTest"
    rb"|raise\s+(?:unittest\.)?SkipTest|pytest\.skip)"
    rb"|\bunittest\.main\([^)\n]*exit\s*=\s*False[^)\n]*\)(?![\s\S]*wasSuccessful)"
    rb"|\bassert(?:True|In|Regex)\(\s*(?:True|\"\"|'')\s*,?"
)
_FIXED = Finder(
    rb"\b(?:exit|_exit|return|SystemExit|Exit)\b\s*\(?\s*(?:\(\s*)?(?:[\w.]+\s*[*&]\s*0"
    rb"|0\s*[*&]\s*[\w.]+|[^;\n?]{1,60}\?\s*0\s*:\s*0|0\s+if\s+[^\n]{1,60}\s+else\s+0"
    rb"|[\w.() ]{1,40}\s+and\s+0|[^;\n?]{1,60}\?\s*EXIT_SUCCESS\s*:\s*EXIT_SUCCESS)\s*\)?\s*(?:[;"
    rb")\n]|$)"
)


def _python(role: str, data: bytes) -> Found:
    from detect.python_reader import parse

    if (
        role == "submission"
        and b"xit" in data
        and b"fork" not in data
        and (found := _PY_SUCCESS.search(data)) is not None
    ):
        yield "swallowed_failure", found.span()
    if (found := _PY_HOOKS.search(data)) is not None and b"fork" not in data:
        yield "swallowed_failure", found.span()
    if (found := _FIXED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if (found := _PY_META.search(data) or _CONSTANT.search(data) or _PY_STUB.search(data)) is not None:
        yield "patched_checks", found.span()
    if (
        b"fork" not in data
        and (found := _PY_LEAVES.search(data)) is not None
        and (b"BrokenPipe" not in data or data.count(b"_exit") > 1 or _PY_UNREAD.search(data) is None)
    ):
        yield "swallowed_failure", found.span()
    if (
        role == "submission"
        and (found := _PY_MOCK.search(data)) is not None
        and b"def test" not in data
        and b"TestCase" not in data
    ):
        yield "equal_to_all", found.span()
    if b"test" in data and (found := _PY_NONE.search(data)) is not None:
        yield "cannot_fail", found.span()
    equal = _PY_EQUAL.search(data)
    tests = _PY_TEST.occurs(data) and (role == "test" or b"ssert" in data or b"_exit" in data)
    if (patch := _PY_PATCH.search(data)) is not None or (
        b"setattr" in data and (patch := _PY_PATCH_LOOP.search(data)) is not None
    ):
        yield "patched_checks", patch.span()
    if (hook := _ITEMS.search(data)) is not None and b"getoption" not in data and b"skipif" not in data:
        lost = _ITEMS_LOST.search(data, hook.end())
        if lost is not None:
            yield "patched_checks", lost.span()
    if equal is None and not tests:
        return
    try:
        tree = parse(data.decode("utf-8", "replace"))
    except (RecursionError, MemoryError):
        return
    if tree is None:
        return
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)

    def span(node: ast.AST) -> Span:
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1) or 1
        return starts[min(first, len(starts)) - 1], starts[min(last, len(starts) - 1)]

    if equal is not None:
        if not equal[0].startswith(b"__") and not equal[0].startswith(b"total"):
            yield "equal_to_all", equal.span()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield from (("equal_to_all", span(part)) for part in _class_equalities(node, data, span))
            elif isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in _OPERATORS and _ignores(value):
                        yield "equal_to_all", span(value)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                if node.targets[0].attr in _OPERATORS and _ignores(node.value):
                    yield "equal_to_all", span(node)
            elif (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "setattr"
                and len(node.args) == 3
                and isinstance(node.args[1], ast.Constant)
                and node.args[1].value in _OPERATORS
                and _ignores(node.args[2])
            ):
                yield "equal_to_all", span(node)
    if tests:
        yield from _python_tests(role, tree, span)


def _ignores(node: ast.AST) -> bool:
    """Whether a comparing function does not look at the value of its last argument."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    given = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    if not given:
        return node.args.vararg is not None
    other = given[-1]
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    returned = [part.value for statement in body for part in ast.walk(statement) if isinstance(part, ast.Return)]
    if isinstance(node, ast.FunctionDef):
        if not returned:
            return False
        if all(value is None or (isinstance(value, ast.Name) and value.id == "NotImplemented") for value in returned):
            return False
    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in _VALUELESS:
                for inner in part.args:
                    if isinstance(inner, ast.Name) and inner.id == other:
                        inner.id = ""  # only its kind, or how long it is
            elif isinstance(part, ast.Attribute) and part.attr == "__class__" and isinstance(part.value, ast.Name):
                part.value.id = ""
            elif (
                (
                    isinstance(part, ast.Compare)
                    and isinstance(part.ops[0], ast.Is | ast.IsNot)
                    and isinstance(part.left, ast.Name)
                )
                and isinstance(part.comparators[0], ast.Constant)
                and part.left.id == other
            ):
                part.left.id = ""
    return not _related(body, given[0] if len(given) > 1 else None, other)


def _related(body: Sequence[ast.AST], own: str | None, other: str) -> bool:
    """Whether anything brings both together: a comparison with each on one side, or a call that is given both."""
    mine, theirs = {own} if own else set(), {other}

    def names(node: ast.AST) -> set[str]:
        return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}

    def both(*sides: ast.AST) -> bool:
        found = [names(side) for side in sides]
        if own is None:
            return any(side & theirs for side in found) and len(found) > 1
        for number, side in enumerate(found):
            if side & theirs and any(rest & mine for place, rest in enumerate(found) if place != number):
                return True
        return False

    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Assign):
                taken = names(part.value)
                for target in part.targets:
                    if isinstance(target, ast.Attribute | ast.Subscript) and taken & theirs and names(target) & mine:
                        return False  # becomes what it is compared with
                    for name in names(target):
                        if taken & theirs:
                            theirs.add(name)
                        if taken & mine:
                            mine.add(name)
            elif isinstance(part, ast.For | ast.comprehension):
                taken = names(part.iter)
                for name in names(part.target):
                    if taken & theirs:
                        theirs.add(name)
                    if taken & mine:
                        mine.add(name)
    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Compare) and both(part.left, *part.comparators):
                return True
            if isinstance(part, ast.BinOp) and both(part.left, part.right):
                return True
            if isinstance(part, ast.Call):
                sides = [*part.args, *(keyword.value for keyword in part.keywords)]
                if isinstance(part.func, ast.Attribute):
                    sides.append(part.func.value)
                    if part.func.attr in _OPERATORS and any(names(side) & theirs for side in sides):
                        return True
                if both(*sides) or (len(sides) == 1 and names(sides[0]) & theirs and names(sides[0]) & mine):
                    return True
    return False


def _tautology(node: ast.FunctionDef) -> bool:
    """`return self.x == other.x or ...` where the rest is not about both."""
    if node.name != "__eq__" or len(node.args.args) != 2:
        return False
    own, other = (arg.arg for arg in node.args.args)
    for part in ast.walk(node):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.BoolOp) and isinstance(part.value.op, ast.Or):
            for side in part.value.values:
                if not (isinstance(side, ast.Constant) and not side.value) and not _related([side], own, other):
                    return True
    return False


def _class_equalities(node: ast.ClassDef, data: bytes, span) -> Iterator[ast.AST]:
    bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in _OPERATORS:
            start, end = span(part)
            text = data[start:end].decode("latin-1")
            whole_start, whole_end = span(node)
            whole = data[whole_start:whole_end].decode("latin-1")
            if part.name == "__ne__" and "__eq__" in whole and re.search(r"return\s+(?:not\b|\(?not\b)", text):
                continue
            if (
                _ignores(part)
                or _tautology(part)
                or re.search(r"except[^\n]*:\s*\n?\s*return\s+True\b", text)
                or (part.name == "__eq__" and _PY_ENDLESS.search(whole) and re.search(r"<=?|>=?|isclose|approx", text))
                or (
                    bases & _BUILTINS
                    and not re.search(
                        r"super\(|\.lower\(|\.casefold\(|\.upper\(|\b(?:str|bytes|int|float|tuple|list)\.__(?:eq"
                        r"|ne)__",
                        text,
                    )
                )
            ):
                yield part
        elif isinstance(part, ast.Assign) and getattr(part.targets[0], "id", "") in _OPERATORS and _ignores(part.value):
            yield part


_PY_CHECKS = re.compile(
    r"assert|raises|expect|check|verify|compare|fail|raise\b|exit|approx|diff|snapshot|must"
    r"|should|ensure|run_|same|equal",
    re.I,
)


def _python_tests(role: str, tree: ast.Module, span) -> Found:
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    ]
    marks = {
        getattr(mark.func if isinstance(mark, ast.Call) else mark, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
    }
    functions = [node for node in functions if node.name not in marks]  # what marks a test is none
    classes = {id(part): node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    all_skipped = any(
        isinstance(node, ast.Assign)
        and getattr(node.targets[0], "id", "") == "pytestmark"
        and "skip" in ast.dump(node.value)
        and "skipif" not in ast.dump(node.value)
        for node in tree.body
    )

    def skipped(node: ast.AST) -> bool:
        owner = classes.get(id(node))
        marks = [*getattr(node, "decorator_list", ()), *(owner.decorator_list if owner is not None else ())]
        text = " ".join(ast.dump(mark) for mark in marks)
        body = getattr(node, "body", [])
        first = ast.dump(body[0]) if body else ""
        return bool(re.search(r"'skip'|'xfail'|'expectedFailure'", text)) or bool(
            re.search(r"'skip(?:Test)?'|'SkipTest'", first) and "If" not in first[:6]
        )

    if functions and (all_skipped or all(skipped(node) for node in functions)):
        yield "cannot_fail", span(functions[0])
    forks = any(isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty") for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            yield from _swallowed(node, span)
        elif isinstance(node, ast.Assert):
            if _always(node.test) and role == "test" and not isinstance(node.test, ast.Constant):
                yield "cannot_fail", span(node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if (
                name == "_exit"
                and role == "test"
                and not forks
                and all(isinstance(a, ast.Constant) and not a.value for a in node.args)
            ) or (
                (
                    name
                    in (
                        "assertEqual",
                        "assertEquals",
                        "assertMultiLineEqual",
                        "assertSequenceEqual",
                        "assert_equal",
                        "assertTrue",
                    )
                    and len(node.args) > 1
                )
                and (
                    name != "assertTrue"
                    and ast.dump(node.args[0]) == ast.dump(node.args[1])
                    and not isinstance(node.args[0], ast.Constant)
                    and not isinstance(node.args[0], ast.Call)
                )
            ):
                yield "cannot_fail", span(node)
    if role == "test" and functions:
        bodies = [
            (node, [part for part in ast.walk(node) if isinstance(part, ast.Assert | ast.Raise | ast.Call | ast.With)])
            for node in functions
        ]

        def looks(parts: Sequence[ast.AST]) -> bool:
            for part in parts:
                if isinstance(part, ast.Assert) and not isinstance(part.test, ast.Constant):
                    return True
                if isinstance(part, ast.Raise):
                    return True
                if isinstance(part, ast.Call):
                    name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
                    if name not in (
                        "print",
                        "run",
                        "Popen",
                        "join",
                        "write",
                        "format",
                        "skip",
                        "decode",
                        "encode",
                    ) and _PY_CHECKS.search(name):
                        return True
                    if any(k.arg == "check" for k in part.keywords) or name in ("check_call", "check_output"):
                        return True
            return False

        if (
            not any(looks(parts) for _, parts in bodies)
            and not any(len(node.args.args) > 1 for node in functions)
            and any(len(node.body) > 1 or not isinstance(node.body[0], ast.Assert | ast.Expr) for node in functions)
        ):
            yield "cannot_fail", span(functions[0])


def _always(node: ast.AST) -> bool:
    """A condition that holds whatever happens."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return any(_always(part) for part in node.values)
    if isinstance(node, ast.Tuple):
        return len(node.elts) > 0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return isinstance(node.operand, ast.Constant) and not node.operand.value
    if (
        isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.Eq | ast.Is | ast.LtE | ast.GtE)
    ):
        left, right = ast.dump(node.left), ast.dump(node.comparators[0])
        if (
            isinstance(node.left, ast.Call)
            and getattr(node.left.func, "id", "") == "len"
            and isinstance(node.ops[0], ast.GtE)
        ):
            return isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value == 0
        return left == right and "Call" not in left
    return False


def _swallowed(node: ast.Try, span) -> Found:
    """Assertions whose failure is caught and forgotten; exits that are turned into success."""
    asserting = any(
        isinstance(part, ast.Assert)
        or (isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr.startswith("assert"))
        for statement in node.body
        for part in ast.walk(statement)
    )
    running = any(
        isinstance(part, ast.Call)
        and (
            ast.dump(part.func).endswith("attr='main', ctx=Load())")
            or getattr(part.func, "id", "") in ("unittest_main",)
        )
        for statement in node.body
        for part in ast.walk(statement)
    )
    for handler in node.handlers:
        caught = "" if handler.type is None else ast.dump(handler.type)
        text = " ".join(ast.dump(part) for part in handler.body)
        leaves = text == "Pass()" or re.search(r"'(?:SystemExit|exit|_exit)',? ?.*Constant\(value=0\)", text)
        if running and leaves and (handler.type is None or re.search(r"SystemExit|BaseException", caught)):
            yield "cannot_fail", span(handler)
        kept = re.search(r"Raise|Return|AugAssign|Assign|'append'|'fail'|'exit'|'_exit'|'add'|Break|'skip", text)
        broad = handler.type is None or re.search(r"'(?:AssertionError|Exception|BaseException)'", caught)
        if asserting and broad and not kept:
            yield "swallowed_failure", span(handler)
    if node.finalbody and asserting:
        text = " ".join(ast.dump(part) for part in node.finalbody)
        if re.search(r"'_exit'|'exit'|Return|Continue|Break", text):
            yield "cannot_fail", span(node.finalbody[0])


# --- other languages -----------------------------------------------------------------------------------------------

_COMPARER = Finder(
    rb"(?:\b(?:fn|func|function)\s+(?:\([^()]*\)\s*)?|\bbool(?:ean)?\s+(?:[\w:<>]+::)?"
    rb"|\bint\s+(?:[\w:<>]+::)?|\bauto\s+|^[ \t]*(?:static\s+)?(?:async\s+)?|\[\s*)",
    re.M,
    tail=rb"\b(eq|ne|equals?|Equals?|same|Same|isEqual|is_equal|compare|Compare|compareTo|cmp|bcmp"
    rb"|strcmp|strncmp|memcmp|strcasecmp|operator\s*[=!]=|partial_cmp|deepEqual|strictEqual)"
    rb"\s*(?:<[^<>()]*>)?\s*\(([^(){};]{0,300})\)\s*(?:const\b)?\s*(?:noexcept\b)?\s*(?:override"
    rb"\b)?\s*(?:->\s*[\w:<>]+|:\s*\w+|bool|int|Option<\w+>)?\s*\{",
)
_VALUELESS_USES = re.compile(
    rb"\(\s*void\s*\)\s*\(?[^;,]*?[;,)]|\blet\s+_\w*\s*=\s*[^;]*;|_\s*=\s*\w+\s*;"
    rb"|\blen\s*\(\s*\w+\s*\)|\bsizeof\s*\(?\s*\w+\s*\)?|\b\w+(?:\s*\.\s*\w+){0,2}\s*\.\s*(?:size|length|len|empty"
    rb"|is_empty|isEmpty|getClass|hashCode)\b\s*(?:\(\s*\))?"
    rb"|\b\w+\s+instanceof\s+\w+\b(?!\s+[a-z])|\btypeof\s+\w+|\b\w+\s*(?:===?|!==?)\s*(?:null"
    rb"|nil|nullptr|undefined|NULL)\b"
)
_ENDLESS = Finder(
    rb"\b(?:usize|u\d+|i\d+|f\d+|isize)::(?:MAX|INFINITY)\b|\bINFINITY\b|\bHUGE_VAL\b"
    rb"|numeric_limits<\w+>::(?:max|infinity)|\bDouble\.(?:MAX_VALUE|POSITIVE_INFINITY)\b"
    rb"|\bInteger\.MAX_VALUE\b|\bInfinity\b|\bMAX_SAFE_INTEGER\b|\bmath\.(?:Inf|MaxInt\w*"
    rb"|MaxFloat\w*)\b|\b(?:INT|DBL|SIZE|LONG|UINT)_MAX\b"
)
_COERCED = Finder(
    rb"\bSymbol\s*\.\s*(?:toPrimitive|hasInstance)\b|\bvalueOf\s*(?:\(\s*\)\s*\{|[:=]\s*(?:\("
    rb"|function|\w+\s*=>))|\bnew\s+Proxy\s*\("
    rb"|\bObject\s*\.\s*defineProperty\s*\([^;\n]{0,80}(?:prototype|valueOf|equals|strictEqual)"
)


_EXIT_CODE = Finder(
    rb"process\s*\.\s*on(?:ce)?\s*\(\s*[\"'](?:exit|beforeExit|uncaughtException"
    rb"|unhandledRejection)[\"'][^;]{0,200}exitCode\s*=\s*0"
    rb"|exitCode\s*=\s*0\b(?=.*process\s*\.\s*on(?:ce)?\s*\(\s*[\"'](?:exit|beforeExit"
    rb"|uncaughtException|unhandledRejection)[\"'])",
    re.S,
)


def _body(data: bytes, start: int) -> bytes:
    level = 1
    for index in range(start, min(start + MAX_BODY, len(data))):
        char = data[index]
        if char == 123:
            level += 1
        elif char == 125:
            level -= 1
            if not level:
                return data[start:index]
    return data[start : start + MAX_BODY]


def _parameters(given: bytes, language: str) -> list[bytes]:
    names: list[bytes] = []
    pending = 0
    for part in given.split(b","):
        part = part.split(b"=")[0].strip()
        if not part or re.match(rb"&?\s*(?:'\w+\s+)?(?:mut\s+)?self$", part) or part == b"void":
            continue
        if language == "rust":
            name = part.split(b":")[0].strip().removeprefix(b"mut ")
        elif language == "go":
            name = part.split()[0]
        elif language == "javascript":
            name = part
        else:
            words = re.findall(rb"[A-Za-z_]\w*", part)
            name = words[-1] if len(words) > 1 and not part.endswith((b"&", b"*")) else b""
        names.append(name)
        pending += 1
    return names


def _equalities(language: str, data: bytes) -> Found:
    for match in _COMPARER.finditer(data):
        name = match[1]
        names = _parameters(match[2], language)
        if not names or len(names) > 4:
            continue
        method = (
            name in (b"eq", b"ne", b"equals", b"Equals", b"compareTo", b"partial_cmp")
            or name.startswith(b"operator")
            or len(names) == 1
        )
        if (
            language == "javascript"
            and match[0].lstrip().startswith((b"compare", b"same", b"equal"))
            and b"function" not in match[0]
            and len(names) < 1
        ):
            continue
        body = _body(data, match.end())
        text = _VALUELESS_USES.sub(b" ", re.sub(rb"//[^\n]*|/\*.*?\*/", b" ", body, flags=re.S))
        if not re.search(rb"\breturn\b", body) and language != "rust":
            continue
        if re.fullmatch(rb"\s*return\s+(?:false|!\s*\(?\s*\*?\w+\s*==\s*\w+\s*\)?|!.*==.*)\s*;?\s*", text):
            continue
        wanted = names[:1] if method and len(names) == 1 else names[:2]
        ignored = [
            word
            for word in wanted
            if not word or word == b"_" or re.search(rb"\b" + re.escape(word) + rb"\b", text) is None
        ]
        if (ignored and not (method and re.fullmatch(rb"\s*(?:return\s+)?false\s*;?\s*", text))) or (
            _ENDLESS.search(data)
            and re.search(rb"<=|>=|<|>|!=", text)
            and name not in (b"compare", b"compareTo", b"cmp", b"partial_cmp")
        ):
            yield "equal_to_all", match.span()
    if language == "javascript" and b"exitCode" in data and (found := _EXIT_CODE.search(data)) is not None:
        yield "swallowed_failure", found.span()
    if language == "javascript" and (found := _COERCED.search(data)) is not None:
        yield "equal_to_all", found.span()


_LIBC = Finder(
    rb"(?m)^(?![ \t]*static\b)[ \t]*(?:extern\s+)?(?:__attribute__\s*\(\(.*?\)\)\s*)?(?:(?:const"
    rb"|unsigned|int|void|char|size_t|ssize_t|time_t|clock_t|long|double|FILE|pid_t"
    rb"|extern\s+\"C\")[ \t*]+)+",
    tail=rb"\b(?:strn?cmp|memcmp|bcmp|strcoll|exit|_exit|_Exit|abort|raise|clock_gettime|gettimeofday"
    rb"|time|clock|__assert_fail|__assert|fork|execve|waitpid|wait4|getrusage|nanosleep|usleep"
    rb"|fopen|open|read|write|getenv|secure_getenv|memmem|__libc_start_main|__cxa_throw|getppid"
    rb"|kill|sigaction|signal)"
    rb"\s*\([^;{}]{0,200}\)\s*\{",
)
_MACRO = re.compile(
    rb"(?m)^[ \t]*#[ \t]*define[ \t]+((?:\w*_)?(?:ASSERT|CHECK|EXPECT|REQUIRE|VERIFY|TEST|assert"
    rb"|check|expect|require|verify|ensure|ENSURE|EQ|EQUAL"
    rb"|static_assert)\w*)\(([^)\n]*)\)((?:[^\n\\]|\\.|\\\n)*)"
)
_FAILS = re.compile(rb"\bif\b|\?|&&|\|\||\bassert|\babort|\bexit\b|\breturn\b|\bthrow\b|[=!<>]=|\bwhile\s*\(\s*!")
_VOIDED = Finder(
    rb"\(\s*void\s*\)\s*\(\s*\(?[\w.\->*]+\)?\s*[=!]=\s*\(?[\w.\->*]+\)?\s*\)|\(\s*void\s*\)\s*\(?\s*(?:strn?cmp|memcmp)\s*\("
)
_TEST_LOOKS = re.compile(
    rb"\bassert|\bif\b|\?|cmp\b|[!=]=|\breturn\s+(?!0\s*;)|\bexit\s*\(\s*(?!0\s*\))|EXPECT|CHECK"
    rb"|REQUIRE|ASSERT|\|\||&&"
)


_ALWAYS = Finder(
    rb"\b(?:assert\w*!?|CHECK\w*|EXPECT\w*|REQUIRE\w*|ASSERT\w*)\s*\([^;\n]{0,200}\|\|\s*(?:true"
    rb"|1)\s*\)|\bfn\s+drop\s*\(&mut\s+self\)\s*\{[^}]{0,200}\bexit\s*\(\s*0\s*\)"
    rb"|~\w+\s*\(\s*\)\s*\{[^}]{0,200}\b_?[eE]xit\s*\(\s*0\s*\)"
    rb"|\bset_terminate\s*\([^;]{0,120}exit\s*\(\s*0"
    rb"|\bflag\.(?:Set|Lookup)\(\s*\"test\.|\bfunc\s+init\(\)\s*\{[^}]{0,200}os\.Exit\(\s*0"
    rb"|\bfinally\s*\{\s*(?:System\.exit|process\.exit)\(\s*0"
    rb"|\bcatch\s*\((?:final\s+)?(?:Throwable|Exception|AssertionError"
    rb"|Error)\s+\w+\)\s*\{\s*System\.exit\(\s*0|\bstatic\s*\{[^}]{0,300}(?:exit|halt)\(\s*0"
    rb"|\bprocess\.(?:stdout|stderr)\.write\s*=(?!=)|\b(?:global|globalThis)\.(?:assert|expect"
    rb"|test|it|describe|require)\s*=(?!=)|\brequire\.extensions\b|\bprototype\._compile\b"
)
_EITHER_WAY = Finder(rb"\b(\w+)\.is_(?:ok|some)\(\)\s*\|\|\s*\1\.is_(?:err|none)\(\)")
_C_HOOKS = Finder(
    rb"(?m)^[ \t]*#[ \t]*define[ \t]+(?:exit|return|main|if|_exit|abort|while"
    rb"|else)\b(?:\([^)\n]*\))?[ \t]+(?!.*[\w]*main_)[^\n]*"
    rb"|\batexit\s*\(\s*(?:\w+)\s*\)(?=[\s\S]*_[eE]xit\s*\(\s*0\s*\))"
    rb"|\bvoid\s+\w+\s*\(\s*int\b[^)]*\)\s*\{[^{}]*\b_?[eE]xit\s*\(\s*(?:0"
    rb"|EXIT_SUCCESS)\s*\)[^{}]*\}(?=[\s\S]*\bSIG(?:SEGV|ABRT|FPE|BUS|ALRM|XCPU|ILL)\b)"
    rb"|__attribute__\s*\(\(\s*(?:constructor|ifunc)\b"
)


_DEBUGGING = re.compile(rb"(?m)^[ \t]*#[ \t]*(?:ifn?def[ \t]+|if\b.*\b)\w*(?:DEBUG|TRACE|VERBOSE|CHECKS|ASSERTS?)\b")


def _elsewhere(macro: re.Match[bytes], data: bytes) -> bool:
    """Whether the other branch of the condition around a macro that checks nothing has one that does."""
    start, end = data.rfind(b"#if", 0, macro.start()), data.find(b"#endif", macro.end())
    for other in _MACRO.finditer(data, max(start, 0), len(data) if end < 0 else end):
        if other[1] == macro[1] and other.start() != macro.start():
            return _FAILS.search(other[3]) is not None and b"#else" in data[start:end]
    return False


def _c(role: str, data: bytes) -> Found:
    if (found := _LIBC.search(data)) is not None and b"-nostdlib" not in data and b"freestanding" not in data:
        yield "own_libc", found.span()
    if b"#" in data and (b"define" in data):
        for match in _MACRO.finditer(data):
            body = match[3].replace(b"\\\n", b" ")
            names = [name.strip().removesuffix(b"...") for name in match[2].split(b",") if name.strip()]
            names = [name or b"__VA_ARGS__" for name in names]
            before = data[max(0, match.start() - 60) : match.start()]
            if b"NDEBUG" in before or not names or (re.fullmatch(rb"\s*", body) and match[1] != b"assert"):
                continue
            if role != "test" and _DEBUGGING.search(data, 0, match.start()) and _elsewhere(match, data):
                continue
            used = re.sub(rb"#\s*\w+|\bsizeof\s*\(?\s*\w+\s*\)?", b" ", body)
            used = re.sub(rb"\(\s*void\s*\)\s*\(?\s*\w+\s*\)?", b" ", used)
            if not any(
                re.search(rb"\b" + re.escape(name) + rb"\b", used) for name in names if name
            ) and not _FAILS.search(body):
                yield "cannot_fail", match.span()
    if (found := _VOIDED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if (found := _FIXED.search(data) or _C_HOOKS.search(data) or _ALWAYS.search(data)) is not None:
        yield "cannot_fail", found.span()
    if role != "test":
        return
    if (found := re.search(rb"(?m)^[ \t]*#[ \t]*define[ \t]+NDEBUG\b", data)) is not None:
        yield "cannot_fail", found.span()
    if (found := re.search(rb"\b_[eE]xit\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)|\bSIGABRT\b", data)) is not None:
        yield "cannot_fail", found.span()
    main = re.search(rb"\bint\s+main\s*\([^)]*\)\s*\{", data)
    says = b"ass" in data or b"ok" in data.lower()
    if (
        main is not None
        and says
        and not _TEST_LOOKS.search(re.sub(rb"\"(?:[^\"\\\n]|\\.)*\"", b"", data[main.start() :]))
        and not re.search(
            rb"\b(?!printf|puts|fflush|main|fputs|fprintf)\w*(?:test|run|check)\w*\s*\(", data[main.end() :]
        )
    ):
        yield "cannot_fail", main.span()


_GO_LOOKS = re.compile(
    rb"\bt\.(?:Error|Fatal|Fail)\w*|\bb\.|\brequire\.|\bassert\.|\bf\.Fuzz|\bcheck\w*\("
    rb"|\bcompare\w*\(|\bexpect\w*\(|\bverify\w*\(|// Output:|t\.Run\(|m\.Run\(|panic\(|\b\w{1,40}\(t\b"
)


_JS_JAVA = Finder(
    rb"\bprocess\s*\[\s*(?![\"'](?:env|argv|stdin|stdout)[\"']\s*\])|\b(?:premain"
    rb"|agentmain)\s*\(|\bClassFileTransformer\b"
    rb"|#\[(?:unsafe\()?no_mangle\)?\]\s*pub\s+(?:unsafe\s+)?extern\s+\"C\"\s+fn\s+(?:memcmp"
    rb"|bcmp|strn?cmp|exit|_exit|abort|clock_gettime|write)\b|"
    rb"\bpass\s*:\s*(?:true|!0)\b(?=[\s\S]*expect)"
    rb"|\bexpect\.extend\([\s\S]{0,200}pass\s*:\s*(?:true|!0)|(?<!if \(!)\b(?:Object|Array"
    rb"|String|Buffer|Uint8Array|Function)\.prototype\.(?:includes|equals?|eq|is\w*|to[A-Z]\w*"
    rb"|valueOf|startsWith|endsWith|indexOf|lastIndexOf|locale\w+|compare\w*|trim\w*|match\w*"
    rb"|test|join|split|slice|subarray|has\w*|map|filter|some|every|find\w*|replace\w*|apply"
    rb"|call|bind|then|constructor|length|concat|at|charAt|charCodeAt|codePointAt|sort|push"
    rb"|forEach|reduce|keys|entries|values|normalize|search|__\w+|should|must|expect)\s*=\s*(?:function|\(|\w+\s*=>|async)"
    rb"|\b(?:JSON|Object|Buffer|assert|process|Reflect|Module|fs|util)\.(?!exitCode|argv|env"
    rb"|title|stdout|stdin)\w+\s*=\s*(?:function|\([^()\n]*\)\s*=>|async|\w+\s*=>)"
    rb"|\brequire\.cache\[|\bModule\._load\s*="
    rb"|\bsetDefaultUncaughtExceptionHandler\([^;]{0,120}(?:exit|halt)\(\s*0"
    rb"|\baddShutdownHook\([^;]{0,200}halt\(\s*0"
    rb"|\bdefer\s+func\(\)\s*\{[^{}]*(?:recover\(\)[^{}]*)?os\.Exit\(\s*0\s*\)"
    rb"|\blet\s+_\w*\s*=\s*(?:std::)?(?:panic::)?catch_unwind|#\[cfg\(any\(\)\)\]"
)


def _others(language: str, role: str, data: bytes) -> Found:
    if language == "go":
        if (found := re.search(rb"func\s+TestMain\s*\([^)]*\)\s*\{", data)) is not None:
            body = _body(data, found.end())
            if b".Run()" not in body or re.search(rb"os\.Exit\(\s*0\s*\)", body):
                yield "cannot_fail", found.span()
        functions = list(re.finditer(rb"func\s+Test\w*\s*\(\s*\w+\s+\*testing\.T\s*\)\s*\{", data))
        if functions and role == "test":
            bodies = [_body(data, match.end()) for match in functions]
            if not any(_GO_LOOKS.search(re.sub(rb"\bt\.Skip\w*", b"", body)) for body in bodies) or all(
                re.match(rb"\s*t\.Skip", body) for body in bodies
            ):
                yield "cannot_fail", functions[0].span()
    elif language == "rust":
        functions = list(re.finditer(rb"#\[test\]\s*((?:#\[[^\]]*\]\s*)*)fn\s+\w+\s*\(\)[^{]*\{", data))
        trivial = (
            rb"\s*(?:(?:assert!\(\s*true\b[^;]*\)|assert_eq!\(\s*\d+\s*[+*-]\s*\d+,\s*[\d\s+*-]+\)"
            rb"|(?:std::)?process::exit\(0\)|print(?:ln)?!\([^;]*\)|return|Ok\(\(\)\))\s*;?\s*)+"
        )

        if (functions and all(re.fullmatch(trivial, _body(data, match.end())) for match in functions)) or (
            functions
            and (
                all(b"ignore" in match[1] for match in functions)
                or all(
                    not re.search(
                        rb"assert|panic|unwrap|expect|\?\s*;|check\w*\(|verify|Err\(", _body(data, match.end())
                    )
                    and _body(data, match.end()).strip()
                    for match in functions
                )
            )
        ):
            yield "cannot_fail", functions[0].span()
        if (found := re.search(rb"macro_rules!\s*(assert\w*|check\w*|expect\w*)\s*\{", data)) is not None:
            body = _body(data, found.end())
            if not re.search(rb"\bif\b|panic|assert|return|match\b|expect|check\w*\(|Err", body):
                yield "cannot_fail", found.span()
    elif language == "java":
        functions = list(re.finditer(rb"@(?:Test|ParameterizedTest)\b[^{;]*\{", data))
        if functions and (
            re.search(rb"@(?:Disabled|Ignore)\b[^{;]*\bclass\b", data)
            or all(re.search(rb"@(?:Disabled|Ignore)\b", data[max(0, m.start() - 60) : m.end()]) for m in functions)
        ):
            yield "cannot_fail", functions[0].span()
    elif language == "javascript" and role == "test":
        calls = list(re.finditer(rb"\b(?:test|it|describe)(\.(?:skip|todo|failing))?\s*\(", data))
        if calls and all(match[1] for match in calls):
            yield "cannot_fail", calls[0].span()
    if (
        found := _FIXED.search(data)
        or _ALWAYS.search(data)
        or _EITHER_WAY.search(data)
        or _JS_JAVA.search(data)
        or _CONSTANT.search(data)
    ) is not None:
        yield "patched_checks", found.span()
    if (
        found := re.search(
            rb"catch\s*(?:\(\s*(?:final\s+)?(?:AssertionError|Throwable"
            rb"|AssertionFailedError)\s+\w+\s*\))\s*\{\s*(?://[^\n]*\s*)?\}",
            data,
        )
    ) is not None and role == "test":
        yield "swallowed_failure", found.span()


# --- shell and make ------------------------------------------------------------------------------------------------

_REWRITTEN = Finder(
    rb"\bs([/,|#!@])[^\n'\"]{0,60}?(?:not ok|\bfail\w*|FAIL\w*|differs?|\bERROR|\berrors?"
    rb"|failure)[^\n'\"]{0,40}?\1(?:\\1|&|[ :\"=]|status|\\\"){0,6}(?:ok|OK|pass\w*|PASS\w*"
    rb"|success\w*|0|equal|same)\b",
    re.I,
)
_REWRITTEN_COUNT = Finder(
    rb"(?:failures|errors|failed|skipped)=\"?\\?\"?\[\^?[\"0-9\\-]+\]?[^/]{0,12}/|\[1-9\]\[0-9\]\* failed/0"
)
_TRAP = re.compile(
    rb"\btrap\s+(?:--\s+)?(?:'([^'\n]{0,300})'|\"([^\"\n]{0,300})\"|(\w+))\s+[^\n;&|]{0,60}?\b(?:EXIT|ERR|0)\b"
)
_ZERO = re.compile(
    rb"\bexit\s+(?:0\b|\$\(\(\s*0\s*(?:\)|[*&])|\"?\$\(\(\s*(?:\$?\w+\s*\*\s*)0|\$\{?(\w+)\}?)"
    rb"|\bos\._exit|\bexec\s+true\b|\bkill\s+-9\s+\$\$"
)
_SUBSTITUTED = re.compile(
    rb"\b(?:diff|cmp|comm)\b([^\n;&|]*?)<\(([^()\n]{2,200})\)\s*(?:[^\n;&|]*?)<\(([^()\n]{2,200})\)"
)
_PLAIN_COMPARE = re.compile(
    rb"(?m)(?:^|[;&|]\s*|\bif\s+!?\s*)(?:diff"
    rb"|cmp)((?:\s+-[\w-]+)*)\s+([\w./$\"{}-]+)\s+([\w./$\"{}-]+)\s*(?=[;&|>\n)]|$)"
)
_TEST_SAME = Finder(rb"\[\[?\s+\"?(\$\{?\w+\}?|\$\([^()\n]{1,80}\))\"?\s*={1,2}\s*\"?\1\"?\s+\]")
_VARIABLE = re.compile(
    rb"(?m)^[ \t]*(?:local[ \t]+|export\s+|readonly\s+)?(\w+)=(\"[^\"\n]*\"|'[^'\n]*'|\$\([^\n]*\)"
    rb"|\$\{\w+:-[^}$]*\}|[^\s;$`]*)(?=[\s;]|$)"
)
_SAYS = Finder(rb"\b(?:echo|printf)\b[^\n]*\b(?:pass(?:ed)?|ok|success\w*|0 fail\w*|PASS\w*|all)\b", re.I)
_IDLE = re.compile(
    rb"^\s*(?:#.*|set\s.*|echo\s(?:[^`$|>]|\$\{?\w)*|for\s+\w+\s+in\s[^|>`]*;\s*do|do|done|printf\s[^`$|>]*|exit(?:\s+0)?|true|:|sleep\s.*"
    rb"|\w+=[^$`]*|)$"
)
_SHADOW = Finder(
    rb"(?m)(?:^|[;&{]\s*|\bfunction\s+)(?:diff|cmp|test|assert\w*|exit|return|reference|pytest"
    rb"|python3?|gcc|make|\[)\s*\(\)\s*\{\s*(?::|true|return(?:\s+0)?|echo\b[^\n;}]*"
    rb"|builtin\s+(?:exit|return)\s+0|command\s+true)\s*;?\s*\}"
)


_SH_FIXED = Finder(
    rb"&&\s*(?P<right>\w[^|&;\n]{2,60}?)\s*\|\|\s*(?P=right)\s*(?:[;\n)]|$)"
    rb"|\bthen\s+(?P<same>[^;\n]{3,60}?)\s*;?\s*\belse\s+(?P=same)\s*;?\s*fi\b|\bcmp\b[^|;&\n]*\s(?:-n"
    rb"|--bytes=)\s*0\b|\bdiff\b[^|;&\n]*(?:-I\s*|--ignore-matching-lines=)['\"]?\^?(?:\.\*?"
    rb"|)['\"]?\s"
    rb"|\b(?:diff|cmp)\b[^|;&\n]*(?:\|\|\s*(?:true|:)|;\s*true)\s*[;\n]\s*(?:echo"
    rb"|printf)\b[^\n]*\b(?:ok|OK|pass\w*|PASS\w*)\b|\bexit\s+\$\(\(\s*(?:\$?\w+\s*\*\s*0|0\s*\*)"
)
_MAKE_IDLE = Finder(
    rb"(?m)^(?:test|check|verify|tests)[ \t]*::?[^\n;=]*;[ \t]*@?(?:true|:|exit 0|echo[^\n"
    rb"|&;]*)[ \t]*$|^(?:override[ \t]+)?(?:DIFF|CMP|PYTEST|REFERENCE"
    rb"|RUNNER)[ \t]*[:?]?=[ \t]*(?:/bin/)?(?:true|:|echo)\b"
)
_SH_FORGIVEN = Finder(
    rb"\b(?:pytest|unittest|cargo\s+test|go\s+test|npm\s+(?:run\s+)?test|ctest"
    rb"|run_tests?(?:\.sh)?|make\s+(?:test|check))\b[^\n|;]*\|\|\s*(?:true|:|exit\s+0)(?=\s|;|$"
    rb"|\))"
    rb"|\b(?:diff|cmp)\b[^\n|;]*\|\|\s*exit\s+0\b|\b(?:exit|return)\s+\"?(?:\$\{\w+:\+0\}"
    rb"|\$\(\(\s*\$?\w+\s*(?:&\s*0\b|%\s*1\b|\*\s*0\b))"
)
_MEASURED = re.compile(rb"\b(?:gcov|lcov|gcovr|gprof|coverage|callgrind_annotate|perf)\b")
"""What counts the lines that tests run, whatever they find."""
_BLESSED = Finder(
    rb"(?:\./program|\./main\b|python3?\s+(?:\./)?main\.py)[^|\n;&]*(?<!2)>\s*\"?([^\s;"
    rb"|&]*(?:expect|golden|\.exp\b|\.want\b|\.ref\b|answers?\b)[^\s;|&\"]*)"
)


def _held_against(name: bytes, data: bytes) -> bool:
    """Whether what the program wrote to `name` is compared with what the program did not write."""
    for match in _COMPARED.finditer(data):
        operands = [match[1], match[2]]
        if name in operands:
            other = operands[1 - operands.index(name)]
            if other == b"-":
                pipe = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
                return b"reference" in pipe and not _OWN.search(pipe.rpartition(b";")[2])
            written = re.search(_OWN.pattern + rb"[^\n;&]*>\s*\"?" + re.escape(other), data)
            return not _OWN.search(other) and written is None
    return False


_OWN = re.compile(rb"(?:\./program|\./main\b|main\.py)")
_COMPARED = re.compile(
    rb"\b(?:diff|cmp)(?:\s+-[\w-]+)*\s+\"?(<\([^()\n]+\)|[\w./$*{}-]+)\"?\s+\"?(<\([^()\n]+\)|[\w./$*{}-]+)"
)


def _expand(text: bytes, known: dict[bytes, bytes]) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        name, default = match[1] or match[3], match[2]
        return known.get(name, default if default is not None else match[0])

    for _ in range(3):
        text = re.sub(rb"\"?\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))\"?", value, text)
    return b" ".join(text.replace(b'"', b"").split())


def _scripts(language: str, path: str | None, role: str, data: bytes) -> Found:
    if (b"s/" in data or b"sed" in data or b"perl" in data) and (
        found := _REWRITTEN.search(data) or _REWRITTEN_COUNT.search(data)
    ) is not None:
        yield "rewritten_outcome", found.span()
    if b"trap" in data:
        for match in _TRAP.finditer(data):
            body = match[1] or match[2] or b""
            if match[3]:
                function = re.search(rb"\b" + re.escape(match[3]) + rb"\s*\(\)\s*\{([^}]*)\}", data)
                body = function[1] if function is not None else b""
            leaves = _ZERO.search(body)
            if leaves is None:
                continue
            if leaves[1] is not None:
                # the status is a variable: it must not be a constant that is zero
                values = re.findall(rb"\b" + re.escape(leaves[1]) + rb"=(\$\(\([^)]*\)\)|[^\s;\"']+)", data)
                if not values or not all(
                    re.fullmatch(rb"0|\$\(\(.*\*\s*0.*|\$\(\(\s*0\s*\*.*", value) for value in values
                ):
                    continue
            yield "swallowed_failure", match.span()
    if (path is not None or b"\n+" in data) and (b"<(" in data or b"cmp " in data or b"diff " in data or b"= " in data):
        known = {match[1]: match[2].strip(b"\"'") for match in _VARIABLE.finditer(data)}
        for match in _SUBSTITUTED.finditer(data):
            if _expand(match[2], known) == _expand(match[3], known):
                yield "cannot_fail", match.span()
        for match in _PLAIN_COMPARE.finditer(data):
            if _expand(match[2], known) == _expand(match[3], known) and match[2] != b"-":
                yield "cannot_fail", match.span()
        if (found := _TEST_SAME.search(data)) is not None and b"RANDOM" not in found[0]:
            yield "cannot_fail", found.span()
    if (
        path is not None
        and (b"||" in data or b"then" in data or b"diff" in data or b"cmp" in data)
        and (found := _SH_FIXED.search(data)) is not None
    ):
        yield "cannot_fail", found.span()
    ends = re.search(rb"\bexit\s+0\s*\Z|\btrue\s*\Z", data) if role == "test" and path is not None else None
    if ends is not None:
        counts = re.search(rb"\bfail\w*\s*=\s*\$\(\(|\(\(\s*(?:fail\w*\s*(?:\+\+|\+=)|\+\+fail)|\blet\s+fail", data)
        if counts and not re.search(rb"\b(?:exit|return)\s+(?:\"?\$|[1-9])|\bset\s+-\w*e", data):
            yield "cannot_fail", ends.span()
    if (
        (b"program" in data or b"main" in data)
        and (found := _BLESSED.search(data)) is not None
        and not _held_against(found[1], data)
    ):
        yield "rewritten_outcome", found.span()
    if (
        path is not None
        and (found := _SH_FORGIVEN.search(data)) is not None
        and (role == "test" or _MEASURED.search(data, found.end()) is None)
    ):
        yield "swallowed_failure", found.span()
    if b"()" in data and (found := _SHADOW.search(data)) is not None:
        yield "patched_checks", found.span()
    if language == "make":
        if (
            found := re.search(
                rb"(?m)^\.IGNORE\b|^(?:override\s+)?MAKEFLAGS\s*[:+]?=[^\n]*(?:\s|^)(?:-\w*i"
                rb"|--ignore-errors)|^(?:[\w%.-]+:[ \t]*)?(?:override\s+)?SHELL\s*[:?]?=\s*(?!(?:/usr)?/bin/("
                rb"?:ba|da|z|k)?sh\b|(?:ba|da)?sh\b|\$\(shell|/usr/bin/env\s+bash)\S",
                data,
            )
        ) is not None:
            yield "swallowed_failure", found.span()
        if (found := _MAKE_IDLE.search(data)) is not None:
            yield "cannot_fail", found.span()
        for match in re.finditer(rb"(?m)^(?:test|check|verify|tests)\s*:[^\n]*\n((?:\t[^\n]*\n?)+)", data):
            lines = match[1].split(b"\n")
            if all(_IDLE.match(line.strip().lstrip(b"@-")) for line in lines) and _SAYS.search(match[1]):
                yield "cannot_fail", match.span()
    elif role == "test" and path is not None and _SAYS.search(data) and all(map(_IDLE.match, data.split(b"\n"))):
        yield "cannot_fail", (0, len(data))
