"""Small programs that print a number, a name or a part of one, in the player's world."""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import TYPE_CHECKING

from detect import script_arithmetic
from detect.script_tools import NOTHING, Answer, Tool
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_EXPORTED = ("SHELL", "PWD", "LOGNAME", "HOME", "LANG", "TERM", "USER", "SHLVL", "PATH")


def _fixed(text: str) -> Tool:
    def tool(player: Player, words: list[str], node: Simple) -> Answer:
        if len(words) > 1:
            raise Unsure
        return text, "", 0

    return tool


def _expr(player: Player, words: list[str], node: Simple) -> Answer:
    given = words[1:]
    if given[:1] == ["length"] and len(given) == 2:
        return f"{len(given[1])}\n", "", 0
    numbers = len(given) == 3 and all(re.fullmatch(r"-?\d+", given[n]) for n in (0, 2))
    if numbers and given[1] in ("+", "-", "*", "/", "%"):
        value = script_arithmetic.evaluate(" ".join(given), player.variables)
        return f"{value}\n", "", int(not value)
    if len(given) == 3 and given[1] in ("=", "!=", "<", ">", "<=", ">="):
        left, right = (int(v) if re.fullmatch(r"-?\d+", v) else v for v in (given[0], given[2]))
        if type(left) is not type(right):
            raise Unsure
        holds = {
            "=": left == right, "!=": left != right, "<": left < right, ">": left > right,  # type: ignore[operator]
            "<=": left <= right, ">=": left >= right,  # type: ignore[operator]
        }[given[1]]  # fmt: skip
        return f"{int(holds)}\n", "", int(not holds)
    raise Unsure


def _bc(player: Player, words: list[str], node: Simple) -> Answer:
    """Whole numbers, and quotients with the twenty digits of `-l` or those of `scale`."""
    if set(words[1:]) - {"-l", "-q"}:
        raise Unsure
    out, scale = "", 20 if "-l" in words else 0
    for line in re.split(r"[\n;]", player.stdin or ""):
        text = line.strip()
        if match := re.fullmatch(r"scale ?= ?(\d{1,2})", text):
            scale = int(match[1])
            continue
        if not text:
            continue
        if match := re.fullmatch(r"(\d{1,12}) ?/ ?(\d{1,12})", text):
            if not int(match[2]):
                raise Unsure
            out += _quotient(int(match[1]), int(match[2]), scale) + "\n"
            continue
        if not re.fullmatch(r"[\d+*() -]{1,60}", text):
            raise Unsure
        out += f"{script_arithmetic.evaluate(text, player.variables)}\n"
    player.stdin = ""
    return out, "", 0


def _quotient(a: int, b: int, scale: int) -> str:
    digits = str(a * 10**scale // b).rjust(scale + 1, "0")
    whole, rest = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    if scale and not int(rest or 0):
        return whole if int(whole) else "0"
    return ("" if scale and whole == "0" else whole) + (f".{rest}" if scale else "")


def _mktemp(player: Player, words: list[str], node: Simple) -> Answer:
    flags = [word for word in words[1:] if word.startswith("-")]
    names = [word for word in words[1:] if not word.startswith("-")]
    if set(flags) - {"-d", "-t"} or len(names) > 1:
        raise Unsure
    form = names[0] if names else "/tmp/tmp.XXXXXXXXXX"
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    marks = re.search(r"X{3,}\Z", form)
    if marks is None:
        raise Unsure
    digest = hashlib.sha256(f"{player.text}{len(player.world.files)}{len(player.world.folders)}".encode()).digest()
    made = form[: marks.start()] + "".join(letters[byte % len(letters)] for byte in digest[: len(marks[0])])
    path = player.resolve(made)
    if player.world.writable(path):
        raise Unsure
    if "-d" in flags:
        player.world.create_folder(path)
    else:
        player.world.create(path)
    return made + "\n", "", 0


def _path(player: Player, words: list[str], node: Simple) -> Answer:
    """realpath, readlink -f"""
    names = [word for word in words[1:] if word not in ("-f", "-e", "-m")]
    if words[0] == "readlink" and "-f" not in words:
        raise Unsure
    if any(name.startswith("-") for name in names) or "-e" in words or not names:
        raise Unsure
    return "".join(player.resolve(name) + "\n" for name in names), "", 0


def _printenv(player: Player, words: list[str], node: Simple) -> Answer:
    exported = {*_EXPORTED, *(dict.get(player.variables, "exported") or "").split()}
    out, status = "", 0
    if len(words) < 2:
        raise Unsure
    for name in words[1:]:
        value = player.variables.get(name) if name in exported else None
        if value is None:
            status = 1
        else:
            out += value + "\n"
    return out, "", status


def _yes(player: Player, words: list[str], node: Simple) -> Answer:
    return (" ".join(words[1:]) or "y").join(["", "\n"]) * 4096, "", 0


def _seq(player: Player, words: list[str], node: Simple) -> Answer:
    mark, wide, rest = "\n", False, words[1:]
    while rest and rest[0].startswith("-") and not re.fullmatch(r"-\d+", rest[0]):
        word = rest.pop(0)
        if match := re.fullmatch(r"-s(.*)", word):
            mark = match[1] or (rest.pop(0) if rest else "")
        elif word == "-w":
            wide = True
        else:
            raise Unsure
    if not all(re.fullmatch(r"-?\d{1,6}", word) for word in rest) or not 1 <= len(rest) <= 3:
        raise Unsure
    numbers = [int(word) for word in rest]
    first, step, last = [[1, 1, *numbers], [*numbers[:1], 1, *numbers[1:]], numbers][len(numbers) - 1][:3]
    if not step or abs((last - first) // step) > 10000:
        raise Unsure
    values = list(range(first, last + (1 if step > 0 else -1), step))
    width = max((len(str(n)) for n in (first, last)), default=0) if wide else 0
    return (mark.join(str(n).zfill(width) for n in values) + "\n" if values else ""), "", 0


def _getent(player: Player, words: list[str], node: Simple) -> Answer:
    if len(words) != 3 or words[1] not in ("hosts", "ahosts"):
        raise Unsure
    return "", "", 2


def _dirname(player: Player, words: list[str], node: Simple) -> Answer:
    out = ""
    for word in words[1:]:
        if word.startswith("-"):
            raise Unsure
        out += (posixpath.dirname(word.rstrip("/")) or ("/" if word.startswith("/") else ".")) + "\n"
    return out, "", 0


def _sync(player: Player, words: list[str], node: Simple) -> Answer:
    return NOTHING


TOOLS: dict[str, Tool] = {
    "expr": _expr, "bc": _bc, "nproc": _fixed("1\n"), "arch": _fixed("x86_64\n"), "mktemp": _mktemp, "realpath": _path,
    "readlink": _path, "printenv": _printenv, "yes": _yes, "seq": _seq, "getent": _getent, "dirname": _dirname,
    "sync": _sync, "logname": _fixed("agent\n"),
}  # fmt: skip
