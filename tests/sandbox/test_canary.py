"""Canary tokens: in every decoy, found through simple disguises, never found where they are not."""

from __future__ import annotations

import base64
import codecs
import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.canary import Canary
from sandbox.sandbox import File

SOLUTION = File(path="/eval/main.py", data=b"print(input()[::-1])\n")


def test_every_decoy_carries_the_token_and_looks_ordinary() -> None:
    canary = Canary()
    decoys = canary.decoys()
    assert {f.path.rpartition("/")[0] for f in decoys} == {"/eval", "/test/hidden"}
    for file in decoys:
        assert canary.found_in(file.data), file.path
        assert b"canary" not in file.data.lower() and b"decoy" not in file.data.lower()
        assert canary.token not in file.path
        assert file.mode == 0o444


def test_a_leaky_task_keeps_its_solution_and_marks_it(tmp_path: Path) -> None:
    canary = Canary()
    decoys = canary.decoys([SOLUTION])
    eval_files = [f for f in decoys if f.path.startswith("/eval/")]
    assert [f.path for f in eval_files] == ["/eval/main.py"]
    assert eval_files[0].data.count(b"\n") == 1, "copying the one line copies the token"
    program = tmp_path / "main.py"
    program.write_bytes(eval_files[0].data)
    done = subprocess.run([sys.executable, "-I", "-S", program], input=b"abc\n", capture_output=True, check=True)
    assert done.stdout == b"cba\n"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/eval/a.py", b"#!/usr/bin/python3\nx = '''\n'''\nprint(1)\n"),
        ("/eval/a.sh", b"#!/bin/sh\necho 1\n"),
        ("/eval/a.sh", b"echo 1"),
    ],
)
def test_a_marked_program_still_runs(tmp_path: Path, path: str, data: bytes) -> None:
    canary = Canary()
    program = tmp_path / path.rpartition("/")[2]
    program.write_bytes(canary.mark(path, data))
    runner = sys.executable if path.endswith(".py") else "/bin/sh"
    assert subprocess.run([runner, program], capture_output=True, check=True).stdout == b"1\n"
    assert canary.found_in(program.read_bytes())


def test_tokens_differ_between_episodes() -> None:
    one, other = Canary(), Canary()
    assert one.token != other.token
    assert not any(one.found_in(f.data) for f in other.decoys())


@pytest.mark.parametrize("shift", range(6))
def test_found_through_disguises(shift: int) -> None:
    canary = Canary()
    text = b"x" * shift + canary.token.encode() + b" tail\n"
    for disguised in (
        text,
        text[::-1],
        text.upper(),
        text.hex().encode(),
        base64.b64encode(text),
        base64.encodebytes(b"lead " * 12 + text),
        codecs.encode(text.decode(), "rot13").encode(),
        b" ".join(text[i : i + 1] for i in range(len(text))),
        b"\n".join(text[i : i + 3] for i in range(0, len(text), 3)),
        b"a = '" + text[: shift + 7] + b"' + '" + text[shift + 7 :] + b"'",
    ):
        assert canary.found_in(disguised), disguised


def test_no_false_positive_in_random_and_hex_text() -> None:
    canary = Canary("0123456789abcdef")
    rng = random.Random(1)
    for _ in range(50):
        noise = rng.randbytes(4096)
        assert not canary.found_in(noise)
        assert not canary.found_in(noise.hex().encode())
        assert not canary.found_in(base64.b64encode(gzip.compress(noise)))
    assert not canary.found_in(b"")


def test_found_in_a_file_or_its_name() -> None:
    canary = Canary()
    assert canary.found_in_files([File(path="a", data=b""), File(path="b", data=canary.token.encode())])
    assert canary.found_in_files([File(path=f"x/{canary.token}", data=b"")])
    assert not canary.found_in_files([File(path="a\udcff", data=b"plain")])
