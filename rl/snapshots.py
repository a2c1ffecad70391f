"""Snapshots of a tuning: the parameters that learn, with their optimizer state, and nothing of what is frozen.

In: a model of which some layers learn. Out: a folder `epoch-000003` with one file of every rank and the caller's state,
complete or not there at all. Unlike a checkpoint of `rl.checkpoint` it needs the base model and the same layout to be
loaded again, and is as small as what has changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from audit.errors import EctypeError
from rl import parallel
from rl.models import MegatronModel

STATE = "state"


def save(root: Path, model: MegatronModel, state: bytes, *, number: int, keep: int) -> None:
    """Write `root/epoch-<number>` and delete all but the newest `keep`. Every rank must call it; `state` of rank 0
    counts. Raises EctypeError when the disk refuses; what was there before is then untouched."""
    partial, final = root / f".epoch-{number:06d}.partial", root / f"epoch-{number:06d}"
    if parallel.rank() == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    dist.barrier()
    assert model.optimizer is not None
    tensors = {f"weight.{name}": parameter.detach() for name, parameter in _learning(model)}
    for name, (first, second) in model.optimizer.moments.items():
        tensors |= {f"first.{name}": first, f"second.{name}": second}
    tensors["steps"] = torch.tensor(model.optimizer.steps)
    try:
        file = partial / f"rank-{parallel.rank()}.safetensors"
        save_file({name: tensor.cpu().contiguous().clone() for name, tensor in tensors.items()}, str(file))
        _flush(file)
        dist.barrier()
        if parallel.rank() == 0:
            (partial / STATE).write_bytes(state)
            _flush(partial / STATE)
            partial.rename(final)
            _flush(root)
            for old in _all(root)[:-keep]:
                shutil.rmtree(old)
    except OSError as error:
        raise EctypeError(
            f"cannot write a snapshot: {error.strerror}",
            where=str(final),
            remedy="make room; tuning goes on from the newest one",
        ) from error
    dist.barrier()


def latest(root: Path) -> Path | None:
    """The newest snapshot, or None."""
    found = _all(root)
    return found[-1] if found else None


def state_of(folder: Path) -> bytes:
    return (folder / STATE).read_bytes()


@torch.no_grad()
def load(folder: Path, model: MegatronModel) -> None:
    """Put a snapshot back into a model of the same base and layout. Every rank must call it."""
    assert model.optimizer is not None
    with safe_open(str(folder / f"rank-{parallel.rank()}.safetensors"), "pt") as content:
        for name, parameter in _learning(model):
            parameter.copy_(content.get_tensor(f"weight.{name}"))

        def both(name: str) -> tuple[Tensor, Tensor]:
            first, second = (content.get_tensor(f"{kind}.{name}") for kind in ("first", "second"))
            return first.to(model.device), second.to(model.device)

        model.optimizer.set_moments({name: both(name) for name in model.optimizer.owned})
        model.optimizer.steps = int(content.get_tensor("steps"))
    model.weights_written()


def _learning(model: MegatronModel) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.gpt.named_parameters() if parameter.requires_grad)


def _all(root: Path) -> list[Path]:
    """Complete snapshots, oldest first."""
    return sorted(root.glob("epoch-*")) if root.is_dir() else []


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
