"""Redirects of a command in a played script: which files it reads and writes, or the shell's complaint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from detect import script_tools
from detect.fake_words import NOT_FOUND, ORACLE
from detect.paths import UNKNOWN
from detect.script_grammar import Redirect
from detect.script_world import File, Unsure

if TYPE_CHECKING:
    from detect.script_player import Player


def redirect(player: Player, redirects: Sequence[Redirect]) -> bool:
    """Apply redirects; False, with the shell's complaint, where a file cannot be opened."""
    for item in redirects:
        if item.operator in ("<<", "<<-"):
            body = item.heredoc or ""
            player.stdin = body if item.literal else player.expander.body(body)
            if UNKNOWN in player.stdin:
                raise Unsure
            continue
        target = player.value(item.target)
        if item.operator == "<<<":
            player.stdin = target + "\n"
        elif item.operator in (">&", "<&"):
            if target in ("1", "2") and item.fd in (1, 2):
                file: str | File | None = player.out if target == "1" else player.err
            elif target.isdigit() and int(target) > 2:
                file = player.opened.get(int(target))
            else:
                raise Unsure
            if file is None:
                player.complain(f"{target}: Bad file descriptor")
                return False
            if isinstance(file, str):
                player.stdin = file
            else:
                player.out, player.err = (file, player.err) if item.fd == 1 else (player.out, file)
        elif item.operator in ("<", "<>"):
            text = _opened(player, target)
            if text is None:
                return False
            if item.fd:
                player.opened[item.fd] = text
            else:
                player.stdin = text
        elif item.operator in (">", ">>") and item.fd > 2:
            made = _created(player, target, append=item.operator == ">>")
            if made is None:
                return False
            player.opened[item.fd] = made
        elif item.operator in (">", ">>", ">|", "&>", "&>>") and item.fd in (1, 2):
            made = _created(player, target, append=">>" in item.operator)
            if made is None:
                return False
            if item.operator[0] == "&":
                player.out = player.err = made
            elif item.fd == 1:
                player.out = made
            else:
                player.err = made
        else:
            raise Unsure
    return True


def _opened(player: Player, name: str) -> str | None:
    path = player.resolve(name)
    if path == "/dev/null":
        return ""
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        player.err.write(script_tools.missing(player, "", name)[1])
        return None
    if path == ORACLE:
        player.complain(
            f"{name}: Permission denied" if player.dialect == "bash" else f"cannot open {name}: Permission denied"
        )
        return None
    if player.world.is_file(path):
        return player.world.files[path].text
    if path in player.world.folders:
        raise Unsure
    player.complain(f"{name}: {NOT_FOUND}" if player.dialect == "bash" else f"cannot open {name}: No such file")
    return None


def _created(player: Player, name: str, *, append: bool) -> File | None:
    path = player.resolve(name)
    if path == "/dev/null":
        return File()
    if path in ("/dev/stdout", "/dev/stderr"):
        return player.out if path == "/dev/stdout" else player.err
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        player.err.write(script_tools.missing(player, "", name)[1])
        return None
    if path.startswith("/dev/") and not path.startswith("/dev/shm/"):
        raise Unsure
    error = player.world.writable(path)
    if not error:
        return player.world.create(path, append=append)
    if player.dialect == "dash":
        error = {NOT_FOUND: "Directory nonexistent"}.get(error, error)
        player.complain(f"cannot create {name}: {error}")
    else:
        player.complain(f"{name}: {error}")
    return None
