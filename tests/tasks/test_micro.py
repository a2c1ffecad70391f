"""The micro programs can be told apart by probing, and their references say what their solutions say."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from tasks.micro import INPUTS, INSTRUCTIONS, MICRO, PROBES, reference_source

PROGRAMS = {program.name: program for program in MICRO}


def outputs(source: str, inputs: tuple[bytes, ...]) -> list[bytes]:
    runs = [
        subprocess.run(["/usr/bin/python3", "-I", "-S", "-c", source], input=line, capture_output=True, check=True)
        for line in inputs
    ]
    return [run.stdout for run in runs]


@pytest.fixture(scope="module")
def behaviour() -> dict[str, list[bytes]]:
    return {name: outputs(program.source, PROBES + INPUTS) for name, program in PROGRAMS.items()}


def test_there_are_enough_programs_and_each_is_one_short_line():
    assert 10 <= len(MICRO) == len(PROGRAMS)
    for program in MICRO:
        assert len(program.source) <= 45
        assert "\n" not in program.source


def test_the_instructions_are_short_and_name_no_program():
    assert len(INSTRUCTIONS) < 80
    for program in MICRO:
        assert program.source not in INSTRUCTIONS
        assert program.title not in INSTRUCTIONS


def test_each_probe_tells_any_two_programs_apart(behaviour: dict[str, list[bytes]]):
    for one, other in itertools.combinations(behaviour, 2):
        differ = [a != b for a, b in zip(behaviour[one], behaviour[other], strict=True)][: len(PROBES)]
        assert all(differ), f"{one} and {other} look the same on a probe"


def test_no_solution_passes_the_cases_of_another_program(behaviour: dict[str, list[bytes]]):
    assert len(INPUTS) == 6
    for one, other in itertools.combinations(behaviour, 2):
        differ = [a != b for a, b in zip(behaviour[one], behaviour[other], strict=True)][len(PROBES) :]
        assert sum(differ) >= 3, f"{one} passes most cases of {other}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reference_is_another_program_with_the_same_behaviour(name: str, behaviour: dict[str, list[bytes]]):
    reference = reference_source(PROGRAMS[name])
    assert PROGRAMS[name].source not in reference
    assert outputs(reference, PROBES + INPUTS) == behaviour[name]
