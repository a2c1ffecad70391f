"""What docs/tasks.md shows works: the suite it makes is built and found good, and its tables are complete."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rl.tasks import load_suite
from tasks import source
from tasks.build import find_suite, list_suites
from tasks.check import Finding
from tasks.programs import PROGRAMS

DOCS = Path(__file__).parents[2] / "docs" / "tasks.md"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with `ectype` on PATH and a cache of its own."""
    command = tmp_path / "bin" / "ectype"
    command.parent.mkdir()
    root = shlex.quote(str(DOCS.parents[1]))
    code = shlex.quote("import sys; from jobs.cli import main; sys.exit(main())")
    command.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {shlex.quote(sys.executable)} -c {code} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ECTYPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.apptainer
def test_the_suite_of_the_page_is_built_and_good(shell: Path):
    script = re.search(r"^```bash\n(.*?)^```$", DOCS.read_text(), re.M | re.S)
    assert script
    run = subprocess.run(["bash", "-e", "-c", script[1]], cwd=shell, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    root = find_suite("my-suite")
    assert root is not None
    assert root.is_relative_to(shell)
    (task,) = load_suite(root, "my-suite")
    assert "HELLO!" in task.instructions
    assert task.max_steps == 10


@pytest.mark.apptainer
def test_the_list_command_names_every_suite(shell: Path):
    listed = subprocess.run(["ectype", "tasks", "list"], capture_output=True, text=True, check=True).stdout
    for name in list_suites():
        assert name in listed


def test_the_page_is_complete():
    page = DOCS.read_text()
    for key in source._Settings.__struct_fields__:
        assert f"| `{key}` |" in page
    for key in source._CaseFile.__struct_fields__:
        assert f"`{key}" in page
    for suite in list_suites():
        assert f"**{suite}**" in page
    assert f"{len(PROGRAMS)} real programs" in page
    for check in ("reference", "oracle", "nothing", "instructions", "masks"):
        assert f"| `{check}` |" in page
        assert check in (Finding.__doc__ or "")
