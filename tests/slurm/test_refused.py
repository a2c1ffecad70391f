"""What Slurm refuses is said in the user's words, and leaves no job behind."""

from __future__ import annotations

import pytest

from tests.cluster.slurm import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer]


def test_a_partition_that_does_not_exist(slurm_cluster: SlurmCluster) -> None:
    before = slurm_cluster.states()
    site = slurm_cluster.home / "site.yaml"
    shipped = slurm_cluster.user("cat", f"{slurm_cluster.checkout}/site_configs/local-slurm.yaml").stdout
    site.write_text(shipped.replace("partition: gpu", "partition: quantum"))
    site.chmod(0o644)
    run = slurm_cluster.home / "runs" / "refused"
    config = f"{slurm_cluster.checkout}/tests/slurm/small.yaml"
    refused = slurm_cluster.ectype("submit", config, "--site", str(site), "--run", str(run), check=False)
    assert refused.returncode == 2
    assert "Slurm refused the trainer job" in refused.stderr
    assert "quantum" in refused.stderr or "partition" in refused.stderr
    after = {job: state for job, state in slurm_cluster.states().items() if job not in before}
    assert set(after.values()) <= {"CANCELLED", "COMPLETED", "FAILED"}


def test_check_finds_the_partitions(slurm_cluster: SlurmCluster) -> None:
    checked = slurm_cluster.ectype("check", "--site", "local-slurm", check=False)
    assert "Slurm cluster" in checked.stdout
    assert "quantum" not in checked.stdout
