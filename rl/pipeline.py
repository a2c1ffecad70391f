"""One batch of packs through the stages of a pipeline: forward only, or forward and backward with few packs in flight.

In: packs and a function that runs this rank's stage on one of them. Every stage of a pipeline is given the same packs
in the same order, so each knows the shape of what it will receive: packs of unequal length need neither padding nor
a message about their size. Training follows the one-forward-one-backward schedule (PipeDream-Flush; Narayanan et
al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters", figure 4), in which stage s of S holds the
activations of at most S - s packs. A send and a receive between the same two stages are one batch, as NCCL needs it;
on gloo the same code runs. With one stage nothing is sent and each pack goes forward and backward by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from rl import parallel
from rl.packing import Pack

Stage = Callable[[Pack, Tensor | None], Tensor]
"""(pack, hidden states from the stage before; None on the first) -> hidden states, or of the last stage its result."""

Blank = Callable[[Pack], Tensor]
"""An empty tensor of the shape and type that the hidden states of a pack have between stages."""


def forward(packs: Sequence[Pack], stage: Stage, blank: Blank) -> list[Tensor]:
    """Results of all packs on the last stage; nothing on the others."""
    results = []
    for pack in packs:
        received = None if parallel.is_first_stage() else blank(pack)
        _exchange(before=(None, received))
        out = stage(pack, received)
        if parallel.is_last_stage():
            results.append(out)
        else:
            _exchange(after=(out, None))
    return results


def forward_backward(packs: Sequence[Pack], stage: Stage, blank: Blank) -> None:
    """Run every pack forward and backward; gradients are accumulated where autograd puts them.

    The last stage's result is the loss of the pack, the others' are hidden states.
    """
    first, last = parallel.is_first_stage(), parallel.is_last_stage()
    ahead = min(parallel.pp_size() - 1 - parallel.pp_rank(), len(packs))
    todo = deque(packs)
    in_flight: deque[tuple[Pack, Tensor | None, Tensor]] = deque()

    def next_input() -> Tensor | None:
        return None if first or not todo else blank(todo[0])

    def run(received: Tensor | None) -> Tensor:
        pack = todo.popleft()
        if received is not None:
            received.requires_grad_()
        out = stage(pack, received)
        in_flight.append((pack, received, out))
        return out.detach()

    def next_gradient() -> Tensor | None:
        return None if last else blank(in_flight[0][0])

    def back(gradient: Tensor | None) -> Tensor | None:
        _, received, out = in_flight.popleft()
        out.backward(gradient)
        if received is None:
            return None
        return torch.zeros_like(received) if received.grad is None else received.grad

    for _ in range(ahead):
        received = next_input()
        _exchange(before=(None, received))
        _exchange(after=(run(received), None))
    received = next_input()
    _exchange(before=(None, received))
    while todo:
        out = run(received)
        gradient = next_gradient()
        if not last:
            _exchange(after=(out, gradient))
        gradient = back(gradient)
        received = next_input()
        _exchange(before=(gradient, received))
    while in_flight:
        gradient = next_gradient()
        _exchange(after=(None, gradient))
        _exchange(before=(back(gradient), None))


def _exchange(
    *,
    before: tuple[Tensor | None, Tensor | None] = (None, None),
    after: tuple[Tensor | None, Tensor | None] = (None, None),
) -> None:
    """Send the first and fill the second of each pair, with the stage before and the stage after; waits for both."""
    operations = []
    for neighbour, (outgoing, incoming) in ((-1, before), (1, after)):
        if outgoing is None and incoming is None:
            continue
        rank = parallel.stage_rank(parallel.pp_rank() + neighbour)
        if outgoing is not None:
            operations.append(dist.P2POp(dist.isend, outgoing.contiguous(), rank, parallel.pp_group()))
        if incoming is not None:
            operations.append(dist.P2POp(dist.irecv, incoming, rank, parallel.pp_group()))
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()
