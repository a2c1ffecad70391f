"""vLLM as the rollout engine, with the real 135M model: its log-probs are the trainer's, and follow its weights."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from audit.errors import EctypeError
from queues.model_server import ModelServerError, vllm_python
from rl.config import VLLMConfig
from rl.engine import MegatronEngine
from rl.packing import make_packs, sample
from rl.rollout import Generation, generate_all
from rl.vllm_engine import VLLMEngine

pytestmark = [pytest.mark.megatron, pytest.mark.vllm, pytest.mark.slow, pytest.mark.usefixtures("one_rank")]

FP32_TOLERANCE = 1e-3
"""Largest difference of a log-prob in fp32: other kernels, another order of summation, through 30 layers."""
BF16_MEAN, BF16_LARGEST = 0.12, 1.0
"""The same in bf16, mean and largest: logits between 16 and 32 are rounded to 1/8, and temperature 0.7 widens that."""
STOP = 2
CONTEXT = 96


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        vllm_python()
    except ModelServerError as error:
        pytest.skip(str(error))
    from rl.hf import load_smollm2

    return load_smollm2()


def load(folder: Path, dtype: torch.dtype):
    from rl import hf
    from rl.models import MegatronModel

    model = MegatronModel(hf.read_shape(folder), dtype=dtype, initialize=False)
    hf.load_weights(folder, model)
    return model


def start(folder: Path, dtype: str, log_file: Path) -> VLLMEngine:
    engine = VLLMEngine(
        VLLMConfig(cache_mib=64, threads=1),
        model=folder,
        dtype=dtype,
        context_tokens=CONTEXT,
        batch=4,
        weight_bytes=600 << 20,
        log_file=log_file,
    )
    engine.start()
    return engine


@pytest.fixture(scope="module")
def engine(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMEngine]:
    engine = start(folder, "float32", tmp_path_factory.mktemp("vllm") / "server.log")
    yield engine
    engine.close()


@pytest.fixture
def model(folder: Path):
    return load(folder, torch.float32)


def publish(engine: VLLMEngine, version: int, model) -> None:
    from rl import hf

    target = engine.weights_folder / f"policy-{version}"
    hf.export(model, target)
    engine.publish(version, target)


def contexts() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 49152, length).tolist() for length in (1, 5, 17, 30, 60, 80)]


def differences(model, asked: Sequence[list[int]], answers: Sequence[Generation], temperature: float) -> np.ndarray:
    """|engine's log-prob - training forward's| of every sampled token."""
    packs = make_packs(
        [
            sample(c + g.tokens, [0] * len(c) + [1] * len(g.tokens), logprobs=[0.0] * len(c) + g.logprobs)
            for c, g in zip(asked, answers, strict=True)
        ],
        512,
    )
    found = model.logprobs(packs, temperature=temperature)
    return np.concatenate(
        [np.abs(p.logprobs - f.float().numpy())[p.action_mask > 0] for p, f in zip(packs, found, strict=True)]
    )


def generate(engine: VLLMEngine | MegatronEngine, temperature: float = 0.7, seed: int = 0) -> list[Generation]:
    asked = contexts()
    return generate_all(
        engine,
        asked,
        seeds=range(seed, seed + len(asked)),
        max_new_tokens=24,
        stop_tokens={STOP},
        temperature=temperature,
        max_total_tokens=CONTEXT,
    )


def tokens(answers: Sequence[Generation]) -> list[list[int]]:
    return [answer.tokens for answer in answers]


def assert_same(answers: Sequence[Generation], others: Sequence[Generation]) -> None:
    """The same actions, with the same log-probs as far as requests that meet in other batches can have them.

    The requests of one call reach the server one by one; which of them share a step, and so the order in which its
    kernels add, is not the caller's to say.
    """
    assert tokens(answers) == tokens(others), "the same seeds give the same actions"
    assert [a.stopped for a in answers] == [b.stopped for b in others]
    for answer, other in zip(answers, others, strict=True):
        assert answer.logprobs == pytest.approx(other.logprobs, abs=FP32_TOLERANCE)


def test_logprobs_are_the_training_forwards_and_follow_its_weights(engine: VLLMEngine, model) -> None:
    with pytest.raises(RuntimeError, match="no policy"):
        generate(engine)
    publish(engine, 0, model)
    for temperature in (1.0, 0.7):
        before = generate(engine, temperature)
        assert differences(model, contexts(), before, temperature).max() < FP32_TOLERANCE
    assert_same(generate(engine), before)
    assert tokens(generate(engine, seed=9)) != tokens(before)
    own = generate(MegatronEngine(model))
    assert differences(model, contexts(), own, 0.7).max() < FP32_TOLERANCE

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.gpt.parameters():
            parameter += torch.randn(parameter.shape, generator=generator) * 0.003
    assert differences(model, contexts(), before, 0.7).mean() > 100 * FP32_TOLERANCE, "the policies differ visibly"
    publish(engine, 1, model)
    assert engine.version == 1
    after = generate(engine)
    assert differences(model, contexts(), after, 0.7).max() < FP32_TOLERANCE
    assert len(list(engine.weights_folder.glob("policy-*"))) == 1, "weights of earlier versions are removed"


def test_limits_and_stop_tokens(engine: VLLMEngine, model) -> None:
    publish(engine, 2, model)
    asked = [[7] * 5, [7] * (CONTEXT - 3), [7] * CONTEXT, [7] * (CONTEXT + 9)]
    answers = generate_all(engine, asked, seeds=range(4), max_new_tokens=10, stop_tokens=set())
    assert [len(a.tokens) for a in answers] == [10, 3, 0, 0]
    assert not any(a.stopped for a in answers)
    first = answers[0].tokens[0]
    (stopped,) = generate_all(engine, asked[:1], seeds=[0], max_new_tokens=10, stop_tokens={first})
    assert_same([stopped], [Generation(tokens=[first], logprobs=answers[0].logprobs[:1], stopped=True)])
    assert generate_all(engine, [], seeds=[], max_new_tokens=5, stop_tokens=set()) == []
    with pytest.raises(EctypeError, match="empty context"):
        generate_all(engine, [[]], seeds=[0], max_new_tokens=5, stop_tokens=set())


def test_a_server_that_dies_comes_back_with_the_same_weights(engine: VLLMEngine, model) -> None:
    with torch.no_grad():
        model.gpt.decoder.final_layernorm.weight *= 0.5
    publish(engine, 3, model)
    before = generate(engine)
    (server,) = psutil.Process(engine._server._process.pid).children()  # pyright: ignore[reportOptionalMemberAccess]
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    after = generate(engine)
    assert_same(after, before)
    assert differences(model, contexts(), after, 0.7).max() < FP32_TOLERANCE
    assert engine.version == 3


def test_bf16(folder: Path, tmp_path: Path) -> None:
    model = load(folder, torch.bfloat16)
    engine = start(folder, "bfloat16", tmp_path / "server.log")
    try:
        publish(engine, 0, model)
        found = differences(model, contexts(), generate(engine), 0.7)
    finally:
        engine.close()
    assert found.mean() < BF16_MEAN and found.max() < BF16_LARGEST
