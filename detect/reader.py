"""What all readers share: where a piece of code comes from, and how something found in it becomes a fact.

A reader is given code and its `Origin`; a subclass says what a place in its code is (`located`). Facts that say the
same as an earlier one are dropped before anything about their place is worked out.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar

from detect.facts import Access, FactKind, Found, Language, Origin, Place, Sink, language_of
from detect.opening import harmless
from detect.paths import resolve

if TYPE_CHECKING:
    from tree_sitter import Node

Where = TypeVar("Where")
Span = tuple[int, int]
MAX_PATH = 1024


class Inside(Origin, frozen=True):
    """Where code comes from that other code executes from a string: it has the names of that."""


class Reader(Generic[Where]):
    language: Language

    def __init__(self, sink: Sink, origin: Origin) -> None:
        self.sink = sink
        self.origin = origin
        self.written = origin.written
        self.depth = origin.depth
        self.unit = origin.unit
        self.folders: list[str | None] = [origin.cwd]
        """Working folders that a relative path may start from."""
        self.harmless = False
        """Set for code that opens no files: its paths are only text."""

    def located(self, where: Where) -> tuple[Span, int]:
        """The bytes of the action's body that `where` is about, and its line in this piece of code."""
        raise NotImplementedError

    def place(self, where: Where, kind: FactKind) -> Place | Callable[[], Place]:
        """What a fact says of where it is, or what tells that when it is asked for, without keeping the reader."""
        return (*self.located(where), "")

    def span(self, start: int, end: int) -> Span:
        return self.origin.within(start, end)

    def fact(
        self,
        kind: FactKind,
        value: str,
        where: Where,
        *,
        args: tuple[str, ...] = (),
        access: Access = "",
        given: str = "",
        by: str = "",
    ) -> None:
        if not self.sink.is_new(kind, value, args, access, self.written, by):
            return
        if kind == "string" and value.startswith("#!") and "\n" in value and self.depth < 4:
            # a script that the code is about to write somewhere
            data = value.encode("latin-1", "replace")
            self.sink.read(data, language_of("", data), Origin(self.located(where)[0], "program", None, self.depth + 1))
        place = self.place(where, kind)
        self.sink.keep(Found(kind, value, self.language, args, access, self.written, given, by, self.unit, place))

    def opens_nothing(self, code: bytes) -> bool:
        """Code of a file that has nothing in it to open a file with."""
        return not isinstance(self.origin, Inside) and harmless(self.language, code, self.written)

    def path(self, text: str, access: Access, by: str, where: Where) -> None:
        """A path fact, if `text` can be a path at all."""
        if not text or len(text) > MAX_PATH or "\n" in text or " " in text.strip():
            return
        if self.harmless:
            access = "mention"
        if text.startswith("@/"):
            text = text[1:]  # a file that arguments are read from
        for cwd in self.folders:
            found = resolve(text.removeprefix("file://"), cwd, self.sink.links)
            if found is not None:
                self.fact("path", found, where, access=access, given=text, by=by)

    def inner(
        self, code: str | bytes, language: Language, where: Where, *, unit: str = "", cwd: str | None = ""
    ) -> None:
        """Read code that stands in a string of this code, as running where this code runs."""
        data = code if isinstance(code, bytes) else code.encode("latin-1", "replace")
        kind = Inside if language == self.language == "python" else Origin
        self.sink.read(
            data,
            language,
            kind(
                self.located(where)[0],
                written=self.written,
                depth=self.depth + 1,
                cwd=self.folders[0] if cwd == "" else cwd,
                unit=unit,
            ),
        )

    def program(self, words: Sequence[str], where: Where) -> None:
        """A program with an argument list, read as the shell command it amounts to."""
        if words and words[0].strip():
            quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
            self.inner(quoted, "shell", where, unit="sh", cwd=self.folders[-1])


class TreePlaces:
    """Where nodes and byte ranges of a piece of code are."""

    def __init__(self, data: bytes, origin: Origin) -> None:
        self.data = data
        self.origin = origin

    @cached_property
    def ends(self) -> list[int]:
        """Where each line ends, with its line break."""
        return list(itertools.accumulate([len(line) + 1 for line in self.data.split(b"\n")]))

    def located(self, where: Node | Span) -> tuple[Span, int]:
        start, end = where if isinstance(where, tuple) else (where.start_byte, where.end_byte)
        return self.origin.within(start, end), bisect.bisect_right(self.ends, start) + 1

    def told(self, where: Node | Span) -> Place:
        return (*self.located(where), "")


class TreeReader(Reader["Node | Span"]):
    """A reader of a tree-sitter tree: places are nodes or byte ranges of the code."""

    def __init__(self, sink: Sink, data: bytes, language: Language, origin: Origin) -> None:
        super().__init__(sink, origin)
        self.unit = ""
        self.data = data
        self.language = language
        self.places = TreePlaces(data, origin)
        self.harmless = b"/" in data and self.opens_nothing(data)

    def place(self, where: Node | Span, kind: FactKind) -> Callable[[], Place]:
        return partial(self.places.told, where)

    def located(self, where: Node | Span) -> tuple[Span, int]:
        return self.places.located(where)
