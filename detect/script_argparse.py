"""`argparse` for a Python program that is run by hand: CPython's own parser is asked, on plain values.

The text that it prints is that of a sandbox without a terminal, 80 columns wide.
"""

from __future__ import annotations

import argparse
import posixpath
from typing import TYPE_CHECKING

from detect.script_values import PLAIN, Ends, Inner, Kind, Native
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions


NOTHING = object()
"""A value that is None, where None says that there is none."""


class _Stops(Exception):
    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text


class _Parser(argparse.ArgumentParser):
    said = ""

    def _print_message(self, message: str, file: object = None) -> None:
        self.said += message

    def exit(self, status: int = 0, message: str | None = None) -> None:  # type: ignore[override]
        raise _Stops(status, self.said + (message or ""))


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=78)


class Parser:
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


class Namespace:
    def __init__(self, values: dict[str, object]) -> None:
        self.values = values


def members() -> dict[str, object]:
    return {"ArgumentParser": Native(_made)}


def _plain(values: dict) -> dict:
    """Keywords as the real parser takes them; a type is CPython's own."""
    found = {key: value.kind if isinstance(value, Kind) else value for key, value in values.items()}
    if not all(isinstance(value, PLAIN) or value in (int, float, str) for value in found.values()):
        raise Unsure
    return found


def _made(interpreter: Expressions, arguments: list, keywords: dict) -> Parser:
    if arguments or set(keywords) - {"description", "prog", "epilog", "usage", "add_help"}:
        raise Unsure
    prog = keywords.pop("prog", None) or posixpath.basename(interpreter.around.argv[0]) or "-c"
    return Parser(_Parser(prog=prog, formatter_class=_formatter, **_plain(keywords)))


def attribute(holder: object, name: str) -> object | None:
    """Of a parser or what it found; None if it is neither. Raises Inner, Unsure."""
    if isinstance(holder, Namespace):
        if name not in holder.values:
            raise Inner(AttributeError(f"'Namespace' object has no attribute '{name}'"))
        value = holder.values[name]
        return NOTHING if value is None else value
    if not isinstance(holder, Parser):
        return None
    if name == "add_argument":
        return Native(lambda _, a, k: _added(holder, a, k))
    if name in ("parse_args", "error"):
        return Native(lambda i, a, k: _parsed(i, holder, name, a))
    raise Unsure


def _added(holder: Parser, arguments: list, keywords: dict) -> None:
    if not all(isinstance(a, str) for a in arguments):
        raise Unsure
    try:
        holder.parser.add_argument(*arguments, **_plain(keywords))
    except (TypeError, ValueError):
        raise Unsure from None


def _parsed(interpreter: Expressions, holder: Parser, name: str, arguments: list) -> object:
    given = arguments[0] if arguments else interpreter.around.argv[1:]
    try:
        if name == "error":
            holder.parser.error(str(given))
        found = holder.parser.parse_args(given)
    except _Stops as stops:
        if stops.status == 0:
            interpreter.around.write(stops.text)
            raise Ends(0) from None
        raise Ends(stops.status, stops.text) from None
    return Namespace(vars(found))
