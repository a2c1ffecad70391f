"""The set-up script: quick when all is there, precise when something is missing that it may not install."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDINARY_USER = "ectype"


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of what the set-up reads, owned by an ordinary user."""
    folder = Path(tempfile.mkdtemp(prefix="ectype-checkout-", dir="/tmp"))
    try:
        for name in ("scripts", "containers", "audit", "pyproject.toml"):
            source = ROOT / name
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=ignore) if source.is_dir() else shutil.copy(source, folder)
        folder.chmod(0o755)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", ORDINARY_USER, str(folder)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def run_setup(checkout: Path) -> subprocess.CompletedProcess[str]:
    """As an ordinary user who cannot become root."""
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(checkout), "LC_ALL": "C.UTF-8"}
    command = ["setsid", "bash", "scripts/setup.sh"]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups", *command]
    return subprocess.run(
        command, cwd=checkout, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_an_ordinary_user_is_told_which_packages_are_missing(checkout: Path) -> None:
    definition = checkout / "containers/images/base.toml"
    definition.write_text(definition.read_text().replace('"bc",', '"bc",\n    "no-such-package-a",'))
    result = run_setup(checkout)
    assert result.returncode == 1
    assert "these packages are missing: no-such-package-a" in result.stderr
    assert "apt-get install --no-install-recommends no-such-package-a" in result.stderr
    assert not (checkout / ".venv").exists()


def test_an_ordinary_user_is_told_that_apptainer_is_missing(checkout: Path) -> None:
    """The same PATH without the one program."""
    programs = checkout / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/usr/sbin"):
        for program in Path(folder).iterdir():
            if program.name not in ("apptainer", "singularity", "sudo") and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    script = checkout / "scripts/setup.sh"
    script.write_text(script.read_text().replace("set -euo pipefail", f"set -euo pipefail\nPATH={programs}", 1))
    result = run_setup(checkout)
    assert result.returncode == 1
    assert "Apptainer is missing" in result.stderr
    assert "as root:  bash containers/install.sh" in result.stderr
    assert not (checkout / ".venv").exists()


def test_a_wrong_argument_shows_the_usage(checkout: Path) -> None:
    result = subprocess.run(["bash", "scripts/setup.sh", "--test"], cwd=checkout, capture_output=True, text=True)
    assert result.returncode == 2
    assert "scripts/setup.sh [--vllm] [--tests]" in result.stderr


@pytest.mark.skipif(
    not list((ROOT / ".venv").glob("setup-train-dev-*")), reason="this environment was not made by the set-up"
)
def test_a_second_run_installs_nothing() -> None:
    command = ["bash", "scripts/setup.sh", "--tests"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    log = ROOT / ".venv/setup.log"
    before = log.stat().st_mtime_ns
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["setup: ready"]
    assert log.stat().st_mtime_ns == before
