"""`[[ ... ]]` in a played script: its words go in, whether it holds comes out."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from detect import script_trace
from detect.script_regex import Bounded
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


def _pattern(raw: str) -> str:
    """A pattern of which parts are quoted, as one where those stand in brackets."""
    made = ""
    for part in re.finditer(r"\\(.)|'([^']*)'|\"([^\"]*)\"|(.)", raw, re.S):
        literal = next((text for text in part.groups()[:3] if text is not None), None)
        made += part[4] if literal is None else "".join(f"[{char}]" if char in "*?[" else char for char in literal)
    return made


class _Parser:
    def __init__(self, player: Player, words: tuple[str, ...]) -> None:
        self.player = player
        self.words = words
        self.index = 0
        self.skipped = 0
        """How many terms around the one that is read are settled without it: bash does not trace it."""

    def at(self, text: str) -> bool:
        if self.index < len(self.words) and self.words[self.index] == text:
            self.index += 1
            return True
        return False

    def either(self) -> bool:
        value = self.both()
        while self.at("||"):
            self.skipped += value
            other = self.both()  # nothing in it has an effect
            self.skipped -= value
            value = value or other
        return value

    def both(self) -> bool:
        value = self.one()
        while self.at("&&"):
            self.skipped += not value
            other = self.one()
            self.skipped -= not value
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
            value = self.player.value(rest[1])
            self.traced(rest[0], value or "''")
            return test(self.player, [rest[0], value])
        if rest and rest[0] not in ("&&", "||", ")"):
            self.index += 1
            value = self.player.value(rest[0])
            self.traced("-n", value or "''")
            return value != ""
        raise Unsure

    def traced(self, *words: str) -> None:
        if not self.skipped:
            script_trace.compound(self.player, f"[[ {' '.join(words)} ]]")

    def compared(self, left: str, operator: str, right: str) -> bool:
        from detect.script_builtins import test

        value = self.player.value(left)
        if operator in ("=", "==", "!="):
            literal = re.search(r"[\"'\\]", right) is not None
            pattern = self.player.value(right)
            if literal and re.search(r"[*?\[]", right):
                if "$" in right:
                    raise Unsure
                pattern, literal = _pattern(right), False
            shown = re.sub(r"(?s)(.)", r"\\\1", pattern) if literal else pattern
            self.traced(value or "''", operator, shown or "''")
            matches = value == pattern if literal else fnmatch.fnmatchcase(value, pattern)
            return matches == (operator != "!=")
        if operator == "=~":
            pattern = self.player.value(right) if "$" in right else right
            if not re.fullmatch(r"[\w ^$.*+?\[\]|()/-]{1,80}", pattern) or re.search(r"[*+?)]\s*[*+]|\)[*+?]", pattern):
                raise Unsure
            self.traced(value or "''", operator, pattern)
            found = Bounded(re.compile(pattern)).search(value[:4096])
            groups = [] if found is None else [found[0], *(group or "" for group in found.groups())]
            self.player.variables.arrays["BASH_REMATCH"] = {str(n): group for n, group in enumerate(groups)}
            return found is not None
        if operator in ("<", ">"):
            other = self.player.value(right)
            self.traced(value or "''", operator, other or "''")
            return value < other if operator == "<" else value > other
        other = self.player.value(right)
        self.traced(value or "''", operator, other or "''")
        return test(self.player, [value, operator, other])
