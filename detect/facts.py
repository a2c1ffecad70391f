"""What an action does, as far as can be told without running it: the facts that rules look at.

An action goes in (`read_facts`), a flat tuple of facts comes out: programs with resolved arguments, paths touched,
modules imported, functions called, strings. All languages are read through their usual disguises (quotes,
variables, here-documents, code in strings, folded constants). What cannot be resolved is a fact of its own
(`opaque`). Nothing here decides anything, runs anything, or looks at the file system, and time is bounded: beyond
`MAX_BYTES` only the text is left to look at.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from detect import assembled, decoded, traits
from detect.paths import resolve
from queues.messages import Action

if TYPE_CHECKING:
    from detect.earlier import Earlier

log = logging.getLogger(__name__)

FactKind = Literal["command", "path", "import", "call", "string", "opaque", "trait"]
Access = Literal["", "read", "write", "run", "list", "mention"]
Language = Literal["shell", "python", "c", "cpp", "make", "cmake", "go", "rust", "java", "javascript", "text"]

MAX_BYTES = 128 * 1024
"""Code longer than this is not read (opaque `too_large`): no honest action comes near it, and reading must be fast."""
MAX_DEPTH = 10
"""How deep code may be nested in code (`sh -c "python3 -c '...'"`) before the rest is opaque."""
MAX_FACTS = 4000
MAX_WORK = 300_000
"""Work that may be spent on one action, in about characters looked at; the rest is opaque `too_complex`."""
WORKSPACE = "/work"

EXTENSIONS: dict[str, Language] = {
    ".py": "python",
    ".pyw": "python",
    ".sh": "shell",
    ".bash": "shell",
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hpp": "cpp",
    ".mk": "make",
    ".cmake": "cmake",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascript",
    ".ts": "javascript",
    ".md": "text",
    ".rst": "text",
    ".txt": "text",
    ".json": "text",
}
SHEBANGS: tuple[tuple[str, Language], ...] = (
    ("python", "python"),
    ("sh", "shell"),
    ("make", "make"),
    ("node", "javascript"),
)
NAMES: dict[str, Language] = {
    "Makefile": "make",
    "makefile": "make",
    "GNUmakefile": "make",
    "CMakeLists.txt": "cmake",
}


_SHELL_LIKE = re.compile(rb"\s*(?:exec|set -|eval|export|cd)\s+\S")
_INTERPRETERS = (b"sh", b"python", b"perl", b"node", b"awk", b"ruby", b"lua", b"php", b"make", b"sed", b"tcl", b"bc")


class Fact(msgspec.Struct, frozen=True):
    """One thing the action does.

    `value` is the program (base name), normalised path, module, dotted function name, text, or reason, by `kind`.
    `written` is the file the code would be written into, None for code that runs with the action itself.
    `span` is a byte range of the action's body, `line` counts from 1 in the innermost piece of code. `given` and `by`
    tell a fake how the tool would have named the thing: the argument as it was written, and who would have used it;
    `unit` is what the interpreter calls the code (`bash`, `sh`, `<string>`, `<stdin>`, or a file's name), and
    `excerpt` the lines of code that a traceback shows of it.
    """

    kind: FactKind
    value: str
    language: Language
    args: tuple[str, ...] = ()
    access: Access = ""
    written: str | None = None
    span: tuple[int, int] = (0, 0)
    line: int = 1
    given: str = ""
    by: str = ""
    unit: str = ""
    excerpt: str = ""


Place = tuple[tuple[int, int], int, str]
"""The `span`, `line` and `excerpt` of a fact."""


class Found(msgspec.Struct, eq=False):
    """A fact as rules look at it. Of most nobody asks where they are, which takes as long to tell as to find them."""

    kind: FactKind
    value: str
    language: Language
    args: tuple[str, ...]
    access: Access
    written: str | None
    given: str
    by: str
    unit: str
    place: Place | Callable[[], Place]
    """Where it is, or what tells that later; must not raise then."""
    _fact: Fact | None = None

    @classmethod
    def of(cls, fact: Fact) -> Found:
        place = (fact.span, fact.line, fact.excerpt)
        said = (fact.kind, fact.value, fact.language, fact.args, fact.access, fact.written)
        return cls(*said, fact.given, fact.by, fact.unit, place, fact)

    @property
    def fact(self) -> Fact:
        """All of it, always the same object."""
        if self._fact is None:
            span, line, excerpt = self.place() if callable(self.place) else self.place
            said = (self.kind, self.value, self.language, self.args, self.access, self.written)
            self._fact = Fact(*said, span, line, self.given, self.by, self.unit, excerpt)
        return self._fact


class Code(msgspec.Struct, frozen=True):
    """One piece of code found in the action: `data` in `language`, starting at byte `offset` of the body.

    `offset` is None when the code does not stand in the body as it is (decoded, unquoted): then `span` says where
    it came from.
    """

    language: Language
    data: bytes
    written: str | None
    offset: int | None
    span: tuple[int, int]
    valid: bool = True
    """False for Python that does not parse: it cannot run, and parsers recover from errors slowly."""


class Origin(msgspec.Struct, frozen=True):
    """Where a piece of code comes from: `span` of the action's body, the file it would be `written` into.

    `offset` is where the code stands in the body as it is, None where it does not (decoded, unquoted). `cwd` is the
    folder it runs in, None when unknown; `unit` what its interpreter calls it.
    """

    span: tuple[int, int]
    written: str | None = None
    offset: int | None = None
    depth: int = 0
    cwd: str | None = WORKSPACE
    unit: str = ""

    def within(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the action's body that a part of the code is, or comes from."""
        return self.span if self.offset is None else (self.offset + start, self.offset + end)


class Facts(msgspec.Struct, frozen=True):
    found: tuple[Found, ...]
    codes: tuple[Code, ...]
    text: str
    """The whole body, one character per byte (latin-1), so that spans of regular expressions are byte ranges."""
    links: dict[str, str] = {}
    """Symbolic links that the action makes."""

    @property
    def items(self) -> tuple[Fact, ...]:
        return tuple(found.fact for found in self.found)

    def of(self, kind: FactKind) -> Iterable[Fact]:
        return (found.fact for found in self.found if found.kind == kind)


class TooComplex(Exception):
    """The action is too much work to read. What was found so far stays."""


class Sink:
    """Collects facts while an action is read, and knows where in the action the reader is."""

    def __init__(self, earlier: Earlier | None = None) -> None:
        self.found: list[Found] = []
        self.codes: list[Code] = []
        self.earlier = earlier
        self.argv: list[str] = []
        """Arguments of the program that is read next, where they are known."""
        self.links: dict[str, str] = dict(earlier.links) if earlier is not None else {}
        """Symbolic links that the action made: link -> target, normalised."""
        self.looked_at: list[bytes] = []
        """Files of earlier steps that this one runs or reads."""
        self._seen: set[tuple[str, str | None, bytes]] = set()
        self._known: set[tuple] = set()
        self._work = MAX_WORK

    def spend(self, work: int) -> None:
        """Account for `work` before doing it; raises TooComplex when the action has used up what it may."""
        self._work -= work
        if self._work < 0:
            raise TooComplex

    def earlier_file(self, path: str | None) -> bytes | None:
        """The content of a file that an earlier step wrote."""
        found = None if path is None or self.earlier is None else self.earlier.get(path)
        if found is not None:
            self.looked_at.append(found)
        return found

    def is_new(
        self, kind: FactKind, value: str, args: tuple[str, ...], access: Access, written: str | None, by: str
    ) -> bool:
        """Whether no fact has said this yet; one that says the same as an earlier one adds nothing."""
        before = len(self._known)
        self._known.add((kind, value, args, access, written, by))
        return len(self._known) > before

    def keep(self, found: Found) -> None:
        if len(self.found) < MAX_FACTS:
            self.found.append(found)
        elif len(self.found) == MAX_FACTS:
            self.found.append(Found.of(Fact("opaque", "too_many_facts", found.language, span=found.fact.span)))

    def add(self, fact: Fact) -> None:
        if self.is_new(fact.kind, fact.value, fact.args, fact.access, fact.written, fact.by):
            self.keep(Found.of(fact))

    def read(self, data: bytes, language: Language, origin: Origin) -> None:
        """Read one piece of code into facts. Code already read under the same name is not read twice."""
        from detect import c_reader, cmake_reader, code_reader, make_reader, python_reader, shell_reader

        key = (language, origin.written, data)
        if key in self._seen:
            return
        self._seen.add(key)
        written, span = origin.written, origin.span
        if len(data) > MAX_BYTES or origin.depth > MAX_DEPTH:
            reason = "too_large" if len(data) > MAX_BYTES else "too_deep"
            self.add(Fact("opaque", reason, language, written=written, span=span))
            return
        valid = True
        if written is not None and written.rpartition("/")[2] == "package.json":
            self._scripts(data, origin)
        if data.startswith(b"#!") and written is not None:
            self._interpreter(data, origin)
        if language == "text" and written is not None:
            self._other(data, written, origin)
        if language == "shell":
            shell_reader.read(self, data, origin)
        elif language == "make":
            make_reader.read(self, data, origin)
        elif language == "python":
            valid = python_reader.read(self, data, origin)
        elif language in ("c", "cpp"):
            c_reader.read(self, data, language, origin)
        elif language in ("go", "rust", "java", "javascript"):
            code_reader.read(self, data, language, origin)
        elif language == "cmake":
            cmake_reader.read(self, data, origin)
        self.look(data, language, origin, valid=valid)

    def look(self, data: bytes, language: Language, origin: Origin, *, valid: bool = True) -> None:
        """All that the text of a piece of code tells without being read."""
        from detect.reader import harmless

        named = language not in ("shell", "make", "cmake", "text") and len(data) <= assembled.MAX_TEXT
        if named and not harmless(language, data, origin.written):
            if assembled.computes_letters(data):
                self._letters(data, language, origin)
            self._pieces(data, language, origin)
        if origin.depth < 4 and valid:
            self._traits(data, language, origin)
        self.codes.append(Code(language, data, origin.written, origin.offset, origin.span, valid))

    def _traits(self, data: bytes, language: Language, origin: Origin) -> None:
        """What the code is able to do, or can only do."""
        path = None if origin.written is None else resolve(origin.written, WORKSPACE)
        recorded = self.earlier.recorded() if self.earlier is not None else frozenset()
        for name, (start, end) in traits.found(language, path, data, recorded):
            self.spend(len(data) // 8)
            span = origin.within(start, end)
            self.add(Fact("trait", name, language, written=origin.written, span=span))

    def _pieces(self, data: bytes, language: Language, origin: Origin) -> None:
        """Literals next to each other that are a name only together."""
        found = assembled.pieces(data)
        if found is not None:
            text, (start, end) = found
            span = origin.within(start, end)
            self.add(Fact("opaque", "hidden_name", language, (text,), written=origin.written, span=span))

    def _letters(self, data: bytes, language: Language, origin: Origin) -> None:
        """Names that the code computes letter by letter: what they are, or that they are not known."""

        def opaque(reason: str, args: tuple[str, ...], place: tuple[int, int]) -> None:
            span = origin.within(*place)
            line = data.count(b"\n", 0, place[0]) + 1
            self.add(Fact("opaque", reason, language, args, written=origin.written, span=span, line=line))

        self.spend(len(data) // 4)
        for text, place in assembled.hidden_texts(data):
            opaque("hidden_name", (text,), place)
        if (place := assembled.assembled(data, language)) is not None:
            opaque("computed_name", (), place)

    def _interpreter(self, data: bytes, origin: Origin) -> None:
        """A file whose first line names an interpreter starts that: `#!/usr/bin/env -S reference` is a wrapper."""
        line = data[2:258].split(b"\n", 1)[0].strip()
        words = line.replace(b"-S", b" ").split()
        if words and not any(name in line for name in _INTERPRETERS):
            self.read(b" ".join(words), "shell", msgspec.structs.replace(origin, offset=None, depth=origin.depth + 1))

    def _other(self, data: bytes, written: str, origin: Origin) -> None:
        """Files of languages that only tools read: patches, gdb's commands, awk programs."""
        from detect import script_reader, shell_codes

        ending = written.rpartition(".")[2]
        if ending in ("pl", "pm", "rb", "php", "lua", "tcl") or b"perl" in data[:40]:
            code = data.decode("latin-1")
            self.spend(len(code) // 2)
            for text in script_reader.texts(code):
                if text.startswith("/") and " " not in text and "\n" not in text and len(text) < 1024:
                    where = resolve(text, WORKSPACE, self.links)
                    if where is not None:
                        self.add(Fact("path", where, "text", (), "read", written, origin.span, given=text, by=ending))
            for script in script_reader.scripts(code):
                self.read(
                    script.encode("latin-1", "replace"),
                    "shell",
                    msgspec.structs.replace(origin, offset=None, depth=origin.depth + 1),
                )
            return
        inside = msgspec.structs.replace(origin, offset=None, depth=origin.depth + 1)
        if ending in ("patch", "diff"):
            for path, left in shell_codes.patched(data.decode("latin-1")):
                text = left.encode("latin-1")
                self.read(text, language_of(path, text), msgspec.structs.replace(inside, written=path))
        elif ending in ("gdb", "gdbinit"):
            for language, code in shell_codes.gdb(data.decode("latin-1")):
                self.read(code.encode("latin-1"), "python" if language == "python" else "shell", inside)
        elif (ending == "awk" or b"awk" in data[:40]) and shell_codes.awk_hides(data.decode("latin-1")):
            self.add(Fact("opaque", "computed_name", "text", written=written, span=origin.span))

    def _scripts(self, data: bytes, origin: Origin) -> None:
        """npm runs the `scripts` of a package.json."""
        try:
            scripts = msgspec.json.decode(data, type=dict[str, object]).get("scripts")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        inside = msgspec.structs.replace(origin, offset=None, depth=origin.depth + 1)
        for script in list(scripts.values())[:64] if isinstance(scripts, dict) else ():
            if isinstance(script, str):
                self.read(script.encode("utf-8", "replace"), "shell", inside)


def language_of(path: str, data: bytes) -> Language:
    """The language of a file, from its name, else from its first line."""
    name = path.rsplit("/", 1)[-1]
    if name in NAMES:
        return NAMES[name]
    dot = name.rfind(".")
    if dot > 0 and name[dot:].lower() in EXTENSIONS:
        return EXTENSIONS[name[dot:].lower()]
    if data.startswith(b"#!"):
        first = data[:200].split(b"\n", 1)[0].decode("latin-1")
        for word, language in SHEBANGS:
            if word in first:
                return language
    if dot < 0 and _SHELL_LIKE.match(data):
        return "shell"  # what has no first line is run by the shell that is asked to
    return "text"


def read_facts(action: Action, earlier: Earlier | None = None) -> Facts:
    """All facts of one action, in the light of what earlier ones left behind.

    Never raises on hostile input; what is too large or too deep is an `opaque` fact.
    """
    body = action.body
    path = action.path if action.kind == "write" else None
    language = "shell" if path is None else language_of(path, body)
    sink, origin = _begun(body, path, earlier)
    try:
        sink.read(body, language, origin)
    except Exception as error:
        # a reader that fails must not cost the episode: what it found stays, and the rest counts as not understood
        if not isinstance(error, TooComplex | RecursionError):
            log.exception("an action of %d bytes could not be read to its end", len(body))
        sink.add(Fact("opaque", "too_complex", language, written=path, span=origin.span))
    return _ended(sink, body, language, origin)


def facts_of_text(path: str, body: bytes, language: Language, earlier: Earlier | None = None) -> Facts:
    """What the text of a written file tells without being read. Raises TooComplex."""
    sink, origin = _begun(body, path, earlier)
    sink.look(body, language, origin)
    return _ended(sink, body, language, origin)


def _begun(body: bytes, path: str | None, earlier: Earlier | None) -> tuple[Sink, Origin]:
    sink = Sink(earlier)
    if path is not None and (where := resolve(path, WORKSPACE)) is not None:
        sink.add(Fact("path", where, "text", access="write", written=path, given=path, by="write"))
    return sink, Origin((0, len(body)), written=path, offset=0)


def _ended(sink: Sink, body: bytes, language: Language, origin: Origin) -> Facts:
    text = body.decode("latin-1")
    for found, place in decoded.hidden(text, language):
        line = body.count(b"\n", 0, place[0]) + 1
        sink.add(Fact("opaque", "hidden_text", language, (found[:200],), written=origin.written, span=place, line=line))
    said = text if not sink.looked_at else "\n".join([text, *(data.decode("latin-1") for data in sink.looked_at)])
    for name, found in list(decoded.assembled(sink.found, said)):
        sink.add(msgspec.structs.replace(found.fact, kind="opaque", value="assembled", args=(name,), access=""))
    return Facts(tuple(sink.found), tuple(sink.codes), text, sink.links)
