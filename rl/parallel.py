"""torch.distributed and Megatron's process groups: set up, asked about, taken down. Nothing else touches them.

In: the tensor- and pipeline-parallel sizes; ranks come from torchrun's environment, and without it there is one.
Out: which device, which stage and which share of the work this rank has. The backend is NCCL with CUDA and gloo
without; the world of one needs no port and no network. Small collectives over the data-parallel and pipeline groups
live here.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Mapping
from datetime import timedelta
from typing import cast

import torch
import torch.distributed as dist
from megatron.core import parallel_state as mpu
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from torch import Tensor

from audit.errors import EctypeError

FOR_EVER = timedelta(days=3650)
"""For waiting that has no bound of its own; a rank that dies closes its connections, which ends the wait."""


def init(
    *,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    sequence: bool = False,
    threads: int = 0,
    timeout_s: float = 1800.0,
) -> None:
    """Join the world (torchrun's, or one of our own) and split it into tensor-, pipeline-, context- and data-parallel
    groups.

    `sequence`: tensor-parallel ranks also share out the tokens wherever a layer treats each by itself. Megatron's
    layers do it with CUDA only; `EctypeError` without.
    `threads`: CPU threads of torch in this process; 0 leaves torch's own choice. `timeout_s`: how long a rank waits
    for the others inside an operation; between operations (`control_group`) it waits without a bound. Calling it
    again with the same sizes does nothing; with other sizes, or a world that they do not divide, raises `EctypeError`.
    """
    if threads:
        torch.set_num_threads(threads)
    if sequence and not torch.cuda.is_available():
        raise EctypeError(
            "sequence parallelism needs a GPU", where="parallel.sequence", remedy="set parallel.sequence to false"
        )
    if mpu.model_parallel_is_initialized():
        have = (tp_size(), pp_size(), cp_size())
        if have != (tp, pp, cp):
            raise EctypeError(
                f"this process already runs with tp={have[0]} pp={have[1]} cp={have[2]}, not tp={tp} pp={pp} cp={cp}",
                where="parallel",
                remedy="start another process for another layout",
            )
        return
    world = int(os.environ.get("WORLD_SIZE", "1"))
    group = tp * pp * cp
    if world % group:
        raise EctypeError(
            f"{world} ranks cannot be split into groups of tp={tp} x pp={pp} x cp={cp} = {group}",
            where="parallel.tp, parallel.pp, parallel.cp",
            remedy=f"start {group} ranks or a multiple, or choose sizes whose product divides {world}",
        )
    if torch.cuda.is_available():
        torch.cuda.set_device(device())
    if not dist.is_initialized():
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        if world == 1:
            store = dist.HashStore()  # pyright: ignore[reportPrivateImportUsage]
            dist.init_process_group(backend, store=store, rank=0, world_size=1)
        else:
            dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    for name in ("control", "background"):
        _groups[name] = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=FOR_EVER))
    mpu.initialize_model_parallel(
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
        context_parallel_size=cp,
        distributed_timeout_minutes=math.ceil(timeout_s / 60),
    )
    _sequence[0] = sequence
    if sequence:
        # the layers fork Megatron's random state, although nothing in them is random here
        model_parallel_cuda_manual_seed(0)


_sequence = [False]
_groups: dict[str, dist.ProcessGroup] = {}
"""Groups of all ranks beside the default one, by what they are for; on gloo, whatever the backend."""


def control_group() -> dist.ProcessGroup:
    """All ranks, for what rank 0 tells the others to do next: they may wait for it as long as a rollout takes."""
    return _groups["control"]


def background_group() -> dist.ProcessGroup:
    """All ranks, for a thread that runs beside the training: messages of two threads must not share a group."""
    return _groups["background"]


def destroy() -> None:
    """Leave the world. Harmless when there is none."""
    if mpu.model_parallel_is_initialized():
        mpu.destroy_model_parallel()
    _groups.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def device() -> torch.device:
    """Where this rank's tensors live."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def rank() -> int:
    """Global rank; 0 leads: it plays the episodes and writes the files."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def tp_size() -> int:
    return mpu.get_tensor_model_parallel_world_size()


def tp_rank() -> int:
    return mpu.get_tensor_model_parallel_rank()


def pp_size() -> int:
    return mpu.get_pipeline_model_parallel_world_size()


def pp_rank() -> int:
    """Pipeline stage: 0 embeds, the last one gives log-probs or values."""
    return mpu.get_pipeline_model_parallel_rank()


def is_first_stage() -> bool:
    return pp_rank() == 0


def is_last_stage() -> bool:
    return pp_rank() == pp_size() - 1


def sequence_parallel() -> bool:
    """Whether tensor-parallel ranks share out the tokens between the parts of a layer that they split."""
    return _sequence[0] and tp_size() > 1


def cp_size() -> int:
    return mpu.get_context_parallel_world_size()


def cp_rank() -> int:
    """Which tokens of a pack are this rank's, see `rl.context`."""
    return mpu.get_context_parallel_rank()


def cp_group() -> dist.ProcessGroup:
    return cast(dist.ProcessGroup, mpu.get_context_parallel_group())


def grad_group() -> dist.ProcessGroup:
    """The ranks that hold the same parameters and see other tokens: data- and context-parallel ones."""
    return cast(dist.ProcessGroup, mpu.get_data_parallel_group(with_context_parallel=True))


def grad_size() -> int:
    return mpu.get_data_parallel_world_size(with_context_parallel=True)


def grad_rank() -> int:
    return mpu.get_data_parallel_rank(with_context_parallel=True)


def dp_size() -> int:
    return mpu.get_data_parallel_world_size()


def dp_rank() -> int:
    return mpu.get_data_parallel_rank()


def tp_group() -> dist.ProcessGroup:
    return cast(dist.ProcessGroup, mpu.get_tensor_model_parallel_group())


def pp_group() -> dist.ProcessGroup:
    return cast(dist.ProcessGroup, mpu.get_pipeline_model_parallel_group())


def stage_rank(stage: int) -> int:
    """Global rank of a stage of this rank's pipeline."""
    return dist.get_global_rank(pp_group(), stage)


def dp_group() -> dist.ProcessGroup:
    return cast(dist.ProcessGroup, mpu.get_data_parallel_group())


def sum_over_dp(stats: Mapping[str, float]) -> dict[str, float]:
    """Add statistics up over the data-parallel ranks; a rank that has no entry for a name contributes nothing."""
    if dp_size() == 1:
        return dict(stats)
    gathered: list[Mapping[str, float]] = [{} for _ in range(dp_size())]
    dist.all_gather_object(gathered, dict(stats), group=dp_group())
    total: dict[str, float] = {}
    for part in gathered:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def agree(decision: bool) -> bool:
    """Rank 0's decision, on every rank: where rounding might let them differ, and a rank would wait for ever."""
    if world() == 1:
        return decision
    told = torch.tensor([float(decision)], device=device())
    dist.broadcast(told, src=0)
    return bool(told.item())


def sum_over_ends(tensor: Tensor) -> None:
    """Add a tensor of the first stage and its counterpart of the last one up, in place; other stages do nothing."""
    if is_first_stage() or is_last_stage():
        dist.all_reduce(tensor, group=mpu.get_embedding_group())


def tell_stages(told: dict[str, float]) -> dict[str, float]:
    """What the last stage of the pipeline says, on every stage."""
    if pp_size() == 1:
        return told
    message = [told]
    dist.broadcast_object_list(message, src=stage_rank(pp_size() - 1), group=pp_group())
    return message[0]


def from_last_stage(tensor: Tensor) -> Tensor:
    """Fill a tensor, on every stage, with what the last stage of the pipeline has in it."""
    if pp_size() > 1:
        dist.broadcast(tensor, src=stage_rank(pp_size() - 1), group=pp_group())
    return tensor


def memory_peak_mib() -> float:
    """Most memory that a rank has held so far: of its device, or of its process where there is none. Every rank."""
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**20
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    told = torch.tensor([peak], dtype=torch.float64, device=device())
    if world() > 1:
        dist.all_reduce(told, dist.ReduceOp.MAX)
    return told.item()
