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
from detect.guard import Guard
from jobs.run_config import RunConfig
from queues.model_server import vllm_python
from rl.config import LearnConfig
from rl.rollout import check_prompts
from rl.tasks import load_suite
from rl.tokenizers import ByteCodec
from tasks.build import ensure_suite, suite_name


class Prepared(msgspec.Struct, frozen=True):
    """Where the image and the suite are, and which network layers this machine offers."""

    image: Path
    suite: str
    """Name of the suite below `tasks_root`."""
    tasks_root: Path
    isolation: Isolation


def prepare(config: RunConfig, *, say: Callable[[str], None]) -> Prepared:
    """Find or build everything a run needs on this machine, and check what the config says of tasks and files."""
    check_files(config)
    prepared = asyncio.run(find_or_build(config.suite, say=say))
    check_task_names(config, prepared)
    if config.policy.kind == "tiny":  # other tokenizers are slow to load: the trainer checks
        tasks = [t for t in load_suite(prepared.tasks_root, prepared.suite) if t.task in (config.tasks or (t.task,))]
        check_prompts(tasks, ByteCodec(), config.rollout)
    return prepared


async def find_or_build(suite: str, *, say: Callable[[str], None]) -> Prepared:
    """Image and suite of this machine; raises EctypeError for what is missing."""
    apptainer = await Apptainer.find()
    image = await asyncio.to_thread(ensure_image, progress=say)
    isolation = await probe_isolation(apptainer, image)
    tasks_root = await asyncio.to_thread(ensure_suite, suite, progress=say)
    return Prepared(image, suite_name(suite), tasks_root, isolation)


def check_files(config: RunConfig) -> None:
    """Refuse a config that names files which are not what it takes them for."""
    model, rules = config.policy.path, config.anticheat.rules
    if model is not None and not (Path(model) / "config.json").is_file():
        raise EctypeError(
            f"no Hugging Face model: {model} has no config.json",
            where="policy.path",
            remedy="give the folder of a downloaded or exported model",
        )
    if config.judge.enabled:
        from jobs.judges import check_judge

        check_judge(config.judge)
    if config.rollout.engine == "vllm":
        vllm_python(config.vllm.python)
    if rules != "default":
        Guard.load(Path(rules), mode=config.anticheat.mode)


def check_task_names(config: LearnConfig, prepared: Prepared) -> None:
    """Refuse a config that names tasks which the suite does not have."""
    known = [task.task for task in load_suite(prepared.tasks_root, prepared.suite)]
    for name in config.tasks or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise EctypeError(
                f"the suite {prepared.suite} has no task `{name}`",
                where="tasks",
                remedy=f"did you mean `{near[0]}`?" if near else f"choose among: {', '.join(known)}",
            )
