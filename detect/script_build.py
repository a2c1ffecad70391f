"""Programs that start others, compile or run code, in the player's world."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detect import (
    fake_texts,
    fake_words,
    script_c,
    script_interpreter,
    script_make,
    script_modules,
    script_python,
    script_unittest,
    script_work,
)
from detect.script_plain import Module
from detect.script_pytest import pytest
from detect.script_tools import NOTHING, Answer, Tool, content, not_found
from detect.script_world import File, Unsure
from detect.shell_tables import ASSIGNMENT

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_PLAIN_QUOTES = {ord("‘"): "'", ord("’"): "'"}  # noqa: RUF001 - the tools really print typographic quotes


def start(player: Player, path: str, words: list[str], node: Simple) -> Answer:
    """A program that is named by its path."""
    if not player.world.is_file(path):
        if player.world.is_folder(path):
            return "", f"{player.prefix()}{words[0]}: Is a directory\n", 126
        return not_found(player, words[0])
    file = player.world.files[path]
    if not file.executable:
        return "", f"{player.prefix()}{words[0]}: Permission denied\n", 126
    if file.runs is not None:
        return file.runs.run(player, words)
    first = file.text.split("\n", 1)[0]
    if re.match(r"#!\s*/(usr/)?bin/(env )?(ba)?sh\b", first):
        dialect = "bash" if "bash" in first else "dash"
        player.shared.cheat.ran(path)
        return player.child(file.text, unit=words[0], dialect=dialect, arguments=words[1:])
    if re.match(r"#!\s*/usr/bin/(env )?python3?\b", first):
        return _interpreted(player, file.text, words[0], node, words)
    raise Unsure


def _shell(player: Player, words: list[str], node: Simple) -> Answer:
    dialect = "dash" if words[0] in ("sh", "dash") else "bash"
    rest = words[1:]
    options = set()
    while rest and re.fullmatch(r"-[eux]*c?", rest[0]) and rest[0] != "-":
        flags = rest.pop(0)[1:]
        options |= set(flags)
        if "c" in flags:
            break
    prelude = "".join(f"set -{flag};" for flag in "eux" if flag in options)
    if "c" in options and rest:
        return player.child(
            prelude + rest[0], unit=words[0] if len(rest) < 2 else rest[1], dialect=dialect, arguments=rest[2:]
        )
    if not rest or rest == ["-s"]:
        text, player.stdin = player.stdin or "", ""
        return player.child(prelude + text, unit=words[0], dialect=dialect)
    if rest[0].startswith("-"):
        raise Unsure
    path = player.resolve(rest[0])
    if not player.world.is_file(path):
        if player.world.is_folder(path):
            raise Unsure
        if dialect == "dash":
            return "", f"{words[0]}: 0: cannot open {rest[0]}: No such file\n", 2
        return "", f"{words[0]}: {rest[0]}: {fake_words.NOT_FOUND}\n", 127
    player.shared.cheat.ran(path)
    return player.child(prelude + player.world.files[path].text, unit=rest[0], dialect=dialect, arguments=rest[1:])


def _wrapper(player: Player, words: list[str], node: Simple) -> Answer | None:
    """env, timeout, nohup, nice, stdbuf, setsid: another program, started by this one."""
    name, rest = words[0], words[1:]
    while rest and (rest[0].startswith("-") or (name == "env" and ASSIGNMENT.match(rest[0]))):
        word = rest.pop(0)
        if name == "nice" and word == "-n":
            rest = rest[1:]
        elif not (
            (name == "nice" and re.fullmatch(r"-\d+|-n\d+", word))
            or (name == "stdbuf" and re.fullmatch(r"-[ioe]\w", word))
            or (name == "env" and (word == "-i" or "=" in word))
        ):
            raise Unsure
    if name == "timeout":
        rest = rest[1:]
    if not rest:
        raise Unsure
    absent = not player.shared.has(rest[0]) and rest[0] != "reference"
    if "/" in rest[0]:
        absent = not player.world.is_file(player.resolve(rest[0]))
    if absent:
        form = fake_texts.STARTERS.get(name)
        if form is None:
            raise Unsure
        text = f"{form.format(name=rest[0])}: {fake_words.NOT_FOUND}\n"
        return "", text.translate(_PLAIN_QUOTES) if player.shared.plain else text, 127
    if rest[0] in player.functions or rest[0] in ("cd", "export", "eval", "exit", "exec", "."):
        raise Unsure
    before = player.shared.plain
    player.shared.plain = before or (name == "env" and "-i" in words)
    shell = player.subshell()
    shell.functions = {}
    player.status = shell.finish(lambda: shell.command(rest, node))
    player.shared.plain = before
    return None


def _xargs(player: Player, words: list[str], node: Simple) -> Answer:
    rest, replace = words[1:], ""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "-I" and rest:
            replace = rest.pop(0)
        elif word.startswith("-I"):
            replace = word[2:]
        elif word == "-n1" or (word == "-n" and rest[:1] == ["1"]) or word not in ("-r",):
            raise Unsure
    items = (player.stdin or "").split("\n") if replace else (player.stdin or "").split()
    if re.search(r"[\"'\\]", player.stdin or "") and not replace:
        raise Unsure
    if re.search(r"\\", player.stdin or ""):
        raise Unsure
    items = [re.sub(r"[\"']", "", item) for item in items if item] if replace else items
    rest = rest or ["echo"]
    runs = [[word.replace(replace, item) for word in rest] for item in items] if replace else [[*rest, *items]]
    if not player.shared.has(rest[0]):
        return "", f"xargs: {rest[0]}: {fake_words.NOT_FOUND}\n", 127
    out, err, status = "", "", 0
    for words_ in runs:
        shell = player.subshell()
        shell.out, shell.err, shell.stdin = File(), File(), ""
        shell.functions = {}
        ended = shell.finish(lambda shell=shell, words_=words_: shell.command(words_, node))
        out, err = out + shell.out.text, err + shell.err.text
        status = 123 if 0 < ended < 126 or (ended == 127 and words_[0] in ("sh", "bash")) else ended or status
    return out, err, status


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(player: Player, words: list[str], node: Simple) -> Answer:
    rest = words[1:]
    while rest and rest[0] in ("-u", "-B", "-S", "-E", "-I"):
        rest.pop(0)
    if rest[:1] in (["--version"], ["-V"]):
        return "Python 3.11.2\n", "", 0
    if rest[:1] == ["-c"] and len(rest) > 1:
        return _interpreted(player, rest[1], "<string>", node, ["-c", *rest[2:]])
    if not rest or rest[0] == "-":
        code, player.stdin = player.stdin or "", ""
        return _interpreted(player, code, "<stdin>", node, rest or [""])
    if rest[0] == "-m" and len(rest) > 1:
        return _module(player, rest[1], rest[2:], node)
    if rest[0].startswith("-"):
        raise Unsure
    path = player.resolve(rest[0])
    if not player.world.is_file(path):
        if player.world.is_folder(path):
            raise Unsure
        text = f"{words[0]}: can't open file '{path}': [Errno 2] {fake_words.NOT_FOUND}\n"
        return "", text, 2
    return _interpreted(player, player.world.files[path].text, path, node, rest)


_JSON_TOOL = """usage: python -m json.tool [-h] [--sort-keys] [--no-ensure-ascii]
                           [--json-lines]
                           [--indent INDENT | --tab | --no-indent | --compact]
                           [infile] [outfile]
python -m json.tool: error: argument infile: can't open '{0}': [Errno 2] No such file or directory: '{0}'
"""


def _pretty(player: Player) -> Answer:
    """`python3 -m json.tool` on its standard input."""
    text, player.stdin = player.stdin or "", ""
    try:
        return json.dumps(json.loads(text), indent=4) + "\n", "", 0
    except json.JSONDecodeError as error:
        return "", f"{error}\n", 1


def _tested(player: Player, arguments: list[str]) -> Answer:
    """`python3 -m unittest`: of modules in the workspace, or of all that are named like tests."""
    verbosity = 2 if "-v" in arguments else 0 if "-q" in arguments else 1
    names = [re.sub(r"\.py$", "", a).replace("/", ".") for a in arguments if not a.startswith("-") and a != "discover"]
    if not names:
        names = [n[:-3] for n in player.world.names(player.cwd) if re.fullmatch(r"test\w*\.py", n)]
    if len(names) != 1 or "." in names[0] or not player.world.is_file(player.resolve(names[0] + ".py")):
        raise Unsure
    around = script_modules.Surroundings(player, ["python3 -m unittest"])
    player.shared.work["import unittest"] += 1

    def run(interpreter: script_interpreter.Interpreter) -> tuple[str, int]:
        module = around.module(names[0])
        assert isinstance(module, Module)
        return script_unittest.run(interpreter, names[0], module.members, verbosity)

    return script_interpreter.tested(run, around)


def _module(player: Player, name: str, arguments: list[str], node: Simple) -> Answer:
    if name == "pytest" and player.shared.has("pytest"):
        return pytest(player, ["pytest", *arguments], node)
    if name == "unittest":
        return _tested(player, arguments)
    if name == "json.tool" and not arguments:
        return _pretty(player)
    if name == "json.tool" and len(arguments) == 1 and not player.world.is_file(player.resolve(arguments[0])):
        return "", _JSON_TOOL.format(arguments[0]), 2
    if name.split(".")[0] in script_python.STANDARD or player.world.is_file(
        player.resolve(name.replace(".", "/") + ".py")
    ):
        raise Unsure
    if "." in name:
        package = name.split(".")[0]
        text = (
            f"Error while finding module specification for '{name}' (ModuleNotFoundError: No module named '{package}')"
        )
        return "", f"/usr/bin/python3: {text}\n", 1
    return "", f"/usr/bin/python3: No module named {name}\n", 1


def _interpreted(player: Player, code: str, unit: str, node: Simple, argv: Sequence[str]) -> Answer:
    player.shared.work.update(script_work.imported(code))
    before = player.world.saved()
    around = script_modules.Surroundings(player, argv)
    try:
        out, err, status = script_interpreter.interpret(code, unit, around)
    except Unsure:
        player.world.restore(before)
    else:
        if status:
            player.shared.cheat.failure(player, node, unit)
            player.shared.cheat.ran(unit)
        player.stdin = around.stdin.rest
        return out, err, status

    def shell(line: str, name: str) -> tuple[str, str, int]:
        return player.child(line, unit=name, dialect="dash")

    failing = player.shared.cheat.failure(player, node, unit)
    if failing is not None:
        line, err, status = failing
        out, said = script_python.play(code, line, shell)
        return out, said + err, status
    out, err = script_python.play(code, None, shell)
    return out, err, 0


# --- C ----------------------------------------------------------------------------------------------------------------


def _compile(player: Player, words: list[str], node: Simple) -> Answer:
    rest, output, sources, language = words[1:], "a.out", [], ""
    given = False
    only = ""
    while rest:
        word = rest.pop(0)
        if word == "-o" and rest:
            output, given = rest.pop(0), True
        elif match := re.fullmatch(r"-x(.*)", word):
            language = match[1] or (rest.pop(0) if rest else "")
        elif word == "-include" and rest:
            header = rest.pop(0)
            if not player.world.is_file(player.resolve(header)):
                given = f"<command-line>: fatal error: {header}: {fake_words.NOT_FOUND}\ncompilation terminated.\n"
                return "", given, 1
        elif word in ("-c", "-E", "-S", "-fsyntax-only"):
            only = word
        elif word == "--version":
            raise Unsure
        elif word.startswith("-") and word != "-":
            continue
        else:
            sources.append(word)
    clang = words[0].startswith("clang")
    if clang:
        absent = [s for s in sources if not player.world.is_file(player.resolve(s)) and s != "-"]
        said = "".join(f"clang: error: no such file or directory: '{source}'\n" for source in absent)
        if len(absent) == len(sources):
            return "", said + "clang: error: no input files\n", 1
        if absent:
            return "", said, 1
    if not sources:
        return "", f"{words[0]}: fatal error: no input files\ncompilation terminated.\n", 1
    plus = words[0] in ("g++", "c++")
    found = []
    work = player.shared.work
    for source in sources:
        text, _ = content(player, words[0], source) if not source.startswith("/eval") else (None, NOTHING)
        if text is None:
            cc1 = "cc1plus" if plus or language == "c++" or source.endswith((".cc", ".cpp", ".cxx")) else "cc1"
            if not source.endswith((".c", ".cc", ".cpp", ".cxx", ".C")) and not language:
                linker = f"/usr/bin/ld: cannot find {source}: {fake_words.NOT_FOUND}\n"
                return "", linker + "collect2: error: ld returned 1 exit status\n", 1
            return "", f"{cc1}: fatal error: {source}: {fake_words.NOT_FOUND}\ncompilation terminated.\n", 1
        found.append(text)
        work.update(script_work.compiled(text, plus=plus))
    if (absent := _absent_header(player, sources, found)) is not None:
        return "", absent, 1
    if said := player.shared.cheat.broken(sources, output, words[0]):
        work.update(("assembled", "linked"))
        return "", said, 1
    if only == "-E":
        raise Unsure
    said, prints = "", None
    if not plus and not clang and len(found) == 1 and language in ("", "c"):
        warnings = any(word in ("-Wall", "-Wextra") for word in words)
        parameters = re.search(r"main\s*\(\s*int (\w+)(?:, *(?:const )?char *\*+ *(\w+)(?:\[\])?)?\)", found[0])
        if "-Wextra" in words and re.search(r"main\s*\(\s*int", found[0]):
            named = [name for name in parameters.groups() if name] if parameters else [""]
            if any(len(re.findall(rf"\b{name}\b", found[0])) < 2 for name in named):
                raise Unsure  # one that is not used is warned of
        made = script_c.compile_c(
            found[0], "<stdin>" if sources[0] == "-" else sources[0], warnings=warnings, linked=not only,
            header=lambda name: player.world.is_file(player.resolve(name)),
        )  # fmt: skip
        if made.fails:
            work.update(("assembled", "linked") if "collect2:" in made.said else ())
            return "", made.said, 1
        said, prints = made.said, made.runs
    if plus and len(found) == 1:
        made = script_c.compile_cpp(
            found[0], "<stdin>" if sources[0] == "-" else sources[0],
            header=lambda name: player.world.is_file(player.resolve(name)),
        )  # fmt: skip
        if made.fails:
            return "", made.said, 1
        prints = made.runs if not only else None
    work["assembled"] += only != "-fsyntax-only"
    if error := player.world.writable(player.resolve(output)):
        if only == "-c":
            return "", f"Assembler messages:\nFatal error: can't create {output}: {error}\n", 1
        if only:
            raise Unsure
        work["linked"] += 1
        linker = f"/usr/bin/ld: cannot open output file {output}: {error}\n"
        return "", linker + "collect2: error: ld returned 1 exit status\n", 1
    if only == "-c" and not given:
        for source in sources:
            player.world.create(player.resolve(re.sub(r"\.\w+$", ".o", source.rsplit("/", 1)[-1])))
    elif not only or given:
        file = player.world.create(player.resolve(output))
        file.executable, file.runs = True, prints
        work["linked"] += not only
    return "", said, 0


def _absent_header(player: Player, sources: list[str], texts: list[str]) -> str | None:
    """What is said of code from standard input that includes what is not there; its lines cannot be shown."""
    for source, text in zip(sources, texts, strict=True):
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'(\s*#\s*include\s*)"([^"]+)"', line) if source == "-" else None
            if match and not player.world.is_file(player.resolve(match[2])):
                where = f"<stdin>:{number}:{len(match[1]) + 1}"
                return f"{where}: fatal error: {match[2]}: {fake_words.NOT_FOUND}\ncompilation terminated.\n"
    return None


TOOLS: dict[str, Tool] = {
    "bash": _shell, "sh": _shell, "dash": _shell, "env": _wrapper, "timeout": _wrapper, "nohup": _wrapper,
    "nice": _wrapper, "stdbuf": _wrapper, "xargs": _xargs, "python3": _python, "python3.11": _python, "gcc": _compile,
    "cc": _compile, "g++": _compile, "c++": _compile, "clang": _compile, "clang++": _compile, "clang-14": _compile,
    "clang++-14": _compile, "make": script_make.make, "gmake": script_make.make,
}  # fmt: skip
