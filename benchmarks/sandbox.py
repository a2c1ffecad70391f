"""How fast, how small and how reliable sandboxes are, next to Apptainer's own ways, in the same run.

`python -m benchmarks.sandbox [--json] [--quick]`, as an ordinary user; as root, sandboxes and peers run as the user
`ectype`. What is compared is measured in turns, and ratios are medians over the turns, so that other load on the
machine falls on both sides. `--quick` takes a few of everything: it shows that all works, its figures mean little.
With `--json` the last line is an object:

- `exec_ratio_vs_instance`: one command (`true`), from the call to its result, over `apptainer exec instance://`
- `exec_ratio_vs_floor`: the same over fork + unshare + exec in a warm process on the host
- `throughput_ratio_vs_instance`: commands per second with several lanes at once, over the same of instances
- `warm_start_ms`: a sandbox leased from a warm pool, with a fresh cell open; median
- `cold_start_ratio_vs_exec`: a container started, with a fresh cell open, over a bare `apptainer exec IMAGE true`
- `idle_sandboxes`, `idle_pss_mib`: so many at once, each with an open cell; proportional set size of each one's
  processes and its share of the worker
- `commands`, `wrong_status`, `leaks`: of the soak, and what was left of everything in the end
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import pwd
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import EctypeError
from benchmarks.sandbox_facts import Snapshot, pss_bytes, tree
from benchmarks.sandbox_peers import Floor, Instances, PeerFailed, bare_exec
from benchmarks.sandbox_soak import soak
from containers.apptainer import SANDBOX_USER, Apptainer, make_room_for_descriptors, probe_isolation
from containers.image import ensure_image
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec, Sandbox

LANES = 4
"""Commands in flight when throughput is measured: more than the cores of a small machine."""


class Sizes(msgspec.Struct, frozen=True):
    rounds: int = 60
    slices: int = 4
    slice_s: float = 2.0
    starts: int = 25
    idle: int = 300
    soaked: int = 100
    commands_each: int = 100


QUICK = Sizes(rounds=4, slices=1, slice_s=0.3, starts=3, idle=4, soaked=4, commands_each=25)


class Bench:
    """One run: results are added to `figures` (what is reported) and `rows` (what a person reads)."""

    def __init__(
        self, apptainer: Apptainer, peer: Apptainer, peer_folder: Path, image: Path, isolation: Isolation, sizes: Sizes
    ) -> None:
        self.figures: dict[str, float] = {}
        self.rows: list[tuple[str, str]] = []
        self._apptainer = apptainer
        self._image = image
        self._isolation = isolation
        self._sizes = sizes
        self._peer = peer
        self._peer_folder = peer_folder

    async def speed(self) -> None:
        async with (
            _started(self._apptainer, self._image, self._isolation, LANES) as sandboxes,
            Instances(self._peer, self._image, self._isolation, LANES, self._peer_folder) as instances,
            Floor(_identity()) as floor,
        ):
            await self._one_command(sandboxes[0], instances, floor)
            await self._throughput(sandboxes, instances)

    async def _one_command(self, sandbox: Sandbox, instances: Instances, floor: Floor) -> None:
        ours, floors, forks, theirs = [], [], [], []
        for _ in range(self._sizes.rounds):
            turn = []
            for _ in range(5):
                turn.append((await _seconds(lambda: sandbox.run(argv=["true"])), *await floor.run()))
            for column, values in zip((ours, floors, forks), zip(*turn, strict=True), strict=True):
                column.append(statistics.median(values))
            theirs.append(await instances.run(0))
        self._show("one command", ours)
        self._show("  apptainer exec instance://", theirs)
        self._show("  floor: fork + unshare + exec", floors)
        self._show("  fork + exec alone", forks)
        self.figures["exec_ratio_vs_instance"] = round(_ratio(ours, theirs), 4)
        self.figures["exec_ratio_vs_floor"] = round(_ratio(ours, floors), 2)

    async def _throughput(self, sandboxes: list[Sandbox], instances: Instances) -> None:
        async def command(lane: int) -> None:
            await sandboxes[lane].run(argv=["true"])

        ours, theirs = [], []
        for _ in range(self._sizes.slices):
            ours.append(await self._per_second(command))
            theirs.append(await self._per_second(instances.run))
        self.rows.append((f"commands per second, {LANES} lanes", f"{statistics.median(ours):.1f}"))
        self.rows.append(("  apptainer exec instance://", f"{statistics.median(theirs):.1f}"))
        self.figures["throughput_ratio_vs_instance"] = round(_ratio(ours, theirs), 1)

    async def _per_second(self, command: Callable[[int], Awaitable[object]]) -> float:
        started = time.perf_counter()
        end = started + self._sizes.slice_s

        async def lane(number: int) -> int:
            done = 0
            while time.perf_counter() < end:
                await command(number)
                done += 1
            return done

        done = await asyncio.gather(*map(lane, range(LANES)))
        return sum(done) / (time.perf_counter() - started)

    async def starts(self) -> None:
        pool = Pool(self._apptainer, self._image, self._isolation, 2, least=2)
        warm, cold, bare = [], [], []
        try:
            await pool.warm()
            for _ in range(self._sizes.starts * 4):
                started = time.perf_counter()
                async with pool.lease() as sandbox:
                    await sandbox.open(CellSpec(), Limits())
                    warm.append(time.perf_counter() - started)
                    await sandbox.run(b"true")
        finally:
            await pool.close()
        for _ in range(self._sizes.starts):
            started = time.perf_counter()
            sandbox = await Sandbox.start(self._apptainer, self._image, self._isolation)
            try:
                await sandbox.open(CellSpec(), Limits())
                cold.append(time.perf_counter() - started)
            finally:
                await sandbox.kill()
            bare.append(await bare_exec(self._peer, self._image, self._isolation))
        self._show("sandbox from a warm pool", warm)
        self._show("sandbox from nothing", cold)
        self._show("  bare apptainer exec", bare)
        self.figures["warm_start_ms"] = round(statistics.median(warm) * 1e3, 2)
        self.figures["cold_start_ratio_vs_exec"] = round(_ratio(cold, bare), 3)

    async def idle(self) -> None:
        _load_a_worker()
        count = self._sizes.idle
        pool = Pool(self._apptainer, self._image, self._isolation, count, least=count, starts=asyncio.Semaphore(4))
        try:
            await pool.warm()
            empty = self._mib_each(count)
            async with contextlib.AsyncExitStack() as stack:
                sandboxes = [await stack.enter_async_context(pool.lease()) for _ in range(count)]
                for sandbox in sandboxes:
                    await sandbox.open(CellSpec(), Limits())
                    await sandbox.run(b"true")
                each = self._mib_each(count)
        finally:
            await pool.close()
        self.rows.append((f"{count} idle sandboxes, each", f"{each:.2f} MiB"))
        self.rows.append(("  without an open cell", f"{empty:.2f} MiB"))
        self.figures["idle_sandboxes"] = count
        self.figures["idle_pss_mib"] = round(each, 2)

    @staticmethod
    def _mib_each(count: int) -> float:
        """Of this process, which is the worker, and everything below it."""
        return sum(pss_bytes(pid, sharers=count) for pid in tree(os.getpid())) / count / 2**20

    async def soak(self) -> None:
        sizes = self._sizes
        pool = Pool(
            self._apptainer, self._image, self._isolation, sizes.soaked, least=sizes.soaked, starts=asyncio.Semaphore(4)
        )
        try:
            await pool.warm()
            async with contextlib.AsyncExitStack() as stack:
                sandboxes = [await stack.enter_async_context(pool.lease()) for _ in range(sizes.soaked)]
                started = time.perf_counter()
                report = await soak(sandboxes, sizes.commands_each)
                took = time.perf_counter() - started
        finally:
            await pool.close()
        self.rows.append((f"commands over {sizes.soaked} sandboxes", f"{report.commands} in {took:.0f} s"))
        self.rows += [(f"  {status}", str(number)) for status, number in report.statuses.most_common()]
        self.rows += [("  WRONG", text) for text in report.wrong[:20]]
        self.figures["commands"] = report.commands
        self.figures["wrong_status"] = len(report.wrong)

    def _show(self, name: str, seconds: list[float]) -> None:
        median, high = statistics.median(seconds) * 1e3, sorted(seconds)[int(len(seconds) * 0.95)] * 1e3
        self.rows.append((name, f"{median:.2f} ms median, {high:.2f} ms p95"))


@contextlib.asynccontextmanager
async def _started(apptainer: Apptainer, image: Path, isolation: Isolation, count: int) -> AsyncIterator[list[Sandbox]]:
    """`count` sandboxes with open cells, ended on exit."""
    pool = Pool(apptainer, image, isolation, count, least=count)
    try:
        await pool.warm()
        async with contextlib.AsyncExitStack() as stack:
            sandboxes = [await stack.enter_async_context(pool.lease()) for _ in range(count)]
            for sandbox in sandboxes:
                await sandbox.open(CellSpec(), Limits())
            yield sandboxes
    finally:
        await pool.close()


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """Median over the turns of what was measured in the same turn."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _load_a_worker() -> None:
    """Make this process hold what a worker holds, its rules included: each sandbox bears a share of it."""
    import jobs.sandboxes
    import sandbox.worker  # noqa: F401
    from detect.guard import Guard

    global _worker
    _worker = (jobs.sandboxes, Guard.load())


_worker: object = None


def _identity() -> dict[str, Any]:
    """The sandboxes' user, as keyword arguments that start a process of it."""
    if os.getuid() != 0:
        return {}
    account = pwd.getpwnam(SANDBOX_USER)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


async def measure(sizes: Sizes) -> Bench:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    uid = _identity().get("user", os.getuid())
    folder = Path(tempfile.mkdtemp(prefix=f"ectype-benchmark-{os.getpid()}-"))
    os.chmod(folder, 0o755)
    ours, theirs = folder / "ours", folder / f"{folder.name}-peer"
    for place in (ours, theirs):  # instances leave their logs; what sandboxes leave is a fault
        place.mkdir()
        os.chown(place, uid, -1)
    try:
        apptainer, peer = await Apptainer.find(folder=ours), await Apptainer.find(folder=theirs)
        image = await asyncio.to_thread(ensure_image, progress=lambda text: print(text, file=sys.stderr))
        isolation = await probe_isolation(apptainer, image)
        bench = Bench(apptainer, peer, theirs, image, isolation, sizes)
        before = Snapshot((ours, image), uid)
        await bare_exec(peer, image, isolation)  # the first of all finds nothing in the page cache
        for part in (bench.speed, bench.starts, bench.idle, bench.soak):
            started = time.perf_counter()
            await part()
            print(f"{part.__name__}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
        gc.collect()
        left = Snapshot((ours, image), uid).left(before)
        bench.rows += [("  LEFT", what) for what in left[:20]]
        bench.figures["leaks"] = len(left)
        return bench
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a few of everything, in seconds")
    options = parser.parse_args()
    make_room_for_descriptors()
    try:
        bench = asyncio.run(measure(QUICK if options.quick else Sizes()))
    except (EctypeError, PeerFailed) as error:
        sys.exit(f"error: {error}")
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
    for name, value in bench.rows:
        print(f"{name:40} {value}")
    print()
    for name, value in bench.figures.items():
        print(f"{name:40} {value}")
    if options.json:
        print(json.dumps(bench.figures))


if __name__ == "__main__":
    main()
