"""Runs the event loop of a job that serves until the run ends: the controller and the sandbox workers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from audit.errors import EctypeError
from jobs.job import Context

POLL_S = 0.5


async def serve_until_stopped(context: Context, work: Coroutine[Any, Any, None]) -> bool:
    """Await `work`, and cancel it when the job is asked to stop; True when the run has ended.

    Raises what `work` raises, and EctypeError when it ends although the run goes on.
    """
    task = asyncio.create_task(work)
    try:
        while not context.should_stop():
            done, _ = await asyncio.wait([task], timeout=POLL_S)
            if done:
                task.result()
                raise EctypeError(f"{context.name} ended by itself", where=str(context.run.path))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return context.run.stop_reason() is not None
