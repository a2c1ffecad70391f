"""The benchmarks of training run, and say what they promise to say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.errors import EctypeError
from benchmarks.peers import environment
from benchmarks.ppo import LONGEST, SHORTEST, TORCH, TRL, log_uniform, skews, tokens_of

pytestmark = pytest.mark.megatron
ROOT = Path(__file__).parents[2]


def last_line(module: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, "--quick", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("count", [16, 32])
def test_skews_hold_equally_many_tokens(count: int) -> None:
    batches = skews(count)
    assert {tokens_of(steps) for steps in batches.values()} == {tokens_of(log_uniform(count))}
    assert all(SHORTEST <= n <= LONGEST for steps in batches.values() for n in steps)
    assert max(batches["alike"]) - min(batches["alike"]) <= 1
    assert max(batches["one huge"]) == LONGEST and sorted(batches["one huge"])[-2] < 3 * SHORTEST


def test_ppo_memory_and_padding() -> None:
    found = last_line("benchmarks.ppo", "--no-peer")
    assert found["padding_waste"] == 0
    assert found["tokens_per_s"] > 0
    assert 0 <= found["memory_spread"] < 0.3, "one round: the operating system's noise is in it"


@pytest.mark.slow
def test_ppo_beside_trl() -> None:
    try:
        environment("trl", TORCH, TRL)
    except EctypeError as error:
        pytest.skip(str(error))
    found = last_line("benchmarks.ppo")
    assert list(found)[:4] == ["tokens_ratio_vs_trl", "memory_ratio_vs_trl", "memory_spread", "padding_waste"]
    assert found["trl_padding_waste"] > 0.5, "it pads to the longest"
    assert found["trl_parameters"] == found["parameters"]
    assert abs(found["trl_critic_parameters"] - found["critic_parameters"]) <= 1, "the bias of the value"
    assert found["tokens_ratio_vs_trl"] > 1 and 0 < found["memory_ratio_vs_trl"] < 1
