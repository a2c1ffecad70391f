"""The Slurm cluster, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.slurm import SlurmCluster, SlurmUnavailable


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    try:
        cluster = SlurmCluster()
    except SlurmUnavailable as reason:
        pytest.skip(str(reason))
    try:
        yield cluster
        assert cluster.leftovers() == []
    finally:
        cluster.stop()
