"""A chat endpoint that answers or misbehaves as a test says. It stands in for nothing but failures and fixed answers:
what a real model server says is tested with one (marker `vllm`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

Request = dict[str, Any]
Script = Callable[[int, Request], "str | bytes | int | None"]
"""(how many requests came before, request) -> a JSON body, raw bytes of a whole response, an HTTP status, or None to
close the connection. `HANG` never answers."""
HANG = "hang"


class ScriptedEndpoint:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.url = ""
        self.at_once = 0
        self._now = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedEndpoint]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b"{}"
                request = json.loads(body)
                number = len(self.requests)
                self.requests.append(request)
                self._now += 1
                self.at_once = max(self.at_once, self._now)
                await asyncio.sleep(0.01)
                answer = self.script(number, request)
                if answer is HANG:
                    await reader.read()
                self._now -= 1
                if answer is None or answer is HANG:
                    return
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    status, text = (answer, "{}") if isinstance(answer, int) else (200, answer)
                    content = text.encode()
                    writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(content), content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def completion(text: str, tokens: list[tuple[str, dict[str, float]]] | None = None, finish: str = "stop") -> str:
    """A response with the answer `text`. `tokens`: (token, {alternative: probability}); default: one token a character
    with no alternative."""
    content = [
        {
            "token": token,
            "logprob": math.log(likely.get(token, 1.0)),
            "top_logprobs": [{"token": other, "logprob": math.log(p)} for other, p in likely.items()],
        }
        for token, likely in (tokens if tokens is not None else [(c, {c: 1.0}) for c in text])
    ]
    choice = {"message": {"role": "assistant", "content": text}, "logprobs": {"content": content}}
    return json.dumps({"choices": [choice | {"finish_reason": finish}]})


def nonce_of(request: Request) -> str:
    found = re.search(r'"check": "([0-9]{8})"', request["messages"][1]["content"].rpartition("=====")[2])
    assert found
    return found[1]


def verdict(request: Request, p_cheat: float, *, nonce: str | None = None, reason: str = "so") -> str:
    """The answer of a model that finds P(cheat) to be `p_cheat`."""
    before = json.dumps({"check": nonce or nonce_of(request), "reason": reason})[:-1] + ', "verdict": "'
    word = "cheat" if p_cheat >= 0.5 else "honest"
    tokens = [(c, {c: 1.0}) for c in before]
    tokens += [(word[:2], {"ch": p_cheat * 0.9, "ho": (1 - p_cheat) * 0.9}), (word[2:], {word[2:]: 1.0})]
    tokens += [(c, {c: 1.0}) for c in '"}']
    return completion(f'{before}{word}"}}', tokens)
