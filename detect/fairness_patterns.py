"""What `detect.fairness` looks for in all languages alike."""

from __future__ import annotations

from collections.abc import Iterator

from detect.literals import Finder

Span = tuple[int, int]
Found = Iterator[tuple[str, Span]]
"""Traits with their places."""

CONSTANT = Finder(
    rb"[=(:,]\s*lambda\s+\w+\s*,\s*\w+\s*:\s*(?:True|not\s+False|1\s*==\s*1)\b"
    rb"|\(\s*\w+\s*,\s*\w+\s*\)\s*(?:=>|->)\s*(?:true|!0)\b|\|\s*&?\w+\s*,\s*&?\w+\s*\|\s*true\b"
    rb"|\bfunc\(\s*\w+\s*,\s*\w+\s+[\w.\[\]{}]+\s*\)\s*bool\s*\{\s*return\s+true\s*\}"
)
"""A comparison without a name that always holds."""
FIXED = Finder(
    rb"\b(?:exit|_exit|return|SystemExit|Exit)\b\s*\(?\s*(?:\(\s*)?(?:[\w.]+\s*[*&]\s*0"
    rb"|0\s*[*&]\s*[\w.]+|[^;\n?]{1,60}\?\s*0\s*:\s*0|0\s+if\s+[^\n]{1,60}\s+else\s+0"
    rb"|[\w.() ]{1,40}\s+and\s+0|[^;\n?]{1,60}\?\s*EXIT_SUCCESS\s*:\s*EXIT_SUCCESS)\s*\)?\s*(?:[;"
    rb")\n]|$)"
)
