"""Task folders that users write: what is read, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.comparison import EXACT, Comparison
from sandbox.hidden import TaskError
from tasks.source import load_folder, load_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(tmp_path / "mine" / "greet")


def write_task(folder: Path, *, program: str = "print('hello', input())\n") -> Path:
    """A complete task folder whose reference is a Python program."""
    (folder / "reference").mkdir(parents=True)
    (folder / "cases").mkdir()
    (folder / "task.toml").write_text(
        'reference = ["/usr/bin/python3", "-I", "/reference/main.py"]\n'
        'run = ["/usr/bin/python3", "-I", "/work/main.py"]\n'
        'entry = "main.py"\n'
    )
    (folder / "instructions.md").write_text("Rebuild it.\n\n{{examples}}\n")
    (folder / "reference/main.py").write_text(program)
    (folder / "cases/1.toml").write_text('stdin = "world\\n"\npublic = true\n')
    (folder / "cases/2.toml").write_text('stdin = "moon\\n"\nargv = ["-x"]\n\n[files]\n"a b.txt" = "é\\n"\n')
    return folder


def refused(folder: Path) -> TaskError:
    with pytest.raises(TaskError) as caught:
        load_folder(folder.parent)
    assert caught.value.where
    assert caught.value.remedy
    return caught.value


def test_a_task_folder_is_read(folder: Path):
    (task,) = load_folder(folder.parent)
    assert task == load_source(folder)
    assert task.name == "greet"
    assert [file.path for file in task.reference.files] == ["/reference/main.py"]
    public, hidden = task.inputs
    assert public.public
    assert public.stdin == b"world\n"
    assert hidden.argv == ("-x",)
    assert hidden.files[0].data == "é\n".encode()


def test_an_executable_reference_stays_executable(folder: Path):
    (folder / "reference/main.py").chmod(0o700)
    assert load_source(folder).reference.files[0].mode == 0o755


def test_a_missing_reference_is_named(folder: Path):
    (folder / "reference/main.py").unlink()
    error = refused(folder)
    assert "task greet" in error.what
    assert "/reference/main.py" in error.what
    assert error.where == str(folder / "reference")


@pytest.mark.parametrize("name", ["task.toml", "instructions.md"])
def test_a_missing_file_is_named(folder: Path, name: str):
    (folder / name).unlink()
    if name == "task.toml":
        (folder.parent / "other").mkdir()
        assert "holds no task folder" in refused(folder).what
    else:
        assert refused(folder).where == str(folder / name)


def test_an_unknown_key_is_named(folder: Path):
    with (folder / "task.toml").open("a") as file:
        file.write("refernce = 1\n")
    error = refused(folder)
    assert "refernce" in error.what
    assert error.where == str(folder / "task.toml")


def test_a_case_of_the_wrong_type_is_named(folder: Path):
    (folder / "cases/2.toml").write_text("stdin = 5\n")
    error = refused(folder)
    assert "$.stdin" in error.what
    assert error.where == str(folder / "cases/2.toml")


def test_a_case_that_is_not_toml_is_named(folder: Path):
    (folder / "cases/1.toml").write_text("stdin = \n")
    assert refused(folder).where == str(folder / "cases/1.toml")


def test_a_task_without_cases_is_refused(folder: Path):
    for case in (folder / "cases").iterdir():
        case.unlink()
    assert "no cases" in refused(folder).what


def test_an_empty_folder_is_refused(tmp_path: Path):
    assert "no task folder" in refused(tmp_path / "absent").what


def test_a_comparison_is_that_of_the_case_else_the_task_s_else_the_suite_s(folder: Path):
    assert load_source(folder).comparison == EXACT
    (folder.parent / "suite.toml").write_text('compare = "sorted_lines"\n')
    (task,) = load_folder(folder.parent)
    assert task.comparison == Comparison(kind="sorted_lines")
    assert [case.comparison for case in task.inputs] == [None, None]
    with (folder / "task.toml").open("a") as file:
        file.write('compare = { kind = "float", relative = 1e-3 }\n')
    (folder / "cases/2.toml").write_text('stdin = "moon\\n"\ncompare = "exit_status"\n')
    (task,) = load_folder(folder.parent)
    assert task.comparison == Comparison(kind="float", relative=1e-3)
    assert task.inputs[1].comparison == Comparison(kind="exit_status")


WRONG_COMPARISONS = (
    '"sorted"',
    '{ kind = "exact", relative = 1.0 }',
    '{ kind = "float" }',
    '{ kind = "float", tolerance = 1.0 }',
    '{ kind = "float", absolute = nan }',
    '{ kind = "float", absolute = "1" }',
)


@pytest.mark.parametrize("compare", WRONG_COMPARISONS)
@pytest.mark.parametrize("place", ["suite.toml", "greet/task.toml", "greet/cases/2.toml"])
def test_a_wrong_comparison_is_refused_where_it_stands(folder: Path, place: str, compare: str):
    with (folder.parent / place).open("a") as file:
        file.write(f"\ncompare = {compare}\n" if "cases" not in place else "")
    if "cases" in place:
        (folder.parent / place).write_text(f"compare = {compare}\n")
    assert refused(folder).where.endswith(place)


def test_command_tests_are_read_with_their_files(folder: Path):
    (folder / "tests/data").mkdir(parents=True)
    (folder / "tests/test.sh").write_text("exit 0\n")
    (folder / "tests/data/x").write_text("1\n")
    with (folder / "task.toml").open("a") as file:
        file.write(
            '[[tests]]\nname = "all"\nverdict = "reward"\nwall_s = 9.0\n[[tests]]\nname = "b"\nargv = ["true"]\n'
        )
    for case in (folder / "cases").iterdir():
        case.unlink()
    one, other = load_source(folder).tests
    assert one.argv == ("bash", "/tests/test.sh")
    assert (one.verdict, one.limits.wall_s, one.calls) == ("reward", 9.0, 1000)
    assert [file.path for file in one.files] == ["/tests/data/x", "/tests/test.sh"]
    assert (other.argv, other.verdict) == (("true",), "exit_status")


@pytest.mark.parametrize("wrong", ['verdict = "file"', "call = 1", 'argv = "true"', "wall_s = 0.0"])
def test_a_wrong_command_test_is_refused(folder: Path, wrong: str):
    with (folder / "task.toml").open("a") as file:
        file.write(f'[[tests]]\nname = "all"\n{wrong}\n')
    assert refused(folder).where.endswith("task.toml")
