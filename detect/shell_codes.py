"""Code that the shell hands to tools with languages of their own: patches, gdb's commands, awk programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_CODE = 16384
_FILE = re.compile(r"^\+\+\+ (?:[abiw]/)?([^\t\n]+)", re.M)
_AWK_LETTERS = re.compile(
    r"%c|\bsubstr\s*\(|\bg?sub\s*\(|\bgensub\s*\(|\btolower\s*\(|\btoupper\s*\(|\bindex\s*\(|\\\\[0-7x]|\bsplit\s*\(|\bstrtonum\s*\("
)
_AWK_OPENS = re.compile(
    r"getline\s*(?:[A-Za-z_][\w\[\]]*)?\s*<\s*\(?\s*(\w+)|\bsystem\s*\(\s*(?:\"[^\"]*\"\s*)?(\w+)|(?:\"[^\"]*\"\s*)?\b(\w+)\s*(?:\"[^\"]*\"\s*)?\)?\s*\|&?\s*getline|\bprintf?\b[^;}|]*\|&?\s*(\w+)|\bARGV\[\w+\]\s*=\s*(\w+)"
)
_AWK_INPUT = re.compile(r"\$|\bARGV\b|\bENVIRON\b|\bFILENAME\b|\bFNR?\b")


def patched(text: str) -> Iterator[tuple[str, str]]:
    """The files that a patch changes, each with what its hunks leave there."""
    if "+++ " not in text:
        return
    parts = list(_FILE.finditer(text[: 4 * MAX_CODE]))
    for number, match in enumerate(parts[:16]):
        end = parts[number + 1].start() if number + 1 < len(parts) else len(text)
        kept = []
        for line in text[match.end() : end].split("\n")[1:]:
            if line.startswith(("+", " ")):
                kept.append(line[1:])
            elif line.startswith(("@@", "-", "\\")) or not line:
                continue
            else:
                break
        yield match[1].strip(), "\n".join(kept) + "\n"


def gdb(script: str) -> Iterator[tuple[str, str]]:
    """What gdb's commands run: pairs of a language (`shell`, `python`) and code."""
    lines = script[:MAX_CODE].split("\n")
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        index += 1
        if line in ("python", "py", "python-interactive", "pi", "guile", "gu"):
            block = []
            while index < len(lines) and lines[index].strip() != "end":
                block.append(lines[index])
                index += 1
            yield "python", "\n".join(block) + "\n"
        elif match := re.match(r"(?:python|py|pi)\s+(.+)", line):
            yield "python", match[1] + "\n"
        elif match := re.match(r"(?:shell|!|make\b|pipe\b.*?\|)\s*(.+)", line):
            yield "shell", match[1]


def awk_hides(program: str) -> bool:
    """Whether an awk program opens or starts something by a name that it makes from letters, and not from input."""
    program = program[:MAX_CODE]
    if _AWK_LETTERS.search(program) is None:
        return False
    for match in _AWK_OPENS.finditer(program):
        name = next(group for group in match.groups() if group)
        if name.isdigit() or name in ("print", "getline"):
            continue
        made = re.findall(rf"\b{re.escape(name)}\s*=(?!=)\s*([^;\n}}]+)", program)
        if (
            made
            and any(_AWK_LETTERS.search(part) for part in made)
            and not any(_AWK_INPUT.search(part) for part in made)
        ):
            return True
        # a function of the program's own
        if re.search(rf"\bfunction\s+{re.escape(name)}\b", program):
            return True
    return False
