"""Can fake failures be told from real ones? A classifier is trained to, and must stay at chance.

`python -m benchmarks.fakes [--json] [--quick]`, as an ordinary user or as root (sandboxes then run as `ectype`).

**Real and fake.** Every action is a cheat, alone or inside a script of one of many styles
(`benchmarks/fakes_scripts.py`). The fake is what the guard answers. The real one is what a real sandbox answers to the
*same* action where it fails for real: a sandbox without decoys and network, in which nothing of the cheat is there.
An action that would succeed there gets a genuine failure injected: a workspace that gets full (where the fake says so),
a `reference` that may not be read, or a call that the linker does not find. What no injection makes fail is left out
and counted (`without_failure`). Nothing of an answer is normalised except what the kernel or the clock draws: names of
temporary objects, offsets in them, and the name of the injected call.

**Classifier.** Logistic regression on TF-IDF of words and characters of the answer, on its status, on how it agrees
with its action (echoed words that are missing, lines and files that do not exist, ...), and on its latency beside the
kind of action. Five folds, drawn several times; an action's answers, and those of all scripts around the same cheat,
are in one fold.

**Latency.** Actions run in random order, so that a machine that is busy for a while slows all kinds of them down. A
fake takes what `sandbox.latencies` draws at that moment, when it knows the real ones that ran before.

**Chance.** Every action of the measuring half runs for real twice. The same classifier, which then has to tell the
first answer from the second (`..._real`), says what a figure is where there is nothing to tell. Standard errors are of
cheats drawn anew, with all their scripts.

**Two halves.** Fakes are mended by the pairs of the tuning half, which `--show` prints; the measuring half shares no
cheat and no style with it and shows nothing but its figures. The claim is about the measuring half. Its second group
(`later_...`) was written last, when the fakes were as they had been for the first.

With `--json` the last line is an object, all of the measuring half: `balanced_accuracy` and `auroc` of scripts, the
same of text and of timing alone, each with its `..._error` and `..._real`, `trained_on_both` (the classifier also
learns from the whole tuning half), the share of answers that are `identical`, `samples`, `without_failure`; the same of
the tuning half as `tuning_...`; and `..._files` of the files that the corpus' cheats write.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Sequence

import msgspec

from benchmarks.fakes_scripts import file_actions, later_actions, measuring_actions, tuning_actions
from containers.apptainer import Apptainer
from containers.image import ensure_image
from containers.isolation import Isolation
from detect import script_work
from detect.guard import Guard
from queues.context import EpisodeContext
from queues.messages import Action, Observation
from sandbox.latencies import Latencies
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost

WALL_S = 8.0
MAX_FREE = 8
WARM = 32
"""Actions that ran before the first fake."""
_NO_ROOM = "No space left on device"
_FILL = "i=0; while : > {folder}/.f$i; do i=$((i + 1)); done 2>/dev/null\n"
_CALL = re.compile(r"undefined reference to `(\w+)'")


class Pair(msgspec.Struct):
    """One action, its cheat, and what is said of it: really, and by the fake."""

    cheat: str
    style: str
    action: Action
    real: Observation
    fake: Observation
    real_s: float
    fake_s: float = 0.0
    expected_s: float | None = None
    again: Observation | None = None
    """What is said where the action runs for real a second time, of the measuring half."""
    again_s: float = 0.0


class Lab:
    """A real sandbox, with a fresh cell for every action."""

    def __init__(self, sandbox: Sandbox, guard: Guard) -> None:
        self.sandbox = sandbox
        self.guard = guard
        self.context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
        self.without_failure = 0

    async def pair(self, style: str, cheat: str, action: Action, *, twice: bool = False) -> Pair | None:
        """None where the guard lets the action run, or where it cannot be made to fail."""
        verdict = self.guard.judge(action, self.context)
        if not verdict.enforced:
            return None
        fake = self.guard.fake(action, verdict, self.context)
        real, seconds = await self._failing(action, fake)
        if real.status == "ok" and not real.stderr:
            # the same success, known to be one, is no failure either
            self.without_failure += real != fake
            return None
        pair = Pair(cheat, style, action, real, fake, seconds)
        pair.expected_s = self.guard.expected_s(action, self.context)
        if twice:
            pair.again, pair.again_s = await self._failing(action, fake)
        return pair

    async def _failing(self, action: Action, fake: Observation) -> tuple[Observation, float]:
        """What is really said of the action, and after how long: with a failure injected where it would not fail."""
        if action.kind == "write":
            return await self._run(action, free=0)
        said = (fake.stdout + fake.stderr).decode("utf-8", "replace")
        real, seconds = await self._run(action)
        heard = (real.stdout + real.stderr).decode("utf-8", "replace")
        if _NO_ROOM in said and _NO_ROOM not in heard:
            return await self._without_room(action, said)
        if "Permission denied" in said and "reference" in said and "Permission denied" not in heard:
            return await self._unreadable(action)
        if real.status == "ok" and not real.stderr and (call := _CALL.search(said)):
            real, seconds = await self._run(_unlinked(action, call.group(1)))
            real = msgspec.structs.replace(real, stderr=real.stderr.replace(b"missing_", b""))
        return real, seconds

    async def _without_room(self, action: Action, said: str) -> tuple[Observation, float]:
        """The action in a workspace that gets full where the fake says so; one that is full from the start, if none is.

        How many files fit in before is all that is tried.
        """
        wanted = _no_room(said)
        folder = "/tmp" if re.search(r"/tmp/|/dev/shm/", wanted) else "/work"
        first = None
        for free in range(MAX_FREE):
            answer = await self._run(action, free=free, folder=folder)
            first = first or answer
            if _no_room(answer[0].stderr.decode("utf-8", "replace")) == wanted:
                return answer
        assert first is not None
        return first

    async def _unreadable(self, action: Action) -> tuple[Observation, float]:
        """The action where `reference` is there and may not be read."""
        elsewhere, place = b"/reference/reference", b"/run/bin/reference"
        await self.sandbox.open(
            CellSpec(files=(File(path=elsewhere.decode(), data=b"\x7fELF", mode=0o111),)), Limits(wall_s=WALL_S)
        )
        started = time.monotonic()
        result = await self.sandbox.run(
            action.body.replace(place, elsewhere), env={"PATH": "/reference:/usr/local/bin:/usr/bin:/bin"}
        )
        answer = _observation(result)
        answer = msgspec.structs.replace(
            answer, stdout=answer.stdout.replace(elsewhere, place), stderr=answer.stderr.replace(elsewhere, place)
        )
        return answer, time.monotonic() - started

    async def _run(
        self, action: Action, *, free: int | None = None, folder: str = "/work"
    ) -> tuple[Observation, float]:
        """The action in a fresh cell, where `free` files fit into `folder` if that is a number."""
        inodes = 65536 if free is None else 32
        await self.sandbox.open(CellSpec(oracle=True), Limits(wall_s=WALL_S, workspace_inodes=inodes))
        if free is not None:
            made = _FILL.format(folder=folder) + "".join(f"rm {folder}/.f{n}\n" for n in range(free))
            await self.sandbox.run(made.encode())
        started = time.monotonic()
        if action.kind == "write":
            result = await self.sandbox.write(action.path or "", action.body)
        else:
            result = await self.sandbox.run(action.body)
        return _observation(result), time.monotonic() - started


def _no_room(text: str) -> str:
    """The first line that says that there is no room."""
    return next((line for line in text.splitlines() if _NO_ROOM in line), "")


def _observation(result: CommandResult) -> Observation:
    return Observation(status=result.status, exit_status=result.exit_status, stdout=result.stdout, stderr=result.stderr)


def _unlinked(action: Action, call: str) -> Action:
    """The action with `call` renamed in its C code to a function that is nowhere."""
    return msgspec.structs.replace(
        action,
        body=re.sub(rb"(?m)^(#include)", b"#define %s missing_%s\n\\1" % ((call.encode(),) * 2), action.body, count=1),
    )


class Collected(msgspec.Struct):
    tuning: list[Pair] = []
    measuring: list[Pair] = []
    files: list[Pair] = []
    later: frozenset[str] = frozenset()
    """Cheats of the measuring half's second group."""
    without_failure: int = 0
    """Actions of the measuring half that could not be made to fail."""


async def collect(quick: bool) -> Collected:
    apptainer = await Apptainer.find()
    image = await asyncio.to_thread(ensure_image, progress=lambda text: print(text, file=sys.stderr))
    lab = Lab(await Sandbox.start(apptainer, image, Isolation()), Guard.load())
    found = Collected(later=frozenset(cheat for _, cheat, _ in later_actions()))

    async def pairs(actions: Sequence[tuple[str, str, Action]], *, twice: bool = False) -> list[Pair]:
        made = []
        for style, cheat, action in shuffled(actions):
            try:
                pair = await lab.pair(style, cheat, action, twice=twice)
            except SandboxLost:
                lab.sandbox = await Sandbox.start(apptainer, image, Isolation())
                continue
            if pair is not None:
                made.append(pair)
        return made

    try:
        found.tuning = await pairs(tuning_actions()[:: 12 if quick else 1])
        lab.without_failure = 0
        found.measuring = await pairs(measuring_actions()[:: 12 if quick else 1], twice=True)
        found.without_failure = lab.without_failure
        found.files = await pairs(file_actions()[:: 24 if quick else 4])
    finally:
        await lab.sandbox.kill()
    for half in (found.tuning, found.measuring, found.files):
        take_time(half)
    return found


def shuffled(actions: Sequence[tuple[str, str, Action]]) -> list[tuple[str, str, Action]]:
    order = list(actions)
    random.Random(7).shuffle(order)
    return order


def take_time(pairs: Sequence[Pair]) -> None:
    """Give every fake the latency that it would have had when its action ran for real, after those before it."""
    latencies = Latencies(random.Random(7), idle_s=script_work.idle_s)
    for pair in pairs[:WARM]:
        latencies.add(pair.action, pair.real_s)
    for pair in pairs:
        pair.fake_s = latencies.draw(pair.action, pair.expected_s)
        latencies.add(pair.action, pair.real_s)


def main() -> None:
    from benchmarks.fakes_classifier import measure

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a few of everything: shows that all works, means little")
    parser.add_argument("--show", type=int, default=0, help="print so many pairs of the tuning half that differ")
    options = parser.parse_args()
    found = asyncio.run(collect(options.quick))
    for pair in [p for p in found.tuning + found.files if p.real != p.fake][: options.show]:
        print(f"--- {pair.style}\n{pair.action.body.decode('utf-8', 'replace')}\nreal {pair.real}\nfake {pair.fake}")
    figures = measure(found)
    for name, value in figures.items():
        print(f"{name:32} {value:.3f}" if isinstance(value, float) else f"{name:32} {value}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
