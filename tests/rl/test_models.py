from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from audit.errors import EctypeError
from rl.logprobs import logprobs_and_entropy
from rl.losses import supervised_loss
from rl.models import MegatronModel, OptimizerConfig, PackOutputs
from rl.packing import Pack, make_packs, sample
from tests.rl.megatron_data import SHAPE, losses, samples

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
F64 = torch.float64


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [10**9, 64 * 7])
def test_logprobs_and_entropy_and_their_gradients(
    monkeypatch: pytest.MonkeyPatch, temperature: float, chunk: int
) -> None:
    monkeypatch.setattr("rl.logprobs.CHUNK_ELEMENTS", chunk)
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(40, 16, generator=g, dtype=F64).requires_grad_()
    weight = torch.randn(64, 16, generator=g, dtype=F64).requires_grad_()
    targets = torch.randint(0, 64, (40,), generator=g)
    up = torch.randn(2, 40, generator=g, dtype=F64)

    def grads(logprobs: torch.Tensor, entropy: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad((logprobs * up[0] + entropy * up[1]).sum(), (hidden, weight)))

    ours = logprobs_and_entropy(hidden, weight, targets, temperature=temperature)
    log_p = F.log_softmax(hidden @ weight.T / temperature, -1)
    plain = log_p.gather(-1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)
    for a, b in zip([*ours, *grads(*ours)], [*plain, *grads(*plain)], strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=0)
    only = logprobs_and_entropy(hidden, weight, targets, temperature=temperature)[0]
    alone = F.log_softmax(hidden @ weight.T / temperature, -1).gather(-1, targets[:, None])
    a, b = (torch.autograd.grad(x.sum(), hidden)[0] for x in (only, alone))
    torch.testing.assert_close(a, b, atol=1e-11, rtol=0)


def test_outputs_are_aligned_with_their_token_and_packing_does_not_matter() -> None:
    actor, critic = (MegatronModel(SHAPE, critic=c, seed=3, dtype=F64) for c in (False, True))
    torch.nn.init.normal_(critic.value_head.weight)
    batch = samples()
    together = make_packs(batch, 250)
    assert len(together) < len(batch)
    for pack, logprobs, values in zip(together, actor.logprobs(together), critic.values(together), strict=True):
        pieces = zip(pack.indices, pack.split(logprobs.numpy()), pack.split(values.numpy()), strict=True)
        for index, lp, v in pieces:
            one = batch[index]
            alone = make_packs([one], 1)
            np.testing.assert_allclose(lp, actor.logprobs(alone)[0].numpy(), atol=1e-10)
            np.testing.assert_allclose(v, critic.values(alone)[0].numpy(), atol=1e-10)
            # by hand: log-softmax of the logits at the token before; 0 where the policy did not act
            hidden = actor._hidden(alone[0])
            log_p = F.log_softmax(hidden @ actor.output_weight.T, -1)
            expected = np.zeros(len(one.tokens))
            for i in np.flatnonzero(one.action_mask):
                expected[i] = log_p[i - 1, one.tokens[i]].item()
            np.testing.assert_allclose(lp, expected, atol=1e-10)
            raw = critic.value_head(critic._hidden(alone[0]))[0][:, 0].detach()
            np.testing.assert_allclose(v, np.r_[0.0, raw[:-1].numpy()], atol=1e-10)
            with_final, final = critic.values_and_final(alone)[0]
            np.testing.assert_allclose(with_final.numpy(), v, atol=1e-10)
            np.testing.assert_allclose(final.numpy(), raw[-1:].numpy(), atol=1e-10)


def test_a_token_sees_nothing_that_follows_or_belongs_to_others() -> None:
    model = MegatronModel(SHAPE, seed=0, dtype=F64)
    tokens = np.arange(20) % SHAPE.vocab
    other = tokens.copy()
    other[12:] = 5
    mask = np.r_[0, np.ones(19)]
    a, b = (model.logprobs(make_packs([sample(t, mask), sample(t[:3], mask[:3])], 99))[0] for t in (tokens, other))
    torch.testing.assert_close(a[:12], b[:12])
    assert not torch.allclose(a[13:20], b[13:20])


@pytest.mark.parametrize("critic", [False, True])
def test_any_split_gives_the_same_gradient(critic: bool) -> None:
    """fp64, 1e-10: one pack, many packs, another order. The first Adam moment is the gradient times 0.1."""
    batch = samples()
    loss = losses(batch)[critic]
    results = []
    for budget, order in ((10**6, 1), (1, 1), (130, -1)):
        model = MegatronModel(SHAPE, critic=critic, seed=3, dtype=F64, optimizer=OptimizerConfig(lr=1e-3))
        if critic:
            torch.nn.init.normal_(model.value_head.weight, generator=torch.Generator().manual_seed(0))
        stats = model.train_step(make_packs(batch[::order], budget), loss)
        assert model.optimizer is not None
        results.append((stats, {k: first.clone() for k, (first, _) in model.optimizer.moments.items()}))
    (stats, moments), *others = results
    assert stats["skipped"] == 0 and stats["grad_norm"] > 0
    for other_stats, other_moments in others:
        assert other_stats == pytest.approx(stats, abs=1e-10)
        for name, first in moments.items():
            torch.testing.assert_close(other_moments[name], first, atol=1e-10, rtol=0)


def test_recomputing_layers_changes_nothing() -> None:
    batch = samples()
    stats = []
    for limit in (10**12, 0):
        model = MegatronModel(SHAPE, seed=3, dtype=F64, optimizer=OptimizerConfig(lr=1e-3))
        model._activation_limit = limit
        stats.append([model.train_step(make_packs(batch, 200), losses(batch)[0]) for _ in range(2)])
    assert stats[0] == stats[1]


def test_gradient_is_that_of_autograd_through_the_whole_model() -> None:
    """Against plain autograd on materialised logits, to know that no part of the graph is cut off."""
    batch = samples(3)
    packs = make_packs(batch, 10**6)
    model = MegatronModel(SHAPE, seed=1, dtype=F64, optimizer=OptimizerConfig(lr=0.0, clip_grad=1e9))
    model.train_step(packs, losses(batch)[0])
    assert model.optimizer is not None
    hidden = model._hidden(packs[0])
    log_p = F.log_softmax(hidden @ model.output_weight.T, -1)
    chosen = F.pad(log_p[:-1].gather(-1, torch.from_numpy(packs[0].tokens[1:])[:, None])[:, 0], (1, 0))
    entropy = F.pad(-(log_p.exp() * log_p).sum(-1)[:-1], (1, 0))
    out = PackOutputs(logprobs=chosen, entropy=entropy, values=chosen)
    loss, _ = losses(batch)[0](out, packs[0])
    parameters = dict(model.gpt.named_parameters())
    expected = torch.autograd.grad(loss, list(parameters.values()))
    for name, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(model.optimizer.moments[name][0], 0.1 * gradient, atol=1e-12, rtol=0)


def test_it_learns() -> None:
    model = MegatronModel(SHAPE, seed=0, optimizer=OptimizerConfig(lr=1e-2))
    tokens = np.random.default_rng(0).integers(0, SHAPE.vocab, 40)
    packs = make_packs([sample(tokens, np.r_[0, np.ones(39)])], 100)

    def loss(out: PackOutputs, pack: Pack):
        return supervised_loss(out.logprobs, torch.from_numpy(pack.action_mask), normalizer=39)

    history = [model.train_step(packs, loss)["nll"] for _ in range(40)]
    assert history[0] > 3.5 and history[-1] < 0.3


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    model = MegatronModel(SHAPE, seed=0, optimizer=OptimizerConfig(lr=1e-2))
    before = [p.clone() for p in model.gpt.parameters()]
    stats = model.train_step(make_packs(samples(2), 999), lambda out, pack: (out.logprobs.sum() * float("nan"), {}))
    assert stats["skipped"] == 1.0
    assert all(torch.equal(a, b) for a, b in zip(before, model.gpt.parameters(), strict=True))


def test_gradient_is_clipped_and_weight_decay_spares_vectors() -> None:
    batch = samples(4)
    packs = make_packs(batch, 999)
    config = OptimizerConfig(lr=1e-3, clip_grad=1e-3, weight_decay=10.0)
    model = MegatronModel(SHAPE, seed=0, optimizer=config)
    assert model.optimizer is not None
    norm = model.train_step(packs, losses(batch)[0])["grad_norm"]
    first = torch.cat([m.flatten() for m, _ in model.optimizer.moments.values()])
    assert norm > 1e-3 and first.norm().item() == pytest.approx(0.1 * 1e-3, rel=1e-4)
    idle = MegatronModel(SHAPE, seed=0, optimizer=config)
    before = {n: p.clone() for n, p in idle.gpt.named_parameters()}
    idle.train_step([], losses(batch)[0])
    for name, parameter in idle.gpt.named_parameters():
        factor = 1 - 1e-3 * 10.0 if parameter.ndim > 1 else 1.0
        torch.testing.assert_close(parameter.data, before[name] * factor)


def test_a_reset_optimizer_steps_like_a_new_one() -> None:
    batch = samples(4)
    packs, loss = make_packs(batch, 999), losses(batch)[0]
    used = MegatronModel(SHAPE, seed=0, optimizer=OptimizerConfig(lr=1e-3))
    for _ in range(3):
        used.train_step(packs, loss)
    fresh = MegatronModel(SHAPE, seed=1, optimizer=OptimizerConfig(lr=1e-2))
    fresh.copy_body(used)
    assert used.optimizer is not None
    used.optimizer.reset(1e-2)
    assert used.train_step(packs, loss) == fresh.train_step(packs, loss)
    assert all(torch.equal(a, b) for a, b in zip(used.gpt.parameters(), fresh.gpt.parameters(), strict=True))


def test_bfloat16_learns_with_full_precision_masters() -> None:
    batch = samples(4)
    packs = make_packs(batch, 999)
    models = [
        MegatronModel(SHAPE, seed=0, dtype=dtype, optimizer=OptimizerConfig(lr=1e-5))
        for dtype in (torch.bfloat16, torch.float32)
    ]
    for _ in range(3):
        half, full = (model.train_step(packs, losses(batch)[0]) for model in models)
        assert half["loss"] == pytest.approx(full["loss"], abs=0.02)
        assert half["grad_norm"] == pytest.approx(full["grad_norm"], rel=0.05)
    # steps of 1e-5 are lost in bfloat16 weights of size 0.02, not in their masters
    assert models[0].optimizer is not None
    assert models[0].optimizer.steps == 3
    assert next(models[0].gpt.parameters()).dtype == torch.bfloat16


def test_critic_takes_over_the_body_and_starts_at_zero() -> None:
    actor = MegatronModel(SHAPE, seed=5)
    critic = MegatronModel(SHAPE, critic=True, seed=6, optimizer=OptimizerConfig(lr=1e-3))
    critic.copy_body(actor)
    packs = make_packs(samples(3), 999)
    assert all(not values.any() for values in critic.values(packs))
    torch.testing.assert_close(critic._hidden(packs[0]), actor._hidden(packs[0]))
    batch = samples(3)
    for _ in range(2):  # the first step moves only the head: as long as it is zero, nothing flows through it
        critic.train_step(packs, losses(batch)[1])
    assert critic.values(packs)[0].any()
    assert not torch.equal(critic.gpt.embedding.word_embeddings.weight, actor.gpt.embedding.word_embeddings.weight), (
        "actor and critic share nothing"
    )


def test_same_seed_same_weights_and_the_callers_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, different = (MegatronModel(SHAPE, seed=s) for s in (7, 7, 8))
    assert torch.equal(torch.rand(1), expected)
    pairs = list(zip(first.gpt.parameters(), again.gpt.parameters(), different.gpt.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, c) for a, _, c in pairs)


def test_where_attention_costs_as_much_as_the_matrices() -> None:
    """Llama 3 8B by hand: queries and output, keys and values, three matrices of the MLP."""
    shape = msgspec.structs.replace(SHAPE, hidden=4096, heads=32, kv_heads=8, ffn=14336)
    assert 1 / shape.attention_weight == pytest.approx(2 * 4096 + 2 * 1024 + 3 * 14336)


@pytest.mark.parametrize(
    ("change", "tp", "pp", "words"),
    [
        ({}, 3, 1, ["tensor parallel size 3", "parallel.tp", "[1, 2]"]),
        ({"kv_heads": 1}, 2, 1, ["kv_heads = 1", "parallel.tp"]),
        ({"kv_heads": 3}, 1, 1, ["4 heads", "3 key/value heads"]),
        ({"hidden": 30}, 1, 1, ["hidden size 30"]),
        ({}, 1, 3, ["pipeline parallel size 3", "2 layers", "parallel.pp", "[1, 2]"]),
    ],
)
def test_impossible_shapes_are_refused(change: dict[str, int], tp: int, pp: int, words: list[str]) -> None:
    with pytest.raises(EctypeError) as caught:
        msgspec.structs.replace(SHAPE, **change).validate(tp, pp)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.remedy


def test_a_sequence_beyond_the_positions_is_refused() -> None:
    model = MegatronModel(SHAPE, seed=0)
    n = SHAPE.max_positions + 1
    with pytest.raises(EctypeError, match="positions"):
        model.logprobs(make_packs([sample([1] * n, [0] + [1] * (n - 1))], 999))
