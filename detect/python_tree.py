"""Syntax trees of Python code, one at a time.

Early CPython 3.11 counts in one place for all threads how deep it is in the tree that it builds: two trees at once, and
one may end in `SystemError: AST constructor recursion depth mismatch`. The filters of warnings are one place, too.
"""

from __future__ import annotations

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()


def module(code: str) -> ast.Module:
    """Raises SyntaxError or ValueError for what is not Python, RecursionError or MemoryError where it is too deep."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def expression(code: str) -> ast.expr:
    """As `module`, for one expression."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code.lstrip(" \t"), mode="eval").body
