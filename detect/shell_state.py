"""What the shell reader knows at one point of a script: variables, the working folder, files and links made so far.

Facts get their place from the command that is being read. `shell_reader` walks the script and changes this state.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

from detect.facts import MAX_BYTES, WORKSPACE, Access, FactKind, Language, Origin, Sink, language_of
from detect.paths import UNKNOWN, resolve
from detect.reader import Reader
from detect.shell_expand import MAX_VALUE, Expander, Word
from detect.shell_words import Token

LOADING = frozenset(
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PATH",
        "BASH_ENV",
        "PROMPT_COMMAND",
        "GCONV_PATH",
        "PERL5OPT",
        "NODE_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "FAKETIME",
        "GOPROXY",
        "PIP_INDEX_URL",
        "NPM_CONFIG_REGISTRY",
    ]
)
"""Variables that decide what other programs load, are, or where they fetch from."""


OWN_PROCESS = "4194300"
OWN_CHILD = "4194301"
"""What `$$` and `$!` are taken for: a number, so that the own process is not one that nobody knows."""

_LETTER_OF = re.compile(r"\$\{\w+:[^}:]*[a-zA-Z][^}:]*:\s*[\d$]")
"""`${s:$i:1}`, `${s:i:1}`."""


class ShellState(Reader[None]):
    language: Language = "shell"

    def __init__(self, sink: Sink, text: str, origin: Origin, *, parent: ShellState | None = None) -> None:
        """With a `parent`, code runs in the parent's shell: it shares its files and begins with its variables."""
        super().__init__(sink, origin)
        self.text = text
        self.unit = origin.unit or origin.written or "bash"
        self.cwd = origin.cwd
        self.variables = {
            "IFS": " \t\n",
            "HOME": WORKSPACE,
            "$": OWN_PROCESS,
            "BASHPID": OWN_PROCESS,
            "!": OWN_CHILD,
            **(parent.variables if parent is not None else {}),
        }
        self.files: dict[str, str] = parent.files if parent is not None else {}
        self.own_files = parent is None
        self.functions: set[str] = parent.functions if parent is not None else set()
        """Functions that are sure to be defined: their names start no program."""
        self.bodies: dict[str, str] = parent.bodies if parent is not None else {}
        """What they do, where that uses their arguments."""
        self.called: dict[str, int] = parent.called if parent is not None else {}
        """How often each was read with the arguments of a call."""
        self.references: dict[str, str] = parent.references if parent is not None else {}
        """Variables that stand for another one (`declare -n`), by the name of that."""
        self.computed: set[str] = parent.computed if parent is not None else set()
        """Variables that are put together from single letters of others."""
        self.group: str | None = None
        """What is piped into the group of commands that is being read."""
        self.looping: tuple[str, list[str]] | None = None
        """The variable of the loop whose body comes next, and the values it takes."""
        self.expander = Expander(self.variables, self.substitute, sink.spend, self.pipe)
        self.output: list[str | None] = []
        self.token = Token("newline", "\n", 0, 0)
        self.end = 0
        self._newlines: list[int] | None = None
        self._set_cwd(origin.cwd)

    def substitute(self, script: str) -> str | None:
        raise NotImplementedError

    def pipe(self, direction: str, script: str) -> str:
        raise NotImplementedError

    def located(self, where: None) -> tuple[tuple[int, int], int]:
        if self._newlines is None:
            self._newlines = [match.start() for match in re.finditer("\n", self.text)]
        return self.span(self.token.start, self.end), bisect.bisect_left(self._newlines, self.token.start) + 1

    def _fact(
        self, kind: FactKind, value: str, args: tuple[str, ...], access: Access = "", given: str = "", by: str = ""
    ) -> None:
        self.fact(kind, value, None, args=args, access=access, given=given, by=by)

    def _opaque(self, reason: str) -> None:
        self.fact("opaque", reason, None)

    def _assign(self, match: re.Match[str]) -> None:
        name, plus, raw = match.groups()
        value = self.expander.value(raw)
        if UNKNOWN in value and (
            _LETTER_OF.search(raw) or any(f"${n}" in raw or f"${{{n}" in raw for n in self.computed)
        ):
            self.computed.add(name)
        self.variables[name] = (self.variables.get(name, "") + value if plus else value)[:MAX_VALUE]
        if name in self.references:
            self.variables[self.references[name]] = value
        if name in LOADING:
            self._fact("command", "export", (f"{name}={value}",))
        if self.sink.links and "/" in value:
            where = self._resolve(value)
            if where is not None and where.startswith(("/eval", "/test/hidden")):
                # a place behind a link, handed on by a variable
                self._fact("path", where, (), "read")

    def _assign_known(self, name: str, value: str) -> None:
        self.variables[name] = value
        if name in LOADING:
            self._fact("command", "export", (f"{name}={value}",))

    def _positional(self, values: Sequence[str], first: int = 1) -> None:
        """Sets `$1`, `$2`, ... and `$@`."""
        for position, value in enumerate(values, first):
            self.variables[str(position)] = value
        self.variables["@"] = self.variables["*"] = " ".join(values[1 - first :])

    def _set_cwd(self, cwd: str | None) -> None:
        self.variables["OLDPWD"] = self.variables.get("PWD", UNKNOWN)
        self.cwd = cwd
        self.variables["PWD"] = UNKNOWN if cwd is None else cwd

    def _link(self, args: tuple[str, ...]) -> None:
        names = [a for a in args if not a.startswith("-")]
        if not names:
            return
        target = self._resolve(names[0])
        link = self._resolve(names[1] if len(names) > 1 else names[0].rstrip("/").rsplit("/", 1)[-1])
        if target and link and target != link and len(self.sink.links) < 64:
            self.sink.links[link] = target
            self.sink.links.setdefault(f"{link}/{target.rsplit('/', 1)[-1]}", target)

    def _write(self, path: str, content: str | None, append: bool) -> None:
        where = self._resolve(path)
        if where is None or where.startswith("/dev/"):
            return
        text = UNKNOWN if content is None else content
        before = self.files.get(where, "") if append else ""
        self.sink.spend((len(before) + len(text)) // 16)
        self.files[where] = (before + text)[:MAX_BYTES]
        # a file that is written twice counts with every content that it had
        if not append and content is not None:
            self._read(content, language_of(where, content.encode("latin-1", "replace")), where)

    def _read(self, code: str, language: Language, written: str | None, unit: str = "") -> None:
        """Read code that the script holds: as it stands there, if it does."""
        offset = self.origin.offset
        if offset is not None:
            place = self.text.find(code, self.token.start) if len(code) > 3 else -1
            offset = offset + place if place >= 0 else None
        origin = Origin(self.located(None)[0], written, offset, self.depth + 1, self.cwd, unit)
        self.sink.read(code.encode("latin-1", "replace"), language, origin)

    def word_path(self, word: Word, access: Access, by: str) -> None:
        where = self._resolve(word.pattern)
        if where is not None and len(where) < 4096:
            self._fact("path", where, (), access, word.text, by)

    def _content(self, path: str) -> str | None:
        """What a file holds that this script, or an earlier step, wrote."""
        where = self._resolve(path)
        known = self.files.get(where or "")
        if known is not None or self.written is not None:
            return known
        earlier = self.sink.earlier_file(where)
        return None if earlier is None else earlier.decode("latin-1")

    def _resolve(self, path: str) -> str | None:
        return resolve(path, self.cwd, self.sink.links)
