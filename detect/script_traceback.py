"""How CPython 3.11 prints an exception that nobody caught: frames, source lines, carets, what was handled before.

Exceptions of a played program go in, the text of its standard error comes out.
"""

from __future__ import annotations

import ast
import traceback

import msgspec

from detect import python_tree
from detect.script_world import Unsure


class Frame(msgspec.Struct):
    """One call that is under way: what it is called, and the node that is being worked on."""

    name: str
    unit: str
    source: tuple[str, ...]
    node: ast.AST | None = None


class Place(msgspec.Struct, frozen=True):
    """Where a frame stood when an exception was raised."""

    unit: str
    name: str
    line: int
    text: str
    carets: str
    inner: str = ""
    """Frames of the standard library below this one."""


class Raised(Exception):
    """An exception of the played program, with its places from the outermost frame to the innermost."""

    def __init__(self, value: BaseException, places: tuple[Place, ...], shown: str, context: Raised | None) -> None:
        self.value = value
        self.places = places
        self.shown = shown
        """The line that names it."""
        self.context = context
        """What was being handled when it was raised."""
        self.below = ""
        """Frames of the standard library after its last place."""
        self.direct = False
        """Whether that is its cause (`raise ... from`)."""


def place(frame: Frame, inner: str = "") -> Place:
    node = frame.node
    line = getattr(node, "lineno", 1)
    text = frame.source[line - 1] if frame.source and line <= len(frame.source) else ""
    if not text.isascii() or "\t" in text:
        raise Unsure
    carets = "" if node is None or frame.unit.startswith("<") else _carets(node, text)
    return Place(frame.unit, frame.name, line, "" if frame.unit.startswith("<") else text.strip(), carets, inner)


def _carets(node: ast.AST, text: str) -> str:
    start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
    indent = len(text) - len(text.lstrip())
    stripped = text.strip()
    if getattr(node, "end_lineno", 0) != getattr(node, "lineno", 0):
        end, anchors = indent + len(stripped), None
    else:
        anchors = _anchors(text[start:end])
    if end - start >= len(stripped) and anchors is None:
        return ""
    if anchors is None:
        marks = "^" * (end - start)
    else:
        left, right = anchors
        marks = "~" * left + "^" * (right - left) + "~" * (end - start - right)
    return " " * (start - indent) + marks


def _anchors(segment: str) -> tuple[int, int] | None:
    """Where the operator, or the subscript, of an expression stands in it."""
    try:
        body = python_tree.module(segment).body
    except SyntaxError:
        return None
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return None
    value = body[0].value
    if isinstance(value, ast.BinOp):
        left = value.left.end_col_offset or 0
        while left < len(segment) and segment[left] in " \t)":
            left += 1
        right = left + 1
        if right < len(segment) and not segment[right].isspace() and segment[right] == segment[left]:
            right += 1
        return left, right
    if isinstance(value, ast.Subscript):
        return value.value.end_col_offset or 0, (value.slice.end_col_offset or 0) + 1
    return None


def report(raised: Raised, *, by_library: bool = False) -> str:
    """`by_library`: as the module `traceback` prints it, which names the module of `__main__`'s own exceptions too."""
    text = ""
    if raised.context is not None:
        text = report(raised.context, by_library=by_library)
        text += (
            "\nThe above exception was the direct cause of the following exception:\n\n"
            if raised.direct
            else "\nDuring handling of the above exception, another exception occurred:\n\n"
        )
    text += "Traceback (most recent call last):\n"
    for one in raised.places:
        text += f'  File "{one.unit}", line {one.line}, in {one.name}\n'
        if one.text:
            text += f"    {one.text}\n"
        if one.carets:
            text += f"    {one.carets}\n"
        text += one.inner
    return text + raised.below + (raised.shown if by_library else raised.shown.removeprefix("__main__.")) + "\n"


def syntax_error(code: str, unit: str) -> str | None:
    """What CPython says of code that it cannot compile; None if it can. Raises Unsure where it may only warn."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(code, unit, "exec", dont_inherit=True)
    except IndentationError as error:
        if "expected an indented block" not in error.msg:
            raise Unsure from None
        error.end_offset = 0
        return "".join(traceback.format_exception_only(error))
    except SyntaxError as error:
        return "".join(traceback.format_exception_only(error))
    except (Warning, ValueError, RecursionError, MemoryError):
        raise Unsure from None
    return None
