"""Texts that a pattern needs are read off the pattern, and nothing that it matches is passed over."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import cast

import msgspec
import pytest

from detect import fairness, pretence, traits
from detect.literals import Clause, alternatives, may_match, needed, occurs, one_of, search, words_of
from detect.rule_set import _patterns, load_rules

CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\b(?:popen|system)\s*\(", ["popen system"]),
        (r"\bos\.(?:fork|exec\w+)\b", ["os:os.", "fork *exec"]),
        (r"(?<![\w.])e(?:val|xec)\b", ["eval exec"]),
        (r"(?i)HASH", ["*hash"]),
        (r"x?(?:ab)+c{0,3}", ["*ab"]),
        (r"\bre[af]d?\b", ["rea read ref refd"]),
        (r"from\s+os\s+import\b", ["*from", "import", "os"]),
        (r"from\s*os(?!\w)", ["*from", "*os"]),
        (r"\d+|word", []),
        (r"(?:word)?", []),
        (r"(?!word)\w", []),
        (r"[^a]bc", ["*bc"]),
        (r"a\Bbc\b", ["*bc"]),
        (r"\bword\w", ["*word"]),
        (r"\w\bword\b", ["word"]),
        (r"\bx(?=\()", ["x"]),
        (r"(?:\bfn\s+|^[ \t]*(?:static\s+)?)(?:eq|cmp)\s*(?:<\w*>)?\(", ["cmp eq"]),
        (r"(?:\w\s*)cmp\s*\(", ["*cmp"]),
        (r"~\w+\(", ["*~"]),
    ],
)
def test_what_a_pattern_needs(pattern: str, expected: list[str]) -> None:
    """Words as they are, parts of words behind `*`, words that count only in a longer text as `word:text`."""
    found = []
    clauses = cast("tuple[Clause[str], ...]", needed(re.compile(pattern))[0])  # a cache hides the type
    for clause in clauses:
        words = [":".join([word, *clause.more.get(word, ())]) for word in sorted(clause.words)]
        found.append(" ".join([*words, *("*" + text for text in (*clause.parts, *clause.texts))]))
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\bword\b", "a word, more"),
        (r"\bword\b", "é word"),
        (r"\s*word(?!\w)", "\nword"),
        (r"(?<!\w)os\s*\.\s*fork", "x=os . fork2"),
        (r"(?m)^from\b", "a\nfrom b"),
        (r"(?i)\bWord\b", "WORD"),
        (r"a\Bb", "ab"),
        (r"a(?:\s*)b", "ab"),
        (r"(?a)\bword\b", "wordé"),
        (r"x\s*\bword", "x word"),
        (r"(?:a|b\b)c?d", "ad"),
        (r"[-\w]*end$", "the-end"),
    ],
)
def test_words_are_those_of_the_pattern(pattern: str, text: str) -> None:
    ready = re.compile(pattern)
    assert ready.search(text) is not None and may_match(ready, text)
    assert search(ready, text) is not None and occurs(ready, text)


@pytest.mark.parametrize("text", ["LD_", "(){", "a.b", "é", "x", "/proc/", "wor", "ord("])
def test_one_of_some_texts(text: str) -> None:
    clause = one_of([text, "never"])
    assert clause.holds(words_of(f"1 {text} 2")) and clause.holds(words_of(f"a{text}b"))
    assert not clause.holds(words_of("neve r"))


def test_case_and_place() -> None:
    assert search(re.compile(r"(?i)hash\w"), "x HashA") is not None
    assert search(re.compile(r"hash\w"), "x HashA") is None
    assert not may_match(re.compile(rb"one|two"), b"three")


def test_alternatives_are_found_as_the_whole_finds_them() -> None:
    pattern = re.compile(r"b[|)]c|\||(?:x|bc)y|b\w+")
    assert len(alternatives(pattern)) == 4
    for text in ("a b|c", "bcy", "a|b", "bcd bcy", "xy", "none", "b)c |"):
        expected, found = pattern.search(text), search(pattern, text)
        assert (expected and expected.span()) == (found and found.span()), text


def test_nothing_that_matches_is_passed_over() -> None:
    tables = [value for module in (traits, fairness, pretence) for value in vars(module).values()]
    found = [value for value in tables if isinstance(value, re.Pattern)]
    found += [value for table in tables if isinstance(table, dict) for value in table.values()]
    of_bytes = [one for one in found if isinstance(one, re.Pattern) and isinstance(one.pattern, bytes)]
    of_text = [re.compile(pattern) for rule in load_rules().rules for pattern in _patterns(rule.when)]
    assert len(of_bytes) > 50 and len(of_text) > 50
    lines = [*(CORPUS / "cheats.jsonl").read_bytes().splitlines(), *(CORPUS / "benign.jsonl").read_bytes().splitlines()]
    matched = 0
    for line in islice(lines, 0, None, 12):
        text = msgspec.json.decode(line)["action"][:3000]
        data = text.encode("utf-8", "replace")
        for pattern in of_bytes:
            if not may_match(pattern, data):
                assert pattern.search(data) is None, (pattern, data)
            expected, found = pattern.search(data), search(pattern, data)
            assert (expected and expected.span()) == (found and found.span()), (pattern, data)
            assert occurs(pattern, data) == (expected is not None), (pattern, data)
            matched += expected is not None
        for pattern in of_text:
            if not may_match(pattern, text):
                assert pattern.search(text) is None, (pattern, text)
    assert matched > 50
