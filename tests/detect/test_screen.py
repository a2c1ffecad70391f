"""Files that are cleared without being read: what is, what must not be, and that no verdict changes for it."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache

import msgspec

from benchmarks.detect import Labelled, read_corpus, typical_files
from detect.commands import batch_action, batch_context
from detect.engine import Engine
from detect.facts import language_of
from detect.quiet import MAX_BYTES
from detect.rule_set import load_rules
from queues.context import EpisodeContext
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
