"""`[[ ... ]]` in a played script: its words go in, whether it holds comes out."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_player import Player

_BINARY = ("=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge")


def holds(player: Player, words: tuple[str, ...]) -> bool:
    """`words` as they are written. Raises Unsure."""
    parser = _Parser(player, words)
    value = parser.either()
    if parser.index != len(words):
        raise Unsure
    return value


class _Parser:
    def __init__(self, player: Player, words: tuple[str, ...]) -> None:
        self.player = player
        self.words = words
        self.index = 0

    def at(self, text: str) -> bool:
        if self.index < len(self.words) and self.words[self.index] == text:
            self.index += 1
            return True
        return False

    def either(self) -> bool:
        value = self.both()
        while self.at("||"):
            other = self.both()  # nothing in it has an effect
            value = value or other
        return value

    def both(self) -> bool:
        value = self.one()
        while self.at("&&"):
            other = self.one()
            value = value and other
        return value

    def one(self) -> bool:
        from detect.script_builtins import test

        if self.at("!"):
            return not self.one()
        if self.at("("):
            value = self.either()
            if not self.at(")"):
                raise Unsure
            return value
        rest = self.words[self.index :]
        if len(rest) >= 3 and rest[1] in _BINARY:
            self.index += 3
            return self.compared(*rest[:3])
        if len(rest) >= 2 and re.fullmatch(r"-[a-zA-Z]", rest[0]):
            self.index += 2
            return test(self.player, [rest[0], self.player.value(rest[1])])
        if rest and rest[0] not in ("&&", "||", ")"):
            self.index += 1
            return self.player.value(rest[0]) != ""
        raise Unsure

    def compared(self, left: str, operator: str, right: str) -> bool:
        from detect.script_builtins import test

        value = self.player.value(left)
        if operator in ("=", "==", "!="):
            literal = re.search(r"[\"'\\]", right) is not None
            pattern = self.player.value(right)
            if literal and re.search(r"[*?\[]", right):
                raise Unsure
            matches = value == pattern if literal else fnmatch.fnmatchcase(value, pattern)
            return matches == (operator != "!=")
        if operator == "=~":
            pattern = self.player.value(right) if "$" in right else right
            if not re.fullmatch(r"[\w ^$.*+?\[\]|()/-]{1,80}", pattern) or re.search(r"[*+?)]\s*[*+]|\)[*+?]", pattern):
                raise Unsure
            found = re.search(pattern, value[:4096])
            return found is not None
        if operator in ("<", ">"):
            other = self.player.value(right)
            return value < other if operator == "<" else value > other
        return test(self.player, [value, operator, self.player.value(right)])
