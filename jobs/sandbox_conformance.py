"""`ectype sandbox conformance`: whether sandboxes on this machine do all that is promised of them.

Comes in: names of checks, or none for all. Goes out: a table or JSON, and exit status 0 when every check passes with
every network layer that the machine offers, 1 otherwise. Runs as whoever calls it, also inside a Slurm step.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import sys
from collections.abc import Sequence

import msgspec

from audit.errors import EctypeError, Interrupted
from containers.apptainer import Apptainer, probe_isolation
from containers.image import ensure_image
from sandbox.conformance import CHECKS, Check, Outcome, layers, run


def conformance(names: Sequence[str], *, slow: bool, as_json: bool) -> int:
    """Run the checks and print what came of them; returns the exit status."""
    checks = _chosen(names, slow)

    def show(outcome: Outcome) -> None:
        if not as_json:
            print(
                f"{outcome.layers:8} {outcome.check:50} {outcome.seconds:7.2f} s  {outcome.message or 'ok'}", flush=True
            )

    async def all_of_them() -> list[Outcome]:
        apptainer = await Apptainer.find()
        image = await asyncio.to_thread(ensure_image, progress=lambda message: print(message, file=sys.stderr))
        return await run(apptainer, image, layers(await probe_isolation(apptainer, image)), checks, done=show)

    try:
        outcomes = asyncio.run(all_of_them())
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; the sandboxes are gone",
            where="ectype sandbox conformance",
            remedy="start it again",
            status=130,
        ) from None
    failed = sum(bool(outcome.message) for outcome in outcomes)
    if as_json:
        record = {
            "passed": len(outcomes) - failed,
            "failed": failed,
            "uid": os.getuid(),
            "layers": sorted({outcome.layers for outcome in outcomes}),
            "checks": msgspec.to_builtins(outcomes),
        }
        print(json.dumps(record))
    else:
        print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _chosen(names: Sequence[str], slow: bool) -> list[Check]:
    if not names:
        return [check for check in CHECKS if slow or not check.slow]
    known = {check.name: check for check in CHECKS}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean `{near[0]}`?" if near else "run it without a name to see them all"
            raise EctypeError(f"there is no check `{name}`", where="ectype sandbox conformance", remedy=remedy)
    return [known[name] for name in names]
