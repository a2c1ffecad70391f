"""A shell script as a tree: what runs after what, for the script player.

The shell's tokens go in (`detect.shell_words.lex`), nodes come out. Only the grammar that scripts of agents are made
of is known; anything else raises `NotUnderstood`, and so does a script that bash would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from detect.shell_tables import ASSIGNMENT
from detect.shell_words import Token, lex

MAX_NODES = 2000


class NotUnderstood(Exception):
    """The script holds something that the player does not know."""


class Redirect(msgspec.Struct, frozen=True):
    fd: int
    operator: str
    target: str
    heredoc: str | None = None
    literal: bool = False
    line: int = 1


class Simple(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...]
    start: int
    end: int
    line: int
    arrays: tuple[tuple[str, bool, tuple[str, ...]], ...] = ()
    """`name=(...)`: the name, whether it is added to, and the words."""


class Condition(msgspec.Struct, frozen=True):
    """`[[ ... ]]`"""

    words: tuple[str, ...]
    line: int
    redirects: tuple[Redirect, ...] = ()


class Arithmetic(msgspec.Struct, frozen=True):
    """`(( ... ))`"""

    expression: str
    line: int
    redirects: tuple[Redirect, ...] = ()


class Counting(msgspec.Struct, frozen=True):
    """`for ((first; condition; step))`"""

    parts: tuple[str, str, str]
    body: Block
    redirects: tuple[Redirect, ...] = ()


class Pipeline(msgspec.Struct, frozen=True):
    parts: tuple[Node, ...]
    negated: bool = False
    both: tuple[bool, ...] = ()
    """For each part but the last whether it is joined by `|&`."""


class Chain(msgspec.Struct, frozen=True):
    """`first && second || third`"""

    first: Node
    rest: tuple[tuple[Literal["&&", "||"], Node], ...]


class Block(msgspec.Struct, frozen=True):
    items: tuple[tuple[Node, bool], ...]
    """Each with whether it runs in the background."""
    subshell: bool = False
    redirects: tuple[Redirect, ...] = ()
    line: int = 1


class If(msgspec.Struct, frozen=True):
    branches: tuple[tuple[Block, Block], ...]
    otherwise: Block | None
    redirects: tuple[Redirect, ...] = ()


class For(msgspec.Struct, frozen=True):
    name: str
    words: tuple[str, ...] | None
    body: Block
    redirects: tuple[Redirect, ...] = ()


class While(msgspec.Struct, frozen=True):
    condition: Block
    body: Block
    until: bool
    redirects: tuple[Redirect, ...] = ()


class Case(msgspec.Struct, frozen=True):
    word: str
    branches: tuple[tuple[tuple[str, ...], Block], ...]
    redirects: tuple[Redirect, ...] = ()


class Function(msgspec.Struct, frozen=True):
    name: str
    body: Node


Node = Simple | Pipeline | Chain | Block | If | For | While | Case | Function | Condition | Arithmetic | Counting

_ENDS = frozenset(["then", "else", "elif", "fi", "do", "done", "esac", "}"])
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FD = re.compile(r"(?:^|[\s;|&()])(\d)\Z")


def parse(text: str) -> Block:
    """The whole script. Raises NotUnderstood."""
    parser = _Parser(text, lex(text))
    block = parser.block(frozenset())
    if parser.peek() is not None:
        raise NotUnderstood
    return block


class _Parser:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.index = 0
        self.nodes = 0

    def peek(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def at(self, *texts: str) -> bool:
        token = self.peek()
        return token is not None and token.text in texts

    def expect(self, text: str) -> None:
        if not self.at(text):
            raise NotUnderstood
        self.index += 1

    def newlines(self) -> None:
        while (token := self.peek()) is not None and token.kind == "newline":
            self.index += 1

    def line(self, token: Token) -> int:
        return self.text.count("\n", 0, token.start) + 1

    def block(self, ends: frozenset[str]) -> Block:
        items: list[tuple[Node, bool]] = []
        while True:
            while (token := self.peek()) is not None and (token.kind == "newline" or (token.text == ";" and items)):
                self.index += 1
            if token is None or token.text in ends:
                return Block(tuple(items))
            if token.text in _ENDS or token.text in (")", ";;", ";"):
                raise NotUnderstood
            node = self.chain()
            background = self.at("&")
            if background:
                self.index += 1
            items.append((node, background))

    def chain(self) -> Node:
        first = self.pipeline()
        rest: list[tuple[Literal["&&", "||"], Node]] = []
        while self.at("&&", "||"):
            joint: Literal["&&", "||"] = "&&" if self.tokens[self.index].text == "&&" else "||"
            self.index += 1
            self.newlines()
            rest.append((joint, self.pipeline()))
        return Chain(first, tuple(rest)) if rest else first

    def pipeline(self) -> Node:
        negated = self.at("!")
        if negated:
            self.index += 1
        parts = [self.command()]
        both: list[bool] = []
        while self.at("|", "|&"):
            both.append(self.tokens[self.index].text == "|&")
            self.index += 1
            self.newlines()
            parts.append(self.command())
        return parts[0] if len(parts) == 1 and not negated else Pipeline(tuple(parts), negated, tuple(both))

    def command(self) -> Node:
        self.nodes += 1
        token = self.peek()
        if token is None or self.nodes > MAX_NODES:
            raise NotUnderstood
        compound = {
            "(": self._subshell, "{": self._group, "if": self._if, "for": self._for,
            "while": self._while, "until": self._while, "case": self._case,
            "[[": self._condition,
        }.get(token.text)  # fmt: skip
        if token.text in ("select", "coproc", "time"):
            raise NotUnderstood
        if compound is not None:
            node = compound()
            redirects = self._redirects()
            return msgspec.structs.replace(node, redirects=redirects) if redirects else node
        if token.text == "function":
            self.index += 1
            name = self.peek()
            if name is None or not _NAME.fullmatch(name.text):
                raise NotUnderstood
            self.index += 1
            if self.at("("):
                self.index += 1
                self.expect(")")
            self.newlines()
            return Function(name.text, self.command())
        following = [t.text for t in self.tokens[self.index + 1 : self.index + 3]]
        if token.kind == "word" and following == ["(", ")"] and _NAME.fullmatch(token.text):
            self.index += 3
            self.newlines()
            return Function(token.text, self.command())
        return self._simple()

    def _simple(self) -> Simple:
        first = self.tokens[self.index]
        words: list[str] = []
        redirects: list[Redirect] = []
        arrays: list[tuple[str, bool, tuple[str, ...]]] = []
        end = first.end
        while (token := self.peek()) is not None:
            if token.kind == "word":
                self.index += 1
                if token.text.endswith("=") and ASSIGNMENT.match(token.text) and self.at("("):
                    name = token.text[:-1].removesuffix("+")
                    arrays.append((name, token.text.endswith("+="), self._array()))
                    end = self.tokens[self.index - 1].end
                    if words and words[0] in ("declare", "local", "typeset", "readonly"):
                        words.append(name)
                    elif words:
                        raise NotUnderstood
                    continue
                words.append(token.text)
                end = token.end
            elif token.kind == "operator" and (token.text[0] in "<>" or token.text[:2] == "&>"):
                redirects.append(self._redirect())
                end = self.tokens[self.index - 1].end
            else:
                break
        if not words and not redirects and not arrays:
            raise NotUnderstood
        return Simple(tuple(words), tuple(redirects), first.start, end, self.line(first), tuple(arrays))

    def _array(self) -> tuple[str, ...]:
        self.expect("(")
        found = []
        while not self.at(")"):
            token = self.peek()
            if token is None or token.kind not in ("word", "newline"):
                raise NotUnderstood
            self.index += 1
            if token.kind == "word":
                found.append(token.text)
        self.expect(")")
        return tuple(found)

    def _condition(self) -> Condition:
        line = self.line(self.tokens[self.index])
        self.index += 1
        words: list[str] = []
        while not self.at("]]"):
            token = self.peek()
            if token is None:
                raise NotUnderstood
            self.index += 1
            if token.kind == "newline":
                continue
            if words and words[-1] == "=~":
                # a pattern goes to the next blank, whatever it is made of
                pattern = re.match(r"(?:\\.|[^\s\\])+", self.text[token.start :])
                if pattern is None:
                    raise NotUnderstood
                end = token.start + pattern.end()
                while (following := self.peek()) is not None and following.start < end:
                    self.index += 1
                words.append(pattern.group())
            else:
                words.append(token.text)
        self.index += 1
        return Condition(tuple(words), line)

    def _arithmetic(self) -> str:
        """The inside of `(( ))`, of which the first bracket was taken."""
        start = self.tokens[self.index].end
        depth, end = 0, start
        while end < len(self.text) and (depth or not self.text.startswith("))", end)):
            depth += {"(": 1, ")": -1}.get(self.text[end], 0)
            end += 1
        if end >= len(self.text):
            raise NotUnderstood
        while (token := self.peek()) is not None and token.start < end + 2:
            self.index += 1
        return self.text[start:end]

    def _redirects(self) -> tuple[Redirect, ...]:
        found = []
        while (token := self.peek()) is not None and token.kind == "operator" and token.text[0] in "<>&":
            if token.text in ("&", "&&"):
                break
            found.append(self._redirect())
        return tuple(found)

    def _redirect(self) -> Redirect:
        operator = self.tokens[self.index]
        self.index += 1
        target = self.peek()
        if target is None or target.kind != "word":
            raise NotUnderstood
        self.index += 1
        number = _FD.search(self.text[max(operator.start - 3, 0) : operator.start])
        fd = int(number.group(1)) if number else 0 if operator.text[0] == "<" else 1
        return Redirect(fd, operator.text, target.text, operator.heredoc, operator.literal, self.line(operator))

    def _subshell(self) -> Block | Arithmetic:
        opening = self.tokens[self.index]
        line = self.line(opening)
        self.index += 1
        if self.at("(") and self.tokens[self.index].start == opening.end:
            return Arithmetic(self._arithmetic(), line)
        block = self.block(frozenset([")"]))
        self.expect(")")
        return Block(block.items, True, line=line)

    def _group(self) -> Block:
        self.index += 1
        block = self.block(frozenset(["}"]))
        self.expect("}")
        return block

    def _if(self) -> If:
        branches, otherwise = [], None
        while self.at("if", "elif"):
            self.index += 1
            condition = self.block(frozenset(["then"]))
            self.expect("then")
            branches.append((condition, self.block(frozenset(["elif", "else", "fi"]))))
        if self.at("else"):
            self.index += 1
            otherwise = self.block(frozenset(["fi"]))
        self.expect("fi")
        return If(tuple(branches), otherwise)

    def _for(self) -> For | Counting:
        if [t.text for t in self.tokens[self.index + 1 : self.index + 3]] == ["(", "("]:
            self.index += 2
            parts = self._arithmetic().split(";")
            if len(parts) != 3:
                raise NotUnderstood
            return Counting((parts[0], parts[1], parts[2]), self._do())
        name = self.tokens[self.index + 1].text if self.index + 1 < len(self.tokens) else ""
        if not _NAME.fullmatch(name):
            raise NotUnderstood
        self.index += 2
        words: tuple[str, ...] | None = None
        if self.at("in"):
            self.index += 1
            found = []
            while (token := self.peek()) is not None and token.kind == "word":
                found.append(token.text)
                self.index += 1
            words = tuple(found)
        return For(name, words, self._do())

    def _do(self) -> Block:
        while self.at(";", "\n"):
            self.index += 1
        self.expect("do")
        body = self.block(frozenset(["done"]))
        self.expect("done")
        return body

    def _while(self) -> While:
        until = self.at("until")
        self.index += 1
        condition = self.block(frozenset(["do"]))
        return While(condition, self._do(), until)

    def _case(self) -> Case:
        self.index += 1
        word = self.peek()
        if word is None or word.kind != "word":
            raise NotUnderstood
        self.index += 1
        self.newlines()
        self.expect("in")
        branches = []
        self.newlines()
        while not self.at("esac"):
            if self.at("("):
                self.index += 1
            patterns = []
            while (token := self.peek()) is not None and token.kind == "word":
                patterns.append(token.text)
                self.index += 1
                if not self.at("|"):
                    break
                self.index += 1
            self.expect(")")
            branches.append((tuple(patterns), self.block(frozenset([";;", "esac"]))))
            if self.at(";;"):
                self.index += 1
            self.newlines()
        self.expect("esac")
        return Case(word.text, tuple(branches))
