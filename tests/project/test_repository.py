"""What is in the repository, and what of it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not match itself.
HOSTS = [
    *("pypi." + "org", "pythonhosted." + "org", "pypi." + "nvidia", "pytorch." + "org/whl", "anaconda." + "org"),
    *("registry." + "npmjs", "debian." + "org", "archive." + "ubuntu", "launchpad" + ".net"),
    *("docker." + "io", "ghcr." + "io", "quay." + "io", "nvcr." + "io"),
]
MACHINE_PATHS = [
    r"(?<![\w$])/root/[A-Za-z.]",
    r"/work/(?:main(?!\.\w)|shared|\.library)",
    r"/home/[a-z]+/",
    r"/opt/(?:wheels|pypi)",
    r"/Users/",
]


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def lines_matching(pattern: str) -> list[str]:
    expression = re.compile(pattern.encode())
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.decode(errors='replace').strip()[:120]}"
        for path in tracked_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        if expression.search(line)
    ]


def test_no_registry_is_named() -> None:
    assert lines_matching("|".join(map(re.escape, HOSTS))) == []


def test_no_path_of_a_particular_machine_is_named() -> None:
    assert lines_matching("|".join(MACHINE_PATHS)) == []


def test_nothing_generated_or_large_is_tracked() -> None:
    generated = {".venv", "runs", "__pycache__", "build", "dist", ".pytest_cache", ".ruff_cache"}
    files = tracked_files()
    assert [path for path in files if generated & set(path.relative_to(ROOT).parts)] == []
    assert [path for path in files if path.stat().st_size > 2_000_000] == []


def test_the_distribution_holds_the_packages_and_their_data(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for path in tracked_files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(copy),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"audit", "containers", "detect", "jobs", "queues", "rl", "sandbox", "site_configs", "tasks"}
    code = {
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] in packages
        and path.suffix in {".py", ".yaml", ".toml", ".json", ".sh", ".html"}
    }
    assert code - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)
