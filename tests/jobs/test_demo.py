"""The demo's experiment, small: both arms from one policy, killed in the middle, gone on with, reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import yaml

from audit.metrics import read_metrics
from jobs.demo import CONFIG, Summary, arm_config, is_finished, summarise, three_episodes
from jobs.processes import session_members
from jobs.run_config import load_run_config
from jobs.run_dir import RunDir
from jobs.watch import jobs_of
from rl.checkpoint import latest
from rl.episode import Episode

STEPS = 3
SMALL = {
    "tasks": ["double", "reverse"],
    "policy": {"warm_start": {"episodes": 300}},
    "rollout": {"episodes_per_step": 16},
    "trainer": {"steps": STEPS, "checkpoint_every": 1},
    "sandbox": {"slots": 8, "graders": 1, "oracles": 1},
}


def small_config(path: Path) -> Path:
    """The demo's own config with smaller numbers; nothing else differs."""

    def merge(base: dict, change: dict) -> dict:
        return base | {k: merge(base[k], v) if isinstance(base.get(k), dict) else v for k, v in change.items()}

    path.write_text(yaml.safe_dump(merge(yaml.safe_load(CONFIG.read_text()), SMALL)))
    return path


def test_arms_differ_in_one_thing(tmp_path: Path) -> None:
    base = load_run_config(CONFIG)
    off, on = (arm_config(base, arm, tmp_path, seed=3, steps=None).model_dump() for arm in ("off", "on"))
    assert (off.pop("name"), on.pop("name")) == ("demo-off", "demo-on")
    assert (off["anticheat"].pop("mode"), on["anticheat"].pop("mode")) == ("observe", "enforce")
    assert off["policy"]["warm_start"].pop("load") is None
    assert on["policy"]["warm_start"].pop("load") == str(tmp_path / "off" / "warm_start")
    assert off == on and off["seed"] == 3


@pytest.mark.apptainer
@pytest.mark.megatron
def test_killed_in_the_middle_it_goes_on_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    config = small_config(tmp_path / "small.yaml")
    command = [sys.executable, "-m", "jobs.cli", "demo", "--folder", str(folder), "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    metrics = folder / "off" / "metrics" / "trainer.jsonl"
    try:
        while not read_metrics(metrics):
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.2)
        run = RunDir.open(folder / "off")
        trainer = next(job for job in jobs_of(run).jobs if job.role == "trainer")
        os.kill(int(trainer.id), signal.SIGKILL)
        output, _ = process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 2, output
    assert "trainer" in output and "resume" in output
    assert not any(session_members(int(job.id), job.ticks) for job in jobs_of(run).jobs)
    saved = latest(folder / "off" / "checkpoints")
    assert saved is not None
    kept = [row for row in read_metrics(metrics) if row["step"] <= int(saved.name.split("-")[1])]

    output = subprocess.run(command, capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    rows = read_metrics(metrics)
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert rows[: len(kept)] == kept, "what was checkpointed is not done again"
    loaded = load_run_config(config)
    for arm in ("off", "on"):
        assert is_finished(folder / arm, arm_config(loaded, arm, folder, seed=0, steps=None))
    summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)
    assert summary == summarise(folder, warmup=loaded.ppo.critic_warmup_steps)
    page = (folder / "report.html").read_text()
    assert "anti-cheat off" in page and "<svg" in page
    for title, episode in three_episodes(folder).items():
        assert title in page and isinstance(episode, Episode)
    both = [read_metrics(folder / arm / "metrics" / "trainer.jsonl")[0] for arm in ("off", "on")]
    assert both[0]["block_rate"] == 0.0
    assert both[1]["block_rate"] <= both[1]["cheat_rate"]

    exported = tmp_path / "exported"
    out = subprocess.run(
        [sys.executable, "-m", "jobs.cli", "export", str(folder / "on"), str(exported)], capture_output=True, text=True
    )
    assert out.returncode == 0 and "step-000003" in out.stdout, out.stderr
    from transformers import AutoModelForCausalLM

    assert AutoModelForCausalLM.from_pretrained(exported).config.vocab_size == 264

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and again.stderr.count("finished before") == 2
    other = subprocess.run([*command, "--seed", "7"], capture_output=True, text=True)
    assert other.returncode == 2 and "seed is 0 there, 7 here" in other.stderr, "not the other seed's numbers"
