"""What the programs of a sandbox print in the player's world: builtins of the shell, and who else is asked for what.

Each function gets the player and the words of one command, and returns standard output, standard error and exit status,
None where it has seen to them itself. A use that is not known raises `Unsure`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from detect import fake_texts, fake_words, script_work
from detect.facts import Fact
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

Answer = tuple[str, str, int]
Tool = Callable[["Player", list[str], "Simple"], "Answer | None"]
NOTHING: Answer = ("", "", 0)


def run(player: Player, words: list[str], node: Simple) -> Answer | None:
    """Raises Unsure, also where words are nothing that a program here could make sense of."""
    try:
        return _ran(player, words, node)
    except (ValueError, LookupError, ArithmeticError):
        raise Unsure from None


def _ran(player: Player, words: list[str], node: Simple) -> Answer | None:
    from detect import (
        script_build,
        script_builtins,
        script_files,
        script_filters,
        script_native,
        script_runtimes,
        script_small,
        script_text,
    )
    from detect.script_pytest import pytest

    name = words[0]
    tool = script_builtins.BUILTINS.get(name)
    if name in ("command", "builtin") and len(words) > 1 and words[1][:1] != "-":
        return run(player, words[1:], node)
    if tool is not None:
        return tool(player, words, node)
    if "/" in name:
        path = player.resolve(name)
        base = posixpath.basename(path)
        if posixpath.dirname(path) not in ("/bin", "/usr/bin", "/usr/sbin", "/sbin"):
            player.shared.work["program"] += 1
            return script_build.start(player, path, words, node)
        name = base
    tables = (script_small, script_text, script_filters, script_files, script_build, script_native, script_runtimes)
    tool = next((table.TOOLS[name] for table in tables if name in table.TOOLS), None)
    if name in ("pytest", "pytest-3", "py.test", "py.test-3"):
        tool = pytest
    player.shared.work[script_work.kind_of(name)] += 1
    if name == "reference" and "/" not in words[0]:
        raise Unsure
    if not player.shared.has(name):
        return not_found(player, words[0])
    if tool is None:
        raise Unsure
    return tool(player, [name, *words[1:]], node)


def not_found(player: Player, name: str) -> Answer:
    if player.dialect == "dash":
        return "", f"{player.prefix()}{name}: not found\n", 127
    reason = fake_words.NOT_FOUND if "/" in name else "command not found"
    return "", f"{player.prefix()}{name}: {reason}\n", 127


def missing(player: Player, program: str, given: str, access: str = "read") -> Answer:
    """What `program` says of a file that is not there, or that it must not write."""
    fact = Fact(
        "path", player.resolve(given), "shell", access=access, given=given, by=program, unit=player.unit,  # type: ignore[arg-type]
        line=player.line,
    )  # fmt: skip
    text = fake_texts.failure(fact, player.shared.programs)
    if text is None or (text.exit_status == 0 and access == "read" and program not in ("find",)):
        raise Unsure
    return text.stdout, text.stderr, text.exit_status


def options(words: Sequence[str], allowed: str) -> tuple[str, list[str]]:
    """Flags (single letters, joined) and the other words. Raises Unsure for a flag that is not allowed."""
    flags, rest = "", []
    for position, word in enumerate(words):
        if word == "--":
            return flags, rest + list(words[position + 1 :])
        if len(word) > 1 and word[0] == "-":
            if word.startswith("--") or any(char not in allowed for char in word[1:]):
                raise Unsure
            flags += word[1:]
        else:
            rest.append(word)
    return flags, rest


def content(player: Player, program: str, given: str) -> tuple[str | None, Answer]:
    """What is in a file, or what `program` says where there is none to read."""
    path = player.resolve(given)
    if path == "/dev/null":
        return "", NOTHING
    if path == fake_words.ORACLE:
        return None, missing(player, program, given)
    if path in ("/dev/stdin", "/proc/self/fd/0") or given == "-":
        return player.stdin or "", NOTHING
    if player.world.is_file(path):
        return player.world.files[path].text, NOTHING
    return None, missing(player, program, given)
