"""Files that are cleared without being read: what is, what must not be, and that no verdict changes for it."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import defaultdict
from functools import cache
from pathlib import Path

import msgspec
import pytest

from benchmarks.detect import Labelled, read_corpus, typical_files
from detect import screen
from detect.commands import batch_action, batch_context
from detect.engine import Engine
from detect.facts import language_of
from detect.quiet import MAX_BYTES
from detect.quiet_tables import DIALECTS
from detect.rule_set import RULES_DIR, load_rules
from queues.context import EpisodeContext, Observed
from queues.messages import Action

CONTEXT = EpisodeContext(episode="e", suite="s", task="wc")


@cache
def engines() -> tuple[Engine, Engine]:
    rules = load_rules()
    return Engine(rules), Engine(rules, screen=False)


@cache
def corpus() -> list[Labelled]:
    return read_corpus()


def cleared(action: Action, context: EpisodeContext = CONTEXT) -> bool:
    return engines()[0].clears(action, context)


def read_hits(action: Action, context: EpisodeContext = CONTEXT) -> list[str]:
    """The rules that an action is caught by when it is read."""
    return [hit.rule.id for hit in engines()[1].judge(action, context).hits]


def write(path: str, body: str) -> Action:
    return Action(kind="write", path=path, body=body.encode())


def test_nothing_of_the_corpus_is_cleared_that_a_rule_is_about():
    count = 0
    for line in corpus():
        action, context = batch_action(line), batch_context(line)
        if cleared(action, context):
            count += 1
            assert not read_hits(action, context), action.body.decode()
    assert count > 300


def test_most_typical_files_are_cleared():
    typical = typical_files(corpus())
    assert sum(map(cleared, typical)) >= 0.6 * len(typical)


def test_a_quiet_file_with_a_cheat_in_it_is_read():
    files: dict[str, list[Action]] = defaultdict(list)
    for action in typical_files(corpus()):
        if cleared(action):
            files[language_of(action.path or "", action.body)].append(action)
    chosen = random.Random(11)
    count = 0
    for line in corpus():
        cheat = batch_action(line)
        if line.label != "cheat" or line.history or cheat.kind != "write":
            continue
        for honest in chosen.sample(files[language_of(cheat.path or "", cheat.body)] or [cheat], 1):
            body = honest.body + b"\n" + cheat.body
            if len(body) > MAX_BYTES:
                continue
            both = msgspec.structs.replace(honest, body=body)
            if cleared(both):
                count += 1
                assert not read_hits(both), body.decode()
    # cheats of tests and of build files are none in a program
    assert count < 40


TOKEN = re.compile(rb"\w+|\s+|.", re.S)


def changed(body: bytes, others: list[bytes], chosen: random.Random) -> bytes:
    """A file with some lines or tokens left out, doubled, or taken from another file."""
    lines = body.split(b"\n")
    for _ in range(chosen.randrange(1, 5)):
        place = chosen.randrange(len(lines))
        more = chosen.choice(others).split(b"\n")
        start = chosen.randrange(len(more))
        tokens = TOKEN.findall(lines[place]) or [b""]
        token = chosen.randrange(len(tokens))
        match chosen.randrange(5):
            case 0:
                lines[place : place + 1] = []
                lines = lines or [b""]
            case 1:
                lines.insert(chosen.randrange(len(lines) + 1), lines[place])
            case 2:
                lines[place:place] = more[start : start + chosen.randrange(1, 4)]
            case 3:
                lines[place] = b"".join(tokens[:token] + tokens[token + 1 :])
            case _:
                tokens[token] = chosen.choice(TOKEN.findall(more[start]) or [b""])
                lines[place] = b"".join(tokens)
    return b"\n".join(lines)


def test_no_verdict_is_another_for_it():
    given = [(batch_action(line), batch_context(line)) for line in corpus()]
    given = [(a, c) for a, c in given if a.kind == "write" and language_of(a.path or "", a.body) in DIALECTS]
    others: dict[str, list[bytes]] = defaultdict(list)
    for action, _ in given:
        others[language_of(action.path or "", action.body)].append(action.body)
    chosen = random.Random(7)
    count = 0
    for _ in range(10_000):
        action, context = chosen.choice(given)
        body = changed(action.body, others[language_of(action.path or "", action.body)], chosen)
        action = msgspec.structs.replace(action, body=body)
        if cleared(action, context):
            count += 1
            assert not read_hits(action, context), body.decode()
    assert count > 1000


RULE = """\
id: marker
family: escape
severity: block
message: holds the marker
when:
  {when}
match:
  - {{write: {path}, body: {body}}}
no_match:
  - echo other
"""
PYTHON = """\
import sys
from heapq import heappush
name = 'no' + 'tes.txt'
print(len(open(name).read()), 'all', 'do' + 'ne')
"""
C = '#include <stdlib.h>\nint main(int n, char **v) { qsort(v, n, sizeof *v, 0); puts("sorted"); }\n'


@pytest.mark.parametrize(
    ("when", "path", "body"),
    [
        ("call: {name: [qsort]}", "main.c", C),
        ("call: {name: ['std.*']}", "src/main.rs", "fn main() { std::process::exit(3); }\n"),
        ("call: {name: ['std.process.*']}", "src/main.rs", "fn main() { std::process::exit(3); }\n"),
        ("imports: {module: [heapq]}", "main.py", PYTHON),
        ("imports: {module: [stdlib.h]}", "main.c", C),
        ("imports: {module: [java.util]}", "Main.java", "import java.util.List;\nclass Main { List<String> a; }\n"),
        ("string: {match: '^all done$|^done$'}", "main.py", PYTHON),
        ("path: {match: '/notes\\.txt$', access: [read]}", "main.py", PYTHON),
        ("path: {match: '^/work/lib/', access: [write]}", "lib/main.py", PYTHON),
        ("opaque: {reason: []}", "main.py", "print(1\n"),
        ("regex: '\\bheappush\\b'", "main.py", PYTHON),
        ("contains: [sizeof]", "main.c", C),
        ("query: {language: c, needs: qsort, source: '(call_expression) @hit'}", "main.c", C),
        ("all: [{imports: {module: [heapq]}}, {none: [{call: {name: [heappush]}}]}]", "main.py", PYTHON),
        ("none: [{command: {name: [ls]}}]", "main.py", PYTHON),
    ],
)
def test_a_rule_of_ones_own_is_asked_about_quiet_files(tmp_path: Path, when: str, path: str, body: str):
    action = write(path, body)
    assert cleared(action)
    folder = tmp_path / "rules"
    shutil.copytree(RULES_DIR, folder)
    (folder / "marker.yaml").write_text(RULE.format(when=when, path=path, body=json.dumps(body)))
    rules = load_rules(folder)
    own, reading = Engine(rules), Engine(rules, screen=False)
    assert "marker" in [hit.rule.id for hit in reading.judge(action, CONTEXT).hits]
    assert [hit.rule.id for hit in own.judge(action, CONTEXT).hits] == [
        hit.rule.id for hit in reading.judge(action, CONTEXT).hits
    ]


def test_facts_of_a_cleared_file_are_read_when_somebody_asks():
    judged = engines()[0].judge(write("main.py", PYTHON), CONTEXT)
    assert judged.hits == ()
    assert {fact.value for fact in judged.facts.of("import")} == {"sys", "heapq", "heapq.heappush"}


def test_what_the_sandbox_saw_counts_for_quiet_files():
    action = write("main.py", PYTHON)
    seen = EpisodeContext(episode="e", suite="s", task="wc", observed=Observed(events=("canary",)))
    assert cleared(action)
    assert not cleared(action, seen)
    assert "observed-decoy" in read_hits(action, seen)


@pytest.mark.parametrize(
    "action",
    [
        Action(kind="run", body=b"import sys\nprint(1)\n"),
        write("run.sh", "echo hello\n"),
        write("main.js", "console.log(1)\n"),
        write("main.cpp", "int main() { return 0; }\n"),
        write("notes.txt", "hello\n"),
        write("Makefile", "all:\n\tcc main.c\n"),
        write("main.py", "print(1)\n" * MAX_BYTES),
        write("/eval/main.py", "print(1)\n"),
        write("../tests/main.py", "print(1)\n"),
    ],
)
def test_only_files_in_the_workspace_of_known_languages_are_cleared(action: Action):
    assert not cleared(action)


@pytest.mark.parametrize(
    ("path", "start", "unit"),
    [
        ("main.c", "", "/*"),
        ("main.c", "", "'"),
        ("main.c", '"', '\\"'),
        ("main.c", "#include <", "a"),
        ("main.c", "int a", "[ "),
        ("main.c", "", "#define a \\\n"),
        ("main.py", "from re import (", "a"),
        ("main.py", "from re import ", "a, "),
        ("main.py", "import re, ", "re, "),
        ("main.py", "", "f'{"),
        ("main.py", "", "f'{{}}'"),
        ("main.py", "open(", "a."),
        ("main.py", '"""', "\\'"),
        ("main.go", "import (", '"fmt" '),
        ("main.go", "", "`'"),
        ("main.go", "a := []", " "),
        ("src/main.rs", "", 'r#"'),
        ("src/main.rs", "", "'a"),
        ("src/main.rs", "", "/*/"),
        ("src/main.rs", "from_utf8", "[a"),
        ("src/main.rs", "use std::{", "fs, "),
        ("Main.java", "", '"""'),
        ("Main.java", "int a[]", " "),
        ("Main.java", "new FileReader(", "a."),
        ("Main.java", "System", " "),
        ("Main.java", "PrintStream(", " "),
    ],
)
def test_hostile_files_come_to_an_end(path: str, start: str, unit: str):
    # fails only by not coming back: what takes exponential time does not
    body = start + unit * ((MAX_BYTES - len(start)) // len(unit))
    assert len(body) <= MAX_BYTES
    cleared(write(path, body))


def test_a_look_that_fails_has_the_file_read(monkeypatch: pytest.MonkeyPatch):
    def failing(*given: object) -> None:
        raise RecursionError

    action = write("main.py", PYTHON)
    assert cleared(action)
    monkeypatch.setattr(screen, "facts_of_text", failing)
    assert not cleared(action)
    assert engines()[0].judge(action, CONTEXT).hits == ()
