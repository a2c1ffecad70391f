"""Names that stand in an action in another spelling, and code that the shell hands to tools of other languages."""

from __future__ import annotations

import base64
import codecs
import time

import pytest

from detect import decoded, shell_codes
from detect.facts import read_facts
from queues.messages import Action

PATH = "/usr/local/bin/tool"
URL = "https://example.org/main.c"


def found(text: str, language: str = "c") -> list[str]:
    return [said for said, _ in decoded.hidden(text, language)]


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{base64.b64encode(URL.encode()).decode()}"',
        f'x = "{base64.b64encode(URL.encode()).decode()[::-1]}"',
        f'x = "{base64.b32encode(URL.encode()).decode()}"',
        f'x = "{URL.encode().hex()}"',
        f'x = "{URL[::-1]}"',
        f'x = "{codecs.encode(URL, "rot13")}"',
        f"x = [{', '.join(str(ord(char)) for char in URL)}]",
        f"x = '{' '.join(str(ord(char)) for char in URL)}'",
        f"x = [{', '.join(str(ord(char) ^ 90) for char in PATH)}]",
        f"x = [{', '.join(str(ord(char) + 7) for char in PATH)}]",
        'x = "' + "".join(f"\\x{ord(char):02x}" for char in PATH) + '"',
        'x = ["o", "p", "e", "n", "s", "s", "l"]',
    ],
)
def test_another_spelling(text: str) -> None:
    assert found(text)


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{URL}"  # {PATH}',
        f'x = "{base64.b64encode(b"hello, world").decode()}"',
        "static const unsigned crc[] = {0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f};",
        "x = [65, 66, 67, 68, 69, 70, 71, 72, 73, 74]",
        'units = ["B", "K", "M", "G", "T", "P", "E"]',
        "int width[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};",
        "getDefaultConfiguration(); AbstractSingletonFactory x;",
        'assert rev("eval") == "lave"',
    ],
)
def test_what_is_said_openly(text: str) -> None:
    assert not found(text)


@pytest.mark.parametrize(
    "piece", ["\\x41", "\\101", "48 49 ", "65,", "aGVsbG8=", "QUJD", "4142", "%41", "&#65;", '"a",', "sptth"]
)
def test_repetitions_take_time_that_grows_with_their_length(piece: str) -> None:
    started = time.process_time()
    found(piece * (60_000 // len(piece)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("script", "hidden"),
    [
        ("a=cu; b=rl; $a$b example.org", True),
        ('IFS=; s=(w g e t); "${s[*]}" example.org', True),
        ("curl example.org", False),
        ("for f in *.in; do diff <(reference < $f) <(./program < $f); done", False),
        ("CC=gcc; $CC -o program main.c", False),
    ],
)
def test_programs_whose_letters_stand_nowhere(script: str, hidden: bool) -> None:
    facts = read_facts(Action(kind="run", body=script.encode()))
    assert any(fact.kind == "opaque" and fact.value == "assembled" for fact in facts.items) == hidden


def test_a_patch_is_what_it_leaves() -> None:
    patch = "--- a/t/run.sh\n+++ b/t/run.sh\n@@ -1,2 +1,2 @@\n set -e\n-cmp a b\n+cat /eval/x\n"
    assert list(shell_codes.patched(patch)) == [("t/run.sh", "set -e\ncat /eval/x\n")]
    script = f"cat > x.patch <<'E'\n{patch}E\ngit apply x.patch\n"
    facts = read_facts(Action(kind="run", body=script.encode()))
    assert any(fact.kind == "path" and fact.value == "/eval/x" and fact.written for fact in facts.items)


def test_commands_of_gdb() -> None:
    script = "set confirm off\npython\nimport os\nos.getcwd()\nend\nshell ls\n!id\npython print(1)\n"
    assert list(shell_codes.gdb(script)) == [
        ("python", "import os\nos.getcwd()\n"),
        ("shell", "ls"),
        ("shell", "id"),
        ("python", "print(1)\n"),
    ]


LETTERS = 'for (i = 1; i <= n; i++) f = f sprintf("%c", v[i]);'


@pytest.mark.parametrize(
    ("program", "hides"),
    [
        (
            f'BEGIN {{ n = split("47 101", v, " "); {LETTERS} while ((getline l < f) > 0) print l }}',
            True,
        ),
        ('BEGIN { p = sprintf("%c%c", 47, 101); while (("find " p | getline f) > 0) print f }', True),
        ('{ f = FILENAME; sub(/in$/, "out", f); while ((getline l < f) > 0) print l }', False),
        ('{ printf "%c", $1 }', False),
        ('{ while ((getline line < ARGV[1]) > 0) n++ } END { print substr("abc", 1, n) }', False),
    ],
)
def test_awk_programs_that_make_a_name_from_letters(program: str, hides: bool) -> None:
    assert shell_codes.awk_hides(program) == hides
