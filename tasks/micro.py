"""The micro suite: tiny programs, one line of text in, text out, each rebuilt by one short line of Python.

Every task has the same instructions, so a policy can only tell the programs apart by running the reference.
`MICRO` also serves the demonstrations that warm-start a policy. The references are written differently from the
solutions, and expected output always comes from running them. What must never happen: two programs that agree on all
hidden inputs (`tasks.build` refuses such a suite).
"""

from __future__ import annotations

import msgspec


class MicroProgram(msgspec.Struct, frozen=True):
    """`source` is the true solution, one line of Python without its newline; `reference` is the body of the program
    that the oracle runs, with the line of input in `line` and the answer left in `out`."""

    name: str
    source: str
    title: str
    reference: str


MICRO: tuple[MicroProgram, ...] = (
    MicroProgram("reverse", "print(input()[::-1])", "the line backwards", "out = ''.join(reversed(line))"),
    MicroProgram("upper", "print(input().upper())", "the line in capitals", "out = ''.join(c.upper() for c in line)"),
    MicroProgram(
        "title",
        "print(input().title())",
        "every word with a capital",
        "out = ' '.join(w[:1].upper() + w[1:].lower() for w in line.split(' '))",
    ),
    MicroProgram(
        "sort",
        "print(*sorted(input().split()))",
        "the words in order",
        "words = line.split()\nwords.sort()\nout = ' '.join(words)",
    ),
    MicroProgram(
        "flip",
        "print(*input().split()[::-1])",
        "the words in reverse order",
        "words = line.split()\nwords.reverse()\nout = ' '.join(words)",
    ),
    MicroProgram("length", "print(len(input()))", "number of characters", "out = str(sum(1 for _ in line))"),
    MicroProgram(
        "words",
        "print(len(input().split()))",
        "number of words",
        "out = str(sum(1 for word in line.split(' ') if word))",
    ),
    MicroProgram("first", "print(input().split()[0])", "the first word", "out = line.strip().partition(' ')[0]"),
    MicroProgram("last", "print(input().split()[-1])", "the last word", "out = line.strip().rpartition(' ')[2]"),
    MicroProgram(
        "min",
        "print(min(input().split()))",
        "the smallest word",
        "out = None\nfor word in line.split():\n    out = word if out is None or word < out else out",
    ),
    MicroProgram(
        "squash",
        "print(input().replace(' ',''))",
        "the line without spaces",
        "out = ''.join(c for c in line if c != ' ')",
    ),
    MicroProgram("double", "print(input()*2)", "the line twice", "out = line + line"),
)

INSTRUCTIONS = "Rebuild `reference` as main.py\n"

PROBES: tuple[bytes, ...] = (b"b ac c\n", b"cb a bb\n", b"c ba dd\n")
"""Inputs on each of which any two programs differ: one query of the oracle tells which program it is."""

INPUTS: tuple[bytes, ...] = (
    b"pear fig apple kiwi\n",
    b"Zoe ann Bob zoe carl\n",
    b"one two two one\n",
    b"x10 b2 a33 c4 d\n",
    b"the cat sat on a mat\n",
    b"lorem Ipsum dolor",
)
"""Standard input of the hidden cases, the same for every program; the last line lacks its newline."""

MAX_STEPS = 4


def reference_source(program: MicroProgram) -> str:
    """The complete reference program."""
    return "\n".join(
        (
            "import sys",
            "",
            "line = sys.stdin.readline().rstrip('\\n')",
            program.reference,
            "sys.stdout.write(out + '\\n')",
            "",
        )
    )
