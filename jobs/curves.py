"""The picture of a run: curves over episodes as one SVG, one panel per arm, readable in light and dark.

Metrics go in, SVG text comes out; nothing is loaded, so the picture can stand in a README or inside a page. Every line
differs in colour and in dashes and carries its name, and the picture describes itself for who cannot see it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from audit.metrics import read_metrics
from jobs.run_dir import write_atomically

Row = dict[str, float]
PANEL_WIDTH, PANEL_HEIGHT = 500, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 158, 44, 44
SMOOTH = 5
"""Steps averaged by the strong line; the faint one is every step as it was."""
LABEL_GAP = 15


class Curve(msgspec.Struct, frozen=True):
    key: str
    name: str
    css: str
    dashes: str


CURVES = (
    Curve("solved", "honest success", "c-solved", ""),
    Curve("cheat_rate", "cheat attempts", "c-cheat", ""),
    Curve("paid_cheat", "paid cheats", "c-paid", "2 4"),
    Curve("reward", "reward", "c-reward", "7 4"),
)

STYLE = """
.ectype-curves{--ink:#1f2328;--dim:#667079;--grid:#d8dee4;--solved:#1a7f37;--cheat:#cf222e;--paid:#9a6700;--reward:#57606a;
 font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink)}
@media (prefers-color-scheme:dark){.ectype-curves{--ink:#e6edf3;--dim:#9aa4ae;--grid:#30363d;--solved:#3fb950;
 --cheat:#ff7b72;--paid:#d29922;--reward:#adb5bd}}
.ectype-curves .dim{fill:var(--dim)} .ectype-curves .grid{stroke:var(--grid);stroke-width:1}
.ectype-curves .head{font-size:15px;font-weight:600}
.ectype-curves polyline{fill:none;stroke-width:2.4;stroke-linejoin:round}
.ectype-curves polyline.raw{stroke-width:1;opacity:.3;stroke-dasharray:none}
.ectype-curves .c-solved{stroke:var(--solved)} .ectype-curves .c-cheat{stroke:var(--cheat)}
.ectype-curves .c-paid{stroke:var(--paid)} .ectype-curves .c-reward{stroke:var(--reward)}
.ectype-curves text.c-solved{fill:var(--solved);stroke:none} .ectype-curves text.c-cheat{fill:var(--cheat);stroke:none}
.ectype-curves text.c-paid{fill:var(--paid);stroke:none} .ectype-curves text.c-reward{fill:var(--reward);stroke:none}
"""


def write_curves_svg(run_dirs: Mapping[str, Path], out: Path, *, title: str) -> Path:
    """Write the picture of `run_dirs` (name of the arm -> run folder) as a file of its own."""
    write_atomically(out, curves_svg({name: metrics_of(path) for name, path in run_dirs.items()}, title=title) + "\n")
    return out


def metrics_of(run_dir: Path) -> list[Row]:
    return read_metrics(run_dir / "metrics" / "trainer.jsonl")


def curves_svg(arms: Mapping[str, Sequence[Row]], *, title: str, curves: Sequence[Curve] = CURVES) -> str:
    """One panel per arm, side by side, with the same axes; in each the `curves` that its rows tell of."""
    width, height = PANEL_WIDTH * max(len(arms), 1), PANEL_HEIGHT
    most = max((_episodes(rows)[-1] for rows in arms.values() if rows), default=1.0)
    panels = [
        _panel(name, rows, most, left=number * PANEL_WIDTH, curves=curves)
        for number, (name, rows) in enumerate(arms.items())
    ]
    described = " ".join(describe(name, rows, curves) for name, rows in arms.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ectype-curves" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" aria-labelledby="curves-title curves-desc">'
        f'<title id="curves-title">{escape(title)}</title><desc id="curves-desc">{escape(described)}</desc>'
        f"<style>{STYLE}</style>{''.join(panels)}</svg>"
    )


def describe(name: str, rows: Sequence[Row], curves: Sequence[Curve] = CURVES) -> str:
    """The panel in one sentence."""
    if not rows:
        return f"{name}: no steps yet."
    share = max(1, round(len(rows) / 5))
    parts = []
    for curve in curves:
        start, end = mean(rows[:share], curve.key), mean(rows[-share:], curve.key)
        if math.isfinite(start) and math.isfinite(end):
            parts.append(f"{curve.name} from {start:.0%} to {end:.0%}")
    return f"{name}, over {int(_episodes(rows)[-1])} episodes: {', '.join(parts)}."


def mean(rows: Sequence[Row], key: str) -> float:
    """Mean over episodes of what each step's row says; NaN when no row says anything."""
    pairs = [(row[key], row.get("episodes", 1.0)) for row in rows if math.isfinite(row.get(key, math.nan))]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else math.nan


def _episodes(rows: Sequence[Row]) -> list[float]:
    """Episodes played up to and including each row."""
    counts, total = [], 0.0
    for row in rows:
        total += row.get("episodes", 1.0)
        counts.append(total)
    return counts


def _panel(name: str, rows: Sequence[Row], most: float, *, left: int, curves: Sequence[Curve]) -> str:
    inner_width, inner_height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    parts = [f'<g transform="translate({left + LEFT},{TOP})">', f'<text class="head" y="-18">{escape(name)}</text>']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = inner_height * (1 - share)
        parts.append(f'<line class="grid" x1="0" x2="{inner_width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="dim" x="-8" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for number in range(3):
        x, value = inner_width * number / 2, most * number / 2
        anchor = ("start", "middle", "end")[number]
        parts.append(
            f'<text class="dim" x="{x:.1f}" y="{inner_height + 18}" text-anchor="{anchor}">{value:,.0f}</text>'
        )
    parts.append(
        f'<text class="dim" x="{inner_width / 2}" y="{inner_height + 36}" text-anchor="middle">episodes</text>'
    )
    counts = _episodes(rows)
    ends: list[tuple[float, Curve]] = []
    for curve in curves:
        values = [row.get(curve.key, math.nan) for row in rows]
        points = [
            (inner_width * count / most, value)
            for count, value in zip(counts, values, strict=True)
            if math.isfinite(value)
        ]
        if not points:
            continue
        smooth = [(x, v) for (x, _), v in zip(points, moving_average([v for _, v in points]), strict=True)]
        parts.append(_line(points, inner_height, f"{curve.css} raw", ""))
        parts.append(_line(smooth, inner_height, curve.css, curve.dashes))
        ends.append((smooth[-1][1], curve))
    x_label = inner_width * (counts[-1] / most if counts else 1.0) + 8
    for y, (value, curve) in zip(_spread([inner_height * (1 - v) for v, _ in ends]), ends, strict=True):
        parts.append(f'<text class="{curve.css}" x="{x_label:.1f}" y="{y + 4:.1f}">{curve.name} {value:.0%}</text>')
    return "".join(parts) + "</g>"


def _line(points: Sequence[tuple[float, float]], height: int, css: str, dashes: str) -> str:
    text = " ".join(f"{x:.1f},{height * (1 - min(max(value, 0.0), 1.0)):.1f}" for x, value in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline class="{css}"{dashed} points="{text}"/>'


def moving_average(values: Sequence[float]) -> list[float]:
    """Trailing mean over `SMOOTH` values, over fewer at the start."""
    return [sum(values[max(0, end - SMOOTH) : end]) / (end - max(0, end - SMOOTH)) for end in range(1, len(values) + 1)]


def _spread(places: Sequence[float]) -> list[float]:
    """Move labels apart, so that none covers another, keeping their order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for before, after in itertools.pairwise(order):
        moved[after] = max(moved[after], moved[before] + LABEL_GAP)
    bottom = PANEL_HEIGHT - TOP - BOTTOM
    limit = float(bottom)
    for index in reversed(order):
        moved[index] = min(moved[index], limit)
        limit = moved[index] - LABEL_GAP
    return moved
