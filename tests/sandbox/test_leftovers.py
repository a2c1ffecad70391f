"""A worker that was killed in the middle of its work leaves nothing, once the next one has started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from containers import leftovers
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from containers.leftovers import Holder, purge
from containers.processes import Process, identify
from sandbox.sandbox import Sandbox
from tests.sandbox.processes import pythons, tree, until

pytestmark = pytest.mark.apptainer

_WORKER = """
import asyncio, sys
from pathlib import Path
from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.pool import Pool
from sandbox.sandbox import CellSpec

STUBBORN = b'''
setsid sleep 1000 &
nohup sleep 1000 >/dev/null 2>&1 &
(setsid bash -c 'trap "" TERM INT HUP; sleep 1000; sleep 1000' &) &
python3 -c 'import os,time
for _ in 1,2:
    if os.fork(): os._exit(0)
os.setsid()
time.sleep(1000)' &
sleep 1000 & kill -STOP $!
sleep 1000
'''

async def main():
    apptainer = await Apptainer.find()
    pool = Pool(apptainer, Path(sys.argv[1]), Isolation(), 2)
    async with pool.lease() as one, pool.lease() as two:
        for sandbox in (one, two):
            await sandbox.open(CellSpec(), Limits(wall_s=600))
        running = [asyncio.create_task(sandbox.run(STUBBORN)) for sandbox in (one, two)]
        await asyncio.sleep(1)
        print(apptainer._held().folder, one._container.pid, two._container.pid, flush=True)
        await asyncio.gather(*running)

asyncio.run(main())
"""


class KilledWorker:
    """A worker of its own process, with two sandboxes in the middle of commands that resist being ended."""

    def __init__(self, image: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(image)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        folder, *pids = self.process.stdout.readline().split()
        self.folder = Path(folder)
        self.pids = [pid for container in pids for pid in tree(int(container))]
        self.identities = {process for pid in self.pids if (process := identify(pid))}

    def kill(self, *, wedged: bool) -> None:
        """SIGKILL. `wedged`: its guests are stopped, so that they do not see the end of their input."""
        if wedged:
            for pid in pythons(self.pids):
                os.kill(pid, signal.SIGSTOP)
        self.process.kill()
        self.process.wait()

    def left(self) -> set[Process]:
        return {process for process in self.identities if identify(process.pid) == process}


@pytest.fixture
def killed_worker(base_image: Path, apptainer: Apptainer):
    worker = KilledWorker(base_image)
    yield worker
    worker.kill(wedged=False)
    for process in worker.left():
        os.kill(process.pid, signal.SIGKILL)


async def test_the_next_worker_removes_everything_of_a_killed_one(
    killed_worker: KilledWorker, base_image: Path, apptainer: Apptainer
) -> None:
    living = KilledWorker(base_image)
    try:
        assert len(killed_worker.identities) > 16
        killed_worker.kill(wedged=True)
        await asyncio.sleep(0.5)
        assert killed_worker.left(), "stopped guests do not end by themselves: that is what is to be purged"
        assert killed_worker.folder.exists()
        mounts = _mounts_of_all(killed_worker)
        assert mounts
        purged = await (await Apptainer.find()).purge()
        assert killed_worker.folder.name in purged.folders and purged.processes >= 2 and not purged.remains
        assert killed_worker.left() == set()
        assert not killed_worker.folder.exists()
        assert _mounts_of_all(killed_worker) == set(), "namespaces, and with them their mounts, are gone"
        assert living.left() == living.identities, "a living worker keeps all it has"
        assert living.folder.exists()
    finally:
        living.kill(wedged=False)
    again = await apptainer.purge()
    assert living.folder.name in again.folders
    assert living.left() == set()


async def test_sandboxes_of_a_killed_worker_end_by_themselves(killed_worker: KilledWorker) -> None:
    killed_worker.kill(wedged=False)
    await until(lambda: not killed_worker.left())


def _mounts_of_all(worker: KilledWorker) -> set[str]:
    """Mount namespaces of the worker's processes that still exist."""
    found = set()
    for process in worker.left():
        try:
            found.add(os.readlink(f"/proc/{process.pid}/ns/mnt"))
        except OSError:
            found.add(f"unreadable, of {process.pid}")
    return found


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tmp_path / "holders"


def _dead(parent: Path) -> Path:
    """A folder as a killed holder leaves it: complete, and its lock free."""
    code = (
        "import os, sys; from pathlib import Path; from containers.leftovers import Holder\n"
        f"holder = Holder(Path({str(parent)!r}), os.getuid()); print(holder.folder, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return Path(done.stdout.strip())


def test_a_folder_is_removed_with_its_holder_and_never_before(parent: Path) -> None:
    holder = Holder(parent, os.getuid())
    dead = _dead(parent)
    assert dead.is_dir()
    purged = purge(parent, os.getuid())
    assert (purged.folders, purged.processes) == ([dead.name], 0)
    assert holder.folder.is_dir() and not dead.exists()
    holder.close()
    assert list(parent.iterdir()) == []


def test_a_pid_that_means_another_process_now_is_left_alone(parent: Path) -> None:
    dead = _dead(parent)
    mine = identify(os.getpid())
    assert mine is not None
    for name, process in (("reused", Process(mine.pid, mine.start - 1)), ("gone", Process(2**22 + 5, 1))):
        (dead / "containers" / name).write_bytes(leftovers.msgspec.json.encode(process))
    (dead / "containers" / "torn").write_bytes(b'{"pid":')
    assert purge(parent, os.getuid()).processes == 0
    assert not dead.exists()


def test_processes_of_somebody_else_are_left_alone(parent: Path) -> None:
    dead = _dead(parent)
    mine = identify(os.getpid())
    (dead / "containers" / "mine").write_bytes(leftovers.msgspec.json.encode(mine))
    assert purge(parent, os.getuid() + 1).processes == 0  # containers of another user: this process is not one


def test_records_of_another_boot_mean_nothing(parent: Path) -> None:
    dead = _dead(parent)
    child = subprocess.Popen(["sleep", "100"])
    try:
        (dead / "containers" / "x").write_bytes(leftovers.msgspec.json.encode(identify(child.pid)))
        (dead / "boot").write_text("another")
        assert purge(parent, os.getuid()).folders == [dead.name]
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_process_without_a_record_is_known_by_its_environment(parent: Path) -> None:
    dead = _dead(parent)
    environment = {**os.environ, leftovers.VARIABLE: dead.name}
    marked = subprocess.Popen(["sleep", "100"], env=environment)
    other = subprocess.Popen(["sleep", "100"], env={**environment, leftovers.VARIABLE: f"{dead.name}0"})
    try:
        assert purge(parent, os.getuid()).processes == 1
        assert marked.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for child in (marked, other):
            child.kill()
            child.wait()


def test_a_folder_that_was_never_finished(parent: Path) -> None:
    parent.mkdir()
    for name, age in ((".old", 1000), (".new", 0)):
        (parent / name).mkdir()
        os.utime(parent / name, (time.time() - age, time.time() - age))
    purge(parent, os.getuid())
    assert [path.name for path in parent.iterdir()] == [".new"]


async def test_a_folder_that_a_cleaner_of_tmp_has_taken_is_made_again(base_image: Path, isolation: Isolation) -> None:
    apptainer = await Apptainer.find()
    first = apptainer._held().folder
    shutil.rmtree(first)
    sandbox = await Sandbox.start(apptainer, base_image, isolation)
    try:
        assert apptainer._held().folder != first and apptainer._held().folder.is_dir()
        shutil.rmtree(apptainer._held().folder)
        await sandbox.ping()
    finally:
        await sandbox.kill()
