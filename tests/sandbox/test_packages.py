"""A folder of packages: installed from without a network, seen by agents and graders, and written by nobody."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from audit.errors import EctypeError
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from detect.guard import Guard
from queues.context import EpisodeContext
from sandbox.grading import grade
from sandbox.hidden import Case
from sandbox.limits import Limits
from sandbox.packages import Packages
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, File
from tests.sandbox.small_tasks import REVERSE, run


def write_wheel(folder: Path) -> None:
    """A wheel of one module, `tinywheel`, whose `twice` doubles."""
    info = "tinywheel-1.0.dist-info"
    with zipfile.ZipFile(folder / "tinywheel-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinywheel.py", "def twice(x):\n    return 2 * x\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinywheel\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"tinywheel.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture(scope="module")
def packages() -> Iterator[Packages]:
    folder = Path(tempfile.mkdtemp(prefix="ectype-packages-", dir="/tmp"))  # where the containers' user can go
    try:
        folder.chmod(0o755)
        (folder / "wheels").mkdir()
        write_wheel(folder / "wheels")
        pip = metadata.distribution("pip")  # importing it would take setuptools' distutils from everything after it
        source = Path(str(pip.locate_file("pip")))
        with zipfile.ZipFile(folder / "wheels" / f"pip-{pip.version}-py3-none-any.whl", "w") as wheel:
            for path in source.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    wheel.write(path, Path("pip") / path.relative_to(source))
        yield Packages.at(folder)
    finally:
        shutil.rmtree(folder)


INSTALL = b"python3 -m pip install %s tinywheel"


@pytest.mark.apptainer
@pytest.mark.parametrize("options", [b"", b"--no-index", b"--no-index --find-links /srv/wheels --target lib"])
async def test_pip_installs_from_it_without_a_network(
    packages: Packages, options: bytes, apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    pool = Pool(apptainer, base_image, isolation, 1, packages=packages)
    try:
        async with pool.lease() as sandbox:
            await sandbox.open(CellSpec(), Limits(wall_s=300, cpu_s=100))
            installed = await sandbox.run(INSTALL % options)
            assert installed.status == "ok", installed.stderr
            used = await sandbox.run(
                b"PYTHONPATH=lib:$PYTHONPATH python3 -c 'import tinywheel; print(tinywheel.twice(21))'"
            )
            assert used.stdout == b"42\n", used.stderr
            missing = await sandbox.run(b"python3 -m pip install other")
            assert missing.status == "nonzero" and b"No matching distribution" in missing.stderr
    finally:
        await pool.close()


@pytest.mark.apptainer
async def test_nobody_writes_to_it(
    packages: Packages, apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    pool = Pool(apptainer, base_image, isolation, 1, packages=packages)
    try:
        async with pool.lease() as sandbox:
            await sandbox.open(CellSpec(), Limits())
            for script in (b"echo x > /srv/wheels/x", b"rm /srv/wheels/*", b"chmod 777 /srv", b"touch /srv"):
                refused = await sandbox.run(script)
                assert refused.status == "nonzero" and b"Read-only file system" in refused.stderr, script
    finally:
        await pool.close()
    assert len(list(packages.folder.glob("wheels/*"))) == 2


@pytest.mark.apptainer
async def test_a_submission_may_be_built_with_it(
    packages: Packages, apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    hidden = msgspec.structs.replace(
        REVERSE,
        build=INSTALL % b"--no-index --target lib" + b" >&2\n",
        cases=(Case(name="c", stdin=b"4", stdout=b"8"),),
        limits=Limits(wall_s=300, cpu_s=100),
        case_limits=Limits(wall_s=60, cpu_s=20),
    )
    program = (
        b"import sys\nsys.path.insert(0, '/work/lib')\nimport tinywheel\n"
        b"sys.stdout.write(str(tinywheel.twice(int(input()))))\n"
    )
    pool = Pool(apptainer, base_image, isolation, 1, packages=packages)
    try:
        result = await grade(pool, hidden, (File(path="main.py", data=program),))
        assert (result.compile_status, result.passed) == ("ok", 1), result.compile_stderr
    finally:
        await pool.close()


def test_the_environment_follows_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(EctypeError, match="cannot be read"):
        Packages.at(tmp_path / "gone")
    with pytest.raises(EctypeError, match="nothing in it"):
        Packages.at(tmp_path)
    (tmp_path / "modules").mkdir()
    environment = Packages.at(tmp_path).environment
    assert environment["GOPROXY"] == "file:///srv/modules" and "PIP_NO_INDEX" not in environment
    (tmp_path / "cargo").mkdir()
    assert Packages.at(tmp_path).environment["CARGO_NET_OFFLINE"] == "true"


def test_the_rules_are_not_loosened() -> None:
    guard = Guard.load(None, mode="enforce")
    context = EpisodeContext(episode="e", suite="small", task="reverse", step=0, languages=("python",), history=[])
    assert guard.judge(run("pip install coreutils"), context).decision == "block"
    assert guard.judge(run("pip install --index-url http://x coreutils"), context).decision == "block"
    assert guard.judge(run("python3 -m pip install --no-index tinywheel"), context).decision == "allow"
