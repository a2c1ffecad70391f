"""A sandbox worker's job: containers for agents, graders and oracles, the guard, and the link to the controller.

It finds (or builds) the image and the suite on its own node, so that only worker jobs ever know where hidden cases are.
Its containers die with it, however it dies. It imports no torch.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from contextlib import AsyncExitStack
from pathlib import Path

from audit.errors import EctypeError
from audit.events import AuditLog
from audit.metrics import MetricsLog
from containers.apptainer import Apptainer, make_room_for_descriptors
from containers.cache import cache_dir
from containers.node_image import NodeImage, copy_to_node
from detect import script_work
from detect.image_programs import of_image
from detect.rule_watch import RuleWatch
from detect.samples import SampleWriter
from jobs.job import Context
from jobs.prepare import find_or_build
from jobs.serve import serve_until_stopped
from queues.link import WorkerLink
from sandbox.cleaning import Cleaner
from sandbox.meter import Meter
from sandbox.packages import Packages
from sandbox.pool import Pool
from sandbox.session import Latencies, Services
from sandbox.worker import Worker

log = logging.getLogger(__name__)


def run_worker(context: Context) -> bool:
    """Serve sessions until the job is asked to stop; True when the run has ended."""
    make_room_for_descriptors()
    return asyncio.run(serve_until_stopped(context, _serve(context)))


async def _serve(context: Context) -> None:
    run, config = context.run, context.run.config()
    site = run.site()
    packages = None if site.packages is None else Packages.at(Path(site.packages))
    apptainer = await Apptainer.find()
    purged = await apptainer.purge()
    there = await find_or_build(config.suite, say=log.info)
    async with AsyncExitStack() as stack:
        audit = AuditLog(run.audit, context.name)
        stack.callback(audit.close)
        if purged.folders or purged.remains:
            log.warning("removed what %d killed workers left on this machine", len(purged.folders))
            audit.write("purged", holders=purged.folders, processes=purged.processes, remains=purged.remains)

        programs = await asyncio.to_thread(of_image, there.image)
        rules = RuleWatch(run.rules, audit, context.name, mode=config.anticheat.mode, programs=programs)
        samples = SampleWriter(run.samples(), f"{run.path.name}-{context.name}", run=run.path.name)
        stack.callback(samples.close)
        metrics = stack.enter_context(MetricsLog(run.metrics / f"{context.name}.jsonl"))
        pools: dict[str, Pool] = {}
        meter = Meter(pools, audit, metrics)
        stack.push_async_callback(meter.sample)  # the last word, when all sandboxes have ended
        site_paths = [] if packages is None else [packages.folder]
        starts = asyncio.Semaphore(config.sandbox.start_concurrency)

        image = there.image
        if site.node_local is not None and (near := await asyncio.to_thread(_near, image, site.node_local)):
            stack.callback(near.close)
            image = near.path

        def pool(kind: str, size: int, packages: Packages | None = None) -> Pool:
            made = pools[kind] = Pool(
                apptainer,
                image,
                there.isolation,
                size,
                least=config.sandbox.least,
                spare=config.sandbox.spare,
                max_cells=config.sandbox.max_cells,
                max_age_s=config.sandbox.max_age_s,
                idle_s=config.sandbox.shrink_after_s,
                starts=starts,
                packages=packages,
            )
            stack.push_async_callback(made.close)
            return made

        services = Services(
            agents=pool("agents", config.sandbox.slots, packages),
            graders=pool("graders", config.sandbox.graders, packages),
            oracles=pool("oracles", config.sandbox.oracles),
            guard=rules.guard,
            audit=audit,
            cleaner=Cleaner.of_host(paths=[*site_paths, run.path, image, there.image, there.tasks_root, cache_dir()]),
            latencies=Latencies(random.Random(f"{config.seed}:{context.name}"), idle_s=script_work.idle_s),
            samples=samples,
            case_lanes=config.sandbox.case_lanes,
        )
        worker = Worker(
            context.name,
            services,
            there.tasks_root,
            slots=config.sandbox.slots,
            idle_timeout_s=config.sandbox.idle_timeout_s,
        )
        # An image that does not start ends the job here, with its reason, before any episode counts on it.
        await services.agents.warm(1)
        link = WorkerLink(run.endpoint_file, run.keys)
        await link.connect(worker.hello, worker.heartbeat)
        tasks = [asyncio.create_task(worker.serve(link)), asyncio.create_task(meter.run())]
        tasks.append(asyncio.create_task(rules.run()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await link.close("the worker stops")


def _near(image: Path, node_local: str) -> NodeImage | None:
    """The image on this node's disk; None when it is there already, or cannot be: then it is used where it is."""
    folder = Path(os.path.expandvars(node_local))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_dev == image.stat().st_dev:
            return None
        return copy_to_node(image, folder, say=log.info)
    except (EctypeError, OSError) as error:
        log.warning("the image is used from where it is: %s", error)
        return None
