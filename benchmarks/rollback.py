"""How long an activation and a roll-back of rules take to be in force in every worker of a running run.

`python -m benchmarks.rollback [--workers 2] [--rounds 10] [--json]` starts a controller and workers as a run does (no
trainer: nothing else is asked of them), then activates a set and rolls it back, again and again, with the functions of
`ectype rules`. The times are those in the workers' own audit events (`rules_taken`, `after_s`). The last line is one
JSON object: `rollback_p50_s`, `rollback_max_s`, `activate_p50_s`, `activate_max_s`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from audit.events import read_events
from detect.rule_set import RULES_DIR
from jobs.rules_command import activate, rollback
from jobs.run_config import RunConfig, SandboxConfig
from jobs.run_dir import RunDir
from jobs.site_config import load_site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ectype-rollback-") as folder:
        result = measure(Path(folder), arguments.workers, arguments.rounds, quiet=arguments.json)
    print(json.dumps(result))


def measure(folder: Path, workers: int, rounds: int, *, quiet: bool) -> dict[str, float]:
    config = RunConfig(
        name="rollback", suite="micro", sandbox=SandboxConfig(workers=workers, slots=1, graders=1, oracles=1)
    )
    run = RunDir.create(folder / "run", config, load_site("local"))
    other = shutil.copytree(RULES_DIR, folder / "other")
    (other / "VERSION").write_text("other\n")
    say = (lambda _: None) if quiet else print
    processes = []
    try:
        for role, index in [("controller", 0), *(("sandbox", n) for n in range(workers))]:
            log = (run.logs / f"{role}-{index}.log").open("ab")
            code = f"from jobs.job import Job; Job({role!r}, {str(run.path)!r}, {index})()"
            processes.append(subprocess.Popen([sys.executable, "-c", code], stderr=log))
        while len(run.rules.taken()) < workers:
            dead = next((process for process in processes if process.poll() is not None), None)
            if dead is not None:
                raise RuntimeError("\n".join(path.read_text() for path in run.logs.glob("*.log")))
            time.sleep(0.1)
        for _ in range(rounds):
            activate(run, str(other), why="benchmark", wait_s=60, say=say)
            rollback(run, why="benchmark", wait_s=60, say=say)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
    taken = [e.data for e in read_events(run.audit, containing=b"rules_taken") if e.data["number"] > 0]
    result: dict[str, float] = {"workers": workers, "rounds": rounds}
    for kind in ("rollback", "activate"):
        times = [data["after_s"] for data in taken if data["kind_of_activation"] == kind]
        assert len(times) == workers * rounds
        result |= {f"{kind}_p50_s": round(statistics.median(times), 3), f"{kind}_max_s": round(max(times), 3)}
    return result


if __name__ == "__main__":
    main()
