"""The output of a critic: one number per hidden state, or a distribution over bins of returns (HL-Gauss).

In: hidden states. Out: raw outputs [.., outputs] in fp32, and what they mean as values. The head is whole on every
tensor-parallel rank and says the same everywhere at first: 0, or the middle of the bins.
"""

from __future__ import annotations

import math

import msgspec
import torch
import torch.nn.functional as F
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint
from torch import Tensor


class ValueSupport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bins of a categorical head: `bins` of equal width, of which those from `low` to `high` hold the returns.

    ceil(4 sigma) bins on either side hold the tails of the bells around returns at the very ends; without them the
    expectation of a target would be pulled inwards. `sigma` is in widths of a bin; 0.75 reaches about six bins.
    """

    bins: int
    low: float
    high: float
    sigma: float = 0.75

    @property
    def width(self) -> float:
        return (self.high - self.low) / (self.bins - 2 * math.ceil(4 * self.sigma))

    def edges(self, device: torch.device | None = None) -> Tensor:
        """float64 [bins + 1]"""
        start = self.low - math.ceil(4 * self.sigma) * self.width
        return start + self.width * torch.arange(self.bins + 1, dtype=torch.float64, device=device)


class ValueHead(torch.nn.Linear):
    """It stands where Megatron has its output layer, hence the signature of `forward`."""

    def __init__(self, config: TransformerConfig, support: ValueSupport | None = None) -> None:
        super().__init__(config.hidden_size, support.bins if support else 1, dtype=config.params_dtype)
        self.support = support
        torch.nn.init.zeros_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> tuple[Tensor, None]:
        out = F.linear(input, self.weight, self.bias)
        return out.to(torch.promote_types(out.dtype, torch.float32)), None

    def values(self, raw: Tensor) -> Tensor:
        """What outputs [.., outputs] mean as values [..]: the number itself, or the expectation over the bins."""
        if self.support is None:
            return raw[..., 0]
        edges = self.support.edges(raw.device)
        centers = (edges[1:] + edges[:-1]) / 2
        return raw.softmax(-1) @ centers.to(raw.dtype)

    def sharded_state_dict(self, prefix: str = "", sharded_offsets: tuple = (), metadata: dict | None = None) -> dict:
        return make_sharded_tensors_for_checkpoint(self.state_dict(keep_vars=True), prefix, {}, sharded_offsets)
