"""Inside a Slurm step, under its control groups where there are any, sandboxes do all that they do elsewhere."""

from __future__ import annotations

import json

import pytest

from sandbox.conformance import CHECKS
from tests.cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.slow]


def test_conformance_inside_a_step(slurm_cluster: SlurmCluster) -> None:
    output = slurm_cluster.home / "conformance.json"
    command = f"exec srun {slurm_cluster.python} -m jobs.cli sandbox conformance --slow --json"
    options = ["--wait", "--partition=cpu", "--cpus-per-task=2", "--mem=4000", f"--output={output}"]
    job = slurm_cluster.user("sbatch", *options, "--wrap", command, check=False)
    text = output.read_text()
    assert job.returncode == 0, text + job.stderr
    found = json.loads(text.splitlines()[-1])
    assert found["uid"] == slurm_cluster.account.pw_uid
    assert {outcome["layers"] for outcome in found["checks"]} == set(found["layers"]) <= {"both", "netns", "seccomp"}
    assert (found["passed"], found["failed"]) == (len(CHECKS) * len(found["layers"]), 0)
