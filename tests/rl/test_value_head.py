from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl import checkpoint
from rl.losses import categorical_value_loss, hl_gauss, value_loss
from rl.models import MegatronModel, OptimizerConfig
from rl.packing import Pack, Sample, make_packs
from rl.value_head import ValueSupport
from tests.rl.megatron_data import SHAPE, samples

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]
SUPPORT = ValueSupport(bins=26, low=-1.0, high=3.0)


def critic(support: ValueSupport | None = SUPPORT, **options: Any) -> MegatronModel:
    return MegatronModel(
        SHAPE,
        critic=True,
        seed=3,
        dtype=torch.float64,
        optimizer=OptimizerConfig(lr=1e-2),
        value_support=support,
        **options,
    )


def loss_of(batch: list[Sample], support: ValueSupport | None = SUPPORT):
    normalizer = float(sum(s.action_mask.sum() for s in batch))

    def loss(out: Any, pack: Pack) -> Any:
        returns, mask = torch.from_numpy(pack.returns), torch.from_numpy(pack.action_mask)
        if support is None:
            return value_loss(out.values, out.values.detach(), returns, mask, clip=None, normalizer=normalizer)
        return categorical_value_loss(
            out.value_outputs,
            returns,
            mask,
            edges=support.edges(),
            sigma=support.sigma * support.width,
            normalizer=normalizer,
        )

    return loss


def test_the_bins_leave_room_for_the_tails() -> None:
    # 26 bins, 3 on either side outside: 20 from -1 to 3
    assert SUPPORT.width == pytest.approx(0.2)
    edges = SUPPORT.edges()
    assert (edges[0].item(), edges[3].item(), edges[23].item(), edges[26].item()) == pytest.approx((-1.6, -1, 3, 3.6))


@pytest.mark.parametrize("value", [-1.0, 0.0, 0.123, 3.0])
def test_the_expectation_of_a_target_is_its_return(value: float) -> None:
    target = hl_gauss(torch.tensor([value], dtype=torch.float64), SUPPORT.edges(), SUPPORT.sigma * SUPPORT.width)
    head = critic().value_head
    assert head.values(target.log())[0].item() == pytest.approx(value, abs=2e-4)


def test_a_categorical_critic_starts_in_the_middle_and_learns_the_returns() -> None:
    batch = samples(5)
    for one in batch:
        one.returns = np.where(one.tokens % 2, 2.0, -0.5).astype(np.float32)
    model = critic()
    packs = make_packs(batch, 500)
    acts = np.concatenate([p.action_mask for p in packs]) > 0
    before = torch.cat(model.values(packs)).numpy()[acts]
    np.testing.assert_allclose(before, 1.0, atol=1e-12)
    history = [model.train_step(packs, loss_of(batch))["value_loss"] for _ in range(60)]
    assert history[-1] < 0.5 * history[0] and min(history) >= 0
    final = [v for _, values in model.values_and_final(packs) for v in values.tolist()]
    assert all(-1.6 < v < 3.6 for v in final)


def test_any_split_gives_the_same_gradient() -> None:
    batch = samples(6)
    weights = []
    for budget in (100, 5000):
        model = critic()
        torch.nn.init.normal_(model.value_head.weight, generator=torch.Generator().manual_seed(0))
        model.weights_written()
        norms = [model.train_step(make_packs(batch, budget), loss_of(batch))["grad_norm"] for _ in range(2)]
        weights.append((norms, [p.detach().clone() for p in model.gpt.parameters()]))
    assert weights[0][0] == pytest.approx(weights[1][0], abs=1e-10)
    for one, other in zip(weights[0][1], weights[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("support", [None, SUPPORT])
def test_frozen_attention_stays_and_has_no_state(support: ValueSupport | None, tmp_path: Path) -> None:
    batch = samples(4)
    model = critic(support, freeze_attention=True)
    before = {name: p.detach().clone() for name, p in model.gpt.named_parameters()}
    for _ in range(3):
        model.train_step(make_packs(batch, 500), loss_of(batch, support))
    moved = {name for name, p in model.gpt.named_parameters() if not torch.equal(p, before[name])}
    attention = {name for name in before if ".self_attention." in name}
    assert attention and moved == set(before) - attention
    assert model.optimizer is not None and set(model.optimizer.moments) == moved

    folder = checkpoint.save(tmp_path, {"critic": model}, b"", step=3, keep=1)
    other = critic(support, freeze_attention=True)
    checkpoint.load(folder, {"critic": other})
    for one, same in zip(model.gpt.parameters(), other.gpt.parameters(), strict=True):
        assert torch.equal(one, same)
    again = [m.train_step(make_packs(batch, 500), loss_of(batch, support)) for m in (model, other)]
    assert again[0] == again[1]
