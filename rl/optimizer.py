"""AdamW over one flat buffer: the parameters of a model are views into it, and so are their gradients.

In: a model's parameters. Out: one gradient sum over the data-parallel ranks, one norm, one fused update per step,
whatever the number of parameters: the overhead per tensor is what a small model spends its time on. Parameters in
half precision get fp32 master weights and fp32 gradient sums. Every data-parallel rank holds the whole state; the
moments are exposed per parameter, so that a checkpoint can be loaded at another layout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter

from rl import parallel


class OptimizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    lr: float
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    """Applies to matrices, not to norms and biases."""
    clip_grad: float = 1.0
    """Largest norm of the gradient over all parameters; larger ones are scaled down to it."""


class FlatAdamW:
    def __init__(self, named_parameters: Sequence[tuple[str, Parameter]], config: OptimizerConfig) -> None:
        self._clip = config.clip_grad
        # sharded before replicated, matrices before vectors: then every segment that is treated alike is one slice
        named = sorted(named_parameters, key=lambda entry: (entry[1].ndim < 2, not _sharded(entry[1])))
        sizes = [p.numel() for _, p in named]
        total = sum(sizes)
        model_dtype = named[0][1].dtype
        master_dtype = torch.promote_types(model_dtype, torch.float32)
        device = named[0][1].device
        self._master = torch.empty(total, dtype=master_dtype, device=device)
        self._grad, first, second = (torch.zeros_like(self._master) for _ in range(3))
        self._half: list[tuple[Parameter, Tensor]] = []
        self._views: dict[str, tuple[Tensor, Tensor]] = {}
        self._sharded: list[Tensor] = []
        self._replicated: list[Tensor] = []
        start = 0
        for (name, parameter), size in zip(named, sizes, strict=True):
            span = slice(start, start + size)
            master, grad = (flat[span].view(parameter.shape) for flat in (self._master, self._grad))
            master.copy_(parameter.data)
            if model_dtype == master_dtype:
                parameter.data = master
                parameter.grad = grad
            else:
                self._half.append((parameter, master))
                parameter.register_post_accumulate_grad_hook(_accumulate_into(grad))
            (self._sharded if _sharded(parameter) else self._replicated).append(grad)
            self._views[name] = (first[span].view(parameter.shape), second[span].view(parameter.shape))
            start += size
        decayed = sum(size for (_, p), size in zip(named, sizes, strict=True) if p.ndim >= 2)
        spans = (slice(0, decayed), slice(decayed, total))
        groups = [Parameter(self._master[span]) for span in spans]
        self._adam = torch.optim.AdamW(
            [
                {"params": groups[:1], "weight_decay": config.weight_decay},
                {"params": groups[1:], "weight_decay": 0.0},
            ],
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            fused=True,
        )
        for group, span in zip(groups, spans, strict=True):
            group.grad = self._grad[span]
            self._adam.state[group] = {
                "step": torch.zeros((), dtype=torch.float32, device=device),
                "exp_avg": first[span],
                "exp_avg_sq": second[span],
            }

    def zero_grad(self) -> None:
        self._grad.zero_()

    @torch.no_grad()
    def step(self) -> float:
        """Sum the gradients over data-parallel ranks, clip, update. Returns the norm before clipping.

        With a norm that is not finite nothing is updated: one bad batch must not destroy the weights.
        """
        if parallel.dp_size() > 1:
            dist.all_reduce(self._grad, group=parallel.dp_group())
        norm = self._grad_norm()
        if not math.isfinite(norm):
            return norm
        if norm > self._clip:
            self._grad.mul_(self._clip / norm)
        self._adam.step()
        self.refresh_half()
        return norm

    def reset(self, lr: float) -> None:
        """Forget all moments: how PPO starts after a supervised warm start."""
        for first, second in self._views.values():
            first.zero_()
            second.zero_()
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
    def moments(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Parameter name -> (first, second) moment, views that may be written to."""
        return self._views

    def refresh_master(self) -> None:
        """After the model's weights were written to from outside."""
        for parameter, master in self._half:
            master.copy_(parameter.data)

    def refresh_half(self) -> None:
        for parameter, master in self._half:
            parameter.data.copy_(master)

    def _grad_norm(self) -> float:
        total = _square_sum(self._sharded, self._grad)
        if parallel.tp_size() > 1:
            dist.all_reduce(total, group=parallel.tp_group())
        return float((total + _square_sum(self._replicated, self._grad)).sqrt())


def _sharded(parameter: Parameter) -> bool:
    """Whether tensor-parallel ranks hold different parts of it (else each holds all of it, and it counts once)."""
    return bool(getattr(parameter, "tensor_model_parallel", False))


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
