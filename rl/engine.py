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
from collections import deque
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
from rl.rollout import Generation, Request

PREFILL_TOKENS = 8192
"""Tokens of new contexts that are run between two tokens of those that are being generated for: it bounds the memory of
that forward pass and how long the others wait. A single longer context is run alone."""

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


@dataclass
class _Row:
    """A request that is being generated for; its place in the list is its place in the cache."""

    request: Request
    draws: np.ndarray
    length: int
    """Tokens in the cache: the context and all sampled tokens but the last."""
    tokens: list[int]
    logprobs: list[float]


class MegatronEngine:
    """Continuous batching: a finished sequence leaves the batch at once, and the next one that waits takes its place.

    `cache_bytes` bounds the key/value cache: what does not fit waits. One sequence is always let in.
    """

    def __init__(self, model: MegatronModel, *, cache_bytes: int = 1 << 30) -> None:
        self._model = model
        shape = model.shape
        self.longest = shape.max_positions
        self._kv = shape.kv_heads // parallel.tp_size()
        self._queries = shape.heads // shape.kv_heads
        self._scale = 1.0 / math.sqrt(shape.head_dim)
        per_token = 2 * (shape.layers // parallel.pp_size()) * self._kv * shape.head_dim * self._dtype.itemsize
        self._cache_tokens = cache_bytes // per_token

    @torch.no_grad()
    def serve(
        self,
        poll: Callable[[], Sequence[tuple[Any, Request]]],
        deliver: Callable[[Any, Generation], None],
        *,
        stop_tokens: set[int],
        temperature: float = 1.0,
    ) -> None:
        """Generate for whatever `poll` brings, which is asked before every token, until there is nothing left to do.

        `deliver` is called with a request's key as soon as its continuation has ended. Every tensor-parallel rank and
        pipeline stage must see the same requests at the same time.
        """
        waiting: deque[tuple[Any, Request]] = deque()
        keys: list[Any] = []
        rows: list[_Row] = []
        cache = self._empty_cache(0, 0)
        weights = self._weights()
        hidden = torch.empty(0, self._model.shape.hidden, dtype=self._dtype, device=self._model.device)
        while True:
            for key, request in poll():
                if not len(request.context):
                    raise EctypeError(
                        "an empty context cannot be continued", where="generate", remedy="begin with a prompt"
                    )
                if request.limit > 0:
                    waiting.append((key, request))
                else:
                    deliver(key, Generation(tokens=[], logprobs=[], stopped=False))
            fresh = self._admit(waiting, rows)
            if fresh:
                keys += [key for key, _ in fresh]
                rows += [_start(request) for _, request in fresh]
                cache = self._reserve(cache, rows, len(fresh))
                hidden = torch.cat([hidden, self._prefill(weights, rows, len(fresh), cache)])
            if not rows:
                return
            uniform = torch.tensor([row.draws[len(row.tokens)] for row in rows], device=self._model.device)
            token, logprob = self._sample(hidden, uniform, temperature)
            over: list[int] = []
            for i, (row, t, lp) in enumerate(zip(rows, token.tolist(), logprob.tolist(), strict=True)):
                row.tokens.append(t)
                row.logprobs.append(lp)
                if t in stop_tokens or len(row.tokens) == row.request.limit:
                    over.append(i)
            for i in over:
                row = rows[i]
                deliver(keys[i], Generation(row.tokens, row.logprobs, stopped=row.tokens[-1] in stop_tokens))
            if over:
                order = _close_gaps(len(rows), over)
                moved = [(i, old) for i, old in enumerate(order) if i != old]
                rows, keys = [rows[old] for old in order], [keys[old] for old in order]
                for i, old in moved:
                    cache[:, :, i, :, : rows[i].length] = cache[:, :, old, :, : rows[i].length]
                token = token[torch.tensor(order, dtype=torch.long, device=token.device)]
            hidden = self._decode(weights, token, rows, cache) if rows else hidden[:0]

    # --- who is in the batch --------------------------------------------------------------------------------------

    def _admit(self, waiting: deque[tuple[Any, Request]], rows: list[_Row]) -> list[tuple[Any, Request]]:
        """Take the first of `waiting` whose cache fits beside that of `rows`, at most `PREFILL_TOKENS` at a time."""
        fresh: list[tuple[Any, Request]] = []
        longest = max((row.length + row.request.limit - len(row.tokens) for row in rows), default=0)
        prefill = 0
        while waiting:
            request = waiting[0][1]
            longest = max(longest, len(request.context) + request.limit)
            prefill += len(request.context)
            count = len(rows) + len(fresh)
            if count and (count + 1) * longest > self._cache_tokens:
                break
            if fresh and prefill > PREFILL_TOKENS:
                break
            fresh.append(waiting.popleft())
        return fresh

    def _empty_cache(self, slots: int, capacity: int) -> Tensor:
        """[layers, key and value, slots, kv heads, capacity, head size]; row i of the batch is in slot i, from 0 on."""
        layers = self._model.shape.layers // parallel.pp_size()
        shape = (layers, 2, slots, self._kv, capacity, self._model.shape.head_dim)
        return torch.zeros(shape, dtype=self._dtype, device=self._model.device)

    def _reserve(self, cache: Tensor, rows: list[_Row], fresh: int) -> Tensor:
        """The same cache with room for all `rows`, of which the last `fresh` have nothing in it yet."""
        need = max(row.length + row.request.limit - len(row.tokens) for row in rows)
        slots, capacity = cache.shape[2], cache.shape[4]
        if len(rows) <= slots and need <= capacity:
            return cache
        capacity = max(need, capacity if len(rows) * capacity <= self._cache_tokens else 0)
        room = self._cache_tokens // capacity
        grown = self._empty_cache(max(len(rows), min(2 * slots, room)), capacity)
        old, columns = len(rows) - fresh, min(capacity, cache.shape[4])
        grown[:, :, :old, :, :columns] = cache[:, :, :old, :, :columns]
        return grown

    # --- forward --------------------------------------------------------------------------------------------------

    def _prefill(self, weights: list[_Layer], rows: list[_Row], fresh: int, cache: Tensor) -> Tensor:
        """Run the contexts of the last `fresh` rows, end to end without padding, equal ones once.

        Fills their slots of the cache; returns the last hidden state of each [fresh, hidden].
        """
        device, first = self._model.device, len(rows) - fresh
        contexts = [tuple(row.request.context) for row in rows[first:]]
        slots = {context: first + i for i, context in reversed(list(enumerate(contexts)))}
        unique = sorted(slots, key=slots.__getitem__)
        sizes = [len(context) for context in unique]
        flat = torch.tensor([token for context in unique for token in context], device=device)
        lengths = torch.tensor(sizes, device=device)
        ends = lengths.cumsum(0)
        slot = torch.repeat_interleave(torch.tensor([slots[context] for context in unique], device=device), lengths)
        positions = torch.arange(len(flat), device=device) - torch.repeat_interleave(ends - lengths, lengths)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            for part, fresh_part in enumerate((k, v)):
                cache[layer, part].transpose(1, 2)[slot, positions] = fresh_part
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
        if len(unique) == fresh:
            return hidden
        for i, context in enumerate(contexts, first):
            if i != slots[context]:
                cache[:, :, i, :, : len(context)] = cache[:, :, slots[context], :, : len(context)]
        number = {context: i for i, context in enumerate(unique)}
        return hidden[torch.tensor([number[context] for context in contexts], device=device)]

    def _decode(self, weights: list[_Layer], token: Tensor, rows: list[_Row], cache: Tensor) -> Tensor:
        """Append one token to every row of the cache; returns its hidden state, [rows, hidden]."""
        device = token.device
        positions = torch.tensor([row.length for row in rows], device=device)
        slot = torch.arange(len(rows), device=device)
        for row in rows:
            row.length += 1
        longest = max(row.length for row in rows)
        unseen = torch.arange(longest, device=device) > positions[:, None]
        mask = torch.zeros(unseen.shape, dtype=self._dtype, device=device).masked_fill_(unseen, -math.inf)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache[layer, :, : len(rows)]
            keys.transpose(1, 2)[slot, positions] = k
            values.transpose(1, 2)[slot, positions] = v
            return F.scaled_dot_product_attention(
                q[:, :, None],
                keys[:, :, :longest],
                values[:, :, :longest],
                attn_mask=mask[:, None, None],
                scale=self._scale,
                enable_gqa=self._queries > 1,
            )[:, :, 0]

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


def _start(request: Request) -> _Row:
    draws = np.random.Generator(np.random.Philox(request.seed)).random(request.limit)
    return _Row(request, draws, length=len(request.context), tokens=[], logprobs=[])


def _close_gaps(count: int, over: list[int]) -> list[int]:
    """Which row moves to which place when those of `over` leave: the last ones fill the gaps, the others stay."""
    leaving = set(over)
    left = count - len(over)
    last = [i for i in range(left, count) if i not in leaving]
    return [last.pop() if i in leaving else i for i in range(left)]


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
