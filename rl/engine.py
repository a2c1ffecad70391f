"""Sampling from the actor: its own weights, a key/value cache, many ragged contexts at once.

In: contexts (token ids), one seed each, limits. Out: for each context the sampled tokens and their log-probs at the
sampling temperature, equal to those of the training forward up to rounding. The same seed gives the same action
whatever else is in the batch (again up to rounding). The forward pass is written out here over the Megatron model's
parameter tensors, because a step of one token through its modules costs several times the arithmetic; a test holds
the two together. Through several pipeline stages a batch goes one stage after the other; the last one samples. It
must never keep weights: every call reads the parameters as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from audit.errors import EctypeError
from rl import parallel
from rl.models import MegatronModel
from rl.rollout import Generation

COMPACT_BELOW = 0.75
"""Rows that are finished are dropped from the cache once this share of them is left: dropping copies the cache."""

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [n, heads, d], k [n, kv, d], v [n, kv, d]) -> [n, heads, d]"""


@dataclass
class _Layer:
    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    proj: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class MegatronEngine:
    """`cache_bytes` bounds the key/value cache: what does not fit at once is generated in several batches."""

    def __init__(self, model: MegatronModel, *, cache_bytes: int = 1 << 30) -> None:
        self._model = model
        self._cache_bytes = cache_bytes
        shape = model.shape
        self._kv = shape.kv_heads // parallel.tp_size()
        self._queries = shape.heads // shape.kv_heads
        self._scale = 1.0 / math.sqrt(shape.head_dim)

    @torch.no_grad()
    def generate(
        self,
        contexts: Sequence[Sequence[int]],
        *,
        seeds: Sequence[int],
        max_new_tokens: int,
        stop_tokens: set[int],
        temperature: float = 1.0,
        max_total_tokens: int | None = None,
    ) -> list[Generation]:
        """Sample one continuation per context.

        A continuation ends with a stop token (included, `stopped`), after `max_new_tokens`, or when context and
        continuation have `max_total_tokens` together (default: the model's positions); a context that is already
        that long gets an empty one. Every tensor-parallel rank and pipeline stage must call it with the same arguments.
        """
        total = min(max_total_tokens or self._model.shape.max_positions, self._model.shape.max_positions)
        if not all(len(context) for context in contexts):
            raise EctypeError("an empty context cannot be continued", where="generate", remedy="begin with a prompt")
        stops = torch.zeros(self._model.shape.vocab, dtype=torch.bool, device=self._model.device)
        stops[list(stop_tokens)] = True
        results = [Generation(tokens=[], logprobs=[], stopped=False) for _ in contexts]
        todo = [i for i, context in enumerate(contexts) if len(context) < total and max_new_tokens > 0]
        todo.sort(key=lambda i: len(contexts[i]))
        weights = self._weights()
        for batch in self._batches(todo, contexts, max_new_tokens):
            chosen = [contexts[i] for i in batch]
            limits = [min(max_new_tokens, total - len(context)) for context in chosen]
            draws = np.stack([np.random.Generator(np.random.Philox(seeds[i])).random(max(limits)) for i in batch])
            for i, generation in zip(batch, self._run(weights, chosen, limits, draws, stops, temperature), strict=True):
                results[i] = generation
        return results

    def _batches(self, order: list[int], contexts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        """Consecutive groups of `order` (by length) whose cache fits the budget; at least one context each."""
        shape = self._model.shape
        layers = shape.layers // parallel.pp_size()
        per_token = 2 * layers * self._kv * shape.head_dim * self._dtype.itemsize
        batches: list[list[int]] = []
        for i in order:
            rows = len(batches[-1]) + 1 if batches else 1
            if batches and rows * (len(contexts[i]) + new) * per_token <= self._cache_bytes:
                batches[-1].append(i)
            else:
                batches.append([i])
        return batches

    def _run(
        self,
        weights: list[_Layer],
        contexts: list[Sequence[int]],
        limits: list[int],
        draws: np.ndarray,
        stops: Tensor,
        temperature: float,
    ) -> list[Generation]:
        device = self._model.device
        lengths = torch.tensor([len(c) for c in contexts], device=device)
        limit = torch.tensor(limits, device=device)
        uniform = torch.from_numpy(draws).to(device)
        rows, longest, steps = len(contexts), int(lengths.max()), int(limit.max())
        padding = longest - lengths
        columns = torch.arange(longest + steps, device=device)
        mask = torch.where(columns < padding[:, None], -math.inf, 0.0).to(self._dtype)[:, None, None]
        hidden, cache = self._prefill(weights, contexts, longest + steps, longest)

        tokens = torch.zeros(rows, steps, dtype=torch.long, device=device)
        logprobs = torch.zeros(rows, steps, dtype=torch.float32, device=device)
        produced, stopped = torch.zeros_like(lengths), torch.zeros(rows, dtype=torch.bool, device=device)
        active = torch.arange(rows, device=device)
        alive = torch.ones(rows, dtype=torch.bool, device=device)
        for step in range(steps):
            token, logprob = self._sample(hidden, uniform[active, step], temperature)
            tokens[active, step] = token
            logprobs[active, step] = logprob.float()
            stop = stops[token]
            over = alive & (stop | (limit[active] == step + 1))
            if bool(over.any()):
                produced[active[over]] = step + 1
                stopped[active[over]] = stop[over]
                alive &= ~over
                left = int(alive.sum())
                if left == 0:
                    break
                if left <= COMPACT_BELOW * len(active):
                    active, token, mask, padding = active[alive], token[alive], mask[alive], padding[alive]
                    cache = cache[:, :, alive]
                    alive = alive[alive]
            hidden = self._decode(weights, token, longest + step, padding, mask, cache)
        taken = zip(produced.tolist(), tokens.tolist(), logprobs.tolist(), stopped.tolist(), strict=True)
        return [Generation(tokens=t[:n], logprobs=lp[:n], stopped=s) for n, t, lp, s in taken]

    # --- forward --------------------------------------------------------------------------------------------------

    def _prefill(
        self, weights: list[_Layer], contexts: list[Sequence[int]], capacity: int, longest: int
    ) -> tuple[Tensor, Tensor]:
        """Run all contexts, end to end without padding, equal ones once.

        Returns the last hidden state of each [rows, hidden], and the cache
        [layers, key and value, rows, kv heads, capacity, head size] with every context ending at column `longest`.
        """
        device, shape = self._model.device, self._model.shape
        unique = {tuple(context): None for context in contexts}
        number = {context: i for i, context in enumerate(unique)}
        sizes = [len(context) for context in unique]
        flat = torch.tensor([token for context in unique for token in context], device=device)
        lengths = torch.tensor(sizes, device=device)
        ends = lengths.cumsum(0)
        row = torch.repeat_interleave(torch.arange(len(sizes), device=device), lengths)
        positions = torch.arange(len(flat), device=device) - (ends - lengths)[row]
        columns = positions + (longest - lengths)[row]
        cache = torch.zeros(
            (len(weights), 2, len(sizes), self._kv, capacity, shape.head_dim), dtype=self._dtype, device=device
        )

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            for part, fresh in enumerate((k, v)):
                cache[layer, part].transpose(1, 2)[row, columns] = fresh
            last = layer == len(weights) - 1 and parallel.is_last_stage()
            out = torch.empty_like(q[ends - 1] if last else q)
            for i, (start, end) in enumerate(zip((ends - lengths).tolist(), ends.tolist(), strict=True)):
                # of the last layer only the last token is needed, and it sees all
                queries, into = (slice(end - 1, end), slice(i, i + 1)) if last else (slice(start, end),) * 2
                out[into] = F.scaled_dot_product_attention(
                    q[queries].transpose(0, 1)[None],
                    k[start:end].transpose(0, 1)[None],
                    v[start:end].transpose(0, 1)[None],
                    is_causal=not last,
                    scale=self._scale,
                    enable_gqa=self._queries > 1,
                )[0].transpose(0, 1)
            return out

        hidden = self._forward(weights, flat, positions, attend, keep=ends - 1)
        if len(sizes) < len(contexts):
            origin = torch.tensor([number[tuple(context)] for context in contexts], device=device)
            hidden, cache = hidden[origin], cache[:, :, origin]
        return hidden, cache

    def _decode(
        self, weights: list[_Layer], token: Tensor, column: int, padding: Tensor, mask: Tensor, cache: Tensor
    ) -> Tensor:
        """Append one token per row at `column` of the cache; returns its hidden state, [rows, hidden]."""
        seen = mask[..., : column + 1]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache[layer]
            keys[:, :, column] = k
            values[:, :, column] = v
            return F.scaled_dot_product_attention(
                q[:, :, None],
                keys[:, :, : column + 1],
                values[:, :, : column + 1],
                attn_mask=seen,
                scale=self._scale,
                enable_gqa=self._queries > 1,
            )[:, :, 0]

        # finished rows that are still in the batch may run past the last position; nobody reads what they compute
        positions = (column - padding).clamp_(max=len(self._model.rope_angles) - 1)
        return self._forward(weights, token, positions, attend)

    def _forward(
        self,
        weights: list[_Layer],
        tokens: Tensor,
        positions: Tensor,
        attend: Attend,
        keep: Tensor | None = None,
    ) -> Tensor:
        """Final normalised hidden states, [n, hidden], of `tokens` [n] at `positions` [n].

        With `keep` only of those entries; `attend` must return only them in the last layer. On pipeline stages before
        the last one: some tensor of that shape.
        """
        model, gpt = self._model, self._model.gpt
        n, head_dim, per_group = len(tokens), model.shape.head_dim, self._queries + 2
        angles = model.rope_angles[positions]
        cos, sin = angles.cos().to(self._dtype), angles.sin().to(self._dtype)
        half = head_dim // 2
        if parallel.is_first_stage():
            states = self._embed(tokens)
        else:
            states = torch.empty(n, model.shape.hidden, dtype=self._dtype, device=model.device)
            dist.recv(states, parallel.stage_rank(parallel.pp_rank() - 1), group=parallel.pp_group())
        width, eps = (model.shape.hidden,), model.shape.norm_eps
        for index, layer in enumerate(weights):
            normed = F.rms_norm(states, width, layer.norm, eps)
            qkv = F.linear(normed, layer.qkv, layer.qkv_bias).view(n, self._kv, per_group, head_dim)
            rotated = qkv[:, :, :-1]
            if layer.q_norm is not None:
                q, k = rotated[:, :, :-1], rotated[:, :, -1:]
                rotated = torch.cat([_head_norm(q, layer.q_norm, eps), _head_norm(k, layer.k_norm, eps)], 2)
            turned = torch.cat([-rotated[..., half:], rotated[..., :half]], -1)
            rotated = rotated * cos + turned * sin
            q = rotated[:, :, :-1].reshape(n, -1, head_dim)
            mixed = attend(index, q, rotated[:, :, -1], qkv[:, :, -1])
            if keep is not None and layer is weights[-1] and parallel.is_last_stage():
                states = states[keep]
            states = states + _sum_over_tp(F.linear(mixed.flatten(1), layer.proj))
            normed = F.rms_norm(states, width, layer.mlp_norm, eps)
            gate, up = F.linear(normed, layer.gate_up).chunk(2, -1)
            states = states + _sum_over_tp(F.linear(F.silu(gate) * up, layer.down))
        if not parallel.is_last_stage():
            dist.send(states, parallel.stage_rank(parallel.pp_rank() + 1), group=parallel.pp_group())
            return states if keep is None else states[keep]
        assert gpt.decoder.final_layernorm is not None
        return F.rms_norm(states, width, gpt.decoder.final_layernorm.weight, eps)

    def _embed(self, tokens: Tensor) -> Tensor:
        """[n] -> [n, hidden]. Megatron's own would scatter it with sequence parallelism."""
        weight = self._model.gpt.embedding.word_embeddings.weight
        local = tokens - parallel.tp_rank() * len(weight)
        mine = (local >= 0) & (local < len(weight))
        return _sum_over_tp(F.embedding(torch.where(mine, local, 0), weight) * mine[:, None])

    def _sample(self, hidden: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Inverse-transform sampling with one uniform number per row: by the last stage, for all."""
        if not parallel.is_last_stage():
            token = torch.empty(len(hidden), dtype=torch.long, device=hidden.device)
            wide = torch.promote_types(self._dtype, torch.float32)
            logprob = torch.empty(len(hidden), dtype=wide, device=hidden.device)
            return parallel.from_last_stage(token), parallel.from_last_stage(logprob)
        logits = F.linear(hidden, self._model.output_weight)
        logits = _gather_over_tp(logits.to(torch.promote_types(logits.dtype, torch.float32)))
        logprobs = F.log_softmax(logits / temperature, -1)
        cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
        threshold = (uniform * cumulative[:, -1])[:, None]
        token = torch.searchsorted(cumulative, threshold, right=True).clamp_(max=logits.shape[-1] - 1)
        logprob = logprobs.gather(-1, token)[:, 0]
        return parallel.from_last_stage(token[:, 0].contiguous()), parallel.from_last_stage(logprob)

    @property
    def _dtype(self) -> torch.dtype:
        return self._model.dtype

    def _weights(self) -> list[_Layer]:
        layers: Any = self._model.gpt.decoder.layers
        return [
            _Layer(
                norm=_norm_before(layer.self_attention.linear_qkv, layer.input_layernorm),
                qkv=layer.self_attention.linear_qkv.weight,
                qkv_bias=layer.self_attention.linear_qkv.bias,
                q_norm=getattr(layer.self_attention.q_layernorm, "weight", None),
                k_norm=getattr(layer.self_attention.k_layernorm, "weight", None),
                proj=layer.self_attention.linear_proj.weight,
                mlp_norm=_norm_before(layer.mlp.linear_fc1, layer.pre_mlp_layernorm),
                gate_up=layer.mlp.linear_fc1.weight,
                down=layer.mlp.linear_fc2.weight,
            )
            for layer in layers
        ]


def _norm_before(linear: Any, norm: Any) -> Tensor:
    """Transformer Engine's layers have the norm inside the matrix that follows it."""
    return linear.layer_norm_weight if hasattr(linear, "layer_norm_weight") else norm.weight


def _head_norm(heads: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    return F.rms_norm(heads, (heads.shape[-1],), weight, eps)


def _sum_over_tp(partial: Tensor) -> Tensor:
    if parallel.tp_size() > 1:
        dist.all_reduce(partial, group=parallel.tp_group())
    return partial


def _gather_over_tp(part: Tensor) -> Tensor:
    if parallel.tp_size() == 1:
        return part
    parts = [torch.empty_like(part) for _ in range(parallel.tp_size())]
    dist.all_gather(parts, part.contiguous(), group=parallel.tp_group())
    return torch.cat(parts, -1)
