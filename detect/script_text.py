"""Programs that read and filter text, in the player's world."""

from __future__ import annotations

import base64
import difflib
import hashlib
import re
from typing import TYPE_CHECKING

from detect import fake_words, shell_output
from detect.script_tools import NOTHING, Answer, Tool, content, missing, options
from detect.script_world import Unsure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from detect.script_grammar import Simple
    from detect.script_player import Player


def _inputs(player: Player, name: str, names: Sequence[str]) -> tuple[list[tuple[str, str]], str, int]:
    """(given, text) of every file that can be read, or standard input; the complaints about the others, the status."""
    if not names:
        text, player.stdin = player.stdin or "", ""
        return [("", text)], "", 0
    found, err, status = [], "", 0
    for given in names:
        text, said = content(player, name, given)
        if text is None:
            err, status = err + said[1], max(status, said[2])
        else:
            found.append((given, text))
    return found, err, status


def _filter(allowed: str, change: Callable[[str, str], str], *, stops: bool = False) -> Tool:
    """A program that prints the changed text of its files."""

    def tool(player: Player, words: list[str], node: Simple) -> Answer:
        flags, names = options(words[1:], allowed)
        found, err, status = _inputs(player, words[0], names)
        if stops and err:
            return "", err.splitlines(keepends=True)[0], status
        return change("".join(text for _, text in found), flags), err, status

    return tool


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=False) if "\r" not in text and "\f" not in text and "\v" not in text else _unsure()


def _unsure() -> list[str]:
    raise Unsure


def _joined(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def _cat(text: str, flags: str) -> str:
    if "n" in flags:
        return "".join(f"{n:6}\t{line}" for n, line in enumerate(text.splitlines(keepends=True), 1))
    return text


def _sort(text: str, flags: str) -> str:
    lines = _lines(text)
    if "n" in flags:
        if not all(re.fullmatch(r"\d+", line) for line in lines):
            raise Unsure
        lines = sorted(lines, key=int)
    else:
        lines = sorted(lines)
    if "u" in flags:
        lines = list(dict.fromkeys(lines))
    return _joined(lines[::-1] if "r" in flags else lines)


def _sort_lines(player: Player, words: list[str], node: Simple) -> Answer | None:
    """`sort`, by one field if asked to."""
    rest, key = [], ""
    for word in words[1:]:
        if match := re.fullmatch(r"-k(\d)(?:,\1)?(n?)", word):
            key, rest = match[1], [*rest, "-n"] if match[2] else rest
        else:
            rest.append(word)
    if not key:
        return _sort_plain(player, words, node)
    flags, names = options(rest, "nr")
    found, err, status = _inputs(player, "sort", names)
    rows = _lines("".join(text for _, text in found))
    fields = [row.split()[int(key) - 1 :][:1] for row in rows]
    values = [field[0] if field else "" for field in fields]
    if len(set(values)) != len(values) or ("n" in flags and not all(re.fullmatch(r"\d+", v) for v in values)):
        raise Unsure
    if "n" not in flags and any(re.search(r"\s", row.strip()) and row != row.strip() for row in rows):
        raise Unsure
    order = sorted(range(len(rows)), key=lambda n: int(values[n]) if "n" in flags else values[n], reverse="r" in flags)
    return _joined([rows[n] for n in order]), err, status


def _paste(player: Player, words: list[str], node: Simple) -> Answer:
    """`paste -s`: all lines in one."""
    match = re.fullmatch(r"paste -s ?-?d ?(\S)( \S+)?", " ".join(words))
    if match is None:
        raise Unsure
    found, err, status = _inputs(player, "paste", [match[2].strip()] if match[2] and match[2] != " -" else [])
    if err:
        raise Unsure
    return match[1].join(_lines(found[0][1])) + "\n", "", status


def _uniq(text: str, flags: str) -> str:
    groups: list[list] = []
    for line in _lines(text):
        if groups and groups[-1][0] == line:
            groups[-1][1] += 1
        else:
            groups.append([line, 1])
    return "".join(f"{count:7} {line}\n" if "c" in flags else f"{line}\n" for line, count in groups)


def _ends(player: Player, words: list[str], node: Simple) -> Answer:
    """head, tail"""
    count, names, rest = "10", [], words[1:]
    while rest:
        word = rest.pop(0)
        if word in ("-n", "-c"):
            if word == "-c":
                raise Unsure
            count = rest.pop(0) if rest else ""
        elif match := re.fullmatch(r"-n?(\+?\d+)", word):
            count = match.group(1)
        elif word.startswith("-"):
            raise Unsure
        else:
            names.append(word)
    if not re.fullmatch(r"\d+", count) and not (words[0] == "tail" and re.fullmatch(r"\+\d+", count)):
        raise Unsure
    found, err, status = _inputs(player, words[0], names)
    out = ""
    for given, text in found:
        lines = text.splitlines(keepends=True)
        if len(names) > 1:
            out += ("\n" if out else "") + f"==> {given} <==\n"
        if count[0] == "+":
            out += "".join(lines[int(count) - 1 :])
        else:
            number = int(count)
            out += "".join(lines[:number] if words[0] == "head" else lines[len(lines) - min(number, len(lines)) :])
    return out, err, status


def _wc(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "lwc")
    found, err, status = _inputs(player, "wc", names)
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
    flags, rest = options(words[1:], "cnivqrEFHhslox")
    if not rest or "x" in flags or ("o" in flags and set(flags) & set("vclq")):
        raise Unsure
    pattern, *names = rest
    if "r" in flags:
        if not names or any(player.resolve(n) in ("/eval", "/test", "/test/hidden") for n in names):
            return ("", "", 1) if names else _raise()
        raise Unsure
    simple = re.fullmatch(r"[\w =:,;@/#<>%&\"'!~-]*", pattern) or "F" in flags
    extended = "E" in flags and re.fullmatch(r"[\w =:,.^$\[\]|()-]*", pattern)
    if not simple and not extended and not re.fullmatch(r"[\w =:,.^$\[\]*-]*", pattern):
        raise Unsure
    wanted = re.compile(re.escape(pattern) if simple else pattern, re.I if "i" in flags else 0)
    found, err, status = _inputs(player, "grep", names)
    out, hit = "", False
    for given, text in found:
        hits = [(n, row) for n, row in enumerate(_lines(text), 1) if (wanted.search(row) is None) == ("v" in flags)]
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


def _parts(wanted: re.Pattern[str], row: str, only: bool) -> list[str]:
    return [piece for m in wanted.finditer(row) if (piece := m.group())] if only else [row]


def _raise() -> Answer:
    raise Unsure


def _sed(player: Player, words: list[str], node: Simple) -> Answer:
    flags, rest = options(words[1:], "nEi")
    if not rest:
        raise Unsure
    program, *names = rest
    found, err, status = _inputs(player, "sed", names)
    if "i" in flags:
        if flags != "i" or len(found) > 1:
            raise Unsure
        for given, text in found:
            changed = shell_output._sed(program, text)
            if changed is None or player.world.writable(player.resolve(given) + ".tmp"):
                raise Unsure
            player.world.files[player.resolve(given)].text = changed
        return "", err, status
    text = "".join(text for _, text in found)
    if match := re.fullmatch(r"(\d+)(?:,(\d+))?p", program):
        lines = text.splitlines(keepends=True)
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        chosen = lines[first - 1 : last]
        if "n" not in flags and (chosen or lines):
            raise Unsure
        return "".join(chosen), err, status
    if not text:
        return "", err, status
    changed = None if flags else shell_output._sed(program, text)
    if changed is None:
        raise Unsure
    return changed, err, status


def _seq(player: Player, words: list[str], node: Simple) -> Answer:
    if not all(re.fullmatch(r"-?\d{1,6}", word) for word in words[1:]) or not 1 < len(words) < 5:
        raise Unsure
    numbers = [int(word) for word in words[1:]]
    first, step, last = (
        [1, 1, *numbers][-3:] if len(numbers) == 1 else (numbers[0], 1, numbers[-1]) if len(numbers) == 2 else numbers
    )
    if not step or abs((last - first) // step) > 10000:
        raise Unsure
    return _joined([str(n) for n in range(first, last + (1 if step > 0 else -1), step)]), "", 0


def _diff(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "qus")
    if len(names) != 2:
        raise Unsure
    found, err, _ = _inputs(player, words[0], names)
    if err:
        return "", err if words[0] == "diff" else err.splitlines(keepends=True)[0], 2
    if found[0][1] == found[1][1]:
        return NOTHING
    if "q" in flags and words[0] == "diff":
        return f"Files {names[0]} and {names[1]} differ\n", "", 1
    if flags or words[0] == "cmp":
        raise Unsure
    return _normal_diff(_lines(found[0][1]), _lines(found[1][1])), "", 1


def _normal_diff(a: list[str], b: list[str]) -> str:
    if len(a) > 40 or len(b) > 40:
        raise Unsure
    out = ""
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        left = f"{a1 + 1},{a2}" if a2 - a1 > 1 else f"{a1 + 1}" if a2 > a1 else f"{a1}"
        right = f"{b1 + 1},{b2}" if b2 - b1 > 1 else f"{b1 + 1}" if b2 > b1 else f"{b1}"
        out += f"{left}{tag[0] if tag != 'replace' else 'c'}{right}\n"
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


def _tr(player: Player, words: list[str], node: Simple) -> Answer:
    text = shell_output._tr(tuple(words[1:]), player.stdin or "")
    if text is None:
        raise Unsure
    return text, "", 0


def _cut(player: Player, words: list[str], node: Simple) -> Answer:
    line = " ".join(words[1:])
    match = re.fullmatch(r"-d ?(.) -f ?(\d)( \S+)?|-f ?(\d)( \S+)?", line)
    if match is None:
        raise Unsure
    mark, field, name, alone, other = match.groups()
    found, err, status = _inputs(player, "cut", [n.strip() for n in (name, other) if n])
    out = []
    for row in _lines("".join(text for _, text in found)):
        parts = row.split(mark or "\t")
        number = int(field or alone)
        out.append(row if len(parts) == 1 else parts[number - 1] if number <= len(parts) else "")
    return _joined(out), err, status


def _digest(player: Player, words: list[str], node: Simple) -> Answer:
    _, names = options(words[1:], "")
    found, err, status = _inputs(player, words[0], names)
    made = getattr(hashlib, words[0].removesuffix("sum"))
    return "".join(f"{made(t.encode('latin-1')).hexdigest()}  {given or '-'}\n" for given, t in found), err, status


def _base64(player: Player, words: list[str], node: Simple) -> Answer:
    flags, names = options(words[1:], "d")
    found, err, status = _inputs(player, "base64", names)
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
    if len(words) < 2 or words[1].startswith("-"):
        raise Unsure
    text = re.sub(r"\s+", " ", words[1]).strip()
    names = words[2:]
    if len(names) > 1:
        raise Unsure
    found, err, status = _inputs(player, "awk", names)
    if status:
        return "", err, 2
    rows = [line.split() for line in _lines(found[0][1])]
    if text in ("1", "{print}", "{ print }", "{print $0}", "{ print $0 }"):
        return _joined(_lines(found[0][1])), "", 0
    if match := re.fullmatch(r"\{ ?print \$(\d) ?;? ?\}", text):
        number = int(match.group(1))
        return _joined([row[number - 1] if len(row) >= number else "" for row in rows]), "", 0
    if match := re.fullmatch(r"\{ ?(\w+) ?\+= ?\$(\d) ?;? ?\} ?END ?\{ ?print \1 ?;? ?\}", text):
        number = int(match.group(2))
        values = [row[number - 1] for row in rows if len(row) >= number]
        if values and all(re.fullmatch(r"\d{1,9}", value) for value in values):
            return f"{sum(map(int, values))}\n", "", 0
    raise Unsure


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


_sort_plain = _filter("nru", _sort, stops=True)
TOOLS: dict[str, Tool] = {
    "cat": _filter("n", _cat),
    "tac": _filter("", lambda t, _: "".join(reversed(t.splitlines(keepends=True)))),
    "rev": _filter("", lambda t, _: "\n".join(line[::-1] for line in t.split("\n"))),
    "sort": _sort_lines,
    "paste": _paste,
    "uniq": _filter("c", _uniq),
    "nl": _filter("", lambda t, _: "".join(f"{n:6}\t{line}\n" for n, line in enumerate(_lines(t), 1))),
    "head": _ends,
    "tail": _ends,
    "wc": _wc,
    "grep": _grep,
    "sed": _sed,
    "seq": _seq,
    "diff": _diff,
    "cmp": _diff,
    "tee": _tee,
    "tr": _tr,
    "cut": _cut,
    "md5sum": _digest,
    "sha1sum": _digest,
    "sha256sum": _digest,
    "base64": _base64,
    "awk": _awk,
    "mawk": _awk,
    "stat": _plain,
    "od": _plain,
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
