"""Which arguments of a program are paths, and what the program does to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from detect.facts import Access
from detect.shell_expand import Word
from detect.shell_tables import (
    COPYING,
    EMBEDDED_PATH,
    LISTING,
    MENTIONING,
    PYTHON,
    SED_FILE,
    SHELLS,
    WRITING,
)


class Reader(Protocol):
    """What this module needs of the shell reader."""

    def word_path(self, word: Word, access: Access, by: str) -> None: ...

    def script(self, script: str, unit: str = "") -> str | None: ...


def paths(reader: Reader, name: str, words: Sequence[Word]) -> None:
    """A path fact for every argument that is, or contains, a path."""
    if name in SHELLS or PYTHON.fullmatch(name):
        code = [n + 1 for n, w in enumerate(words) if re.fullmatch(r"-[A-Za-z]*c", w.text)][:1]
        words = [w for n, w in enumerate(words) if n not in code]
    plain = [w for w in words if not w.text.startswith("-")]
    if name in ("tar", "bsdtar", "make", "gmake", "git", "ninja", "pax", "unzip"):
        _elsewhere(reader, name, words)
    skip_first = name in ("grep", "egrep", "fgrep", "sed", "awk", "gawk", "mawk") and not any(
        w.text in ("-e", "-f") for w in words
    )
    for number, word in enumerate(plain):
        access: Access = "read"
        if name in LISTING:
            access = "list"
        elif name in WRITING:
            access = "write"
        elif name in COPYING:
            access = "write" if number == len(plain) - 1 and number > 0 else "read"
        elif name == "git" and any(w.text == "--no-index" or w.text == "hash-object" for w in words):
            access = "read"
        elif name in MENTIONING:
            access = "list" if word.is_glob else "mention"
        elif number == 0 and (name in SHELLS or name in (".", "source") or PYTHON.fullmatch(name)):
            access = "run"
        if skip_first and number == 0:
            _program_text(reader, name, word.text)
            continue
        reader.word_path(word, access, name)
        if name not in MENTIONING and name not in SHELLS and not PYTHON.fullmatch(name):
            _embedded(reader, word.text, name, start=1)
    if name in ("perl", "ruby", "php", "lua"):
        for word in plain:
            joined = re.sub(r"(['\"])\s*(?:\.\.?|\+)\s*\1", "", word.text[:16384])
            if joined != word.text:
                _embedded(reader, joined, name, start=0)
    for word in words:
        if word.text.startswith("-") and "/" in word.text and name not in MENTIONING:
            _embedded(reader, word.text, name, start=0)
            short = re.match(r"-[A-Za-z](/.*)", word.text)
            if short:
                reader.word_path(Word(short.group(1), short.group(1)), "read", name)


def _elsewhere(reader: Reader, name: str, words: Sequence[Word]) -> None:
    """`tar -C folder names`: what is named lies in that folder."""
    folder = ""
    for number, word in enumerate(words):
        if number and words[number - 1].text in ("-C", "--directory"):
            folder = word.pattern
        elif word.text.startswith("--directory="):
            folder = word.pattern.partition("=")[2]
        elif folder and not word.text.startswith(("-", "/")):
            joined = f"{folder}/{word.pattern}"
            reader.word_path(Word(joined, joined), "read", name)


def _program_text(reader: Reader, name: str, text: str) -> None:
    """The first argument of awk and sed is a program that may name files; grep's is a pattern."""
    if name == "sed":
        for match in SED_FILE.finditer(text[:4096]):
            reader.word_path(Word(match.group(1), match.group(1)), "read", name)
    elif name.endswith("awk"):
        # neighbours are one string: "/ev" "al"
        text = re.sub(r'"[ \t]+"', "", text[:16384])
        for match in re.finditer(r'"(/[^"]*)"', text):
            reader.word_path(Word(match.group(1), match.group(1)), "read", name)
        for match in re.finditer(r'system\s*\(\s*"((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"\s*\|', text[:16384]):
            reader.script(match.group(1) or match.group(2) or "")
        # a command in a variable
        for match in re.finditer(r'\b(\w+)\s*=\s*"([^"]* [^"]*)"', text):
            if re.search(rf"system\s*\(\s*{match[1]}\b|\b{match[1]}\s*\|", text):
                reader.script(match[2])


def _embedded(reader: Reader, text: str, name: str, start: int) -> None:
    for match in EMBEDDED_PATH.finditer(text[:4096], start - 1 if start else 0):
        if match.start(1) >= start:
            reader.word_path(Word(match.group(1), match.group(1)), "read", name)
