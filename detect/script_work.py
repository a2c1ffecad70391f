"""How long what a script does would take in a sandbox: programs that are started, imports, what is compiled.

The kinds of work are counted by the script player as it plays (`Shared.work`), or from a script's text alone, as if
every command in it ran once. The costs were measured in a sandbox on an idle machine; how much slower or faster a
sandbox is now, only what was run lately tells (`sandbox.latencies`).
"""

from __future__ import annotations

import re
from collections import Counter

from detect import image_programs, script_grammar

_BASE_MS = 4.5
_COSTS_MS = {
    "program": 1.0, "fork": 0.35, "missing": 0.3, "bash": 1.2, "ls": 1.3, "make": 2.5, "python3": 9.0, "gcc": 4.0,
    "cc1": 5.5, "cc1plus": 7.0, "assembled": 7.0, "linked": 24.0,
}  # fmt: skip
_SHARED = 0.3
"""Of what imports (or headers) beside the most expensive one take: most of it is already there."""
_IMPORTS_MS = {
    "asyncio": 36, "urllib": 31, "dataclasses": 30, "http": 29, "subprocess": 20, "unittest": 19, "tempfile": 18,
    "typing": 13, "logging": 11, "pathlib": 10, "base64": 9, "argparse": 8, "textwrap": 8, "json": 7, "shutil": 7,
    "traceback": 7, "socket": 6.5, "re": 6, "glob": 6, "hashlib": 5, "ctypes": 5, "csv": 5, "difflib": 5, "string": 4,
    "datetime": 3.5, "functools": 2.5, "collections": 1.5, "random": 1.5,
}  # fmt: skip
_HEADERS_MS = {
    "sstream": 250, "iostream": 220, "regex": 400, "fstream": 205, "string": 115, "map": 70, "vector": 65, "set": 65,
    "unordered_map": 90, "memory": 90, "algorithm": 48, "functional": 80, "filesystem": 300,
    "stdio.h": 1, "stdlib.h": 1,
}  # fmt: skip

_IMPORT = re.compile(r"^\s*(?:import|from)\s+([\w.]+(?:\s*,\s*[\w.]+)*)|__import__\(['\"]([\w.]+)", re.M)
_INCLUDE = re.compile(r"^\s*#\s*include\s*<([\w./+]+)>", re.M)


def kind_of(program: str) -> str:
    if program in ("gcc", "cc", "g++", "c++", "python3", "make", "bash", "sh", "ls"):
        return {"cc": "gcc", "c++": "gcc", "g++": "gcc", "sh": "program"}.get(program, program)
    return "program" if program in image_programs.BASE else "missing"


def imported(code: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in _IMPORT.findall(code):
        for name in re.split(r"\s*,\s*", line[0] or line[1]):
            found["import " + name.split(".")[0]] += 1
    return found


def compiled(code: str, *, plus: bool) -> Counter[str]:
    found: Counter[str] = Counter({"cc1plus" if plus else "cc1": 1})
    for header in _INCLUDE.findall(code):
        found["include " + header] += 1
    return found


def of_text(script: str) -> Counter[str] | None:
    """What a script does if every command in it runs once; None where it is not understood."""
    found: Counter[str] = Counter()
    try:
        _walk(script_grammar.parse(script), found, {})
    except (script_grammar.NotUnderstood, RecursionError):
        return None
    return found


def idle_s(script: str) -> float | None:
    """Seconds that a script takes on an idle machine; None where it is not understood."""
    work = of_text(script)
    return None if work is None else seconds(work)


def seconds(work: Counter[str]) -> float:
    """On the machine where the costs were measured, idle."""
    known = _BASE_MS + sum(_COSTS_MS[kind] * count for kind, count in work.items() if kind in _COSTS_MS)
    for prefix, costs in (("import ", _IMPORTS_MS), ("include ", _HEADERS_MS)):
        ms = [costs.get(kind.removeprefix(prefix), 0.0) for kind in work if kind.startswith(prefix)]
        if ms:
            known += max(ms) + _SHARED * (sum(ms) - max(ms))
    return known / 1000


def _walk(node: script_grammar.Node, found: Counter[str], written: dict[str, str]) -> None:
    if isinstance(node, script_grammar.Simple):
        _command(node, found, written)
    elif isinstance(node, script_grammar.Pipeline):
        found["fork"] += len(node.parts) if len(node.parts) > 1 else 0
        for part in node.parts:
            _walk(part, found, written)
    elif isinstance(node, script_grammar.Chain):
        for part in (node.first, *(part for _, part in node.rest)):
            _walk(part, found, written)
    elif isinstance(node, script_grammar.Block):
        found["fork"] += node.subshell
        for part, background in node.items:
            found["fork"] += background
            _walk(part, found, written)
    elif isinstance(node, script_grammar.If):
        for condition, body in node.branches:
            _walk(condition, found, written)
            _walk(body, found, written)
        if node.otherwise is not None:
            _walk(node.otherwise, found, written)
    elif isinstance(node, script_grammar.For | script_grammar.While | script_grammar.Counting):
        _walk(node.body, found, written)
    elif isinstance(node, script_grammar.Case):
        for _, body in node.branches:
            _walk(body, found, written)


def _command(node: script_grammar.Simple, found: Counter[str], written: dict[str, str]) -> None:
    words = [word.strip("'\"") for word in node.words]
    here = next((item.heredoc for item in node.redirects if item.heredoc is not None), None)
    for word in node.words:
        found["fork"] += word.count("$(") + word.count("`") // 2
    if not words:
        return
    target = next((item.target for item in node.redirects if item.operator.startswith(">")), None)
    if here is not None and target is not None:
        written[target.strip("'\"")] = here
    if words[0] in image_programs.BUILTINS:
        return
    name = words[0].rsplit("/", 1)[-1] if not words[0].startswith("./") else "program"
    kind = kind_of(name)
    found[kind if "$" not in name else "program"] += 1
    sources = [written[word] for word in words[1:] if word in written]
    if kind == "gcc":
        for source in sources:
            found.update(compiled(source, plus="++" in name))
        if sources:
            found["assembled"] += 1
            found["linked"] += "-c" not in words
    if kind == "python3":
        code = words[2] if words[1:2] == ["-c"] and len(words) > 2 else "\n".join([here or "", *sources])
        found.update(imported(code))
