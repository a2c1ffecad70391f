"""Suites built in real sandboxes, from folders that users wrote: recorded output, the cache, and what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from rl.tasks import load_suite
from sandbox.hidden import TaskError, load_hidden
from sandbox.pool import Pool
from tasks import build
from tasks.build import build_suite, ensure_suite, find_suite, list_suites, suite_name
from tasks.programs import PROGRAMS, source
from tasks.source import load_folder
from tests.tasks.test_source import write_task

pytestmark = pytest.mark.apptainer


@pytest.fixture
async def pool(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> AsyncIterator[Pool]:
    pool = Pool(apptainer, base_image, isolation, 1)
    yield pool
    await pool.close()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    write_task(tmp_path / "mine" / "greet")
    return tmp_path / "mine"


@pytest.fixture
def cache(tmp_path: Path, base_image: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone for suites; the image stays where sandboxes can read it."""
    monkeypatch.setattr(build, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(build, "cache_dirs", lambda: [tmp_path])
    return tmp_path


async def refused(mine: Path, pool: Pool, tmp_path: Path) -> TaskError:
    with pytest.raises(TaskError) as caught:
        await build_suite("mine", load_folder(mine), tmp_path / "root", pool=pool)
    assert caught.value.where
    assert caught.value.remedy
    assert set(os.listdir(tmp_path)) == {"mine"}, "something half-built is left"
    return caught.value


async def test_both_halves_are_written(mine: Path, pool: Pool, tmp_path: Path):
    root = tmp_path / "root"
    await build_suite("mine", load_folder(mine), root, pool=pool)
    hidden = load_hidden(root, "mine", "greet")
    (case,) = hidden.cases
    assert case.stdout == b"hello moon\n"
    assert case.exit_status == 0
    (task,) = load_suite(root, "mine")
    (example,) = task.examples
    assert example.stdout == b"hello world\n"
    assert "hello world" in task.instructions
    assert "moon" not in task.instructions
    assert stat.S_IMODE((root / "hidden").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "hidden/mine/greet/hidden.msgpack").stat().st_mode) == 0o600
    assert "moon" not in "".join(p.read_text() for p in (root / "public").rglob("*") if p.is_file())


async def test_a_program_of_the_image_is_recorded_and_masked(pool: Pool, base_image: Path, tmp_path: Path):
    program = next(program for program in PROGRAMS if program.name == "hexdump")
    await build_suite("some", [source(program, base_image)], tmp_path / "root", pool=pool)
    hidden = load_hidden(tmp_path / "root", "some", "hexdump")
    assert hidden.masked == ("/usr/bin/hd", "/usr/bin/hexdump")
    assert len(hidden.cases) >= 40
    assert {case.exit_status for case in hidden.cases} == {0, 1}
    assert any(case.stdout.startswith(b"00000000  ") for case in hidden.cases)
    (task,) = load_suite(tmp_path / "root", "some")
    assert "--one-byte-octal" in task.instructions
    assert "/usr/bin" not in task.instructions
    assert len(task.examples) == 3


async def test_examples_show_what_a_reader_would_miss(mine: Path, pool: Pool, tmp_path: Path):
    (mine / "greet/reference/main.py").write_text(
        "import sys\ndata = sys.stdin.read()\n"
        "sys.stdout.write('\\x1b[' + data.upper())\nsys.exit(data.startswith('w'))\n"
    )
    (mine / "greet/cases/1.toml").write_text(
        'argv = ["a b"]\nstdin = "world"\npublic = true\n[files]\nf = "tab\\t\\n"\n'
    )
    await build_suite("mine", load_folder(mine), tmp_path / "root", pool=pool)
    (task,) = load_suite(tmp_path / "root", "mine")
    assert task.instructions == (
        "Rebuild it.\n\n```console\n$ cat f\ntab\t\n$ cat input\nworld   (no newline at the end)\n"
        "$ greet 'a b' < input\n"
        "\\x1b[WORLD   (no newline at the end)\n(exit status 1)\n```\n"
    )


async def test_a_reference_that_cannot_start_is_named(mine: Path, pool: Pool, tmp_path: Path):
    settings = mine / "greet/task.toml"
    settings.write_text(
        settings.read_text().replace('"/usr/bin/python3", "-I", "/reference', '"/usr/bin/perl6", "/reference')
    )
    error = await refused(mine, pool, tmp_path)
    assert "mine/greet" in error.what
    assert "cannot be started" in error.what
    assert "/usr/bin/perl6" in error.where


async def test_a_reference_that_always_fails_is_named(mine: Path, pool: Pool, tmp_path: Path):
    (mine / "greet/reference/main.py").write_text("print(hello)\n")
    error = await refused(mine, pool, tmp_path)
    assert "mine/greet" in error.what
    assert "fails on every case" in error.what
    assert "NameError" in error.what


async def test_a_reference_that_crashes_is_named(mine: Path, pool: Pool, tmp_path: Path):
    (mine / "greet/reference/main.py").write_text("import os\nos.abort()\n")
    assert "did not end by itself" in (await refused(mine, pool, tmp_path)).what


async def test_a_reference_that_says_something_else_every_time_is_refused(mine: Path, pool: Pool, tmp_path: Path):
    (mine / "greet/reference/main.py").write_text("import time\nprint(time.time_ns())\n")
    error = await refused(mine, pool, tmp_path)
    assert "something else the second time" in error.what
    assert "case 1" in error.where


async def test_a_reference_that_prints_too_much_is_refused(mine: Path, pool: Pool, tmp_path: Path):
    (mine / "greet/reference/main.py").write_text("print('x' * 2_000_000)\n")
    assert "prints more than" in (await refused(mine, pool, tmp_path)).what


async def test_an_unmasked_program_of_the_image_is_refused(mine: Path, pool: Pool, tmp_path: Path):
    settings = 'reference = ["/usr/bin/sort"]\nrun = ["/work/program"]\nentry = "program"\n'
    (mine / "greet/task.toml").write_text(settings)
    (mine / "greet/reference/main.py").unlink()
    assert "everybody could just call it" in (await refused(mine, pool, tmp_path)).what
    (mine / "greet/task.toml").write_text(settings + 'masked = ["/usr/bin/srot"]\n')
    assert "no program /usr/bin/srot" in (await refused(mine, pool, tmp_path)).what


async def test_two_tasks_that_are_the_same_are_refused(mine: Path, pool: Pool, tmp_path: Path):
    write_task(mine / "greet2", program="import sys\nprint('hello ' + sys.stdin.readline().strip())\n")
    error = await refused(mine, pool, tmp_path)
    assert "greet and greet2" in error.what


def test_a_folder_is_built_once_and_again_when_it_changes(mine: Path, cache: Path):
    said: list[str] = []
    assert find_suite(str(mine)) is None
    root = ensure_suite(str(mine), progress=said.append)
    assert suite_name(str(mine)) == "mine"
    assert said == ["mine: 1 of 1 tasks (greet: 1 cases)"]
    assert ensure_suite(str(mine), progress=said.append) == root == find_suite(str(mine))
    assert len(said) == 1
    assert ensure_suite(str(root)) == root
    assert suite_name(str(root)) == "mine"
    (mine / "greet/reference/main.py").write_text("print('goodbye', input())\n")
    changed = ensure_suite(str(mine))
    assert changed != root
    assert load_hidden(changed, "mine", "greet").cases[0].stdout == b"goodbye moon\n"


def test_a_failed_build_leaves_nothing(mine: Path, cache: Path):
    (mine / "greet/reference/main.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(TaskError, match="fails on every case"):
        ensure_suite(str(mine))
    assert [path.name for path in (cache / "tasks").iterdir()] == [".mine.lock"]


def test_a_disk_that_cannot_be_written_is_named(mine: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(build, "write_hidden", full)
    with pytest.raises(TaskError, match="No space left on device") as caught:
        ensure_suite(str(mine))
    assert str(cache) in caught.value.where
    assert [path.name for path in (cache / "tasks").iterdir()] == [".mine.lock"]


def test_a_built_folder_with_half_a_task_is_refused(mine: Path, cache: Path):
    root = ensure_suite(str(mine))
    (root / "public/mine/greet/task.toml").unlink()
    with pytest.raises(TaskError, match="one half only: greet"):
        ensure_suite(str(root))


def test_an_unknown_suite_is_named_with_the_nearest(cache: Path):
    with pytest.raises(TaskError, match="did you mean 'micro-leaky'") as caught:
        ensure_suite("micro-leeky")
    for name in list_suites():
        assert name in caught.value.remedy
