"""Our sandbox passes `sandbox/conformance.py` with both network layers, and with each of them alone."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from audit.errors import EctypeError
from containers.apptainer import SANDBOX_USER, Apptainer
from containers.isolation import Isolation
from jobs.sandbox_conformance import conformance
from sandbox.conformance import CHECKS, TOPICS, Check, NotConformant, Ours, Subject, ended, layers, same
from sandbox.sandbox import CommandResult

LAYERS = layers(Isolation())


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
    assert len({check.name for check in CHECKS}) == len(CHECKS) >= 40
    assert {check.run.__module__ for check in CHECKS} == {topic.__name__ for topic in TOPICS}


@pytest.mark.apptainer
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="the tests above ran as an ordinary user")
def test_conformance_for_an_ordinary_user() -> None:
    """The same, where nobody is root: neither the worker nor the container. The home is not the account's."""
    root = Path(__file__).parents[2]
    if root.stat().st_mode & 0o5 != 0o5 or not all(p.stat().st_mode & 0o1 for p in root.parents):
        pytest.skip("the checkout is out of an ordinary user's reach")
    account = pwd.getpwnam(SANDBOX_USER)
    with tempfile.TemporaryDirectory(prefix="ectype-home-") as home:
        os.chown(home, account.pw_uid, account.pw_gid)
        command = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        command += [sys.executable, "-m", "jobs.cli", "sandbox", "conformance", "--slow", "--json"]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": home,
        }
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["uid"] == account.pw_uid
    assert (found["passed"], found["failed"]) == (len(CHECKS) * len(LAYERS), 0)


@pytest.mark.apptainer
def test_the_command_says_which_check_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wrong(subject: Subject) -> None:
        ended(await subject.sandbox.run(b"exit 3"))

    monkeypatch.setattr("jobs.sandbox_conformance.CHECKS", [*CHECKS, Check("wrong", wrong, slow=False)])
    assert conformance(["exit_codes", "wrong"], slow=False, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["failed"]) == (3, 3)
    message = next(outcome["message"] for outcome in found["checks"] if outcome["check"] == "wrong")
    assert message.startswith("NotConformant: status: expected 'ok', found 'nonzero'")
    assert conformance(["exit_codes"], slow=False, as_json=False) == 0
    assert capsys.readouterr().out.endswith("3 passed, 0 failed\n")
    with pytest.raises(EctypeError, match="did you mean `exit_codes`"):
        conformance(["exit_code"], slow=False, as_json=False)
