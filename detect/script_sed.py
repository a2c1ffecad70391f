"""`sed` in the player's world: addresses, `s`, `y`, `d`, `p`, `q`, `=`, `a`, `i`, `c`, `n`, blocks.

A program goes in, what it prints comes out; a command that is not known raises `Unsure`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from detect.script_regex import Bounded, compiled
from detect.script_tools import Answer
from detect.script_world import MAX_FILE, Unsure

if TYPE_CHECKING:
    from detect.script_player import Player

MAX_STEPS = 20_000
MAX_LINE = 4096


class Address(msgspec.Struct, frozen=True):
    """A line number, `$` (-1), a pattern, or every `step`th line from `line` on."""

    line: int = 0
    pattern: Bounded | None = None
    step: int = 0


class Command(msgspec.Struct):
    name: str
    first: Address | None = None
    last: Address | None = None
    negated: bool = False
    text: str = ""
    pattern: Bounded | None = None
    flags: str = ""
    inside: list[Command] = []
    until: int | None = None
    """While a range is open: the line it ends with, 0 where a pattern ends it."""


class _Reader:
    def __init__(self, program: str, extended: bool) -> None:
        self.text = program
        self.at = 0
        self.extended = extended

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, chars: str) -> None:
        while self.peek() and self.peek() in chars:
            self.at += 1

    def until(self, mark: str) -> str:
        """Up to the next `mark` that no backslash stands before, which is read too."""
        made = ""
        in_class = False
        while True:
            char = self.peek()
            if not char or char == "\n":
                raise Unsure
            self.at += 1
            if char == "\\":
                following = self.peek()
                self.at += 1
                made += following if following == mark and mark not in "()|.*+?[]{}^$" else char + following
                continue
            if char == mark and not in_class:
                return made
            if char == "[" and not in_class:
                in_class = True
                made += char
                if self.peek() == "^":
                    made += "^"
                    self.at += 1
                if self.peek() == "]":
                    made += "]"
                    self.at += 1
                continue
            in_class = in_class and char != "]"
            made += char

    def address(self) -> Address | None:
        if match := re.compile(r"(\d+)(?:~(\d+))?").match(self.text, self.at):
            self.at = match.end()
            return Address(int(match[1]), step=int(match[2] or 0))
        if self.peek() == "$":
            self.at += 1
            return Address(-1)
        if self.peek() in ("/", "\\") and self.peek():
            mark = "/"
            if self.peek() == "\\":
                mark = self.text[self.at + 1 : self.at + 2]
                self.at += 1
            self.at += 1
            pattern = self.until(mark)
            ignore = self.peek() == "I"
            self.at += ignore
            return Address(pattern=compiled(pattern, extended=self.extended, ignore=ignore))
        return None

    def block(self, *, nested: bool = False) -> list[Command]:
        found = []
        while True:
            self.skip(" \t\n;")
            if not self.peek():
                if nested:
                    raise Unsure
                return found
            if self.peek() == "}":
                if not nested:
                    raise Unsure
                self.at += 1
                return found
            found.append(self.command())

    def command(self) -> Command:
        first = self.address()
        last = None
        self.skip(" \t")
        if first is not None and self.peek() == ",":
            self.at += 1
            self.skip(" \t")
            if self.peek() == "+":
                raise Unsure
            last = self.address()
            if last is None:
                raise Unsure
            self.skip(" \t")
        command = Command("", first, last)
        while self.peek() == "!":
            command.negated = True
            self.at += 1
            self.skip(" \t")
        command.name = self.peek()
        self.at += 1
        if command.name == "{":
            command.inside = self.block(nested=True)
        elif command.name == "s":
            mark = self.peek()
            self.at += 1
            pattern = self.until(mark)
            command.text = self.until(mark)
            match = re.compile(r"[gpIi0-9]*").match(self.text, self.at)
            assert match is not None
            self.at, command.flags = match.end(), match[0]
            ignore = bool(set(command.flags) & set("Ii"))
            command.pattern = compiled(pattern, extended=self.extended, ignore=ignore)
        elif command.name == "y":
            mark = self.peek()
            self.at += 1
            command.flags, command.text = self.until(mark), self.until(mark)
            if len(command.flags) != len(command.text) or "\\" in command.flags + command.text:
                raise Unsure
        elif command.name in ("a", "i", "c"):
            match = re.compile(r"\s*(?:\\\n)?([^\n]*)").match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            command.text = re.sub(r"\\(.)", r"\1", match[1])
            if match[1].endswith("\\"):
                raise Unsure
        elif command.name not in ("d", "p", "q", "=", "n", "D") or not command.name:
            raise Unsure
        self.skip(" \t")
        if self.peek() not in ("", ";", "\n", "}"):
            raise Unsure
        return command


class _Ends(Exception):
    pass


class _Next(Exception):
    pass


class _Run:
    def __init__(self, text: str, *, quiet: bool) -> None:
        self.lines = text.split("\n")
        self.closed = text.endswith("\n")
        if self.closed or not text:
            self.lines.pop()
        self.quiet = quiet
        self.out = ""
        self.number = 0
        self.steps = 0
        self.space = ""
        self.after = ""

    def last(self) -> bool:
        return self.number == len(self.lines)

    def say(self, text: str) -> None:
        self.out += text + ("\n" if self.closed or not self.last() else "")

    def run(self, program: list[Command]) -> str:
        while self.number < len(self.lines):
            self._take()
            try:
                self.block(program)
            except _Next:
                self.out, self.after = self.out + self.after, ""
                continue
            except _Ends:
                self._finish()
                break
            self._finish()
        return self.out

    def _take(self) -> None:
        self.space = self.lines[self.number]
        if len(self.space) > MAX_LINE:
            raise Unsure
        self.number += 1

    def _finish(self) -> None:
        if not self.quiet:
            self.say(self.space)
        self.out, self.after = self.out + self.after, ""

    def block(self, program: list[Command]) -> None:
        for command in program:
            self.steps += 1
            if self.steps > MAX_STEPS or len(self.out) + len(self.after) > MAX_FILE:
                raise Unsure
            if self.chosen(command) != command.negated:
                self.one(command)

    def matches(self, address: Address) -> bool:
        if address.pattern is not None:
            return address.pattern.search(self.space) is not None
        if address.line == -1:
            return self.last()
        if address.step:
            return self.number >= address.line and (self.number - address.line) % address.step == 0
        return self.number == address.line

    def chosen(self, command: Command) -> bool:
        if command.first is None:
            return True
        if command.last is None:
            return self.matches(command.first)
        if command.until is None:
            if not self.matches(command.first):
                return False
            last = command.last
            line = len(self.lines) if last.line == -1 else last.line
            if last.pattern is not None:
                command.until = 0
            elif line > self.number:
                command.until = line
            return True
        if (command.until and self.number >= command.until) or (not command.until and self.matches(command.last)):
            command.until = None
        return True

    def one(self, command: Command) -> None:
        name = command.name
        if name == "{":
            self.block(command.inside)
        elif name == "s":
            self.substitute(command)
        elif name == "y":
            self.space = self.space.translate(str.maketrans(command.flags, command.text))
        elif name in ("d", "c"):
            if name == "c" and (command.last is None or command.until is None):
                self.out += command.text + "\n"
            raise _Next
        elif name == "p":
            self.say(self.space)
        elif name == "=":
            self.out += f"{self.number}\n"
        elif name == "q":
            raise _Ends
        elif name == "i":
            self.out += command.text + "\n"
        elif name == "a":
            self.after += command.text + "\n"
        elif name == "n":
            if self.last():
                raise _Ends
            self._finish()
            self._take()
        else:
            raise Unsure

    def substitute(self, command: Command) -> None:
        assert command.pattern is not None
        wanted = int(re.sub(r"\D", "", command.flags) or 0)
        every = "g" in command.flags
        count = grown = 0

        def change(match: re.Match) -> str:
            nonlocal count, grown
            count += 1
            if (wanted and count < wanted) or (count > max(wanted, 1) and not every):
                return match[0]
            made = _replaced(command.text, match)
            grown += len(made)
            if grown > MAX_LINE:
                raise Unsure
            return made

        before = self.space
        self.space = command.pattern.sub(change, before)
        if len(self.space) > MAX_LINE:
            raise Unsure
        if "p" in command.flags and count >= max(wanted, 1):
            self.say(self.space)


def _replaced(template: str, match: re.Match) -> str:
    def one(part: re.Match) -> str:
        text = part[0]
        if text == "&":
            return match[0]
        char = text[1]
        if char.isdigit():
            if int(char) > match.re.groups:
                raise Unsure
            return match[int(char)] or ""
        if char in "ULlEu":
            raise Unsure
        return {"n": "\n", "t": "\t"}.get(char) or char

    return re.sub(r"\\(.)|&", one, template)


def sed(player: Player, words: list[str], inputs: Callable) -> Answer:
    """`inputs` reads the files that are named: their texts, what is said of those that are missing, the status."""
    programs, names, quiet, extended, place = [], [], False, False, False
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word in ("-e", "--expression") and rest:
            programs.append(rest.pop(0))
        elif word in ("-n", "-E", "-r", "-i", "-ne", "-nE", "-nr", "-Ei", "-iE", "-ie", "-En"):
            quiet = quiet or "n" in word
            extended = extended or bool(set(word) & set("Er"))
            place = place or "i" in word
            if word.endswith("e") and rest:
                programs.append(rest.pop(0))
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    if not programs:
        if not names:
            raise Unsure
        programs.append(names.pop(0))
    program = _Reader("\n".join(programs), extended).block()
    found, err, status = inputs(player, "sed", names)
    if not place:
        text = "".join(text if text.endswith("\n") or not text else text + "\n" for _, text in found[:-1])
        return _run(player, text + (found[-1][1] if found else ""), program, quiet=quiet), err, status
    for given, text in found:
        path = player.resolve(given)
        if player.world.writable(path + ".tmp"):
            raise Unsure
        again = _Reader("\n".join(programs), extended).block()
        player.world.files[path].text = _run(player, text, again, quiet=quiet)
    return "", err, status


def _run(player: Player, text: str, program: list[Command], *, quiet: bool) -> str:
    run = _Run(text, quiet=quiet)
    try:
        return run.run(program)
    finally:
        player.shared.steps += run.steps // 5
