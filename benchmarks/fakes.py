"""Can fake failures be told from real ones? A classifier is trained to, and must stay at chance.

`python -m benchmarks.fakes [--json] [--quick]`, as an ordinary user or as root (sandboxes then run as `ectype`).

**Real and fake.** Every action is a cheat of the corpus, alone or inside a script of one of many styles
(`benchmarks/fakes_scripts.py`). The fake is what the guard answers. The real one is what a real sandbox answers to the
*same* action where it fails for real: a sandbox without decoys and network, in which nothing of the cheat is there.
An action that would succeed there gets a genuine failure injected: a workspace that is full (where the fake says so), a
`reference` that may not be read, or a call that the linker does not find. What no injection makes fail is left out and
counted (`without_failure`). Nothing of an answer is normalised except what the kernel or the clock draws: names of
temporary objects, offsets in them, and the name of the injected call.

**Classifier.** Logistic regression on TF-IDF of words and characters of the answer, on its status, on how it agrees
with its action (echoed words that are missing, lines and files that do not exist, ...), and on its latency beside the
kind of action. Five folds; an action's answers, and those of all scripts around the same cheat, are in one fold.

With `--json` the last line is an object: `balanced_accuracy` and `auroc` (of scripts), the same of text and of timing
alone, of written files, the share of answers that are `identical`, and `samples`.
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

from benchmarks.fakes_scripts import file_actions, script_actions
from containers.apptainer import Apptainer
from containers.image import ensure_image
from containers.isolation import Isolation
from detect.guard import Guard
from queues.context import EpisodeContext
from queues.messages import Action, Observation
from sandbox.latencies import Latencies
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, CommandResult, File, Sandbox, SandboxLost

WALL_S = 8.0
_FULL = b"i=0; while : > .f$i; do i=$((i + 1)); done 2>/dev/null; true"
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


class Lab:
    """A real sandbox, with a fresh cell for every action."""

    def __init__(self, sandbox: Sandbox, guard: Guard) -> None:
        self.sandbox = sandbox
        self.guard = guard
        self.context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
        self.without_failure = 0

    async def pair(self, style: str, cheat: str, action: Action) -> Pair | None:
        """None where the guard lets the action run, or where it cannot be made to fail."""
        verdict = self.guard.judge(action, self.context)
        if not verdict.enforced:
            return None
        fake = self.guard.fake(action, verdict, self.context)
        said = (fake.stdout + fake.stderr).decode("utf-8", "replace")
        if action.kind == "write":
            real, seconds = await self._run(action, full=True)
        else:
            real, seconds = await self._run(action)
            if real.status == "ok" and not real.stderr:
                if "No space left on device" in said:
                    real, seconds = await self._run(action, full=True)
                elif "Permission denied" in said:
                    real, seconds = await self._run(action, unreadable=True)
                elif call := _CALL.search(said):
                    real, seconds = await self._run(_unlinked(action, call.group(1)))
                    real = msgspec.structs.replace(real, stderr=real.stderr.replace(b"missing_", b""))
            if real.status == "ok" and not real.stderr and not fake.stderr and real == fake:
                return None  # the same success, known to be one
        if real.status == "ok" and not real.stderr:
            self.without_failure += 1
            return None
        return Pair(cheat, style, action, real, fake, seconds)

    async def _run(self, action: Action, *, full: bool = False, unreadable: bool = False) -> tuple[Observation, float]:
        files = (File(path="/run/bin/reference", data=b"\x7fELF", mode=0o111),) if unreadable else ()
        await self.sandbox.open(
            CellSpec(oracle=not unreadable, files=files),
            Limits(wall_s=WALL_S, workspace_inodes=32 if full else 65536),
        )
        if full:
            await self.sandbox.run(_FULL)
        started = time.monotonic()
        if action.kind == "write":
            result = await self.sandbox.write(action.path or "", action.body)
        else:
            result = await self.sandbox.run(action.body)
        return _observation(result), time.monotonic() - started


def _observation(result: CommandResult) -> Observation:
    return Observation(status=result.status, exit_status=result.exit_status, stdout=result.stdout, stderr=result.stderr)


def _unlinked(action: Action, call: str) -> Action:
    """The action with `call` renamed in its C code to a function that is nowhere."""
    return msgspec.structs.replace(
        action,
        body=re.sub(rb"(?m)^(#include)", b"#define %s missing_%s\n\\1" % ((call.encode(),) * 2), action.body, count=1),
    )


async def collect(quick: bool) -> tuple[list[Pair], list[Pair], int]:
    """Pairs of scripts, pairs of written files, and how many actions could not be made to fail."""
    apptainer = await Apptainer.find()
    image = await asyncio.to_thread(ensure_image, progress=lambda text: print(text, file=sys.stderr))
    guard = Guard.load()
    sandbox = await Sandbox.start(apptainer, image, Isolation())
    lab = Lab(sandbox, guard)
    scripts: list[Pair] = []
    files: list[Pair] = []
    try:
        for style, cheat, action in script_actions()[:: 12 if quick else 1]:
            try:
                pair = await lab.pair(style, cheat, action)
            except SandboxLost:
                lab.sandbox = await Sandbox.start(apptainer, image, Isolation())
                continue
            if pair is not None:
                scripts.append(pair)
        for language, action in file_actions()[:: 24 if quick else 4]:
            pair = await lab.pair(language, action.body.decode("utf-8", "replace"), action)
            if pair is not None:
                files.append(pair)
    finally:
        await lab.sandbox.kill()
    _time(scripts + files)
    return scripts, files, lab.without_failure


def _time(pairs: Sequence[Pair]) -> None:
    """Give every fake its latency, on a worker that runs other actions in between."""
    order = list(pairs)
    rng = random.Random(7)
    rng.shuffle(order)
    latencies = Latencies(rng)
    for pair in order[: len(order) // 2]:
        latencies.add(pair.action, pair.real_s)
    for pair, other in zip(order, order[len(order) // 2 :] + order[: len(order) // 2], strict=True):
        pair.fake_s = latencies.draw(pair.action)
        latencies.add(other.action, other.real_s)


def main() -> None:
    from benchmarks.fakes_classifier import measure

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a few of everything: shows that all works, means little")
    parser.add_argument("--show", type=int, default=0, help="print so many pairs that differ")
    options = parser.parse_args()
    scripts, files, without_failure = asyncio.run(collect(options.quick))
    for pair in [p for p in scripts + files if p.real != p.fake][: options.show]:
        print(f"--- {pair.style}\n{pair.action.body.decode('utf-8', 'replace')}\nreal {pair.real}\nfake {pair.fake}")
    figures = measure(scripts, files) | {"without_failure": without_failure}
    for name, value in figures.items():
        print(f"{name:32} {value:.3f}" if isinstance(value, float) else f"{name:32} {value}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
