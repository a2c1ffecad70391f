"""An asyncio client of an OpenAI-compatible chat endpoint, such as vLLM's: one request, one answer with log-probs.

In go messages and a JSON schema; out comes the text of the answer and, per token, what else might have stood there.
It bounds how many requests are under way, gives each a time limit, and tries again, with growing pauses, what may
work the next time (no connection, a closed one, 408, 429, 5xx, an answer that is no JSON). What cannot work the next
time raises `EndpointRefused` at once. It never invents an answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec

from audit.errors import EctypeError
from detect.judge_prompt import Message

TOP_LOGPROBS = 20
"""Alternatives asked for per token; the most that vLLM gives by default."""
MAX_ANSWER_BYTES = 4 << 20
_AGAIN = (408, 409, 425, 429)


class EndpointDown(EctypeError):
    """No usable answer after all attempts. The same request may succeed later."""


class EndpointRefused(EctypeError):
    """The endpoint says that the request itself is wrong (unknown model, too long). Trying again cannot help."""


class Token(msgspec.Struct, frozen=True):
    """A token of the answer, with the likeliest tokens in its place (itself included) and their log-probs."""

    token: str
    logprob: float
    top_logprobs: tuple[Alternative, ...] = ()


class Alternative(msgspec.Struct, frozen=True):
    token: str
    logprob: float


class _Logprobs(msgspec.Struct, frozen=True):
    content: tuple[Token, ...] | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...]


class _Model(msgspec.Struct, frozen=True):
    id: str


class _Models(msgspec.Struct, frozen=True):
    data: tuple[_Model, ...]


class Answer(msgspec.Struct, frozen=True):
    """`finished` is False when the answer was cut at `max_tokens`."""

    text: str
    tokens: tuple[Token, ...]
    finished: bool


class ChatClient:
    """`url` is the endpoint up to `/v1`. Use it as an async context manager, in one event loop."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str = "",
        concurrency: int = 8,
        timeout_s: float = 120.0,
        attempts: int = 4,
        pause_s: float = 0.5,
        rng: random.Random | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.model = model
        self._attempts = attempts
        self._pause_s = pause_s
        self._timeout_s = timeout_s
        self._rng = rng or random.Random()
        self._slots = asyncio.Semaphore(concurrency)
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, 10.0)),
            limits=httpx2.Limits(max_connections=concurrency + 1),
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            trust_env=False,  # a proxy of the user's shell must not see episodes
        )
        self.retries = 0

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._http.aclose()

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any],
        max_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> Answer:
        """One answer in the form of `schema`. Raises EndpointDown or EndpointRefused."""
        body = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
            "seed": seed,
            "logprobs": True,
            "top_logprobs": TOP_LOGPROBS,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": True},
            },
        }
        completion = await self._request("POST", "/chat/completions", _Completion, body)
        if not completion.choices:
            raise EndpointDown("the endpoint answered without a choice", where=self.url)
        choice = completion.choices[0]
        tokens = choice.logprobs.content if choice.logprobs is not None else None
        return Answer(choice.message.content or "", tokens or (), choice.finish_reason != "length")

    async def models(self) -> tuple[str, ...]:
        """Names of the models that are served."""
        return tuple(model.id for model in (await self._request("GET", "/models", _Models, None)).data)

    async def _request(self, method: str, path: str, form: type, body: dict[str, Any] | None) -> Any:
        failure = ""
        for attempt in range(self._attempts):
            if attempt:
                self.retries += 1
                await asyncio.sleep(self._pause_s * 2 ** (attempt - 1) * self._rng.uniform(0.5, 1.5))
            async with self._slots:
                try:
                    async with asyncio.timeout(self._timeout_s):
                        status, content = await self._once(method, path, body)
                except TimeoutError:
                    failure = f"no answer within {self._timeout_s:g} s"
                    continue
                except httpx2.RequestError as error:
                    failure = f"{type(error).__name__}: {error}".rstrip(": ")
                    continue
            if status in _AGAIN or status >= 500:
                failure = f"HTTP {status}: {_excerpt(content)}"
            elif status != 200:
                raise EndpointRefused(
                    f"the judge's endpoint refused a request: HTTP {status}: {_excerpt(content)}",
                    where=self.url + path,
                    remedy="check judge.endpoint, the name of the model, and judge.record_bytes against its context",
                )
            else:
                try:
                    return msgspec.json.decode(content, type=form)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    failure = f"no valid answer: {error}"
        raise EndpointDown(
            f"the judge's endpoint gave no answer in {self._attempts} attempts; the last: {failure}",
            where=self.url + path,
            remedy="see whether the model server runs, and its log",
        )

    async def _once(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        """Status and body of one exchange; a body without end is cut, and then is no JSON."""
        async with self._http.stream(method, self.url + path, json=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    break
            return response.status_code, bytes(content)


def _excerpt(content: bytes) -> str:
    return " ".join(content[:300].decode(errors="replace").split())
