"""The shell's lexical layer: text in, flat tokens out, in linear time and for any text.

Tokens are words (as written, quotes and all) and operators; bodies of here-documents are attached to their operator.
There is no syntax error: a quote that never ends reaches to the end of the text. A grammar is not needed to know
which programs a script names, and a lexer that cannot fail cannot be made to fail on purpose.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

_OPERATOR = re.compile(r"&>>|&>|<<<|<<-|<<|>>|>\||<>|>&|<&|;;&|;;|;&|&&|\|\||\|&|[|&;()<>]")
_PLAIN = re.compile(r"[^\s\\'\"$`|&;()<>]+")
_BLANK = re.compile(r"(?:[ \t\r\f\v]|\\\n)+")
_WHOLE = re.compile(r"[A-Za-z_./%+:,@=!~*?^{}\[\]-][^\s\\'\"$`|&;()<>#]*(?=[\s;|&])")
"""A word without quotes, substitutions or anything else that needs a closer look; not a number before a redirect."""
_MAY_BE_BLANK = " \t\r\f\v\\"
_NUMBER = re.compile(r"[0-9]+(?=[<>])|\{[A-Za-z_]\w*\}(?=[<>])")
_DOUBLE_STOP = re.compile(r"[\\\"$`]")


class Token(msgspec.Struct):
    kind: Literal["word", "operator", "newline"]
    text: str
    start: int
    end: int
    heredoc: str | None = None
    """Body of a here-document, for `<<` and `<<-`."""
    heredoc_start: int = 0
    literal: bool = False
    """The here-document's delimiter was quoted: nothing in its body is expanded."""


def skip_single(text: str, start: int) -> int:
    """End of the single-quoted string whose opening quote is at `start`."""
    end = text.find("'", start + 1)
    return len(text) if end < 0 else end + 1


def skip_ansi(text: str, start: int) -> int:
    """End of a `$'...'` string; `start` is at the quote."""
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == "'":
            return position + 1
        else:
            position += 1
    return len(text)


def skip_backquote(text: str, start: int) -> int:
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == "`":
            return position + 1
        else:
            position += 1
    return len(text)


def skip_nested(text: str, start: int, opening: str, closing: str) -> int:
    """End of a `$( ... )` or `${ ... }` whose opening bracket is at `start`; quotes and nesting are respected.

    One pass with an explicit stack: deep nesting costs no recursion.
    """
    stack = [closing]
    openings = {")": "(", "}": "{"}
    position = start + 1
    size = len(text)
    while position < size:
        char = text[position]
        if char == "\\":
            position += 2
            continue
        inside = stack[-1]
        if inside == '"':
            if char == '"':
                stack.pop()
            elif char == "$" and text[position + 1 : position + 2] in ("(", "{"):
                stack.append(")" if text[position + 1] == "(" else "}")
                position += 1
        elif char == inside:
            stack.pop()
            if not stack:
                return position + 1
        elif char == '"':
            stack.append('"')
        elif char == "'":
            position = skip_single(text, position)
            continue
        elif char == "#" and inside == ")" and text[position - 1] in " \t\n;":
            newline = text.find("\n", position)
            position = size if newline < 0 else newline
            continue
        elif char == "$" and text[position + 1 : position + 2] in ("(", "{"):
            stack.append(")" if text[position + 1] == "(" else "}")
            position += 1
        elif char == openings[inside]:
            stack.append(inside)
        position += 1
    return size


def skip_double(text: str, start: int) -> int:
    """End of the double-quoted string whose opening quote is at `start`."""
    position = start + 1
    while True:
        stop = _DOUBLE_STOP.search(text, position)
        if stop is None:
            return len(text)
        char, position = stop.group(), stop.start()
        if char == '"':
            return position + 1
        if char == "\\":
            position += 2
        elif char == "`":
            position = skip_backquote(text, position)
        elif text[position + 1 : position + 2] in ("(", "{"):
            opening = text[position + 1]
            position = skip_nested(text, position + 1, opening, ")" if opening == "(" else "}")
        else:
            position += 1


def skip_word(text: str, start: int) -> int:
    """End of the word that begins at `start`."""
    position = start
    size = len(text)
    while position < size:
        plain = _PLAIN.match(text, position)
        if plain:
            position = plain.end()
            continue
        char = text[position]
        if char == "\\":
            position += 2
        elif char == "'":
            position = skip_single(text, position)
        elif char == '"':
            position = skip_double(text, position)
        elif char == "`":
            position = skip_backquote(text, position)
        elif char == "$":
            following = text[position + 1 : position + 2]
            if following == "(" or following == "{":
                position = skip_nested(text, position + 1, following, ")" if following == "(" else "}")
            elif following == "'":
                position = skip_ansi(text, position + 1)
            else:
                position += 1
        elif char in "<>" and position == start and text[position + 1 : position + 2] == "(":
            position = skip_nested(text, position + 1, "(", ")")
        else:
            break
    return min(position, size)


def lex(text: str) -> list[Token]:
    tokens: list[Token] = []
    pending: list[int] = []
    """Indices of here-document operators whose bodies begin at the next newline; the delimiter word follows each."""
    position = 0
    size = len(text)
    while position < size:
        char = text[position]
        if char in _MAY_BE_BLANK and (blank := _BLANK.match(text, position)):
            position = blank.end()
        elif plain := _WHOLE.match(text, position):
            tokens.append(Token("word", plain.group(), position, plain.end()))
            position = plain.end()
        elif char == "\n":
            tokens.append(Token("newline", "\n", position, position + 1))
            position = _heredocs(text, position + 1, pending, tokens)
            pending = []
        elif char == "#":
            newline = text.find("\n", position)
            position = size if newline < 0 else newline
        elif char in "<>" and text[position + 1 : position + 2] == "(":
            end = skip_word(text, position)
            tokens.append(Token("word", text[position:end], position, end))
            position = end
        elif number := _NUMBER.match(text, position):
            position = number.end()
        elif operator := _OPERATOR.match(text, position):
            token = Token("operator", operator.group(), position, operator.end())
            tokens.append(token)
            if token.text in ("<<", "<<-"):
                pending.append(len(tokens) - 1)
            position = operator.end()
        else:
            end = max(skip_word(text, position), position + 1)
            tokens.append(Token("word", text[position:end], position, end))
            position = end
    _heredocs(text, size, pending, tokens)
    return tokens


def _heredocs(text: str, position: int, pending: list[int], tokens: list[Token]) -> int:
    """Attach the bodies of `pending` here-documents, the first of which starts at `position`; returns the end."""
    for index in pending:
        token = tokens[index]
        follower = tokens[index + 1] if index + 1 < len(tokens) else token
        raw = follower.text if follower.kind == "word" else ""
        delimiter = re.sub(r"[\\'\"]", "", raw)
        token.literal = delimiter != raw
        token.heredoc_start = position
        lines = []
        while position < len(text):
            newline = text.find("\n", position)
            end = len(text) if newline < 0 else newline
            line = text[position:end]
            position = min(end + 1, len(text))
            if token.text == "<<-":
                line = line.lstrip("\t")
            if line == delimiter:
                break
            lines.append(line)
        token.heredoc = "".join(line + "\n" for line in lines)
    return position
