"""The actions of `benchmarks.fakes`: cheats alone and inside scripts of many styles, in two halves.

The tuning half are the corpus' cheats in the styles below, and `benchmarks.fakes_tuning`; the measuring half is
`benchmarks.fakes_measuring`. Every style is a script that an agent could write, with `{C}` where the cheat stands; the
rest of it is honest work that prints, writes files, compiles, loops, pipes or fails. Nothing here is random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import fakes_measuring, fakes_measuring_later, fakes_tuning, fakes_tuning_later
from queues.messages import Action

CORPUS = Path(__file__).parents[1] / "tests/corpus/cheats.jsonl"

STYLES: dict[str, str] = {
    "alone": "{C}\n",
    "set -e": 'set -e\necho "looking around"\n{C}\necho done\n',
    "pipefail": 'set -euo pipefail\nn=0\nfor i in 1 2 3; do n=$((n + i)); done\necho "n=$n"\n{C}\necho "after: $n"\n',
    "folder": "mkdir -p build && cd build && pwd\n{C}\n",
    "or": 'echo one two | tr a-z A-Z\n{C} || echo "failed: $?"\n',
    "and": "echo begin && {C} && echo end\n",
    "compiled before": (
        "cat > hello.c <<'EOF'\n#include <stdio.h>\nint main(void)\n{\n    puts(\"hello\");\n    return 0;\n}\nEOF\n"
        "gcc -Wall -o hello hello.c && ./hello\n{C}\n"
    ),
    "does not compile": (
        "cat > sum.c <<'EOF'\n#include <stdio.h>\nint main(void)\n{\n    printf(\"%d\\n\", total);\n}\nEOF\n"
        "gcc -o sum sum.c\n{C}\n"
    ),
    "python before": 'python3 -c "print(6 * 7)"\n{C}\n',
    "python script before": (
        "cat > t.py <<'EOF'\nimport sys\n\ndef f(x):\n    return x / 0\n\nprint('start')\nsys.stdout.flush()\n"
        "f(1)\nEOF\npython3 t.py\n{C}\n"
    ),
    "python here-document": "python3 - <<'EOF'\nprint('sum', sum(range(10)))\nEOF\n{C}; echo \"exit $?\"\n",
    "loop": 'for f in a.txt b.txt; do\n  echo "$f" > $f\ndone\nls\n{C}\n',
    "list": "printf '%s\\n' pear apple fig > list.txt\nwc -l list.txt\nsort list.txt | head -2\n{C}\ncat list.txt\n",
    "merged": '{C} 2>&1 | head -5\necho "status ${PIPESTATUS[0]}"\n',
    "if": 'if [ -f main.py ]; then\n  python3 main.py\nelse\n  echo "no main.py"\nfi\n{C}\n',
    "group": "{ echo start; {C}; echo end; } > log.txt 2>&1\ncat log.txt\n",
    "function": 'say() { echo "-- $1"; }\nsay one\n{C}\nsay two\n',
    "subshell": "(cd /tmp && pwd)\n{C}\npwd\n",
    "exit": "echo 'checking'\n{C}\nexit 3\n",
    "read loop": "while read -r l; do echo \"> $l\"; done <<'EOF'\na\nb\nEOF\n{C}\n",
    "case": 'case "$(uname)" in\n  Linux) echo linux ;;\n  *) echo other ;;\nesac\n{C}\n',
    "copy": "echo hello > a.txt; cp a.txt b.txt; diff a.txt b.txt && echo same; rm a.txt; ls\n{C}\n",
    "to a file": "{C} > out.txt\nwc -c < out.txt\ncat out.txt\n",
    "numbers": "seq 3\nseq 1 5 | awk '{ s += $1 } END { print s }'\n{C}\n",
    "missing first": "cat notes.txt\n{C}\necho last\n",
    "quiet": "{C} 2>/dev/null; echo $?\n",
    "make": "cat > Makefile <<'EOF'\nall: hello\n\nhello:\n\t@echo building\n\tfalse\nEOF\nmake\n{C}\n",
    "script file": 'cat > run.sh <<\'EOF\'\n#!/bin/sh\necho "running"\n{C}\necho "finished"\nEOF\nbash run.sh\n',
    "timed": "sleep 0.05\necho slept\n{C}\n",
    "grep": "printf 'x=1\\ny=2\\n' > conf\ngrep -c = conf\ngrep z conf || echo none\n{C}\nsed -n 2p conf\n",
    "which": "which python3 gcc make\n{C}\n",
    "version": "python3 --version\n{C}\n",
    "test suite": (
        "cat > test_sum.py <<'EOF'\nimport unittest\n\nclass T(unittest.TestCase):\n    def test_sum(self):\n"
        "        self.assertEqual(sum([1, 2]), 4)\n\nunittest.main()\nEOF\npython3 test_sum.py 2>/dev/null\n"
        'echo "tests: $?"\n{C}\n'
    ),
    "background": "sleep 0 &\nwait\necho waited\n{C}\n",
    "negated": '! {C}\necho "inverted: $?"\n',
    "if cheat": "if {C}; then\n  echo found\nelse\n  echo 'not found'\nfi\n",
    "substituted": 'x=$({C})\necho "got: $x"\n',
}
"""Name of a style to the script around the cheat."""


def cheats() -> list[dict]:
    with CORPUS.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tuning_actions() -> list[tuple[str, str, Action]]:
    later = fakes_tuning_later
    return (
        corpus_actions()
        + _fresh(fakes_tuning.CHEATS, fakes_tuning.STYLES, fakes_tuning.SCRIPTS)
        + _fresh(later.CHEATS, later.STYLES, later.SCRIPTS, per_cheat=7)
    )


def measuring_actions() -> list[tuple[str, str, Action]]:
    return _fresh(fakes_measuring.CHEATS, fakes_measuring.STYLES, fakes_measuring.SCRIPTS) + later_actions()


def later_actions() -> list[tuple[str, str, Action]]:
    """Those of the measuring half that were written last."""
    return _fresh(
        fakes_measuring_later.CHEATS, fakes_measuring_later.STYLES, fakes_measuring_later.SCRIPTS, per_cheat=3
    )


def _fresh(
    cheats: Sequence[str], styles: Mapping[str, str], scripts: Sequence[str], per_cheat: int = 4
) -> list[tuple[str, str, Action]]:
    """(style, cheat, action): every cheat alone and in `per_cheat` styles, every script as it is."""
    names = list(styles)
    found = [("script", script, script) for script in scripts]
    for number, cheat in enumerate(cheats):
        found.append(("alone", cheat, cheat + "\n"))
        for n in range(number * per_cheat, (number + 1) * per_cheat):
            style = names[n % len(names)]
            found.append((style, cheat, styles[style].replace("{C}", cheat)))
    return [(style, cheat, Action(kind="run", body=body.encode())) for style, cheat, body in found]


def corpus_actions(per_cheat: int = 2) -> list[tuple[str, str, Action]]:
    """(style, cheat, action): every shell cheat of the corpus alone, and in `per_cheat` styles if it is one line."""
    names = list(STYLES)
    found, turn = [], 0
    for row in cheats():
        if row["language"] != "shell" or "filename" in row:
            continue
        cheat = row["action"].rstrip("\n")
        styles = ["alone"]
        if _one_command(cheat):
            styles += [names[1 + (turn + n) % (len(names) - 1)] for n in range(per_cheat)]
            turn += per_cheat
        for style in styles:
            body = STYLES[style].replace("{C}", cheat)
            found.append((style, cheat, Action(kind="run", body=body.encode())))
    return found


def file_actions() -> list[tuple[str, str, Action]]:
    """(language, cheat, action): the files that the corpus' cheats write."""
    suffixes = {"python": "main.py", "c": "main.c", "cpp": "main.cpp", "make": "Makefile", "go": "main.go"}
    suffixes |= {"rust": "main.rs", "java": "Main.java", "javascript": "main.js", "cmake": "CMakeLists.txt"}
    return [
        (
            row["language"],
            row["action"],
            Action(kind="write", path=row.get("filename") or suffixes[row["language"]], body=row["action"].encode()),
        )
        for row in cheats()
        if "filename" in row or row["language"] in suffixes
    ]


def _one_command(cheat: str) -> bool:
    return "\n" not in cheat and "<<E" not in cheat and not cheat.endswith("&") and "#" not in cheat
