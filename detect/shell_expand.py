"""Shell words to strings: what bash would make of a word, as far as that can be known.

Quotes and escapes go, variables the script itself set are filled in, `$(...)` of literal text is computed, braces
multiply, unquoted values split. What is not known becomes `UNKNOWN`. Globs stay globs: `Word.pattern` has quoted
wildcards escaped, so that `'*'` and `*` stay different.
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Callable, Mapping

import msgspec

from detect import python_tree, shell_words
from detect.paths import UNKNOWN

MAX_WORDS = 64
"""Bound on what one word may multiply into (braces, splitting)."""
MAX_VALUE = 64 * 1024
MAX_DEPTH = 24
"""Nesting of `${a:-${b:-"..."}}` beyond which a value is not known."""

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ANSI_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.S)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPECIAL = re.compile(r"[0-9@*#?$!_-]")
_TILDE = re.compile(r"~[\w+.-]*")
_BLANKS = re.compile(r"[ \t\n]")
_ESCAPED = {ord(char): f"[{char}]" for char in "*?["}
_MAGIC = re.compile(r"[*?\[]")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,+%@-]+")
_LITERAL = re.compile(r"[^\\'\"$`~]+")
_LITERAL_DOUBLE = re.compile(r"[^\\\"$`]+")
_PARAMETER = re.compile(r"([A-Za-z_]\w*|[0-9@*#?$!_-]+)(.*)\Z", re.S)


class Word(msgspec.Struct, frozen=True):
    text: str
    pattern: str

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text

    @property
    def is_glob(self) -> bool:
        return _MAGIC.search(self.pattern) is not None and self.pattern != self.text.translate(_ESCAPED)


def _word(field: list[tuple[str, bool]]) -> Word:
    text = "".join([piece for piece, _ in field])
    if not _MAGIC.search(text):
        return Word(text, text)
    return Word(text, "".join(piece.translate(_ESCAPED) if quoted else piece for piece, quoted in field))


def unescape(text: str) -> str:
    """Backslash escapes as in `$'...'`, `echo -e` and `printf`."""

    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "xuU" and len(code) > 1:
            value = int(code[1:], 16)
            return (
                chr(value) if value < 256 else "".join(map(chr, chr(min(value, 0x10FFFF)).encode("utf-8", "replace")))
            )
        if code[0] in "01234567":
            return chr(int(code, 8) & 255)
        return _ANSI.get(code, code if code in "\\'\"?" else "\\" + code)

    return _ANSI_ESCAPE.sub(one, text)


def braces(raw: str) -> list[str]:
    """Brace expansion of a raw word (`{a,b}c` to `ac bc`), quotes respected, bounded by `MAX_WORDS`."""
    done: list[str] = []
    work = [raw]
    while work and len(done) + len(work) <= MAX_WORDS:
        word = work.pop(0)
        parts = _first_brace(word)
        if parts is None:
            done.append(word)
        else:
            head, choices, tail = parts
            work = [head + choice + tail for choice in choices] + work
    return done + work


def _first_brace(raw: str) -> tuple[str, list[str], str] | None:
    position = 0
    opened: list[tuple[int, list[int]]] = []
    while position < len(raw):
        char = raw[position]
        if char == "\\":
            position += 2
            continue
        if char == "'":
            position = shell_words.skip_single(raw, position)
            continue
        if char == '"':
            position = shell_words.skip_double(raw, position)
            continue
        if char == "$" and raw[position + 1 : position + 2] in ("{", "("):
            opening = raw[position + 1]
            position = shell_words.skip_nested(raw, position + 1, opening, "}" if opening == "{" else ")")
            continue
        if char == "{":
            opened.append((position, []))
        elif char == "," and opened:
            opened[-1][1].append(position)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas:
                edges = [start, *commas, position]
                choices = [raw[a + 1 : b] for a, b in itertools.pairwise(edges)]
                return raw[:start], choices, raw[position + 1 :]
        position += 1
    return None


class Expander:
    """Expands words against `variables`.

    `substitute` reads the script in `$(...)` and returns its output if known; `spend` is told the work before it is
    done, and may stop it.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        substitute: Callable[[str], str | None],
        spend: Callable[[int], None],
        pipe: Callable[[str, str], str],
    ) -> None:
        """`substitute` tells what a script prints, `pipe` what `<(script)` and `>(script)` are called."""
        self.variables = variables
        self.substitute = substitute
        self.pipe = pipe
        self.spend = spend
        self.depth = 0

    def words(self, raw: str) -> list[Word]:
        """All words that `raw` becomes (none, when it is an unquoted empty variable)."""
        if _PLAIN.fullmatch(raw):
            return [Word(raw, raw)]
        result: list[Word] = []
        for choice in braces(raw) if "{" in raw else [raw]:
            result += self._fields(choice)
            if len(result) > MAX_WORDS:
                break
        return result[:MAX_WORDS]

    def value(self, raw: str) -> str:
        """`raw` as one string, without splitting or braces: the right side of an assignment, a here-string."""
        return "".join([text for text, _, _ in self._chunks(raw, double=False)])[:MAX_VALUE]

    def body(self, text: str) -> str:
        """The body of an unquoted here-document."""
        return "".join(chunk for chunk, _, _ in self._chunks(text, double=True))

    def _fields(self, raw: str) -> list[Word]:
        fields: list[list[tuple[str, bool]]] = []
        current: list[tuple[str, bool]] | None = None
        between = self.variables.get("IFS", " \t\n")
        for text, quoted, splits in self._chunks(raw, double=False):
            if splits and between != " \t\n" and UNKNOWN not in between and text:
                # what stands in IFS separates, blanks may not
                text = text.translate({ord(char): "\0" for char in " \t\n" if char not in between})
                text = text.translate({ord(char): " " for char in between})
                quoted = quoted or text.startswith(" ")
            if not splits or not _BLANKS.search(text):
                if text or quoted:
                    current = [] if current is None else current
                    current.append((text, quoted))
                continue
            if text[0] in " \t\n" and current is not None:
                fields.append(current)
                current = None
            for number, piece in enumerate(text.split()):
                if number or current is None:
                    if current is not None:
                        fields.append(current)
                    current = []
                current.append((piece.replace("\0", " "), False))
            if text[-1] in " \t\n" and current is not None:
                fields.append(current)
                current = None
        if current is not None:
            fields.append(current)
        return [_word(field) for field in fields]

    def _chunks(self, raw: str, *, double: bool) -> list[tuple[str, bool, bool]]:
        """Pieces of `raw` as (text, quoted, may split). `double`: `raw` is the inside of double quotes."""
        self.spend(len(raw))
        if self.depth > MAX_DEPTH:
            return [(UNKNOWN, True, False)]
        self.depth += 1
        chunks = self._split(raw, double)
        self.depth -= 1
        self.spend(sum([len(text) for text, _, _ in chunks]) // 8)
        return chunks

    def _split(self, raw: str, double: bool) -> list[tuple[str, bool, bool]]:
        chunks: list[tuple[str, bool, bool]] = []
        position = 0
        size = len(raw)
        literal = _LITERAL_DOUBLE if double else _LITERAL
        if not double and raw.startswith(("<(", ">(")):
            position = shell_words.skip_nested(raw, 1, "(", ")")
            inside = raw[2 : position - 1 if raw.endswith(")", 2, position) else position]
            chunks.append((self.pipe(raw[0], inside), True, False))
        while position < size:
            plain = literal.match(raw, position)
            if plain:
                chunks.append((plain.group(), double, False))
                position = plain.end()
                continue
            char = raw[position]
            if char == "\\":
                following = raw[position + 1 : position + 2]
                if double and following not in ("$", "`", '"', "\\", "\n"):
                    chunks.append(("\\" + following, True, False))
                elif following != "\n":
                    chunks.append((following, True, False))
                position += 2
            elif char == "'" and not double:
                end = shell_words.skip_single(raw, position)
                chunks.append(
                    (raw[position + 1 : end - 1 if raw.endswith("'", position + 1, end) else end], True, False)
                )
                position = end
            elif char == '"' and not double:
                end = shell_words.skip_double(raw, position)
                inside = raw[position + 1 : end - 1 if raw.endswith('"', position + 1, end) else end]
                chunks.append(("", True, False))
                chunks += self._chunks(inside, double=True)
                position = end
            elif char == "~" and not double and position == 0:
                user = _TILDE.match(raw)
                assert user is not None
                name = {"~": "HOME", "~+": "PWD", "~-": "OLDPWD"}.get(user.group(), "")
                chunks.append((self.variables.get(name, UNKNOWN), True, False))
                position = user.end()
            elif char == "`":
                end = shell_words.skip_backquote(raw, position)
                script = raw[position + 1 : end - 1 if raw.endswith("`", position + 1, end) else end]
                chunks.append((self._output(re.sub(r"\\([\\`$])", r"\1", script)), double, not double))
                position = end
            elif char == "$":
                position = self._dollar(raw, position, double, chunks)
            else:
                chunks.append((char, double, False))
                position += 1
        return chunks

    def _dollar(self, raw: str, position: int, double: bool, chunks: list[tuple[str, bool, bool]]) -> int:
        following = raw[position + 1 : position + 2]
        if following == "'" and not double:
            end = shell_words.skip_ansi(raw, position + 1)
            inside = raw[position + 2 : end - 1 if raw.endswith("'", position + 2, end) else end]
            chunks.append((unescape(inside), True, False))
            return end
        if following == '"' and not double:
            return position + 1
        if following == "(":
            end = shell_words.skip_nested(raw, position + 1, "(", ")")
            inside = raw[position + 2 : end - 1 if raw.endswith(")", position + 2, end) else end]
            arithmetic = inside.startswith("(") and inside.endswith(")")
            chunks.append(
                (_arithmetic(inside[1:-1], self.variables) if arithmetic else self._output(inside), double, not double)
            )
            return end
        if following == "{":
            end = shell_words.skip_nested(raw, position + 1, "{", "}")
            inside = raw[position + 2 : end - 1 if raw.endswith("}", position + 2, end) else end]
            elements = re.fullmatch(r"\w+\[@\]|@", inside) is not None
            value = self._parameter(inside)
            if double and (inside.endswith("[*]") or inside == "*"):
                between = self.variables.get("IFS", " \t\n")
                if between[:1] != " " and UNKNOWN not in between:
                    value = between[:1].join(value.split(" "))
            chunks.append((value, double, elements or not double))
            return end
        name = _NAME.match(raw, position + 1)
        if name:
            chunks.append((self.variables.get(name.group(), UNKNOWN), double, not double))
            return name.end()
        if _SPECIAL.match(following):
            value = self.variables.get(following, UNKNOWN)
            if following == "*" and double and (between := self.variables.get("IFS", " ")) != " \t\n":
                value = between[:1].join(self.variables.get("@", value).split(" "))
            chunks.append((value, double, not double))
            return position + 2
        chunks.append(("$", True, False))
        return position + 1

    def _output(self, script: str) -> str:
        output = self.substitute(script)
        return UNKNOWN if output is None else output.rstrip("\n")[:MAX_VALUE]

    def _parameter(self, inside: str) -> str:
        """`${...}`: plain, default, length, substring, prefix and suffix removal, replacement, case, indirection."""
        if inside.startswith("#") and len(inside) > 1:
            value = self.variables.get(inside[1:])
            return UNKNOWN if value is None or UNKNOWN in value else str(len(value))
        if inside.startswith("!"):
            pointed = self.variables.get(inside[1:])
            return UNKNOWN if pointed is None else self.variables.get(pointed, UNKNOWN)
        match = _PARAMETER.match(inside)
        if match is None:
            return UNKNOWN
        name, operation = match.groups()
        value = self.variables.get(name)
        if not operation:
            return UNKNOWN if value is None else value
        if operation[0] == "[":
            return UNKNOWN if value is None else self.variables.get(name + operation, value)
        if operation[0] in ":-=+" and operation.lstrip(":")[:1] in ("-", "=", "+"):
            alternative = self.value(operation.lstrip(":")[1:])
            if operation.lstrip(":")[0] == "+":
                return alternative if value else ""
            return value or alternative
        if value is None or UNKNOWN in value:
            return UNKNOWN
        return self._transform(value, operation)

    def _transform(self, value: str, operation: str) -> str:
        if operation[0] == ":":
            numbers = re.fullmatch(r":\s*\(?(-?\d+)\)?(?::(-?\d+))?", operation)
            if numbers is None:
                return UNKNOWN
            start = int(numbers.group(1))
            value = value[start:] if start >= 0 else value[max(len(value) + start, 0) :]
            return value if numbers.group(2) is None else value[: int(numbers.group(2))]
        if operation[0] in "^,":
            change = str.upper if operation[0] == "^" else str.lower
            return change(value) if operation[:2] in ("^^", ",,") else change(value[:1]) + value[1:]
        if operation[0] == "/":
            everywhere = operation.startswith("//")
            pattern, _, replacement = operation[2 if everywhere else 1 :].partition("/")
            pattern, replacement = self.value(pattern), self.value(replacement)
            if not pattern or glob.has_magic(pattern):
                return UNKNOWN
            return value.replace(pattern, replacement, -1 if everywhere else 1)
        if operation[0] in "#%":
            pattern = self.value(operation.lstrip(operation[0]))
            if glob.has_magic(pattern):
                return _trim(value, pattern, operation)
            return value.removeprefix(pattern) if operation[0] == "#" else value.removesuffix(pattern)
        return UNKNOWN


def _trim(value: str, pattern: str, operation: str) -> str:
    """`${v#p}`, `${v##p}`, `${v%p}`, `${v%%p}` with a glob."""
    import fnmatch

    greedy = operation[:2] in ("##", "%%")
    lengths = range(len(value[:512]) + 1)
    for length in reversed(lengths) if greedy else lengths:
        if operation[0] == "#" and fnmatch.fnmatchcase(value[:length], pattern):
            return value[length:]
        if operation[0] == "%" and fnmatch.fnmatchcase(value[len(value) - length :], pattern):
            return value[: len(value) - length]
    return value


def _arithmetic(expression: str, variables: Mapping[str, str]) -> str:
    """Sums and products of numbers and of variables that are numbers."""
    expression = re.sub(r"\$?\{?\b([A-Za-z_]\w*)\}?", lambda m: variables.get(m[1], UNKNOWN), expression).strip()
    if re.fullmatch(r"\d{1,18}", expression):
        return expression
    if not re.fullmatch(r"[\d\s()+\-*/%^&|]{1,80}", expression) or "**" in expression:
        return UNKNOWN

    from detect.python_fold import Folder

    try:
        value = Folder({}, lambda _: None, lambda _: None).fold(
            python_tree.expression(expression.replace("/", "//").strip())
        )
    except (SyntaxError, ValueError, RecursionError):
        return UNKNOWN
    return str(value) if isinstance(value, int) else UNKNOWN
