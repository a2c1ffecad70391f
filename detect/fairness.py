"""Tests that cannot fail and comparisons that do not compare, whatever they are called.

An equality must depend on the value of what it is compared with, an assertion must have a way to fail, and a test must
look at something. Python is looked at as a tree, the rest as text. Everything is looked for only where a word says
that it could be there.
"""

from __future__ import annotations

from detect.fairness_code import c_traits, equalities, other_traits
from detect.fairness_patterns import Found
from detect.fairness_python import python_traits
from detect.fairness_scripts import script_traits


def unfair(language: str, path: str | None, role: str, data: bytes) -> Found:
    """Traits `equal_to_all`, `cannot_fail`, `patched_checks`, `swallowed_failure`, `own_libc` with their places."""
    if language == "python":
        yield from python_traits(role, data)
    elif language in ("c", "cpp", "go", "rust", "java", "javascript"):
        yield from equalities(language, data)
        if language in ("c", "cpp"):
            yield from c_traits(role, data)
        else:
            yield from other_traits(language, role, data)
    elif language in ("shell", "make"):
        yield from script_traits(language, path, role, data)
