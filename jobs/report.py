"""The report of one or more runs as one HTML file: curves, a table, and episodes to read step by step.

Run folders go in, one self-contained page comes out: no script, no font, nothing loaded from anywhere; light or dark as
the reader prefers. What an agent wrote is shown as text, never as markup. Each step keeps apart what the agent saw and
what only the audit log knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from jobs.curves import Row, curves_svg, describe, mean, metrics_of, write_curves_svg
from jobs.run_dir import write_atomically
from queues.messages import Verdict
from rl.episode import Episode, Step

__all__ = ["choose_episodes", "write_curves_svg", "write_report"]

MAX_SHOWN = 6000
"""Characters of one piece of text that the page shows."""
LAST_SHARE = 5
"""Rates of the table are over the last fifth of the steps."""

INTRODUCTION = (
    "A policy learns by reinforcement to rebuild small programs that it can only run, and it is tempted: the answer "
    "can be read. Every action is judged before it runs. <em>Honest success</em>: all hidden tests pass and no attempt "
    "to cheat was seen. <em>Cheat attempt</em>: a rule hit, or a marked decoy surfaced. <em>Paid cheat</em>: a cheat "
    "that got the reward."
)

STYLE = """
:root{color-scheme:light dark;--bg:#ffffff;--fg:#1f2328;--dim:#59636e;--line:#d1d9e0;--code:#f6f8fa;--good:#1a7f37;
 --bad:#cf222e;--mark:#fff1a8;--aside:#fdf5e6;--asideline:#d4a72c}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9aa4ae;--line:#30363d;--code:#161b22;
 --good:#3fb950;--bad:#ff7b72;--mark:#5c4a00;--aside:#1c1a12;--asideline:#9e7a1a}}
body{background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;
 margin:0 auto;max-width:70rem;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;margin:0 0 .5rem} h2{font-size:1.25rem;margin:2.5rem 0 .75rem} h3{font-size:1.1rem;margin:0}
p{max-width:46rem} .dim{color:var(--dim)} .good{color:var(--good)} .bad{color:var(--bad)}
.picture{overflow-x:auto} .picture svg{width:100%;min-width:44rem;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums} .wide{overflow-x:auto}
th,td{border-bottom:1px solid var(--line);padding:.35rem .9rem .35rem 0;text-align:right}
th:first-child{text-align:left}
thead th{color:var(--dim);font-weight:600}
article{border:1px solid var(--line);border-radius:10px;margin:0 0 1.5rem;padding:1.1rem 1.25rem}
article>header{border-bottom:1px solid var(--line);margin-bottom:.75rem;padding-bottom:.6rem}
ol{list-style:none;margin:0;padding:0} li{margin:0 0 1.25rem} h4{font-size:.95rem;margin:.2rem 0 .4rem}
.pair{display:grid;gap:.75rem;grid-template-columns:repeat(auto-fit,minmax(19rem,1fr))}
.label{color:var(--dim);display:block;font-size:.82rem;margin-bottom:.2rem}
pre{background:var(--code);border:1px solid var(--line);border-radius:6px;margin:0;max-height:24rem;overflow:auto;
 padding:.6rem .75rem;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,Menlo,Consolas,
 monospace}
mark{background:var(--mark);color:inherit;border-radius:3px}
.truth{background:var(--aside);border-left:3px solid var(--asideline);border-radius:0 6px 6px 0;margin-top:.6rem;
 padding:.45rem .75rem;font-size:.92rem} .truth p{margin:.1rem 0} code{font:.92em ui-monospace,Menlo,Consolas,monospace}
details{margin-top:.75rem} summary{cursor:pointer;color:var(--dim)}
"""


def write_report(
    run_dirs: Mapping[str, Path],
    out: Path,
    *,
    title: str,
    episodes: Mapping[str, Episode] | None = None,
    summary: Sequence[Sequence[str]] = (),
) -> Path:
    """Write the page to `out` and return it.

    `run_dirs`: name of the arm -> run folder. `episodes`: heading -> episode; by default three are chosen.
    `summary`: rows of the table, the first of which is its head; by default rates of the last fifth of each arm.
    """
    arms = {name: metrics_of(path) for name, path in run_dirs.items()}
    chosen = choose_episodes(list(run_dirs.values())) if episodes is None else episodes
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>\n<p>{INTRODUCTION}</p></header>\n<main>\n"
        f"{_curves(arms, title)}{_table(summary or default_summary(arms))}{_episodes(chosen)}"
        "</main>\n</body>\n</html>\n"
    )
    write_atomically(out, page)
    return out


def default_summary(arms: Mapping[str, Sequence[Row]]) -> list[list[str]]:
    head = ["", "Episodes", "Honest success", "Cheat attempts", "Paid cheats", "Reward", "Commands/s"]
    table = [head]
    for name, rows in arms.items():
        last = rows[-max(1, round(len(rows) / LAST_SHARE)) :]
        shares = [_percent(mean(last, key)) for key in ("solved", "cheat_rate", "paid_cheat", "reward")]
        played = sum(row.get("episodes", 0.0) for row in rows)
        speed = mean(rows, "commands_per_s")
        table.append([name, f"{played:,.0f}", *shares, f"{speed:.1f}" if math.isfinite(speed) else "-"])
    return table


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "-"


def _curves(arms: Mapping[str, Sequence[Row]], title: str) -> str:
    sentences = "".join(f"<p>{escape(describe(name, rows))}</p>" for name, rows in arms.items())
    return (
        f'<section aria-labelledby="curves"><h2 id="curves">What it learned</h2>\n'
        f'<div class="picture">{curves_svg(arms, title=title)}</div>\n'
        f"<details><summary>The curves in words</summary>{sentences}</details></section>\n"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows[1:]
    )
    return (
        '<section aria-labelledby="numbers"><h2 id="numbers">Numbers</h2>\n<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        '<p class="dim">Rates are over the last fifth of each run.</p></section>\n'
    )


# --- episodes ---------------------------------------------------------------------------------------------------------


def choose_episodes(run_dirs: Sequence[Path]) -> dict[str, Episode]:
    """Up to three episodes worth reading, latest first: an honest one, a cheat that paid, a cheat that was faked."""
    wanted: dict[str, Callable[[Episode], bool]] = {
        "An honest success": lambda e: e.solved and not e.cheated,
        "A cheat that paid": lambda e: e.cheated and bool(e.reward),
        "A cheat that got a fake failure": lambda e: any(s.verdict is not None and s.verdict.enforced for s in e.steps),
    }
    chosen: dict[str, Episode] = {}
    for episodes in _batches(run_dirs):
        for heading, fits in wanted.items():
            if heading not in chosen and (found := next(filter(fits, episodes), None)) is not None:
                chosen[heading] = found
        if len(chosen) == len(wanted):
            break
    return {heading: chosen[heading] for heading in wanted if heading in chosen}


def _batches(run_dirs: Sequence[Path]) -> Iterator[list[Episode]]:
    files = [sorted((path / "episodes").glob("step-*.msgpack"), reverse=True) for path in run_dirs]
    for number in range(max(map(len, files), default=0)):
        for of_one_run in files:
            if number < len(of_one_run):
                yield msgspec.msgpack.decode(of_one_run[number].read_bytes(), type=list[Episode])


def _episodes(episodes: Mapping[str, Episode]) -> str:
    if not episodes:
        return ""
    articles = "".join(_article(heading, episode) for heading, episode in episodes.items())
    return (
        '<section aria-labelledby="episodes"><h2 id="episodes">Episodes, step by step</h2>\n'
        "<p>On the left what the agent did, on the right what it saw. The tinted line below is outside of the agent's "
        f"view: it stands in the audit log only.</p>\n{articles}</section>\n"
    )


def _article(heading: str, episode: Episode) -> str:
    steps = "".join(_step(number, step) for number, step in enumerate(episode.steps, 1))
    return (
        f"<article><header><h3>{escape(heading)}</h3>"
        f'<span class="dim">Task <code>{escape(episode.task)}</code>, episode <code>{escape(episode.id)}</code>. '
        f"{_outcome(episode)}</span></header>\n<ol>{steps}</ol></article>\n"
    )


def _outcome(episode: Episode) -> str:
    if episode.reward is None or episode.result is None:
        return f"No reward: {escape(episode.status)}."
    css = "good" if episode.reward > 0 else "bad"
    return (
        f"Hidden tests: {episode.result.passed} of {episode.result.total} passed. "
        f'<strong class="{css}">Reward {episode.reward:g}</strong>'
        + (", and a decoy's mark surfaced" if episode.canary else "")
        + "."
    )


def _step(number: int, step: Step) -> str:
    did, source = _action(step)
    shown = step.shown or (step.observation.stdout + step.observation.stderr if step.observation is not None else b"")
    saw = f"<pre>{_text(shown)}</pre>" if shown else '<span class="dim">(nothing)</span>'
    return (
        f"<li><h4>Step {number}</h4>"
        f'<div class="pair"><div><span class="label">{did}</span>{source}</div>'
        f'<div><span class="label">The agent saw</span>{saw}</div></div>'
        f'<div class="truth" role="note">{_truth(step)}</div></li>\n'
    )


def _action(step: Step) -> tuple[str, str]:
    if step.action is None:
        did = {
            "done": "The agent finished",
            "test": "The agent asked for a test",
            "invalid": "The agent wrote no valid action",
            "submit": "The agent acted",
        }[step.call]
        return did, f"<pre>{_text(step.text)}</pre>"
    if step.action.kind == "run":
        did = "The agent ran a script"
    else:
        did = f"The agent wrote <code>{_text((step.action.path or '').encode(errors='surrogateescape'))}</code>"
    spans = step.verdict.spans if step.verdict is not None and step.verdict.decision != "allow" else ()
    return did, f"<pre><code>{_marked(step.action.body, spans)}</code></pre>"


def _truth(step: Step) -> str:
    parts = []
    if step.call == "invalid":
        parts.append(f"<p>{escape(step.format_error)}</p>")
    if step.verdict is not None:
        parts.append(_verdict(step.verdict, step.wall_s))
    if step.test is not None:
        parts.append(f"<p>Tests: {step.test.passed} of {step.test.total} passed.</p>")
    if step.canary:
        parts.append('<p class="bad">A decoy\'s mark surfaced: evaluation material was read.</p>')
    return "".join(parts) or "<p>Nothing to judge.</p>"


def _verdict(verdict: Verdict, wall_s: float) -> str:
    if verdict.decision == "allow":
        return f"<p>Allowed, and run in {wall_s * 1000:.0f} ms.</p>"
    rules = ", ".join(f"<code>{escape(rule)}</code>" for rule in verdict.rules)
    families = escape(", ".join(verdict.families))
    if verdict.decision == "review":
        what = "Allowed, and marked for review"
    elif verdict.enforced:
        what = '<strong class="bad">Blocked: nothing was run.</strong> What the agent saw is a fake failure'
        what += f" (<code>{escape(verdict.fake)}</code>)" if verdict.fake else ""
    else:
        what = '<strong class="bad">A cheat, but the anti-cheat was only observing:</strong> it was run'
    version = f"rule set {escape(verdict.rule_set_version)}, <code>{escape(verdict.rule_set_hash[:12])}</code>"
    return f"<p>{what}. Rule {rules} ({families}): {escape(verdict.message)}. <span class='dim'>{version}</span></p>"


def _marked(body: bytes, spans: Sequence[tuple[int, int]]) -> str:
    """`body` with the evidence marked. Spans that cover everything mark nothing: they only say "somewhere in it"."""
    pieces, position = [], 0
    for start, end in sorted(spans):
        if position <= start < end <= len(body) and end - start < len(body):
            pieces += [_text(body[position:start]), f"<mark>{_text(body[start:end])}</mark>"]
            position = end
    return "".join(pieces) + _text(body[position:])


def _text(data: bytes) -> str:
    """Bytes as text that can do nothing: escaped, control characters as their pictures."""
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}\n... ({len(text) - MAX_SHOWN} more characters)"
    visible = "".join(
        chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else "␡" if c == "\x7f" else c for c in text
    )
    return escape(visible)
