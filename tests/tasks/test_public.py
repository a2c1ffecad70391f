"""The public half as the trainer reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl.tasks import Example, SuiteError, list_suites, load_suite

TOML = 'format = 1\nentry = "main.py"\nbuild_hint = ""\nmax_steps = 4\n'


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "public" / "mine" / "greet"
    (folder / "examples").mkdir(parents=True)
    (folder / "task.toml").write_text(TOML)
    (folder / "instructions.md").write_text("Rebuild it: é\n")
    for number in (1, 2, 10):
        (folder / f"examples/{number}.json").write_text(f'{{"stdin": "aGk=", "exit_status": {number}}}')
    return folder


def refused(task: Path) -> SuiteError:
    with pytest.raises(SuiteError) as caught:
        load_suite(task.parents[2], "mine")
    assert caught.value.remedy
    return caught.value


def test_a_suite_is_read_in_order(task: Path):
    root = task.parents[2]
    assert list_suites(root) == ("mine",)
    (greet,) = load_suite(root, "mine")
    assert (greet.suite, greet.task, greet.entry, greet.max_steps) == ("mine", "greet", "main.py", 4)
    assert greet.instructions == "Rebuild it: é\n"
    assert greet.examples[0] == Example(stdin=b"hi", exit_status=1)
    assert [example.exit_status for example in greet.examples] == [1, 2, 10]


def test_an_unknown_suite_lists_those_that_are_there(task: Path):
    with pytest.raises(SuiteError, match="there is: mine"):
        load_suite(task.parents[2], "yours")


@pytest.mark.parametrize("name", ["task.toml", "instructions.md"])
def test_a_missing_file_is_named(task: Path, name: str):
    (task / name).unlink()
    error = refused(task)
    assert "mine/greet" in error.what
    assert error.where == str(task / name)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("task.toml", TOML.replace("1", "2", 1), "format"),
        ("task.toml", TOML + "steps = 1\n", "steps"),
        ("task.toml", TOML.replace("4", '"4"'), "max_steps"),
        ("task.toml", "format =", "Invalid value"),
        ("examples/2.json", '{"stdin": "aGk=", "name": 1}', "name"),
        ("examples/2.json", "{", "truncated"),
    ],
)
def test_a_malformed_file_is_named(task: Path, name: str, content: str, said: str):
    (task / name).write_text(content)
    error = refused(task)
    assert said in error.what
    assert error.where == str(task / name)
