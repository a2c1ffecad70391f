"""A run config with a mistake is refused before anything starts, and the message says what, where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.errors import EctypeError
from jobs import strict_yaml
from jobs.run_config import RunConfig, load_run_config

GOOD = "name: a\nsuite: micro\n"

MISTAKES = [
    ("ppo:\n  actr_lr: 0.1\n", "unknown key `ppo.actr_lr`", 4, "did you mean `actor_lr`?"),
    ("trainr:\n  steps: 3\n", "unknown key `trainr`", 3, "did you mean `trainer`?"),
    ("zzz: 1\n", "unknown key `zzz`", 3, "valid keys here:"),
    ("ppo:\n  epochs: '3'\n", "wrong value for `ppo.epochs`: '3'", 4, "give a valid integer"),
    ("ppo:\n  epochs: 2.5\n", "wrong value for `ppo.epochs`", 4, "integer"),
    ("trainer:\n  steps: 0\n", "wrong value for `trainer.steps`: 0", 4, "greater than or equal to 1"),
    ("seed: yes\n", "wrong value for `seed`: True", 3, "integer"),
    ("ppo: 3\n", "wrong value for `ppo`: 3", 3, "keys"),
    ("tasks: reverse\n", "wrong value for `tasks`", 3, "array"),
    ("anticheat:\n  mode: enforced\n", "wrong value for `anticheat.mode`", 4, "'enforce', 'observe' or 'off'"),
    ("suite: micro\n", "key `suite` is given twice", 3, "correct that line"),
    ("policy:\n  path: /x\n", "policy.path goes with policy.kind: hf", 4, ""),
    ("parallel:\n  tp: 3\n", "parallel.tp 3 does not divide the 2 heads", 4, "set parallel.tp to one of [1, 2]"),
    ("parallel:\n  pp: 3\n", "parallel.pp 3 does not divide the 2 layers", 4, "set parallel.pp to one of [1, 2]"),
    ("parallel:\n  sequence: true\n", "parallel.sequence is for tensor-parallel ranks", 4, "set parallel.tp above 1"),
    ("parallel:\n  dp: 5\n", "parallel.dp 5 does not divide", 4, "multiple of 5"),
    ("policy:\n  kind: smollm2\nparallel:\n  tp: 2\n", "parallel.tp 2 does not divide the 9 heads", 6, "one of [1, 3]"),
    ("policy:\n  shape: {heads: 5}\n", "policy.shape.hidden 96", 4, "multiple of 2 * policy.shape.heads"),
    ("policy:\n  shape: {kv_heads: 3}\n", "policy.shape.kv_heads 3", 4, "one of [1, 2]"),
    ("tasks: []\n", "wrong value for `tasks`", 3, "at least 1 item"),
    ("seed: 99999999999999999999\n", "wrong value for `seed`", 3, "less than"),
    ("ppo:\n  actor_lr: .inf\n", "wrong value for `ppo.actor_lr`: inf", 4, "finite number"),
    ("policy:\n  threads: 100000\n", "wrong value for `policy.threads`", 4, "less than or equal to 1024"),
    ("policy:\n  kind: smollm2\n  shape: {layers: 3}\n", "policy.shape is of no use", 5, "or use kind: tiny"),
    ("policy:\n  kind: smollm2\n  warm_start: {load: x}\n", "policy.warm_start is of no use", 5, "remove it"),
    ("judge:\n  enabled: true\n", "judge.enabled without judge.model", 4, "name the model"),
    ("judge:\n  threshold: 0.4\n", "judge.threshold 0.4 is below judge.uncertain_from 0.5", 4, "lower the second"),
    ("judge:\n  endpoint: localhost:8000\n", "wrong value for `judge.endpoint`", 4, "^https?://"),
    ("judge:\n  late: wait\n", "wrong value for `judge.late`", 4, "'hold', 'train' or 'drop'"),
    ("rollout:\n  max_new_tokens: 500\n", "rollout.max_new_tokens 500 leaves no room", 4, "lower the first"),
]


@pytest.mark.parametrize(("text", "what", "line", "remedy"), MISTAKES)
def test_mistake_is_named(tmp_path: Path, text: str, what: str, line: int, remedy: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD + text)
    with pytest.raises(EctypeError) as caught:
        load_run_config(path)
    error = caught.value
    assert what in error.what
    assert error.where == f"{path}:{line}"
    assert remedy in error.remedy


def test_unknown_suite_lists_the_suites(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("name: a\nsuite: mico\n")
    with pytest.raises(EctypeError, match="no suite `mico`") as caught:
        load_run_config(path)
    assert "micro" in caught.value.remedy


def test_a_suite_without_demonstrations_cannot_warm_start() -> None:
    text = "name: a\nsuite: programs\npolicy:\n  warm_start:\n    episodes: 9\n"
    with pytest.raises(EctypeError, match="the suite `programs` has no demonstrations") as caught:
        strict_yaml.parse(text, RunConfig, where="run.yaml")
    assert (caught.value.where, caught.value.remedy) == ("run.yaml:5", "set it to 0, or use one of: micro, micro-leaky")
    strict_yaml.parse(text.replace("9", "0"), RunConfig, where="run.yaml")


@pytest.mark.parametrize("text", ["", "- a\n", "name: [\n", "\x00"])
def test_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(EctypeError) as caught:
        load_run_config(path)
    assert str(path) in caught.value.where
    assert caught.value.remedy


def test_missing_file_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match="cannot read nowhere\\.yaml: No such file"):
        load_run_config(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EctypeError, match="not UTF-8"):
        load_run_config(tmp_path / "binary.yaml")


def test_scientific_notation_is_a_number_and_a_dump_reads_back() -> None:
    text = GOOD + "ppo: {actor_lr: 1e-3}\ntasks: [reverse]\npolicy: {shape: {layers: 6}}\nparallel: {tp: 2}\n"
    config = strict_yaml.parse(text, RunConfig, where="x")
    assert config.ppo.actor_lr == 1e-3
    assert strict_yaml.parse(strict_yaml.dump(config), RunConfig, where="y") == config


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD + "zzz: 1\nyyy: 2\n")
    with pytest.raises(EctypeError, match="and 1 more"):
        load_run_config(path)


def test_configs_that_ship_are_valid() -> None:
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / "configs").glob("*.yaml")):
        load_run_config(path)
