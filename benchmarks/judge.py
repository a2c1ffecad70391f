"""How much tuning improves the 135M model as a judge, on samples of the corpus that it never saw.

`python -m benchmarks.judge --json` tunes SmolLM2-135M on the corpus with `ectype judge tune` (half an hour on two busy
cores) and prints one JSON object as its last line: `auroc_untuned`, `auroc_tuned`, their 95 % intervals (`*_low`,
`*_high`), `auroc_gain` with its paired interval, `recall_at_1pct_untuned`, `recall_at_1pct_tuned`, the same at `5pct`,
`held_out_samples`, `train_samples`, `epochs`, `better` (whether it would be promoted) and `auroc_length`: what the
length of an action alone would reach on the same samples, for every language has as many cheats as honest actions, but
cheats are longer. Killed, it goes on where it was when it is given the same `--folder`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from detect.judge_calibration import auroc
from detect.judge_metrics import Metrics
from jobs.judge_samples import is_cheat, split
from jobs.judge_tune import Options, tune_judge
from rl.verdicts import TuneConfig

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
FILES = [CORPUS / f"{name}.jsonl" for name in ("cheats", "benign", "solutions", "episodes")]
"""Not `holdout/`: that is for the rules."""
TUNE = TuneConfig(epochs=3, learning_rate=5e-4, batch_tokens=1024, train_layers=4)
HELD_OUT, VALIDATION = 0.3, 0.1


def run(folder: Path, *, limit: int, model: str, config: TuneConfig = TUNE) -> dict[str, Any]:
    started = time.perf_counter()
    out = folder / "judge"
    shutil.rmtree(out, ignore_errors=True)
    options = Options(
        samples=FILES,
        model=model,
        out=out,
        prompt="terse-1",
        held_out=HELD_OUT,
        validation=VALIDATION,
        limit=limit,
        record_bytes=400,
        tune=config,
    )
    card = tune_judge(options, say=lambda message: print(message, file=sys.stderr, flush=True))
    held_out = split(FILES, held_out=HELD_OUT, validation=VALIDATION, limit=limit).held_out
    lengths = np.array([float(len(one.action)) for one in held_out])
    found = card.comparison
    return {
        **_numbers("untuned", found.before),
        **_numbers("tuned", found.after),
        "auroc_gain": found.gain,
        "auroc_gain_low": found.gain_interval.low,
        "auroc_gain_high": found.gain_interval.high,
        "auroc_length": auroc(lengths, np.array([float(is_cheat(one)) for one in held_out])),
        "held_out_samples": found.after.samples,
        "train_samples": sum(card.samples["train"].values()),
        "epochs": len(card.epochs) - 1,
        "better": card.better,
        "wall_s": time.perf_counter() - started,
    }


def _numbers(name: str, found: Metrics) -> dict[str, float]:
    return {
        f"auroc_{name}": found.auroc,
        f"auroc_{name}_low": found.auroc_interval.low,
        f"auroc_{name}_high": found.auroc_interval.high,
        f"recall_at_1pct_{name}": found.recall_at_1pct,
        f"recall_at_5pct_{name}": found.recall_at_5pct,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--limit", type=int, default=260, help="samples in all, as many cheats as honest ones")
    parser.add_argument("--model", default="smollm2", help="a Hugging Face folder, or smollm2")
    parser.add_argument("--folder", type=Path, help="keep the judge, and the snapshots of a run that was killed, here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ectype-judge-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result = run(folder, limit=given.limit, model=given.model)
    if not given.json:
        for name, value in result.items():
            print(f"{name:24} {value:.3f}" if isinstance(value, float) else f"{name:24} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
