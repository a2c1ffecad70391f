"""A judge's job: a model server of its own (or an endpoint that is given), and the worker that asks it.

It takes episodes from the review queue while its model answers. A server that dies is started again; when it dies three
times in a row the job ends with the end of its log. What the job had in hand then goes to other judges, or waits.
It imports no torch: the model server runs in an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from audit.errors import EctypeError
from audit.events import AuditLog
from detect.judge import Judge, JudgementCache
from detect.judge_calibration import Calibration
from detect.judge_calibration import load as load_calibration
from detect.judge_client import ChatClient
from detect.judge_prompt import Prompt, load_prompt
from detect.review_worker import ReviewWorker, Thresholds
from detect.samples import SampleWriter
from jobs.job import Context
from jobs.run_config import SMALL_MODEL, JudgeConfig
from jobs.serve import serve_until_stopped
from queues.follow import until_first
from queues.judge_link import JudgeLink
from queues.model_server import ModelServer, ModelServerError, ServerOptions, vllm_python

log = logging.getLogger(__name__)

KEY_VARIABLE = "ECTYPE_JUDGE_API_KEY"
STARTS = 3
"""How often in a row a model server may die before it has judged anything for a minute."""
WATCH_S = 2.0
PROVEN_S = 60.0


def run_judge(context: Context) -> bool:
    """Judge until the job is asked to stop; True when the run has ended."""
    return asyncio.run(serve_until_stopped(context, _serve(context)))


async def _serve(context: Context) -> None:
    run, config = context.run, pinned(context.run.config().judge)
    prompt = load_prompt(config.prompt)
    calibration = calibration_of(config, prompt)
    cache = JudgementCache(run.path / "judge" / "cache")
    samples = SampleWriter(run.samples(), f"{run.path.name}-{context.name}", run=run.path.name)
    with AuditLog(run.audit, context.name) as audit, closing(samples):
        link = JudgeLink(context.name, run.endpoint_file, run.keys, slots=0)
        worker = ReviewWorker(
            link,
            audit,
            slots=config.concurrency,
            thresholds=Thresholds(config.threshold, config.uncertain_from),
            record_bytes=config.record_bytes,
            samples=samples,
        )
        try:
            await until_first(
                worker.serve(),
                _keep_model(config, prompt, calibration, cache, worker, audit, run.logs / "judge" / context.name),
            )
        finally:
            await link.close("the judge stops")


async def _keep_model(
    config: JudgeConfig,
    prompt: Prompt,
    calibration: Calibration | None,
    cache: JudgementCache,
    worker: ReviewWorker,
    audit: AuditLog,
    logs: Path,
) -> None:
    """Have a model for the worker, again and again; raises when there is none to be had."""
    deaths = 0
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        try:
            async with chat_client(config, log_file=logs / "vllm.log") as (client, server):
                judge = Judge(client, prompt, calibration=calibration, votes=config.votes, cache=cache)
                audit.write(
                    "judge_ready",
                    model=client.model,
                    endpoint=client.url,
                    prompt_version=prompt.version,
                    prompt_hash=prompt.hash,
                    calibrated=calibration is not None,
                    start_s=loop.time() - started,
                )
                started = loop.time()
                worker.use(judge)
                while True:
                    await asyncio.sleep(WATCH_S)
                    if server is not None:
                        server.check()
        except ModelServerError as error:
            deaths = 1 if loop.time() - started > PROVEN_S else deaths + 1
            audit.write("judge_model_died", reason=error.what[-2000:], deaths=deaths)
            if deaths >= STARTS:
                raise
            log.error("%s", error)
        finally:
            worker.use(None)


@asynccontextmanager
async def chat_client(config: JudgeConfig, *, log_file: Path) -> AsyncIterator[tuple[ChatClient, ModelServer | None]]:
    """A client of the configured endpoint, or of a model server that lives as long as this context."""
    assert config.model is not None
    if config.endpoint is not None:
        key = os.environ.get(KEY_VARIABLE, "")
        async with _client(config, config.endpoint, config.model, key) as client:
            yield client, None
        return
    folder = model_folder(config.model)
    options = ServerOptions(
        model=folder,
        served_name=model_name(config),
        log=log_file,
        dtype=dtype_of(folder),
        max_model_len=config.context_tokens,
        max_num_seqs=max(2, config.concurrency * config.votes),
        kv_cache_bytes=config.cache_mib << 20,
    )
    server = ModelServer(options)
    try:
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.wait_ready)
        async with _client(config, server.base_url, options.served_name, server.api_key) as client:
            yield client, server
    finally:
        await asyncio.to_thread(server.stop)


def _client(config: JudgeConfig, url: str, model: str, key: str) -> ChatClient:
    return ChatClient(
        url, model, api_key=key, concurrency=config.concurrency * config.votes, timeout_s=config.timeout_s
    )


def model_folder(model: str) -> Path:
    """The Hugging Face folder of a model that is served here."""
    if model == SMALL_MODEL:
        from rl.hf import load_smollm2

        return load_smollm2()
    return Path(model)


def dtype_of(folder: Path) -> str:
    """The precision that the weights of a Hugging Face folder have: a calibration belongs to the scores of that one,
    and what a model server chooses by itself (half of it) has others."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelServerError("no Hugging Face model here", where=str(folder), remedy=f"{error}") from error
    found = config.get("dtype") or config.get("torch_dtype")
    return found if found in ("float32", "bfloat16", "float16") else "auto"


def model_name(config: JudgeConfig) -> str:
    """What verdicts and calibrations call the model; behind a link, what it leads to."""
    assert config.model is not None
    return config.model if config.endpoint is not None else Path(config.model).resolve().name


def pinned(config: JudgeConfig) -> JudgeConfig:
    """The same judge without links: model, prompt and calibration stay those of now when another is promoted."""
    changes: dict[str, str] = {}
    for key in ("model", "prompt", "calibration"):
        told = getattr(config, key)
        if told is not None and "/" in told and not (key == "model" and config.endpoint is not None):
            changes[key] = str(Path(told).resolve())
    return config.model_copy(update=changes)


def calibration_of(config: JudgeConfig, prompt: Prompt) -> Calibration | None:
    """The configured calibration, checked against model and prompt; raises CalibrationError."""
    if config.calibration is None:
        log.warning("no calibration: raw scores stand for probabilities")
        return None
    if not Path(config.calibration).is_file():
        raise EctypeError(
            "no calibration here",
            where=f"judge.calibration: {config.calibration}",
            remedy="make one: ectype judge calibrate SAMPLES.jsonl",
        )
    return load_calibration(Path(config.calibration), model=model_name(config), prompt_hash=prompt.hash)


def check_judge(config: JudgeConfig) -> None:
    """Refuse, before anything starts, a judge that could not: its prompt, its calibration, its model."""
    calibration_of(config, load_prompt(config.prompt))
    if config.endpoint is None:
        assert config.model is not None
        vllm_python()
        if config.model != SMALL_MODEL and not (Path(config.model) / "config.json").is_file():
            raise EctypeError(
                f"no Hugging Face model: {config.model} has no config.json",
                where="judge.model",
                remedy="give the folder of a downloaded or exported model, or an endpoint that serves it",
            )
