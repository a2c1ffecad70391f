"""Every rule against its own examples, and rule files that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from detect.commands import failures, scan, test_rules
from detect.engine import Engine
from detect.rule_set import RULES_DIR, RuleError, load_rules

GOOD = """
id: example
family: network
severity: block
message: an example
when:
  command: {name: [curl]}
match: [curl x]
no_match: [ls]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "VERSION").write_text("7\n")
    (tmp_path / "example.yaml").write_text(GOOD)
    return tmp_path


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_rules())


def test_all_examples_of_all_rules(engine: Engine) -> None:
    assert [str(failure) for failure in failures(engine)] == []


def test_every_family_has_a_rule(engine: Engine) -> None:
    families = {rule.family for rule in engine.rules.rules}
    assert families >= {"evaluation", "network", "upstream", "reference", "tampering", "forced-success", "escape"}


def test_version_and_hash_follow_the_content(folder: Path) -> None:
    before = load_rules(folder)
    assert before.version == "7"
    assert before == load_rules(folder)
    (folder / "example.yaml").write_text(GOOD + "\n# changed\n")
    assert load_rules(folder).hash != before.hash


def test_renaming_or_moving_text_between_files_changes_the_hash(folder: Path) -> None:
    before = load_rules(folder).hash
    (folder / "other.yaml").write_text(GOOD.replace("id: example", "id: other"))
    assert load_rules(folder).hash != before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("severity: block", "severity: blokc"), "severity"),
        (("message:", "mesage:"), "mesage"),
        (("command: {name: [curl]}", "command: {nmae: [curl]}"), "nmae"),
        (("command: {name: [curl]}", "regex: '('"), "regular expression"),
        (("command: {name: [curl]}", "regex: 'a'\n  opaque: {}"), "exactly one"),
        (("match: [curl x]", "match: []"), "match:"),
        (("no_match: [ls]", "no_match: []"), "match:"),
        (("id: example", "id: other"), "other"),
        (("id: example", "id: ["), "cannot be read"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(folder: Path, change: tuple[str, str], told: str) -> None:
    file = folder / "example.yaml"
    file.write_text(GOOD.replace(*change))
    with pytest.raises(RuleError) as error:
        load_rules(folder)
    assert told in str(error.value)
    assert str(file) in str(error.value)
    assert error.value.remedy


def test_a_wrong_query_is_refused_by_name(folder: Path) -> None:
    query = "query: {language: python, needs: x, source: '(nonsense) @hit'}"
    (folder / "example.yaml").write_text(GOOD.replace("command: {name: [curl]}", query))
    with pytest.raises(Exception, match="rule example"):
        Engine(load_rules(folder))


def test_a_folder_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"not a rule set"):
        load_rules(tmp_path)


def test_rules_test_reports_wrong_examples(folder: Path) -> None:
    said: list[str] = []
    assert test_rules(folder, say=said.append)
    (folder / "example.yaml").write_text(GOOD.replace("no_match: [ls]", "no_match: [curl y]\ntodo_match: [curl z]"))
    assert not test_rules(folder, say=said.append)
    assert "must not match" in said[-3]
    assert "known gap" in said[-2]
    assert "2 wrong" in said[-1]


def test_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    script = tmp_path / "x.sh"
    script.write_text("ls\ncat '/ev''al/main.py'\n")
    assert scan(str(script), say=said.append) == 1
    assert any("evaluation-path" in line for line in said)
    assert any("line 2" in line for line in said)
    script.write_text("ls\n")
    assert scan(str(script), as_json=True, say=said.append) == 0
    assert '"decision": "allow"' in said[-1]
    program = tmp_path / "main.py"
    program.write_text("import base64, sys\nexec(base64.b64decode(sys.argv[1]))\n")
    assert scan(str(program), say=said.append) == 3


def test_rules_ship_with_the_package() -> None:
    assert (RULES_DIR / "VERSION").is_file()


def test_the_changelog_begins_with_the_version_that_ships() -> None:
    headings = re.findall(r"^## (\S+)", (RULES_DIR / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == load_rules().version
    assert len(set(headings)) == len(headings)
