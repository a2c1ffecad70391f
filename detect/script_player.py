"""Plays a blocked script in a world held in memory: what a sandbox without decoys would have printed.

A script goes in, standard output, standard error and exit status come out. Nothing is run: control flow, variables,
redirects and the small programs of `detect.script_tools` are followed; what the cheat itself prints comes from
`detect.fake_texts`. Where the script does what cannot be told from its text, `Unsure` is raised for that command, and
`unsure` decides what it says.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence

from detect import script_arithmetic, script_conditions, script_tools, script_trace
from detect.paths import UNKNOWN
from detect.script_grammar import (
    Arithmetic,
    Block,
    Case,
    Chain,
    Condition,
    Counting,
    For,
    Function,
    If,
    Node,
    NotUnderstood,
    Pipeline,
    Simple,
    While,
    parse,
)
from detect.script_redirects import redirect
from detect.script_state import (
    ENVIRONMENT,
    MAX_DEPTH,
    MAX_STEPS,
    Exit,
    Loop,
    PlayerExpander,
    Return,
    Shared,
    Unset,
    Variables,
)
from detect.script_world import File, Unsure
from detect.shell_expand import Word
from detect.shell_tables import ASSIGNMENT


class Player:
    """One shell. `dialect` is bash or dash, `unit` how it begins its own messages."""

    def __init__(self, shared: Shared, text: str, *, unit: str = "bash", dialect: str = "bash") -> None:
        self.shared = shared
        self.world = shared.world
        self.text = text
        self.unit = unit
        self.dialect = dialect
        self.variables = Variables(ENVIRONMENT)
        self.variables["0"] = unit
        self.expander = PlayerExpander(self.variables, self._substitute, self._spend, self._pipe)
        self.functions: dict[str, Node] = {}
        self.cwd = "/work"
        self.status = 0
        self.out: File = File()
        self.err: File = File()
        self.stdin: str | None = ""
        self.options: set[str] = set()
        self.condition = 0
        self.in_function = 0
        self.top = True
        """Whether commands stand in the action's body where their offsets say."""
        self.line = 1
        self.on_exit = ""
        self.words_before: tuple[str, ...] = ()
        self.substituted: int | None = None
        self.pipes = 0
        self.base = 0
        """What is added to line numbers: code in `eval` counts from where it stands."""
        self.captured = 0
        """How deep in command substitutions it runs."""
        self.evaluated = 0
        """How deep in `eval` and `source` it runs."""
        self.opened: dict[int, str | File] = {}
        """Descriptors above 2: text to read, or a file to write."""

    def play(self) -> int:
        """The whole script, with its EXIT trap. Raises NotUnderstood, Unsure."""
        try:
            status = self._script(self.text)
        except Exit as exit_:
            status = exit_.status
        if self.on_exit:
            trap, self.on_exit = self.on_exit, ""
            self.top = False
            try:
                self._script(trap)
            except Exit as exit_:
                status = exit_.status
        return status & 255

    def _script(self, text: str) -> int:
        try:
            self.block(parse(text))
        except (Return, Loop):
            raise NotUnderstood from None
        except Unset as unset:
            self.complain(f"{unset}: unbound variable" if self.dialect == "bash" else f"{unset}: parameter not set")
            raise Exit(1 if self.dialect == "bash" else 2) from None
        return self.status

    def evaluate(self, text: str, *, here: bool = False) -> int:
        """`eval` (`here`), `source`, traps: in this shell."""
        saved = self.top, self.line, self.base
        self.top = False
        self.base = self.line - 1 if here and self.dialect == "bash" else 0
        self.evaluated += 1
        try:
            self._deeper(lambda: self.block(parse(text)))
        finally:
            self.evaluated -= 1
            self.top, self.line, self.base = saved
        return self.status

    def child(self, text: str, *, unit: str, dialect: str, arguments: Sequence[str] = ()) -> tuple[str, str, int]:
        """Another shell that plays `text`: what it prints, and its status."""
        player = Player(self.shared, text, unit=unit, dialect=dialect)
        player.cwd, player.stdin, player.top = self.cwd, self.stdin, False
        player.variables["PWD"] = self.cwd
        player.variables.update(
            {name: self.variables[name] for name in (dict.get(self.variables, "exported") or "").split()}
        )
        player.arguments(arguments)
        status = 0

        def run() -> None:
            nonlocal status
            status = player.play()

        self._deeper(run)
        return player.out.text, player.err.text, status

    def _deeper(self, run: Callable[[], object]) -> None:
        self.shared.depth += 1
        if self.shared.depth > MAX_DEPTH:
            raise Unsure
        try:
            run()
        finally:
            self.shared.depth -= 1

    def arguments(self, values: Sequence[str]) -> None:
        for number in range(1, 10):
            self.variables.pop(str(number), None)
        self.variables.update({str(number): value for number, value in enumerate(values, 1)})
        self.variables["#"] = str(len(values))
        self.variables["@"] = self.variables["*"] = " ".join(values)

    # --- words ------------------------------------------------------------------------------------------------

    def _spend(self, work: int) -> None:
        self.shared.steps += work // 256

    def _pipe(self, direction: str, script: str) -> str:
        if direction == ">":
            raise Unsure
        out, _ = self._captured(script)
        name = f"/dev/fd/{63 - self.pipes}"
        self.pipes += 1
        self.world.files[name] = File(out)
        return name

    def _substitute(self, script: str) -> str:
        if script.lstrip().startswith("<"):
            script = "cat " + script
        out, self.substituted = self._captured(script)
        return out

    def _captured(self, script: str) -> tuple[str, int]:
        shell = self.subshell()
        shell.out = File()
        shell.top = False
        shell.captured += 1
        shell.base = self.line - 1
        if self.dialect == "bash":
            shell.options.discard("e")
        status = 0

        def run() -> None:
            nonlocal status
            status = shell.finish(lambda: shell.block(parse(script)))

        self._deeper(run)
        return shell.out.text, status

    def words(self, raw: Sequence[str]) -> list[str]:
        found: list[str] = []
        for token in raw:
            if token == '"$@"':
                found += [self.variables[str(n)] for n in range(1, int(self.variables["#"]) + 1)]
                continue
            if match := re.fullmatch(r'"\$\{(!?)(\w+)\[@\](:[^}"]+)?\}"', token):
                found += self._elements(match[2], match[3] or "", keys=bool(match[1]))
                continue
            for one in _counted(token) if self.dialect == "bash" else [token]:
                for word in self.expander.words(one):
                    found += self._globbed(word)
        self.shared.spend(len(found) // 32)
        return found

    def _elements(self, name: str, rest: str, *, keys: bool) -> list[str]:
        if rest:
            return self.expander.sliced(name, rest) if not keys else []
        values = self.variables.elements(name) or []
        return list(self.variables.arrays.get(name, ())) if keys else values

    def _globbed(self, word: Word) -> list[str]:
        if UNKNOWN in word.text:
            raise Unsure
        if word.is_glob and "f" not in self.options:
            return self.world.glob(word.pattern, self.cwd) or [word.text]
        return [word.text]

    def value(self, raw: str) -> str:
        value = self.expander.value(raw)
        if UNKNOWN in value:
            raise Unsure
        return value

    def resolve(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.cwd, path)) if path else self.cwd

    # --- messages ---------------------------------------------------------------------------------------------

    def prefix(self, line: int | None = None) -> str:
        number = self.line if line is None else line
        if self.dialect == "dash":
            return f"{self.unit}: {number}: "
        unit = "environment" if self.in_function and self.unit == "bash" else self.unit
        return f"{unit}: line {number}: "

    def complain(self, message: str) -> None:
        self.err.write(f"{self.prefix()}{message}\n")

    # --- control ----------------------------------------------------------------------------------------------

    def subshell(self) -> Player:
        self.shared.work["fork"] += 1
        shell = Player(self.shared, self.text, unit=self.unit, dialect=self.dialect)
        shell.variables.take_over(self.variables)
        shell.functions = dict(self.functions)
        shell.cwd, shell.status, shell.out, shell.err, shell.stdin = (
            self.cwd, self.status, self.out, self.err, self.stdin)  # fmt: skip
        shell.options, shell.condition, shell.line, shell.top = set(self.options), self.condition, self.line, self.top
        shell.in_function, shell.opened = self.in_function, dict(self.opened)
        shell.base, shell.captured, shell.evaluated = self.base, self.captured, self.evaluated
        return shell

    def finish(self, run: Callable[[], object]) -> int:
        """`run` in this subshell to its end; the status it ends with."""
        try:
            run()
        except (Exit, Return) as exit_:
            self.status = exit_.status
        if self.on_exit:
            trap, self.on_exit = self.on_exit, ""
            status = self.status
            self.evaluate(trap)
            self.status = status
        return self.status

    def block(self, block: Block) -> None:
        for node, background in block.items:
            if background:
                self.subshell().finish(lambda node=node: self.node(node))
                self.status = 0
            else:
                self.node(node)

    def node(self, node: Node) -> None:
        self.shared.steps += 1
        if self.shared.steps > MAX_STEPS:
            raise Unsure
        if isinstance(node, Simple):
            self._simple(node)
            return self._check()
        if isinstance(node, Function):
            self.functions[node.name] = node.body
            self.status = 0
            return None
        if isinstance(node, Pipeline):
            return self._pipeline(node)
        if isinstance(node, Chain):
            return self._chain(node)
        saved = self.out, self.err, self.stdin
        try:
            if node.redirects:
                self.line = node.redirects[-1].line + self.base
            if node.redirects and not redirect(self, node.redirects):
                self.shared.failed = True
                self.status = 1 if self.dialect == "bash" else 2
                return self._check()
            self._compound(node)
        finally:
            self.out, self.err, self.stdin = saved
        checked = isinstance(node, Condition | Arithmetic) or (isinstance(node, Block) and node.subshell)
        return self._check() if checked else None

    def _check(self) -> None:
        if self.status and "e" in self.options and not self.condition:
            raise Exit(self.status)

    def _pipeline(self, node: Pipeline) -> None:
        if node.negated:
            self.condition += 1
        try:
            statuses = []
            stdin = self.stdin
            for number, part in enumerate(node.parts):
                last = number == len(node.parts) - 1
                if last and number == 0:
                    self.node(part)
                    statuses.append(self.status)
                    break
                shell = self.subshell()
                shell.stdin = stdin
                if not last:
                    shell.out = File()
                    if node.both[number]:
                        shell.err = shell.out
                statuses.append(shell.finish(lambda part=part, shell=shell: shell.node(part)))
                stdin = shell.out.text
        finally:
            if node.negated:
                self.condition -= 1
        self.status = statuses[-1]
        if "pipefail" in self.options:
            self.status = next((s for s in reversed(statuses) if s), 0)
        self.variables.arrays["PIPESTATUS"] = {str(n): str(status) for n, status in enumerate(statuses)}
        if node.negated:
            self.status = int(not self.status)
        else:
            self._check()

    def _chain(self, node: Chain) -> None:
        nodes = [(None, node.first), *node.rest]
        for number, (joint, part) in enumerate(nodes):
            if joint is not None and (joint == "&&") != (self.status == 0):
                continue
            last = number == len(nodes) - 1
            self.condition += not last
            try:
                self.node(part)
            finally:
                self.condition -= not last

    def _true(self, block: Block) -> bool:
        self.condition += 1
        try:
            self.block(block)
        finally:
            self.condition -= 1
        return self.status == 0

    def _arithmetic(self, expression: str) -> int:
        if self.dialect != "bash":
            raise Unsure
        return script_arithmetic.evaluate(self.expander.body(expression), self.variables)

    def _traced(self, expression: str) -> int:
        """A part of a counting loop."""
        script_trace.compound(self, f"(( {expression.strip()} ))")
        return self._arithmetic(expression)

    def _compound(self, node: Block | If | For | While | Case | Condition | Arithmetic | Counting) -> None:
        if isinstance(node, Block):
            if node.subshell:
                shell = self.subshell()
                self.status = shell.finish(lambda: shell.block(Block(node.items)))
            else:
                self.block(node)
        elif isinstance(node, If):
            for condition, body in node.branches:
                if self._true(condition):
                    return self.block(body)
            if node.otherwise is not None:
                return self.block(node.otherwise)
            self.status = 0
        elif isinstance(node, For):
            words = self.words(node.words if node.words is not None else ['"$@"'])
            self.status = 0
            for word in words:
                script_trace.compound(self, " ".join(["for", node.name, "in", *(node.words or ['"$@"'])]))
                self.variables[node.name] = word
                if not self._turn(node.body):
                    break
        elif isinstance(node, Condition):
            self.line = node.line + self.base
            self.status = int(not script_conditions.holds(self, node.words))
        elif isinstance(node, Arithmetic):
            self.line = node.line + self.base
            script_trace.compound(self, f"(( {node.expression} ))")
            self.status = int(not self._arithmetic(node.expression))
        elif isinstance(node, Counting):
            first, condition, step = node.parts
            self._traced(first)
            self.status = 0
            while not condition.strip() or self._traced(condition):
                if not self._turn(node.body):
                    break
                self._traced(step)
        elif isinstance(node, While):
            status = 0
            while self._true(node.condition) != node.until:
                going = self._turn(node.body)
                status = self.status
                if not going:
                    break
            self.status = status
        else:
            script_trace.compound(self, f"case {node.word} in")
            word = self.value(node.word)
            for patterns, body in node.branches:
                if any(fnmatch.fnmatchcase(word, self.value(pattern)) for pattern in patterns):
                    return self.block(body)
            self.status = 0
        return None

    def _turn(self, body: Block) -> bool:
        """One turn of a loop; False when it ends the loop."""
        try:
            self.block(body)
        except Loop as loop:
            if loop.levels > 1:
                raise Loop(loop.word, loop.levels - 1) from None
            self.status = 0
            return loop.word == "continue"
        return True

    # --- simple commands --------------------------------------------------------------------------------------

    def _simple(self, node: Simple) -> None:
        self.line = node.line + self.base
        self.variables["?"] = str(self.status)
        self.variables["LINENO"] = str(self.line)
        self.substituted = None
        saved = self.out, self.err, self.stdin
        assigned, index = [], 0
        try:
            while index < len(node.words) and (match := ASSIGNMENT.match(node.words[index])) is not None:
                assigned.append(match)
                index += 1
            self.words_before = ()
            words = self.words(node.words[index:])
            self.words_before = tuple(words)
            before = {}
            for name, added, values in node.arrays:
                self._array(name, values, added=added)
            for match in assigned:
                name, plus, raw = match.groups()
                if match.group(0)[len(name)] == "[":
                    subscript = match.group(0)[len(name) + 1 : match.group(0).index("]")]
                    if words or plus:
                        raise Unsure
                    self.variables[f"{name}[{self.expander.subscript(name, subscript)}]"] = self.value(raw)
                    continue
                before[name] = dict.get(self.variables, name)
                value = self.value(raw)
                self.variables[name] = (self.variables.get(name, "") or "") + value if plus else value
                script_trace.assigned(self, name, value, "+=" if plus else "=")
            script_trace.command(self, words, [(m[1], self.variables[m[1]]) for m in assigned if m[1] in before])
            if not redirect(self, node.redirects):
                self.shared.failed = True
                self.status = 1 if self.dialect == "bash" else 2
                return
            if not words:
                self.status = self.substituted or 0
                return
            if words[0] == "exec" and len(words) == 1:
                saved = self.out, self.err, self.stdin
                self.status = 0
                return
            self.command(words, node)
            for name, value in before.items():
                if value is None:
                    self.variables.pop(name, None)
                else:
                    self.variables[name] = value
        except Unsure:
            answer = self.shared.cheat.unsure(self, node, self.words_before)
            if answer is None:
                if self.captured:
                    raise  # what is said here is an argument of something else
                answer = "", "", 0
            self._print(answer)
        finally:
            self.out, self.err, stdin = saved
            if any(item.operator[0] == "<" for item in node.redirects):
                self.stdin = stdin

    def _array(self, name: str, words: Sequence[str], *, added: bool) -> None:
        script_trace.compound(self, f"{name}{'+' if added else ''}=({' '.join(words)})")
        values = self.variables.arrays.setdefault(name, {}) if added else {}
        self.variables.arrays[name] = values
        if any(word.startswith("[") and "]=" in word for word in words):
            self.variables.named.add(name)
            for word in words:
                key, mark, value = word[1:].partition("]=")
                if not mark or not word.startswith("["):
                    raise Unsure
                values[self.value(key)] = self.value(value)
            return
        for number, value in enumerate(self.words(words), max(map(int, values), default=-1) + 1):
            values[str(number)] = value
        self.shared.spend(len(values) // 64)

    def _print(self, answer: tuple[str, str, int]) -> None:
        out, err, self.status = answer
        self.shared.failed = self.shared.failed or self.status != 0
        self.err.write(err)
        self.out.write(out)

    def command(self, words: list[str], node: Simple) -> None:
        """One command with its words known: function, builtin, program."""
        name = words[0]
        if name in self.functions:
            return self._call(name, words[1:])
        answer = script_tools.run(self, words, node)
        if answer is not None:
            self._print(answer)
        return None

    def _call(self, name: str, arguments: list[str]) -> None:
        saved = {key: self.variables[key] for key in list(self.variables) if re.fullmatch(r"[\d#@*]", key)}
        self.arguments(arguments)
        self.in_function += 1

        def run() -> None:
            self.node(self.functions[name])

        try:
            self._deeper(run)
        except Return as return_:
            self.status = return_.status
        finally:
            self.in_function -= 1
            self.arguments(())
            self.variables.update(saved)


def _counted(token: str) -> list[str]:
    """`a{1..3}` as the words it stands for."""
    match = re.fullmatch(r"([^'\"{}$`]*)\{(-?\d{1,4})\.\.(-?\d{1,4})\}([^'\"{}$`]*)", token)
    if match is None:
        return [token]
    first, last = int(match[2]), int(match[3])
    if re.search(r"(^|-)0\d", match[2] + " " + match[3]):
        raise Unsure
    step = 1 if first <= last else -1
    return [f"{match[1]}{n}{match[4]}" for n in range(first, last + step, step)]
