from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.messages import Action
from rl.grammar import parse, render


def test_a_script_and_a_file() -> None:
    run = parse(b"I look first.\n```sh\nls -l\n```")
    assert run.action == Action(kind="run", body=b"ls -l\n")
    write = parse(b"```write src/a b.py\nprint(1)\n```\n")
    assert write.action == Action(kind="write", path="src/a b.py", body=b"print(1)\n")


@pytest.mark.parametrize("call", ["test", "done"])
def test_calls_without_a_body(call: str) -> None:
    assert parse(b"```%s\n```" % call.encode()).call == call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no block"),
        (b"just words", "no block"),
        (b"```sh\nls", "not closed"),
        (b"```sh\nls\n```\n```done\n```", "more than one"),
        (b"```write\nx\n```", "needs a path"),
        (b"```sh\n\n```", "nothing to run"),
        (b"```python\nx\n```", "unknown block 'python'"),
        (b"```write a\0b\nx\n```", "NUL"),
        (b"```write \xff.py\nx\n```", "UTF-8"),
        (b"```write \xed\xa0\x80\nx\n```", "UTF-8"),
        (b"`````\xff\xfe\nx\n`````", "unknown block"),
    ],
)
def test_what_does_not_parse_says_what_to_write(text: bytes, words: str) -> None:
    parsed = parse(text)
    assert parsed.call == "invalid"
    assert parsed.action is None
    assert words in parsed.error
    assert "```done" in parsed.error


def test_a_file_may_contain_fences() -> None:
    body = b"# Title\n```sh\nls\n```\nand ````\n"
    action = Action(kind="write", path="README.md", body=body)
    assert parse(render(action)).action == action


@given(st.binary(max_size=200), st.text("ab./_ü", min_size=1).filter(lambda p: p.strip() == p))
def test_any_bytes_survive(body: bytes, path: str) -> None:
    action = Action(kind="write", path=path, body=body + b"\n")
    assert parse(render(action)).action == action


@given(st.binary(max_size=300))
def test_parsing_never_raises(text: bytes) -> None:
    parse(text)
