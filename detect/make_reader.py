"""Reads makefiles into facts: what a makefile runs or reads is turned into shell, and read as that.

Recipes, `$(shell ...)`, includes and prerequisites count; make's variables become the shell's.
"""

from __future__ import annotations

import re

import msgspec

from detect import make_functions
from detect.facts import Origin, Sink
from detect.shell_reader import ShellReader


def read(sink: Sink, data: bytes, origin: Origin) -> None:
    ShellReader(sink, recipes(data.decode("latin-1")), msgspec.structs.replace(origin, offset=None)).run()


def recipes(makefile: str) -> str:
    """What a makefile runs or reads, as shell: recipes, `$(shell ...)`, includes; its variables as shell variables."""
    lines = []
    first = target = ""
    makefile = make_functions.expanded(makefile)
    for line in makefile.replace("\\\n", " ").split("\n"):
        line = line.replace("$$", "\x02")
        given = line if line.startswith("\t") else re.sub(r"(?:^|(?<=\s))#.*", "", line)
        variable = _MAKE_VARIABLE.match(given)
        include = re.match(r"\s*-?s?include\s+(.+)", given)
        rule = re.match(r"[^\t#=:][^=:#]*::?(?!=)\s*([^;|=]*)(?:\|[^;=]*)?(;.*)?$", given)
        if given.startswith("\t"):
            text = given.lstrip("\t@-+ ")
            text = re.sub(r"\$@|\$[({]@[)}]", lambda _, target=target: target, text)
            text = re.sub(r"\$[<^?]|\$[({][<^?][)}]", lambda _, first=first: first, text)
        elif variable:
            name, operator, value = variable.groups()
            value = value.strip()
            if not re.match(r"\$[({]shell\b", value):
                value = re.sub(r'(["`\\])', r"\\\1", value)
            if operator == "!=":
                text = f'{name}="$(shell {value})"'
            else:
                text = f'{name}+=" {value}"' if operator == "+=" else f'{name}="{value}"'
        elif include:
            text = f"cat {include.group(1)}"
        elif rule:
            target = given.split(":", 1)[0].split()[0] if given.split(":", 1)[0].split() else ""
            first = rule.group(1).split()[0] if rule.group(1).split() else ""
            text = f": {rule.group(1)}" + (rule.group(2) or "").replace(";", "\n", 1)
            if first.startswith("/") or ".." in first:
                text = f"test -e {first}; " + text
        else:
            # the body of a `define`, a bare function call
            text = given.strip() if not re.match(r"\s*(if|else|endif|define|endef|export|vpath|\.)", given) else ""
        ran = _MAKE_SHELL.findall(given) if not given.startswith("\t") else []
        text = re.sub(r"\$[({](shell\s+)?([^(){}]*)[)}]", _make_reference, text)
        lines.append("; ".join([text, *(re.sub(r"\$[({](\w+)[)}]", r"${\1}", code) for code in ran)]))
    return "\n".join(lines).replace("\x02", "$")


_MAKE_VARIABLE = re.compile(r"\s*(?:export\s+|override\s+)*([A-Za-z_]\w*)\s*((?:[:?+!]|::)?=)\s*(.*)")
_MAKE_SHELL = re.compile(r"\$[({](?:shell|file\s*<)\s*([^(){}]*(?:\$[({]\w+[)}][^(){}]*)*)[)}]")


def _make_reference(match: re.Match[str]) -> str:
    return f"$({match.group(2)})" if match.group(1) else "${" + match.group(2) + "}"
