from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from audit.errors import EctypeError
from rl.engine import MegatronEngine
from rl.models import MegatronModel, ModelShape
from rl.packing import make_packs, sample
from rl.rollout import Generation, Request, generate_all
from tests.rl.megatron_data import SHAPE

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]

SHAPES = {
    "grouped": SHAPE,
    "multi-head, untied, biased": msgspec.structs.replace(SHAPE, kv_heads=4, tied=False, qkv_bias=True),
    "one kv head, one layer": msgspec.structs.replace(SHAPE, kv_heads=1, layers=1),
}


def build(shape: ModelShape = SHAPE, seed: int = 0) -> MegatronModel:
    model = MegatronModel(shape, seed=seed)
    g = torch.Generator().manual_seed(seed)
    for parameter in model.gpt.parameters():  # sharper than at initialisation, norms and biases not trivial
        parameter.data += torch.randn(parameter.shape, generator=g) * 0.2
    return model


def contexts(count: int, longest: int = 50, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, SHAPE.vocab, rng.integers(1, longest)).tolist() for _ in range(count)]


def check_against_training_forward(
    model: MegatronModel, asked: list[list[int]], answers: list[Generation], temperature: float
) -> None:
    packs = make_packs(
        [
            sample(c + g.tokens, [0] * len(c) + [1] * len(g.tokens), logprobs=[0.0] * len(c) + g.logprobs)
            for c, g in zip(asked, answers, strict=True)
        ],
        512,
    )
    for pack, logprobs in zip(packs, model.logprobs(packs, temperature=temperature), strict=True):
        np.testing.assert_allclose(pack.logprobs, logprobs.numpy(), atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_equal_those_of_the_training_forward(shape: ModelShape, temperature: float) -> None:
    model = build(shape)
    asked = [*contexts(17), [5], [5], [5, 6]]
    answers = generate_all(
        MegatronEngine(model), asked, seeds=range(20), max_new_tokens=40, stop_tokens={1, 2, 3}, temperature=temperature
    )
    check_against_training_forward(model, asked, answers, temperature)
    lengths = {len(a.tokens) for a in answers}
    assert len(lengths) > 5, "rows of this test should end at different times"
    for answer in answers:
        assert answer.stopped == (answer.tokens[-1] in {1, 2, 3})
        assert not {1, 2, 3} & set(answer.tokens[:-1])
        assert answer.stopped or len(answer.tokens) == 40


def test_the_same_seed_gives_the_same_action_in_any_company() -> None:
    model = build()
    asked = contexts(12)
    options = {"max_new_tokens": 20, "stop_tokens": {1, 2}}
    together = generate_all(MegatronEngine(model), asked, seeds=range(12), **options)
    for engine in (MegatronEngine(model), MegatronEngine(model, cache_bytes=1)):
        order = list(reversed(range(12)))
        again = generate_all(engine, [asked[i] for i in order], seeds=order, **options)
        assert [a.tokens for a in again] == [together[i].tokens for i in order]
    alone = [generate_all(MegatronEngine(model), [c], seeds=[i], **options)[0] for i, c in enumerate(asked)]
    assert [a.tokens for a in alone] == [a.tokens for a in together]
    other = generate_all(MegatronEngine(model), asked, seeds=range(100, 112), **options)
    assert [a.tokens for a in other] != [a.tokens for a in together]


def test_finished_sequences_leave_and_new_ones_enter() -> None:
    """Requests that arrive while others are generated for get the tokens they would get alone; each is delivered when
    it ends, not with its batch; the cache never holds more than its budget."""
    model = build()
    asked = contexts(14)
    limits = [3, 40, 5, 1, 30, 9, 2, 20, 4, 0, 7, 3, 16, 6]
    requests = [Request(c, i, n) for i, (c, n) in enumerate(zip(asked, limits, strict=True))]
    alone = [
        generate_all(MegatronEngine(model), [c], seeds=[i], max_new_tokens=n, stop_tokens={1})[0]
        for i, (c, n) in enumerate(zip(asked, limits, strict=True))
    ]
    token_bytes = 2 * SHAPE.layers * SHAPE.kv_heads * SHAPE.head_dim * 4
    engine = MegatronEngine(model, cache_bytes=4 * 90 * token_bytes)
    largest = 0
    decode = engine._decode

    def watched(weights: Any, token: Any, rows: Any, cache: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, cache.numel() * cache.element_size())
        return decode(weights, token, rows, cache)

    engine._decode = watched
    arrivals = [requests[:5], [], requests[5:6], [], [], requests[6:13], [], requests[13:]]
    numbered = iter(range(14))
    done: dict[int, Generation] = {}
    order: list[int] = []

    def poll() -> list[tuple[int, Request]]:
        return [(next(numbered), request) for request in arrivals.pop(0)] if arrivals else []

    def deliver(key: int, generation: Generation) -> None:
        done[key] = generation
        order.append(key)

    engine.serve(poll, deliver, stop_tokens={1})
    assert [done[i].tokens for i in range(14)] == [a.tokens for a in alone]
    check_against_training_forward(model, asked, [done[i] for i in range(14)], 1.0)
    assert order.index(5) < order.index(1), "a later, shorter one is done before an earlier, longer one"
    assert 0 < largest <= 4 * 90 * token_bytes


def test_equal_contexts_are_sampled_independently() -> None:
    model = build()
    answers = generate_all(MegatronEngine(model), [[4, 9]] * 8, seeds=range(8), max_new_tokens=10, stop_tokens=set())
    assert len({tuple(a.tokens) for a in answers}) == 8
    check_against_training_forward(model, [[4, 9]] * 8, answers, 1.0)


def test_it_samples_the_distribution_of_the_model() -> None:
    model = build()
    context, draws = [4, 9, 2], 4000
    answers = generate_all(
        MegatronEngine(model), [context] * draws, seeds=range(draws), max_new_tokens=1, stop_tokens=set()
    )
    packs = make_packs([sample([*context, t], [0, 0, 0, 1]) for t in range(SHAPE.vocab)], 10**6)
    probabilities = np.exp(model.logprobs(packs)[0].numpy()[3::4])
    probabilities = probabilities[np.argsort(packs[0].indices)]
    assert probabilities.sum() == pytest.approx(1, abs=1e-4)
    counts = np.bincount([a.tokens[0] for a in answers], minlength=SHAPE.vocab)
    error = np.sqrt(draws * probabilities * (1 - probabilities))
    assert (np.abs(counts - draws * probabilities) < 5 * error + 1).all()


def test_limits() -> None:
    model = build()
    full = SHAPE.max_positions
    asked = [[7] * 5, [7] * (full - 3), [7] * full, [7] * (full + 4)]
    answers = generate_all(MegatronEngine(model), asked, seeds=range(4), max_new_tokens=10, stop_tokens=set())
    assert [len(a.tokens) for a in answers] == [10, 3, 0, 0]
    assert not any(a.stopped for a in answers)
    check_against_training_forward(model, asked[:2], answers[:2], 1.0)
    short = generate_all(
        MegatronEngine(model), asked[:1], seeds=[0], max_new_tokens=10, stop_tokens=set(), max_total_tokens=9
    )
    assert len(short[0].tokens) == 4
    assert generate_all(MegatronEngine(model), [], seeds=[], max_new_tokens=5, stop_tokens=set()) == []
    with pytest.raises(EctypeError, match="empty context"):
        generate_all(MegatronEngine(model), [[]], seeds=[0], max_new_tokens=5, stop_tokens=set())


def test_every_call_reads_the_weights_as_they_are() -> None:
    model = build()
    engine = MegatronEngine(model)
    asked = contexts(3)
    generate_all(engine, asked, seeds=range(3), max_new_tokens=10, stop_tokens=set())
    with torch.no_grad():
        for parameter in model.gpt.parameters():
            parameter += 0.05
    answers = generate_all(engine, asked, seeds=range(3), max_new_tokens=10, stop_tokens=set())
    check_against_training_forward(model, asked, answers, 1.0)
