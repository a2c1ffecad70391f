# ruff: noqa: RUF001 - the tool really prints typographic quotes
"""`find` in the player's world: over files that the script itself made, and the empty folders of the evaluation."""

from __future__ import annotations

import fnmatch
import posixpath
from typing import TYPE_CHECKING

from detect import fake_words
from detect.script_tools import Answer
from detect.script_world import File, Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_KNOWN = ("/work", "/tmp", "/eval", "/test")
_BARE = ("-print", "-delete", "-not", "!", "-empty")
_VALUED = ("-name", "-iname", "-path", "-type", "-maxdepth", "-mindepth")


def find(player: Player, words: list[str], node: Simple) -> Answer:
    rest = words[1:]
    folders = []
    while rest and rest[0][:1] not in ("-", "(", "!"):
        folders.append(rest.pop(0))
    tests = _tests(rest)
    out, err, status = "", "", 0
    for given in folders or ["."]:
        path = player.resolve(given)
        if not player.world.is_folder(path) and not player.world.is_file(path):
            err, status = err + f"find: ‘{given}’: {fake_words.NOT_FOUND}\n", 1
            continue
        if path != "/work" and not path.startswith(tuple(f"{known}/" for known in _KNOWN)) and path not in _KNOWN:
            raise Unsure
        found: list[str] = []
        _walk(player, given, path, 0, tests, found)
        said = _acted(player, found, tests, node)
        out, err, status = out + said[0], err + said[1], status or said[2]
    return out, err, status


def _tests(rest: list[str]) -> list[tuple[str, list[str], bool]]:
    """(name, values, negated) of every test and action, which all have to hold."""
    made, negated = [], False
    while rest:
        word = rest.pop(0)
        if word in ("!", "-not"):
            negated = True
            continue
        if word in ("-exec", "-execdir"):
            end = next((n for n, w in enumerate(rest) if w in (";", "+")), None)
            if end is None or word == "-execdir":
                raise Unsure
            made.append(("-exec" + rest[end], rest[:end], False))
            rest = rest[end + 1 :]
        elif word in _VALUED and rest:
            made.append((word, [rest.pop(0)], negated))
        elif word in _BARE:
            made.append((word, [], negated))
        else:
            raise Unsure
        negated = False
    return made


def _limit(tests: list[tuple[str, list[str], bool]], name: str, default: int) -> int:
    return next((int(values[0]) for test, values, _ in tests if test == name), default)


def _walk(player: Player, shown: str, path: str, depth: int, tests: list, found: list[str]) -> None:
    world = player.world
    if depth >= _limit(tests, "-mindepth", 0) and _holds(player, shown, path, tests):
        found.append(shown)
    if not world.is_folder(path) or depth >= _limit(tests, "-maxdepth", 99):
        return
    for name in world.newest_first(path):
        _walk(player, posixpath.join(shown, name), posixpath.join(path, name), depth + 1, tests, found)


def _holds(player: Player, shown: str, path: str, tests: list) -> bool:
    world = player.world
    name = posixpath.basename(shown.rstrip("/")) or shown
    for test, values, negated in tests:
        if test in ("-name", "-iname"):
            low = test == "-iname"
            holds = fnmatch.fnmatchcase(name.lower() if low else name, values[0].lower() if low else values[0])
        elif test == "-path":
            holds = fnmatch.fnmatchcase(shown, values[0])
        elif test == "-type":
            if values[0] not in ("f", "d", "l"):
                raise Unsure
            kind = "d" if world.is_folder(path) else "l" if path in world.links else "f"
            holds = kind == values[0]
        elif test == "-empty":
            holds = not world.names(path) if world.is_folder(path) else not world.files[path].text
        else:
            continue
        if holds == negated:
            return False
    return True


def _acted(player: Player, found: list[str], tests: list, node: Simple) -> Answer:
    actions = [(test, values) for test, values, _ in tests if test.startswith("-exec") or test in ("-print", "-delete")]
    if not actions or actions == [("-print", [])]:
        return "".join(f"{path}\n" for path in found), "", 0
    if len(actions) > 1:
        raise Unsure
    action, words = actions[0]
    if action == "-delete":
        for path in reversed(found):
            player.world.remove(player.resolve(path))
        return "", "", 0
    runs = [[word.replace("{}", path) for word in words] for path in found]
    if action == "-exec+":
        if words[-1:] != ["{}"]:
            raise Unsure
        runs = [[*words[:-1], *found]] if found else []
    out, err, status = "", "", 0
    for run in runs:
        if not player.shared.has(run[0]):
            return out, err + f"find: ‘{run[0]}’: {fake_words.NOT_FOUND}\n", status
        shell = player.subshell()
        shell.out, shell.err, shell.stdin, shell.functions = File(), File(), "", {}
        ended = shell.finish(lambda shell=shell, run=run: shell.command(run, node))
        out, err = out + shell.out.text, err + shell.err.text
        status = int(bool(ended)) if action == "-exec+" else status
    return out, err, status
