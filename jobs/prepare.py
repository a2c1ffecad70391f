"""What must be there before a run can start: Apptainer, network isolation, the image, the task suite.

Comes in: a run config. Goes out: where image and suite are; they are built when they are missing. Every lack is an
EctypeError with its remedy, and nothing has been started then.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from containers.apptainer import Apptainer, probe_isolation
from containers.image import ensure_image
from containers.isolation import Isolation
from jobs.run_config import RunConfig
from rl.config import LearnConfig
from rl.tasks import load_suite
from tasks.build import ensure_suite


class Prepared(msgspec.Struct, frozen=True):
    """Where the image and the suite are, and which network layers this machine offers."""

    image: Path
    tasks_root: Path
    isolation: Isolation


def prepare(config: RunConfig, *, say: Callable[[str], None]) -> Prepared:
    """Find or build everything a run needs on this machine, and check the task names of the config."""
    prepared = asyncio.run(find_or_build(config.suite, say=say))
    check_task_names(config, prepared.tasks_root)
    return prepared


async def find_or_build(suite: str, *, say: Callable[[str], None]) -> Prepared:
    """Image and suite of this machine; raises EctypeError for what is missing."""
    apptainer = await Apptainer.find()
    image = await asyncio.to_thread(ensure_image, progress=say)
    isolation = await probe_isolation(apptainer, image)
    tasks_root = await ensure_suite(suite, progress=say)
    return Prepared(image, tasks_root, isolation)


def check_task_names(config: LearnConfig, tasks_root: Path) -> None:
    """Refuse a config that names tasks which the suite does not have."""
    known = [task.task for task in load_suite(tasks_root, config.suite)]
    for name in config.tasks or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise EctypeError(
                f"the suite {config.suite} has no task `{name}`",
                where="tasks",
                remedy=f"did you mean `{near[0]}`?" if near else f"choose among: {', '.join(known)}",
            )
