"""What stage 1 is measured against: ast-grep in a process of its own, semgrep's command.

Each peer lives in a virtual environment under the cache, made on first use from the configured package index. Both get
the same actions as stage 1, and as many patterns as the rule set has rules: ast-grep searches a parsed action for one
per rule in one running process, semgrep is started once an action, as its command line is meant to be used.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from audit.errors import EctypeError
from benchmarks.peers import environment
from detect.rule_set import Condition, Rule
from queues.messages import Action

AST_GREP = "ast-grep-py>=0.39"
SEMGREP = "semgrep>=1.100"
LANGUAGES = {
    ".py": "python",
    ".c": "c",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    ".js": "javascript",
    ".sh": "bash",
}
NAMES = (
    *("open", "system", "popen", "execvp", "eval", "exec", "compile", "getattr", "socket", "connect", "urlopen", "get"),
    *("request", "fetch", "dial", "listdir", "walk", "glob", "remove", "rename", "chmod", "kill", "fork", "ptrace"),
    *("unshare", "setns", "dlopen", "mmap", "getenv", "gethostname", "time", "sleep", "exit", "_exit", "abort", "skip"),
    *(
        "setattr",
        "import_module",
        "loads",
        "decode",
        "decompress",
        "b64decode",
        "digest",
        "copy",
        "copyfile",
        "symlink",
    ),
)
"""Functions that semgrep looks for calls of: rules of stage 1 ask for these among others."""

_DRIVER = r"""
import json, statistics, sys, time
from ast_grep_py import SgRoot
given = json.load(sys.stdin)
def search(text, language, patterns):
    root = SgRoot(text, language).root()
    hits = 0
    for pattern, names in patterns:
        for node in root.find_all(pattern=pattern):
            called = node.get_match("F")
            hits += called is None or called.text() in names
    return hits
given["patterns"] = [(pattern, frozenset(names)) for pattern, names in given["patterns"]]
taken = []
for language, text in given["actions"]:
    search(text, language, given["patterns"])
for round in range(given["rounds"]):
    for language, text in given["actions"]:
        started = time.perf_counter()
        search(text, language, given["patterns"])
        taken.append(time.perf_counter() - started)
print(json.dumps(taken))
"""


def patterns_like(rules: Sequence[Rule]) -> list[tuple[str, list[str]]]:
    """One ast-grep pattern for each rule, with the names that its `$F` is then asked for.

    A rule about one function names it in the pattern; a rule about several, or about paths and strings in the
    arguments of any, has to look at every call, as it would have to be written for ast-grep.
    """
    found = []
    for rule in rules:
        names = list(_called(rule.when))
        if len(names) == 1:
            found.append((f"{names[0].rpartition('.')[2]}($$$)", []))
        elif _has(rule.when, "query") and not names:
            found.append(("$F = $V", names))
        else:
            found.append(("$F($$$)", names))
    return found


def _called(condition: Condition) -> Iterator[str]:
    if condition.call is not None:
        yield from condition.call.name
    for part in condition.parts:
        yield from _called(part)


def _has(condition: Condition, key: str) -> bool:
    return getattr(condition, key) is not None or any(_has(part, key) for part in condition.parts)


def ast_grep_seconds(actions: Sequence[Action], rules: Sequence[Rule], rounds: int) -> list[float]:
    """Seconds that ast-grep takes for each action, in one process, with a pattern for each rule."""
    given = {
        "actions": [(LANGUAGES[Path(a.path or ".sh").suffix], a.body.decode()) for a in actions],
        "patterns": patterns_like(rules),
        "rounds": rounds,
    }
    python = environment("ast-grep", AST_GREP) / "python"
    done = subprocess.run([python, "-c", _DRIVER], input=json.dumps(given), capture_output=True, text=True, check=False)
    if done.returncode:
        raise EctypeError(f"ast-grep failed: {done.stderr.strip()[-300:]}", where=str(python))
    return json.loads(done.stdout)


def semgrep_seconds(actions: Sequence[Action], patterns: int) -> list[float]:
    """Seconds that semgrep's command takes for each action, with `patterns` patterns of calls in a file of rules."""
    command = environment("semgrep", SEMGREP) / "semgrep"
    languages = ["python", "c", "go", "rust", "java", "javascript", "bash"]
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(
            json.dumps(
                {
                    "rules": [
                        {
                            "id": f"call-{number}",
                            "pattern": f"{NAMES[number % len(NAMES)]}(...)",
                            "message": "a call",
                            "severity": "ERROR",
                            "languages": ["python"],
                        }
                        for number in range(patterns)
                    ]
                }
            )
        )
        for number, action in enumerate(actions):
            suffix = Path(action.path or ".sh").suffix
            if LANGUAGES[suffix] not in languages:
                continue
            target = Path(folder) / f"action{number}{suffix}"
            target.write_bytes(action.body)
            started = time.perf_counter()
            done = subprocess.run(
                [command, "scan", "--quiet", "--metrics=off", "--disable-version-check", "--config", rules, target],
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": f"{command.parent}:/usr/bin:/bin", "HOME": folder, "SEMGREP_SEND_METRICS": "off"},
            )
            taken.append(time.perf_counter() - started)
            if done.returncode not in (0, 1):
                raise EctypeError(f"semgrep failed: {done.stderr.strip()[-300:]}", where=str(command))
    return taken
