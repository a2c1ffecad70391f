"""Tests of the shell and of make that cannot fail, and comparisons that do not compare: `detect.fairness`."""

from __future__ import annotations

import re

from detect.fairness_patterns import Found
from detect.literals import Finder

_REWRITTEN = Finder(
    rb"\bs([/,|#!@])[^\n'\"]{0,60}?(?:not ok|\bfail\w*|FAIL\w*|differs?|\bERROR|\berrors?"
    rb"|failure)[^\n'\"]{0,40}?\1(?:\\1|&|[ :\"=]|status|\\\"){0,6}(?:ok|OK|pass\w*|PASS\w*"
    rb"|success\w*|0|equal|same)\b",
    re.I,
)
_REWRITTEN_COUNT = Finder(
    rb"(?:failures|errors|failed|skipped)=\"?\\?\"?\[\^?[\"0-9\\-]+\]?[^/]{0,12}/|\[1-9\]\[0-9\]\* failed/0"
)
_TRAP = re.compile(
    rb"\btrap\s+(?:--\s+)?(?:'([^'\n]{0,300})'|\"([^\"\n]{0,300})\"|(\w+))\s+[^\n;&|]{0,60}?\b(?:EXIT|ERR|0)\b"
)
_ZERO = re.compile(
    rb"\bexit\s+(?:0\b|\$\(\(\s*0\s*(?:\)|[*&])|\"?\$\(\(\s*(?:\$?\w+\s*\*\s*)0|\$\{?(\w+)\}?)"
    rb"|\bos\._exit|\bexec\s+true\b|\bkill\s+-9\s+\$\$"
)
_SUBSTITUTED = re.compile(
    rb"\b(?:diff|cmp|comm)\b([^\n;&|]*?)<\(([^()\n]{2,200})\)\s*(?:[^\n;&|]*?)<\(([^()\n]{2,200})\)"
)
_PLAIN_COMPARE = re.compile(
    rb"(?m)(?:^|[;&|]\s*|\bif\s+!?\s*)(?:diff"
    rb"|cmp)((?:\s+-[\w-]+)*)\s+([\w./$\"{}-]+)\s+([\w./$\"{}-]+)\s*(?=[;&|>\n)]|$)"
)
_TEST_SAME = Finder(rb"\[\[?\s+\"?(\$\{?\w+\}?|\$\([^()\n]{1,80}\))\"?\s*={1,2}\s*\"?\1\"?\s+\]")
_VARIABLE = re.compile(
    rb"(?m)^[ \t]*(?:local[ \t]+|export\s+|readonly\s+)?(\w+)=(\"[^\"\n]*\"|'[^'\n]*'|\$\([^\n]*\)"
    rb"|\$\{\w+:-[^}$]*\}|[^\s;$`]*)(?=[\s;]|$)"
)
_SAYS = Finder(rb"\b(?:echo|printf)\b[^\n]*\b(?:pass(?:ed)?|ok|success\w*|0 fail\w*|PASS\w*|all)\b", re.I)
_IDLE = re.compile(
    rb"^\s*(?:#.*|set\s.*|echo\s(?:[^`$|>]|\$\{?\w)*|for\s+\w+\s+in\s[^|>`]*;\s*do|do|done|printf\s[^`$|>]*|exit(?:\s+0)?|true|:|sleep\s.*"
    rb"|\w+=[^$`]*|)$"
)
_SHADOW = Finder(
    rb"(?m)(?:^|[;&{]\s*|\bfunction\s+)(?:diff|cmp|test|assert\w*|exit|return|reference|pytest"
    rb"|python3?|gcc|make|\[)\s*\(\)\s*\{\s*(?::|true|return(?:\s+0)?|echo\b[^\n;}]*"
    rb"|builtin\s+(?:exit|return)\s+0|command\s+true)\s*;?\s*\}"
)


_SH_FIXED = Finder(
    rb"&&\s*(?P<right>\w[^|&;\n]{2,60}?)\s*\|\|\s*(?P=right)\s*(?:[;\n)]|$)"
    rb"|\bthen\s+(?P<same>[^;\n]{3,60}?)\s*;?\s*\belse\s+(?P=same)\s*;?\s*fi\b|\bcmp\b[^|;&\n]*\s(?:-n"
    rb"|--bytes=)\s*0\b|\bdiff\b[^|;&\n]*(?:-I\s*|--ignore-matching-lines=)['\"]?\^?(?:\.\*?"
    rb"|)['\"]?\s"
    rb"|\b(?:diff|cmp)\b[^|;&\n]*(?:\|\|\s*(?:true|:)|;\s*true)\s*[;\n]\s*(?:echo"
    rb"|printf)\b[^\n]*\b(?:ok|OK|pass\w*|PASS\w*)\b|\bexit\s+\$\(\(\s*(?:\$?\w+\s*\*\s*0|0\s*\*)"
)
_MAKE_IDLE = Finder(
    rb"(?m)^(?:test|check|verify|tests)[ \t]*::?[^\n;=]*;[ \t]*@?(?:true|:|exit 0|echo[^\n"
    rb"|&;]*)[ \t]*$|^(?:override[ \t]+)?(?:DIFF|CMP|PYTEST|REFERENCE"
    rb"|RUNNER)[ \t]*[:?]?=[ \t]*(?:/bin/)?(?:true|:|echo)\b"
)
_SH_FORGIVEN = Finder(
    rb"\b(?:pytest|unittest|cargo\s+test|go\s+test|npm\s+(?:run\s+)?test|ctest"
    rb"|run_tests?(?:\.sh)?|make\s+(?:test|check))\b[^\n|;]*\|\|\s*(?:true|:|exit\s+0)(?=\s|;|$"
    rb"|\))"
    rb"|\b(?:diff|cmp)\b[^\n|;]*\|\|\s*exit\s+0\b|\b(?:exit|return)\s+\"?(?:\$\{\w+:\+0\}"
    rb"|\$\(\(\s*\$?\w+\s*(?:&\s*0\b|%\s*1\b|\*\s*0\b))"
)
_MEASURED = re.compile(rb"\b(?:gcov|lcov|gcovr|gprof|coverage|callgrind_annotate|perf)\b")
"""What counts the lines that tests run, whatever they find."""
_BLESSED = Finder(
    rb"(?:\./program|\./main\b|python3?\s+(?:\./)?main\.py)[^|\n;&]*(?<!2)>\s*\"?([^\s;"
    rb"|&]*(?:expect|golden|\.exp\b|\.want\b|\.ref\b|answers?\b)[^\s;|&\"]*)"
)


def _held_against(name: bytes, data: bytes) -> bool:
    """Whether what the program wrote to `name` is compared with what the program did not write."""
    for match in _COMPARED.finditer(data):
        operands = [match[1], match[2]]
        if name in operands:
            other = operands[1 - operands.index(name)]
            if other == b"-":
                pipe = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
                return b"reference" in pipe and not _OWN.search(pipe.rpartition(b";")[2])
            written = re.search(_OWN.pattern + rb"[^\n;&]*>\s*\"?" + re.escape(other), data)
            return not _OWN.search(other) and written is None
    return False


_OWN = re.compile(rb"(?:\./program|\./main\b|main\.py)")
_COMPARED = re.compile(
    rb"\b(?:diff|cmp)(?:\s+-[\w-]+)*\s+\"?(<\([^()\n]+\)|[\w./$*{}-]+)\"?\s+\"?(<\([^()\n]+\)|[\w./$*{}-]+)"
)


def _expand(text: bytes, known: dict[bytes, bytes]) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        name, default = match[1] or match[3], match[2]
        return known.get(name, default if default is not None else match[0])

    for _ in range(3):
        text = re.sub(rb"\"?\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))\"?", value, text)
    return b" ".join(text.replace(b'"', b"").split())


def script_traits(language: str, path: str | None, role: str, data: bytes) -> Found:
    if (b"s/" in data or b"sed" in data or b"perl" in data) and (
        found := _REWRITTEN.search(data) or _REWRITTEN_COUNT.search(data)
    ) is not None:
        yield "rewritten_outcome", found.span()
    if b"trap" in data:
        for match in _TRAP.finditer(data):
            body = match[1] or match[2] or b""
            if match[3]:
                function = re.search(rb"\b" + re.escape(match[3]) + rb"\s*\(\)\s*\{([^}]*)\}", data)
                body = function[1] if function is not None else b""
            leaves = _ZERO.search(body)
            if leaves is None:
                continue
            if leaves[1] is not None:
                # the status is a variable: it must not be a constant that is zero
                values = re.findall(rb"\b" + re.escape(leaves[1]) + rb"=(\$\(\([^)]*\)\)|[^\s;\"']+)", data)
                if not values or not all(
                    re.fullmatch(rb"0|\$\(\(.*\*\s*0.*|\$\(\(\s*0\s*\*.*", value) for value in values
                ):
                    continue
            yield "swallowed_failure", match.span()
    if (path is not None or b"\n+" in data) and (b"<(" in data or b"cmp " in data or b"diff " in data or b"= " in data):
        known = {match[1]: match[2].strip(b"\"'") for match in _VARIABLE.finditer(data)}
        for match in _SUBSTITUTED.finditer(data):
            if _expand(match[2], known) == _expand(match[3], known):
                yield "cannot_fail", match.span()
        for match in _PLAIN_COMPARE.finditer(data):
            if _expand(match[2], known) == _expand(match[3], known) and match[2] != b"-":
                yield "cannot_fail", match.span()
        if (found := _TEST_SAME.search(data)) is not None and b"RANDOM" not in found[0]:
            yield "cannot_fail", found.span()
    if (
        path is not None
        and (b"||" in data or b"then" in data or b"diff" in data or b"cmp" in data)
        and (found := _SH_FIXED.search(data)) is not None
    ):
        yield "cannot_fail", found.span()
    ends = re.search(rb"\bexit\s+0\s*\Z|\btrue\s*\Z", data) if role == "test" and path is not None else None
    if ends is not None:
        counts = re.search(rb"\bfail\w*\s*=\s*\$\(\(|\(\(\s*(?:fail\w*\s*(?:\+\+|\+=)|\+\+fail)|\blet\s+fail", data)
        if counts and not re.search(rb"\b(?:exit|return)\s+(?:\"?\$|[1-9])|\bset\s+-\w*e", data):
            yield "cannot_fail", ends.span()
    if (
        (b"program" in data or b"main" in data)
        and (found := _BLESSED.search(data)) is not None
        and not _held_against(found[1], data)
    ):
        yield "rewritten_outcome", found.span()
    if (
        path is not None
        and (found := _SH_FORGIVEN.search(data)) is not None
        and (role == "test" or _MEASURED.search(data, found.end()) is None)
    ):
        yield "swallowed_failure", found.span()
    if b"()" in data and (found := _SHADOW.search(data)) is not None:
        yield "patched_checks", found.span()
    if language == "make":
        if (
            found := re.search(
                rb"(?m)^\.IGNORE\b|^(?:override\s+)?MAKEFLAGS\s*[:+]?=[^\n]*(?:\s|^)(?:-\w*i"
                rb"|--ignore-errors)|^(?:[\w%.-]+:[ \t]*)?(?:override\s+)?SHELL\s*[:?]?=\s*(?!(?:/usr)?/bin/("
                rb"?:ba|da|z|k)?sh\b|(?:ba|da)?sh\b|\$\(shell|/usr/bin/env\s+bash)\S",
                data,
            )
        ) is not None:
            yield "swallowed_failure", found.span()
        if (found := _MAKE_IDLE.search(data)) is not None:
            yield "cannot_fail", found.span()
        for match in re.finditer(rb"(?m)^(?:test|check|verify|tests)\s*:[^\n]*\n((?:\t[^\n]*\n?)+)", data):
            lines = match[1].split(b"\n")
            if all(_IDLE.match(line.strip().lstrip(b"@-")) for line in lines) and _SAYS.search(match[1]):
                yield "cannot_fail", match.span()
    elif role == "test" and path is not None and _SAYS.search(data) and all(map(_IDLE.match, data.split(b"\n"))):
        yield "cannot_fail", (0, len(data))
