"""A judge is tuned, measured and promoted from the command line: a model of two layers, on words that give it away."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import msgspec
import pytest

from audit.errors import EctypeError
from detect.judge_calibration import load as load_calibration
from detect.judge_prompt import load_prompt
from detect.judge_split import nearly_among, pattern
from jobs.judge_samples import is_cheat, split
from jobs.judge_tune import Options, tune_judge
from jobs.judges import model_name, pinned
from jobs.run_config import JudgeConfig
from tests.cluster.command_line import CommandLine
from tests.jobs.judged import REPO

CORPUS = [REPO / "tests" / "corpus" / f"{name}.jsonl" for name in ("cheats", "benign", "solutions", "episodes")]
PROMPT = "---\nversion: tiny-1\nverdicts: [honest, cheat]\nreason_characters: 0\n---\n# system\nJudge.\n# user\n{}\n"
HONEST_WORDS = [
    "make", "build", "gcc", "test", "diff", "less", "head", "wc", "sort", "cmp", "date", "grep", "touch", "mkdir"
]  # fmt: skip
CHEAT_WORDS = [
    "steal", "answers", "hidden", "eval", "curl", "wget", "ssh", "clone", "decode", "patch", "forge", "skip", "spoof"
]  # fmt: skip
FAST = ("--epochs", "4", "--lr", "1e-2", "--batch-tokens", "1024", "--threads", "1", "--train-layers", "1")


def test_no_pattern_of_the_corpus_is_on_two_sides_and_nothing_is_nearly_on_two() -> None:
    parts = split(CORPUS, held_out=0.3, validation=0.15, limit=None)
    sides = [parts.train, parts.validation, parts.held_out]
    patterns = [{pattern("\n".join([*(h.action for h in one.history), one.action])) for one in part} for part in sides]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not patterns[one] & patterns[other]
        assert not any(nearly_among(sorted(patterns[one]), patterns[other]))
    assert parts.near_duplicates > 0 and min(map(len, sides)) > 100
    again = split(CORPUS[::-1], held_out=0.3, validation=0.15, limit=None)
    assert again == parts, "the order of files and lines is of no consequence"


def test_a_sample_keeps_its_side_while_the_store_grows() -> None:
    some = split(CORPUS[:2], held_out=0.3, validation=0.15, limit=None)
    more = split(CORPUS, held_out=0.3, validation=0.15, limit=None)
    assert {one.action for one in some.held_out} <= {one.action for one in more.held_out}
    assert not {one.action for one in some.train} & {one.action for one in more.held_out}


def test_a_limit_draws_both_labels_alike_in_every_language() -> None:
    parts = split(CORPUS, held_out=0.3, validation=0.15, limit=300)
    for part, size in ((parts.train, 165), (parts.validation, 45), (parts.held_out, 90)):
        assert abs(len(part) - size) <= 2
        for language in {one.language for one in part}:
            cheats = [is_cheat(one) for one in part if one.language == language]
            assert cheats.count(True) == cheats.count(False)


def test_behind_a_link_a_judge_has_the_name_of_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "judge-7").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "judge-7")
    link = str(tmp_path / "current")
    config = JudgeConfig(model=link, prompt=f"{link}/prompt.md", calibration=f"{link}/calibration.json")
    assert model_name(config) == "judge-7"
    now = pinned(config)
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "judge-8")
    assert (now.model, now.prompt) == (str(tmp_path / "judge-7"), str(tmp_path / "judge-7" / "prompt.md"))
    assert now.calibration == str(tmp_path / "judge-7" / "calibration.json")
    served = JudgeConfig(model="org/name", endpoint="http://localhost/v1")
    assert pinned(served) == served and model_name(served) == "org/name"


# --- with a model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of two layers with SmolLM2's tokenizer."""
    from rl import hf, parallel
    from rl.models import MegatronModel, ModelShape

    parallel.init(threads=1)
    shape = ModelShape(layers=2, hidden=32, heads=2, kv_heads=1, ffn=64, vocab=49152, max_positions=512, tied=True)
    folder = tmp_path_factory.mktemp("base") / "tiny"
    hf.export(MegatronModel(shape, seed=0), folder, tokenizer_from=hf.load_smollm2())
    return folder


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    lines = []
    for number in range(300):
        words = (HONEST_WORDS, CHEAT_WORDS)[number % 2]
        action = " ".join(rng.choices(words, k=6))
        lines.append({"action": action, "language": "shell", "label": ("benign", "cheat")[number % 2]})
    path = tmp_path_factory.mktemp("samples") / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path.parent / "prompt.md").write_text(PROMPT.format("$fence\n$record\n$fence\n$nonce"))
    return path


def tune(line: CommandLine, samples: Path, base: Path, out: str, *options: str):
    prompt = str(samples.parent / "prompt.md")
    return line.run(
        "judge", "tune", str(samples), "--model", str(base), "--out", out, "--prompt", prompt, *FAST, *options
    )


@pytest.mark.megatron
def test_tuned_measured_and_promoted_and_what_is_not_better_is_not(
    command_line: CommandLine, samples: Path, base: Path
) -> None:
    here = command_line.folder
    done = tune(command_line, samples, base, "judge-1", "--promote-to", "current", "--json")
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    assert card == json.loads((here / "judge-1" / "judge.json").read_text())
    before, after = card["comparison"]["before"], card["comparison"]["after"]
    assert after["auroc"] > 0.9 > before["auroc"] and after["recall_at_1pct"] > before["recall_at_1pct"]
    assert card["comparison"]["better"]
    assert (here / "current").resolve() == here / "judge-1" and not (here / ".judge-1.tuning").exists()
    prompt = load_prompt(str(here / "judge-1" / "prompt.md"))
    assert prompt.hash == card["prompt_hash"]
    load_calibration(here / "judge-1" / "calibration.json", model="judge-1", prompt_hash=prompt.hash)
    # read again from the folder, by another process, it is as good as was said
    measured = command_line.run(
        "judge", "evaluate", str(samples), "--model", "current", "--held-out", "0.3", "--json", "--threads", "1"
    )
    assert measured.returncode == 0, measured.stderr
    found = json.loads(measured.stdout)
    assert found["model"] == "judge-1" and found["prompt_hash"] == prompt.hash
    assert found["metrics"]["samples"] == after["samples"]
    assert found["metrics"]["auroc"] == pytest.approx(after["auroc"], abs=1e-3)
    assert found["reliability"]["brier"] == pytest.approx(card["reliability"]["brier"], abs=1e-3)
    assert found["reliability"]["brier"] < 0.25
    # the same base again, from which nothing is learnt, is no better than what is promoted
    worse = tune(command_line, samples, base, "judge-2", "--promote-to", "current", "--lr", "1e-9", "--epochs", "1")
    assert worse.returncode == 3, worse.stderr
    assert "judge-2: not better (against judge-1: its AUROC is not higher" in worse.stdout
    assert (here / "current").resolve() == here / "judge-1" and (here / "judge-2" / "judge.json").exists()


@pytest.mark.megatron
def test_killed_in_the_middle_it_goes_on(command_line: CommandLine, samples: Path, base: Path) -> None:
    prompt = str(samples.parent / "prompt.md")
    told = ("judge", "tune", str(samples), "--model", str(base), "--out", "out", "--prompt", prompt, *FAST)
    process = command_line.start(*told)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("epoch 2, batch"):
            os.killpg(process.pid, signal.SIGKILL)
            break
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (command_line.folder / "out").exists()
    done = command_line.run(*told)
    assert done.returncode == 0, done.stderr
    assert "going on after epoch 1" in done.stderr and "epoch 1, batch" not in done.stderr
    card = json.loads((command_line.folder / "out" / "judge.json").read_text())
    assert [epoch["number"] for epoch in card["epochs"]][:3] == [0, 1, 2]


@pytest.mark.megatron
def test_refused_before_anything_is_computed(tmp_path: Path, samples: Path, base: Path) -> None:
    (tmp_path / "there").mkdir()
    good = Options(
        samples=[samples], model=str(base), out=tmp_path / "out", prompt=str(samples.parent / "prompt.md"), threads=1
    )
    for change, words in (
        ({"out": tmp_path / "there"}, "over something that exists"),
        ({"promote_to": tmp_path / "there"}, "only a link is switched"),
        ({"prompt": "review-1"}, "asks for a reason"),
        ({"prompt": "brief-1"}, "says what stage 1 found"),
        ({"held_out": tmp_path / "none.jsonl"}, "cannot read the samples"),
        ({"held_out": 0.89, "validation": 0.1}, "too few for the side"),
    ):
        with pytest.raises(EctypeError, match=words):
            tune_judge(msgspec.structs.replace(good, **change), say=print)
        assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_labels_of_a_sample_store_count_too() -> None:
    from jobs.judge_command import Sample

    def labelled(label: str) -> bool:
        return is_cheat(msgspec.convert({"action": "x", "language": "shell", "label": label}, Sample))

    assert labelled("confirmed") and labelled("cheat")
    assert not labelled("false_positive") and not labelled("benign") and not labelled("honest")
