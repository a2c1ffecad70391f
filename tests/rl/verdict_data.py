"""A toy question that a small model learns to answer in seconds, and a tuning of it that tests start on any ranks:
`python -m tests.rl.verdict_data FOLDER` prints the scores before and after as one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import numpy as np

from detect.judge_calibration import auroc
from rl.models import MegatronModel, ModelShape, OptimizerConfig
from rl.verdicts import Progressed, Question, Scorer, TuneConfig, tune

SHAPE = ModelShape(layers=3, hidden=32, heads=4, kv_heads=2, ffn=48, vocab=64, max_positions=96)
HONEST, CHEAT, BAD, ANSWER = 60, 61, 7, 62
CONFIG = TuneConfig(epochs=10, learning_rate=1e-2, batch_tokens=200, train_layers=2, patience=3, answer_weight=0.1)


def questions(count: int, seed: int) -> list[Question]:
    """Cheats hold the token 7 somewhere. Of 8 to 13 tokens, then an answer of two."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        body = rng.integers(10, 50, int(rng.integers(8, 14))).tolist()
        label = number % 2
        if label:
            body[int(rng.integers(1, len(body)))] = BAD
        out.append(Question(tokens=[*body, ANSWER, ANSWER], answer=len(body), label=label))
    return out


def scorer(config: TuneConfig = CONFIG) -> Scorer:
    optimizer = OptimizerConfig(lr=config.learning_rate)
    model = MegatronModel(SHAPE, seed=0, optimizer=optimizer, train_layers=config.train_layers)
    return Scorer(model, (HONEST, CHEAT), pack_tokens=config.batch_tokens)


def labels(asked: list[Question]) -> np.ndarray:
    return np.array([one.label for one in asked])


def run(root: Path, judge: Scorer, config: TuneConfig = CONFIG, *, progress=lambda _: None) -> Progressed:
    """Tune on 320 questions, validated on 60 others."""
    validation = questions(60, 1)
    return tune(
        judge,
        questions(320, 0),
        config,
        quality=lambda: auroc(judge.scores(validation), labels(validation)),
        fingerprint="toy",
        caller=lambda: b"told",
        root=root,
        progress=progress,
    )


def main() -> None:
    from rl import parallel

    parallel.init(threads=1)
    judge = scorer()
    asked = questions(40, 2)
    before = judge.scores(asked).tolist()
    state = run(Path(sys.argv[1]), judge, msgspec.structs.replace(CONFIG, epochs=2))
    after = judge.scores(asked).tolist()
    if parallel.rank() == 0:
        print(json.dumps({"before": before, "after": after, "epochs": len(state.epochs)}))
    parallel.destroy()


if __name__ == "__main__":
    main()
