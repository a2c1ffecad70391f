"""Builtins of the shell, in the player's world."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from detect import fake_words, script_arithmetic, shell_output
from detect.script_tools import NOTHING, Answer, Tool, options
from detect.script_world import MAX_FILE, Unsure
from detect.shell_tables import ASSIGNMENT

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_NUMBER = re.compile(r"-?\d+")


def _echo(player: Player, words: list[str], node: Simple) -> Answer:
    if player.dialect == "dash":
        rest = words[1:]
        end = "\n"
        if rest[:1] == ["-n"]:
            rest, end = rest[1:], ""
        if any("\\" in word for word in rest):
            raise Unsure
        return " ".join(rest) + end, "", 0
    text = shell_output._echo(tuple(words[1:]))
    return text, "", 0


_SLOTS = re.compile(r"%([-0+ #]*)(\d*)(?:\.(\d*))?([a-zA-Z])")


def _printf(player: Player, words: list[str], node: Simple) -> Answer:
    """Raises Unsure for what is not a number where one is wanted."""
    rest = words[1:]
    name = ""
    if rest[:1] == ["-v"] and len(rest) > 2:
        name, rest = rest[1], rest[2:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if not rest or rest[0].startswith("-"):
        raise Unsure
    form, values = rest[0], list(rest[1:])
    text = ""
    while True:
        before = len(values)
        text += _once(form, values)
        player.shared.spend(len(text) >> 16)
        if not values or len(values) == before or len(text) > MAX_FILE:
            break
    if len(text) > MAX_FILE:
        raise Unsure
    if name:
        player.variables[name] = text
        return NOTHING
    return text, "", 0


def formatted(form: str, values: list[str]) -> str:
    """A format of awk's `printf`, with as many values as it takes. Raises Unsure."""
    rest = list(values)
    text = _once(form.replace("\\", "\\\\"), rest)
    if rest:
        raise Unsure
    return text


def _once(form: str, values: list[str]) -> str:
    """The format once; what it uses of the values is taken off them."""
    made, at = "", 0
    while at < len(form):
        char = form[at]
        if char == "\\":
            match = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.|\Z)", re.S).match(form, at)
            assert match is not None
            made += shell_output.unescape(match[0])
            at = match.end()
            continue
        if char != "%":
            made += char
            at += 1
            continue
        if form[at : at + 2] == "%%":
            made += "%"
            at += 2
            continue
        slot = _SLOTS.match(form, at)
        if slot is None:
            raise Unsure
        made += _slotted(slot, values.pop(0) if values else None)
        at = slot.end()
    return made


def _slotted(slot: re.Match, value: str | None) -> str:
    flags, width, precision, kind = slot.groups()
    if len(width or "") > 3 or len(precision or "") > 2:
        raise Unsure
    given = value or ""
    if kind in "sbcq":
        text = shell_output.unescape(given) if kind == "b" else given[:1] if kind == "c" else given
        if kind == "q":
            text = re.sub(r"([^\w@%+=:,./-])", r"\\\1", text) if text else "''"
        text = text[: int(precision or 0)] if precision is not None else text
        if not text.isascii() and width:
            raise Unsure
        return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))
    if kind in "dixXou":
        if match := re.fullmatch(r"[\"'](.)", given, re.S):
            number = ord(match[1])
        elif re.fullmatch(r"\s*[+-]?(0[xX][0-9a-fA-F]{1,12}|\d{1,15})|", given):
            digits = given.strip().lstrip("+-")
            base = 16 if digits[:2].lower() == "0x" else 8 if digits[:1] == "0" else 10
            try:
                number = int(digits or "0", base)
            except ValueError:
                raise Unsure from None
            number = -number if given.strip().startswith("-") else number
        else:
            raise Unsure
        if number < 0 and kind not in "di":
            raise Unsure
        letter = "d" if kind in "diu" else kind
        return f"%{flags}{width or ''}{'.' + precision if precision is not None else ''}{letter}" % number
    if kind in "feEgG" and re.fullmatch(r"\s*[+-]?\d{1,12}(\.\d{0,12})?|", given):
        return f"%{flags}{width or ''}{'.' + precision if precision is not None else ''}{kind}" % float(given or 0)
    raise Unsure


def _cd(player: Player, words: list[str], node: Simple) -> Answer:
    if len(words) > 2 or (len(words) == 2 and words[1].startswith("-")):
        raise Unsure
    given = words[1] if len(words) == 2 else "/work"
    path = player.resolve(given)
    if player.world.is_folder(path):
        player.variables["OLDPWD"], player.variables["PWD"] = player.cwd, path
        player.cwd = path
        return NOTHING
    if player.dialect == "dash":
        return "", f"{player.prefix()}cd: can't cd to {given}\n", 2
    reason = "Not a directory" if path in player.world.files else fake_words.NOT_FOUND
    return "", f"{player.prefix()}cd: {given}: {reason}\n", 1


def _push(player: Player, words: list[str], node: Simple) -> Answer:
    """pushd, popd: one folder deep."""
    if words[0] == "popd":
        before = dict.get(player.variables, "OLDPWD")
        if before is None or len(words) > 1:
            raise Unsure
        player.cwd = player.variables["PWD"] = before
        del player.variables["OLDPWD"]
        return ("~" if before == "/work" else before) + "\n", "", 0
    if len(words) != 2 or dict.get(player.variables, "OLDPWD") is not None:
        raise Unsure
    before = player.cwd
    said = _cd(player, ["pushd", words[1]], node)
    if said[2]:
        return "", said[1].replace(": cd: ", ": pushd: "), said[2]
    return f"{player.cwd} {'~' if before == '/work' else before}\n", "", 0


def _kill(player: Player, words: list[str], node: Simple) -> Answer:
    if words[-1] != "-1" or player.dialect == "dash":
        raise Unsure
    return "", f"{player.prefix()}kill: (-1) - No such process\n", 1


def _exit(player: Player, words: list[str], node: Simple) -> Answer:
    from detect.script_state import Exit, Return

    status = int(words[1]) & 255 if len(words) > 1 and words[1].isdigit() else player.status
    raise (Exit if words[0] == "exit" else Return)(status)


def _loop(player: Player, words: list[str], node: Simple) -> Answer:
    from detect.script_state import Loop

    raise Loop(words[0], int(words[1]) if len(words) > 1 and words[1].isdigit() else 1)


def _set(player: Player, words: list[str], node: Simple) -> Answer:
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word == "--":
            player.arguments(rest)
            break
        if word[0] not in "-+":
            player.arguments([word, *rest])
            break
        flags = word[1:]
        if "o" in flags:
            flags = flags.replace("o", "")
            name = rest.pop(0) if rest else ""
            flags += {"errexit": "e", "nounset": "u", "noglob": "f", "pipefail": "P", "xtrace": "x"}.get(name, "?")
        for flag in flags:
            if flag not in "eufPEhBmx":
                raise Unsure
            option = "pipefail" if flag == "P" else flag
            if word[0] == "-":
                player.options.add(option)
            else:
                player.options.discard(option)
    player.variables.nounset = "u" in player.options
    return NOTHING


def _shift(player: Player, words: list[str], node: Simple) -> Answer:
    count = int(player.variables["#"])
    values = [player.variables[str(n)] for n in range(1, count + 1)]
    by = int(words[1]) if len(words) > 1 else 1
    if by > count:
        return "", "", 1
    player.arguments(values[by:])
    return NOTHING


def _export(player: Player, words: list[str], node: Simple) -> Answer:
    for word in words[1:]:
        if word.startswith("-"):
            if word in ("-a", "-i", "-r") or (word == "-x" and words[0] == "declare"):
                continue
            if word == "-A":
                player.variables.named.update(w for w in words[1:] if not w.startswith("-"))
                continue
            raise Unsure
        if not ASSIGNMENT.match(word) and (words[0] in ("declare", "typeset", "local", "readonly")):
            continue
        match = ASSIGNMENT.match(word)
        name = match.group(1) if match else word
        if match:
            player.variables[name] = match.group(3)
        if words[0] == "export":
            player.variables["exported"] = dict.get(player.variables, "exported", "") + f" {name}"
            player.variables.setdefault(name, "")
    return NOTHING


def _let(player: Player, words: list[str], node: Simple) -> Answer:
    value = 0
    for word in words[1:]:
        value = script_arithmetic.evaluate(word, player.variables)
    return "", "", int(not value)


def _unset(player: Player, words: list[str], node: Simple) -> Answer:
    for word in words[1:]:
        player.variables.pop(word, None)
        player.functions.pop(word, None)
    return NOTHING


def _read(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "r")
    if not player.stdin:
        for name in names or ["REPLY"]:
            player.variables[name] = ""
        return "", "", 1
    line, newline, player.stdin = player.stdin.partition("\n")
    if "\\" in line and "r" not in flags:
        raise Unsure
    separators = player.variables.get("IFS", "") or ""
    fields = max(len(names) - 1, 0)
    if not separators:
        values = [line]
    elif separators == " \t\n" or separators == " ":
        values = line.split(None, fields)
    elif re.search(r"\s", separators):
        raise Unsure
    else:
        values = re.split(f"[{re.escape(separators)}]", line, maxsplit=fields) if fields else [line]
        if (
            len(values) > fields
            and values[-1:]
            and values[-1].count(values[-1][-1:]) == 1
            and values[-1][-1:] in separators
        ):
            values[-1] = values[-1][:-1]
        for number, name in enumerate(names or ["REPLY"]):
            player.variables[name] = values[number] if number < len(values) else ""
        return "", "", 0 if newline else 1
    for number, name in enumerate(names or ["REPLY"]):
        player.variables[name] = values[number].strip() if number < len(values) else ""
    return "", "", 0 if newline else 1


def _eval(player: Player, words: list[str], node: Simple) -> None:
    player.status = 0
    player.evaluate(" ".join(words[1:]), here=True)


def _source(player: Player, words: list[str], node: Simple) -> Answer | None:
    if len(words) != 2:
        raise Unsure
    path = player.resolve(words[1])
    if not player.world.is_file(path):
        if player.dialect == "dash":
            return "", f"{player.prefix()}.: cannot open {words[1]}: No such file\n", 2
        return "", f"{player.prefix()}{words[1]}: {fake_words.NOT_FOUND}\n", 1
    player.shared.cheat.ran(path)
    unit, player.unit = player.unit, words[1]
    try:
        player.evaluate(player.world.files[path].text)
    finally:
        player.unit = unit
    return None


def _trap(player: Player, words: list[str], node: Simple) -> Answer:
    if len(words) == 3 and words[2] in ("EXIT", "0"):
        player.on_exit = "" if words[1] == "-" else words[1]
    elif len(words) < 3 or not set(words[2:]) <= {"INT", "TERM", "HUP", "SIGINT", "SIGTERM"}:
        raise Unsure
    return NOTHING


def _test(player: Player, words: list[str], node: Simple) -> Answer:
    words = list(words)
    if words[0] == "[" and words.pop() != "]":
        raise Unsure
    return "", "", 0 if test(player, words[1:]) else 1


def test(player: Player, words: list[str]) -> bool:
    for joint, function in (("-o", any), ("-a", all)):
        if joint in words and len(words) > 3:
            at = words.index(joint)
            return function((test(player, words[:at]), test(player, words[at + 1 :])))
    if words[:1] == ["!"]:
        return not test(player, words[1:])
    if len(words) < 2:
        return bool(words and words[0])
    if len(words) == 2:
        operator, value = words
        if operator in ("-z", "-n"):
            return (value == "") == (operator == "-z")
        path = player.resolve(value)
        file, folder = player.world.is_file(path), player.world.is_folder(path)
        if operator == "-f":
            return file
        if operator == "-d":
            return folder
        if operator in ("-e", "-r"):
            return file or folder
        if operator == "-s":
            return folder or (file and player.world.files[path].text != "")
        if operator == "-x" and file:
            return player.world.files[path].executable
        if operator in ("-x", "-w", "-L", "-h") and not file and not folder:
            return False
        raise Unsure
    if len(words) != 3:
        raise Unsure
    left, operator, right = words
    if operator in ("=", "==", "!="):
        return (left == right) == (operator != "!=")
    numbers = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
    if operator in numbers and _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
        a, b = int(left), int(right)
        return {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[operator]
    raise Unsure


def _exec(player: Player, words: list[str], node: Simple) -> Answer:
    from detect.script_state import Exit

    if words[1].startswith("-"):
        raise Unsure
    if not player.shared.has(words[1]) and "/" not in words[1]:
        player.err.write(f"{player.prefix()}exec: {words[1]}: not found\n")
        raise Exit(127)
    player.status = 0
    player.on_exit = ""
    player.command(words[1:], node)
    raise Exit(player.status)


def _found(player: Player, words: list[str], node: Simple) -> Answer:
    """`which`, `command -v`: where a program lies."""
    names = [word for word in words[1:] if not word.startswith("-")]
    out, status = "", 0
    for name in names:
        if name in BUILTINS and words[0] == "command":
            out += name + "\n"
        elif name == "reference":
            out += "/run/bin/reference\n"
        elif player.shared.has(name) and "/" not in name:
            out += f"/usr/bin/{name}\n"
        elif "/" in name or name in player.functions:
            raise Unsure
        else:
            status = 1
    return out, "", status


def _command(player: Player, words: list[str], node: Simple) -> Answer:
    if words[1:2] == ["-v"]:
        return _found(player, words, node)
    raise Unsure


def _quietly(player: Player, words: list[str], node: Simple) -> Answer:
    return NOTHING


def _false(player: Player, words: list[str], node: Simple) -> Answer:
    return "", "", 1


def _pwd(player: Player, words: list[str], node: Simple) -> Answer:
    return player.cwd + "\n", "", 0


BUILTINS: dict[str, Tool] = {
    "echo": _echo, "printf": _printf, "cd": _cd, "pwd": _pwd, "true": _quietly, ":": _quietly, "false": _false,
    "exit": _exit, "return": _exit, "break": _loop, "continue": _loop, "set": _set, "shift": _shift,
    "export": _export, "declare": _export, "typeset": _export, "let": _let,
    "local": _export, "readonly": _export, "unset": _unset, "read": _read, "eval": _eval,
    ".": _source, "source": _source, "trap": _trap, "test": _test, "[": _test, "exec": _exec, "command": _command,
    "which": _found, "wait": _quietly, "sleep": _quietly, "umask": _quietly,
    "alias": _quietly, "pushd": _push, "popd": _push,
    "kill": _kill, "shopt": _quietly, "hash": _quietly,
}  # fmt: skip
"""`which` and `sleep` are programs, but need no more than a builtin."""
