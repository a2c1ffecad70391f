"""What the shells of a played script are made of: variables, ways out of a block, and what is known of the cheat."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from detect import image_programs, script_arithmetic
from detect.paths import UNKNOWN
from detect.script_grammar import Simple
from detect.script_world import Unsure, World
from detect.shell_expand import Expander

if TYPE_CHECKING:
    from detect.script_player import Player

MAX_STEPS = 4000
MAX_DEPTH = 20
ENVIRONMENT = {
    "SHELL": "/bin/bash", "PWD": "/work", "LOGNAME": "agent", "HOME": "/work", "LANG": "C.UTF-8", "TERM": "dumb",
    "USER": "agent", "SHLVL": "1", "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "UID": "1000",
    "IFS": " \t\n", "EUID": "1000", "$": "2", "HOSTNAME": "sandbox", "OSTYPE": "linux-gnu", "#": "0", "@": "", "*": "",
}  # fmt: skip
_UNKNOWN = ("RANDOM", "SECONDS", "BASHPID", "!", "EPOCHSECONDS", "EPOCHREALTIME", "SRANDOM", "PPID", "_")


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

    def __init__(self, values: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(values)
        self.arrays: dict[str, dict[str, str]] = {}
        self.named: set[str] = set()
        """Arrays with names for subscripts."""

    def take_over(self, other: Variables) -> None:
        """A subshell begins with all that its parent has."""
        self.update(other)
        self.nounset, self.named = other.nounset, set(other.named)
        self.arrays = {name: dict(values) for name, values in other.arrays.items()}

    def __setitem__(self, key: str, value: str) -> None:
        if match := _ELEMENT.fullmatch(key):
            self.arrays.setdefault(match[1], {})[match[2]] = value
        else:
            super().__setitem__(key, value)

    def elements(self, name: str) -> list[str] | None:
        """The values of an array, in order; None where there is none of that name."""
        values = self.arrays.get(name)
        if values is None:
            return None
        if name not in self.named:
            return [values[key] for key in sorted(values, key=int)]
        if len(values) > 1:
            raise Unsure  # in the order of a hash
        return list(values.values())

    def get(self, key: str, default: str | None = None) -> str | None:
        if match := _ELEMENT.fullmatch(key):
            if match[1] in self.arrays:
                if match[2] in "@*":
                    return " ".join(self.elements(match[1]) or [])
                return self.arrays[match[1]].get(match[2], "")
        elif key in self.arrays:
            return self.arrays[key].get("0", "")
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


def _unsure() -> list[str]:
    raise Unsure


_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[([^\]]+)\]")


def _closing(raw: str, position: int) -> int:
    """Where the `))` stands that ends what begins at `position`; 0 if nowhere."""
    depth = 0
    while position < len(raw):
        if raw[position] == "(":
            depth += 1
        elif raw[position] == ")":
            if not depth:
                return position if raw.startswith("))", position) else 0
            depth -= 1
        position += 1
    return 0


class PlayerExpander(Expander):
    variables: Variables

    def _dollar(self, raw: str, position: int, double: bool, chunks: list[tuple[str, bool, bool]]) -> int:
        if raw.startswith("$((", position):
            end = _closing(raw, position + 3)
            if end > 0:
                inside = "".join(text for text, _, _ in self._chunks(raw[position + 3 : end], double=True))
                value = script_arithmetic.evaluate(inside, self.variables)
                chunks.append((str(value), double, not double))
                return end + 2
        return super()._dollar(raw, position, double, chunks)

    def _parameter(self, inside: str) -> str:
        if match := re.fullmatch(r"([A-Za-z_]\w*):?=(.*)", inside, re.S):
            if not (value := self.variables.get(match[1], "")):
                value = self.variables[match[1]] = self.value(match[2])
            return value
        match = re.fullmatch(r"([#!]?)([A-Za-z_]\w*)\[(.+?)\](.*)", inside)
        if match is None or match[2] not in self.variables.arrays:
            if match is not None:
                raise Unsure
            return super()._parameter(inside)
        mark, name, subscript, rest = match.groups()
        if rest:
            return " ".join(self.sliced(name, rest) if subscript in "@*" and not mark else _unsure())
        if subscript in "@*":
            if mark == "#":
                return str(len(self.variables.arrays[name]))
            if mark == "!":
                if name in self.variables.named and len(self.variables.arrays[name]) > 1:
                    raise Unsure
                return " ".join(self.variables.arrays[name])
            return " ".join(self.variables.elements(name) or [])
        value = self.variables.arrays[name].get(self.subscript(name, subscript), "")
        if mark == "!":
            raise Unsure
        return str(len(value)) if mark else value

    def sliced(self, name: str, rest: str) -> list[str]:
        """`${name[@]:1:2}`: the elements that are left."""
        values = self.variables.elements(name) or []
        match = re.fullmatch(r":\s*(-?\d+)(?::\s*(\d+))?", rest)
        if match is None:
            raise Unsure
        first = int(match[1]) + (len(values) if match[1].startswith("-") else 0)
        return values[first : first + int(match[2])] if match[2] else values[first:]

    def subscript(self, name: str, given: str) -> str:
        if name in self.variables.named:
            return self.value(given)
        number = script_arithmetic.evaluate(self.value(given), self.variables)
        if number < 0:
            number += max((int(key) for key in self.variables.arrays.get(name, {})), default=-1) + 1
        return str(number)


class Cheat(Protocol):
    """What is known of the cheat in the script that is played."""

    def unsure(self, player: Player, node: Simple, words: Sequence[str]) -> tuple[str, str, int] | None:
        """What a command that the player does not know prints (output, errors, status), if the evidence lies in it."""
        ...

    def failure(self, player: Player, node: Simple, unit: str) -> tuple[int, str, int] | None:
        """The line at which the Python code `unit` fails, the traceback and the exit status; None if it does not."""
        ...

    def broken(self, sources: Sequence[str], output: str, compiler: str) -> str | None:
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
        self.work: Counter[str] = Counter()
        """What the script has its sandbox do that takes time, by kind (`detect.script_work`)."""

    def has(self, program: str) -> bool:
        return program in self.programs

    def spend(self, steps: int) -> None:
        """All programs of a script live on one budget: one that took all of it leaves none. Raises Unsure."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise Unsure
