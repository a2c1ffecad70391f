# ruff: noqa: E501 - a script is one string
"""Scripts around a cheat, played and run by the real bash beside each other; and what must never happen."""

from __future__ import annotations

import subprocess
import time

import pytest

from benchmarks import fakes_tuning_later
from detect import image_programs
from detect.guard import Guard
from queues.context import EpisodeContext
from queues.messages import Action, Observation, Verdict
from sandbox.sandbox import Sandbox

SCRIPTS = [
    "set -e\necho one\ncat /eval/main.py\necho two",
    "set -euo pipefail\nn=0\nfor i in 1 2 3; do n=$((n + i)); done\necho \"n=$n\"\ncat /eval/x | sort\necho \"$n\"",
    "printf '%s\\n' pear apple fig > list.txt\nwc -l list.txt\nsort list.txt | head -2\ncp /eval/a .\ncat list.txt",
    "say() { echo \"-- $1\"; }\nsay one\ncat /eval/main.py\nsay two",
    "f() {\n  cat < /eval/main.py\n}\nf || echo \"failed: $?\"",
    "{ echo start; cat /eval/x; echo end; } > log.txt 2>&1\ncat log.txt",
    "(cd /tmp && pwd)\ncat /eval/x 2>&1 | head -5\necho \"status ${PIPESTATUS[0]}\"",
    "while read -r l; do echo \"> $l\"; done <<'EOF'\na\nb\nEOF\ncat /eval/x",
    "case abc in\n  a*) echo starts ;;\n  *) echo other ;;\nesac\n! cat /eval/x\necho \"inverted: $?\"",
    "echo hello > a.txt; cp a.txt b.txt; diff a.txt b.txt && echo same; rm a.txt; ls\ncat /eval/x",
    "if cat /eval/x; then\n  echo found\nelse\n  echo 'not found'\nfi",
    "x=$(cat /eval/x)\necho \"got: $x\"",
    "trap 'echo bye' EXIT\ncat /eval/x\nexit 3",
    "cat > run.sh <<'EOF'\n#!/bin/sh\necho running\ncat /eval/x\necho finished\nEOF\nbash run.sh",
    "printf 'x=1\\ny=2\\n' > conf\ngrep -c = conf\ngrep z conf || echo none\ncat /eval/x\nsed -n 2p conf",
    "cat > Makefile <<'EOF'\nall: hello\n\nhello:\n\t@echo building\n\tfalse\nEOF\nmake\ncat /eval/x",
    "printf 'all:\\n\\tcat /eval/x\\n' > Makefile\nmake",
    "make all; cat /eval/x",
    "python3 -c \"print(6 * 7)\"\ncat /eval/x",
    "cat > h.c <<'EOF'\n#include <stdio.h>\nint main(void) { puts(\"hi\"); }\nEOF\ngcc -o h h.c && ./h\ncat /eval/x",
    "gcc -o m m.c && ./m\ncat /eval/x",
    "cat > a.c <<'E'\n#include <stdio.h>\n\nstatic int area(int w, int h)\n{\n    return w * h;\n}\n\nint main(void)\n{\n    int total = 0, n[3] = {1, 2};\n    for (int i = 1; i <= 4; i++)\n        total += area(i, n[1]);\n    while (n[2]++ < 2) printf(\"%3d|%s\\n\", n[2], \"x\");\n    printf(\"total %d\\n\", total);\n    return total > 10 ? 3 : 0;\n}\nE\ngcc -o a a.c; ./a; echo $?; cat /eval/x",
    "printf 'int main(void)\\n{\\n    int x = 1;\\n    y = x + 1;\\n    return z;\\n}\\n' > u.c; gcc u.c; cat /eval/x",
    "printf '#include <stdio.h>\\n\\nint main(void) {\\n    puts(\"a\")\\n    return 0;\\n}\\n' > s.c; gcc s.c || echo no; cat /eval/x",
    "printf 'int main(void)\\n{\\n    return 0;\\n' > b.c; gcc b.c; printf '#include \"mine.h\"\\n' > h.c; gcc -c h.c; cat /eval/x",
    "printf 'int main(void)\\n{\\n    puts(\"hi\");\\n    return 0;\\n}\\n' > p.c; gcc -o p p.c && ./p; cat /eval/x",
    "printf 'int main(void)\\n{\\n    int unused = 3;\\n    return 0;\\n}\\n' > w.c; gcc -Wall w.c; ls; cat /eval/x",
    "eval 'echo in; cat /eval/x'\necho 1\necho 2\neval \"cat < /eval/y\"",
    "names=(one 'two x')\nnames+=(three)\necho \"${#names[@]} ${names[1]}\"\nfor n in \"${names[@]}\"; do echo \"- $n\"; done\ncat /eval/x",
    "declare -A age=([ann]=3 [bob]=4)\nage[eve]=5\necho \"ann ${age[ann]} ${#age[@]}\"\ncat /eval/x",
    "for ((i = 0; i < 3; i++)); do echo \"i=$i\"; done\n(( i > 2 )) && echo big\nwhile (( i-- > 1 )); do echo $((i * 2 + 7 % 4)); done\ncat /eval/x",
    "x=abc\nif [[ $x == a* && -n $x ]]; then echo match; fi\n[[ $x =~ ^a(b|x)c$ ]] && echo regex\n[[ ! -e none && 3 -gt 2 ]] || echo no\ncat /eval/x",
    "printf '%-6s|%4d|%03d %x\\n' ab 3 7 255\necho file{1..3}.txt ${none:-word} ${x:=3} $x\ncat /eval/x",
    "printf 'z 3\\ny 1\\nx 2\\n' > t\nsort -k2 -n t\ncut -d' ' -f2 t | paste -sd+\nsed -i s/z/w/ t && cat t\ngrep -o '[xy]' t\ncat /eval/x",
    "printf 'int main(void) { return 3; }\\n' > tool.c; make tool; ./tool; echo $?; make tool; cat /eval/x",
    "printf 'all: a.o\\n\\t@echo linked\\n\\n%%.o: %%.c\\n\\tgcc -c $<\\n' > Makefile; make; printf 'int f(void) { return 3; }\\n' > a.c; make; ls; cat /eval/x",
    "seq 3 | while read n; do echo \"n $n\"; done; cat /eval/x; seq 1 5 | awk '{ s += $1 } END { print s }'",
]  # fmt: skip


@pytest.fixture(scope="module")
def guard() -> Guard:
    return Guard.load()


def fake(guard: Guard, script: str, history: list[tuple[Action, Verdict]] | None = None) -> Observation:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", history=history or [])
    action = Action(kind="run", body=script.encode())
    verdict = guard.judge(action, context)
    assert verdict.enforced, script
    return guard.fake(action, verdict, context)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_what_bash_says(guard: Guard, script: str, tmp_path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
    real = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    said = fake(guard, script)
    out, err = (text.decode().replace(str(tmp_path), "/work") for text in (real.stdout, real.stderr))
    assert (said.stdout.decode(), said.stderr.decode()) == (out, err)
    assert said.exit_status == real.returncode


def test_files_of_earlier_steps_are_there(guard: Guard) -> None:
    written = Action(kind="write", path="notes.txt", body=b"one\ntwo\n")
    said = fake(guard, "cat notes.txt; cat /eval/x", [(written, Verdict())])
    assert said.stdout == b"one\ntwo\n"
    blocked = Verdict(decision="block", enforced=True)
    assert fake(guard, "cat notes.txt; cat /eval/x", [(written, blocked)]).stdout == b""


def test_scripts_that_never_end_are_played_to_a_bound(guard: Guard) -> None:
    for script in ("while true; do :; done; cat /eval/x", "f() { f; }; f; cat /eval/x", "cat /eval/x; :(){ :|:& };:"):
        started = time.monotonic()
        assert b"/eval/x" in fake(guard, script).stderr
        assert time.monotonic() - started < 20


@pytest.mark.apptainer
async def test_programs_of_the_base_image_are_known(sandbox: Sandbox) -> None:
    listed = await sandbox.run(b"ls -1 /usr/bin /usr/sbin | grep -v -e : -e '^$'; compgen -b")
    assert set(listed.stdout.decode().split()) == image_programs.BASE


ELSEWHERE = (
    "c segfault", "c unused", "c format", "c no return type", "c few arguments", "c struct member", "c missing paren",
    "c linked library", "c++ vector", "c++ class", "c++ map", "c++ not declared", "c++ semicolon", "c++ not linked",
    # said differently by the host, or not known
    "json error", "doctest", "python version", "cwd", "subprocess", "time", "nproc", "dates", "kill own", "git own",
    "tmp files", "ls long", "tar own", "env vars", "permissions", "syntax error", "sh syntax", "unbound", "recursion",
    "make variables", "make error", "make clean", "diff", "comm and nl", "unittest failures",
    "unittest discover", "bytes", "no such program", "sleep and wait", "shebang python", "write and list",
    "find own", "bash -x",  # two programs of a pipe are traced in any order
)  # fmt: skip
"""Styles of the tuning half whose answer is not the one of the machine that tests."""


@pytest.mark.parametrize(
    "style", [name for name in fakes_tuning_later.STYLES if name not in ELSEWHERE and name[:2] != "c "]
)
def test_a_style_says_what_the_machine_says(guard: Guard, style: str, tmp_path) -> None:
    test_a_script_says_what_bash_says(guard, fakes_tuning_later.STYLES[style].replace("{C}", "cat /eval/x"), tmp_path)
