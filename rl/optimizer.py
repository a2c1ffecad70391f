"""AdamW over one flat buffer: the parameters of a model are views into it, and so are their gradients.

In: a model's parameters. Out: one gradient sum over the data-parallel ranks, one norm, one fused update per step,
whatever the number of parameters: the overhead per tensor is what a small model spends its time on. Parameters in
half precision get fp32 master weights and fp32 gradient sums. With `shard_over_dp` each data-parallel rank holds the
moments and masters of a contiguous part of the buffer, updates it and shares the new weights (ZeRO, stage 1:
Rajbhandari et al. 2020); the numbers are the same. For a checkpoint the moments come whole, by parameter, so that
it can be loaded at any other layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from rl import parallel

# torch 2.13 gave them new names
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class OptimizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    lr: float
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    """Applies to matrices, not to norms and biases."""
    clip_grad: float = 1.0
    """Largest norm of the gradient over all parameters; larger ones are scaled down to it."""
    shard_over_dp: bool = True
    """Share moments and masters out over data- and context-parallel ranks. Without such ranks it means nothing."""


@dataclass(frozen=True)
class Placement:
    """How a parameter relates to its counterparts on other ranks; as default there are none."""

    split: bool = False
    """Tensor-parallel ranks hold different parts of it."""
    partial: bool = False
    """Tensor-parallel ranks hold all of it, and each computes a part of its gradient."""
    copy: bool = False
    """Another pipeline stage holds the same parameter, and counts it."""


class FlatAdamW:
    def __init__(
        self,
        named_parameters: Sequence[tuple[str, Parameter]],
        config: OptimizerConfig,
        placement: Mapping[str, Placement] | None = None,
    ) -> None:
        self._clip = config.clip_grad
        place = {name: (placement or {}).get(name, Placement()) for name, _ in named_parameters}
        # split before whole, matrices before vectors: then every segment that is treated alike is one slice
        named = sorted(named_parameters, key=lambda entry: (entry[1].ndim < 2, not place[entry[0]].split))
        self._shapes = {name: p.shape for name, p in named}
        self._spans: dict[str, tuple[int, int]] = {}
        end = 0
        for name, parameter in named:
            self._spans[name] = (end, end + parameter.numel())
            end += parameter.numel()
        decayed = sum(p.numel() for _, p in named if p.ndim >= 2)
        self._shares = parallel.grad_size() if config.shard_over_dp else 1
        self._share = -(-end // self._shares)
        rank = parallel.grad_rank() if self._shares > 1 else 0
        self._own = (rank * self._share, (rank + 1) * self._share)

        model_dtype, device = named[0][1].dtype, named[0][1].device
        wide = torch.promote_types(model_dtype, torch.float32)
        self._weights = torch.zeros(self._share * self._shares, dtype=model_dtype, device=device)
        self._grad = torch.zeros_like(self._weights, dtype=wide)
        self.grads: dict[str, Tensor] = {}
        """Gradient sums of this rank by parameter, views."""
        for name, parameter in named:
            span = slice(*self._spans[name])
            weight, grad = (flat[span].view(parameter.shape) for flat in (self._weights, self._grad))
            weight.copy_(parameter.data)
            parameter.data = weight
            self.grads[name] = grad
            if model_dtype == wide:
                parameter.grad = grad
            else:
                parameter.register_post_accumulate_grad_hook(_accumulate_into(grad))
        self._partial = [self.grads[name] for name, _ in named if place[name].partial]
        self._counted = [name for name, _ in named if not place[name].copy]
        self._split = {name for name, _ in named if place[name].split}

        mine = slice(*self._own)
        self._own_weights = self._weights[mine]
        self._master = self._own_weights if model_dtype == wide else self._own_weights.to(wide)
        self._own_grad = self._grad[mine]
        self._first, self._second = (torch.zeros_like(self._master) for _ in range(2))
        self._groups: list[Parameter] = []
        groups = []
        for start, stop, decay in ((0, decayed, config.weight_decay), (decayed, end, 0.0)):
            span = self._within_own(start, stop)
            self._groups.append(Parameter(self._master[span]))
            groups.append({"params": self._groups[-1:], "weight_decay": decay})
        self._adam = torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
        for group, (start, stop) in zip(self._groups, ((0, decayed), (decayed, end)), strict=True):
            span = self._within_own(start, stop)
            group.grad = self._own_grad[span]
            self._adam.state[group] = {
                "step": torch.zeros((), dtype=torch.float32, device=device),
                "exp_avg": self._first[span],
                "exp_avg_sq": self._second[span],
            }

    def zero_grad(self) -> None:
        self._grad.zero_()

    @torch.no_grad()
    def step(self) -> float:
        """Sum the gradients over data- and context-parallel ranks, clip, update. Returns the norm before clipping.

        With a norm that is not finite nothing is updated: one bad batch must not destroy the weights.
        """
        if parallel.tp_size() > 1:
            for grad in self._partial:
                dist.all_reduce(grad, group=parallel.tp_group())
        if self._shares > 1:
            _reduce_scatter(self._own_grad, self._grad, group=parallel.grad_group())
        elif parallel.grad_size() > 1:
            dist.all_reduce(self._grad, group=parallel.grad_group())
        norm = self._grad_norm()
        if not math.isfinite(norm):
            return norm
        if norm > self._clip:
            self._own_grad.mul_(self._clip / norm)
        self._adam.step()
        if self._master is not self._own_weights:
            self._own_weights.copy_(self._master)
        if self._shares > 1:
            _all_gather(self._weights, self._own_weights, group=parallel.grad_group())
        return norm

    def reset(self, lr: float) -> None:
        """Forget all moments: how PPO starts after a supervised warm start."""
        self._first.zero_()
        self._second.zero_()
        self.steps = 0
        self.set_lr(lr)

    def set_lr(self, lr: float) -> None:
        for group in self._adam.param_groups:
            group["lr"] = lr

    @property
    def steps(self) -> int:
        return int(next(iter(self._adam.state.values()))["step"].item())

    @steps.setter
    def steps(self, value: int) -> None:
        for state in self._adam.state.values():
            state["step"].fill_(value)

    @property
    def state_bytes(self) -> int:
        """What this rank holds beside weights and gradients."""
        masters = 0 if self._master is self._own_weights else self._master.nbytes
        return self._first.nbytes + self._second.nbytes + masters

    def refresh_master(self) -> None:
        """After the model's weights were written to from outside."""
        if self._master is not self._own_weights:
            self._master.copy_(self._own_weights)

    # --- moments by parameter -------------------------------------------------------------------------------------

    @property
    def sharded(self) -> bool:
        """Whether each data-parallel rank has a part of the moments only."""
        return self._shares > 1

    @property
    def owned(self) -> list[str]:
        """The parameters whose moments this data-parallel rank gives to a checkpoint, and takes from it: all, or those
        that begin in its part of the buffer."""
        low, high = self._own
        return [name for name, (start, _) in self._spans.items() if low <= start < high]

    @property
    @torch.no_grad()
    def moments(self) -> dict[str, tuple[Tensor, Tensor]]:
        """(first, second) moment of every owned parameter, in its shape. Every data-parallel rank must call it.

        Where a parameter lies in this rank's part they are views, and what is written to them counts; a parameter that
        reaches into the parts of others is put together in new tensors.
        """
        whole: dict[str, Tensor] = {}
        for name, rank, span in self._pieces():
            owner = self._spans[name][0] // self._share
            if rank == owner:
                continue
            piece = torch.empty(2, span[1] - span[0], dtype=self._first.dtype, device=self._first.device)
            if parallel.grad_rank() == rank:
                piece = torch.stack([flat[self._within_own(*span)] for flat in (self._first, self._second)])
                dist.send(piece, dist.get_global_rank(parallel.grad_group(), owner), group=parallel.grad_group())
            elif parallel.grad_rank() == owner:
                dist.recv(piece, dist.get_global_rank(parallel.grad_group(), rank), group=parallel.grad_group())
                if name not in whole:
                    whole[name] = self._begun(name)
                start = self._spans[name][0]
                whole[name][:, span[0] - start : span[1] - start] = piece
        out = {}
        for name in self.owned:
            span = self._within_own(*self._spans[name])
            flat = whole[name] if name in whole else (self._first[span], self._second[span])
            out[name] = (flat[0].view(self._shapes[name]), flat[1].view(self._shapes[name]))
        return out

    @torch.no_grad()
    def set_moments(self, moments: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """Take over the moments of the owned parameters. Every data-parallel rank must call it with its own."""
        for name, (first, second) in moments.items():
            span = self._within_own(*self._spans[name])
            size = span.stop - span.start
            self._first[span].copy_(first.flatten()[:size])
            self._second[span].copy_(second.flatten()[:size])
        for name, rank, span in self._pieces():
            owner, start = self._spans[name][0] // self._share, self._spans[name][0]
            if rank == owner:
                continue
            if parallel.grad_rank() == owner:
                piece = torch.stack([m.flatten()[span[0] - start : span[1] - start] for m in moments[name]])
                dist.send(piece, dist.get_global_rank(parallel.grad_group(), rank), group=parallel.grad_group())
            elif parallel.grad_rank() == rank:
                piece = torch.empty(2, span[1] - span[0], dtype=self._first.dtype, device=self._first.device)
                dist.recv(piece, dist.get_global_rank(parallel.grad_group(), owner), group=parallel.grad_group())
                self._first[self._within_own(*span)] = piece[0]
                self._second[self._within_own(*span)] = piece[1]

    def _pieces(self) -> Iterator[tuple[str, int, tuple[int, int]]]:
        """(parameter, rank, its range in the buffer) wherever a parameter lies in the part of a rank, in order."""
        if self._shares == 1:
            return
        for name, (start, end) in self._spans.items():
            for rank in range(start // self._share, (end - 1) // self._share + 1):
                yield name, rank, (max(start, rank * self._share), min(end, (rank + 1) * self._share))

    def _begun(self, name: str) -> Tensor:
        """Both moments of a parameter in a new tensor [2, elements] that holds this rank's part so far."""
        span = self._within_own(*self._spans[name])
        whole = torch.empty(2, self._shapes[name].numel(), dtype=self._first.dtype, device=self._first.device)
        whole[0, : span.stop - span.start] = self._first[span]
        whole[1, : span.stop - span.start] = self._second[span]
        return whole

    def _within_own(self, start: int, stop: int) -> slice:
        """A range of the buffer, as far as this rank has it, counted from the beginning of its part."""
        low, high = self._own
        begin = min(max(start, low), high)
        return slice(begin - low, max(begin, min(stop, high)) - low)

    def _grad_norm(self) -> float:
        split, whole = [], []
        for name in self._counted:
            span = self._within_own(*self._spans[name])
            if span.stop > span.start:
                (split if name in self._split else whole).append(self._own_grad[span])
        sums = torch.stack([_square_sum(split, self._grad), _square_sum(whole, self._grad)])
        if self._shares > 1:
            dist.all_reduce(sums, group=parallel.grad_group())
        if parallel.pp_size() > 1:
            dist.all_reduce(sums, group=parallel.pp_group())
        if parallel.tp_size() > 1:
            split_sum = sums[0].clone()
            dist.all_reduce(split_sum, group=parallel.tp_group())
            sums[0] = split_sum
        return float(sums.sum().sqrt())


def _square_sum(parts: list[Tensor], like: Tensor) -> Tensor:
    if not parts:
        return torch.zeros((), dtype=like.dtype, device=like.device)
    norms = torch._foreach_norm(parts)  # pyright: ignore[reportPrivateImportUsage]
    return torch.stack(norms).square().sum()


def _accumulate_into(grad: Tensor):
    def hook(parameter: Tensor) -> None:
        assert parameter.grad is not None
        grad.add_(parameter.grad)
        parameter.grad = None

    return hook
