"""`ectype samples`: list, review with scripted keys, label, export."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from detect.guard import Guard
from detect.judge_prompt import load_prompt
from detect.judge_record import record_of
from detect.samples import SampleStore, SampleWriter, episode_of
from jobs.cli import main
from jobs.judge_command import read_samples, record_of_sample
from jobs.run_config import RunConfig
from jobs.run_dir import RunDir
from jobs.samples_command import review
from jobs.site_config import load_site
from queues.messages import Action, ReviewEpisode, ReviewStep
from tests.detect.test_samples import put


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four samples: of rules, of a rule and a decoy, and an episode of the judge."""
    folder = tmp_path / "store"
    times = iter(range(9))
    writer = SampleWriter(folder, "w", run="r", clock=lambda: float(next(times)))
    put(writer, b"cat /eval/main.py\n")
    put(writer, b"import urllib.request\nurllib.request.urlopen('http://a.b/c')\n", path="main.py")
    put(writer, b"\x1b[2Jcat /test/hidden/x\n", canary=True)
    steps = tuple(
        ReviewStep(step=n, action=Action(kind="run", body=b"echo %d" % n), output=b"%d\n" % n) for n in range(2)
    )
    episode = ReviewEpisode(request_id="q", episode="e9", suite="micro", task="reverse", steps=steps)
    writer.add_episode(episode, "flagged", 0.93, model="m", prompt_version="p", reason="it echoes")
    writer.close()
    return folder


def press(store: Path, keys: str, by: str = "ann") -> tuple[dict[str, int], str]:
    out = io.StringIO()
    done = review(SampleStore(store, by=by), iter(keys), console=Console(file=out, width=200))
    return {what: count for what, count in done.items() if count}, out.getvalue()


def states(store: Path) -> list[str]:
    there = SampleStore(store)
    return [there.states().get(name, "suspected") for name in there.samples()]


def test_review_shows_labels_and_goes_on_where_it_was_left(store: Path) -> None:
    done, out = press(store, "c?f\nq")
    assert done == {"confirmed": 1, "false_positive": 1}
    assert "1 of 4" in out and "evaluation-path: " in out and ">   1  cat /eval/main.py" in out
    assert "step 3 writes the file main.py" in out
    assert "\x1b" not in out and "␛[2J" in out, "what an agent wrote does nothing to the terminal"
    assert "[c]onfirm" in out
    assert states(store) == ["confirmed", "false_positive", "suspected", "suspected"]

    done, out = press(store, "sc", by="bob")
    assert done == {"skipped": 1, "confirmed": 1}
    assert "1 of 2" in out and "judge: flagged, P(cheat) 0.93: it echoes" in out and "the agent was shown:" in out
    assert "Nothing is left to review." in out
    assert states(store) == ["confirmed", "false_positive", "suspected", "confirmed"]
    assert [labels[-1].by for labels in SampleStore(store).labels().values()] == ["ann", "ann", "bob"]
    assert not list((store / "claims").iterdir())


def test_undo_takes_back_the_last_label_and_shows_it_again(store: Path) -> None:
    done, out = press(store, "ucfu" + "fsssq")
    assert out.count("nothing to undo") == 1
    assert done == {"confirmed": 1, "false_positive": 1, "skipped": 2}
    assert states(store) == ["confirmed", "false_positive", "suspected", "suspected"]
    second = list(SampleStore(store).samples())[1]
    history = SampleStore(store).labels()[second]
    assert [(label.state, label.note) for label in history] == [
        *(("false_positive", ""), ("suspected", "undone"), ("false_positive", ""))
    ]


def test_what_another_has_on_the_screen_is_passed_over(store: Path) -> None:
    first = next(iter(SampleStore(store).samples()))
    with SampleStore(store, by="bob").claimed(first):
        done, _ = press(store, "ccc")
    assert done == {"elsewhere": 1, "confirmed": 3}
    assert states(store)[0] == "suspected"


def test_the_command_reads_keys_from_a_pipe(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("cfsq"))
    assert main(["samples", "review", str(store)]) == 0
    assert capsys.readouterr().out.endswith("1 confirmed, 1 false_positive, 1 skipped\n")
    assert "@" in next(iter(SampleStore(store).labels().values()))[0].by


def test_list_and_label(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = list(SampleStore(store).samples())
    assert main(["samples", "label", str(store), names[0][:8], "confirmed", "--note", "clear"]) == 0
    assert main(["samples", "label", str(store), names[1], "false-positive"]) == 0
    capsys.readouterr()
    assert main(["samples", "list", str(store)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:4]] == [
        [names[0], "confirmed", "rule", "double"],
        [names[1], "false_positive", "rule", "double"],
        [names[2], "suspected", "rule", "double"],
        [names[3], "suspected", "judge", "reverse"],
    ]
    assert lines[4] == "2 suspected, 1 confirmed, 1 false_positive"
    assert main(["samples", "list", str(store), "--state", "confirmed", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["steps"][0]["body"] == "cat /eval/main.py\n"
    for arguments, what in (
        (["label", str(store), "zzzz", "confirmed"], "no samples have an id"),
        (["label", str(store), names[0], "cheat"], "unknown state 'cheat'"),
        (["list", str(store / "nowhere")], "there is no such folder"),
        (["list", str(store / "found")], "neither a run nor a sample store"),
    ):
        assert main(["samples", *arguments]) == 2
        assert what in capsys.readouterr().err


def test_export(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    press(store, "cfcf")
    plain, chats = tmp_path / "plain.jsonl", tmp_path / "chats.jsonl"
    assert main(["samples", "export", str(store), str(plain)]) == 0
    assert "4 labelled samples\n" in capsys.readouterr().out
    samples, _ = read_samples(plain)
    assert [(s.label, s.language or s.filename) for s in samples] == [
        *(("confirmed", "shell"), ("false_positive", "main.py"), ("confirmed", "shell"), ("false_positive", "shell"))
    ]
    record = record_of_sample(samples[-1], Guard.load(mode="observe"), limit_bytes=1000)
    (found,) = (s for s in SampleStore(store).samples().values() if s.source == "judge")
    assert record.text == record_of(episode_of(found), limit_bytes=1000).text, "as the judge was given it"
    assert record.task == found.task and "[the agent was shown]\n  0\n[step 1:" in record.text
    for name in ("review-1", "brief-1"):
        assert main(["samples", "export", str(store), "--supervised", str(chats), "--prompt", name]) == 0
        written = chats.read_bytes()
        assert main(["samples", "export", str(store), "--supervised", str(chats), "--prompt", name]) == 0
        assert chats.read_bytes() == written, "the same every time"
        prompt = load_prompt(name)
        lines = [json.loads(line) for line in written.splitlines()]
        assert [line["label"] for line in lines] == ["confirmed", "false_positive", "confirmed", "false_positive"]
        for line in lines:
            _, user, assistant = line["messages"]
            assert [m["role"] for m in line["messages"]] == ["system", "user", "assistant"]
            answer = json.loads(assistant["content"])
            assert list(answer) == prompt.schema()["required"], "in the order in which the model answers"
            assert answer["verdict"] == prompt.verdicts[line["label"] == "confirmed"]
            assert f'"check": "{answer["check"]}"' in user["content"] or answer["check"] in user["content"]
            assert line["prompt_hash"] == prompt.hash
            assert len(answer.get("reason", "")) <= prompt.reason_characters
        assert re.search(r"^\| .*cat /eval/main\.py", lines[0]["messages"][1]["content"], re.MULTILINE)
        assert "Automatic rules about step 3" in lines[0]["messages"][1]["content"]
        assert "run in the shell" in lines[3]["messages"][1]["content"]


def test_the_store_of_a_run_is_its_own_or_the_sites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = RunConfig(name="r", suite="micro")
    run = RunDir.create(tmp_path / "run", config, load_site("local"))
    assert run.samples() == run.path / "samples"
    assert main(["samples", "list", str(run.path)]) == 0
    assert capsys.readouterr().out == "0 suspected, 0 confirmed, 0 false_positive\n"
    run.freeze(config, load_site("local").model_copy(update={"samples": str(tmp_path / "all")}))
    assert run.samples() == tmp_path / "all"
