"""The real 135M model on real programs: the shipped config with smaller numbers, two steps, everything finite, with
the actor itself and with vLLM as the rollout engine."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from audit.metrics import read_metrics
from jobs.demo import CONFIG

SMALL = {
    "rollout": {"episodes_per_step": 2, "max_steps": 1, "max_new_tokens": 24, "prompt_bytes": 300},
    "sandbox": {"slots": 2},
}
VLLM = {"cache_mib": 64, "threads": 1}


@pytest.mark.apptainer
@pytest.mark.megatron
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["megatron", pytest.param("vllm", marks=pytest.mark.vllm)])
def test_two_steps(tmp_path: Path, engine: str) -> None:
    config = yaml.safe_load((CONFIG.parent / "smollm2.yaml").read_text())
    for section, change in SMALL.items():
        config[section] |= change
    if engine == "vllm":
        config["rollout"]["engine"] = "vllm"
        config["vllm"] = VLLM
    path = tmp_path / "smollm2.yaml"
    path.write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "jobs.cli", "train", str(path), "--steps", "2", "--run", str(run)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = read_metrics(run / "metrics" / "trainer.jsonl")
    assert "policy_loss" not in first, "the first step warms the critic up"
    for key in ("policy_loss", "value_loss", "kl", "entropy", "explained_variance", "actor_grad_norm", "wall_s"):
        assert math.isfinite(second[key]), key
    assert second["actor_skipped"] == 0, "every gradient was finite (and zero, where no episode earned anything)"
    assert abs(second["kl"]) < 0.01, "log-probs of rollout and training agree"
    assert re.search(r"step 2/2 .* [0-9.]+ s$", done.stdout, re.MULTILINE), "how long a step takes is said"
    assert (run / "logs/vllm/server.log").exists() == (engine == "vllm")
    assert not [process for process in psutil.process_iter(["cmdline"]) if names(process, run)]


def names(process: psutil.Process, run: Path) -> bool:
    """Whether the command line of a process names something in the run folder, as that of a server's supervisor."""
    return any(str(run) in word for word in process.info["cmdline"] or ())  # pyright: ignore[reportAttributeAccessIssue]
