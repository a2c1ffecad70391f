"""Where things are in Python code: bytes, lines, and the lines that a traceback shows."""

from __future__ import annotations

import ast
import bisect
import itertools
import re
from functools import cached_property

from detect.facts import FactKind, Origin, Place

_PLACED = (ast.expr, ast.stmt)
_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n|\Z)")
"""A line as the parser counts them."""


class PythonPlaces:
    """Of nodes of a tree; in text that does not parse, of character positions."""

    def __init__(self, source: str, origin: Origin, unit: str) -> None:
        self.source = source
        self.origin = origin
        self.unit = unit

    @cached_property
    def lines(self) -> list[str]:
        return _LINE.findall(self.source)

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins, in bytes."""
        sizes = [len(line.encode("utf-8", "surrogateescape")) for line in self.lines]
        return list(itertools.accumulate(sizes, initial=0))

    @cached_property
    def newlines(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.source)]

    def told(self, where: ast.AST | int, kind: FactKind) -> Place:
        return (*self.located(where), self.excerpt(where) if kind in ("path", "import", "call") else "")

    def excerpt(self, where: ast.AST | int) -> str:
        """The source line of a node with carets below it, as CPython 3.11 prints it for code that comes from a file."""
        if self.unit.startswith("<") or not isinstance(where, _PLACED):
            return ""
        line = self.lines[min(where.lineno, len(self.lines)) - 1][:400]
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        start = where.col_offset - indent
        end = (where.end_col_offset or 0) - indent if where.end_lineno == where.lineno else len(text)
        carets = (
            "" if not line.isascii() or (start, end) == (0, len(text)) else f"    {' ' * start}{'^' * (end - start)}\n"
        )
        return f"    {text}\n{carets}"

    def located(self, where: ast.AST | int) -> tuple[tuple[int, int], int]:
        if isinstance(where, int):
            return self.origin.span, bisect.bisect_left(self.newlines, where) + 1
        offset = self.origin.offset
        if offset is None or not isinstance(where, _PLACED):
            return self.origin.span, getattr(where, "lineno", 1)
        line, last = where.lineno, len(self.starts)
        start = self.starts[min(line, last) - 1] + where.col_offset
        end = self.starts[min(where.end_lineno or line, last) - 1] + (where.end_col_offset or where.col_offset)
        return (offset + start, offset + end), line
