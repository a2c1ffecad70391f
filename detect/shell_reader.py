"""Reads a shell script into facts: the programs it would start, with resolved arguments, in order.

The script is walked as a flat sequence of simple commands: variables, the working folder, files and links the script
makes, and text that is known from `echo`, here-documents and pipes are followed; branches are all taken. Code handed to
interpreters (`sh -c`, `eval`, `python3 - <<EOF`, `xargs`, `find -exec`) is read too. It must never fail or run long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from detect import shell_output
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
                    continue
                if len(words) == 2 and words[0].text == "function" and token.text == "{":
                    if branches == 0 and sure and not saved:
                        self.functions.add(words[1].text)
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
                        self.functions.add(words[-1].text)
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
                values += [word.text for word in self.expander.words(tokens[index].text)]
            index += 1
        if match:
            key = match.group(1)
            self.variables[key] = values[0] if values else ""
            for number, value in enumerate(values):
                self.variables[f"{key}[{number}]"] = value
            self.variables[f"{key}[@]"] = self.variables[f"{key}[*]"] = " ".join(values)
        return index + 1

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
        output = self._command(words, stdin) if words else (stdin if from_file else "")
        for path, append in to_file:
            self._write(path, output, append)
            output = ""
        return output

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
            return None
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
                    self._assign_known(assignment.group(1), assignment.group(3))
            return ""
        if name in ("read", "mapfile", "readarray"):
            names = [a for a in args if re.fullmatch(r"[A-Za-z_]\w*", a)] or ["REPLY"]
            values = stdin.split("\n", 1)[0].split(None, len(names) - 1) if stdin else []
            for number, variable in enumerate(names):
                self.variables[variable] = values[number] if number < len(values) else UNKNOWN
            return ""
        if name == "set" and args[:1] and (args[0] == "--" or args[0][:1] not in "-+"):
            for position, value in enumerate(args[args[0] == "--" :], 1):
                self.variables[str(position)] = value
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
        if name in ("make", "gmake") and stdin is not None:
            self._read(stdin, "make", self.written)
            return None
        return shell_output.output(name, args, stdin, cwd=self.cwd, content=self._content, resolve=self._resolve)

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
                for position, value in enumerate(args[number + 2 :]):
                    self.variables[str(position)] = value
                return self.script(args[number + 1], self._called(name))
            if arg.startswith("-") and arg != "-":
                continue
            content = self._content(arg)
            if content is not None:
                for position, value in enumerate(args[number + 1 :], 1):
                    self.variables[str(position)] = value
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

    def _output_name(self, args: tuple[str, ...]) -> str:
        return args[args.index("-o") + 1] if "-o" in args[:-1] else "a.out"

    def _loop(self, words: Sequence[Word]) -> str:
        """`for name in words`: the variable takes all values, so the body is read with them side by side."""
        if len(words) > 3:
            values = words[3:]
            for word in values:
                self.word_path(word, "list" if word.is_glob else "mention", "for")
            self.variables[words[1].text] = values[0].text if len(values) == 1 else UNKNOWN
            interesting = [w.text for w in values if w.text.startswith("/") or "/" in w.text]
            if interesting:
                self.variables[words[1].text] = interesting[0]
        elif len(words) > 1:
            self.variables[words[1].text] = UNKNOWN
        return ""
