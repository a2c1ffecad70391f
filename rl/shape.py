"""What a decoder looks like: sizes and kinds of its layers, and which layouts of ranks they can be split over."""

from __future__ import annotations

import msgspec

from audit.errors import EctypeError


class ModelShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A Llama-, Qwen2- or Qwen3-type decoder: RMSNorm, rotary embedding, SwiGLU, grouped queries."""

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
    qk_norm: bool = False
    """Queries and keys are normalised per head, before the rotary embedding."""
    head_size: int | None = None
    """Width of a head; default: hidden / heads."""

    @property
    def head_dim(self) -> int:
        return self.head_size or self.hidden // self.heads

    @property
    def attention_weight(self) -> float:
        """Cost of a pair of tokens in attention over the cost of a token in the matrix products (multiplications of a
        layer, forward, causal): what `rl.packing.balance` weighs lengths with."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return queries / (self.hidden * (2 * queries + 2 * keys + 3 * self.ffn))

    def validate(self, tp: int = 1, pp: int = 1) -> None:
        """Raise `EctypeError` for a shape that cannot be, or that cannot be split `tp` x `pp` ways."""
        if (self.head_size is None and self.hidden % self.heads) or self.head_dim % 2:
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
        if self.layers % pp:
            possible = [n for n in range(1, self.layers + 1) if self.layers % n == 0]
            raise EctypeError(
                f"pipeline parallel size {pp} does not divide the {self.layers} layers",
                where="parallel.pp",
                remedy=f"choose pp among {possible}",
            )
