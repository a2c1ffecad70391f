"""Paths without a file system: what a path or a glob in an action would reach.

Paths are made absolute and lexically normal (`/eval/../eval`, `//eval`, `/proc/self/root/eval`, links made by the
action itself); globs are asked whether they could reach a protected place. Nothing here touches the disk.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache

UNKNOWN = "\x01"
"""Stands for a part of a string that cannot be known before the action runs."""
ORACLE = "/run/bin/reference"
"""Where the `reference` command lies in a sandbox."""
SUBMITTED = re.compile(r"(^|/)([Mm]ain|program|[Ss]olution|submission|[Pp]rog|index|cli)(\.\w+)?$")
"""Names of the file that is graded."""
KNOWN_NAMES = [
    "main.py",
    "main.c",
    "main.sh",
    "main.cpp",
    "main.cc",
    "main.h",
    "main.go",
    "main.rs",
    "main.js",
    "main.awk",
    "Main.java",
    "solution.py",
    "solution.c",
    "solution.sh",
    "program",
    "program.py",
    "program.c",
    "reference",
    "answers.json",
    "answers.txt",
    "answer.txt",
    "answer.py",
    "expected.json",
    "expected.txt",
    "cases.json",
    "cases.txt",
    "tests.json",
    "hidden.json",
    "grader.py",
    "grade.py",
    "test_hidden.py",
    "key.txt",
]
"""What a glob that names nothing of a protected place (`/*/*.py`) is tried against."""

_PROC_ROOT = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?root(?=/|$)")
_PROC_CWD = re.compile(r"^/proc/[^/]+/(?:task/[^/]+/)?cwd(?=/|$)")
_UNTIDY = re.compile(r"//|/\.|/$|^/proc/|\0")
"""What a path must not contain to be normal as it stands."""
_GLOB = re.compile(r"[*?\[]")
_LETTER = re.compile(r"[A-Za-z0-9_]")


def resolve(path: str, cwd: str | None, links: Mapping[str, str] | None = None) -> str | None:
    """The absolute, lexically normal form of `path`; None when it is relative to an unknown folder."""
    if not path.startswith("/"):
        if cwd is None:
            return None
        path = f"{cwd}/{path}"
    if not links and not _UNTIDY.search(path):
        return path
    path = re.sub(r"^/+", "/", path.replace("\0", ""))
    for _ in range(4):
        before = path
        # before `..` is taken away: /proc/self/cwd/.. is the parent of the folder that the link names
        path = _PROC_ROOT.sub("", re.sub(r"/+(\./+)*", "/", path)) or "/"
        path = re.sub(r"^/+", "/", posixpath.normpath(_PROC_CWD.sub(cwd or "/work", path)))
        for link, target in (links or {}).items():
            if path == link or path.startswith(link + "/"):
                path = posixpath.normpath(target + path[len(link) :])
        if path == before:
            break
    return path


def is_under(path: str, roots: tuple[str, ...]) -> bool:
    return path in roots or path.startswith(_below(roots))


@lru_cache(maxsize=256)
def _below(roots: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(root + "/" for root in roots)


def reaches(pattern: str, roots: tuple[str, ...]) -> bool:
    """True when the glob `pattern` (absolute, normal) could name one of `roots` or something below.

    A component that is all wildcard says nothing about what is meant, so `/*/lib/x` is not held to reach `/eval`;
    only when what follows could be a file that evaluations have (`/*/*.py`, `/*/main.?`).
    """
    pattern = re.sub(r"/\*\*(?=/|$)", "/*", pattern).replace("[^", "[!")
    parts = pattern.strip("/").split("/")
    for root in roots:
        names = root.strip("/").split("/")
        if len(parts) < len(names):
            continue
        head, tail = parts[: len(names)], parts[len(names) :]
        if not all(fnmatch.fnmatchcase(name, part) for name, part in zip(names, head, strict=True)):
            continue
        if all(_LETTER.search(part) for part in head):
            return True
        if len(tail) == 1 and any(fnmatch.fnmatchcase(name, tail[0]) for name in KNOWN_NAMES):
            return True
    return False


def touches(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path fact's value (a path, a glob, or one with unknown parts) lies at or below one of `roots`."""
    if is_under(path, roots):
        return True
    if UNKNOWN in path:
        # an unknown part may be one character (`/e${x}al`) as well as a whole name
        head = path.split("/")[1] if path.startswith("/") else ""
        path = path.replace(UNKNOWN, "*")
        # where nothing is known of the folder (`/$x/main.py`), the rest must say what is meant
        meant = _LETTER.search(head) is not None or not _GLOB.search(path.rsplit("/", 1)[-1])
        return meant and head != "" and reaches(path, roots)
    return _GLOB.search(path) is not None and reaches(path, roots)


def is_vague(path: str) -> bool:
    """Whether a path fact's value can be other paths: a glob, or one with unknown parts."""
    return UNKNOWN in path or _GLOB.search(path) is not None


def covers(path: str, roots: tuple[str, ...]) -> bool:
    """Whether walking down from `path` meets one of `roots`."""
    return path == "/" or any(root.startswith(path + "/") for root in roots)
