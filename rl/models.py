"""Actor and critic: one Megatron-Core GPT model with an output of log-probs or of values, and how it learns.

In: packs of sequences (`rl.packing`). Out: log-probs, entropies or values of every token, all aligned with the token
they are about; or one optimizer step. The model is Megatron's own `GPTModel` with its tensor-parallel layers and its
local layer spec; only the core attention is ours (`rl.attention`). The training step around it is plain PyTorch
instead of Megatron's DDP, schedule and optimizers: those need CUDA in many places, cost more than the mathematics of
a small model, and their distributed optimizer reloads wrongly without Transformer Engine. One flat gradient buffer,
one sum and one fused AdamW (`rl.optimizer`) and a short pipeline schedule (`rl.pipeline`) do the same on CPU and GPU,
in any tensor-, pipeline- and data-parallel layout. With several pipeline stages each rank holds some of the layers;
the first stage embeds, the last one gives log-probs or values, and everybody is told what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from torch import Tensor

from audit.errors import EctypeError
from rl import context, parallel, parameters, pipeline
from rl.attention import PackedSequences
from rl.logprobs import logprobs_and_entropy
from rl.network import build, transformer_config
from rl.optimizer import FlatAdamW, OptimizerConfig, Placement
from rl.packing import Pack
from rl.parameters import global_name
from rl.shape import ModelShape
from rl.value_head import ValueHead, ValueSupport

__all__ = ["MegatronModel", "ModelShape", "OptimizerConfig", "PackOutputs", "ValueSupport"]


@dataclass
class PackOutputs:
    """What a loss function is given of one pack, all [tokens]; an actor has no values, a critic nothing else.

    `logprobs` and `entropy` are computed for action tokens and 0 elsewhere; `values` for all but the first token of
    each sequence, where it is 0. `value_outputs` [tokens, outputs] is what the critic's head said, which the values
    follow from (logits over bins, if it is a categorical one); an actor has none.
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor
    value_outputs: Tensor | None = None


LossFunction = Callable[[PackOutputs, Pack], tuple[Tensor, dict[str, Tensor]]]
"""-> (loss to differentiate, statistics). Both must be additive over packs and ranks, see `rl.losses`."""


class MegatronModel:
    """An actor (`critic=False`) or a critic. Without an optimizer configuration it cannot train and holds no state.

    The weights depend on `seed` only, not on the layout. `initialize=False` leaves them undefined, for a caller that
    loads them anyway. A critic with `value_support` has a categorical head; with `freeze_attention` the projections
    of its attention do not learn and have no optimizer state. With `train_layers` only the last so many layers, the
    final norm and an output matrix of its own learn (one pipeline stage only).
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        critic: bool = False,
        seed: int = 0,
        optimizer: OptimizerConfig | None = None,
        dtype: torch.dtype = torch.float32,
        initialize: bool = True,
        value_support: ValueSupport | None = None,
        freeze_attention: bool = False,
        train_layers: int | None = None,
    ) -> None:
        shape.validate(parallel.tp_size(), parallel.pp_size())
        assert train_layers is None or parallel.pp_size() == 1, "a stage of frozen layers has nothing to learn"
        self.shape = shape
        self.frozen_layers = 0 if train_layers is None else max(0, shape.layers - train_layers)
        """Layers, from the bottom, that do not learn."""
        self.critic = critic
        self.dtype = dtype
        self.device = parallel.device()
        self.first_layer = parallel.pp_rank() * shape.layers // parallel.pp_size()
        """Number of this stage's first layer in the whole model."""
        config = transformer_config(shape, dtype)
        with torch.random.fork_rng(devices=[]):
            gpt = build(shape, config, critic, value_support)
            if initialize:
                torch.manual_seed(seed)
                # a value head has the name of an output matrix, and has been initialised
                named = {
                    global_name(name, self.first_layer): parameter
                    for name, parameter in gpt.named_parameters()
                    if not (critic and name.startswith("output_layer."))
                }
                parameters.initialize(
                    named,
                    config,
                    layers=shape.layers,
                    vocab=shape.vocab,
                    tied=shape.tied,
                    rank=parallel.tp_rank(),
                )
        self.gpt = gpt.to(self.device, dtype)
        self._shares_embedding = shape.tied and not critic and parallel.pp_size() > 1
        learning = []
        for name, parameter in self.gpt.named_parameters():
            frozen = (freeze_attention and _in_attention(name)) or not self._is_above(name)
            parameter.requires_grad_(optimizer is not None and not frozen)
            if parameter.requires_grad:
                learning.append((name, parameter))
        self.optimizer = FlatAdamW(learning, optimizer, self._placement()) if optimizer else None
        inverse = self.gpt.rotary_pos_emb.inv_freq.to(self.device)
        angles = torch.outer(torch.arange(shape.max_positions, device=self.device, dtype=torch.float32), inverse)
        self._activation_limit = _activation_limit(self.device)
        self.rope_angles = torch.cat([angles, angles], -1)[:, None, None]

    # --- inference ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self, packs: Sequence[Pack], *, temperature: float = 1.0) -> list[Tensor]:
        """Log-probs of the action tokens of each pack, [tokens], 0 for other tokens."""

        def stage(pack: Pack, received: Tensor | None) -> Tensor:
            states = self._hidden(pack, received)
            return self._outputs(pack, states, temperature).logprobs if parallel.is_last_stage() else states

        return self._told(packs, pipeline.forward(packs, stage, self._blank))

    @torch.no_grad()
    def values(self, packs: Sequence[Pack]) -> list[Tensor]:
        """V(state before token) for each pack, [tokens], 0 for the first token of each sequence."""
        return [values for values, _ in self.values_and_final(packs)]

    @torch.no_grad()
    def values_and_final(self, packs: Sequence[Pack]) -> list[tuple[Tensor, Tensor]]:
        """`values`, and beside them V(state after the last token) of each sequence, to bootstrap truncated ones."""

        def stage(pack: Pack, received: Tensor | None) -> Tensor:
            states = self._hidden(pack, received)
            if not parallel.is_last_stage():
                return states
            raw = context.gather(self._value_outputs(states), sum_gradients=False)[: len(pack.tokens)]
            return self.value_head.values(raw)

        out = []
        for pack, raw in zip(packs, self._told(packs, pipeline.forward(packs, stage, self._blank)), strict=True):
            starts = _starts(pack, self.device)
            out.append((_shift(raw, starts[:-1]), raw[starts[1:] - 1]))
        return out

    @torch.no_grad()
    def ending_logprobs(
        self, packs: Sequence[Pack], endings: Sequence[int], *, below: Sequence[Tensor] | None = None
    ) -> list[Tensor]:
        """Log-probs of each of the tokens `endings` in the place of the last token of each sequence,
        [sequences, endings]. `below`: see `states_below`. For one pipeline stage."""
        assert parallel.pp_size() == 1
        held = _by_pack(packs, below)
        out = []
        for pack in packs:
            states = self._hidden(pack, below=held.get(id(pack)))
            last = pack.cu_seqlens[1:] - 1
            mask = np.zeros_like(pack.action_mask)
            mask[last] = 1
            found = []
            for token in endings:
                tokens = pack.tokens.copy()
                tokens[last] = token
                ended = msgspec.structs.replace(pack, tokens=tokens, action_mask=mask)
                found.append(self._outputs(ended, states, 1.0).logprobs[torch.from_numpy(last).to(self.device)])
            out.append(torch.stack(found, -1))
        return out

    @torch.no_grad()
    def states_below(self, packs: Sequence[Pack]) -> list[Tensor]:
        """Hidden states of each pack under the layers that learn, [tokens, hidden]. They stay what they are, so who
        trains on the same sequences again may keep them, and skip the frozen layers. Without pipeline, context and
        sequence parallelism."""
        assert parallel.pp_size() == parallel.cp_size() == 1 and not parallel.sequence_parallel()
        out = []
        for pack in packs:
            positions, packed = self._places(pack)
            states = self._run(self._embedded(pack, 0), slice(0, self.frozen_layers), positions, packed)
            out.append(states[:, 0])
        return out

    # --- learning -------------------------------------------------------------------------------------------------

    def train_step(
        self,
        packs: Sequence[Pack],
        loss_fn: LossFunction,
        *,
        temperature: float = 1.0,
        below: Sequence[Tensor] | None = None,
    ) -> dict[str, float]:
        """One optimizer step over all packs of all data-parallel ranks; each rank passes its own (may be none).

        The stages of a pipeline must be given the same packs in the same order; `loss_fn` runs on the last stage.
        `below`: of each pack, what `states_below` gave.
        Returns the summed loss and statistics of the global batch, and `grad_norm` before clipping. `skipped` is 1
        when the gradient was not finite and the weights were left as they were.
        """
        assert self.optimizer is not None, "a model without an optimizer cannot train"
        self.optimizer.zero_grad()
        sums: dict[str, Tensor] = {}
        held = _by_pack(packs, below)

        def stage(pack: Pack, received: Tensor | None) -> Tensor:
            states = self._hidden(pack, received, below=held.get(id(pack)))
            if not parallel.is_last_stage():
                return states
            loss, stats = loss_fn(self._outputs(pack, states, temperature), pack)
            for name, value in {"loss": loss, **stats}.items():
                sums[name] = sums.get(name, 0) + value.detach().double()
            return loss

        pipeline.forward_backward(packs, stage, self._blank)
        if self._shares_embedding:
            for name in (parameters.EMBEDDING, parameters.OUTPUT):
                if name in self.optimizer.grads:
                    parallel.sum_over_ends(self.optimizer.grads[name])
        grad_norm = self.optimizer.step()
        total = parallel.tell_stages(parallel.sum_over_dp({name: value.item() for name, value in sums.items()}))
        return {**total, "grad_norm": grad_norm, "skipped": float(not math.isfinite(grad_norm))}

    def set_lr(self, lr: float) -> None:
        assert self.optimizer is not None
        self.optimizer.set_lr(lr)

    # --- weights --------------------------------------------------------------------------------------------------

    @property
    def output_weight(self) -> Tensor:
        """This rank's rows of the output matrix of an actor, [vocabulary / tp, hidden]. Only the last stage has it."""
        if self.shape.tied and parallel.is_first_stage():
            return self.gpt.embedding.word_embeddings.weight
        weight = self.gpt.output_layer.weight
        assert weight is not None
        return weight

    @property
    def value_head(self) -> ValueHead:
        """The output of a critic. Only the last pipeline stage has it."""
        head: Any = self.gpt.output_layer
        assert isinstance(head, ValueHead), "an actor has no value head"
        return head

    @torch.no_grad()
    def copy_body(self, other: MegatronModel) -> None:
        """Take over everything but the output from a model of the same shape: how a critic starts from the actor."""
        source = dict(other.gpt.named_parameters())
        for name, parameter in self.gpt.named_parameters():
            if not name.startswith("output_layer."):
                parameter.copy_(source[name])
        self.weights_written()

    def weights_written(self) -> None:
        """To be called after parameters were written to in place."""
        if self.optimizer is not None:
            self.optimizer.refresh_master()

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """This rank's parameters by their names in the whole model."""
        for name, parameter in self.gpt.named_parameters():
            yield global_name(name, self.first_layer), parameter

    def _is_above(self, parameter: str) -> bool:
        """Whether a parameter comes after the frozen layers; a matrix that is also the embedding does not."""
        if not self.frozen_layers:
            return True
        if parameter.startswith("decoder.layers."):
            return int(parameter.split(".")[2]) >= self.frozen_layers
        is_embedding = parameter == parameters.OUTPUT and self.shape.tied and not self.critic
        return not (is_embedding or parameter.startswith("embedding."))

    def _placement(self) -> dict[str, Placement]:
        last_of_several = self._shares_embedding and parallel.is_last_stage()
        return {
            local: Placement(
                # a value head has the name of an output matrix, and is whole everywhere
                split=parameters.split_dimension(name) is not None and not (self.critic and name == parameters.OUTPUT),
                partial=parameters.has_partial_gradient(name, parallel.sequence_parallel()),
                copy=last_of_several and name == parameters.OUTPUT,
            )
            for local, _ in self.gpt.named_parameters()
            for name in [global_name(local, self.first_layer)]
        }

    # --- forward --------------------------------------------------------------------------------------------------

    def _hidden(self, pack: Pack, received: Tensor | None = None, *, below: Tensor | None = None) -> Tensor:
        """Hidden states of a pack after this stage's layers, [tokens, hidden]; of the last stage the final ones.

        `received`: what the stage before computed; the first stage embeds the tokens instead. `below`: what
        `states_below` gave for this pack.
        """
        positions, packed = self._places(pack)
        if below is not None:
            states = self._run(below[:, None], slice(self.frozen_layers, None), positions, packed)
            norm = self.gpt.decoder.final_layernorm
            assert norm is not None
            return norm(states)[:, 0]
        if received is None:
            states = self._embedded(pack, sum(packed.lengths) - len(pack.tokens))
        else:
            states = received[:, None]
            self.gpt.decoder.set_input_tensor(states)
        states = self.gpt.decoder(
            hidden_states=states,
            attention_mask=None,
            rotary_pos_emb=self.rope_angles[positions],
            packed_seq_params=packed,
        )
        if parallel.is_last_stage() and parallel.sequence_parallel():
            # what follows is the same on every tensor-parallel rank, and so is its gradient
            states = gather_from_sequence_parallel_region(states, tensor_parallel_output_grad=False)
        return states[:, 0]

    def _places(self, pack: Pack) -> tuple[Tensor, PackedSequences]:
        """Positions of this rank's tokens in their sequences, and where the sequences begin; padding is one more."""
        lengths = pack.lengths
        if max(lengths) > self.shape.max_positions:
            raise EctypeError(
                f"a sequence of {max(lengths)} tokens is longer than the model's {self.shape.max_positions} positions",
                where="rollout.context_tokens",
                remedy="choose a context that the model can hold",
            )
        missing = -len(pack.tokens) % context.multiple()
        lengths = [*lengths, missing] if missing else lengths
        positions = self._own(torch.cat([torch.arange(n, device=self.device) for n in lengths]))
        starts = torch.tensor([0, *lengths], device=self.device).cumsum(0, dtype=torch.int32)
        packed = PackedSequences(cu_seqlens=starts, lengths=lengths)
        packed.recompute = torch.is_grad_enabled() and self._activation_bytes(len(positions)) > self._activation_limit
        return positions, packed

    def _embedded(self, pack: Pack, missing: int) -> Tensor:
        tokens = F.pad(torch.from_numpy(pack.tokens).to(self.device, torch.long), (0, missing))
        return self.gpt.embedding(input_ids=self._own(tokens)[None], position_ids=None)

    def _run(self, states: Tensor, layers: slice, positions: Tensor, packed: PackedSequences) -> Tensor:
        """Some of the layers, and nothing else of the decoder."""
        for layer in list(self.gpt.decoder.layers)[layers]:
            states, _ = layer(
                hidden_states=states,
                attention_mask=None,
                rotary_pos_emb=self.rope_angles[positions],
                packed_seq_params=packed,
            )
        return states

    def _own(self, padded: Tensor) -> Tensor:
        """This context-parallel rank's entries of something along the tokens of a padded pack."""
        if parallel.cp_size() == 1:
            return padded
        return torch.cat([padded[begin:end] for begin, end in context.own_ranges(len(padded))])

    def _blank(self, pack: Pack) -> Tensor:
        rows = len(pack.tokens) + -len(pack.tokens) % context.multiple()
        rows //= parallel.cp_size() * (parallel.tp_size() if parallel.sequence_parallel() else 1)
        return torch.empty(rows, self.shape.hidden, dtype=self.dtype, device=self.device)

    def _told(self, packs: Sequence[Pack], results: list[Tensor]) -> list[Tensor]:
        """The last stage's results, one number per token, on every stage."""
        if parallel.pp_size() == 1 or not packs:
            return results
        lengths = [len(pack.tokens) for pack in packs]
        wide = torch.promote_types(self.dtype, torch.float32)
        joined = torch.cat(results) if results else torch.empty(sum(lengths), dtype=wide, device=self.device)
        return list(parallel.from_last_stage(joined).split(lengths))

    def _activation_bytes(self, tokens: int) -> int:
        """What autograd would keep of a pack's forward pass, roughly (measured: within 20 %), times the packs that are
        in flight on this stage."""
        shape, tp, stages = self.shape, parallel.tp_size(), parallel.pp_size()
        split = 4 * shape.heads * shape.head_dim + 4 * shape.kv_heads * shape.head_dim + 5 * shape.ffn
        layers = (shape.layers - self.frozen_layers) // stages * (stages - parallel.pp_rank())
        return tokens * layers * (6 * shape.hidden + split // tp) * self.rope_angles.element_size()

    def _outputs(self, pack: Pack, hidden: Tensor, temperature: float) -> PackOutputs:
        tokens = len(pack.tokens)
        if self.critic:
            raw = context.gather(self._value_outputs(hidden), sum_gradients=False)[:tokens]
            starts = _starts(pack, self.device)[:-1]
            values = _shift(self.value_head.values(raw), starts)
            nothing = torch.zeros_like(values)
            return PackOutputs(logprobs=nothing, entropy=nothing, values=values, value_outputs=_shift(raw, starts))
        acts = torch.from_numpy(pack.action_mask.nonzero()[0]).to(self.device)
        targets = torch.from_numpy(pack.tokens).to(self.device, torch.long)[acts]
        padded = tokens + -tokens % context.multiple()
        places = acts - 1
        if parallel.cp_size() > 1:
            own = self._own(torch.arange(padded, device=self.device))
            local = torch.full_like(torch.arange(padded, device=self.device), -1)
            local[own] = torch.arange(len(own), device=self.device)
            mine = local[places] >= 0
            places, targets = local[places][mine], targets[mine]
        both = logprobs_and_entropy(hidden[places], self.output_weight, targets, temperature=temperature)
        nothing = torch.zeros(len(hidden), dtype=both[0].dtype, device=self.device)
        logprobs, entropy = (
            F.pad(context.gather(nothing.index_copy(0, places, x), sum_gradients=False)[: tokens - 1], (1, 0))
            for x in both
        )
        return PackOutputs(logprobs=logprobs, entropy=entropy, values=torch.zeros_like(logprobs))

    def _value_outputs(self, hidden: Tensor) -> Tensor:
        return self.value_head(hidden)[0]


def _in_attention(parameter: str) -> bool:
    return ".self_attention." in parameter


def _by_pack(packs: Sequence[Pack], below: Sequence[Tensor] | None) -> dict[int, Tensor]:
    return {} if below is None else {id(pack): states for pack, states in zip(packs, below, strict=True)}


def _activation_limit(device: torch.device) -> int:
    """Bytes of activations of one pack beyond which layers are recomputed instead of remembered."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // 4
    return 2 << 30


def _starts(pack: Pack, device: torch.device) -> Tensor:
    return torch.from_numpy(pack.cu_seqlens).to(device, torch.long)


def _shift(raw: Tensor, starts: Tensor) -> Tensor:
    """Output at position i-1 becomes the entry of token i; the first token of each sequence gets 0. [tokens, ...]"""
    return F.pad(raw[:-1], (0, 0) * (raw.ndim - 1) + (1, 0)).index_fill(0, starts, 0.0)
