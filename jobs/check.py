"""`ectype check`: what a machine must offer, found out by trying it, each with what to do when it is missing.

Comes in: a site. Goes out: a table, and whether everything that is needed is there. It starts one container and leaves
nothing behind. It checks the machine it runs on; to check a compute node, run it there (`srun ectype check`).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from audit.errors import EctypeError
from containers.apptainer import Apptainer, probe_isolation
from containers.cache import cache_dir
from containers.image import find_image
from jobs.site_config import Jobs, Site, cluster_name

IMAGE_BYTES = 1 << 30
"""Free space for an image and its successor."""


class Finding(msgspec.Struct, frozen=True):
    what: str
    ok: bool
    found: str
    remedy: str = ""


def run_checks(site: Site, console: Console | None = None) -> bool:
    """Print a table of findings for `site`; True when nothing is missing."""
    console = console or Console(highlight=False)
    findings = [*_python(), *_cache(), *_namespaces(), *asyncio.run(_containers())]
    if site.executor == "slurm":
        findings += list(_slurm(site))
    table = Table("", "what", "found", box=None, pad_edge=False)
    for finding in findings:
        table.add_row("[green]ok[/green]" if finding.ok else "[red]no[/red]", finding.what, escape(finding.found))
    console.print(table)
    for finding in findings:
        if not finding.ok and finding.remedy:
            console.print(f"{finding.what}: {finding.remedy}", markup=False)
    return all(finding.ok for finding in findings)


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        "Python 3.11 or newer", sys.version_info >= (3, 11), version, "make the environment with a newer Python"
    )
    for package in ("torch", "megatron-core"):
        try:
            yield Finding(package, True, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, False, "not installed", "the trainer needs it: make setup")


def _cache() -> Iterator[Finding]:
    try:
        folder = cache_dir()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding("cache folder", False, str(error), "set ECTYPE_CACHE to a folder that you can write")
        return
    writable = os.access(folder, os.W_OK)
    yield Finding(
        "cache folder",
        writable and free > IMAGE_BYTES,
        f"{folder}, {free / 2**30:.1f} GiB free{'' if writable else ', not writable'}",
        "free 1 GiB there, or set ECTYPE_CACHE to another folder",
    )


def _namespaces() -> Iterator[Finding]:
    try:
        answer = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "true"],
            capture_output=True,
            text=True,
        )
        found = "user, pid and mount namespaces work" if answer.returncode == 0 else answer.stderr.strip()
        ok = answer.returncode == 0
    except FileNotFoundError:
        ok, found = False, "unshare (util-linux) is not installed"
    yield Finding(
        "user namespaces",
        ok,
        found,
        "let ordinary users make them: sysctl user.max_user_namespaces=15000, and on Ubuntu "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    )


async def _containers() -> list[Finding]:
    try:
        apptainer = await Apptainer.find()
        version = await apptainer.version()
    except EctypeError as error:
        return [Finding("Apptainer", False, error.what, error.remedy)]
    findings = [Finding("Apptainer", True, version)]
    image = find_image()
    if image is None:
        return [*findings, Finding("base image", False, "not built", "ectype image build")]
    findings.append(Finding("base image", True, str(image)))
    try:
        isolation = await probe_isolation(apptainer, image)
    except EctypeError as error:
        return [*findings, Finding("sandbox without network", False, error.what, error.remedy)]
    layers = [
        name
        for name, there in (("empty network namespace", isolation.netns), ("seccomp filter", isolation.seccomp))
        if there
    ]
    return [*findings, Finding("sandbox without network", True, " and ".join(layers))]


def _slurm(site: Site) -> Iterator[Finding]:
    missing = [program for program in ("sbatch", "srun", "squeue", "scancel") if shutil.which(program) is None]
    if missing:
        yield Finding("Slurm", False, f"{', '.join(missing)} not on PATH", "run it on a login node of the cluster")
        return
    cluster = cluster_name()
    expected = site.detect.clusters if site.detect is not None else []
    yield Finding(
        "Slurm cluster",
        cluster is not None and (not expected or cluster in expected),
        cluster or "slurmctld does not answer",
        f"the site config {site.name} is for {', '.join(expected)}: use another one with --site",
    )
    answer = subprocess.run(["sinfo", "--noheader", "--format=%R"], capture_output=True, text=True)
    partitions = set(answer.stdout.split())
    for role in Jobs.model_fields:
        partition = getattr(site.jobs, role).partition
        if partition is not None:
            yield Finding(
                f"partition of the {role} job",
                partition in partitions,
                partition,
                f"set jobs.{role}.partition to one of: {', '.join(sorted(partitions))}",
            )
