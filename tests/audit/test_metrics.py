import math
import resource
from pathlib import Path

import pytest

from audit.metrics import MetricsError, MetricsLog, read_metrics


def test_numbers_come_back_also_those_that_are_not_finite(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    with MetricsLog(path, clock=lambda: 5.0) as log:
        log.write(1, reward=0.5, kl=math.nan)
    (row,) = read_metrics(path)
    assert (row["step"], row["time"], row["reward"]) == (1, 5.0, 0.5) and math.isnan(row["kl"])
    assert read_metrics(tmp_path / "missing.jsonl") == []


def test_a_resume_takes_out_the_steps_that_are_done_again(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    with MetricsLog(path) as log:
        for step in range(1, 6):
            log.write(step, reward=step)
    with path.open("ab") as file:
        file.write(b'{"step": 6, "rew')
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 3, 4, 5]
    with MetricsLog(path, resumed_step=3) as log:
        log.write(4, reward=40)
    assert [(row["step"], row["reward"]) for row in read_metrics(path)] == [(1, 1), (2, 2), (3, 3), (4, 40)]


def test_a_torn_line_never_joins_the_next(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"step":1,"time":0}\n{"step":2,')
    with MetricsLog(path) as log:
        log.write(2, reward=1)
    assert [row["step"] for row in read_metrics(path)] == [1, 2]


def test_a_line_that_does_not_fit_leaves_no_part_of_it(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricsLog(path) as log:
        log.write(1, reward=1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 9, hard))
        try:
            with pytest.raises(MetricsError, match="cannot be written"):
                log.write(2, reward=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        log.write(2, reward=3)
    assert [(row["step"], row["reward"]) for row in read_metrics(path)] == [(1, 1), (2, 3)]


def test_damage_is_named(tmp_path: Path):
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"step":1}\n[]\n{"step":2}\n')
    with pytest.raises(MetricsError, match=r"train\.jsonl:2"):
        read_metrics(path)
