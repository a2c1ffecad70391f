"""Perl, Ruby, PHP and Lua, as far as it is worth it: texts that literals add up to, programs that are started."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from detect.shell_expand import unescape

LANGUAGES = frozenset(["perl", "ruby", "php", "lua", "lua5.3", "lua5.4"])
MAX_CODE = 16384
_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|qq?\{[^{}]*\}|qq?\([^()]*\)|qq?/[^/]*/"
_NUMBERS = r"\d{1,3}(?:\s*,\s*\d{1,3})*"
_FORMS = re.compile(
    rf"(?P<hex>pack\s*\(?\s*[\"']H\*[\"']\s*,\s*(?P<hexed>{_TEXT})\s*\)?)"
    rf"|(?P<codes>(?:pack\s*\(?\s*[\"']C\*[\"']\s*,|string\.char\s*\(|chr\s*\()\s*(?P<numbers>{_NUMBERS})\s*\)?)"
    rf"|(?P<list>\[(?P<listed>{_NUMBERS})\]\.pack\s*\(?\s*[\"'][cCU]\*[\"']\s*\)?)"
    rf"|(?P<back>(?:scalar\s+)?(?:reverse|strrev|string\.reverse)\s*\(?\s*(?P<reversed>{_TEXT})\s*\)?)"
    rf"|(?P<decode>(?:decode_base64|base64_decode|Base64\.decode64|unpack1?)\s*\(?\s*(?P<coded>{_TEXT})\s*\)?)"
    rf"|(?P<joined>join\s*\(?\s*(?:''|\"\")\s*,\s*\(?(?P<parts>(?:{_TEXT})(?:\s*,\s*(?:{_TEXT}))*)\s*\)*)"
    rf"|(?P<text>{_TEXT})(?P<method>\.reverse|:reverse\(\))?"
)
_BETWEEN = re.compile(r"\s*(?:\.\.?|\+|<<)\s*")
_QUOTED = re.compile(_TEXT)
_STARTS = re.compile(r"\b(?:system|exec|popen|os\.execute|io\.popen|shell_exec|passthru|IO\.popen|Kernel\.system|qx)\b")
_BACKQUOTED = re.compile(r"`([^`]+)`|qx\{([^{}]+)\}|qx\(([^()]+)\)|%x\{([^{}]+)\}")
_PRINT = re.compile(r"^\s*(?:use \S+;\s*)?(?:print|puts|echo|io\.write|say)\b")


def _unquoted(text: str) -> str:
    inside = re.sub(r"^qq?", "", text)[1:-1]
    return inside if text.startswith("'") else unescape(inside)


def _value(match: re.Match[str]) -> str | None:
    try:
        if match["hex"]:
            return bytes.fromhex(_unquoted(match["hexed"])).decode("latin-1")
        if match["codes"] or match["list"]:
            return "".join(chr(int(number) & 255) for number in (match["numbers"] or match["listed"]).split(","))
        if match["back"]:
            return _unquoted(match["reversed"])[::-1]
        if match["decode"]:
            return base64.b64decode(_unquoted(match["coded"])).decode("latin-1")
        if match["joined"]:
            return "".join(_unquoted(part) for part in _QUOTED.findall(match["parts"]))
        return _unquoted(match["text"])[:: -1 if match["method"] else 1]
    except (ValueError, binascii.Error):
        return None


def texts(code: str) -> Iterator[str]:
    """Every string that the code adds up, one that is joined with its neighbours as a whole."""
    turned = re.search(
        r"\b(?:tr|y)/([^/]+)/([^/]+)/|\.tr\(\s*['\"]([^'\"]+)['\"]\s*,\s*['\"]([^'\"]+)['\"]", code[:MAX_CODE]
    )
    if turned:
        from detect.shell_output import _tr

        given = (turned[1] or turned[3], turned[2] or turned[4])
        for match in _QUOTED.finditer(code[:MAX_CODE]):
            if (text := _tr(given, _unquoted(match[0]))) is not None:
                yield text
    whole, end = "", -1
    for match in _FORMS.finditer(code[:MAX_CODE]):
        value = _value(match)
        if value is None:
            continue
        between = _BETWEEN.fullmatch(code, end, match.start()) if end >= 0 else None
        if between is None and whole:
            yield whole
            whole = ""
        whole += value
        end = match.end()
    if whole:
        yield whole


def scripts(code: str) -> Iterator[str]:
    """What the code has a shell run."""
    code = code[:MAX_CODE]
    for match in _BACKQUOTED.finditer(code):
        yield match[1] or match[2] or match[3] or match[4]
    for match in _STARTS.finditer(code):
        rest = code[match.end() : match.end() + 1000].split(";", 1)[0]
        found = list(texts(rest))
        if found:
            yield found[0] if " " in found[0] else " ".join(found)


def printed(code: str) -> str | None:
    """What a program prints that does nothing but print one text."""
    if _PRINT.match(code) is None or code.count(";") > 1:
        return None
    found = list(texts(code))
    return found[0] if len(found) == 1 else None
