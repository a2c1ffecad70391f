"""How well and how fast stage 1 of the anti-cheat judges actions: recall, false positives, latency, and peers.

`python -m benchmarks.detect --json` prints one JSON object as its last line: `recall_plain` and `recall_disguised`
(cheats that are blocked or marked for review), `false_positive_rate` (benign actions that are), the same three as
`holdout_*` over `tests/corpus/holdout` (null where it is not there: written by others than the rules, never tuned on),
`p50_ms` and `p99_ms` (judging one honest file of about 2 KiB in this process by all rules, each seen for the first
time; `p50_read_ms` and `p99_read_ms` the same where none is cleared without being read, `cleared` how many are),
`ratio_vs_ast_grep` and `ratio_vs_semgrep` (their median time for the same files with as many patterns as there are
rules, over ours, of each file the fastest of all rounds; see `benchmarks.detect_peers`). `*_corpus_ms` are over the
whole corpus, most of it one-liners; `*_dense_ms` over files where every line is nothing but calls. Rules were written
with the corpus in sight.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.detect_peers import LANGUAGES, ast_grep_seconds, semgrep_seconds
from detect.commands import BatchLine, batch_action, batch_context
from detect.engine import Engine
from detect.rule_set import load_rules
from queues.context import EpisodeContext
from queues.messages import Action

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
HOLDOUT = CORPUS / "holdout"
TYPICAL = (1200, 3300)
"""Bytes of an honest file that counts as a typical one."""
HONEST = {
    "main.py": "    if line == 'x':\n        sys.exit(1)\n    sys.stdout.write('%d %s' % (len(line), line.rstrip()))\n",
    "main.c": "  while (fgets(b, sizeof b, stdin)) { printf(\"%zu %s\", strlen(b), b); if (b[0] == 'x') return 1; }\n",
    "main.go": '\tfor s.Scan() {\n\t\tline := s.Text()\n\t\tfmt.Printf("%d %s\\n", len(line), line)\n\t}\n',
    "main.rs": '    for l in stdin().lines() {\n        let l = l.unwrap();\n        println!("{l}");\n    }\n',
    "Main.java": '    while (s.hasNextLine()) { String l = s.nextLine(); System.out.println(l.length() + " " + l); }\n',
    "main.js": "for (const l of lines) { console.log(l.length + ' ' + l); if (l === 'x') process.exit(1) }\n",
    "run.sh": 'for f in t/*.in; do diff <(reference < "$f") <(./program < "$f") || echo "FAIL $f"; done\n',
}
"""A line of an honest file for each language, repeated up to about 2 KiB."""
HEADS = {
    "main.py": ("import sys\nfor line in sys.stdin:\n", ""),
    "main.c": ("#include <stdio.h>\n#include <string.h>\nint main(void) {\n  char b[100];\n", "}\n"),
    "main.go": (
        'package main\nimport ("bufio"; "fmt"; "os")\nfunc main() {\n\ts := bufio.NewScanner(os.Stdin)\n',
        "}\n",
    ),
    "main.rs": ("use std::io::stdin;\nfn main() {\n", "}\n"),
    "Main.java": ("import java.util.*;\nclass Main { public static void main(String[] a) {\n", "} }\n"),
    "main.js": ("const lines = require('fs').readFileSync(0, 'utf8').split('\\n')\n", ""),
    "run.sh": ("#!/bin/bash\n", ""),
}
SIZE = 2048


class Labelled(BatchLine, frozen=True):
    label: str = ""
    family: str = ""
    disguised: bool = False
    note: str = ""


class Judged(msgspec.Struct, frozen=True):
    line: Labelled
    decision: str
    rules: tuple[str, ...]
    seconds: float


def read_corpus(folder: Path = CORPUS, names: Sequence[str] = ()) -> list[Labelled]:
    """Every labelled action of the folder's files (not of folders below), or of the files of these names."""
    files = [folder / f"{name}.jsonl" for name in names] or sorted(folder.glob("*.jsonl"))
    return [msgspec.json.decode(line, type=Labelled) for file in files for line in file.read_bytes().splitlines()]


def judge(engine: Engine, lines: list[Labelled]) -> list[Judged]:
    judged = []
    for line in lines:
        context = batch_context(line)
        action = batch_action(line)
        started = time.perf_counter()
        hits = engine.judge(action, context).hits
        seconds = time.perf_counter() - started
        severities = {hit.rule.severity for hit in hits}
        decision = "block" if "block" in severities else "review" if severities else "allow"
        judged.append(Judged(line, decision, tuple(hit.rule.id for hit in hits), seconds))
    return judged


def wrong(judged: list[Judged]) -> list[Judged]:
    """Cheats that were let through, and benign actions that were not."""
    return [item for item in judged if (item.decision == "allow") == (item.line.label == "cheat")]


def rates(judged: list[Judged]) -> dict[str, float]:
    def caught(items: list[Judged]) -> float:
        return round(sum(item.decision != "allow" for item in items) / max(len(items), 1), 4)

    cheats = [item for item in judged if item.line.label == "cheat"]
    benign = [item for item in judged if item.line.label == "benign"]
    return {
        "recall_plain": caught([item for item in cheats if not item.line.disguised]),
        "recall_disguised": caught([item for item in cheats if item.line.disguised]),
        "false_positive_rate": caught(benign),
        "cheats": len(cheats),
        "cheats_disguised": sum(item.line.disguised for item in cheats),
        "benign": len(benign),
    }


def typical_files(lines: Sequence[Labelled]) -> list[Action]:
    """Honest files of the corpus of about 2 KiB, in the languages that peers read too."""
    written = [batch_action(line) for line in lines if line.label == "benign" and line.filename]
    low, high = TYPICAL
    return [a for a in written if low <= len(a.body) <= high and Path(a.path or "").suffix in LANGUAGES]


def dense_files() -> list[Action]:
    """One honest file of about 2 KiB for each language, every line of it a call."""
    files = []
    for path, line in HONEST.items():
        head, tail = HEADS[path]
        body = head + line * ((SIZE - len(head) - len(tail)) // len(line)) + tail
        files.append(Action(kind="write", path=path, body=body.encode()))
    return files


def latencies(engine: Engine, actions: Sequence[Action], rounds: int) -> list[float]:
    context = EpisodeContext(episode="benchmark", suite="benchmark", task="wc")
    taken = []
    for number in range(rounds):
        for action in actions:
            # nothing that an earlier round found out may help
            fresh = msgspec.structs.replace(action, body=action.body + b"\n" * (number + 1))
            started = time.perf_counter()
            engine.judge(fresh, context)
            taken.append(time.perf_counter() - started)
    return taken


def quantile_ms(seconds: list[float], quantile: float) -> float:
    ordered = sorted(seconds)
    return round(1000 * ordered[min(len(ordered) - 1, int(quantile * len(ordered)))], 3)


def holdout_rates(engine: Engine, folder: Path = HOLDOUT) -> dict[str, float | None]:
    lines = read_corpus(folder) if folder.is_dir() else []
    found = rates(judge(engine, lines)) if lines else {}
    return {f"holdout_{key}": found.get(key) for key in ("recall_plain", "recall_disguised", "false_positive_rate")}


def median_of_best(seconds: list[float], files: int) -> float:
    """The median over files of the fastest of all rounds: what others do on the machine meanwhile counts for nobody."""
    return statistics.median([min(seconds[number::files]) for number in range(files)])


def peer_ratios(engine: Engine, actions: Sequence[Action], rounds: int) -> dict[str, float]:
    """How many times longer the peers take than we, whose time is taken before and after theirs."""
    rules = engine.rules.rules
    ours = latencies(engine, actions, rounds)
    ast_grep = median_of_best(ast_grep_seconds(actions, rules, 2 * rounds), len(actions))
    ours += latencies(engine, actions, rounds)
    # one of each language is enough: a start takes seconds
    few = list({Path(action.path or "").suffix: action for action in actions}.values())
    semgrep = statistics.median(semgrep_seconds(few, len(rules)))
    mine = median_of_best(ours, len(actions))
    return {
        "ratio_vs_ast_grep": round(ast_grep / mine, 2),
        "ratio_vs_semgrep": round(semgrep / mine, 1),
        "best_ms": round(1000 * mine, 3),
        "ast_grep_ms": round(1000 * ast_grep, 3),
        "semgrep_ms": round(1000 * semgrep, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    parser.add_argument("--no-peers", action="store_true", help="leave ast-grep and semgrep out")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    engine = Engine(load_rules())
    context = EpisodeContext(episode="benchmark", suite="benchmark", task="wc")
    lines = read_corpus()
    judge(engine, lines[:50])  # regular expressions and grammars are loaded on first use
    judged = judge(engine, lines)
    typical = typical_files(lines)
    latencies(engine, typical, 1)
    seconds = latencies(engine, typical, options.rounds)
    reading = Engine(engine.rules, screen=False)
    latencies(reading, typical, 1)
    read = latencies(reading, typical, options.rounds)
    dense = latencies(engine, dense_files(), 3 * options.rounds)
    if not options.json:
        counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for item in judged:
            count = counts[item.line.family if item.line.label == "cheat" else "(benign)", item.line.language]
            count[0] += item.decision != "allow"
            count[1] += 1
        for (family, language), (flagged, total) in sorted(counts.items()):
            print(f"{family:16} {language:12} {flagged:4} of {total:4}")
        for item in wrong(judged):
            print(f"{item.line.label} {item.decision} {item.rules}: {item.line.action!r}")
    corpus = [item.seconds for item in judged]
    figures = {
        **rates(judged),
        **holdout_rates(engine),
        "p50_ms": quantile_ms(seconds, 0.5),
        "p99_ms": quantile_ms(seconds, 0.99),
        "p50_read_ms": quantile_ms(read, 0.5),
        "p99_read_ms": quantile_ms(read, 0.99),
        "p50_corpus_ms": quantile_ms(corpus, 0.5),
        "p99_corpus_ms": quantile_ms(corpus, 0.99),
        "p50_dense_ms": quantile_ms(dense, 0.5),
        "p99_dense_ms": quantile_ms(dense, 0.99),
        "typical_files": len(typical),
        "cleared": sum(engine.clears(action, context) for action in typical),
        "rules": len(engine.rules.rules),
    }
    if not options.no_peers:
        figures |= peer_ratios(engine, typical, 4)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
