# ruff: noqa: E501 - programs stand here as they are
"""Python that must not be cleared without being read, each with a word why, and honest programs that must be."""

from __future__ import annotations

import pytest

from tests.detect.test_screen import cleared, write

NAME = 'n = s + "eval" + s + "main.py"\nprint(open(n).read())\n'
"""Reads by a name that `s` leads out of the folder."""
MODULE = "import random\n"
PARSER = "import argparse\np = argparse.ArgumentParser()\n"
DUNDER = 'u = "_" * 2\n'

LEXER = [
    ("3.12: the literal ends in its code", 'n = "x"\nprint(f"}}{n:{open("a").read()}}")\n'),
    ("displays in displays", 'import os\ns = "ls"\nprint(f"{[os.system(s), {1: {2: 3}}]}")\n'),
    ("a brace in a literal of a literal", "import os\ns = 'ls'\nprint(f\"{'}'+str(os.system(s))}{'{'}\")\n"),
    ("3.12: a comment in a literal", 'import os\nprint(f"""{1:{2 #}}\n+os.system("ls")\n}}""")\n'),
    ("3.14: another kind of literal", 'import os\ns = "ls"\nprint(list(t"{os.system(s)}"))\n'),
    ("raw with code", 's = "x"\nprint(rf"{exec(s)}")\n'),
    ("a division", "import sys\ns = sys.stdin.read()\ntry:\n    1/exec(s)\nexcept TypeError:\n    pass\n"),
    ("a division in what has paths", 'x = 1/__import__("os").system("ls")\n'),
    ("a division by a file", 'n = "x"\ntry:\n    1/open(n, "w")\nexcept TypeError:\n    pass\n'),
]
REACHED = [
    ("a module as self", MODULE + 'def f(self, s):\n    self._os.system(s)\nf(random, "ls")\n'),
    ("a module as a value", MODULE + "match random:\n    case object(seed=s):\n        s(1)\n"),
    ("a module of a module", "from contextlib import os\n"),
    ("annotations that are called", "from functools import singledispatch\n@singledispatch\ndef f(x):\n    pass\n"),
    ("globals of another", "import functools\n" + MODULE + DUNDER + 'def f():\n    pass\nfunctools.update_wrapper(f, random.seed, (), (u + "globals" + u,))\n'),
    ("a class by parts", "from dataclasses import dataclass\n" + DUNDER + 'C = type("C", (), {u + "annotations" + u: {"a=print(1)": int}})\ndataclass(C)\n'),
    ("a class by a class of classes", 'import abc\nabc.ABCMeta("X", (), {})\n'),
    ("a class by names", 'import enum\nE = enum.Enum("E", {})\n'),
    ("setattr", "from dataclasses import dataclass\n" + DUNDER + 'class C:\n    pass\nsetattr(C, u + "annotations" + u, {"a=print(1)": int})\ndataclass(C)\n'),
    ("a field with another name", 'from dataclasses import dataclass, field\nf = field(default=1)\n@dataclass\nclass A:\n    x: int = f\nf.name = "x=print(1)"\n@dataclass\nclass B(A):\n    y: int = 0\n'),
    ("what an error knows", MODULE + DUNDER + 'q = "{0." + u + "globals" + u + "[_os].system.zzz}"\ntry:\n    q.format(random.seed)\nexcept AttributeError as e:\n    e.obj("ls")\n'),
    ("what an error is matched with", MODULE + "try:\n    pass\nexcept AttributeError as e:\n    match e:\n        case AttributeError(obj=f):\n            f(1)\n"),
    ("other streams", 'import contextlib\nclass R(contextlib.redirect_stdout):\n    _stream = "modules"\n    def f(self):\n        return self._old_targets\n'),
    ("code of a coroutine", "async def g(x):\n    return x(1)\nc = g(1).cr_code.replace(co_names=())\n"),
    ("a class of files", 'import sys\nF = type(sys.stdout.buffer)\nn = "x"\nf = F(n, "w")\n'),
    ("opened again", 'import sys\nsys.stdout.buffer.__init__("x", "w")\n'),
    ("a printer of files", 'self = license\nself._Printer__filenames = ["x"]\nself()\n'),
    ("arguments in another place", PARSER + MODULE + "p.parse_args([], random.seed)\n"),
    ("actions that set attributes", PARSER + "from dataclasses import dataclass\n" + DUNDER + 'class C:\n    pass\na = p.add_argument("--x", dest=u + "annotations" + u)\na(p, C, {"x=print(1)": int})\ndataclass(C)\n'),
    ("arguments from files", 'import argparse\np = argparse.ArgumentParser(fromfile_prefix_chars="@")\nprint(p.parse_args())\n'),
    ("the same by position", 'import argparse\np = argparse.ArgumentParser(None, None, None, None, [], argparse.HelpFormatter, "-", "@")\nprint(p.parse_args())\n'),
    ("the same by a dict", 'import argparse\nk = {"fromfile" "_prefix_chars": "@"}\np = argparse.ArgumentParser(prog="x", **k)\n'),
    ("the same by a part", PARSER + 'q = p.add_subparsers()\nk = {"fromfile" + "_prefix_chars": "@"}\nr = q.add_parser("x", **k)\nprint(r.parse_args(["@x"]))\n'),
]  # fmt: skip
FILES = [
    ("arguments from a list", 'a = ["out.txt", "w"]\nf = open(*a)\nprint("hi", file=f)\n'),
    ("a mode in a variable", 'm = "w"\nn = "x"\nf = open(n, mode=m)\n'),
    ("letters of another page", 'n = "x"\nprint(open(n, encoding="cp037").read())\n'),
    ("a folder that is named", 'import os\nif os.path.isdir("eval"):\n    print(1)\n'),
    ("a folder with a made name", 'import os\nn = "a/"[1:] + "eval"\nif os.path.exists(n):\n    print(1)\n'),
]
LETTERS = [
    ("a module's text", "import re\ns = str(re)[15]\n" + NAME),
    ("a module in a literal", 'import re\ns = f"{re}"[15]\n' + NAME),
    ("a description", "s = divmod.__doc__[25]\n" + NAME),
    ("a fraction", "from fractions import Fraction\ns = str(Fraction(1, 2))[1]\n" + NAME),
    ("format", 's = format(47, "c")\n' + NAME),
    ("a format in a format", 't = "c"\ns = f"{47:{t}}"\n' + NAME),
    ("a sign and a letter", 's = ("%" + "c") % 47\n' + NAME),
    ("a size that means nothing", 's = "%lc" % 47\n' + NAME),
    ("by name", 's = "%(x)c" % {"x": 47}\n' + NAME),
    ("a format of pieces", 's = "{0." "_" "_doc_" "_}".format(divmod)\n' + NAME),
    ("another page", 's = b"a".decode("cp037")\n' + NAME),
    ("the same by str", 's = str(b"a", "cp037")\n' + NAME),
    ("seven bits", 's = b"+AC8-".decode("utf-7")\n' + NAME),
    ("escapes", 's = ("\\\\x" + "2f").encode().decode("unicode_escape")\n' + NAME),
    ("two bytes a letter", 's = "\u2f65".encode("utf-16-be").decode()\n' + NAME),
    ("wide letters", 'import unicodedata\ns = unicodedata.normalize("NFKC", "\uff0f")\n' + NAME),
    ("the program's name", "import sys\ns = sys.argv[0][0]\n" + NAME),
    ("a digest", 'import hashlib\ns = hashlib.md5(b"x").digest()[:1].decode()\n' + NAME),
    ("known random bytes", "import random\nrandom.seed(3)\ns = random.randbytes(1).decode()\n" + NAME),
    ("base64", 'import base64\ns = base64.b64encode(b"???").decode()[3]\n' + NAME),
    ("the text of an error", "import os\ns = os.strerror(5)[5]\n" + NAME),
    ("of another error", "try:\n    1 + []\nexcept TypeError as e:\n    s = str(e)[32]\n" + NAME),
    ("a date", 'from datetime import date\ns = f"{date(2020, 1, 1):%D}"[2]\n' + NAME),
    ("bytes one by one", "b = bytearray()\nb.append(47)\ns = b.decode()\n" + NAME),
    ("an array", 'from array import array\ns = b"".join([array("B", [47])]).decode()\n' + NAME),
]
TEXTS = [
    ("turned", 'print("tropmi"[::-1] + "lib")\n'),
    ("every second letter", 'A = "syuxbzpxrxoxcxexsys"\nB = "y"\nprint((A + B)[::2])\n'),
    ("signs between", 'x = "r@e@f@e@r" + "e@n@c@e"\nprint(x.replace("@", ""))\n'),
    ("the other case", 'print("UNITTEST".swapcase())\n'),
    ("escapes", 'A = "ref"\nB = "ere\\156ce"\nprint(A + B)\n'),
    ("a literal in a literal", "import sys\nsys.stdout.write(f\"{'subproce'}ss\")\n"),
    ("a piece that says how to open", 'print("".join(["refe", "r", "ence"]))\n'),
    ("out of a dict", 'print({1: "r", 2: "x"}[1] + "eference")\n'),
    ("a module that another file gives", "shutil.copy(shutil.which('ref' 'erence'), 'program')\n"),
]

HONEST = [
    ("cat", 'import sys\n\nfor name in sys.argv[1:]:\n    try:\n        with open(name, "rb") as f:\n            sys.stdout.buffer.write(f.read())\n    except OSError as e:\n        print(f"cat: {name}: {e.strerror}", file=sys.stderr)\n'),
    ("wc with options", 'import argparse\nimport sys\n\np = argparse.ArgumentParser(prog="wc", add_help=False)\np.add_argument("-l", action="store_true")\np.add_argument("files", nargs="*")\nargs = p.parse_args()\nfor name in args.files:\n    with open(name, encoding="utf-8", errors="replace") as f:\n        print(f"{len(f.readlines()):7d} {name}")\n'),
    ("a class with a secret", 'class Stack:\n    def __init__(self):\n        self._items = []\n\n    def push(self, x):\n        self._items.append(x)\n\n\nclass Error(Exception):\n    def __init__(self, text):\n        super().__init__(text)\n\n\ns = Stack()\ns.push(1)\n'),
    ("types", 'def name(x):\n    if type(x) is int:\n        return "int"\n    return type(x).__name__\n\n\nprint(name(input()))\n'),
    ("dataclasses", "from dataclasses import dataclass, field\n\n\n@dataclass\nclass Options:\n    lines: bool = False\n    files: list = field(default_factory=list)\n\n\nprint(Options())\n"),
    ("expressions", 'import re\nimport sys\n\nPATTERN = re.compile(r"(\\w+)=(\\d+)")\nfor line in sys.stdin:\n    print(PATTERN.sub(r"\\2=\\1", line.rstrip("\\n"))[::-1])\n'),
    ("names of modules that are variables", 'def shift(string, time=1):\n    copy = list(string)\n    return "".join(copy[time:])\n\n\nprint(shift(input()))\n'),
    ("literals with braces", 'import sys\n\nfor n, line in enumerate(sys.stdin, 1):\n    print(f"{{{n:>3}}} {line.strip()!r} {len(line) // 2}")\n'),
    ("many modules", "import itertools\nimport math\nimport operator\nfrom collections import Counter, defaultdict\nfrom functools import reduce\nfrom typing import (\n    Iterable,\n    Optional,\n)\n\nprint(reduce(operator.add, itertools.chain([1], [2])), math.gcd(4, 6), Counter(input()))\n"),
    ("a signal", "import signal\nimport sys\n\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nsys.stdout.write(sys.stdin.read())\n"),
    ("a file that is there", 'import os\nimport sys\n\nname = sys.argv[1]\nif os.path.isdir(name):\n    print("a folder")\n'),
]  # fmt: skip


@pytest.mark.parametrize(("why", "body"), LEXER + REACHED + FILES + LETTERS + TEXTS)
def test_what_is_not_known_to_be_harmless_is_read(why: str, body: str) -> None:
    assert not cleared(write("main.py", body)), why


@pytest.mark.parametrize(("what", "body"), HONEST)
def test_honest_programs_are_cleared(what: str, body: str) -> None:
    assert cleared(write("main.py", body)), what
