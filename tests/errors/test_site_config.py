"""Site configs: strict, found by name, path or cluster, and every one that ships is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.errors import EctypeError
from jobs.site_config import SITES_DIR, known_sites, load_site

SLURM = "name: here\nexecutor: slurm\n"


def test_sites_that_ship_are_valid_and_named_after_their_file() -> None:
    for path in SITES_DIR.glob("*.yaml"):
        assert load_site(str(path)).name == path.stem
    assert known_sites() == ["local", "local-slurm"]


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        (SLURM + "jobs: {trainer: {partion: gpu}}\n", "unknown key `jobs.trainer.partion`", "`partition`"),
        (SLURM + "jobs: {trainer: {gpus: one}}\n", "wrong value for `jobs.trainer.gpus`", "integer"),
        (SLURM + "format: 2\n", "wrong value for `format`", "1"),
        ("name: here\nexecutor: pbs\n", "wrong value for `executor`", "'local' or 'slurm'"),
        (SLURM + "jobs: {trainer: {time_min: 15}}\nsignal_delay_s: 600\n", "time_min", "raise it above"),
        ("name: here\nexecutor: local\ndetect: {clusters: [x]}\n", "detect.clusters", "remove `detect`"),
    ],
)
def test_mistake_is_named(tmp_path: Path, text: str, what: str, remedy: str) -> None:
    path = tmp_path / "here.yaml"
    path.write_text(text)
    with pytest.raises(EctypeError) as caught:
        load_site(str(path))
    assert what in caught.value.what
    assert str(path) in caught.value.where
    assert remedy in caught.value.remedy


def test_unknown_site_lists_the_known_ones() -> None:
    with pytest.raises(EctypeError, match="no site config `atlantis`") as caught:
        load_site("atlantis")
    assert "local-slurm" in caught.value.remedy


def test_site_is_found_by_the_name_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "ectype-test")
    assert load_site().name == "local-slurm"
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "atlantis")
    with pytest.raises(EctypeError, match="no site config knows the Slurm cluster `atlantis`"):
        load_site()
