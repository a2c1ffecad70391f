"""Judges that are missing: whether the run goes on, and what it is told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from audit.errors import EctypeError
from audit.events import AuditLog, read_events
from detect.judge import JudgementCache
from detect.judge_prompt import load_prompt
from detect.review_worker import ReviewWorker, Thresholds
from jobs.job import JobRecord, ends_the_run, write_record
from jobs.judges import _keep_model, check_judge, dtype_of
from jobs.launch import Submitted
from jobs.run_config import JudgeConfig, RunConfig
from jobs.run_dir import RunDir
from jobs.site_config import load_site
from jobs.watch import Seen, _can_be_spared
from queues.judge_link import JudgeLink
from queues.model_server import ModelServerError


def run_of(tmp_path: Path, late: Literal["hold", "train", "drop"], workers: int = 2) -> RunDir:
    judge = JudgeConfig(enabled=True, endpoint="http://127.0.0.1:9/v1", model="m", late=late, workers=workers)
    return RunDir.create(tmp_path / "run", RunConfig(name="a", suite="micro", judge=judge), load_site("local"))


def failed(run: RunDir, name: str) -> None:
    record = JobRecord(name=name, state="failed", host="h", pid=1, job_id="", restarts=0, started=time.time())
    write_record(run, record)


def test_a_run_whose_policy_needs_no_verdict_outlives_its_judges(tmp_path: Path) -> None:
    run = run_of(tmp_path, "train")
    failed(run, "judge-0")
    failed(run, "judge-1")
    assert not ends_the_run(run, "judge")
    assert ends_the_run(run, "controller") and not ends_the_run(run, "sandbox")


def test_a_run_that_waits_for_verdicts_ends_with_its_last_judge(tmp_path: Path) -> None:
    run = run_of(tmp_path, "hold")
    failed(run, "judge-0")
    assert not ends_the_run(run, "judge")
    failed(run, "judge-1")
    assert ends_the_run(run, "judge")


@pytest.mark.parametrize(("waits", "alive", "spared"), [(True, 1, True), (True, 0, False), (False, 0, True)])
def test_whoever_waits_for_the_run_sees_it_the_same_way(waits: bool, alive: int, spared: bool) -> None:
    jobs = [Submitted(name=f"judge-{n}", role="judge", id=str(n), log="") for n in range(2)]
    seen = {job.name: Seen(job=job, alive=n > 1 - alive, state="") for n, job in enumerate(jobs)}
    assert _can_be_spared("judge-0", seen, judged=waits) is spared


async def test_a_model_that_does_not_start_ends_the_job_after_three_attempts(tmp_path: Path) -> None:
    config = JudgeConfig(enabled=True, model=str(tmp_path / "gone"))
    link = JudgeLink("judge-0", tmp_path / "none.json", tmp_path / "keys", slots=0)
    with AuditLog(tmp_path / "audit", "judge-0") as audit:
        worker = ReviewWorker(link, audit, slots=1, thresholds=Thresholds(), record_bytes=1000)
        with pytest.raises(ModelServerError, match="no Hugging Face model"):
            await asyncio.wait_for(
                _keep_model(config, load_prompt(), None, JudgementCache(), worker, audit, tmp_path / "logs"), 60
            )
    assert [event.data["deaths"] for event in read_events(tmp_path / "audit")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("told", "what"),
    [
        ({"model": "/nowhere"}, "no Hugging Face model|vLLM is not installed"),
        ({"model": "smollm2", "prompt": "review-0"}, "no prompt `review-0`"),
        ({"model": "smollm2", "calibration": "/nowhere.json"}, "no calibration here"),
    ],
)
def test_a_judge_that_could_not_is_refused_before_anything_starts(told: dict[str, Any], what: str) -> None:
    with pytest.raises(EctypeError, match=what):
        check_judge(JudgeConfig(enabled=True, **told))


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ('{"dtype": "float32"}', "float32"),
        ('{"torch_dtype": "bfloat16"}', "bfloat16"),
        ('{"dtype": "float8_e4m3fn"}', "auto"),
        ("{}", "auto"),
    ],
)
def test_a_model_is_served_in_the_precision_of_its_weights(tmp_path: Path, config: str, dtype: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert dtype_of(tmp_path) == dtype
