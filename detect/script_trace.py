"""What a shell with `set -x` prints of a command before it runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_player import Player

_META = re.compile(r"[ \t\n'\"\\|&;()<>!{}*\[?\]^$`]|^[~#]|[=:]~")


def quoted(word: str) -> str:
    """As bash quotes a word that it traces."""
    if not word:
        return "''"
    if not _META.search(word):
        return word
    return "\\'" if word == "'" else "'" + word.replace("'", "'\\''") + "'"


def _print(player: Player, text: str) -> None:
    mark = player.variables.get("PS4")
    mark = "+ " if mark is None else mark
    if "$" in mark or "\\" in mark:
        raise Unsure
    player.err.write(mark[:1] * (player.captured + player.evaluated) + mark + text + "\n")


def assigned(player: Player, name: str, value: str, mark: str = "=") -> None:
    if "x" in player.options and player.dialect == "bash":
        _print(player, name + mark + (quoted(value) if value else ""))


def command(player: Player, words: Sequence[str], assignments: Sequence[tuple[str, str]]) -> None:
    if "x" not in player.options:
        return
    if player.dialect == "dash":
        text = [*(f"{name}={value}" for name, value in assignments), *words]
        if text:
            _print(player, " ".join(text))
        return
    if words:
        _print(player, " ".join(quoted(word) for word in words))
        if words[0] == "export":
            for word in words[1:]:
                name, equals, value = word.partition("=")
                if equals:
                    assigned(player, name, value)


def compound(player: Player, text: str) -> None:
    """The head of a loop, of a `case`, `[[ ... ]]` and `(( ... ))`: only bash traces them."""
    if "x" in player.options and player.dialect == "bash":
        _print(player, text)
