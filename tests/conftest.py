"""Fixtures shared by every test that starts containers: the client, the base image, and the network layers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from containers.apptainer import Apptainer, ApptainerMissing
from containers.image import ensure_image
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox

# How long an example takes says nothing about what it shows: a busy machine fails no test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Who starts the tests in the background of a script has them ignore interrupts, and so all programs that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def apptainer() -> Apptainer:
    try:
        return asyncio.run(Apptainer.find())
    except ApptainerMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def base_image() -> Path:
    return ensure_image("base")


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    return Isolation()


@pytest.fixture
async def sandbox(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> AsyncIterator[Sandbox]:
    """A started sandbox with an open cell that has the default limits, ended after the test."""
    started = await Sandbox.start(apptainer, base_image, isolation)
    try:
        await started.open(CellSpec(), Limits())
        yield started
    finally:
        await started.kill()
