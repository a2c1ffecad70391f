"""Every program below `programs/` does its worst; the sandbox says the right thing, and goes on as if nothing was.

The first lines of a program say what it tries and what must come of it: `expect` (the statuses that are right), and
where it differs from the usual, `limits`, `layers` (network layers it is run under in the quick set: default `both`),
`oracle: yes` (there is a `reference`) and `leaves: full` (no write to the workspace works afterwards). A program that
got something it must not have prints BREACH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from jobs.sandbox_command import parse_limits
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, File, OracleCall, Sandbox, WorkspaceError
from tests.sandbox.processes import alive, pythons, tree, until

PROGRAMS = Path(__file__).with_name("programs")
LAYERS = {
    "both": Isolation(),
    "netns": Isolation(netns=True, seccomp=False),
    "seccomp": Isolation(netns=False, seccomp=True),
}
COMMANDS = {".sh": ["bash", "attack.sh"], ".py": ["python3", "attack.py"], ".c": ["./attack"]}


class Attack(msgspec.Struct, frozen=True):
    path: Path
    expect: tuple[str, ...]
    limits: Limits
    layers: tuple[str, ...]
    oracle: bool
    leaves_full: bool


def read_attack(path: Path) -> Attack:
    facts: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if (match := re.fullmatch(r"(?:#|//) (expect|limits|layers|oracle|leaves): (.+)", line)) is not None:
            facts[match[1]] = match[2]
    layers = facts.get("layers", "both")
    return Attack(
        path,
        expect=tuple(facts["expect"].split()),
        limits=parse_limits(["wall_s=20", *facts.get("limits", "").split()]),
        layers=tuple(LAYERS) if layers == "all" else tuple(layers.split()),
        oracle="oracle" in facts,
        leaves_full="leaves" in facts,
    )


ATTACKS = [
    read_attack(path) for path in sorted(PROGRAMS.iterdir()) if path.suffix in COMMANDS and path.name != "hostile.py"
]


class Ground:
    """One container for all attacks of a layer; every attack gets a cell of its own in it."""

    def __init__(self, apptainer: Apptainer, image: Path, isolation: Isolation) -> None:
        self._start = (apptainer, image, isolation)
        self.sandbox: Sandbox
        self.guest = 0
        self.mounts = b""

    async def begin(self) -> None:
        self.sandbox = await Sandbox.start(*self._start)
        (self.guest,) = pythons(tree(self.sandbox._container.pid))
        self.mounts = self.mounts_now()

    def mounts_now(self) -> bytes:
        return Path(f"/proc/{self.guest}/mountinfo").read_bytes()

    def processes(self) -> list[int]:
        return sorted(tree(self.sandbox._container.pid))

    def descriptors(self) -> dict[int, int]:
        """How many the guest and the cell's init have, where this user may know."""
        found = {}
        for pid in pythons(self.processes()):
            with contextlib.suppress(PermissionError):
                found[pid] = len(os.listdir(f"/proc/{pid}/fd"))
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(LAYERS))
async def ground(request: pytest.FixtureRequest, apptainer: Apptainer, base_image: Path) -> AsyncIterator[Ground]:
    there = Ground(apptainer, base_image, LAYERS[request.param])
    await there.begin()
    try:
        yield there
    finally:
        pids = there.processes()
        await there.sandbox.kill()
        await until(lambda: alive(pids) == [])


def cases() -> list[object]:
    """The quick set has each attack under its own layers; the rest of the product is slow."""
    found = []
    for layer in LAYERS:
        for attack in ATTACKS:
            if "both" not in attack.layers and layer not in attack.layers:
                continue
            if layer == "seccomp" and attack.path.stem == "interfaces":
                continue  # without a network namespace the interfaces are the host's: seen, and of no use
            marks = [] if layer in attack.layers else [pytest.mark.slow]
            found.append(pytest.param(layer, attack, id=f"{layer}-{attack.path.name}", marks=marks))
    return found


async def reference(call: OracleCall) -> CommandResult:
    return CommandResult(status="ok", exit_status=0, stdout=b"secret answer")


@pytest.mark.apptainer
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("ground", "attack"), cases(), indirect=["ground"], scope="module")
async def test_attack(ground: Ground, attack: Attack) -> None:
    if not ground.sandbox.alive:  # the attack before has ended it, and that test has failed
        await ground.begin()
    sandbox = ground.sandbox
    files = [(name, name) for name in ("hostile.py", "hostile.h")]
    files.append((attack.path.name, f"attack{attack.path.suffix}"))
    given = tuple(File(f"/work/{name}", (PROGRAMS / source).read_bytes()) for source, name in files)
    await sandbox.open(CellSpec(files=given, oracle=attack.oracle), attack.limits)
    before, descriptors = ground.processes(), ground.descriptors()
    if attack.path.suffix == ".c":
        built = await sandbox.run(argv=["gcc", "-w", "-O1", "-o", "attack", "attack.c"], limits=Limits())
        assert built.status == "ok", built.stderr.decode()

    result = await sandbox.run(argv=COMMANDS[attack.path.suffix], limits=attack.limits, on_oracle=reference)

    assert b"BREACH" not in result.stdout + result.stderr, result
    assert result.status in attack.expect, result
    assert result.wall_s < attack.limits.wall_s + 5
    assert ground.processes() == before
    await the_next_command_works(sandbox, attack)
    assert ground.descriptors() == descriptors
    await the_host_reads_only_what_is_the_cells(sandbox)
    await sandbox.close_cell()
    assert pythons(ground.processes()) == [ground.guest]
    assert ground.mounts_now() == ground.mounts


async def the_next_command_works(sandbox: Sandbox, attack: Attack) -> None:
    found = await sandbox.run(b"echo on; ps -e -o comm=; true", limits=Limits(wall_s=20))
    assert (found.status, found.stdout, found.stderr) == ("ok", b"on\nbash\nps\n", b"")
    found = await sandbox.run(argv=["python3", "-I", "-c", "print(6 * 7)"], limits=Limits(wall_s=20))
    assert (found.status, found.stdout, found.stderr) == ("ok", b"42\n", b"")
    written = await sandbox.write("after", b"x" * 100)
    assert written.status in (("ok", "disk_full") if attack.leaves_full else ("ok",))


async def the_host_reads_only_what_is_the_cells(sandbox: Sandbox) -> None:
    with contextlib.suppress(WorkspaceError):
        for file in await sandbox.pack(max_bytes=8 << 20, max_files=2000):
            assert b"root:x:0" not in file.data, file.path
    with contextlib.suppress(WorkspaceError):
        assert b"root:x:0" not in await sandbox.read("main.py", 1 << 20)


def test_there_are_enough_of_them_in_every_language() -> None:
    suffixes = [attack.path.suffix for attack in ATTACKS]
    assert len(ATTACKS) >= 60
    assert all(suffixes.count(suffix) >= 10 for suffix in COMMANDS)
    assert all(attack.limits.wall_s <= 20 for attack in ATTACKS)


@pytest.mark.apptainer
@pytest.mark.asyncio(loop_scope="function")
async def test_attacks_at_once_spare_a_neighbour(apptainer: Apptainer, base_image: Path) -> None:
    """What an honest sandbox says does not depend on who its neighbours are."""
    names = ("fork_bomb.sh", "output_flood.sh", "stop_everything.c", "fork_race.py")
    attacks = [attack for attack in ATTACKS if attack.path.name in names]
    assert len(attacks) == len(names)
    sandboxes = await asyncio.gather(*(Sandbox.start(apptainer, base_image, Isolation()) for _ in range(3)))
    try:
        *hostile, honest = sandboxes
        await honest.open(CellSpec(), Limits())

        async def attack_with(sandbox: Sandbox, chosen: list[Attack]) -> None:
            for attack in chosen:
                source = File(f"/work/attack{attack.path.suffix}", attack.path.read_bytes())
                header = File("/work/hostile.h", (PROGRAMS / "hostile.h").read_bytes())
                await sandbox.open(CellSpec(files=(source, header)), attack.limits)
                await sandbox.run(argv=["gcc", "-w", "-o", "attack", "attack.c"], limits=Limits())
                await sandbox.run(argv=COMMANDS[attack.path.suffix], limits=attack.limits)

        attacking = [asyncio.create_task(attack_with(s, attacks[n::2])) for n, s in enumerate(hostile)]
        answers = []
        while not all(task.done() for task in attacking):
            answers.append(await honest.run(b"echo $((6 * 7)) | tee f; cat f"))
            await asyncio.sleep(0.1)
        await asyncio.gather(*attacking)
        assert answers and {(a.status, a.stdout) for a in answers} == {("ok", b"42\n42\n")}
    finally:
        await asyncio.gather(*(sandbox.kill() for sandbox in sandboxes))
    assert not any(sandbox.alive for sandbox in sandboxes)
