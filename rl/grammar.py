"""From what the policy wrote to what is done: one fenced block per turn.

    ```sh            run a shell script in the workspace
    ```write PATH    write the body to PATH, relative to the workspace
    ```test          build the submission and run the hidden tests (within the budget of tests)
    ```done          finish: the workspace is graded as it is

Text before the block is free (the policy may think aloud); the closing fence has at least as many backticks as the
opening one, so that a file may itself contain fences. Anything else is a format error: it costs a step, reaches no
sandbox, and its message says what to write instead. Parsing is on bytes, because a policy may write any.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from queues.messages import Action

Call = Literal["submit", "test", "done", "invalid"]

_OPEN = re.compile(rb"^(`{3,})[ \t]*([^\n`]*?)[ \t]*$", re.MULTILINE)
_HINT = "use one ```sh, ```write PATH, ```test or ```done block"


class Parsed(msgspec.Struct, frozen=True):
    """`action` is set for `submit`, `error` for `invalid`."""

    call: Call
    action: Action | None = None
    error: str = ""


def invalid(reason: str) -> Parsed:
    return Parsed("invalid", error=f"format error: {reason}; {_HINT}")


def parse(text: bytes) -> Parsed:
    """Parse one turn. Never raises: what cannot be parsed is `invalid`."""
    opening = _OPEN.search(text)
    if opening is None:
        return invalid("no block")
    fence, info = opening.group(1), opening.group(2)
    closing = re.compile(rb"^`{%d,}[ \t]*$" % len(fence), re.MULTILINE).search(text, opening.end())
    if closing is None:
        return invalid("the block is not closed")
    if _OPEN.search(text, closing.end()):
        return invalid("more than one block")
    body = text[opening.end() + 1 : closing.start()]
    verb, _, argument = info.partition(b" ")
    match verb:
        case b"sh" | b"bash":
            if not body.strip():
                return invalid("nothing to run")
            return Parsed("submit", Action(kind="run", body=body))
        case b"write":
            try:
                path = argument.strip().decode()
            except UnicodeDecodeError:  # messages carry paths as text
                return invalid("a path must be UTF-8")
            if not path:
                return invalid("write needs a path")
            if "\0" in path:
                return invalid("a path cannot contain NUL")
            return Parsed("submit", Action(kind="write", body=body, path=path))
        case b"test":
            return Parsed("test")
        case b"done":
            return Parsed("done")
    return invalid(f"unknown block {verb.decode('utf-8', 'replace')[:20]!r}")


def render(action: Action | Call) -> bytes:
    """The canonical text of an action; `parse(render(a))` gives `a` back when its body ends with a newline."""
    if isinstance(action, str):
        return b"```%s\n```" % action.encode()
    longest = max((len(run) for run in re.findall(rb"^`{3,}", action.body, re.MULTILINE)), default=2)
    fence = b"`" * (longest + 1)
    path = (action.path or "").encode()
    head = b"sh" if action.kind == "run" else b"write " + path
    return fence + head + b"\n" + action.body + fence
