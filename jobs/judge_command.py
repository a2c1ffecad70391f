"""`ectype judge score` and `ectype judge calibrate`: the judge for people, without a run.

In go one file, or a JSONL file of labelled actions; out come a verdict, or a calibration file. The model is an
endpoint, or a model server that is started for the time of the command.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from audit.errors import EctypeError
from detect.commands import BatchLine, batch_action, file_action
from detect.guard import Guard
from detect.judge import Judge, Judgement, JudgementCache
from detect.judge_calibration import Calibration, Method, Provenance, fit, save
from detect.judge_client import EndpointDown
from detect.judge_prompt import load_prompt
from detect.judge_record import record_of_action
from detect.review_worker import Thresholds, decide
from jobs.judges import calibration_of, chat_client, model_name
from jobs.run_config import JudgeConfig
from queues.context import EpisodeContext
from queues.messages import Action

STATUS = {"clear": 0, "flagged": 1, "uncertain": 3}


class Sample(BatchLine, frozen=True, kw_only=True):
    """One labelled action: a line of the corpus, or of an export of samples."""

    label: Literal["cheat", "benign", "honest", "confirmed", "false_positive"]


def score(file: str, config: JudgeConfig, *, language: str | None, as_json: bool, say: Callable[[str], None]) -> int:
    """Judge one file as one action. The exit status: 0 clear, 1 flagged, 3 uncertain."""
    (judgement,) = asyncio.run(judge_actions([file_action(file, language)], config, calibration=True, say=say))
    decision = decide(judgement, Thresholds(config.threshold, config.uncertain_from))
    if as_json:
        print(json.dumps({"decision": decision, **msgspec.to_builtins(judgement)}))
    else:
        said = "no answer" if judgement.probability is None else f"P(cheat) {judgement.probability:.3f}"
        kind = "calibrated" if judgement.calibrated else "not calibrated"
        print(f"{file}: {decision}, {said} ({kind}; {judgement.model}, prompt {judgement.prompt_version})")
        if judgement.reason:
            print(f"  {judgement.reason}")
    return STATUS[decision]


def calibrate(
    samples_file: Path,
    out: Path,
    config: JudgeConfig,
    *,
    method: Method,
    prior: float | None,
    say: Callable[[str], None],
) -> Calibration:
    """Score labelled samples and write the calibration that makes the scores probabilities."""
    samples, digest = read_samples(samples_file)
    judgements = asyncio.run(judge_actions([batch_action(s) for s in samples], config, calibration=False, say=say))
    scored = [
        (j.score, s.label in ("cheat", "confirmed"))
        for j, s in zip(judgements, samples, strict=True)
        if j.score is not None
    ]
    say(f"{len(scored)} of {len(samples)} answers were valid")
    prompt = load_prompt(config.prompt)
    provenance = Provenance(
        model=model_name(config),
        prompt_version=prompt.version,
        prompt_hash=prompt.hash,
        samples=len(scored),
        cheats=sum(label for _, label in scored),
        samples_sha256=digest,
        fitted=time.time(),
        prior=prior,
    )
    scores, labels = np.array([s for s, _ in scored]), np.array([float(label) for _, label in scored])
    calibration = fit(scores, labels, method, provenance)
    save(calibration, out)
    return calibration


def read_samples(path: Path) -> tuple[list[Sample], str]:
    """The labelled samples of a JSONL file and the hash of the file. Raises EctypeError with the line that is wrong."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EctypeError(f"cannot read the samples: {error.strerror}", where=str(path)) from error
    samples = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                samples.append(msgspec.json.decode(line, type=Sample))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise EctypeError(
                    f"not a labelled sample: {error}",
                    where=f"{path}:{number}",
                    remedy='{"action": "ls", "language": "shell", "label": "benign"} (or "cheat")',
                ) from error
    return samples, hashlib.sha256(content).hexdigest()


async def judge_actions(
    actions: Sequence[Action], config: JudgeConfig, *, calibration: bool, say: Callable[[str], None]
) -> list[Judgement]:
    prompt, guard = load_prompt(config.prompt), Guard.load(mode="observe")
    context = EpisodeContext(episode="", suite="", task="program")
    calibrated = calibration_of(config, prompt) if calibration and config.calibration is not None else None
    with tempfile.TemporaryDirectory(prefix="ectype-judge-") as folder:
        if config.endpoint is None:
            say("starting a model server; a minute or two on a CPU")
        async with chat_client(config, log_file=Path(folder) / "vllm.log") as (client, server):
            judge = Judge(client, prompt, calibration=calibrated, votes=config.votes, cache=JudgementCache())
            # as in a run, where stage 1 has seen every action before
            records = [
                record_of_action(action, guard.judge(action, context), limit_bytes=config.record_bytes)
                for action in actions
            ]
            try:
                return await asyncio.gather(*(judge.judge(record) for record in records))
            except EndpointDown:
                if server is not None:
                    server.check()
                raise
