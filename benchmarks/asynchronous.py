"""What it brings to play while the trainer learns: the same training, in turns and overlapped, in one go.

    python -m benchmarks.asynchronous [--steps 12] [--rounds 2] [--folder DIR] [--json]

Trains the demo's tiny policy in real sandboxes with `rollout.mode: sync` and `async`, alternately, from one warm start.
Speed is that of whole runs, from the first episode's start to the last update: steps per hour, and tokens of trained
batches per second of wall time. The last line with `--json` has both, their ratios (async / sync, of the totals over
all rounds), the mean reward of the first and the last three steps, and where the time went.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from audit.errors import EctypeError
from audit.metrics import read_metrics
from jobs.demo import CONFIG
from jobs.run_config import RunConfig, load_run_config, with_steps
from jobs.runs import run_to_end
from jobs.site_config import load_site

MODES = ("sync", "async")

Rows = list[dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=64, help="per step")
    parser.add_argument("--staleness", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmark-asynchronous"))
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    base = with_steps(load_run_config(CONFIG), options.steps)
    found: dict[str, list[Rows]] = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        for mode in MODES:
            path = options.folder / f"{mode}-{number}"
            rows = _train(_told(base, mode, options), path, options.folder / "sync-0" / "warm_start")
            found[mode].append(rows)
            print(mode, number, json.dumps(_speed([rows]) | _ends([rows])), flush=True)
    speed = {mode: _speed(found[mode]) for mode in MODES}
    outcome = {f"{name}_{mode}": value for mode in MODES for name, value in speed[mode].items()}
    outcome |= {f"{name}_ratio": speed["async"][name] / speed["sync"][name] for name in speed["sync"]}
    outcome |= {f"{name}_{mode}": value for mode in MODES for name, value in _ends(found[mode]).items()}
    if options.json:
        print(json.dumps(outcome | {"steps": options.steps, "rounds": options.rounds}))


def _told(base: RunConfig, mode: str, options: argparse.Namespace) -> RunConfig:
    more = {"max_staleness": options.staleness} if mode == "async" else {}
    rollout = {**base.rollout.model_dump(), "mode": mode, "episodes_per_step": options.episodes, **more}
    return RunConfig.model_validate(base.model_dump() | {"name": f"benchmark-{mode}", "rollout": rollout})


def _train(config: RunConfig, path: Path, warm: Path) -> Rows:
    if warm.is_dir():
        start = config.policy.warm_start.model_copy(update={"load": str(warm.absolute())})
        config = config.model_copy(update={"policy": config.policy.model_copy(update={"warm_start": start})})

    def say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def silent(run_dir: Path, stop) -> None:
        del run_dir, stop

    resume = "python -m benchmarks.asynchronous, with another --folder"
    run_to_end(config, load_site("local"), path, say=say, follow=silent, resume=resume)
    return read_metrics(path / "metrics" / "trainer.jsonl")


def _speed(runs: Sequence[Rows]) -> dict[str, float]:
    rows = [row for run in runs for row in run]
    seconds = sum(row["wall_s"] for row in rows)
    return {
        "steps_per_hour": 3600 * len(rows) / seconds,
        "trained_tokens_per_s": sum(row["batch_tokens"] for row in rows) / seconds,
    }


def _ends(runs: Sequence[Rows]) -> dict[str, float]:
    last = [row for run in runs for row in run[-3:]]
    first = [row for run in runs for row in run[:3]]
    both = {"reward_first": _mean(first, "reward"), "reward_last": _mean(last, "reward")}
    rows = [row for run in runs for row in run[1:]]  # in the first the actor does not learn
    told = ("update_s", "generate_s", "batch_wait_s", "staleness", "generate_idle", "learn_idle", "outside", "spanning")
    means = {key: _mean(rows, key) for key in told if key in rows[0]}
    if "staleness_max" in rows[0]:
        means["staleness_max"] = max(row["staleness_max"] for row in rows)
    return both | means


def _mean(rows: Rows, key: str) -> float:
    return sum(row[key] for row in rows) / len(rows)


if __name__ == "__main__":
    try:
        main()
    except EctypeError as error:
        sys.exit(str(error))
