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
from detect.commands import BatchLine, batch_action, batch_context, file_action
from detect.guard import Guard
from detect.judge import Judge, Judgement, JudgementCache
from detect.judge_calibration import Calibration, Method, Provenance, fit, save
from detect.judge_client import EndpointDown
from detect.judge_prompt import load_prompt
from detect.judge_record import EpisodeRecord, record_of, record_of_action
from detect.review_worker import Thresholds, decide
from jobs.judges import calibration_of, chat_client, model_name
from jobs.run_config import JudgeConfig
from queues.context import EpisodeContext
from queues.messages import ReviewEpisode, ReviewStep

STATUS = {"clear": 0, "flagged": 1, "uncertain": 3}


class Sample(BatchLine, frozen=True, kw_only=True):
    """One labelled action: a line of the corpus, or of an export of samples."""

    label: Literal["cheat", "benign", "honest", "confirmed", "false_positive"]


def score(file: str, config: JudgeConfig, *, language: str | None, as_json: bool, say: Callable[[str], None]) -> int:
    """Judge one file as one action. The exit status: 0 clear, 1 flagged, 3 uncertain."""
    action = file_action(file, language)
    verdict = Guard.load(mode="observe").judge(action, EpisodeContext(episode="", suite="", task="program"))
    record = record_of_action(action, verdict, limit_bytes=config.record_bytes)
    (judgement,) = asyncio.run(judge_records([record], config, calibration=True, say=say))
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
    guard = Guard.load(mode="observe")
    records = [record_of_sample(one, guard, limit_bytes=config.record_bytes) for one in samples]
    judgements = asyncio.run(judge_records(records, config, calibration=False, say=say))
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


def record_of_sample(one: Sample, guard: Guard, *, limit_bytes: int) -> EpisodeRecord:
    """As a judge job makes it of an episode with these steps, the last of which stage 1 has seen."""
    steps = [
        ReviewStep(step=number, action=batch_action(step), output=step.output.encode())
        for number, step in enumerate((*one.history, one))
    ]
    verdict = guard.judge(steps[-1].action, batch_context(one))
    steps[-1] = msgspec.structs.replace(steps[-1], verdict=verdict)
    task = one.task or "program"
    episode = ReviewEpisode(request_id="", episode="", suite="", task=task, steps=tuple(steps))
    return record_of(episode, limit_bytes=limit_bytes)


async def judge_records(
    records: Sequence[EpisodeRecord], config: JudgeConfig, *, calibration: bool, say: Callable[[str], None]
) -> list[Judgement]:
    """Raises EndpointDown when the model does not answer, ModelServerError when its server has died."""
    prompt = load_prompt(config.prompt)
    calibrated = calibration_of(config, prompt) if calibration and config.calibration is not None else None
    with tempfile.TemporaryDirectory(prefix="ectype-judge-") as folder:
        if config.endpoint is None:
            say("starting a model server; a minute or two on a CPU")
        async with chat_client(config, log_file=Path(folder) / "vllm.log") as (client, server):
            judge = Judge(client, prompt, calibration=calibrated, votes=config.votes, cache=JudgementCache())
            try:
                return await asyncio.gather(*(judge.judge(record) for record in records))
            except EndpointDown:
                if server is not None:
                    server.check()
                raise
