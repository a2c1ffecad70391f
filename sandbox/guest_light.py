"""Stand-ins for parts of the standard library that cost more to import than all the rest of the guest.

Loaded first of the guest's modules. `signal`, `contextlib`, `typing` and `json` pull in `enum`, `re`, `functools` and
`collections`: 10 ms of every start, and 2 MiB in each of the guest's processes. The guest uses so little of them that
the interpreter's own parts will do. Runs inside the container; what is missing here fails at the first start.
"""

from __future__ import annotations

import _collections_abc
import sys

_Module = type(sys)


class suppress:
    """As `contextlib.suppress`."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


class _Scanning:
    """What the interpreter's JSON scanner wants to know."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _no_json(value: object) -> str:
    raise TypeError(f"{type(value)} cannot be written as JSON")


def _json() -> object:
    """`loads` and `dumps` on the interpreter's own scanner and encoder; the module itself where these are others."""
    try:
        import _json

        scan = _json.make_scanner(_Scanning)  # type: ignore[arg-type]
        quote = _json.encode_basestring_ascii
        encode = _json.make_encoder(None, _no_json, quote, None, ": ", ", ", False, False, True)
        encode([{"a": 1.5}], 0)
    except (ImportError, AttributeError, TypeError):
        import json

        return json

    def loads(data: bytes) -> object:
        text = data.decode("utf-8", "surrogatepass").strip(" \t\n\r")
        try:
            value, end = scan(text, 0)
        except (StopIteration, ImportError):  # the scanner fails to import the error it would raise
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("not JSON")
        return value

    return _with("json", loads=loads, dumps=lambda value: "".join(encode(value, 0)))


def remove() -> None:
    """Give what the standard library imports later the real modules. The guest's own have what they need."""
    for name in _STAND_INS:
        del sys.modules[name]


def _with(name: str, **attributes: object) -> object:
    module = _Module(name)
    module.__dict__.update(attributes)
    return module


_STAND_INS = {
    "signal": __import__("_signal"),
    "contextlib": _with("contextlib", suppress=suppress),
    "typing": _with("typing", Any=object),
    "collections.abc": _collections_abc,
    "json": _json(),
}
sys.modules.update(_STAND_INS)  # type: ignore[arg-type]
