"""The inputs of the programs suite: many, the same every time, and of every kind that the suite promises."""

from __future__ import annotations

import pytest

from tasks.programs import PROGRAMS
from tasks.programs.cases import Cases
from tasks.source import CaseInput

WITHOUT_STDIN = {"seq", "expr", "basename", "dirname"}
WITHOUT_FILES = WITHOUT_STDIN | {"tr", "factor", "numfmt"}
NAMES = [program.name for program in PROGRAMS]


def inputs(name: str) -> tuple[CaseInput, ...]:
    cases = Cases(name)
    next(program for program in PROGRAMS if program.name == name).generate(cases)
    return cases.inputs()


def hidden(name: str) -> list[CaseInput]:
    return [case for case in inputs(name) if not case.public]


def test_there_are_enough_programs():
    assert len(set(NAMES)) == len(NAMES) >= 24


@pytest.mark.parametrize("name", NAMES)
def test_every_program_has_many_cases_and_some_examples(name: str):
    assert len(hidden(name)) >= 40
    assert len(inputs(name)) - len(hidden(name)) == 3
    assert inputs(name) == inputs(name), "the generator is not deterministic"


@pytest.mark.parametrize("name", NAMES)
def test_the_cases_cover_what_a_user_would_try(name: str):
    cases = hidden(name)
    assert len({case.argv for case in cases if case.argv}) >= 5 or name == "rev"
    assert any("--no-such-option" in case.argv for case in cases) or name == "bc", "no wrong option"
    if name not in WITHOUT_STDIN:
        assert any(case.stdin and max(case.stdin) > 127 for case in cases) or name in ("comm", "join", "cmp")
        assert any(not case.stdin and not case.files for case in cases), "no empty input"
    if name not in WITHOUT_FILES:
        assert any(case.files for case in cases)
        assert any(any("missing" in argument for argument in case.argv) for case in cases), "no missing file"
    else:
        assert any(any(not a.isascii() for a in case.argv) or not case.stdin.isascii() for case in cases)


@pytest.mark.parametrize("name", NAMES)
def test_no_case_asks_for_what_depends_on_the_name_or_version(name: str):
    for case in inputs(name):
        assert "--help" not in case.argv
        assert "--version" not in case.argv
