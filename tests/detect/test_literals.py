"""Texts that a pattern needs are read off the pattern, and nothing that it matches is passed over."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from detect import fairness_code, fairness_patterns, fairness_python, fairness_scripts, pretence, traits
from detect.engine import Engine
from detect.literals import Finder, Group, clauses_of, one_of, words_of
from detect.needs import alternatives, starts
from detect.rule_set import _patterns, load_rules
from queues.context import EpisodeContext
from queues.messages import Action

CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\b(?:popen|system)\s*\(", ["popen", "system"]),
        (r"\bos\.(?:fork|exec\w+)\b", ["fork:os.fork", "os:os.exec"]),
        (r"(?i)HASH", ["*hash"]),
        (r"x?(?:ab)+c{0,3}", ["*ab"]),
        (r"\bre[af]d?\b", ["rea read ref refd"]),
        (r"from\s+os\s+import\b", ["import, os, *from"]),
        (r"from\s*os(?!\w)", ["*from, *os"]),
        (r"\d+|word", [""]),
        (r"(?:word)?", [""]),
        (r"(?!word)\w", [""]),
        (r"\w(?=[^w]*\bword\b)", ["word"]),
        (r"[^a]bc", ["*bc"]),
        (r"a\Bbc\b", ["*bc"]),
        (r"\bword\w", ["*word"]),
        (r"\w\bword\b", ["word"]),
        (r"\bx(?=\()", ["x"]),
        (r"(?:\bfn\s+|^[ \t]*(?:static\s+)?)(?:eq|cmp)\s*(?:<\w*>)?\(", ["fn, cmp eq", "cmp eq"]),
        (r"(?:\w\s*)cmp\s*\(", ["*cmp"]),
        (r"~\w+\(", ["*~"]),
    ],
)
def test_what_a_pattern_needs(pattern: str, expected: list[str]) -> None:
    """Words as they are, parts of words behind `*`, words that count only in a longer text as `word:text`."""
    found = []
    for way in clauses_of(re.compile(pattern)):
        clauses = []
        for clause in way:
            words = [b":".join([word, *clause.more.get(word, ())]) for word in sorted(clause.words)]
            clauses.append(b" ".join([*words, *(b"*" + text for text in (*clause.parts, *clause.texts))]).decode())
        found.append(", ".join(clauses))
    assert found == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"\b(?:popen|system)\s*\(", ["popen", "system"]),
        (r"\bos\.(?:fork|exec\w+)\b", ["os.exec", "os.fork"]),
        (r"(?:std::)?panic!", ["panic!", "std::panic!"]),
        (r"(?<!\w)(?:ab|a(?=c)cd)\w", ["ab", "acd"]),
        (r"(?:ab)+c", ["ab"]),
        (r"^ab|cd", ["ab", "cd"]),
        (r"\w+ab", []),
        (r"a?\s*ab", []),
        (r"ab|\s", []),
        (r"a\s", []),
    ],
)
def test_what_a_match_begins_with(pattern: str, expected: list[str]) -> None:
    assert sorted(text for text, _, _ in starts(re.compile(pattern)) or ()) == expected


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
        (r"wo(?=rd)rd", "a word"),
    ],
)
def test_words_are_those_of_the_pattern(pattern: str, text: str) -> None:
    finder, of_bytes, data = Finder(pattern), Finder(pattern.encode()), text.encode("latin-1")
    assert finder.search(text) is not None and finder.occurs(text) and finder.may_match(text)
    assert of_bytes.search(data) is not None and of_bytes.occurs(data) and of_bytes.may_match(data)


@pytest.mark.parametrize("text", ["LD_", "(){", "a.b", "é", "x", "/proc/", "wor", "ord("])
def test_one_of_some_texts(text: str) -> None:
    clause = one_of([text, "never"])
    assert clause.holds(words_of(f"1 {text} 2")) and clause.holds(words_of(f"a{text}b"))
    assert not clause.holds(words_of("neve r"))


def test_case_and_place() -> None:
    assert Finder(r"(?i)hash\w").search("x HashA") is not None
    assert Finder(rb"(?i)hash\w").search(b"x HashA") is not None
    assert Finder(r"hash\w").search("x HashA") is None
    assert not Finder(rb"one|two").may_match(b"three")


def test_finders_that_come_later_know_words_of_earlier_texts() -> None:
    text = b"some words that were looked at before"
    assert Finder(rb"\bnever\b").search(text) is None
    assert Finder(rb"\blooked\b").search(text) is not None


def test_a_tail_belongs_to_the_pattern() -> None:
    finder = Finder(rb"\w+\s*=\s*", tail=rb"\b(open|read)\(")
    found = finder.search(b"open(x); a = read(y)")
    assert found is not None and found.span() == (9, 18) and found[1] == b"read"
    assert finder.search(b"open(x) = 1") is None


def test_alternatives_are_found_as_the_whole_finds_them() -> None:
    pattern = re.compile(rb"b[|)]c|\||(?:x|bc)y|b\w+|(?P<a>do|go) (?P=a)")
    assert len(alternatives(pattern)) == 5
    assert len(alternatives(re.compile(rb"(?m)^a|(?P<a>b)"))) == 2 and len(alternatives(re.compile(rb"a|(b)"))) == 1
    for text in (b"a b|c", b"bcy", b"a|b", b"bcd bcy", b"xy", b"none", b"b)c |", b"do go go do do"):
        expected, found = pattern.search(text), Finder(pattern).search(text)
        assert (expected and expected.span()) == (found and found.span()), text
        everywhere = [match.span() for match in Finder(pattern).finditer(text)]
        assert everywhere == [match.span() for match in pattern.finditer(text)], text


def test_nothing_that_matches_is_passed_over() -> None:
    modules = (traits, fairness_code, fairness_patterns, fairness_python, fairness_scripts, pretence)
    tables = [value for module in modules for value in vars(module).values()]
    found = [value for value in tables if isinstance(value, Finder)]
    found += [one for table in tables if isinstance(table, dict) for one in table.values() if isinstance(one, Finder)]
    of_bytes = [one for one in found if isinstance(one.pattern.pattern, bytes)]
    of_text = [Finder(pattern) for rule in load_rules().rules for pattern in _patterns(rule.when)]
    assert len(of_bytes) > 50 and len(of_text) > 50
    lines = [*(CORPUS / "cheats.jsonl").read_bytes().splitlines(), *(CORPUS / "benign.jsonl").read_bytes().splitlines()]
    matched = 0
    for line in islice(lines, 0, None, 12):
        text = msgspec.json.decode(line)["action"][:3000]
        data = text.encode("utf-8", "replace")
        for finder in of_bytes:
            expected, found = finder.pattern.search(data), finder.search(data)
            assert (expected and expected.span()) == (found and found.span()), (finder, data)
            assert finder.occurs(data) == (expected is not None), (finder, data)
            everywhere = [match.span() for match in finder.finditer(data)]
            assert everywhere == [match.span() for match in finder.pattern.finditer(data)], (finder, data)
            matched += expected is not None
        for finder in of_text:
            if not finder.may_match(text):
                assert finder.pattern.search(text) is None, (finder, text)
    assert matched > 50


def test_a_group_may_match_where_one_of_its_finders_does() -> None:
    group = Group([Finder(rb"\bopen\w*\(|[|]x"), Finder(rb"(?:\bget|\bset)\(", tail=rb"\bsys\."), Finder(rb"\w+\s*=")])
    assert (
        group.may_match(b"opens(1)")
        and group.may_match(b"a|x")
        and group.may_match(b"get(sys.")
        and group.may_match(b"a =")
    )
    assert not group.may_match(b"reads(1) get(1)")
    assert not Group([Finder(rb"\bget\(", tail=rb"\bsys\.\w")]).may_match(b"get( sys.")


def test_a_finder_that_another_thread_makes_ready_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is judged while a rule set is loaded: its words must not count as asked about the new patterns."""
    text = b"alpha " + b"omega_unseen"

    class Watched(dict[bytes, int]):
        def __setitem__(self, word: bytes, ways: int) -> None:
            words_of(text).ways()  # what the judging thread does meanwhile
            super().__setitem__(word, ways)
            words_of(text).ways()

    monkeypatch.setattr(Finder, "of_word", Watched(Finder.of_word))
    assert Finder(rb"\bomega_unseen\b").occurs(text)


def test_a_rule_set_loaded_again_adds_no_finder() -> None:
    rules = load_rules()
    context = EpisodeContext(episode="e", suite="s", task="wc")
    lines = (CORPUS / "cheats.jsonl").read_bytes().splitlines()[::8]
    actions = [Action(kind="run", body=msgspec.json.decode(line)["action"].encode()) for line in lines]

    def known() -> int:
        engine = Engine(rules)
        for action in actions:
            engine.judge(action, context)
        return Finder.known

    assert known() == known()
