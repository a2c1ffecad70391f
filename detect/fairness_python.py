"""Python tests that cannot fail, and comparisons that do not compare: `detect.fairness` by the tree of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from detect.fairness_patterns import CONSTANT, FIXED, Found, Span
from detect.literals import Finder

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


def python_traits(role: str, data: bytes) -> Found:
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
    if (found := FIXED.search(data)) is not None:
        yield "cannot_fail", found.span()
    if (found := _PY_META.search(data) or CONSTANT.search(data) or _PY_STUB.search(data)) is not None:
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
