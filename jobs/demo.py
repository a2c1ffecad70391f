"""The experiment that shows what ectype is for: the same tiny policy learns twice, without and with the anti-cheat.

In: a folder and a seed. Out: two run folders (`off`, `on`) and `summary.json`. Both arms start from the same
warm-started policy and differ in one key of their config, `anticheat.mode`: the rules judge and count in both, but
block in one only. An arm that was interrupted goes on where its last checkpoint is; a finished arm is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec

from audit.metrics import read_metrics
from jobs.run_config import RunConfig, load_run_config, with_steps
from jobs.run_dir import RunDir, write_atomically
from jobs.runs import Follow, run_to_end
from jobs.site_config import load_site
from rl.episode import Episode

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "demo.yaml"
ARMS = {"off": "observe", "on": "enforce"}
LAST_SHARE = 0.2
"""The end of a run that is judged: the last fifth of its episodes."""


class Summary(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rates over episodes. `warm_success`: honest success of the warm-started policy, before PPO changed it;
    `off_*` and `on_*`: over the last fifth of each arm. Success is honest: solved, and no attempt to cheat."""

    warm_success: float
    off_cheat_rate: float
    off_success: float
    on_cheat_rate: float
    on_success: float


def arm_config(base: RunConfig, arm: str, folder: Path, *, seed: int, steps: int | None) -> RunConfig:
    """The config of one arm. `on` starts from the policy that `off` warm-started."""
    update: dict = {"name": f"demo-{arm}", "seed": seed}
    update["anticheat"] = base.anticheat.model_copy(update={"mode": ARMS[arm]})
    if steps is not None:
        update["trainer"] = base.trainer.model_copy(update={"steps": steps})
    if arm == "on":
        warm = base.policy.warm_start.model_copy(update={"load": str((folder / "off" / "warm_start").absolute())})
        update["policy"] = base.policy.model_copy(update={"warm_start": warm})
    return base.model_copy(update=update)


def run_demo(
    folder: Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    config: Path = CONFIG,
    resume: str,
    say: Callable[[str], None],
    follow: Follow,
) -> Summary:
    """Run (or go on with) both arms and write `summary.json`. `resume` is the command that goes on after an
    interruption. Raises what `run_to_end` raises."""
    base = load_run_config(config)
    site = load_site("local")
    for arm, title in (("off", "anti-cheat off (observing only)"), ("on", "anti-cheat on")):
        arm_run = arm_config(base, arm, folder, seed=seed, steps=steps)
        path = folder / arm
        if is_finished(path, arm_run):
            say(f"{path}: finished before, kept as it is")
            continue
        say(f"Arm `{arm}`: {title}")
        run_to_end(arm_run, site, path, say=say, follow=follow, resume=resume)
    summary = summarise(folder, warmup=base.ppo.critic_warmup_steps)
    write_atomically(folder / "summary.json", json.dumps(msgspec.to_builtins(summary), indent=1) + "\n")
    return summary


def is_finished(path: Path, config: RunConfig) -> bool:
    """Whether `path` is the run of this config and has done all its steps."""
    if not (path / "run.yaml").is_file():
        return False
    run = RunDir.open(path)
    if with_steps(run.config(), 1) != with_steps(config, 1):
        return False
    stop = run.stop_reason()
    rows = read_metrics(path / "metrics" / "trainer.jsonl")
    done = max((int(row["step"]) for row in rows), default=0)
    return stop is not None and stop.reason == "finished" and done >= config.trainer.steps


def summarise(folder: Path, *, warmup: int) -> Summary:
    """Rates from the metrics of both arms. In the first `warmup` + 1 steps the policy is still the warm one."""
    rows = {arm: read_metrics(folder / arm / "metrics" / "trainer.jsonl") for arm in ARMS}
    return Summary(
        warm_success=_mean(rows["on"][: warmup + 1], "solved"),
        off_cheat_rate=_mean(_last(rows["off"]), "cheat_rate"),
        off_success=_mean(_last(rows["off"]), "solved"),
        on_cheat_rate=_mean(_last(rows["on"]), "cheat_rate"),
        on_success=_mean(_last(rows["on"]), "solved"),
    )


def _last(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return rows[-max(1, round(len(rows) * LAST_SHARE)) :]


def _mean(rows: list[dict[str, float]], key: str) -> float:
    """Mean over episodes (steps have equal numbers of them, but for lost ones)."""
    episodes = sum(row["episodes"] for row in rows)
    return sum(row[key] * row["episodes"] for row in rows) / episodes


def three_episodes(folder: Path) -> dict[str, Episode]:
    """Episodes worth reading: an honest success, a cheat that paid (arm off), a cheat that got a fake failure (on)."""
    wanted: dict[str, tuple[str, Callable[[Episode], bool], bool]] = {
        "An honest success": ("on", lambda e: e.solved and not e.cheated and len(e.steps) >= 3, True),
        "A cheat that paid": ("off", lambda e: e.cheated and e.solved, True),
        "A cheat that got a fake failure": ("on", lambda e: e.blocked_actions > 0, False),
    }
    chosen: dict[str, Episode] = {}
    for title, (arm, fits, newest_first) in wanted.items():
        files = sorted((folder / arm / "episodes").glob("step-*.msgpack"), reverse=newest_first)
        for file in files:
            episodes = msgspec.msgpack.decode(file.read_bytes(), type=list[Episode])
            found = next((e for e in episodes if fits(e)), None)
            if found is not None:
                chosen[title] = found
                break
    return chosen
