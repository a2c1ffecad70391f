"""The judge, second stage of the anti-cheat: a language model reads the record of an episode and says P(cheat).

In goes a record (`detect.judge_record`); out comes a `Judgement`. The score is not what the model writes but how sure
it is of it: the probability of the word "cheat" against "honest" in the place of the verdict, from the log-probs,
averaged over votes in the logit, then calibrated. An answer that does not repeat the request's code is worth nothing
and asked for once more; one that repeats a code that the record itself dictates has obeyed the record, which is
evidence of a cheat. The judge decides nothing about reward: see `queues.reviews` and `rl.replay`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from detect.judge_calibration import Calibration, logit, sigmoid
from detect.judge_client import Answer, ChatClient, Token
from detect.judge_prompt import NONCE, Prompt, Rendered, speaks_to_judge
from detect.judge_record import EpisodeRecord

log = logging.getLogger(__name__)

Validity = Literal["valid", "invalid", "obeyed"]
"""`invalid`: malformed, cut off, or without the request's code; `obeyed`: with a code that the record dictates."""
REMEMBERED = 4096
ASKED_AGAIN = 1
LOGPROB_ERROR = 0.01
"""Rounding may put the log-prob of what is certain this far above 0."""
VOTE_TEMPERATURE = 0.7
"""At which the votes after the first are sampled; the first is greedy."""


class Vote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One answer. `score` is the raw P(cheat), None when the answer is not valid."""

    validity: Validity
    score: float | None = None
    reason: str = ""


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`score`: raw P(cheat), None when no answer was valid. `probability`: calibrated, or the raw score where there is
    no calibration (then `calibrated` is False); 1 when the judge was seen to obey the record."""

    score: float | None
    probability: float | None
    calibrated: bool
    obeyed: bool
    speaks_to_judge: bool
    votes: tuple[Vote, ...]
    model: str
    prompt_version: str
    prompt_hash: str
    latency_s: float
    cached: bool = False

    @property
    def reason(self) -> str:
        return next((vote.reason for vote in self.votes if vote.reason), "")


class Judge:
    """Judges any number of records at once; the client bounds how many requests are under way."""

    def __init__(
        self,
        client: ChatClient,
        prompt: Prompt,
        *,
        calibration: Calibration | None = None,
        votes: int = 1,
        cache: JudgementCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.prompt = prompt
        self.calibration = calibration
        self._votes = votes
        self._cache = cache or JudgementCache()
        self._clock = clock

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """Raises EndpointDown or EndpointRefused when there is no answer; an invalid answer is a judgement."""
        started = self._clock()
        key = self._key(record)
        known = self._cache.get(key)
        if known is not None:
            return self._calibrated(msgspec.structs.replace(known, cached=True, latency_s=self._clock() - started))
        votes = tuple(await asyncio.gather(*(self._vote(record, number) for number in range(self._votes))))
        scores = [vote.score for vote in votes if vote.score is not None]
        judgement = Judgement(
            score=float(sigmoid(float(np.mean([logit(score) for score in scores])))) if scores else None,
            probability=None,
            calibrated=False,
            obeyed=any(vote.validity == "obeyed" for vote in votes),
            speaks_to_judge=speaks_to_judge(record.text),
            votes=votes,
            model=self.client.model,
            prompt_version=self.prompt.version,
            prompt_hash=self.prompt.hash,
            latency_s=self._clock() - started,
        )
        if judgement.score is not None or judgement.obeyed:
            self._cache.put(key, judgement)
        return self._calibrated(judgement)

    def _calibrated(self, judgement: Judgement) -> Judgement:
        probability = judgement.score
        if probability is not None and self.calibration is not None:
            probability = self.calibration(probability)
        if judgement.obeyed:
            probability = 1.0
        return msgspec.structs.replace(
            judgement, probability=probability, calibrated=self.calibration is not None and probability is not None
        )

    async def _vote(self, record: EpisodeRecord, number: int) -> Vote:
        vote = Vote(validity="invalid")
        for attempt in range(1 + ASKED_AGAIN):
            rendered = self.prompt.render(record.task, record.text, record.notes)
            answer = await self.client.chat(
                rendered.messages,
                schema=self.prompt.schema(),
                max_tokens=64 + self.prompt.reason_characters // 2,
                temperature=VOTE_TEMPERATURE if number else 0.0,
                seed=number * (1 + ASKED_AGAIN) + attempt,
            )
            vote = read_vote(answer, rendered, record.text, self.prompt)
            if vote.validity != "invalid":
                break
        return vote

    def _key(self, record: EpisodeRecord) -> str:
        parts = (self.prompt.hash, self.client.model, self.client.url, str(self._votes), record.task, record.notes)
        return hashlib.sha256("\0".join((*parts, record.text)).encode("utf-8", "surrogatepass")).hexdigest()


class JudgementCache:
    """Judgements by content; with a directory they outlive the process (one small file each)."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._memory: OrderedDict[str, Judgement] = OrderedDict()
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> Judgement | None:
        if key in self._memory:
            self._memory.move_to_end(key)
            return self._memory[key]
        if self._directory is None:
            return None
        try:
            return msgspec.json.decode((self._directory / f"{key}.json").read_bytes(), type=Judgement)
        except (OSError, msgspec.DecodeError):  # none, or of another version: judged again
            return None

    def put(self, key: str, judgement: Judgement) -> None:
        self._memory[key] = judgement
        if len(self._memory) > REMEMBERED:
            self._memory.popitem(last=False)
        if self._directory is not None:
            temporary = self._directory / f".{key}.{os.getpid()}.tmp"
            try:
                temporary.write_bytes(msgspec.json.encode(judgement))
                temporary.replace(self._directory / f"{key}.json")
            except OSError as error:  # judged again, after a restart
                log.warning("a judgement cannot be kept in %s: %s", self._directory, error)


class _Answer(msgspec.Struct, frozen=True):
    check: str
    verdict: str
    reason: str = ""


def read_vote(answer: Answer, rendered: Rendered, record: str, prompt: Prompt) -> Vote:
    """What one answer is worth."""
    try:
        said = msgspec.json.decode(answer.text, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Vote(validity="invalid")
    if said.check != rendered.nonce:
        # a weak model may copy any number it sees: only a record that speaks to the judge can be obeyed
        dictated = NONCE.fullmatch(said.check) is not None and said.check in record and speaks_to_judge(record)
        return Vote(validity="obeyed" if dictated else "invalid", reason=said.reason)
    if said.verdict not in prompt.verdicts:
        return Vote(validity="invalid", reason=said.reason)
    score = verdict_score(answer.text, answer.tokens, prompt.verdicts, said.verdict)
    return Vote(validity="valid" if score is not None else "invalid", score=score, reason=said.reason)


def verdict_score(text: str, tokens: Sequence[Token], verdicts: tuple[str, str], said: str) -> float | None:
    """P(second verdict) against the first, from the token where the verdict of the JSON answer `text` begins.

    The token may begin before the word (`"c`) or hold a part of it (`che`): every alternative counts for the verdict
    that the answer would go on to be. A verdict that is not among the alternatives has at most the probability of the
    least likely of them. None when the log-probs do not belong to the text, or are none (above 0).
    """
    found = list(re.finditer(r'"verdict"\s*:\s*"', text))
    if not found:
        return None
    begin = found[-1].end()
    start = 0
    for token in tokens:
        if start + len(token.token) > begin:
            break
        start += len(token.token)
    else:
        return None
    if not text.startswith(token.token, start):
        return None
    mass = dict.fromkeys(verdicts, 0.0)
    alternatives = {found.token: found.logprob for found in token.top_logprobs} | {token.token: token.logprob}
    if not max(alternatives.values()) <= LOGPROB_ERROR:
        return None
    for alternative, logprob in alternatives.items():
        grown = text[:start] + alternative
        for verdict in verdicts:
            wanted = f'{text[:begin]}{verdict}"'
            if len(grown) > begin and (wanted.startswith(grown) or grown.startswith(wanted)):
                mass[verdict] += float(np.exp(logprob))
    if not mass[said]:
        return None
    floor = float(np.exp(min(alternatives.values())))
    honest, cheat = (mass[verdict] or min(floor, mass[said]) for verdict in verdicts)
    return cheat / (honest + cheat)
