"""Codecs: how text becomes tokens and back, for the byte-level policy and for Hugging Face chat models.

A codec is asked for three things only: the tokens of a prompt, the tokens that carry an observation from the end of
one action to the start of the next, and the bytes of an action. The tokens of an action are never produced here: they
are the ones the policy sampled. Text from a sandbox must never become a control token, whatever it spells.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rl.prompts import SYSTEM


class Codec(Protocol):
    vocab: int
    stop_tokens: frozenset[int]
    """Sampling one of these ends the action; it belongs to the action."""

    def prompt(self, instructions: str) -> list[int]: ...

    def observation(self, text: bytes, *, stopped: bool) -> list[int]:
        """`stopped`: the action ended with a stop token (else it ran out of tokens, and the turn is closed here)."""
        ...

    def decode(self, tokens: Sequence[int]) -> bytes:
        """Text of an action, without its stop token."""
        ...


class ByteCodec:
    """One token per byte, and three control tokens. Layout: BOS prompt ACT action END OBS observation ACT ..."""

    BOS, END, OBS, ACT = 256, 257, 258, 259
    vocab = 264  # a multiple of 8: tensor parallel sizes up to 8 divide it
    stop_tokens = frozenset({END})

    def prompt(self, instructions: str) -> list[int]:
        return [self.BOS, *instructions.encode(), self.ACT]

    def observation(self, text: bytes, *, stopped: bool) -> list[int]:
        return [*([] if stopped else [self.END]), self.OBS, *text, self.ACT]

    def action(self, text: bytes) -> list[int]:
        """Tokens of an action written by a script (demonstrations only)."""
        return [*text, self.END]

    def decode(self, tokens: Sequence[int]) -> bytes:
        return bytes(t for t in tokens if t < 256)


class ChatCodec:
    """A Hugging Face tokenizer with ChatML turns (`<|im_start|>`, `<|im_end|>`): SmolLM2, Qwen 2 and 3, and others."""

    def __init__(self, tokenizer: Any, *, system: str = SYSTEM) -> None:
        self._tok = tokenizer
        self._system = system
        ids = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
        if None in ids or tokenizer.unk_token_id in ids:
            raise ValueError("this tokenizer has no ChatML turns (<|im_start|>, <|im_end|>)")
        self._start, self._end = ids
        self.vocab = len(tokenizer)
        self.stop_tokens = frozenset({self._end})

    @classmethod
    def load(cls, folder: Path, **kwargs: Any) -> ChatCodec:
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(str(folder), **kwargs))

    def _plain(self, text: str) -> list[int]:
        return self._tok.encode(text, add_special_tokens=False, split_special_tokens=True)

    def _turn(self, role: str, text: str) -> list[int]:
        return [self._start, *self._plain(f"{role}\n{text}"), self._end, *self._plain("\n")]

    def prompt(self, instructions: str) -> list[int]:
        return [*self._turn("system", self._system), *self._turn("user", instructions), *self._open()]

    def _open(self) -> list[int]:
        return [self._start, *self._plain("assistant\n")]

    def observation(self, text: bytes, *, stopped: bool) -> list[int]:
        closing = [] if stopped else [self._end]
        shown = text.decode("utf-8", "replace")
        return [*closing, *self._plain("\n"), *self._turn("user", shown), *self._open()]

    def decode(self, tokens: Sequence[int]) -> bytes:
        kept = [t for t in tokens if t not in self.stop_tokens]
        return self._tok.decode(kept, skip_special_tokens=True).encode("utf-8", "replace")
