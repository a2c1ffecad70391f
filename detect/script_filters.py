"""Programs that sort, cut and join lines, and that show bytes, in the player's world."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from detect import shell_output
from detect.script_tools import Answer, Tool, content, options
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player


MAX_PAIRS = 100_000
"""Pairs of lines of two files, where each line of one may be held against each of the other."""


def inputs(player: Player, name: str, names: Sequence[str]) -> tuple[list[tuple[str, str]], str, int]:
    """(given, text) of every file that can be read, or standard input; the complaints about the others, the status."""
    if not names:
        text, player.stdin = player.stdin or "", ""
        player.shared.spend(len(text) // 1024)
        return [("", text)], "", 0
    found, err, status = [], "", 0
    for given in names:
        text, said = content(player, name, given)
        if text is None:
            err, status = err + said[1], max(status, said[2])
        else:
            player.shared.spend(len(text) // 1024)
            found.append((given, text))
    return found, err, status


def lines_of(text: str) -> list[str]:
    if re.search(r"[\r\f\v]", text):
        raise Unsure
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


def joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


# --- sort ---------------------------------------------------------------------------------------------------------


def sort(player: Player, words: list[str], node: Simple) -> Answer:
    keys: list[tuple[int, int, str]] = []
    flags, mark, names, output = "", "", [], ""
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-k ?(.*)", word):
            spec = match[1] or (rest.pop(0) if rest else "")
            found = re.fullmatch(r"(\d+)([nrf]*)(?:,(\d+)([nrf]*))?", spec)
            if found is None:
                raise Unsure
            keys.append((int(found[1]), int(found[3] or 0), found[2] + (found[4] or "")))
        elif match := re.fullmatch(r"-t(.?)", word):
            mark = match[1] or (rest.pop(0) if rest else "")
        elif word == "-o" and rest:
            output = rest.pop(0)
        elif re.fullmatch(r"-[nrufsVhgz]+", word):
            flags += word[1:]
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    if set(flags) & set("Vhgz") or len(mark) > 1:
        raise Unsure
    found, err, status = inputs(player, "sort", names)
    if err:
        return "", err.splitlines(keepends=True)[0], status
    lines = [line for _, text in found for line in lines_of(text)]
    made = _sorted(lines, keys, flags, mark)
    if output:
        if player.world.writable(player.resolve(output)):
            raise Unsure
        player.world.create(player.resolve(output)).write(joined(made))
        return "", "", 0
    return joined(made), "", 0


def _number(text: str) -> float:
    match = re.match(r"\s*(-?\d{1,15}(?:\.\d{1,9})?)", text)
    return float(match[1]) if match else 0.0


def _field(line: str, first: int, last: int, mark: str) -> str:
    if mark:
        parts = line.split(mark)
        return mark.join(parts[first - 1 : last or None])
    parts = re.findall(r"\s*\S+", line)
    return "".join(parts[first - 1 : last or None])


def _sorted(lines: list[str], keys: list[tuple[int, int, str]], flags: str, mark: str) -> list[str]:
    everywhere = flags.replace("u", "").replace("s", "")

    def value(line: str, own: str) -> object:
        line = line.upper() if "f" in own else line
        return _number(line) if "n" in own else line

    made = list(lines)
    if not set(flags) & set("su"):
        made.sort(reverse="r" in flags)  # the last resort: whole lines
    for first, last, given in reversed(keys or [(1, 0, "")]):
        own = given or everywhere
        of = [_field(line, first, last, mark) if keys else line for line in made]
        order = sorted(range(len(made)), key=lambda n: value(of[n], own), reverse=False)  # type: ignore[arg-type]
        if "r" in own:
            groups: dict[object, list[int]] = {}
            for n in order:
                groups.setdefault(value(of[n], own), []).append(n)
            order = [n for group in reversed(groups.values()) for n in group]
        made = [made[n] for n in order]
    if "u" in flags:
        kept: dict[object, str] = {}
        for line in made:
            same = tuple(value(_field(line, a, b, mark), own or everywhere) for a, b, own in keys)
            kept.setdefault(same or value(line, everywhere), line)
        made = list(kept.values())
    return made


# --- fields -------------------------------------------------------------------------------------------------------


def _uniq(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "cdui")
    if len(names) > 1:
        raise Unsure
    found, err, status = inputs(player, "uniq", names)
    groups: list[tuple[str, int]] = []
    for line in lines_of("".join(text for _, text in found)):
        same = groups and (groups[-1][0] == line or ("i" in flags and groups[-1][0].lower() == line.lower()))
        if same:
            groups[-1] = groups[-1][0], groups[-1][1] + 1
        else:
            groups.append((line, 1))
    kept = [g for g in groups if ("d" not in flags or g[1] > 1) and ("u" not in flags or g[1] == 1)]
    return "".join(f"{count:7} {line}\n" if "c" in flags else f"{line}\n" for line, count in kept), err, status


def _cut(player: Player, words: list[str], node: Simple) -> Answer:
    kind, ranges, mark, names, only = "", "", "\t", [], False
    output = None
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-([fcb])(.*)", word):
            kind, ranges = match[1], match[2] or (rest.pop(0) if rest else "")
        elif match := re.fullmatch(r"-d(.*)", word, re.S):
            mark = match[1] or (rest.pop(0) if rest else "")
        elif match := re.fullmatch(r"--output-delimiter=(.*)", word):
            output = match[1]
        elif word == "-s":
            only = True
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    chosen = shell_output._ranges(ranges)
    if chosen is None or len(mark) != 1:
        raise Unsure
    found, err, status = inputs(player, "cut", names)
    out = []
    for line in lines_of("".join(text for _, text in found)):
        if kind == "f":
            parts: Sequence[str] = line.split(mark)
            if len(parts) == 1:
                out += [] if only else [line]
                continue
        elif line.isascii():
            parts = line
        else:
            raise Unsure
        picked = [part for n, part in enumerate(parts, 1) if any(a <= n <= b for a, b in chosen)]
        out.append((output if output is not None else mark if kind == "f" else "").join(picked))
    return joined(out), err, status


def _paste(player: Player, words: list[str], node: Simple) -> Answer:
    mark, names, serial = "\t", [], False
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-(s?)d(.*)", word):
            serial, mark = serial or bool(match[1]), match[2] or (rest.pop(0) if rest else "")
        elif word == "-s":
            serial = True
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    if names.count("-") > 1 or (len(mark) > 1 and mark not in (r"\n", r"\t", r"\0")):
        raise Unsure
    mark = {r"\n": "\n", r"\t": "\t", r"\0": ""}.get(mark, mark)
    found, err, status = inputs(player, "paste", names)
    if err:
        return "", err.splitlines(keepends=True)[0], status
    columns = [lines_of(text) for _, text in found]
    if serial:
        return joined([mark.join(column) for column in columns]), "", 0
    rows = max(len(column) for column in columns)
    made = [mark.join(column[n] if n < len(column) else "" for column in columns) for n in range(rows)]
    return joined(made), "", 0


def _comm(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "123")
    found, err, status = inputs(player, "comm", names)
    if err:
        return "", err.splitlines(keepends=True)[0], status
    if len(names) != 2:
        raise Unsure
    a, b = (lines_of(text) for _, text in found)
    if a != sorted(a) or b != sorted(b):
        raise Unsure
    out = ""
    indents = ["", "" if "1" in flags else "\t", ("" if "1" in flags else "\t") + ("" if "2" in flags else "\t")]
    while a or b:
        if not b or (a and a[0] < b[0]):
            column, line = 0, a.pop(0)
        elif not a or b[0] < a[0]:
            column, line = 1, b.pop(0)
        else:
            column, line = 2, a.pop(0)
            b.pop(0)
        if str(column + 1) not in flags:
            out += indents[column] + line + "\n"
    return out, "", 0


def _join(player: Player, words: list[str], node: Simple) -> Answer:
    mark, names = "", []
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-t(.?)", word):
            mark = match[1] or (rest.pop(0) if rest else "")
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    found, err, status = inputs(player, "join", names)
    if err:
        return "", err.splitlines(keepends=True)[0], status
    if len(names) != 2:
        raise Unsure
    rows = [[line.split(mark or None) for line in lines_of(text)] for _, text in found]
    if len(rows[0]) * len(rows[1]) > MAX_PAIRS:
        raise Unsure
    if any([row[:1] for row in side] != sorted(row[:1] for row in side) or not all(side) for side in rows):
        raise Unsure
    made = [(mark or " ").join([*a, *b[1:]]) for a in rows[0] for b in rows[1] if a[0] == b[0]]
    return joined(made), "", 0


def _tr(player: Player, words: list[str], node: Simple) -> Answer:
    flags, sets = "", words[1:]
    if sets and re.fullmatch(r"-[dscC]+", sets[0]):
        flags, sets = sets[0][1:].lower(), sets[1:]
    text = player.stdin or ""
    player.stdin = ""
    if not flags:
        made = shell_output._tr(tuple(words[1:]), text)
        if made is None:
            raise Unsure
        return made, "", 0
    chosen = [shell_output._tr_set(given) for given in sets]
    if any("[:" in given for given in chosen) or not text.isascii() or not 1 <= len(chosen) <= 2:
        raise Unsure
    source = chosen[0]
    if "c" in flags:
        source = "".join(chr(n) for n in range(128) if chr(n) not in source)
    if "d" in flags:
        if len(chosen) > 1 or "s" in flags:
            raise Unsure
        return "".join(char for char in text if char not in source), "", 0
    squeezed = source
    if len(chosen) == 2:
        target = chosen[1]
        target += target[-1:] * (len(source) - len(target))
        text = text.translate(str.maketrans(dict(zip(source, target, strict=False))))
        squeezed = chosen[1]
    if "s" in flags:
        text = re.sub(r"(.)\1+", lambda m: m[1] if m[1] in squeezed else m[0], text, flags=re.S)
    return text, "", 0


# --- bytes and differences ----------------------------------------------------------------------------------------


_NAMED = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def _od(player: Player, words: list[str], node: Simple) -> Answer:
    kind, addresses, names = "o2", True, []
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if word in ("-An", "-A") or word == "-A":
            addresses = False
            if word == "-A" and (not rest or rest.pop(0) != "n"):
                raise Unsure
        elif word in ("-c", "-tc"):
            kind = "c"
        elif word in ("-tx1", "-t"):
            if word == "-t" and (not rest or rest.pop(0) != "x1"):
                raise Unsure
            kind = "x1"
        elif word.startswith("-") and word != "-":
            raise Unsure
        else:
            names.append(word)
    found, err, status = inputs(player, "od", names)
    data = "".join(text for _, text in found).encode("latin-1")
    if kind == "o2" or (err and not found):
        if err and not found:
            return "", err, 1
        raise Unsure
    out, before = "", b""
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        if part == before and len(part) == 16:
            raise Unsure
        before = part
        if kind == "x1":
            shown = "".join(f" {byte:02x}" for byte in part)
        else:
            shown = "".join(f" {_NAMED.get(b) or (chr(b) if 32 <= b < 127 else f'{b:03o}'):>3}" for b in part)
        out += (f"{at:07o}" if addresses else "") + shown + "\n"
    return out + (f"{len(data):07o}\n" if addresses else ""), err, status


def _cmp(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "s")
    if len(names) != 2:
        raise Unsure
    found, err, _ = inputs(player, "cmp", names)
    if err:
        return "", err.splitlines(keepends=True)[0] if "s" not in flags else "", 2
    a, b = (text for _, text in found)
    if a == b:
        return "", "", 0
    if "s" in flags:
        return "", "", 1
    at = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    if at is None:
        shorter = names[0] if len(a) < len(b) else names[1]
        size = min(len(a), len(b))
        if not size:
            return "", f"cmp: EOF on {shorter} which is empty\n", 1
        lines = a[:size].count("\n")
        where = f"line {lines}" if a[:size].endswith("\n") else f"in line {lines + 1}"
        return "", f"cmp: EOF on {shorter} after byte {size}, {where}\n", 1
    return f"{names[0]} {names[1]} differ: byte {at + 1}, line {a[:at].count(chr(10)) + 1}\n", "", 1


def unified(a: list[str], b: list[str]) -> str:
    """The hunks of `diff -u`, without the names above them."""
    out = ""
    if len(a) * len(b) > MAX_PAIRS:
        raise Unsure
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        spans = [_span(first[1], last[2]), _span(first[3], last[4])]
        out += f"@@ -{spans[0]} +{spans[1]} @@\n"
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                out += "".join(f" {line}\n" for line in a[a1:a2])
            else:
                out += "".join(f"-{line}\n" for line in a[a1:a2]) + "".join(f"+{line}\n" for line in b[b1:b2])
    return out


def _span(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _fold(player: Player, words: list[str], node: Simple) -> Answer:
    width, names, rest = 80, [], words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-w?(\d*)", word):
            width = int(match[1] or (rest.pop(0) if rest else "80"))
        elif word.startswith("-"):
            raise Unsure
        else:
            names.append(word)
    found, err, status = inputs(player, "fold", names)
    made = [line[n : n + width] for _, t in found for line in lines_of(t) for n in range(0, max(len(line), 1), width)]
    return joined(made), err, status


def _expand(player: Player, words: list[str], node: Simple) -> Answer:
    size, names, rest = 8, [], words[1:]
    while rest:
        word = rest.pop(0)
        if match := re.fullmatch(r"-t?(\d*)", word):
            size = int(match[1] or (rest.pop(0) if rest else "8"))
            if size > 80:
                raise Unsure
        else:
            names.append(word)
    found, err, status = inputs(player, "expand", names)
    return "".join(line.expandtabs(size) for _, t in found for line in t.splitlines(keepends=True)), err, status


TOOLS: dict[str, Tool] = {
    "sort": sort, "uniq": _uniq, "cut": _cut, "paste": _paste, "comm": _comm, "join": _join, "tr": _tr, "od": _od,
    "cmp": _cmp, "fold": _fold, "expand": _expand,
}  # fmt: skip
