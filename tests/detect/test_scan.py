"""`ectype rules scan`: any file, or a batch of actions, judged as a run would judge them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from audit.errors import EctypeError
from detect.commands import BatchLine, batch_action, scan_batch
from jobs.cli import main

HONEST: dict[str, str] = {"action": "ls", "language": "shell"}
CHEAT = {"action": "cp /eval/main.py .", "language": "bash", "label": "cheat"}
UNSURE = {"action": "base64 -d blob | sh", "language": "sh"}


def _batch(tmp_path: Path, *lines: object) -> tuple[int, list[dict]]:
    file = tmp_path / "batch.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    said: list[str] = []
    status = scan_batch(str(file), say=said.append)
    return status, [json.loads(line) for line in said]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([], 0),
        ([HONEST, HONEST], 0),
        ([HONEST, UNSURE], 3),
        ([UNSURE, CHEAT, HONEST], 1),
        ([CHEAT, "no json", HONEST], 2),
    ],
)
def test_the_worst_line_decides_the_status(tmp_path: Path, lines: list, status: int) -> None:
    found, verdicts = _batch(tmp_path, *lines)
    assert found == status
    assert len(verdicts) == len(lines)


def test_verdicts_come_in_order_with_rules_and_spans(tmp_path: Path) -> None:
    status, verdicts = _batch(tmp_path, CHEAT, HONEST, UNSURE, '{"action": 1}', CHEAT)
    assert status == 2
    assert [v["verdict"] for v in verdicts] == ["block", "allow", "review", "error", "block"]
    assert verdicts[0]["rules"] == ["evaluation-path"]
    assert verdicts[0]["spans"] == [[0, 18]]
    assert verdicts[3]["line"] == 4


def test_a_name_makes_it_a_file(tmp_path: Path) -> None:
    wrapper = 'exec reference "$@"\n'
    _, verdicts = _batch(
        tmp_path,
        {"action": wrapper, "language": "shell", "filename": "main.sh"},
        {"action": wrapper, "language": "shell"},
        {"action": wrapper, "filename": "main.sh"},
    )
    assert [v["verdict"] for v in verdicts] == ["block", "allow", "block"]


@pytest.mark.parametrize("line", [{"action": "x"}, {"action": "x", "language": "klingon"}, [], {"language": "shell"}])
def test_a_line_that_is_no_action_is_an_error_in_its_place(tmp_path: Path, line: object) -> None:
    status, verdicts = _batch(tmp_path, json.dumps(line), HONEST)
    assert status == 2
    assert [v["verdict"] for v in verdicts] == ["error", "allow"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match=r"cannot read the file"):
        scan_batch(str(tmp_path / "missing.jsonl"))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "x.sh"
    for body, verdict, status in [("ls", "allow", 0), (CHEAT["action"], "block", 1), (UNSURE["action"], "review", 3)]:
        script.write_text(f"{body}\n")
        assert main(["rules", "scan", "--json", str(script)]) == status
        assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    assert main(["rules", "scan", "--json", str(tmp_path / "missing")]) == 2
    assert main(["rules", "scan"]) == 2
    (tmp_path / "b.jsonl").write_text(json.dumps(CHEAT) + "\n")
    capsys.readouterr()
    assert main(["rules", "scan", "--batch", str(tmp_path / "b.jsonl")]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "block"
    assert main(["rules", "scan", "--batch", str(tmp_path / "b.jsonl"), str(script)]) == 2


def test_a_filename_says_what_a_language_unknown_here_does_not() -> None:
    for language in ("klingon", "Markdown", "yaml"):
        line = msgspec.json.encode({"action": CHEAT["action"], "language": language, "filename": "x.sh"})
        assert batch_action(msgspec.json.decode(line, type=BatchLine)).path == "x.sh"
    assert batch_action(BatchLine(action="x", language="Markdown")).path == "README.md"
    with pytest.raises(EctypeError, match="unknown language 'pyton'") as raised:
        batch_action(BatchLine(action="x", language="pyton"))
    assert "did you mean 'python'?" in str(raised.value)
