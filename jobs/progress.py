"""Live progress of a run, read from its metrics file: a panel on a terminal, plain lines everywhere else.

Comes in: a run folder that its jobs are writing to. Goes out: text on the terminal, until told to stop. It only reads,
so it may be killed, started late or run twice; a file that is not there yet, or half written, is waited for.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from audit.errors import EctypeError
from audit.metrics import read_metrics

Row = dict[str, float]
REFRESH_S = 0.5
BARS = "▁▂▃▄▅▆▇█"
TREND = 32

SHARES = (
    ("reward", "Reward", "mean reward of an episode"),
    ("solved", "Honest success", "solved, and no attempt to cheat"),
    ("cheat_rate", "Cheat attempts", "episodes with an attempt to cheat"),
    ("block_rate", "Blocked", "episodes with a blocked action"),
    ("explained_variance", "Explained variance", "of the returns, by the critic"),
)
"""Shown with a trend: key, title, meaning."""

NUMBERS = (
    ("commands_per_s", "Commands/s", "{:.1f}"),
    ("mean_steps", "Steps per episode", "{:.1f}"),
    ("tokens_per_s", "Tokens/s", "{:.0f}"),
    ("generated_tokens_per_s", "Tokens/s", "{:.0f}"),
    ("trained_tokens_per_s", "Trained tokens/s", "{:.0f}"),
    ("memory_peak_mib", "Trainer memory (MiB)", "{:.0f}"),
    ("policy_loss", "Policy loss", "{:+.4f}"),
    ("value_loss", "Value loss", "{:.4f}"),
    ("entropy", "Entropy", "{:.3f}"),
    ("kl", "KL", "{:.5f}"),
    ("staleness", "Staleness", "{:.1f}"),
    ("wall_s", "Seconds per step", "{:.1f}"),
)
"""Shown as the last value; a key that the run does not write is left out."""


def follow(run_dir: Path, stop: Callable[[], bool] | threading.Event, *, title: str = "") -> None:
    """Show the progress of `run_dir` until `stop` (is set, or returns True)."""
    stopped = stop.is_set if isinstance(stop, threading.Event) else stop
    console = Console()
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=False) as live:
            while not stopped():
                live.update(panel(run_dir, title=title))
                _pause(stopped)
            live.update(panel(run_dir, title=title))
    else:
        _lines(run_dir, stopped, console)


def _pause(stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + REFRESH_S
    while time.monotonic() < end and not stopped():
        time.sleep(0.05)


def _lines(run_dir: Path, stopped: Callable[[], bool], console: Console) -> None:
    """One line for each step that was not told yet."""
    told = -1
    while True:
        last_round = stopped()
        for row in _rows(run_dir):
            if row["step"] > told:
                told = int(row["step"])
                console.print(line(row, _planned_steps(run_dir)), soft_wrap=True, highlight=False, markup=False)
        if last_round:
            return
        _pause(stopped)


def line(row: Row, planned: int | None) -> str:
    """One step as one line of plain text."""
    parts = [f"step {int(row['step'])}" + (f"/{planned}" if planned else "")]
    names = (("reward", "reward"), ("solved", "honest"), ("cheat_rate", "cheats"), ("block_rate", "blocked"))
    parts += [f"{name} {show(row, key, '{:.2f}')}" for key, name in names]
    parts.append(f"explained variance {show(row, 'explained_variance', '{:.2f}')}")
    parts.append(f"{show(row, 'commands_per_s', '{:.1f}')} commands/s")
    parts.append(f"{show(row, 'wall_s', '{:.1f}')} s")
    return "  ".join(parts)


def show(row: Row, key: str, form: str) -> str:
    value = row.get(key, math.nan)
    return form.format(value) if math.isfinite(value) else "-"


def sparkline(values: Sequence[float], *, low: float = 0.0, high: float = 1.0) -> str:
    """The last values as bars between `low` and `high`; what is not a number is a blank."""
    bars = []
    for value in values[-TREND:]:
        if not math.isfinite(value):
            bars.append(" ")
            continue
        share = (min(max(value, low), high) - low) / (high - low)
        bars.append(BARS[round(share * (len(BARS) - 1))])
    return "".join(bars)


def panel(run_dir: Path, *, title: str = "") -> Panel:
    """Everything worth seeing of a run at this moment."""
    rows = _rows(run_dir)
    planned = _planned_steps(run_dir)
    if not rows:
        return Panel(_warming_up(run_dir), title=_title(run_dir, title), border_style="cyan", padding=(0, 1))
    last = rows[-1]
    shares = Table.grid(padding=(0, 2))
    shares.add_column(min_width=18)
    shares.add_column(justify="right", min_width=6)
    shares.add_column(min_width=TREND)
    shares.add_column(style="dim")
    for key, name, meaning in SHARES:
        trend = sparkline([row.get(key, math.nan) for row in rows])
        style = "red" if key == "cheat_rate" else "green" if key == "solved" else "cyan"
        shares.add_row(name, show(last, key, "{:.2f}"), Text(trend, style=style), meaning)
    numbers = Table.grid(padding=(0, 2))
    for _ in range(3):
        numbers.add_column(style="dim")
        numbers.add_column(justify="right", min_width=8)
    shown = [(name, show(last, key, form)) for key, name, form in NUMBERS if key in last]
    for start in range(0, len(shown), 3):
        cells = [cell for pair in shown[start : start + 3] for cell in pair]
        numbers.add_row(*cells)
    return Panel(
        Group(Text(_headline(rows, planned)), Text(), shares, Text(), numbers),
        title=_title(run_dir, title),
        border_style="cyan",
        padding=(0, 1),
    )


def _title(run_dir: Path, title: str) -> Text:
    return Text(title or str(run_dir))


def _headline(rows: list[Row], planned: int | None) -> str:
    last = rows[-1]
    step = int(last["step"])
    episodes = last.get("total_episodes") or sum(row.get("episodes", 0.0) for row in rows)
    parts = [f"step {step}" + (f" of {planned}" if planned else ""), f"{int(episodes)} episodes"]
    seconds = [row["wall_s"] for row in rows[-8:] if math.isfinite(row.get("wall_s", math.nan))]
    if planned and seconds and step < planned:
        parts.append(f"about {_duration((planned - step) * sum(seconds) / len(seconds))} left")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _warming_up(run_dir: Path) -> Text:
    rows = _read(run_dir / "metrics" / "warm_start.jsonl")
    if not rows:
        return Text("starting: sandboxes, controller, trainer ...")
    last = rows[-1]
    of = f" of {int(last['batches'])}" if "batches" in last else ""
    trend = sparkline([row.get("nll", math.nan) for row in rows], high=max(row.get("nll", 1.0) for row in rows) or 1.0)
    return Text(
        f"warm start on demonstrations: batch {int(last['step'])}{of}, loss {show(last, 'nll', '{:.3f}')}  {trend}"
    )


def _rows(run_dir: Path) -> list[Row]:
    return _read(run_dir / "metrics" / "trainer.jsonl")


def _read(path: Path) -> list[Row]:
    try:
        return read_metrics(path)
    except (EctypeError, OSError):  # replaced or damaged right now: the next look will tell
        return []


def _planned_steps(run_dir: Path) -> int | None:
    """Steps that the run was asked for; None while its config is not there."""
    try:
        steps = yaml.safe_load((run_dir / "run.yaml").read_text())["trainer"]["steps"]
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return None
    return int(steps)
