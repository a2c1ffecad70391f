"""`json` for a Python program that is run by hand: CPython's own, with the frames that its failures have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from detect.script_plain import Opened
from detect.script_values import Inner, Native
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions

_LOADS = (
    '  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads\n'
    "    return _default_decoder.decode(s)\n"
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
)
_LOAD = (
    '  File "/usr/lib/python3.11/json/__init__.py", line 293, in load\n'
    "    return loads(fp.read(),\n"
    "           ^^^^^^^^^^^^^^^^\n"
)
_DECODE = (
    '  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode\n'
    "    obj, end = self.raw_decode(s, idx=_w(s, 0).end())\n"
    "               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
)
_SCANNED = (
    '  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode\n'
    "    obj, end = self.scan_once(s, idx)\n"
    "               ^^^^^^^^^^^^^^^^^^^^^^\n"
)
_DECODED = {
    "Expecting value": (
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n'
        '    raise JSONDecodeError("Expecting value", s, err.value) from None\n'
    ),
    "Extra data": (
        '  File "/usr/lib/python3.11/json/decoder.py", line 340, in decode\n'
        '    raise JSONDecodeError("Extra data", s, end)\n'
    ),
}


class JSONDecodeError(ValueError):
    shown = "json.decoder.JSONDecodeError"


def loaded(text: str, frames: str = "") -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        made = JSONDecodeError(str(error))
        where = _DECODE + (_DECODED.get(error.msg) or _SCANNED)
        if error.msg == "Extra data":
            where = _DECODED[error.msg]
        raise Inner(made, frames + _LOADS + where) from None


def _dumps(interpreter: Expressions, arguments: list, keywords: dict) -> str:
    if len(arguments) != 1 or set(keywords) - {"indent", "sort_keys", "ensure_ascii", "separators"}:
        raise Unsure
    if isinstance(indent := keywords.get("indent"), int) and indent > 16:
        raise Unsure
    interpreter.around.repr(arguments[0])
    return json.dumps(arguments[0], **keywords)


def _load(_: Expressions, arguments: list, keywords: dict) -> object:
    (file,) = arguments
    if not isinstance(file, Opened):
        raise Unsure
    return loaded(file.rest, _LOAD)


def _loads(_: Expressions, arguments: list, keywords: dict) -> object:
    if len(arguments) != 1 or keywords or not isinstance(arguments[0], str):
        raise Unsure
    return loaded(arguments[0])


def members() -> dict[str, object]:
    return {
        "dumps": Native(_dumps), "loads": Native(_loads), "load": Native(_load), "JSONDecodeError": JSONDecodeError,
    }  # fmt: skip
