"""The commands and the rule in docs/rules.md work as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest

from detect.commands import failures
from detect.engine import Engine
from detect.rule_set import load_rules
from jobs.cli import main
from jobs.run_config import RunConfig
from jobs.run_dir import RunDir
from jobs.site_config import load_site
from tests.detect.rule_sets import with_marker

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
COMMANDS = re.findall(r"^ectype (.+)$", PAGE, re.MULTILINE)


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 10


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "x.sh").write_text("ls\n")
    (tmp_path / "examples" / "main.py").write_text("print(input())\n")
    (tmp_path / "examples" / "actions.jsonl").write_text('{"action": "ls", "language": "shell"}\n')
    monkeypatch.chdir(tmp_path)
    run = RunDir.create(tmp_path / "runs" / "micro", RunConfig(name="micro", suite="micro"), load_site("local"))
    (run.episodes / "step-000001.msgpack").write_bytes(msgspec.msgpack.encode([]))
    run.rules.activate(with_marker(tmp_path / "earlier", version="earlier"), "earlier", by="me")
    with_marker(tmp_path / "my-rules")
    assert main(shlex.split(command)) == 0


def test_the_rule(tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(id: .*?)```", PAGE, re.DOTALL)
    assert text is not None
    (tmp_path / "VERSION").write_text("1\n")
    (tmp_path / "network-shell-socket.yaml").write_text(text.group(1))
    assert list(failures(Engine(load_rules(tmp_path)))) == []


def test_every_condition_is_described() -> None:
    from detect.rule_set import Condition

    for name in Condition.__struct_fields__:
        assert f"`{name}`" in PAGE
