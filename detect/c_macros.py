"""Macros with arguments that paste tokens (`##`) or make strings of them (`#`), as far as text tells.

Only code that does either is expanded; object-like macros and neighbouring literals are the reader's own matter.
"""

from __future__ import annotations

import re

MAX_MACROS = 64
MAX_TEXT = 32 * 1024
ROUNDS = 6
_DEFINE = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*define[ \t]+([A-Za-z_]\w*)\(([^)\n]*)\)[ \t]*((?:[^\n\\]|\\.|\\\n)*)$", re.M
)
_OBJECT = re.compile(r"^[ \t]*(?:#|%:)[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([^\n]{1,200})$", re.M)
_OPERATOR = re.compile(r"##|%:%:|(?<![#\w])#\s*[A-Za-z_]")


def expanded(data: bytes) -> bytes | None:
    """`data` with its pasting macros expanded; None when there are none."""
    if len(data) > MAX_TEXT or b"define" not in data:
        return None
    text = data.decode("latin-1")
    macros = {
        name: ([p.strip() for p in given.split(",")], body.replace("\\\n", " "))
        for name, given, body in _DEFINE.findall(text)[:MAX_MACROS]
    }
    if not any(_OPERATOR.search(body) for _, body in macros.values()):
        return None
    objects = {name: value.strip() for name, value in _OBJECT.findall(text)[:MAX_MACROS] if "(" not in name}
    rest = _OBJECT.sub("", _DEFINE.sub("", text))
    names = re.compile(r"\b(" + "|".join(map(re.escape, macros)) + r")\s*\(")
    words = re.compile(r"\b(" + "|".join(map(re.escape, objects)) + r")\b") if objects else None
    changed = False
    for _ in range(ROUNDS):
        before = rest
        rest = _once(rest, names, macros)
        if words is not None:
            rest = words.sub(lambda match: objects[match[1]], rest)
        if rest == before or len(rest) > 2 * MAX_TEXT:
            break
        changed = True
    return rest[: 2 * MAX_TEXT].encode("latin-1") if changed else None


def _once(text: str, names: re.Pattern[str], macros: dict[str, tuple[list[str], str]]) -> str:
    """Each outermost call of a macro replaced once; arguments are expanded before, but for those of `#`, `##`."""
    out: list[str] = []
    position = 0
    while (match := names.search(text, position)) is not None:
        args, end = _arguments(text, match.end())
        if end is None:
            break
        params, body = macros[match[1]]
        out += [
            text[position : match.start()],
            _filled(params, body, [_once(a, names, macros) if _plain(p, body) else a for p, a in _pairs(params, args)]),
        ]
        position = end
    return "".join(out) + text[position:]


def _pairs(params: list[str], args: list[str]) -> list[tuple[str, str]]:
    if params[-1:] == ["..."]:
        args = [*args[: len(params) - 1], ",".join(args[len(params) - 1 :])]
    return list(zip(params, args, strict=False))


def _plain(param: str, body: str) -> bool:
    return re.search(rf"#\s*{re.escape(param)}\b|\b{re.escape(param)}\s*##", body) is None


def _arguments(text: str, start: int) -> tuple[list[str], int | None]:
    args, level, begin = [], 0, start
    for index in range(start, min(len(text), start + 2000)):
        char = text[index]
        if char == "(":
            level += 1
        elif char == ")" and level:
            level -= 1
        elif char in ",)" and not level:
            args.append(text[begin:index].strip())
            begin = index + 1
            if char == ")":
                return args, index + 1
    return args, None


def _filled(params: list[str], body: str, args: list[str]) -> str:
    values = {("__VA_ARGS__" if p == "..." else p): a for p, a in zip(params, args, strict=False)}
    if not values:
        return re.sub(r"\s*##\s*", "", body)
    either = "|".join(map(re.escape, values))

    def one(match: re.Match[str]) -> str:
        if match[1]:
            escaped = values[match[1]].replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        return values[match[2]]

    filled = re.sub(rf"(?<!#)#\s*({either})\b|\b({either})\b", one, body)
    return re.sub(r"\s*##\s*", "", filled)
