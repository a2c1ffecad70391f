"""Our sandbox passes `sandbox/conformance.py` with both network layers, and with each of them alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.conformance import CHECKS, Check, NotConformant, ended, same
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, Sandbox

LAYERS = {
    "both": Isolation(),
    "netns": Isolation(netns=True, seccomp=False),
    "seccomp": Isolation(netns=False, seccomp=True),
}


class Ours:
    """One container for all checks of a layer, with a fresh cell for each."""

    def __init__(self, apptainer: Apptainer, image: Path, isolation: Isolation) -> None:
        self._start = (apptainer, image, isolation)
        self.sandbox: Sandbox

    async def begin(self) -> None:
        self.sandbox = await Sandbox.start(*self._start)

    async def fresh(self) -> None:
        if not self.sandbox.alive:  # the check before has lost it, and failed
            await self.begin()
        await self.sandbox.open(CellSpec(), Limits())

    @asynccontextmanager
    async def another(self) -> AsyncIterator[Sandbox]:
        sandbox = await Sandbox.start(*self._start)
        try:
            await sandbox.open(CellSpec(), Limits())
            yield sandbox
        finally:
            await sandbox.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(LAYERS))
async def ours(request: pytest.FixtureRequest, apptainer: Apptainer, base_image: Path) -> AsyncIterator[Ours]:
    subject = Ours(apptainer, base_image, LAYERS[request.param])
    await subject.begin()
    yield subject
    await subject.sandbox.kill()


@pytest.mark.apptainer
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "check", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.slow else []) for c in CHECKS]
)
async def test_conformance(ours: Ours, check: Check) -> None:
    await ours.fresh()
    cells = ours.sandbox.cells
    await check.run(ours)
    assert ours.sandbox.alive and ours.sandbox.cells >= cells


def test_a_wrong_answer_is_found() -> None:
    result = CommandResult(status="nonzero", exit_status=1, stdout=b"x")
    ended(result, status="nonzero", stdout=b"x")
    for wrong in (
        {},
        {"status": "killed"},
        {"status": "nonzero", "exit_status": 2},
        {"status": "nonzero", "stdout": b""},
    ):
        with pytest.raises(NotConformant):
            ended(result, **wrong)
    with pytest.raises(NotConformant, match="lists: expected"):
        same([1], [2], "lists")


def test_the_names_of_the_checks_are_their_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) >= 35


@pytest.mark.apptainer
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="the tests above ran as an ordinary user")
def test_conformance_for_an_ordinary_user() -> None:
    """The same, where nobody is root: neither the worker nor the container."""
    root = Path(__file__).parents[2]
    if root.stat().st_mode & 0o5 != 0o5 or not all(p.stat().st_mode & 0o1 for p in root.parents):
        pytest.skip("the checkout is out of an ordinary user's reach")
    command = ["setpriv", "--reuid=ectype", "--regid=ectype", "--clear-groups", sys.executable, "-m", "pytest", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-c", str(root / "pyproject.toml")]
    command += ["--rootdir", str(root), "-m", "not slow", "-k", "both", str(Path(__file__))]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "skipped" not in done.stdout
