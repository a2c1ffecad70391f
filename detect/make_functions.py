"""Text functions of make (`$(subst ...)`, `$(join ...)`, `$(word ...)`) over what is known, undone beforehand."""

from __future__ import annotations

import re

MAX_CALLS = 500
_CALL = re.compile(
    r"\$[({](subst|patsubst|strip|join|word|wordlist|words|firstword|lastword|addprefix|addsuffix|dir|notdir|basename|suffix"
    r"|foreach|call|sort|filter|filter-out|or|and|if|value)[ \t]+((?:[^$(){}]|\$[({]\w+[)}]|\$\$|\$\w)*)[)}]"
)
_VARIABLE = re.compile(r"^[ ]*(?:export\s+|override\s+)*([A-Za-z_]\w*)[ \t]*(?:[:?+!]|::)?=[ \t]*([^\n]*)$", re.M)
_DEFINE = re.compile(r"^define[ \t]+(\w+)[ \t]*=?\n(.*?)^endef", re.M | re.S)
_REFERENCE = re.compile(r"\$[({](\w+)[)}]|\$(\w)")


def expanded(makefile: str) -> str:
    """`makefile` with the text functions replaced whose arguments are known."""
    if not _CALL.search(makefile):
        return makefile
    left = [MAX_CALLS]
    for _ in range(6):
        variables = {name: value.strip() for name, value in _VARIABLE.findall(makefile)} | dict(
            _DEFINE.findall(makefile)
        )

        def known(text: str, variables: dict[str, str] = variables, depth: int = 0) -> str | None:
            if depth > 6 or len(text) > 4096:
                return None
            values = [variables.get(a or b) for a, b in _REFERENCE.findall(text)]
            if any(value is None for value in values):
                return None
            text = _REFERENCE.sub(lambda match: variables.get(match[1] or match[2]) or "", text)
            if _CALL.search(text):
                text = _CALL.sub(one, text)
            return (
                text
                if "$(" not in text and "${" not in text
                else known(text, variables, depth + 1)
                if _REFERENCE.search(text)
                else None
            )

        def one(match: re.Match[str], variables: dict[str, str] = variables, known=known) -> str:
            left[0] -= 1
            if left[0] < 0:
                return match[0]
            args = match[2].split(",")
            if match[1] in ("foreach", "call"):
                result = _repeated(match[1], args, variables, known)
            else:
                texts = [known(arg) for arg in args]
                result = (
                    None if any(text is None for text in texts) else _text(match[1], [text or "" for text in texts])
                )
            return match[0] if result is None else result

        before = makefile
        makefile = _CALL.sub(one, makefile)
        if makefile == before or left[0] < 0 or len(makefile) > 1 << 17:
            break
    return makefile


def _repeated(name, args, variables, known) -> str | None:
    if name == "foreach" and len(args) >= 3:
        items = known(args[1])
        if items is None:
            return None
        own = args[0].strip()
        parts = [
            known(re.sub(rf"\$[({{]{re.escape(own)}[)}}]", lambda _, item=item: item, ",".join(args[2:])))
            for item in items.split()[:64]
        ]
        return None if any(part is None for part in parts) else " ".join(part for part in parts if part is not None)
    body = variables.get(args[0].strip())
    if name == "call" and body is not None:
        return re.sub(r"\$[({]?(\d)[)}]?", lambda m: args[int(m[1])] if int(m[1]) < len(args) else "", body)
    return None


def _text(name: str, args: list[str]) -> str | None:
    words = args[-1].split()
    if name == "subst" and len(args) == 3 and args[0]:
        return args[2].strip().replace(args[0].strip() or args[0], args[1])
    if name == "patsubst" and len(args) == 3:
        before, _, after = args[0].strip().partition("%")
        return " ".join(
            args[1].strip().replace("%", word[len(before) : len(word) - len(after)])
            if word.startswith(before) and word.endswith(after) and "%" in args[0]
            else word
            for word in words
        )
    if name == "join" and len(args) == 2:
        left = args[0].split()
        size = max(len(left), len(words))
        return " ".join((left[n] if n < len(left) else "") + (words[n] if n < len(words) else "") for n in range(size))
    if name in ("word", "wordlist") and args[0].strip().isdigit():
        first = int(args[0])
        last = int(args[1]) if name == "wordlist" and args[1].strip().isdigit() else first
        return " ".join(words[first - 1 : last])
    if name in ("firstword", "lastword"):
        return words[0 if name == "firstword" else -1] if words else ""
    if name in ("addprefix", "addsuffix") and len(args) == 2:
        return " ".join(args[0].strip() + word if name == "addprefix" else word + args[0].strip() for word in words)
    if name == "dir":
        return " ".join(word.rpartition("/")[0] + "/" for word in words)
    if name == "notdir":
        return " ".join(word.rpartition("/")[2] for word in words)
    if name in ("strip", "or", "value"):
        return " ".join(args[0].split())
    if name == "sort":
        return " ".join(sorted(set(words)))
    return None
