"""The demo's experiment over several seeds: does the policy learn to cheat without the anti-cheat, and not with it?

    python -m benchmarks.demo [--seeds 0 1 2] [--folder DIR] [--json]

Runs both arms of `ectype demo` for every seed (minutes each) and prints the rates per seed and, as the last line with
`--json`, the worst of them: the lowest where more is better, the highest where less is.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from jobs.demo import run_demo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/benchmark-demo"))
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()

    def say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def silent(run_dir: Path, stop) -> None:
        del run_dir, stop

    summaries = []
    for seed in options.seeds:
        summary = run_demo(
            options.folder / f"seed-{seed}",
            seed=seed,
            resume="python -m benchmarks.demo, with the same options",
            say=say,
            follow=silent,
        )
        summaries.append(summary)
        print(seed, json.dumps(msgspec.to_builtins(summary)), flush=True)
    worst = {
        "warm_success": max(s.warm_success for s in summaries),
        "off_cheat_rate": min(s.off_cheat_rate for s in summaries),
        "on_cheat_rate": max(s.on_cheat_rate for s in summaries),
        "on_success": min(s.on_success for s in summaries),
        "smallest_gain": min(s.on_success - s.warm_success for s in summaries),
        "seeds": options.seeds,
    }
    if options.json:
        print(json.dumps(worst))


if __name__ == "__main__":
    try:
        main()
    except EctypeError as error:
        sys.exit(str(error))
