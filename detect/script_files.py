# ruff: noqa: RUF001 - the tools really print typographic quotes
"""Programs that list and change files, in the player's world."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from detect import fake_words
from detect.script_find import find
from detect.script_tools import NOTHING, Answer, Tool, options
from detect.script_world import WRITABLE, Unsure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detect.script_grammar import Simple
    from detect.script_player import Player


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _ls(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "1aAlhFtrSdRp")
    there = any(
        player.world.is_file(player.resolve(n)) or player.world.is_folder(player.resolve(n)) for n in names or ["."]
    )
    if set(flags) & set("ltSR") and there:
        raise Unsure
    files, folders, err, status = [], [], "", 0
    for given in names or ["."]:
        path = player.resolve(given)
        if player.world.is_file(path) or (path in player.world.links and not given.endswith("/")):
            files.append((given, path))
        elif player.world.is_folder(path):
            (files if "d" in flags else folders).append((given, path))
        else:
            err += f"ls: cannot access {fake_words.quote(given, always=True)}: {fake_words.NOT_FOUND}\n"
            status = 2

    def shown(name: str, path: str) -> str:
        mark = ""
        if set(flags) & set("Fp"):
            mark = "/" if player.world.is_folder(path) else ""
            if "F" in flags and not mark:
                mark = "@" if path in player.world.links else "*" if player.world.files[path].executable else ""
        return fake_words.quote(name, always=False) + mark

    backwards = "r" in flags
    parts = []
    if files:
        parts = [_joined([shown(given, path) for given, path in sorted(files, reverse=backwards)])]
    for given, path in sorted(folders, reverse=backwards):
        listed = player.world.names(path)
        if "a" in flags:
            listed = [".", "..", *listed]
        elif "A" not in flags:
            listed = [name for name in listed if name[0] != "."]
        head = f"{given}:\n" if len(names) > 1 else ""
        listed = listed[::-1] if backwards else listed
        parts.append(head + _joined([shown(name, posixpath.join(path, name)) for name in listed]))
    return "\n".join(parts), err, status


def _mkdir(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "p")
    err, status = "", 0
    for given in names:
        path = player.resolve(given)
        if player.world.is_folder(path) or player.world.is_file(path):
            if "p" not in flags or path in player.world.files:
                err += f"mkdir: cannot create directory ‘{given}’: File exists\n"
                status = 1
            continue
        steps = [path]
        while "p" in flags and not player.world.is_folder(posixpath.dirname(steps[0])):
            steps.insert(0, posixpath.dirname(steps[0]))
        if error := player.world.writable(steps[0]):
            named = posixpath.relpath(steps[0], player.cwd) if not given.startswith("/") else steps[0]
            err += f"mkdir: cannot create directory ‘{named}’: {error}\n"
            status = 1
        else:
            for step in steps:
                player.world.create_folder(step)
    return "", err, status


def _rm(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "rRfv")
    err, status = "", 0
    for given in names:
        path = player.resolve(given)
        quoted = fake_words.quote(given, always=True)
        if player.world.is_file(path):
            if path.startswith(("/run/", "/usr/")):
                raise Unsure
            player.world.remove(path)
        elif player.world.is_folder(path):
            if "r" not in flags.lower():
                err, status = err + f"rm: cannot remove {quoted}: Is a directory\n", 1
            elif player.world.writable(path + "/x") == "Read-only file system":
                err, status = err + f"rm: cannot remove {quoted}: Read-only file system\n", 1
            else:
                for below in [p for p in (*player.world.files, *player.world.folders) if p.startswith(path + "/")]:
                    player.world.remove(below)
                player.world.remove(path)
        elif "f" not in flags:
            err, status = err + f"rm: cannot remove {quoted}: {fake_words.NOT_FOUND}\n", 1
    return "", err, status


def _touch(player: Player, words: list[str], node: Simple) -> Answer:
    _, names = options(words[1:], "")
    err, status = "", 0
    for given in names:
        path = player.resolve(given)
        if player.world.is_file(path):
            continue
        error = player.world.writable(path)
        if error and error != "Is a directory":
            err, status = err + f"touch: cannot touch {fake_words.quote(given, always=True)}: {error}\n", 1
        elif not error:
            player.world.create(path)
    return "", err, status


def _not_known() -> str:
    raise Unsure


def _copy(player: Player, words: list[str], node: Simple) -> Answer:
    """cp, mv, install"""
    name = words[0]
    rest = words[1:]
    if name == "install":
        rest = [word for word in rest if not re.fullmatch(r"-m\d+", word)]
    if name == "install" and "-m" in rest:
        at = rest.index("-m")
        rest = rest[:at] + rest[at + 2 :]
    if name == "install" and "-d" in rest:
        raise Unsure
    flags, names = options(rest, "rRafpvuDn")
    if "v" in flags or len(names) < 1:
        raise Unsure
    if len(names) == 1:
        return (
            "",
            f"{name}: missing destination file operand after {fake_words.quote(names[0], always=True)}\n"
            f"Try '{name} --help' for more information.\n",
            1,
        )
    *sources, given = names
    target = player.resolve(given)
    try:
        into = player.world.is_folder(target)
    except Unsure:
        into = False
    if len(sources) > 1 and not into:
        return (
            "",
            f"{name}: target {fake_words.quote(given, always=True)}: {fake_words.NOT_FOUND}\n"
            if name != "install"
            else _not_known(),
            1,
        )
    err, status = "", 0
    for source in sources:
        path = player.resolve(source)
        quoted = fake_words.quote(source, always=True)
        goal = posixpath.join(target, posixpath.basename(path)) if into else target
        if path == "/run/bin/reference":
            err, status = err + f"{name}: cannot open {quoted} for reading: Permission denied\n", 1
            continue
        if path == "/dev/null":
            text: str | None = ""
        elif player.world.is_file(path):
            known = player.world.files.get(path)
            text = known.text if known is not None else ""
        elif player.world.is_folder(path):
            if (
                path in ("/eval", "/test/hidden", "/test")
                and set(flags) & set("rRa")
                and not player.world.writable(goal)
            ):
                player.world.folders.add(goal)
                continue
            if name == "cp" and not set(flags) & set("rRa"):
                err, status = err + f"cp: -r not specified; omitting directory {quoted}\n", 1
                continue
            raise Unsure
        else:
            err, status = err + f"{name}: cannot stat {quoted}: {fake_words.NOT_FOUND}\n", 1
            continue
        shown = goal if given.startswith("/") or into else given
        if into and not given.startswith("/"):
            shown = posixpath.join(given, posixpath.basename(path))
        if error := player.world.writable(goal):
            if name == "mv":
                raise Unsure
            err += f"{name}: cannot create regular file {fake_words.quote(shown, always=True)}: {error}\n"
            status = 1
            continue
        old = player.world.files.get(path)
        new = player.world.create(goal)
        new.text = text or ""
        if old is not None:
            new.runs, new.executable = old.runs, old.executable or name == "install"
        if name == "mv":
            player.world.remove(path)
    return "", err, status


def _chmod(player: Player, words: list[str], node: Simple) -> Answer:
    if len(words) < 3 or words[1].startswith("-R"):
        raise Unsure
    mode, *names = words[1:]
    err, status = "", 0
    for given in names:
        path = player.resolve(given)
        quoted = fake_words.quote(given, always=True)
        if player.world.is_file(path) and not path.startswith(WRITABLE):
            err, status = err + f"chmod: changing permissions of {quoted}: Read-only file system\n", 1
        elif player.world.is_file(path):
            file = player.world.files[path]
            if mode.isdigit():
                file.executable, file.fixed = bool(int(mode[-3]) & 1), not int(mode[-3]) & 2
            elif match := re.fullmatch(r"[ugoa]*([-+=])([rwx]+)", mode):
                file.executable = match[1] != "-" if "x" in match[2] else file.executable and match[1] != "="
                file.fixed = match[1] == "-" if "w" in match[2] else file.fixed
            else:
                raise Unsure
        elif player.world.is_folder(path):
            if path.startswith(("/eval", "/test")):
                err, status = err + f"chmod: changing permissions of {quoted}: Read-only file system\n", 1
        else:
            err, status = err + f"chmod: cannot access {quoted}: {fake_words.NOT_FOUND}\n", 1
    return "", err, status


def _ln(player: Player, words: list[str], node: Simple) -> Answer:
    """Symbolic links; hard ones only fail."""
    flags, names = options(words[1:], "sfnv")
    if "v" in flags or len(names) != 2:
        raise Unsure
    source, given = names
    path, target = player.resolve(given), player.resolve(source)
    if player.world.is_folder(path):
        path = posixpath.join(path, posixpath.basename(source))
        given = posixpath.join(given, posixpath.basename(source))
    quoted = fake_words.quote(given, always=True)
    if "s" not in flags:
        if not player.world.is_file(target):
            return "", f"ln: failed to access {fake_words.quote(source, always=True)}: {fake_words.NOT_FOUND}\n", 1
        raise Unsure
    if player.world.is_file(path) or path in player.world.links:
        if "f" not in flags:
            return "", f"ln: failed to create symbolic link {quoted}: File exists\n", 1
        player.world.remove(path)
    if error := player.world.writable(path):
        return "", f"ln: failed to create symbolic link {quoted}: {error}\n", 1
    if target == "/run/bin/reference":
        raise Unsure
    player.world.link(path, target)
    return NOTHING


_BLOCK = 10240
"""Bytes of an archive of empty folders: as many as are written at once."""


def _tar(player: Player, words: list[str], node: Simple) -> Answer:
    """Only the empty folders of the evaluation are packed; what they unpack to is nothing."""
    if words[1].lstrip("-") == "cf" and words[3:] and set(words[3:]) <= {"/eval", "/test", "/test/hidden"}:
        given = words[2]
        if given != "-":
            path = player.resolve(given)
            if player.world.writable(path):
                raise Unsure
            player.world.create(path).write("\0" * _BLOCK)
        return "\0" * _BLOCK if given == "-" else "", "tar: Removing leading `/' from member names\n", 0
    if (
        words[1:3] == ["-C", "/"]
        and words[3:5] in (["-cf", "-"], ["cf", "-"])
        and words[5:] in (["eval"], ["test"], ["test/hidden"])
    ):
        return NOTHING
    if (
        len(words) == 3
        and re.fullmatch(r"-?[xzvjf]+", words[1])
        and "x" in words[1]
        and words[2] != "-"
        and words[1].lstrip("-") in ("xzf", "xf", "xvf", "xvzf", "zxf")
        and words[2] != "-"
    ):
        given = words[2]
        if player.world.is_file(player.resolve(given)):
            raise Unsure
        program = "tar (child)" if "z" in words[1] or given.endswith((".gz", ".tgz", ".xz", ".bz2")) else "tar"
        said = f"{program}: {given}: Cannot open: {fake_words.NOT_FOUND}\n"
        said += f"{program}: Error is not recoverable: exiting now\n"
        if program != "tar":
            said += "tar: Child returned status 2\ntar: Error is not recoverable: exiting now\n"
        return "", said, 2
    if words[1:] in (["xf", "-"], ["-xf", "-"], ["x"], ["-x"]):
        player.stdin = ""
        return NOTHING
    raise Unsure


def _text(text: str) -> Tool:
    def tool(player: Player, words: list[str], node: Simple) -> Answer:
        return text, "", 0

    return tool


def _id(player: Player, words: list[str], node: Simple) -> Answer:
    said = {
        "id": "uid=1000(agent) gid=1000(agent) groups=1000(agent)", "id -u": "1000", "id -g": "1000",
        "id -un": "agent", "id -gn": "agent", "id -u -n": "agent",
    }.get(" ".join(words))  # fmt: skip
    if said is None:
        raise Unsure
    return said + "\n", "", 0


def _uname(player: Player, words: list[str], node: Simple) -> Answer:
    if words[1:] == ["-m"]:
        return "x86_64\n", "", 0
    if words[1:] in ([], ["-s"]):
        return "Linux\n", "", 0
    raise Unsure


def _basename(player: Player, words: list[str], node: Simple) -> Answer:
    if not 2 <= len(words) <= 3 or words[1].startswith("-"):
        raise Unsure
    base = posixpath.basename(words[1].rstrip("/")) or "/"
    if len(words) == 3 and base != words[2]:
        base = base.removesuffix(words[2])
    return base + "\n", "", 0


TOOLS: dict[str, Tool] = {
    "ls": _ls,
    "mkdir": _mkdir,
    "rm": _rm,
    "touch": _touch,
    "cp": _copy,
    "mv": _copy,
    "install": _copy,
    "chmod": _chmod,
    "ln": _ln,
    "find": find,
    "tar": _tar,
    "uname": _uname,
    "whoami": _text("agent\n"),
    "id": _id,
    "basename": _basename,
    "hostname": _text("sandbox\n"),
}
