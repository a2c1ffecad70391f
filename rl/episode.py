"""The record of one episode: exact token ids, who wrote each of them, and with what probability.

An episode is one flat sequence of tokens: the prompt, then alternately an action (sampled by the policy) and an
observation (appended by the driver). Nothing is ever re-tokenised: what the policy sampled is what it is trained on.

All per-token lists are aligned with `tokens`: entry i is about token i itself. `action_mask[i]` is 1 when the policy
sampled token i; `logprobs[i]` is then log p(token i | tokens before i) at the sampling temperature, and
`versions[i]` the policy version that sampled it. For every other token they are 0, 0.0 and -1.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from queues.messages import Action, Observation, TestResult, Verdict

EpisodeStatus = Literal["running", "done", "truncated", "sandbox_error", "preempted"]
"""`done`: the agent finished; `truncated`: steps or context ran out (graded, value bootstraps are the trainer's);
`sandbox_error` and `preempted`: our failure, never rewarded, never trained on."""


class Step(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One turn: the action's token span `[action_start, action_end)` in `Episode.tokens`, and what came back.

    `action` is None when the text did not parse (then `format_error` says why) or was `test` / `done`
    (then `call` says which).
    """

    action_start: int
    action_end: int
    text: bytes
    call: Literal["submit", "test", "done", "invalid"]
    action: Action | None = None
    format_error: str = ""
    observation: Observation | None = None
    test: TestResult | None = None
    verdict: Verdict | None = None
    canary: bool = False
    wall_s: float = 0.0
    shown: bytes = b""
    """The observation text exactly as the policy saw it."""


class Episode(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    id: str
    suite: str
    task: str
    seed: int
    tokens: list[int]
    action_mask: list[int]
    logprobs: list[float]
    versions: list[int]
    steps: list[Step] = []
    status: EpisodeStatus = "running"
    reward: float | None = None
    """None until the episode has a verdict; infrastructure failures stay None for ever."""
    result: TestResult | None = None
    canary: bool = False
    blocked_actions: int = 0
    oracle_calls: int = 0

    @property
    def cheated(self) -> bool:
        """An attempt was seen: a rule hit (enforced or not) or a canary surfaced. Counted the same in every mode."""
        return self.canary or any(
            s.canary or (s.verdict is not None and s.verdict.decision == "block") for s in self.steps
        )

    @property
    def solved(self) -> bool:
        return self.result is not None and self.result.total > 0 and self.result.passed == self.result.total

    def append(
        self, tokens: list[int], *, sampled: bool, logprobs: list[float] | None = None, version: int = -1
    ) -> None:
        """Append an action (`sampled=True`, with one log-prob per token) or text of the driver."""
        if sampled and (logprobs is None or len(logprobs) != len(tokens)):
            raise ValueError(f"episode {self.id}: {len(tokens)} sampled tokens need as many log-probs")
        self.tokens += tokens
        self.action_mask += [int(sampled)] * len(tokens)
        self.logprobs += logprobs if sampled and logprobs is not None else [0.0] * len(tokens)
        self.versions += [version if sampled else -1] * len(tokens)
