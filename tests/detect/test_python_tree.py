"""Trees of Python code, built by several threads at once."""

from __future__ import annotations

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from detect import python_tree

CODE = "x = [" + "(1 + 2) * f(a, b[c], {d: e}), " * 200 + "]\n"


def test_threads_do_not_disturb_each_other() -> None:
    """Where collecting garbage runs code, threads take turns inside a tree: SystemError in early CPython 3.11."""
    expected = ast.dump(python_tree.module(CODE))
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(work)
    try:
        with ThreadPoolExecutor(4) as threads:
            trees = list(threads.map(python_tree.module, [CODE] * 60))
    finally:
        gc.callbacks.remove(work)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    assert {ast.dump(tree) for tree in trees} == {expected}


def work(*_: object) -> None:
    sum(range(100))


def test_expressions() -> None:
    assert ast.literal_eval(python_tree.expression("  [1, 'a']")) == [1, "a"]
    with pytest.raises(SyntaxError):
        python_tree.expression("x = 1")
