"""Leases: one sandbox for one user at a time, never a dead or a worn one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from containers.apptainer import Apptainer, ImageBroken
from containers.isolation import Isolation
from sandbox import pool as pool_module
from sandbox.limits import Limits
from sandbox.pool import Pool, PoolClosed
from sandbox.sandbox import CellSpec, Sandbox, SandboxLost

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
    dying = pool._idle[0].sandbox._container
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
    for failed in (5, 6):  # a lease that comes later costs one attempt, not five
        with pytest.raises(ImageBroken, match="no such image"):
            async with pool.lease():
                pass
        assert pool.failed in (failed, failed + 1)
    await pool.close()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def settled(pool: Pool) -> tuple[int, int]:
    """Idle and leased sandboxes, when nothing starts or ends any more."""
    pool._settle()
    async with pool._changed:
        await pool._changed.wait_for(lambda: not (pool._starting or pool._ending))
    return pool.idle, pool.leased


async def test_it_grows_with_its_users_and_shrinks_to_zero(
    apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    clock = Clock()
    pool = Pool(apptainer, base_image, isolation, 3, idle_s=100, clock=clock)
    try:
        assert await settled(pool) == (0, 0), "nobody has asked"
        async with pool.lease():
            assert await settled(pool) == (1, 1), "one in use, one spare"
            async with pool.lease(), pool.lease():
                assert await settled(pool) == (0, 3), "never more than `size`"
        assert await settled(pool) == (3, 0)
        clock.now += 99
        assert await settled(pool) == (3, 0)
        async with pool.lease():
            clock.now += 1
            assert await settled(pool) == (1, 1), "one of the two was idle for too long; one stays as the spare"
            clock.now += 1000
            assert await settled(pool) == (1, 1), "a spare is not surplus"
        assert await settled(pool) == (1, 0), "the spare has been idle for 1000 s and nobody needs it now"
        clock.now += 100
        assert await settled(pool) == (0, 0)
        assert pool.ended["idle"] == 3 and pool.started == 3
        async with pool.lease() as sandbox:  # and back from zero
            await sandbox.ping()
    finally:
        await pool.close()


async def test_it_keeps_the_least_and_shrinks_by_itself(
    apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    pool = Pool(apptainer, base_image, isolation, 3, least=1, spare=0, idle_s=0.2)
    try:
        await pool.warm()
        async with pool._changed:
            await pool._changed.wait_for(lambda: pool.idle == 1 and not pool._ending)
        assert pool.ended["idle"] == 2
    finally:
        await pool.close()


async def test_an_old_sandbox_is_replaced_and_never_handed_out(
    apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    clock = Clock()
    pool = Pool(apptainer, base_image, isolation, 1, max_age_s=60, idle_s=1000, clock=clock)
    try:
        async with pool.lease() as first:
            clock.now += 59
        async with pool.lease() as again:
            assert again is first
            clock.now += 1
        assert not first.alive and pool.ended["old"] == 1
        async with pool.lease() as second:
            assert second is not first
        clock.now += 60  # it gets old while nobody uses it
        async with pool.lease() as third:
            assert third is not second
        assert not second.alive and pool.ended["old"] == 2
    finally:
        await pool.close()


async def test_what_one_episode_leaves_the_next_cannot_use(pool: Pool) -> None:
    async with pool.lease() as sandbox:
        await sandbox.open(CellSpec(), Limits())
        await sandbox.run(b"touch left")
    async with pool.lease() as again:
        assert again is sandbox
        with pytest.raises(SandboxLost, match="no cell is open"):
            await again.run(b"ls")


async def test_starts_at_once_are_bounded_over_all_pools(
    apptainer: Apptainer, base_image: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, most = 0, 0
    real = Sandbox.start

    async def counted(*arguments: Any, **named: Any) -> Sandbox:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            return await real(*arguments, **named)
        finally:
            now -= 1

    monkeypatch.setattr(Sandbox, "start", counted)
    starts = asyncio.Semaphore(2)
    pools = [Pool(apptainer, base_image, isolation, 3, starts=starts) for _ in range(2)]
    try:
        await asyncio.gather(*(pool.warm() for pool in pools))
        assert [pool.idle for pool in pools] == [3, 3]
        assert most == 2
    finally:
        for pool in pools:
            await pool.close()


async def test_a_broken_image_costs_a_bounded_number_of_attempts(
    apptainer: Apptainer, tmp_path: Path, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_GIVE_UP_AFTER", 1000)
    pool = Pool(apptainer, tmp_path / "gone", isolation, 8)
    waiting = [asyncio.create_task(pool.lease().__aenter__()) for _ in range(8)]
    await asyncio.sleep(1.0)  # pauses of 0.2, 0.4 and 0.8 s
    assert 2 <= pool.failed <= 4, "two at first, which fail together; then one after each pause"
    await pool.close()
    assert {type(e) for e in await asyncio.gather(*waiting, return_exceptions=True)} == {PoolClosed}


async def test_an_image_that_is_repaired_serves_those_who_wait(
    apptainer: Apptainer, base_image: Path, isolation: Isolation
) -> None:
    image = base_image.parent / f"late-{os.getpid()}"  # where the containers' user can go
    pool = Pool(apptainer, image, isolation, 1)
    waiting = asyncio.create_task(pool.lease().__aenter__())
    await asyncio.sleep(0.1)
    image.symlink_to(base_image)
    try:
        assert (await waiting).alive
        assert pool._backoff.failures == 0
    finally:
        image.unlink()
        await pool.close()
