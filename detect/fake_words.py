"""What all texts of fakes share: the words of the C library, the form of a text, quoting as the tools quote."""

from __future__ import annotations

import re

import msgspec

from detect.facts import Fact

NOT_FOUND = "No such file or directory"
READ_ONLY = "Read-only file system"
ORACLE = "/run/bin/reference"
FOLDERS = ("/eval", "/test", "/test/hidden")
"""Folders of the image that exist and are empty."""


class Text(msgspec.Struct, frozen=True):
    name: str
    stderr: str
    exit_status: int
    stdout: str = ""


def quote(text: str, *, always: bool) -> str:
    """Quoting of GNU programs (shell-escape style): always for `cp`, only where needed for `cat`."""
    if not always and text and not re.search(r"[\s*?\[\]'\"\\$`!&;|<>(){}=^]", text) and text[0] not in "#~":
        return text
    if "'" in text and '"' not in text and not re.search(r"[$`\\]", text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"


def shell_prefix(fact: Fact) -> str:
    """How the shell that runs the code begins its own messages."""
    if fact.unit == "sh":
        return f"sh: {fact.line}: "
    return f"{fact.unit or 'bash'}: line {fact.line}: "
