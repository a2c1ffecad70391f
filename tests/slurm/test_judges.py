"""Judges as an array of Slurm jobs. What a model would say comes from a scripted endpoint on this host."""

from __future__ import annotations

import asyncio

import pytest

from audit.events import read_events
from tests.cluster.command_line import SMALL
from tests.cluster.slurm import SlurmCluster, wait_for
from tests.detect.endpoints import ScriptedEndpoint, verdict
from tests.slurm.test_run import all_ended, explain, ids, stopped

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.megatron]


async def test_a_run_with_an_array_of_judges(slurm_cluster: SlurmCluster) -> None:
    run = slurm_cluster.home / "runs" / "judged"
    small = SMALL.read_text()
    script = lambda number, request: verdict(request, 0.95 if number % 2 else 0.05)  # noqa: E731
    async with ScriptedEndpoint(script).serving() as endpoint:
        config = slurm_cluster.home / "judged.yaml"
        config.write_text(f"{small}judge: {{enabled: true, endpoint: '{endpoint.url}', model: judge, workers: 2}}\n")
        config.chmod(0o644)

        def whole_run() -> None:
            try:
                slurm_cluster.ectype("submit", str(config), "--site", "local-slurm", "--run", str(run), "--steps", "2")
                wait_for("the end", lambda: stopped(run) is not None)
                wait_for("all jobs to leave", lambda: all_ended(slurm_cluster, run))
            finally:
                slurm_cluster.ectype("cancel", str(run), check=False)

        await asyncio.to_thread(whole_run)
    assert stopped(run) == "finished", explain(run)
    jobs = ids(run)
    assert set(jobs) == {"controller", "sandbox-0", "judge-0", "judge-1", "trainer"}
    assert jobs["judge-0"].split("_")[0] == jobs["judge-1"].split("_")[0], "one array"
    assert {slurm_cluster.states()[job] for job in jobs.values()} == {"COMPLETED"}, explain(run)
    verdicts = [event for event in read_events(run / "audit") if event.kind == "verdict"]
    assert len({event.episode for event in verdicts}) == len(verdicts) == 8
    assert {event.data["decision"] for event in verdicts} == {"clear", "flagged"}
