"""Programs that read and filter text, in the player's world."""

from __future__ import annotations

import base64
import difflib
import hashlib
import re
from typing import TYPE_CHECKING

from detect import fake_words
from detect.script_awk import awk
from detect.script_filters import inputs, lines_of, unified
from detect.script_regex import Bounded, compiled
from detect.script_sed import sed
from detect.script_tools import NOTHING, Answer, Tool, missing, options
from detect.script_world import Unsure

if TYPE_CHECKING:
    from collections.abc import Callable

    from detect.script_grammar import Simple
    from detect.script_player import Player


def _filter(allowed: str, change: Callable[[str, str], str], *, stops: bool = False) -> Tool:
    """A program that prints the changed text of its files."""

    def tool(player: Player, words: list[str], node: Simple) -> Answer:
        flags, names = options(words[1:], allowed)
        found, err, status = inputs(player, words[0], names)
        if stops and err:
            return "", err.splitlines(keepends=True)[0], status
        return change("".join(text for _, text in found), flags), err, status

    return tool


def _cat(text: str, flags: str) -> str:
    if set(flags) & set("AEte"):
        if not text.isascii() or re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
            raise Unsure
        text = text.replace("\n", "$\n") if set(flags) & set("AEe") else text
        text = text.replace("\t", "^I") if set(flags) & set("At") else text
    if "n" in flags:
        return "".join(f"{n:6}\t{line}" for n, line in enumerate(text.splitlines(keepends=True), 1))
    return text


def _ends(player: Player, words: list[str], node: Simple) -> Answer:
    """head, tail"""
    count, names, rest, of_bytes, quiet = "10", [], words[1:], False, False
    while rest:
        word = rest.pop(0)
        if word == "-q":
            quiet = True
        elif word in ("-n", "-c"):
            count, of_bytes = rest.pop(0) if rest else "", word == "-c"
        elif match := re.fullmatch(r"-([nc]?)([+-]?\d+)", word):
            count, of_bytes = match[2], match[1] == "c"
        elif word.startswith("-"):
            raise Unsure
        else:
            names.append(word)
    if not re.fullmatch(r"[+-]?\d+", count) or (count[0] == "+" and words[0] == "head"):
        raise Unsure
    found, err, status = inputs(player, words[0], names)
    out = ""
    for given, text in found:
        if len(names) > 1 and not quiet:
            out += ("\n" if out else "") + f"==> {given} <==\n"
        parts = list(text) if of_bytes else text.splitlines(keepends=True)
        number = int(count.lstrip("+-"))
        if words[0] == "head":
            parts = parts[: len(parts) - number] if count[0] == "-" and number <= len(parts) else parts[:number]
            parts = [] if count[0] == "-" and number > len(text) + len(parts) else parts
        elif count[0] == "+":
            parts = parts[max(number - 1, 0) :]
        else:
            parts = parts[len(parts) - min(number, len(parts)) :]
        out += "".join(parts)
    return out, err, status


def _wc(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "lwc")
    found, err, status = inputs(player, "wc", names)
    rows = []
    for given, text in found:
        numbers = {"l": text.count("\n"), "w": len(text.split()), "c": len(text)}
        rows.append(([numbers[flag] for flag in "lwc" if flag in (flags or "lwc")], given))
    if len(names) > 1:
        sums = (
            [sum(column) for column in zip(*(row for row, _ in rows), strict=True)]
            if rows
            else [0] * len(flags or "lwc")
        )
        rows.append((sums, "total"))
    single = len(flags) == 1 and len(rows) <= 1
    size = sum(len(text) for _, text in found)
    width = 1 if single else 7 if not names else len(str(size))
    out = "".join(" ".join(f"{n:{width}}" for n in row) + (f" {given}" if given else "") + "\n" for row, given in rows)
    return out, err, status


def _grep(player: Player, words: list[str], node: Simple) -> Answer:
    given = [w for w in words[1:] if w not in ("-e", "--color=never", "--")]
    flags, rest = options(given, "cnivqrEFHhsloxwm")
    if not rest or "m" in flags or words[1:].count("-e") > 1 or ("o" in flags and set(flags) & set("vclq")):
        raise Unsure
    pattern, *names = rest
    if "r" in flags:
        if not names or any(player.resolve(n) in ("/eval", "/test", "/test/hidden") for n in names):
            return ("", "", 1) if names else _raise()
        raise Unsure
    if "F" in flags:
        wanted = Bounded(re.compile(re.escape(pattern), re.I if "i" in flags else 0))
    else:
        wanted = compiled(pattern, extended="E" in flags or words[0] == "egrep", ignore="i" in flags)
    if set(flags) & set("wx"):
        whole = rf"(?<!\w)(?:{wanted.pattern})(?!\w)" if "w" in flags else rf"\A(?:{wanted.pattern})\Z"
        wanted = Bounded(re.compile(whole, wanted.flags))
    found, err, status = inputs(player, "grep", names)
    out, hit = "", False
    for given, text in found:
        hits = [(n, row) for n, row in enumerate(lines_of(text), 1) if (wanted.search(row) is None) == ("v" in flags)]
        hit = hit or bool(hits)
        head = f"{given}:" if (len(names) > 1 or "H" in flags) and "h" not in flags else ""
        if "q" in flags:
            continue
        if "l" in flags:
            out += f"{given}\n" if hits else ""
        elif "c" in flags:
            out += f"{head}{len(hits)}\n"
        else:
            pieces = [(n, piece) for n, row in hits for piece in _parts(wanted, row, "o" in flags)]
            out += "".join(f"{head}{f'{n}:' if 'n' in flags else ''}{piece}\n" for n, piece in pieces)
    return out, "" if "s" in flags else err, (0 if hit and "q" in flags else status) or (0 if hit else 1)


def _parts(wanted: Bounded, row: str, only: bool) -> list[str]:
    return [piece for m in wanted.finditer(row) if (piece := m.group())] if only else [row]


def _raise() -> Answer:
    raise Unsure


def _diff(player: Player, words: list[str], node: Simple) -> Answer:
    rest = [w for w in words[1:] if not re.fullmatch(r"--(label|color)=.*", w)]
    labels = [w.removeprefix("--label=") for w in words[1:] if w.startswith("--label=")]
    flags, names = options(rest, "qusbw")
    if len(names) != 2:
        raise Unsure
    found, err, _ = inputs(player, words[0], names)
    if err:
        return "", err if words[0] == "diff" else err.splitlines(keepends=True)[0], 2
    if found[0][1] == found[1][1]:
        return NOTHING
    if "q" in flags and words[0] == "diff":
        return f"Files {names[0]} and {names[1]} differ\n", "", 1
    if flags == "u":
        if len(labels) == 2:
            return f"--- {labels[0]}\n+++ {labels[1]}\n" + unified(*(lines_of(t) for _, t in found)), "", 1
        # the times of the files are in the names
        raise Unsure
    if flags or not all(text.endswith("\n") or not text for _, text in found):
        raise Unsure
    return _normal_diff(lines_of(found[0][1]), lines_of(found[1][1])), "", 1


_LETTERS = {"replace": "c", "delete": "d", "insert": "a"}


def _normal_diff(a: list[str], b: list[str]) -> str:
    if len(a) > 40 or len(b) > 40:
        raise Unsure
    out = ""
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        left = f"{a1 + 1},{a2}" if a2 - a1 > 1 else f"{a1 + 1}" if a2 > a1 else f"{a1}"
        right = f"{b1 + 1},{b2}" if b2 - b1 > 1 else f"{b1 + 1}" if b2 > b1 else f"{b1}"
        out += f"{left}{_LETTERS[tag]}{right}\n"
        out += "".join(f"< {line}\n" for line in a[a1:a2]) + ("---\n" if tag == "replace" else "")
        out += "".join(f"> {line}\n" for line in b[b1:b2])
    return out


def _tee(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "a")
    err, status, text = "", 0, player.stdin or ""
    for given in names:
        path = player.resolve(given)
        if path == "/dev/null":
            continue
        if error := player.world.writable(path):
            err, status = err + f"tee: {fake_words.quote(given, always=False)}: {error}\n", 1
        else:
            player.world.create(path, append="a" in flags).write(text)
    return text, err, status


def _digest(player: Player, words: list[str], node: Simple) -> Answer:
    _, names = options(words[1:], "")
    found, err, status = inputs(player, words[0], names)
    made = getattr(hashlib, words[0].removesuffix("sum"))
    return "".join(f"{made(t.encode('latin-1')).hexdigest()}  {given or '-'}\n" for given, t in found), err, status


def _base64(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "d")
    found, err, status = inputs(player, "base64", names)
    if err:
        return "", err, status
    text = found[0][1]
    try:
        if "d" in flags:
            return base64.b64decode(re.sub(r"\s", "", text), validate=True).decode("latin-1"), "", 0
    except ValueError:
        raise Unsure from None
    return "".join(re.sub(r"(.{76})(?=.)", r"\1\n", base64.b64encode(text.encode("latin-1")).decode()) + "\n"), "", 0


def _awk(player: Player, words: list[str], node: Simple) -> Answer:
    return awk(player, words, inputs, lines_of)


def _plain(player: Player, words: list[str], node: Simple) -> Answer:
    """Programs whose output is not known here; only what they say of files that are not there."""
    names = [word for word in words[1:] if not word.startswith("-")]
    missing_ones = [
        n
        for n in names
        if not player.world.is_file(player.resolve(n)) and not player.world.is_folder(player.resolve(n))
    ]
    if not names or len(missing_ones) != len(names):
        raise Unsure
    answers = [missing(player, words[0], name) for name in names]
    return "", "".join(answer[1] for answer in answers), max(answer[2] for answer in answers)


def _plain_last(player: Player, words: list[str], node: Simple) -> Answer:
    return _plain(player, [words[0], *words[2:3]], node)


TOOLS: dict[str, Tool] = {
    "cat": _filter("nAEte", _cat),
    "tac": _filter("", lambda t, _: "".join(reversed(t.splitlines(keepends=True)))),
    "rev": _filter("", lambda t, _: "\n".join(line[::-1] for line in t.split("\n"))),
    "nl": _filter("", lambda t, _: "".join(f"{n:6}\t{line}\n" for n, line in enumerate(lines_of(t), 1))),
    "head": _ends,
    "tail": _ends,
    "wc": _wc,
    "grep": _grep,
    "sed": lambda player, words, node: sed(player, words, inputs),
    "diff": _diff,
    "tee": _tee,
    "md5sum": _digest,
    "sha1sum": _digest,
    "sha256sum": _digest,
    "base64": _base64,
    "awk": _awk,
    "mawk": _awk,
    "stat": _plain,
    "du": _plain,
    "ar": _plain_last,
    "zcat": _plain,
    "strings": _plain,
    "objdump": _plain,
    "nm": _plain,
    "readelf": _plain,
    "split": _plain,
    "fmt": _plain,
}
