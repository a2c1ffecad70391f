"""`ectype rules diff`: two sets, and what they say about the episodes of a run."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from detect.guard import Guard
from detect.rule_set import RULES_DIR
from jobs.cli import main
from jobs.run_config import RunConfig
from jobs.run_dir import RunDir
from jobs.site_config import load_site
from queues.context import EpisodeContext
from queues.messages import Action, Observation
from rl.episode import Episode, Step
from tests.detect.rule_sets import with_marker

CHEAT, MARKED, HONEST = b"cat /eval/main.py\n", b"echo MARKER\n", b"ls\n"


def episode(name: str, *scripts: bytes) -> Episode:
    """As it would have been under the rules that ship, in a run that only observes."""
    guard = Guard.load(mode="observe")
    steps, history = [], []
    for number, script in enumerate(scripts):
        action = Action(kind="run", body=script)
        context = EpisodeContext(episode=name, suite="micro", task="double", step=number, history=list(history))
        verdict = guard.judge(action, context)
        history.append((action, verdict))
        steps.append(
            Step(
                action_start=0,
                action_end=0,
                text=script,
                call="submit",
                action=action,
                verdict=verdict,
                observation=Observation(status="ok", exit_status=0),
            )
        )
    return Episode(
        id=name, suite="micro", task="double", seed=0, tokens=[], action_mask=[], logprobs=[], versions=[], steps=steps
    )


def save(run: RunDir, step: int, *episodes: Episode) -> None:
    (run.episodes / f"step-{step:06d}.msgpack").write_bytes(msgspec.msgpack.encode(list(episodes)))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir.create(tmp_path / "run", RunConfig(name="past", suite="micro-leaky"), load_site("local"))
    for step in range(1, 6):  # enough files for several processes
        save(run, step, episode(f"{step}-a", HONEST, MARKED), episode(f"{step}-b", CHEAT, MARKED + HONEST))
    return run


@pytest.fixture
def other(tmp_path: Path) -> Path:
    folder = with_marker(tmp_path / "other")
    (folder / "evaluation-path.yaml").unlink()
    return folder


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    capsys.readouterr()
    assert main(["rules", "diff", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_over_a_run(run: RunDir, other: Path, capsys: pytest.CaptureFixture[str], processes: str) -> None:
    said = compare(capsys, "default", str(other), "--over", str(run.path), "--processes", processes)
    assert (said["rules"]["added"], said["rules"]["removed"]) == (["marker"], ["evaluation-path"])
    past = said["past"]
    assert (past["episodes"], past["actions"], past["unlike_then"]) == (10, 20, 0)
    changes = {(c["old"], c["new"], *c["rules"]): c for c in past["changes"]}
    assert {key: c["count"] for key, c in changes.items()} == {
        ("allow", "block", "marker"): 10,
        ("block", "allow", "evaluation-path"): 5,
    }
    shown = changes["allow", "block", "marker"]["examples"]
    assert [(e["episode"], e["step"], e["excerpt"]) for e in shown] == [
        *(("1-a", 1, "MARKER"), ("1-b", 1, "MARKER"), ("2-a", 1, "MARKER"))
    ]


def test_in_words(run: RunDir, other: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "diff", "active", str(other), "--over", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert "  + marker\n  - evaluation-path\n20 actions of 10 episodes: 15 are decided differently\n" in out
    assert "      10 allow -> block: marker\n         1-a step 1 (double): 'MARKER'\n" in out


def test_what_an_action_did_earlier_is_still_known(
    run: RunDir, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A set judges what a file does that an earlier step wrote."""
    save(run, 9, episode("late", b"printf 'echo MA%s' RKER > x.sh\n", b"echo MARKER > y; sh x.sh\n"))
    review = with_marker(tmp_path / "review", severity="review")
    changes = compare(capsys, "default", str(review), "--over", str(run.path))["past"]["changes"]
    assert [(c["old"], c["new"]) for c in changes] == [("allow", "review")]
    assert changes[0]["count"] == 11


def test_without_a_run(other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = with_marker(tmp_path / "changed", severity="review")
    said = compare(capsys, str(other), str(changed))
    assert said["past"] is None
    assert said["rules"]["added"] == ["evaluation-path"]
    assert said["rules"]["changed"] == {"marker": ["severity"]}
    assert main(["rules", "diff", "default", str(RULES_DIR)]) == 0
    assert "the rules are the same" in capsys.readouterr().out


def test_mistakes(run: RunDir, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "diff", "default", "nosuch", "--over", str(run.path)]) == 2
    assert "use a folder, or one of: default, active" in capsys.readouterr().err
    for file in run.episodes.iterdir():
        file.write_bytes(b"\xff")
    assert main(["rules", "diff", "default", str(other), "--over", str(run.path)]) == 2
    assert "damaged file of episodes" in capsys.readouterr().err
    for file in run.episodes.iterdir():
        file.unlink()
    assert main(["rules", "diff", "default", str(other), "--over", str(run.path)]) == 2
    assert "no episode is on record yet" in capsys.readouterr().err


def test_sets_are_found_by_name(run: RunDir, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = load_site("local").model_copy(update={"rule_sets": str(tmp_path)})
    run.freeze(run.config(), site)
    assert main(["rules", "activate", str(run.path), "other"]) == 0, "by the site's name"
    assert main(["rules", "rollback", str(run.path), "--why", "it blocks too much"]) == 0
    assert "no worker of the run is alive" in capsys.readouterr().out
    assert main(["rules", "activate", str(run.path), "marked"]) == 0, "by the version of a kept copy"
    digest = run.rules.activations()[1].hash
    assert main(["rules", "rollback", str(run.path)]) == 0
    assert main(["rules", "activate", str(run.path), digest[:6]]) == 0
    capsys.readouterr()
    assert main(["rules", "status", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert "rollback" in out and ": it blocks too much\n" in out and out.splitlines()[-1].startswith("* 5 activate")
