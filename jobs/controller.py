"""The controller's job: one small process that links the driver with the sandbox workers until the run ends.

It keeps nothing on disk that a successor would need: a requeued controller writes a new endpoint file, and everybody
comes back to it.
"""

from __future__ import annotations

import asyncio

from audit.events import AuditLog
from jobs.job import Context
from jobs.serve import serve_until_stopped
from queues.controller import Controller


def run_controller(context: Context) -> bool:
    """Serve until the job is asked to stop; True when the run has ended."""
    return asyncio.run(_serve(context))


async def _serve(context: Context) -> bool:
    run = context.run
    sandbox = run.config().sandbox
    audit = AuditLog(run.audit, "controller")
    try:
        controller = Controller(
            # with `*` it announces the name of its node
            "127.0.0.1" if run.site().bind == "loopback" else "*",
            run.keys,
            run.endpoint_file,
            audit=audit,
            idle_timeout_s=sandbox.idle_timeout_s,
            review_bound=4 * run.config().rollout.episodes_per_step,
        )
        return await serve_until_stopped(context, controller.run())
    finally:
        audit.close()
