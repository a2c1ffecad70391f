"""What `ectype rules` does: test the rules against their own examples, and judge any file as one action.

The command line hands in paths and options; text goes to `say`, the exit status comes back. Files are only read.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from detect.engine import Engine, Judged
from detect.facts import EXTENSIONS
from detect.guard import Guard
from detect.rule_set import RULES_DIR, Example, Rule, example, load_rules
from queues.context import EpisodeContext, Event, Observed
from queues.messages import Action, Verdict

Say = Callable[[str], None]
ALLOWED, BLOCKED, FAILED, REVIEW = 0, 1, 2, 3
"""Exit status of a scan. Errors (an unreadable file) end with 2 like every other command."""
STATUS = {"allow": ALLOWED, "block": BLOCKED, "review": REVIEW}
_SEVERITY = (ALLOWED, REVIEW, BLOCKED, FAILED)

LANGUAGES = {
    "shell": "",
    **dict.fromkeys(("bash", "sh", "dash", "ksh", "zsh"), ""),
    **dict.fromkeys(("python", "python3", "py"), "main.py"),
    "c": "main.c",
    **dict.fromkeys(("cpp", "c++", "cxx"), "main.cpp"),
    "make": "Makefile",
    "makefile": "Makefile",
    "cmake": "CMakeLists.txt",
    **dict.fromkeys(("go", "golang"), "main.go"),
    "rust": "main.rs",
    "java": "Main.java",
    "javascript": "main.js",
    "js": "main.js",
    "node": "main.js",
    "typescript": "main.ts",
    "ts": "main.ts",
    "ruby": "main.rb",
    "perl": "main.pl",
    "lua": "main.lua",
    "php": "main.php",
    "kotlin": "main.kt",
    "scala": "main.scala",
    "csharp": "main.cs",
    "swift": "main.swift",
    "awk": "main.awk",
    "sed": "main.sed",
    "tcl": "main.tcl",
    "assembly": "main.s",
    "asm": "main.s",
    "groovy": "build.gradle",
    "dockerfile": "Dockerfile",
    "toml": "Cargo.toml",
    "json": "package.json",
    "yaml": "config.yaml",
    "ini": "setup.cfg",
    "xml": "pom.xml",
    "html": "index.html",
    "css": "style.css",
    "sql": "main.sql",
    "diff": "change.patch",
    "patch": "change.patch",
    "markdown": "README.md",
    "text": "notes.txt",
}
"""The file that an action without a name is judged as, by language; shell is run."""


class Failure(msgspec.Struct, frozen=True):
    """One example that a rule judges wrongly."""

    rule: str
    expected: str
    example: Example
    rules: tuple[str, ...]

    def __str__(self) -> str:
        body = self.example.run if self.example.run is not None else f"{self.example.write}: {self.example.body}"
        hit = ", ".join(self.rules) or "no rule"
        return f"{self.rule}: {self.expected}, but {hit} hit:\n    " + (body or "").replace("\n", "\n    ")


def failures(engine: Engine) -> Iterator[Failure]:
    """Judge every example of every rule: `match` must hit its rule, `no_match` must hit no rule that blocks."""
    for rule in engine.rules.rules:
        for given in rule.match:
            judged = _judge(engine, example(given))
            if rule.id not in judged:
                yield Failure(rule.id, "must match", example(given), tuple(judged))
        for given in rule.no_match:
            judged = _judge(engine, example(given))
            wrong = tuple(name for name, hit in judged.items() if name == rule.id or hit.severity == "block")
            if wrong:
                yield Failure(rule.id, "must not match", example(given), wrong)
        for given in rule.todo_match:
            judged = _judge(engine, example(given))
            if rule.id in judged:
                yield Failure(rule.id, "is marked as a known gap (move it to `match:`)", example(given), tuple(judged))


def _judge(engine: Engine, given: Example) -> dict[str, Rule]:
    return {hit.rule.id: hit.rule for hit in engine.judge(given.action, given.context).hits}


def test_rules(folder: Path | None = None, *, say: Say = print) -> bool:
    """Print what fails and a summary; True when everything passes."""
    engine = Engine(load_rules(folder or RULES_DIR))
    wrong = list(failures(engine))
    for failure in wrong:
        say(str(failure))
    rules = engine.rules.rules
    examples = sum(len(rule.match) + len(rule.no_match) + len(rule.todo_match) for rule in rules)
    gaps = sum(len(rule.todo_match) for rule in rules)
    say(
        f"{len(rules)} rules, {examples} examples ({gaps} known gaps), {len(wrong)} wrong; "
        f"version {engine.rules.version}, hash {engine.rules.hash[:12]}"
    )
    return not wrong


test_rules.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test


def list_rules(folder: Path | None = None, *, say: Say = print) -> None:
    for rule in load_rules(folder or RULES_DIR).rules:
        say(f"{rule.id:24} {rule.family:15} {rule.severity:7} {rule.message}")


def scan(
    file: str,
    *,
    language: str | None = None,
    as_json: bool = False,
    task: str = "",
    rules_dir: Path | None = None,
    say: Say = print,
) -> int:
    """Judge a file, or standard input when `file` is `-`, as one action. Returns the exit status.

    Shell is judged as a script that is run now, everything else as a file that is written to the workspace.
    """
    action = file_action(file, language)
    engine = Engine(load_rules(rules_dir or RULES_DIR))
    context = EpisodeContext(episode="scan", suite="scan", task=task)
    verdict = Guard(engine, "observe").judge(action, context)
    if as_json:
        say(json.dumps(_plain(verdict)))
    else:
        _explain(action, engine.judge(action, context), verdict, file, say)
    return STATUS[verdict.decision]


def scan_batch(file: str, *, rules_dir: Path | None = None, say: Say = print) -> int:
    """Judge every line of a JSONL file, or of standard input, as one action each: one JSON verdict a line, in order.

    A line that is no action gets an error in its place and does not stop the others. The exit status is that of the
    worst line: an error, else a blocked action, else one to be reviewed.
    """
    guard = Guard(Engine(load_rules(rules_dir or RULES_DIR)), "observe")
    worst = ALLOWED
    try:
        with sys.stdin.buffer if file == "-" else open(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    given = _batch_line(line)
                    verdict = guard.judge(*given)
                except EctypeError as error:
                    say(json.dumps({"verdict": "error", "line": number, "message": error.what}))
                    status = FAILED
                else:
                    say(json.dumps(_plain(verdict)))
                    status = STATUS[verdict.decision]
                worst = max(worst, status, key=_SEVERITY.index)
    except OSError as error:
        raise EctypeError(f"cannot read the file: {error.strerror}", where=file, remedy="give a file or `-`") from error
    return worst


class BatchLine(msgspec.Struct, frozen=True):
    """One line of a batch. Other keys (labels, notes) are allowed and say nothing to the rules."""

    action: str
    language: str = ""
    filename: str = ""
    output: str = ""
    """What the agent was shown after it."""
    task: str = ""
    suite: str = "scan"
    history: tuple[BatchLine, ...] = ()
    answers: tuple[str, ...] = ()
    """What the reference has answered in the episode so far."""
    events: tuple[Event, ...] = ()
    """What the sandbox has seen in the episode so far."""


def _batch_line(line: bytes) -> tuple[Action, EpisodeContext]:
    try:
        given = msgspec.json.decode(line, type=BatchLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EctypeError(f"not an action: {error}", remedy='{"action": "ls", "language": "shell"}') from error
    return batch_action(given), batch_context(given)


def batch_context(given: BatchLine) -> EpisodeContext:
    """The episode before the action, as far as the line tells."""
    history = [(batch_action(step), Verdict()) for step in given.history]
    observed = Observed(events=given.events, answers=tuple(answer.encode() for answer in given.answers))
    return EpisodeContext(
        episode="scan", suite=given.suite, task=given.task, step=len(history), history=history, observed=observed
    )


def batch_action(given: BatchLine) -> Action:
    """A named action is a file that is written; the others are what their language is without a name."""
    if not given.filename and not given.language:
        raise EctypeError("neither `language` nor `filename` is given")
    path = given.filename or unnamed(given.language)
    return Action(kind="write" if path else "run", path=path or None, body=given.action.encode())


def file_action(file: str, language: str | None) -> Action:
    """A file, or standard input (`-`), as the one action that would run it or write it."""
    path = unnamed(language) if language is not None else None
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise EctypeError(f"cannot read the file: {error.strerror}", where=file, remedy="give a file or `-`") from error
    shell = path == ""
    if path is None:
        shell = (
            EXTENSIONS.get(Path(file).suffix) == "shell"
            or file == "-"
            or body.startswith((b"#!/bin/sh", b"#!/bin/bash"))
        )
    if shell:
        return Action(kind="run", body=body)
    return Action(kind="write", path=path or Path(file).name, body=body)


def unnamed(language: str) -> str:
    """The file that code of this language is written to where nothing else is said, empty for shell, which is run."""
    found = LANGUAGES.get(language.lower())
    if found is None:
        close = difflib.get_close_matches(language.lower(), LANGUAGES, 1)
        raise EctypeError(
            f"unknown language {language!r}",
            remedy=f"did you mean {close[0]!r}?" if close else f"give a filename, or use one of {', '.join(LANGUAGES)}",
        )
    return found


def _plain(verdict: Verdict) -> dict[str, object]:
    return {
        "verdict": verdict.decision,
        "decision": verdict.decision,
        "rules": list(verdict.rules),
        "families": list(verdict.families),
        "spans": [list(span) for span in verdict.spans],
        "message": verdict.message,
        "rule_set_version": verdict.rule_set_version,
        "rule_set_hash": verdict.rule_set_hash,
    }


def _explain(action: Action, judged: Judged, verdict: Verdict, file: str, say: Say) -> None:
    say(f"{file}: {verdict.decision} (rule set {verdict.rule_set_version}, {verdict.rule_set_hash[:12]})")
    for hit in judged.hits:
        say(f"  {hit.rule.id} [{hit.rule.family}, {hit.rule.severity}]: {hit.rule.message}")
        for evidence in hit.evidence[:4]:
            start, end = evidence.span
            line = action.body.count(b"\n", 0, start) + 1
            excerpt = action.body[start:end][:80].decode("utf-8", "replace").replace("\n", " ")
            found = "" if evidence.fact is None else f" -> {evidence.fact.kind} {evidence.fact.value}"
            say(f"    line {line}, bytes {start}-{end}: {excerpt}{found}".replace("\x01", "?"))
