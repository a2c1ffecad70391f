"""The documentation names only commands, targets and files that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer.main

from jobs.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {"runs", "build"}


def code_of(page: Path) -> list[str]:
    """The lines of the code blocks and the code spans of a page."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return [line.strip() for block in blocks for line in block.splitlines()] + spans


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_ectype_command_exists(page: Path) -> None:
    unknown = []
    for line in code_of(page):
        match = re.match(r"(?:\.venv/bin/)?ectype ([a-z].*)", line)
        if match is None:
            continue
        command = typer.main.get_command(app)
        for word in match.group(1).split():
            commands = getattr(command, "commands", None)
            if commands is None:
                break
            if word.split("|")[0] not in commands:
                unknown.append(line)
                break
            command = commands[word.split("|")[0]]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_exists(page: Path) -> None:
    targets = {target for line in code_of(page) for target in re.findall(r"^make ([a-z]+)", line)}
    for target in sorted(targets):
        result = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_the_repository_that_is_named_exists(page: Path) -> None:
    missing = []
    for line in code_of(page):
        for word in re.findall(r"(?<![\w/.<$~-])[\w-]+/[\w./-]+\.(?:py|sh|yaml|toml|md|json|sbatch)\b", line):
            if word.split("/")[0] in FOLDERS and not (ROOT / word).exists():
                missing.append(word)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
