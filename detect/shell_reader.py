"""Reads a shell script into facts: the programs it would start, with resolved arguments, in order.

The script is walked as a flat sequence of simple commands: variables, the working folder, files and links the script
makes, and text that is known from `echo`, here-documents and pipes are followed; branches are all taken. Code handed to
interpreters (`sh -c`, `eval`, `python3 - <<EOF`, `xargs`, `find -exec`) is read too. It must never fail or run long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from detect import script_reader, shell_codes, shell_output
from detect.facts import MAX_DEPTH, WORKSPACE, Origin, Sink, language_of
from detect.paths import UNKNOWN
from detect.shell_expand import Word
from detect.shell_paths import paths
from detect.shell_state import ShellState
from detect.shell_tables import (
    ASSIGNMENT,
    BRANCHES,
    OPTIONS_WITH_VALUE,
    PYTHON,
    RESERVED,
    SHELLS,
    WRAPPERS,
)
from detect.shell_words import Token, lex

_NODE_CODE = ("-e", "--eval", "-p", "-pe", "--print", "eval")


_READERS = frozenset(
    [
        *(
            "cat",
            "ls",
            "cp",
            "mv",
            "head",
            "tail",
            "less",
            "more",
            "tac",
            "nl",
            "od",
            "xxd",
            "base64",
            "dd",
            "source",
            ".",
        ),
        *("sh", "bash", "python3", "eval", "exec", "find", "tar", "sed", "awk", "grep", "cd", "strings"),
    ]
)
"""Programs that open what they are given."""
MAX_BODY = 400
"""Characters of a loop or function that is read once more for each value or call."""
MAX_CALLS = 4
MAX_VALUES = 24
_POSITIONAL = re.compile(r"\becho\b|\bprintf\b|\$(?:[1-9@*]|\{[1-9@*])")
_ADDS = re.compile(r"\b([A-Za-z_]\w*)(?:\+=|=[^;\n]*\$\{?\1\b)")
"""A variable that is added to."""


def read(sink: Sink, data: bytes, origin: Origin) -> None:
    ShellReader(sink, data.decode("latin-1"), origin).run()


class ShellReader(ShellState):
    # --- the walk -----------------------------------------------------------------------------------------------

    def run(self) -> str | None:
        """Read the whole script; returns what it would print, when all of that is known."""
        saved: list[tuple[dict[str, str], str | None]] = []
        words: list[Token] = []
        redirects: list[tuple[Token, Token | None]] = []
        piped: str | None = None
        in_case: list[bool] = []
        """One entry for each open `case`: True while a pattern is expected."""
        branches = 0
        """How many `if`, `for`, `while` and `case` are open."""
        loops: list[tuple[int, dict[str, str]]] = []
        """Where loops end whose variables are known from then on."""
        sure = True
        """Whether the next command runs whatever the one before it does."""
        self.sink.spend(len(self.text))
        tokens = lex(self.text)
        index = 0
        while index < len(tokens):
            token = tokens[index]
            index += 1
            if token.kind == "word":
                if in_case and in_case[-1] and token.text != "esac":
                    continue
                if token.text == "esac" and in_case and not words:
                    in_case.pop()
                    branches -= 1
                    continue
                if not words and token.text in BRANCHES:
                    branches = max(branches + BRANCHES[token.text], 0)
                if not words and token.text in RESERVED:
                    if token.text in ("{", "while", "until") and piped is not None:
                        self.group, piped = piped, None
                    elif token.text in ("}", "done"):
                        self.group = None
                    if token.text == "do" and self.looping is not None:
                        after = self._iterate(tokens, index)
                        if after is not None:
                            loops.append(after)
                    elif token.text == "done" and loops and loops[-1][0] == index:
                        self.variables.update(loops.pop()[1])
                    continue
                if len(words) == 2 and words[0].text == "function" and token.text == "{":
                    if branches == 0 and sure and not saved:
                        self._define(words[1].text, tokens, index - 1)
                    words = []
                    continue
                words.append(token)
                if len(words) == 3 and words[0].text == "case" and token.text == "in":
                    in_case.append(True)
                    words = []
                continue
            if (token.kind == "operator" and token.text[0] in "<>") or token.text in ("&>", "&>>"):
                target = tokens[index] if index < len(tokens) and tokens[index].kind == "word" else None
                index += target is not None
                redirects.append((token, target))
                continue
            if token.text == "(":
                if in_case and in_case[-1]:
                    continue
                named = len(words) == 1 or (len(words) == 2 and words[0].text == "function")
                if named and index < len(tokens) and tokens[index].text == ")":
                    index += 1
                    if branches == 0 and sure and not saved:
                        self._define(words[-1].text, tokens, index)
                    words = []
                    continue
                if words and ASSIGNMENT.match(words[-1].text) and words[-1].text.endswith("="):
                    index = self._array(words.pop(), tokens, index)
                    continue
                saved.append((dict(self.variables), self.cwd))
            elif token.text == ")" and in_case and in_case[-1]:
                in_case[-1] = False
                words = []
                continue
            pipes = token.text in ("|", "|&")
            sure = token.text in ("\n", ";", "&", "(", ")")
            output = self._simple(words, redirects, piped)
            if not pipes and (words or redirects):
                self.output.append(output)
            piped = output if pipes else None
            if pipes and not words and not redirects:
                piped = None
            words, redirects = [], []
            if token.text == ")" and saved:
                variables, self.cwd = saved.pop()
                self.variables.clear()
                self.variables.update(variables)
            if token.text in (";;", ";&", ";;&") and in_case:
                in_case[-1] = True
        if words or redirects:
            self.output.append(self._simple(words, redirects, piped))
        if self.own_files:
            for path, content in self.files.items():
                if path.startswith("/dev/"):
                    continue
                data = content.encode("latin-1", "replace")
                origin = Origin(self.origin.span, path, None, self.depth + 1, self.cwd)
                self.sink.read(data, language_of(path, data), origin)
        known = [part for part in self.output if part is not None]
        return "".join(known) if len(known) == len(self.output) else None

    def _array(self, name: Token, tokens: list[Token], index: int) -> int:
        """`name=( words )`: elements as `name[0]`, `name[1]`, ...; all of them as `name[@]`."""
        match = ASSIGNMENT.match(name.text)
        values: list[str] = []
        while index < len(tokens) and tokens[index].text != ")":
            if tokens[index].kind == "word" and len(values) < 64:
                keyed = re.match(r"\[(\w+)\]=(.*)", tokens[index].text, re.S)
                if keyed and match:
                    self.variables[f"{match.group(1)}[{keyed[1]}]"] = self.expander.value(keyed[2])
                for word in self.expander.words(tokens[index].text):
                    values.append(word.text)
                    if word.is_glob:
                        self.word_path(word, "list", "array")
            index += 1
        if match:
            key = match.group(1)
            self.variables[key] = values[0] if values else ""
            for number, value in enumerate(values):
                self.variables[f"{key}[{number}]"] = value
            self.variables[f"{key}[@]"] = self.variables[f"{key}[*]"] = " ".join(values)
        return index + 1

    def _define(self, name: str, tokens: list[Token], index: int) -> None:
        """A function is defined whose body begins at or after `tokens[index]`."""
        self.functions.add(name)
        while index < len(tokens) and tokens[index].kind == "newline":
            index += 1
        if index >= len(tokens) or tokens[index].text != "{":
            return
        end = _closing(tokens, index + 1, {"{"}, "}")
        body = self.text[tokens[index].end : tokens[end].start] if end is not None else ""
        if len(body) < MAX_BODY and _POSITIONAL.search(body):
            self.bodies[name] = body

    def _called_with(self, name: str, values: Sequence[str]) -> str | None:
        """Reads the body of a function with the arguments of a call; a few calls of each are enough."""
        times = self.called.get(name, 0)
        if times >= MAX_CALLS or self.depth >= MAX_DEPTH - 2 or name not in self.bodies:
            return None
        self.called[name] = times + 1
        before = {key: self.variables.get(key) for key in (*map(str, range(1, 10)), "@", "*")}
        for key in before:
            self.variables.pop(key, None)
        self._positional(values)
        output = self.script(self.bodies[name])
        for key, value in before.items():
            if value is None:
                self.variables.pop(key, None)
            else:
                self.variables[key] = value
        return output

    def _iterate(self, tokens: list[Token], index: int) -> tuple[int, dict[str, str]] | None:
        """The body of a loop that adds to variables, read for each value in turn: where it ends, what it leaves."""
        assert self.looping is not None
        name, values = self.looping
        self.looping = None
        end = _closing(tokens, index, {"do"}, "done")
        body = self.text[tokens[index].start : tokens[end].start] if end is not None and index < len(tokens) else ""
        if end is None or not body or len(body) > MAX_BODY or self.depth >= MAX_DEPTH - 2:
            return None
        if not _ADDS.search(body):
            return None
        saved = dict(self.variables)
        for value in values[:MAX_VALUES]:
            self.variables[name] = value
            self.script(body.rstrip().removesuffix(";"))
        left = {key: value for key, value in self.variables.items() if saved.get(key) != value and key != name}
        self.variables.clear()
        self.variables.update(saved)
        return end + 1, left

    # --- one simple command --------------------------------------------------------------------------------------

    def _simple(
        self, tokens: list[Token], redirects: list[tuple[Token, Token | None]], stdin: str | None
    ) -> str | None:
        if not tokens and not redirects:
            return None
        self.sink.spend(20)
        self.token = tokens[0] if tokens else redirects[0][0]
        self.end = max(
            [token.end for token in (*tokens[-1:], *(redirects[-1] if redirects else ())) if token is not None]
        )
        to_file: list[tuple[str, bool]] = []
        from_file = False
        for operator, target in redirects:
            raw = target.text if target else ""
            if operator.text in ("<<", "<<-"):
                body = operator.heredoc or ""
                stdin = body if operator.literal else self.expander.body(body)
            elif operator.text == "<<<":
                stdin = self.expander.value(raw) + "\n"
            elif not (operator.text in (">&", "<&") and re.fullmatch(r"\d+|-", raw)):
                for word in self.expander.words(raw)[:1]:
                    reading = operator.text[0] == "<"
                    self.word_path(word, "read" if reading else "write", "")
                    if reading:
                        from_file = True
                        stdin = self._content(word.text)
                    else:
                        to_file.append((word.text, ">>" in operator.text))
        words: list[Word] = []
        leading = True
        for token in tokens:
            assignment = ASSIGNMENT.match(token.text) if leading else None
            if assignment:
                self._assign(assignment)
                continue
            leading = False
            words += self.expander.words(token.text)
        if (
            stdin is None
            and self.group is not None
            and words
            and words[0].text in ("read", "cat", "xargs", "sh", "bash")
        ):
            stdin = self.group
        if self.computed and words:
            self._uses_computed(words[0].text, tokens)
        output = self._command(words, stdin) if words else (stdin if from_file else "")
        for path, append in to_file:
            self._write(path, output, append)
            output = ""
        return output

    def _uses_computed(self, name: str, tokens: list[Token]) -> None:
        """A program or file whose name is put together from single letters is not known, and meant not to be."""
        named = [token.text.strip('"') for token in tokens]
        used = [
            n
            for n in self.computed
            if f"${n}" in named[0] or any(t.startswith((f"${n}", f"${{{n}}}")) for t in named[1:])
        ]
        if used and (name in _READERS or UNKNOWN in name):
            self._opaque("computed_name")

    def _command(self, words: Sequence[Word], stdin: str | None, nesting: int = 0, by: str = "") -> str | None:
        """Read one program with its arguments; `by` is the program that starts it, if not the shell."""
        program = words[0].text
        name = program.rstrip("/").rsplit("/", 1)[-1]
        args = tuple(word.text for word in words[1:])
        if UNKNOWN in program:
            self._opaque("unknown_program")
            name = UNKNOWN if not name.replace(UNKNOWN, "") else name
        if name in ("for", "select"):
            return self._loop(words)
        if name == "function":
            return ""
        if program in self.functions and nesting == 0:
            paths(self, name, words[1:])
            return self._called_with(program, args)
        self._fact("command", name, args, given=program, by=by)
        if "/" in program or words[0].is_glob:
            self.word_path(words[0], "run", name)
        before = self.cwd
        if nesting < 6 and (inner := self._wrapped(name, words)) is not None:
            output = self._command(inner, stdin, nesting + 1, name)
            if name == "env":
                self._set_cwd(before)  # `env -C folder` is for the program it starts
            return output
        if name not in ("eval", "trap", "alias"):
            paths(self, name, words[1:])
        return self._special(name, words, args, stdin, nesting)

    def _wrapped(self, name: str, words: Sequence[Word]) -> Sequence[Word] | None:
        """The command behind `env`, `timeout 5`, `nohup`, `busybox`, ...; None when there is none."""
        if name in ("busybox", "toybox") and len(words) > 1 and not words[1].text.startswith("-"):
            return words[1:]
        if name not in WRAPPERS:
            return None
        valued = OPTIONS_WITH_VALUE.get(name, ())
        index = 1
        while index < len(words):
            text = words[index].text
            if name == "env" and text.startswith(("-S", "--split-string=")):
                given = re.sub(r"^(-S|--split-string=)", "", text) or (
                    words[index + 1].text if index + 1 < len(words) else ""
                )
                rest = words[index + 1 + (text == "-S") :]
                return [*(Word(part, part) for part in given.split()), *rest] or None
            if name == "command" and text in ("-v", "-V"):
                return None
            if text.startswith("-"):
                if name == "env" and (folder := re.match(r"(?:-C|--chdir=?)(.*)", text)):
                    target = folder.group(1) or (words[index + 1].text if index + 1 < len(words) else "")
                    self._set_cwd(self._resolve(target))
                index += 2 if text in valued else 1
            elif name == "env" and (assignment := ASSIGNMENT.match(text)):
                self._assign(assignment)
                index += 1
            else:
                break
        if name in ("timeout", "chroot"):
            index += 1
        return words[index:] if index < len(words) else None

    def _special(
        self, name: str, words: Sequence[Word], args: tuple[str, ...], stdin: str | None, nesting: int
    ) -> str | None:
        """Commands that change what is known (folder, variables, files) or that are given code."""
        if name in ("cd", "pushd"):
            targets = [a for a in args if not a.startswith("-")]
            home = name == "cd" and not args
            known = targets and UNKNOWN not in targets[0]
            self._set_cwd(WORKSPACE if home else self._resolve(targets[0]) if known else None)
            return ""
        if name in ("export", "declare", "local", "readonly", "typeset"):
            for arg in args:
                if assignment := ASSIGNMENT.match(arg):
                    if "-n" in args:
                        self.references[assignment.group(3)] = assignment.group(1)
                        self.variables[assignment.group(1)] = self.variables.get(assignment.group(3), UNKNOWN)
                        continue
                    self._assign_known(assignment.group(1), assignment.group(3))
            return ""
        if name in ("read", "mapfile", "readarray"):
            names = [a for a in args if re.fullmatch(r"[A-Za-z_]\w*", a)] or ["REPLY"]
            between = self.variables.get("IFS", " \t\n")
            by = between[0] if between.strip() and len(between) == 1 else None
            line = stdin.split("\n", 1)[0] if stdin else ""
            if "-a" in args or "-ra" in args or name != "read":
                parts = (stdin or "").split("\n") if name != "read" else line.split(by)
                for number, part in enumerate(parts[:64]):
                    self.variables[f"{names[-1]}[{number}]"] = part
            if len(names) == 1 and stdin and "\n" in stdin.rstrip("\n") and name == "read":
                # the condition of a loop over lines
                self.looping = (names[0], stdin.rstrip("\n").split("\n"))
            values = line.split(by, len(names) - 1) if stdin else []
            for number, variable in enumerate(names):
                self.variables[variable] = values[number] if number < len(values) else UNKNOWN
            return ""
        if name == "set" and args[:1] and (args[0] == "--" or args[0][:1] not in "-+"):
            self._positional(args[args[0] == "--" :])
            return ""
        if name == "shift":
            number = int(args[0]) if args and args[0].isdigit() else 1
            given = [self.variables.pop(str(position), None) for position in range(1, 10)]
            self._positional([value for value in given[number:] if value is not None])
            return ""
        if name == "printf" and args[:1] == ("-v",) and len(args) > 2:
            printed = shell_output.output(
                name, args[2:], stdin, cwd=self.cwd, content=self._content, resolve=self._resolve
            )
            self.variables[args[1]] = UNKNOWN if printed is None else printed
            return ""
        if name == "unset":
            self.functions.difference_update(args)
            return ""
        if name == "eval":
            return self.script(" ".join(args))
        if name == "trap" and args:
            return self.script(args[0])
        if name == "alias":
            for arg in args:
                if "=" in arg:
                    self.script(arg.split("=", 1)[1])
            return ""
        if name == "ln":
            self._link(args)
            return ""
        if name == "tee":
            for arg in args:
                if not arg.startswith("-"):
                    self._write(arg, stdin, "-a" in args)
            return stdin
        if name == "xargs":
            return self._xargs(words, stdin, nesting)
        if name == "find":
            self._find(words, nesting)
            return None
        if name in SHELLS or name in (".", "source"):
            return self._shell(name, args, stdin)
        if PYTHON.fullmatch(name):
            self._python(args, stdin)
            return None
        if name in ("node", "nodejs", "bun", "deno"):
            code = next((args[n + 1] for n, a in enumerate(args[:-1]) if a in _NODE_CODE), None)
            if code is None and not any(a for a in args if not a.startswith("-")):
                code = stdin
            if code is not None:
                self._read(code, "javascript", self.written, "[eval]")
            return None
        if name in ("gcc", "cc", "g++", "clang", "tcc") and "-" in args and stdin is not None:
            self._read(stdin, "c", self._output_name(args))
            return None
        if name in ("gdb", "lldb", "cgdb"):
            self._gdb(args, stdin)
            return None
        if name == "patch" or (name == "git" and ("apply" in args or "am" in args)):
            self._patch(args, stdin)
            return None
        if name in ("awk", "gawk", "mawk", "nawk", "original-awk", "busybox"):
            self._awk(args)
        if name in ("cpio", "pax", "tar", "rsync", "zip") and (named := self._listed(args, stdin)) is not None:
            for line in named.split("\n")[:64]:
                self.word_path(Word(line.strip(), line.strip()), "read", name)
            return None
        if name in ("ed", "ex") and stdin is not None:
            for match in re.finditer(r"^\d*[reEw]!? +(\S+)", stdin, re.M):
                self.word_path(Word(match[1], match[1]), "read", name)
            for match in re.finditer(r"^[\d,$]*(?:r *|w *|e *)?!(.+)", stdin, re.M):
                self.script(match[1])
            return None
        if name == "sed":
            for arg in args:
                # GNU sed runs what `s///e` leaves, and what `e` is given
                if match := re.search(
                    r"s([^\w\s\\])(?:[^\\]|\\.)*?\1((?:[^\\]|\\.)*?)\1[gp\d]*e|(?:^|;)\d*e +(.+)", arg
                ):
                    self.script(match[2] or match[3] or "")
        if name in ("make", "gmake") and stdin is not None:
            self._read(stdin, "make", self.written)
            return None
        if name in script_reader.LANGUAGES:
            return self._other(name, args, stdin)
        return shell_output.output(name, args, stdin, cwd=self.cwd, content=self._content, resolve=self._resolve)

    def _gdb(self, args: tuple[str, ...], stdin: str | None) -> None:
        """gdb's commands, from options, files and pipes: Python and shell in them, and where they connect to."""
        scripts = [self._content(".gdbinit") or "", stdin or ""]
        for number, arg in enumerate(args):
            following = args[number + 1] if number + 1 < len(args) else ""
            if arg in ("-ex", "--ex", "-iex", "--eval-command", "-ix"):
                scripts.append(following)
            elif arg in ("-x", "--command", "-s"):
                scripts.append(self._content(following) or "")
            elif match := re.match(r"--?(?:ex|eval-command|command|iex)=(.*)", arg, re.S):
                scripts.append(self._content(match[1]) or match[1])
        for script in scripts:
            if not script.strip():
                continue
            self.sink.spend(len(script))
            for line in script.split("\n")[:200]:
                if re.match(r"\s*tar(get)?\s", line):
                    self._fact("command", "gdb", (line.strip(),), by="gdb")
            for language, code in shell_codes.gdb(script):
                if language == "python":
                    self._read(code, "python", self.written, "<string>")
                else:
                    self.script(code)

    def _patch(self, args: tuple[str, ...], stdin: str | None) -> None:
        """What a patch leaves in the files that it changes counts as written to them."""
        named = [content for arg in args if not arg.startswith("-") and (content := self._content(arg)) is not None]
        if "-i" in args[:-1]:
            named.append(self._content(args[args.index("-i") + 1]) or "")
        for text in [*named, stdin or ""][:8]:
            self.sink.spend(len(text))
            for path, left in shell_codes.patched(text):
                self.word_path(Word(path, path), "write", "patch")
                where = self._resolve(path)
                if where is not None:
                    self._read(left, language_of(where, left.encode("latin-1", "replace")), where)

    def _awk(self, args: tuple[str, ...]) -> None:
        program = ""
        for number, arg in enumerate(args):
            if arg == "-f" and number + 1 < len(args):
                program += self._content(args[number + 1]) or ""
            elif arg in ("-e", "--source") and number + 1 < len(args):
                program += args[number + 1]
            elif not program and not arg.startswith("-") and ("{" in arg or "BEGIN" in arg):
                program = arg
        self.sink.spend(len(program) // 4)
        if program and shell_codes.awk_hides(program):
            self._opaque("computed_name")

    def _other(self, name: str, args: tuple[str, ...], stdin: str | None) -> str | None:
        """Code that Perl, Ruby, PHP or Lua is given by an option or a pipe; what it prints, if that is known."""
        code = next((args[n + 1] for n, a in enumerate(args[:-1]) if re.fullmatch(r"-\w*[eErR]", a)), None)
        if code is None and not any(not a.startswith("-") for a in args):
            code = stdin
        if code is None:
            return None
        self.sink.spend(len(code))
        for text in script_reader.texts(code):
            if text.startswith("/") and " " not in text:
                self.word_path(Word(text, text), "read", name)
        for script in script_reader.scripts(code):
            self.script(script)
        return script_reader.printed(code)

    # --- code in commands ----------------------------------------------------------------------------------------

    def script(self, script: str, unit: str = "") -> str | None:
        """Read `script` as running here and now: it shares variables, files and the working folder."""
        inner = self._inner(script, unit)
        if inner is None:
            return None
        output = inner.run()
        self.variables.update(inner.variables)
        self._set_cwd(inner.cwd)
        return output

    def _inner(self, script: str, unit: str) -> ShellReader | None:
        if script.replace(UNKNOWN, "").strip() == "":
            self._opaque("unknown_script")
            return None
        if self.depth >= MAX_DEPTH:
            self._opaque("too_deep")
            return None
        origin = Origin(self.located(None)[0], self.written, None, self.depth + 1, self.cwd, unit or self.unit)
        return ShellReader(self.sink, script, origin, parent=self)

    def substitute(self, script: str) -> str | None:
        """What `$(script)` prints, when that is known; the variables and the folder it changes stay its own."""
        inner = self._inner(script, "")
        return None if inner is None else inner.run()

    def pipe(self, direction: str, script: str) -> str:
        """The name of `<(script)`: a file that holds what the script prints; what `>(script)` is sent is not known."""
        output = self.substitute(script)
        path = f"/dev/fd/{63 - sum(name.startswith('/dev/fd/') for name in self.files)}"
        if direction == "<" and output is not None:
            self.files[path] = output
        return path

    def _shell(self, name: str, args: tuple[str, ...], stdin: str | None) -> str | None:
        for number, arg in enumerate(args):
            if name in SHELLS and re.fullmatch(r"-[a-z]*c", arg) and number + 1 < len(args):
                self._positional(args[number + 2 :], 0)
                return self.script(args[number + 1], self._called(name))
            if arg.startswith("-") and arg != "-":
                continue
            content = self._content(arg)
            if content is not None:
                self._positional(args[number + 1 :])
                return self.script(content, arg if name in SHELLS else self.unit)
            if UNKNOWN in arg:
                self._opaque("unknown_script")
            if arg not in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
                return None
        if stdin is None:
            self._opaque("unknown_script")
            return None
        return self.script(stdin, self._called(name))

    def _called(self, name: str) -> str:
        return {"dash": "sh", "ash": "sh"}.get(name, name) if name in SHELLS else self.unit

    def _python(self, args: tuple[str, ...], stdin: str | None) -> None:
        for number, arg in enumerate(args):
            if re.fullmatch(r"-[A-Za-z]*c", arg) and number + 1 < len(args):
                self._read(args[number + 1], "python", self.written, "<string>")
                return
            if re.fullmatch(r"-[A-Za-z]*m", arg) and number + 1 < len(args):
                self._fact("command", args[number + 1], args[number + 2 :], by="python3 -m")
                return
            if arg in ("-W", "-X") or (arg.startswith("-") and arg != "-"):
                continue
            if arg not in ("-", "/dev/stdin"):
                # a file of this very script is read as what it is: written
                content = self.sink.earlier_file(self._resolve(arg))
                if content is not None and self.written is None:
                    self.sink.argv = list(args[number:])
                    self._read(content.decode("latin-1"), "python", None, arg)
                    self.sink.argv = []
                return
        if stdin is not None:
            self._read(stdin, "python", self.written, "<stdin>")

    def _xargs(self, words: Sequence[Word], stdin: str | None, nesting: int) -> str | None:
        index = 1
        placeholder = ""
        while index < len(words) and words[index].text.startswith("-"):
            text = words[index].text
            if text.startswith("-I"):
                placeholder = text[2:] or (words[index + 1].text if index + 1 < len(words) else "")
            index += 2 if text in OPTIONS_WITH_VALUE["xargs"] else 1
        command = list(words[index:]) or [Word("echo", "echo")]
        if nesting >= 6:
            return None
        if stdin is None:
            if command[0].text in SHELLS:
                self._opaque("unknown_script")
            if placeholder:
                command = [
                    Word(w.text.replace(placeholder, UNKNOWN), w.text.replace(placeholder, UNKNOWN)) for w in command
                ]
            return self._command(command, None, nesting + 1, "xargs")
        values = (stdin.strip("\n").split("\n") if placeholder else stdin.split())[:64]
        if placeholder:
            outputs = []
            for value in values:
                replaced = [w.text.replace(placeholder, value) for w in command]
                outputs.append(self._command([Word(t, t) for t in replaced], None, nesting + 1, "xargs"))
            return "".join(o for o in outputs if o) if all(o is not None for o in outputs) else None
        return self._command([*command, *(Word(value, value) for value in values)], None, nesting + 1, "xargs")

    def _find(self, words: Sequence[Word], nesting: int) -> None:
        for number, word in enumerate(words):
            if word.text in ("-exec", "-execdir", "-ok", "-okdir") and nesting < 6:
                command = []
                for part in words[number + 1 :]:
                    if part.text in (";", "+"):
                        break
                    command.append(part)
                if command:
                    self._command(command, None, nesting + 1, "find")

    def _listed(self, args: tuple[str, ...], stdin: str | None) -> str | None:
        """The list of files that an archiver is given."""
        for number, arg in enumerate(args):
            match = re.fullmatch(r"(?:-[a-zA-Z]*T|--files-from)=?(.*)", arg)
            if match:
                file = match[1] or (args[number + 1] if number + 1 < len(args) else "-")
                return stdin if file in ("-", "/dev/stdin") else self._content(file)
        return stdin if args[:1] and re.match(r"-\w*[opw]", args[0]) and not any("f" in a for a in args[:1]) else None

    def _output_name(self, args: tuple[str, ...]) -> str:
        return args[args.index("-o") + 1] if "-o" in args[:-1] else "a.out"

    def _loop(self, words: Sequence[Word]) -> str:
        """`for name in words`: the variable takes all values, so the body is read with them side by side."""
        if len(words) > 3:
            values = words[3:]
            for word in values:
                self.word_path(word, "list" if word.is_glob else "mention", "for")
            self.variables[words[1].text] = values[0].text if len(values) == 1 else UNKNOWN
            if len(values) > 1 and all(word.known and not word.is_glob for word in values):
                self.looping = (words[1].text, [word.text for word in values])
            interesting = [w.text for w in values if w.text.startswith("/") or "/" in w.text]
            if interesting:
                self.variables[words[1].text] = interesting[0]
        elif len(words) > 1:
            self.variables[words[1].text] = UNKNOWN
        return ""


def _closing(tokens: list[Token], index: int, opening: set[str], closing: str) -> int | None:
    """Where the group ends that was opened before `tokens[index]`."""
    level = 1
    for number in range(index, min(len(tokens), index + 200)):
        text = tokens[number].text
        if text in opening:
            level += 1
        elif text == closing:
            level -= 1
            if not level:
                return number
    return None
