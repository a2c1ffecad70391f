"""A whole run on a real Slurm, as an ordinary user: submitted, requeued in the middle, resumed, ended, cancelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.slurm import SlurmCluster, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.megatron]

STEPS = 60  # of a tenth of a second at least: the requeue has to come before the last one
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"}


def steps(run: Path) -> list[int]:
    path = run / "metrics" / "trainer.jsonl"
    return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []


def explain(run: Path) -> str:
    logs = sorted(run.glob("logs/*/latest/*.err"))
    return "\n".join(f"== {log}\n{log.read_text()[-3000:]}" for log in logs)


def stopped(run: Path) -> str | None:
    return json.loads((run / "stop").read_text())["reason"] if (run / "stop").exists() else None


def ids(run: Path) -> dict[str, str]:
    return {job["name"]: job["id"] for job in json.loads((run / "jobs.json").read_text())["jobs"]}


def all_ended(cluster: SlurmCluster, run: Path) -> bool:
    states = cluster.states()
    return all(states.get(job) in ENDED for job in ids(run).values())


def test_submitted_run_survives_a_requeue_of_its_trainer(slurm_cluster: SlurmCluster) -> None:
    run = slurm_cluster.home / "runs" / "requeued"
    config = str(slurm_cluster.checkout / "tests" / "slurm" / "small.yaml")
    submit = ("submit", config, "--site", "local-slurm", "--run", str(run), "--steps", str(STEPS))
    try:
        submitted = slurm_cluster.ectype(*submit)
        jobs = ids(run)
        assert set(jobs) == {"controller", "sandbox-0", "trainer"}
        assert all(job in submitted.stdout for job in jobs.values())
        partitions = slurm_cluster.root(
            "squeue", "--noheader", "--array", "--states=all", f"--jobs={','.join(jobs.values())}", "--format=%i %P %u"
        ).stdout.splitlines()
        assert sorted(partitions) == sorted(
            f"{jobs[name]} {partition} ectype"
            for name, partition in (("controller", "cpu"), ("sandbox-0", "cpu"), ("trainer", "gpu"))
        )
        again = slurm_cluster.ectype(*submit, check=False)
        assert again.returncode == 2
        assert "the run folder is in use" in again.stderr

        wait_for("two steps", lambda: len(steps(run)) >= 2 or stopped(run) is not None)
        assert stopped(run) is None, explain(run)
        slurm_cluster.user("scontrol", "requeue", jobs["trainer"])
        wait_for("the end", lambda: stopped(run) is not None)
        assert stopped(run) == "finished", explain(run)
        assert steps(run) == list(range(1, STEPS + 1))
        trainer = json.loads((run / "jobs" / "trainer.json").read_text())
        assert trainer["restarts"] == 1
        log = next(run.glob("logs/trainer/latest/*.err")).read_text()
        assert "resumed at step" in log
        wait_for("all jobs to leave", lambda: all_ended(slurm_cluster, run))
        assert {slurm_cluster.states()[job] for job in jobs.values()} == {"COMPLETED"}, explain(run)
        shown = slurm_cluster.ectype("status", str(run)).stdout
        assert "finished" in shown and f"step {STEPS} of {STEPS}" in shown
    finally:
        slurm_cluster.ectype("cancel", str(run), check=False)


def test_sbatch_script_runs_to_the_end_and_cancelling_it_cancels_the_run(slurm_cluster: SlurmCluster) -> None:
    run = slurm_cluster.home / "runs" / "sbatch"

    def sbatch(*options: str) -> str:
        script = str(slurm_cluster.checkout / "sbatch" / "run.sbatch")
        config = str(slurm_cluster.checkout / "tests" / "slurm" / "small.yaml")
        output = f"--output={slurm_cluster.home}/launcher-%j.log"
        answer = slurm_cluster.user(
            "sbatch", "--parsable", output, script, config, "--run", str(run), *options, cwd=slurm_cluster.checkout
        )
        return answer.stdout.strip()

    def log(job: str) -> str:
        path = slurm_cluster.home / f"launcher-{job}.log"
        return (path.read_text() if path.exists() else "no log") + explain(run)

    try:
        launcher = sbatch("--steps", "1")
        wait_for("the launcher", lambda: slurm_cluster.states()[launcher] in ENDED)
        assert slurm_cluster.states()[launcher] == "COMPLETED", log(launcher)
        assert stopped(run) == "finished"
        assert steps(run) == [1]
        assert all_ended(slurm_cluster, run)

        launcher = sbatch("--steps", "1000")
        wait_for("more steps", lambda: len(steps(run)) >= 2 or slurm_cluster.states()[launcher] in ENDED)
        assert slurm_cluster.states()[launcher] == "RUNNING", log(launcher)
        slurm_cluster.user("scancel", launcher)
        wait_for("the launcher", lambda: slurm_cluster.states()[launcher] in ENDED)
        wait_for("the jobs of the run", lambda: all_ended(slurm_cluster, run))
    finally:
        slurm_cluster.ectype("cancel", str(run), check=False)
