"""Actor and critic: one Megatron-Core GPT model with an output of log-probs or of values, and how it learns.

In: packs of sequences (`rl.packing`). Out: log-probs, entropies or values of every token, all aligned with the token
they are about; or one optimizer step. The model is Megatron's own `GPTModel` with its tensor-parallel layers and its
local layer spec; only the core attention is ours (`rl.attention`). The training step around it is plain PyTorch
instead of Megatron's DDP, schedule and optimizers: those need CUDA in many places, cost more than the mathematics of
a small model, and their distributed optimizer reloads wrongly without Transformer Engine. One flat gradient buffer,
one all-reduce and one fused AdamW do the same on CPU and GPU, in any tensor- and data-parallel layout.
What this does not do yet: pipeline, sequence and context parallelism (`ModelShape.validate` refuses), and sharding of
the optimizer state over data-parallel ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from audit.errors import EctypeError
from rl import parallel
from rl.attention import PackedAttention, PackedSequences
from rl.logprobs import logprobs_and_entropy
from rl.optimizer import FlatAdamW, OptimizerConfig
from rl.packing import Pack
from rl.value_head import ValueHead, ValueSupport

__all__ = ["MegatronModel", "ModelShape", "OptimizerConfig", "PackOutputs", "ValueSupport"]


class ModelShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A Llama- or Qwen2-type decoder: RMSNorm, rotary embedding, SwiGLU, grouped queries."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    max_positions: int
    rope_base: float = 10000.0
    norm_eps: float = 1e-5
    tied: bool = True
    """The output matrix is the embedding matrix."""
    qkv_bias: bool = False

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    def validate(self, tp: int = 1, pp: int = 1) -> None:
        """Raise `EctypeError` for a shape that cannot be, or that cannot be split `tp` x `pp` ways."""
        if self.hidden % self.heads or self.head_dim % 2:
            raise EctypeError(
                f"hidden size {self.hidden} does not give {self.heads} heads of an even size",
                where="policy.shape",
                remedy="choose a hidden size that is an even multiple of the number of heads",
            )
        if self.heads % self.kv_heads:
            raise EctypeError(
                f"{self.heads} heads cannot share {self.kv_heads} key/value heads evenly",
                where="policy.shape",
                remedy="choose kv_heads that divides heads",
            )
        parts = {"heads": self.heads, "kv_heads": self.kv_heads, "ffn": self.ffn, "vocab": self.vocab}
        for name, count in parts.items():
            if count % tp:
                possible = [n for n in range(1, self.heads + 1) if not any(c % n for c in parts.values())]
                raise EctypeError(
                    f"tensor parallel size {tp} does not divide {name} = {count}",
                    where="parallel.tp",
                    remedy=f"choose tp among {possible}",
                )
        if pp != 1:
            raise EctypeError(
                f"pipeline parallel size {pp}: this version trains without pipeline parallelism",
                where="parallel.pp",
                remedy="set pp to 1 and use tensor or data parallelism",
            )


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
    of its attention do not learn and have no optimizer state.
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
    ) -> None:
        shape.validate(parallel.tp_size())
        self.shape = shape
        self.critic = critic
        self.device = parallel.device()
        config = _transformer_config(shape, dtype, initialize)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.gpt = _build(shape, config, critic, value_support).to(self.device, dtype)
        learning = []
        for name, parameter in self.gpt.named_parameters():
            parameter.requires_grad_(optimizer is not None and not (freeze_attention and _in_attention(name)))
            if parameter.requires_grad:
                learning.append((name, parameter))
        self.optimizer = FlatAdamW(learning, optimizer) if optimizer else None
        inverse = self.gpt.rotary_pos_emb.inv_freq.to(self.device)
        angles = torch.outer(torch.arange(shape.max_positions, device=self.device, dtype=torch.float32), inverse)
        self._activation_limit = _activation_limit(self.device)
        self.rope_angles = torch.cat([angles, angles], -1)[:, None, None]

    # --- inference ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self, packs: Sequence[Pack], *, temperature: float = 1.0) -> list[Tensor]:
        """Log-probs of the action tokens of each pack, [tokens], 0 for other tokens."""
        return [self._outputs(pack, temperature).logprobs for pack in packs]

    @torch.no_grad()
    def values(self, packs: Sequence[Pack]) -> list[Tensor]:
        """V(state before token) for each pack, [tokens], 0 for the first token of each sequence."""
        return [self._outputs(pack, 1.0).values for pack in packs]

    @torch.no_grad()
    def values_and_final(self, packs: Sequence[Pack]) -> list[tuple[Tensor, Tensor]]:
        """`values`, and beside them V(state after the last token) of each sequence, to bootstrap truncated ones."""
        out = []
        for pack in packs:
            raw = self.value_head.values(self._value_outputs(self._hidden(pack)))
            starts = _starts(pack, self.device)
            out.append((_shift(raw, starts[:-1]), raw[starts[1:] - 1]))
        return out

    # --- learning -------------------------------------------------------------------------------------------------

    def train_step(self, packs: Sequence[Pack], loss_fn: LossFunction, *, temperature: float = 1.0) -> dict[str, float]:
        """One optimizer step over all packs of all data-parallel ranks; each rank passes its own (may be none).

        Returns the summed loss and statistics of the global batch, and `grad_norm` before clipping. `skipped` is 1
        when the gradient was not finite and the weights were left as they were.
        """
        assert self.optimizer is not None, "a model without an optimizer cannot train"
        self.optimizer.zero_grad()
        sums: dict[str, Tensor] = {}
        for pack in packs:
            loss, stats = loss_fn(self._outputs(pack, temperature), pack)
            loss.backward()
            for name, value in {"loss": loss, **stats}.items():
                sums[name] = sums.get(name, 0) + value.detach().double()
        grad_norm = self.optimizer.step()
        total = parallel.sum_over_dp({name: value.item() for name, value in sums.items()})
        return {**total, "grad_norm": grad_norm, "skipped": float(not math.isfinite(grad_norm))}

    def set_lr(self, lr: float) -> None:
        assert self.optimizer is not None
        self.optimizer.set_lr(lr)

    # --- weights --------------------------------------------------------------------------------------------------

    @property
    def output_weight(self) -> Tensor:
        """This rank's rows of the output matrix of an actor, [vocabulary / tp, hidden]."""
        if self.shape.tied:
            return self.gpt.embedding.word_embeddings.weight
        weight = self.gpt.output_layer.weight
        assert weight is not None
        return weight

    @property
    def value_head(self) -> ValueHead:
        """The output of a critic."""
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

    # --- forward --------------------------------------------------------------------------------------------------

    def _hidden(self, pack: Pack) -> Tensor:
        """Last hidden states of a pack, [tokens, hidden]."""
        lengths = pack.lengths
        if max(lengths) > self.shape.max_positions:
            raise EctypeError(
                f"a sequence of {max(lengths)} tokens is longer than the model's {self.shape.max_positions} positions",
                where="rollout.context_tokens",
                remedy="choose a context that the model can hold",
            )
        positions = torch.cat([torch.arange(n, device=self.device) for n in lengths])
        packed = PackedSequences(cu_seqlens=_starts(pack, self.device).int(), lengths=lengths)
        packed.recompute = torch.is_grad_enabled() and self._activation_bytes(len(pack.tokens)) > self._activation_limit
        tokens = torch.from_numpy(pack.tokens).to(self.device, torch.long)
        states = self.gpt.embedding(input_ids=tokens[None], position_ids=None)
        states = self.gpt.decoder(
            hidden_states=states,
            attention_mask=None,
            rotary_pos_emb=self.rope_angles[positions],
            packed_seq_params=packed,
        )
        return states[:, 0]

    def _activation_bytes(self, tokens: int) -> int:
        """What autograd would keep of a pack's forward pass, roughly (measured: within 20 %)."""
        shape, tp = self.shape, parallel.tp_size()
        split = 4 * shape.hidden + 4 * shape.kv_heads * shape.head_dim + 5 * shape.ffn
        return tokens * shape.layers * (6 * shape.hidden + split // tp) * self.rope_angles.element_size()

    def _outputs(self, pack: Pack, temperature: float) -> PackOutputs:
        hidden = self._hidden(pack)
        if self.critic:
            raw = self._value_outputs(hidden)
            starts = _starts(pack, self.device)[:-1]
            values = _shift(self.value_head.values(raw), starts)
            nothing = torch.zeros_like(values)
            return PackOutputs(logprobs=nothing, entropy=nothing, values=values, value_outputs=_shift(raw, starts))
        acts = torch.from_numpy(pack.action_mask.nonzero()[0]).to(self.device)
        targets = torch.from_numpy(pack.tokens).to(self.device, torch.long)[acts]
        logprobs, entropy = logprobs_and_entropy(hidden[acts - 1], self.output_weight, targets, temperature=temperature)
        nothing = torch.zeros(len(pack.tokens), dtype=logprobs.dtype, device=self.device)
        return PackOutputs(
            logprobs=nothing.index_copy(0, acts, logprobs),
            entropy=nothing.index_copy(0, acts, entropy),
            values=nothing,
        )

    def _value_outputs(self, hidden: Tensor) -> Tensor:
        return self.value_head(hidden)[0]


class RecomputedLayer(TransformerLayer):
    """A layer that keeps only its input for the backward pass, and runs again there, when the pack asks for it.

    Megatron's own recomputation restores CUDA random states; there is no randomness in these layers.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs["packed_seq_params"].recompute:
            return checkpoint(super().forward, *args, **kwargs, use_reentrant=False, preserve_rng_state=False)
        return super().forward(*args, **kwargs)


def _transformer_config(shape: ModelShape, dtype: torch.dtype, initialize: bool) -> TransformerConfig:
    return TransformerConfig(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_query_groups=shape.kv_heads,
        kv_channels=shape.head_dim,
        ffn_hidden_size=shape.ffn,
        normalization="RMSNorm",
        layernorm_epsilon=shape.norm_eps,
        gated_linear_unit=True,
        activation_func=F.silu,
        add_bias_linear=False,
        add_qkv_bias=shape.qkv_bias,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        tensor_model_parallel_size=parallel.tp_size(),
        # Megatron's 0.02 suits widths of thousands; a narrow model starts too close to zero and learns late
        init_method_std=max(0.02, shape.hidden**-0.5),
        params_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        # from one CPU generator: the same weights in every layout
        use_cpu_initialization=True,
        perform_initialization=initialize,
        # fused kernels that come with Apex or Transformer Engine, or only on CUDA
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        masked_softmax_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        apply_rope_fusion=False,
    )


def _build(shape: ModelShape, config: TransformerConfig, critic: bool, support: ValueSupport | None) -> GPTModel:
    spec: Any = get_gpt_layer_local_spec(normalization="RMSNorm")
    spec.module = RecomputedLayer
    spec.submodules.self_attention.submodules.core_attention = PackedAttention
    gpt = GPTModel(
        config,
        spec,
        vocab_size=shape.vocab,
        max_sequence_length=shape.max_positions,
        parallel_output=True,
        # a critic is built as if tied, so that no output matrix is allocated for it
        share_embeddings_and_output_weights=shape.tied or critic,
        position_embedding_type="rope",
        rotary_base=shape.rope_base,  # pyright: ignore[reportArgumentType]
    )
    if critic:
        gpt.share_embeddings_and_output_weights = False
        gpt.output_layer = ValueHead(config, support)  # pyright: ignore[reportAttributeAccessIssue]
    return gpt


def _in_attention(parameter: str) -> bool:
    return ".self_attention." in parameter


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
