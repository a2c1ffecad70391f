"""GNU make on the makefiles that agents write, in the player's world: explicit rules, simple variables, recipes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from detect import fake_words
from detect.script_tools import Answer
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_RULE = re.compile(r"^([\w./%-]+(?: [\w./%-]+)*)\s*:(?![=:])\s*([^#=]*)$")
_VARIABLE = re.compile(r"^(\w+)\s*[:?]?=\s*(.*)$")
_SPECIAL = re.compile(r"[|&;<>()$`\\\"'*?\[\]#~=%!{}]")
_BUILTIN = frozenset(
    ["cd", "exit", "set", "test", ":", "[", "eval", "export", "read", "trap", "umask", "unset", "command"]
)


class _Failed(Exception):
    pass


class _Target(msgspec.Struct):
    needs: list[str]
    recipe: list[tuple[int, str]]


def make(player: Player, words: list[str], node: Simple) -> Answer:
    name, goals, rest = "", [], words[1:]
    silent = False
    while rest:
        word = rest.pop(0)
        if word == "-f" and rest:
            name = rest.pop(0)
        elif word == "-s":
            silent = True
        elif word in ("-B",) or re.fullmatch(r"-j\d*", word):
            continue
        elif word == "--version" or word.startswith("-") or "=" in word:
            raise Unsure
        else:
            goals.append(word)
    for candidate in [name] if name else ["GNUmakefile", "makefile", "Makefile"]:
        if player.world.is_file(player.resolve(candidate)):
            name, text = candidate, player.world.files[player.resolve(candidate)].text
            player.shared.cheat.ran(player.resolve(candidate))
            break
    else:
        if name:
            return "", f"make: {name}: {fake_words.NOT_FOUND}\nmake: *** No rule to make target '{name}'.  Stop.\n", 2
        if goals:
            return _Makefile(player, "Makefile", "", silent, node).build(goals)
        return "", "make: *** No targets specified and no makefile found.  Stop.\n", 2
    return _Makefile(player, name, text, silent, node).build(goals)


class _Makefile:
    def __init__(self, player: Player, name: str, text: str, silent: bool, node: Simple) -> None:
        self.player, self.name, self.silent, self.node = player, name, silent, node
        self.out = self.err = ""
        self.targets: dict[str, _Target] = {}
        self.variables = {"CC": "cc", "CXX": "g++", "MAKE": "make", "RM": "rm -f"}
        self.phony: set[str] = set()
        self.patterns: dict[str, str] = {}
        """Of `%.o: %.c`, what is needed for what."""
        self.done: set[str] = set()
        self.did = False
        current: list[str] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("\t"):
                for target in current:
                    self.targets[target].recipe.append((number, line[1:]))
                continue
            line = line.split("#", 1)[0].rstrip()
            if not line:
                continue
            if match := _VARIABLE.match(line):
                self.variables[match.group(1)] = match.group(2)
            elif match := _RULE.match(self.expand(line, {})):
                names, needs = match.group(1).split(), match.group(2).split()
                if names == [".PHONY"]:
                    self.phony.update(needs)
                    continue
                if any("%" in n for n in (*names, *needs)) or "|" in needs:
                    if len(names) != 1 or len(needs) != 1 or not names[0].startswith("%") or needs[0][0] != "%":
                        raise Unsure
                    current = [names[0]]
                    self.patterns[names[0]] = needs[0]
                    self.targets[names[0]] = _Target([], [])
                    continue
                for target in names:
                    self.targets.setdefault(target, _Target([], [])).needs.extend(needs)
                current = names
            else:
                raise Unsure

    def expand(self, text: str, automatic: dict[str, str]) -> str:
        for _ in range(8):
            found = re.search(r"\$(?:\((\w+)\)|\{(\w+)\}|([@<^]))", text)
            if found is None:
                break
            name = found.group(1) or found.group(2) or found.group(3)
            value = automatic.get(name, self.variables.get(name, ""))
            text = text[: found.start()] + value + text[found.end() :]
        if re.search(r"\$[^$]", text):
            raise Unsure
        return text.replace("$$", "$")

    def build(self, goals: list[str]) -> Answer:
        goals = goals or [next((t for t in self.targets if not t.startswith((".", "%"))), "")]
        if not goals[0]:
            return "", "make: *** No targets.  Stop.\n", 2
        try:
            for goal in goals:
                self.did = False
                self._build(goal, "")
                if not self.did:
                    made = self.targets.get(goal)
                    if goal not in self.phony and (made is None or not made.recipe):
                        made = self._implicit(goal)
                    idle = goal in self.phony or made is None or not made.recipe
                    what = "Nothing to be done for" if idle else None
                    self.out += f"make: {what} '{goal}'.\n" if what else f"make: '{goal}' is up to date.\n"
        except _Failed:
            return self.out, self.err, 2
        return self.out, self.err, 0

    def _build(self, goal: str, parent: str) -> None:
        if goal in self.done:
            return
        self.done.add(goal)
        path = self.player.resolve(goal)
        there = self.player.world.is_file(path)
        target = self.targets.get(goal)
        if (target is None or not target.recipe) and (known := self._implicit(goal)) is not None:
            target = _Target([*known.needs, *(target.needs if target else [])], known.recipe)
        if target is None:
            if there or self.player.world.is_folder(path):
                return
            needed = f", needed by '{parent}'" if parent else ""
            self.err += f"make: *** No rule to make target '{goal}'{needed}.  Stop.\n"
            raise _Failed
        before = self.did
        for need in target.needs:
            self._build(need, goal)
        if there and goal not in self.phony and self.did == before:
            return
        automatic = {"@": goal, "<": (target.needs or [""])[0], "^": " ".join(target.needs)}
        for number, raw in target.recipe:
            line = self.expand(raw, automatic)
            quiet = self.silent
            ignored = False
            while line[:1] in ("@", "-", "+"):
                quiet, ignored = quiet or line[0] == "@", ignored or line[0] == "-"
                line = line[1:]
            if line.endswith("\\"):
                raise Unsure
            if not quiet:
                self.out += line + "\n"
            self.did = True
            status = self._run(line)
            if status:
                tail = " (ignored)" if ignored else ""
                where = f"{self.name}:{number}" if number else "<builtin>"
                if not (ignored and self.silent):
                    self.err += f"make: {'' if ignored else '*** '}[{where}: {goal}] Error {status}{tail}\n"
                if not ignored:
                    raise _Failed

    def _implicit(self, goal: str) -> _Target | None:
        """The rule by a pattern of the makefile, or make's own for C."""

        def there(name: str) -> bool:
            return name in self.targets or self.player.world.is_file(self.player.resolve(name))

        for made, needed in self.patterns.items():
            if goal.endswith(made[1:]) and there(source := goal.removesuffix(made[1:]) + needed[1:]):
                return _Target([source], self.targets[made].recipe)
        if goal in self.phony or goal.endswith((".c", ".h", ".cpp", ".cc")):
            return None
        for end, compiler, flags in ((".c", "$(CC)", "$(CFLAGS)"), (".cpp", "$(CXX)", "$(CXXFLAGS)")):
            if goal.endswith(".o") and there(goal.removesuffix(".o") + end):
                return _Target([goal.removesuffix(".o") + end], [(0, f"{compiler} {flags} $(CPPFLAGS)  -c -o $@ $<")])
            if "." not in goal and there(goal + end):
                line = f"{compiler} {flags} $(CPPFLAGS) $(LDFLAGS)  $^ $(LOADLIBES) $(LDLIBS) -o $@"
                return _Target([goal + end], [(0, line)])
        return None

    def _run(self, line: str) -> int:
        words = line.split()
        if words and not _SPECIAL.search(line) and words[0] not in _BUILTIN:
            known = self.player.shared.has(words[0]) or words[0] == "reference"
            exists = "/" in words[0] and self.player.world.is_file(self.player.resolve(words[0]))
            if not known and not exists:
                self.err += f"make: {words[0]}: {fake_words.NOT_FOUND}\n"
                return 127
        out, err, status = self.player.child(line, unit="/bin/sh", dialect="dash")
        self.out, self.err = self.out + out, self.err + err
        return status
