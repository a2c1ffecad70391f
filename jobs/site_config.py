"""What is particular to one cluster: one YAML file under site_configs/, read as `Site`.

A site says how jobs are started (on this machine, or by which Slurm partitions and options) and where the cache lies;
it never says anything about the experiment. `load_site` finds the file by name, by path, or by asking Slurm for the
cluster's name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from audit.errors import EctypeError
from jobs import strict_yaml
from rl.config import Part

SITES_DIR = Path(__file__).resolve().parent.parent / "site_configs"
Value = str | int | float | bool


class JobResources(Part):
    """What one kind of job asks Slurm for. The local executor ignores it."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    cpus: int = Field(default=1, ge=1)
    gpus: int = Field(default=0, ge=0)
    """GPUs per node."""
    memory_mib: int = Field(default=1024, ge=64)
    time_min: int = Field(default=1440, ge=15)
    """Time limit. The job is told `signal_delay_s` before it, stops cleanly and requeues itself."""
    setup: list[str] = Field(default_factory=list)
    """Shell lines before the job's command, such as `module load apptainer`."""
    options: dict[str, Value] = Field(default_factory=dict)
    """Any other option of sbatch, such as `nice: 100`."""


class Jobs(Part):
    controller: JobResources = JobResources(memory_mib=512)
    sandbox: JobResources = JobResources(cpus=2, memory_mib=4096)
    trainer: JobResources = JobResources(cpus=4, memory_mib=16384)
    judge: JobResources = JobResources(cpus=4, memory_mib=16384)


class Detect(Part):
    clusters: list[str] = Field(min_length=1)
    """Slurm's ClusterName of this site."""


class Site(Part):
    format: Literal[1] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    executor: Literal["local", "slurm"]
    """`local`: processes on this machine; `slurm`: jobs. Both go through submitit."""
    bind: Literal["loopback", "hostname"] = "loopback"
    """Where the controller listens: `loopback` when all jobs share a host, else the address of its node's name."""
    detect: Detect | None = None
    cache: str | None = None
    """Folder for images and task suites (ECTYPE_CACHE of the jobs); default: the user's own cache."""
    node_local: str | None = None
    """Folder on each node's own disk to which workers copy the image; variables such as $TMPDIR are the job's."""
    packages: str | None = None
    """Folder of wheels, crates and modules that sandboxes see read-only at /srv and install from without a network."""
    rule_sets: str | None = None
    """Folder whose subfolders are rule sets, to be activated in a run by their name."""
    samples: str | None = None
    """Folder of one sample store for all runs; default: `samples` in each run folder."""
    signal_delay_s: int = Field(default=120, ge=10)
    """How long before a time limit Slurm signals a job."""
    max_timeouts: int = Field(default=100, ge=0)
    """How often a job that reached its time limit goes on in a new allocation."""
    jobs: Jobs = Jobs()

    @model_validator(mode="after")
    def _consistent(self) -> Site:
        if self.executor == "local" and self.detect is not None:
            raise ValueError("detect.clusters is only for executor: slurm; remove `detect`")
        if self.executor == "slurm":
            for kind in Jobs.model_fields:
                # submitit takes every signal in the first minutes of such a job for its time limit
                if getattr(self.jobs, kind).time_min * 60 <= self.signal_delay_s + 600:
                    raise ValueError(
                        f"jobs.{kind}.time_min leaves under ten minutes before the signal of signal_delay_s; "
                        f"raise it above {(self.signal_delay_s + 600) // 60}"
                    )
        return self


def load_site(site: str | None = None, *, sites_dir: Path = SITES_DIR) -> Site:
    """The site called `site`, or at that path; without either the one whose `detect` matches this cluster.

    Raises EctypeError when there is no such site, or when Slurm is here but no site knows the cluster.
    """
    if site is not None:
        path = Path(site)
        if path.suffix not in (".yaml", ".yml"):
            path = sites_dir / f"{site}.yaml"
        if not path.is_file():
            raise EctypeError(
                f"no site config `{site}`",
                where=str(path),
                remedy=f"use one of: {', '.join(known_sites(sites_dir))}; or copy generic.yaml and give its path",
            )
        return strict_yaml.read(path, Site)
    cluster = cluster_name()
    if cluster is None:
        return load_site("local", sites_dir=sites_dir)
    for name in known_sites(sites_dir):
        candidate = load_site(name, sites_dir=sites_dir)
        if candidate.detect is not None and cluster in candidate.detect.clusters:
            return candidate
    raise EctypeError(
        f"no site config knows the Slurm cluster `{cluster}`",
        where=str(sites_dir),
        remedy=f"copy generic.yaml to {cluster}.yaml, set its partitions and `detect: {{clusters: [{cluster}]}}`, "
        "or name a site with --site",
    )


def known_sites(sites_dir: Path = SITES_DIR) -> list[str]:
    """Names of the sites that can be used as they are (generic.yaml is a template)."""
    return sorted(path.stem for path in sites_dir.glob("*.yaml") if path.stem != "generic")


def cluster_name() -> str | None:
    """ClusterName of the Slurm that this machine belongs to, or None where there is none."""
    if name := os.environ.get("SLURM_CLUSTER_NAME"):
        return name
    if shutil.which("scontrol") is None:
        return None
    try:
        answer = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired:
        return None
    for line in answer.stdout.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "ClusterName":
            return value.strip()
    return None
