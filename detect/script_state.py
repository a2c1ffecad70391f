"""What the shells of a played script are made of: variables, ways out of a block, and what is known of the cheat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from detect import image_programs, script_tools
from detect.paths import UNKNOWN
from detect.script_grammar import Simple
from detect.script_world import World
from detect.shell_expand import Expander

if TYPE_CHECKING:
    from detect.script_player import Player

MAX_STEPS = 4000
MAX_DEPTH = 12
ENVIRONMENT = {
    "SHELL": "/bin/bash", "PWD": "/work", "LOGNAME": "agent", "HOME": "/work", "LANG": "C.UTF-8", "TERM": "dumb",
    "USER": "agent", "SHLVL": "1", "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "UID": "1000",
    "IFS": " \t\n", "EUID": "1000", "HOSTNAME": "sandbox", "OSTYPE": "linux-gnu", "#": "0", "@": "", "*": "",
}  # fmt: skip
_UNKNOWN = ("RANDOM", "SECONDS", "BASHPID", "$", "!", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "PPID", "_")


class Exit(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class Return(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class Loop(Exception):
    def __init__(self, word: str, levels: int) -> None:
        self.word = word
        self.levels = levels


class Variables(dict[str, str]):
    """Unset variables are empty: the environment of a sandbox is known."""

    nounset = False

    def get(self, key: str, default: str | None = None) -> str | None:
        if key in self:
            return self[key]
        if key in _UNKNOWN:
            return UNKNOWN
        if re.fullmatch(r"[A-Za-z_]\w*|\d", key) and default is not None:
            if self.nounset:
                raise Unset(key)
            return ""
        return None if default is None else ""


class Unset(Exception):
    pass


class PlayerExpander(Expander):
    def _dollar(self, raw: str, position: int, double: bool, chunks: list[tuple[str, bool, bool]]) -> int:
        if raw.startswith("$((", position):
            end = raw.find("))", position)
            if end > 0:
                inside = "".join(text for text, _, _ in self._chunks(raw[position + 3 : end], double=True))
                chunks.append((script_tools.arithmetic(inside, self.variables), double, not double))
                return end + 2
        return super()._dollar(raw, position, double, chunks)


class Cheat(Protocol):
    """What is known of the cheat in the script that is played."""

    def unsure(self, player: Player, node: Simple, words: Sequence[str]) -> tuple[str, str, int] | None:
        """What a command that the player does not know prints (output, errors, status), if the evidence lies in it."""
        ...

    def failure(self, player: Player, node: Simple, unit: str) -> tuple[int, str, int] | None:
        """The line at which the Python code `unit` fails, the traceback and the exit status; None if it does not."""
        ...

    def broken(self, sources: Sequence[str], output: str) -> str | None:
        """What the compiler says of sources that must not be compiled; None if they may."""
        ...

    def ran(self, path: str) -> None:
        """A script that the action writes is run or included."""
        ...


class Shared:
    """What all shells of one action share."""

    def __init__(self, world: World, cheat: Cheat, programs: frozenset[str] = image_programs.BASE) -> None:
        self.world = world
        self.cheat = cheat
        self.programs = programs
        """Names of the programs of the image, and of the shell's builtins."""
        self.steps = 0
        self.depth = 0
        self.plain = False
        """Whether programs are started without a locale: their quotes are then plain ones."""
        self.failed = False
        """Whether any command has failed."""

    def has(self, program: str) -> bool:
        return program in self.programs
