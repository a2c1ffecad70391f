"""Leases: one sandbox for one user at a time, never a dead or a worn one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from containers.apptainer import Apptainer, ImageBroken
from containers.isolation import Isolation
from sandbox import pool as pool_module
from sandbox.limits import Limits
from sandbox.pool import Pool, PoolClosed
from sandbox.sandbox import CellSpec, SandboxLost

pytestmark = pytest.mark.apptainer


@pytest.fixture
async def pool(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> AsyncIterator[Pool]:
    made = Pool(apptainer, base_image, isolation, 2, max_cells=3)
    try:
        yield made
    finally:
        await made.close()


async def test_a_lease_is_for_one_user_and_the_third_waits(pool: Pool) -> None:
    async with pool.lease() as first, pool.lease() as second:
        assert first is not second
        assert (pool.leased, pool.idle) == (2, 0)
        third = asyncio.create_task(pool.lease().__aenter__())
        await asyncio.sleep(0.3)
        assert not third.done()
    assert (await third).alive


async def test_sandboxes_are_reused_until_worn(pool: Pool) -> None:
    seen = []
    for _ in range(8):
        async with pool.lease() as sandbox:
            await sandbox.open(CellSpec(), Limits())
            assert (await sandbox.run(b"ls -A; touch left")).stdout == b""
            seen.append(sandbox)
    assert 3 <= len(set(seen)) < 8
    assert max(seen.count(sandbox) for sandbox in seen) <= 3


async def test_a_lost_sandbox_is_replaced(pool: Pool) -> None:
    await pool.warm()
    with pytest.raises(SandboxLost):
        async with pool.lease() as sandbox:
            await sandbox.kill()
            await sandbox.run(b"true")
    # an idle one that has died is not handed out
    await pool.warm()
    dying = pool._idle[0]._container
    dying._end_init()
    await dying.wait()  # a killed process may still answer for a moment
    async with pool.lease() as one, pool.lease() as two:
        await one.ping()
        await two.ping()


async def test_a_cancelled_wait_takes_nothing(pool: Pool) -> None:
    async with pool.lease(), pool.lease():
        waiting = asyncio.create_task(pool.lease().__aenter__())
        await asyncio.sleep(0.1)
        waiting.cancel()
    async with pool.lease() as one, pool.lease() as two:
        assert one is not two


async def test_closing_ends_everything(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> None:
    pool = Pool(apptainer, base_image, isolation, 2)
    await pool.warm()
    async with pool.lease() as sandbox:
        await pool.close()
        assert not sandbox.alive
        waiting = asyncio.create_task(pool.lease().__aenter__())
        with pytest.raises(PoolClosed):
            await waiting
    assert (pool.idle, pool.leased) == (0, 0)


async def test_closing_while_sandboxes_start(apptainer: Apptainer, base_image: Path, isolation: Isolation) -> None:
    pool = Pool(apptainer, base_image, isolation, 3)
    waiting = asyncio.create_task(pool.lease().__aenter__())
    await asyncio.sleep(0.05)
    await pool.close()
    with pytest.raises(PoolClosed):
        await waiting


async def test_an_image_that_does_not_start_is_said(
    apptainer: Apptainer, tmp_path: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_FIRST_PAUSE_S", 0.01)
    pool = Pool(apptainer, tmp_path / "gone", isolation, 2)
    for _ in range(2):
        with pytest.raises(ImageBroken, match="no such image"):
            async with pool.lease():
                pass
    await pool.close()
