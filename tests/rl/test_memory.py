"""What grows with what: peaks of torch's allocator, to the byte the same on every machine."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from rl.attention import _per_sequence
from rl.logprobs import logprobs_and_entropy
from rl.models import MegatronModel, OptimizerConfig
from rl.packing import make_packs, sample
from tests.rl.megatron_data import SHAPE, losses
from tests.rl.memory import allocated

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]


def test_logits_never_exist_for_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward: neither once nor, on the way back, again."""
    vocab, width, chunk = 4000, 8, 64
    monkeypatch.setattr("rl.logprobs.CHUNK_ELEMENTS", chunk * vocab)
    weight = torch.randn(vocab, width, requires_grad=True)

    def peak(tokens: int) -> int:
        hidden = torch.randn(tokens, width, requires_grad=True)
        targets = torch.randint(0, vocab, (tokens,))

        def run() -> None:
            logprobs, entropy = logprobs_and_entropy(hidden, weight, targets)
            (logprobs + entropy).sum().backward()

        return allocated(run)

    few, many = peak(128), peak(4096)
    logits = 4096 * vocab * 4
    assert many < logits / 10
    assert many - few < 4096 * 4 * (2 * width + 16), "what grows is a few numbers per token"


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_attention_of_a_long_sequence_is_linear_in_its_length(dtype: torch.dtype, kv_heads: int) -> None:
    def peak(length: int) -> int:
        q = torch.randn(length, 4, 16, dtype=dtype, requires_grad=True)
        k, v = (torch.randn(length, kv_heads, 16, dtype=dtype, requires_grad=True) for _ in range(2))
        return allocated(lambda: _per_sequence(q, k, v, [length], 0.25).sum().backward())

    short, long = peak(1024), peak(4096)
    assert long < 5 * short
    assert long < 4096 * 4096 * dtype.itemsize, "not even one head's scores"


def test_memory_of_a_step_follows_the_tokens_and_not_how_they_are_spread() -> None:
    """Same number of tokens, any skew, within 10 %."""
    total = 1024
    shape = msgspec.structs.replace(SHAPE, max_positions=total)
    model = MegatronModel(shape, optimizer=OptimizerConfig(lr=1e-3))
    rng = np.random.default_rng(0)
    spreads = {
        "one": [total],
        "equal": [32] * 32,
        "one long": [total // 2, *[16] * 32],
        "a few and single tokens": [600, 300, *[1] * 124],
        "several packs": [total // 4] * 8,
    }
    peaks = {}
    for name, lengths in spreads.items():
        batch = [
            sample(rng.integers(0, shape.vocab, n), np.r_[0, np.ones(n - 1)], advantages=np.ones(n)) for n in lengths
        ]
        packs, loss = make_packs(batch, total), losses(batch)[0]
        peaks[name] = allocated(lambda p=packs, f=loss: model.train_step(p, f))
    assert max(peaks.values()) < 1.1 * min(peaks.values()), peaks
