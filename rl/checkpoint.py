"""Checkpoints: models, optimizers and the trainer's own state, complete or not there at all.

In: named models, a blob of the trainer, a step. Out: a folder `step-000120` with Megatron distributed-checkpoint
files (weights and both Adam moments by parameter, so that another layout can load them), `extra` (the blob) and the
marker `complete`, written last. The folder is made under another name, flushed to disk and renamed, so a kill at any
moment leaves either all of it or a folder that `latest` ignores and the next save removes.
`begin` copies the state to memory and returns; a thread of every rank writes the copy while training goes on, with a
process group of its own, so that its messages never meet those of the training. No helper process is started.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial as bind
from pathlib import Path
from typing import Any

import msgspec
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.core import CheckpointingConfig, save_config
from megatron.core.dist_checkpointing.mapping import ShardedStateDict, ShardedTensor, ShardedTensorFactory
from megatron.core.dist_checkpointing.strategies.async_utils import AsyncRequest
from megatron.core.dist_checkpointing.strategies.torch import (
    MCoreSavePlanner,
    TorchDistSaveShardedStrategy,
    _replace_state_dict_keys_with_sharded_keys,
    mcore_to_pyt_state_dict,
)
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save as torch_save

from audit.errors import EctypeError
from rl import parallel
from rl.models import MegatronModel, ModelShape

log = logging.getLogger(__name__)

FORMAT = 1
BACKEND = "torch_dist", 1
"""Megatron's name and version of the format of the tensors."""
REPLACED = ".replaced"
"""Suffix of a complete checkpoint while another of the same step takes its place."""

_writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
"""Its thread is waited for when the interpreter exits: a write in flight is finished."""


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of `complete`: what is in the folder. `optimizer_steps` by model, absent for one that does not train."""

    format: int
    step: int
    shapes: dict[str, ModelShape]
    optimizer_steps: dict[str, int]


def save(root: Path, models: Mapping[str, MegatronModel], extra: bytes, *, step: int, keep: int) -> Path:
    """`begin`, and wait for it."""
    return begin(root, models, extra, step=step, keep=keep).result()


def begin(root: Path, models: Mapping[str, MegatronModel], extra: bytes, *, step: int, keep: int) -> Future[Path]:
    """Copy everything, then write `root/step-<step>` in the background and delete all but the newest `keep` complete
    ones. Every rank must call it, and not again before its last write is done.

    `extra` of rank 0 counts. This rank holds a copy of its share of the state in memory until the write is done.
    `EctypeError`, here or as the outcome of the future, when the disk refuses; then the previous checkpoints are
    untouched.
    """
    final = root / f"step-{step:06d}"
    partial = root / f".{final.name}.partial"
    with _explained(final, partial):
        if parallel.rank() == 0:
            root.mkdir(parents=True, exist_ok=True)
            for stale in root.glob(".step-*.partial"):
                shutil.rmtree(stale)
            partial.mkdir()
        dist.barrier()
        with _quiet():
            request = dist_checkpointing.save(
                _sharded_state(models), str(partial), _CopyThenWrite(*BACKEND), async_sharded_save=True
            )
        assert request is not None and request.async_fn is not None
    marker = Marker(
        format=FORMAT,
        step=step,
        shapes={name: model.shape for name, model in models.items()},
        optimizer_steps={n: m.optimizer.steps for n, m in models.items() if m.optimizer is not None},
    )
    files = {"extra": extra, "complete": msgspec.json.encode(marker)}
    return _writer.submit(_write, request.async_fn, files, final, partial, keep)


def _write(
    write_tensors: Callable[[], object], files: Mapping[str, bytes], final: Path, partial: Path, keep: int
) -> Path:
    """What the background thread of every rank does; the last of `files` says that all is there."""
    try:
        with _explained(final, partial):
            write_tensors()
            if parallel.rank() == 0:
                save_config(CheckpointingConfig(*BACKEND), str(partial))
                for name, content in files.items():
                    (partial / name).write_bytes(content)
                _flush([*partial.iterdir(), partial])
                _put(partial, final)
                for old in _complete(final.parent)[:-keep]:
                    shutil.rmtree(old)
            dist.barrier(parallel.background_group())
    except EctypeError as error:
        log.error("%s", error.what)
        raise
    return final


def _put(partial: Path, final: Path) -> None:
    """Rename; the same step of an earlier attempt gives way, and is complete under one name or the other meanwhile."""
    replaced = final.with_name(final.name + REPLACED)
    if final.exists():
        if replaced.exists():
            shutil.rmtree(replaced)
        final.rename(replaced)
    partial.rename(final)
    _flush([final.parent])
    if replaced.exists():
        shutil.rmtree(replaced)


@contextmanager
def _explained(final: Path, partial: Path) -> Iterator[None]:
    """Turn what the disk says into an `EctypeError`, and remove what was written so far."""
    try:
        yield
    except (OSError, CheckpointException) as error:
        shutil.rmtree(partial, ignore_errors=True)
        there = next(folder for folder in final.parents if folder.is_dir())
        raise EctypeError(
            f"cannot write a checkpoint ({shutil.disk_usage(there).free >> 20} MiB free): {_reason(error)}",
            where=str(final),
            remedy="make room on this file system, or run where there is some; training resumes from the newest "
            "complete checkpoint",
        ) from error


def latest(root: Path) -> Path | None:
    """The newest complete checkpoint under `root`, or None."""
    found = _complete(root)
    return found[-1] if found else None


def load(folder: Path, models: Mapping[str, MegatronModel]) -> bytes:
    """Fill `models` (weights, moments, step count) from a checkpoint of any layout; returns `extra`.

    Raises `EctypeError` when the checkpoint holds other models, other shapes or is of another format.
    """
    marker = _read_marker(folder)
    for name, model in models.items():
        if marker.shapes.get(name) != model.shape:
            raise EctypeError(
                f"the checkpoint's {name} has the shape {marker.shapes.get(name)}, the configuration asks for "
                f"{model.shape}",
                where=str(folder),
                remedy="start a new run for another model",
            )
    state = _sharded_state(models)
    with _quiet():
        loaded: Any = dist_checkpointing.load(state, str(folder))
    for name, model in models.items():
        for key, parameter in model.gpt.named_parameters():
            parameter.data.copy_(loaded[f"{name}.weight.{key}"])
        model.weights_written()
        if model.optimizer is not None:
            model.optimizer.set_moments(
                {k: (loaded[f"{name}.first.{k}"], loaded[f"{name}.second.{k}"]) for k in model.optimizer.owned}
            )
            model.optimizer.steps = marker.optimizer_steps[name]
    return (folder / "extra").read_bytes()


def _sharded_state(models: Mapping[str, MegatronModel]) -> ShardedStateDict:
    """Every parameter and moment with its place in the whole tensor; Megatron knows the place of the parameters."""
    state: dict[str, Any] = {}
    metadata = {"dp_cp_group": parallel.grad_group()}
    for name, model in models.items():
        shards = model.gpt.sharded_state_dict(metadata=metadata)
        moments = model.optimizer.moments if model.optimizer is not None else {}
        for key, parameter in model.gpt.named_parameters():
            state[f"{name}.weight.{key}"] = _elsewhere(shards[key], f"{name}.weight", parameter.detach())
        for key, both in moments.items():
            for kind, moment in zip(("first", "second"), both, strict=True):
                shard = _elsewhere(shards[key], f"{name}.{kind}", moment)
                if model.optimizer is not None and model.optimizer.sharded and isinstance(shard.replica_id, tuple):
                    # nobody else has it
                    shard = replace(shard, replica_id=(*shard.replica_id[:-1], 0))
                state[f"{name}.{kind}.{key}"] = shard
    return state


def _elsewhere(
    shard: ShardedTensor | ShardedTensorFactory, prefix: str, data: Tensor
) -> ShardedTensor | ShardedTensorFactory:
    if isinstance(shard, ShardedTensor):
        return replace(shard, key=f"{prefix}.{shard.key}", data=data, dtype=data.dtype)
    return replace(shard, key=f"{prefix}.{shard.key}", data=data)


class _CopyThenWrite(TorchDistSaveShardedStrategy):
    """Megatron's torch_dist format written by torch's own writer: the stock one forks processes to write files."""

    def async_save(self, sharded_state_dict: ShardedStateDict, checkpoint_dir: str | Path) -> AsyncRequest:
        renamed, _, _ = _replace_state_dict_keys_with_sharded_keys(sharded_state_dict, self.keep_only_main_replica)
        for shards in renamed.values():
            for shard in shards:
                assert isinstance(shard, ShardedTensor) and shard.data is not None
                shard.data = shard.data.detach().to("cpu", copy=True)
        write = bind(
            torch_save,
            mcore_to_pyt_state_dict(renamed, False),
            storage_writer=FileSystemWriter(checkpoint_dir, sync_files=True),
            planner=MCoreSavePlanner(
                dedup_replicated_tensors=not self.keep_only_main_replica, flatten_state_dict=False
            ),
            process_group=parallel.background_group(),
        )
        return AsyncRequest(write, (), [])


@contextmanager
def _quiet() -> Iterator[None]:
    """Megatron uses what torch is about to deprecate, and torch says so at every call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _reason(error: OSError | CheckpointException) -> str:
    """torch wraps what happened on each rank; the first of them is the story."""
    if isinstance(error, CheckpointException):
        return "; ".join(f"rank {rank}: {failure[0]}" for rank, failure in error.failures.items())
    return error.strerror or str(error)


def _complete(root: Path) -> list[Path]:
    """Folders with a marker, oldest first. One that is being replaced comes before the one of the same step."""
    if not root.is_dir():
        return []
    found = []
    for folder in root.iterdir():
        match = re.fullmatch(rf"step-(\d{{6,}})({re.escape(REPLACED)})?", folder.name)
        if match and (folder / "complete").is_file():
            found.append((int(match[1]), match[2] is None, folder))
    return [folder for _, _, folder in sorted(found)]


def _read_marker(folder: Path) -> Marker:
    try:
        raw = (folder / "complete").read_bytes()
        marker = msgspec.json.decode(raw, type=Marker)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError) as error:
        raise EctypeError(
            f"not a checkpoint that this version can read: {error}",
            where=str(folder),
            remedy="resume from a folder that `latest` finds, with the version of ectype that wrote it",
        ) from error
    if marker.format != FORMAT:
        raise EctypeError(
            f"checkpoint of format {marker.format}, this version reads {FORMAT}",
            where=str(folder),
            remedy="use the version of ectype that wrote it",
        )
    return marker


def _flush(paths: Iterable[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
