"""The record of an episode as the judge reads it: all of it when it is short, else the suspicious parts with context.

In goes a `ReviewEpisode`; out comes an `EpisodeRecord`, at most `limit_bytes` long. When not everything fits, parts are
chosen in this order: what stage 1 or a canary pointed at; code that nobody could resolve (`opaque`); looks outside the
workspace; files that are run later, or are the last word about a file; the beginning of every step; outputs. What is
left out is said so in its place. Nothing of the episode is executed. Stage 1's findings go into `notes`, which
are our own words.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

import msgspec

from detect.earlier import Earlier
from detect.facts import MAX_BYTES, WORKSPACE, Facts, read_facts
from detect.judge_prompt import line_ends
from queues.messages import Action, ReviewEpisode, ReviewStep, Verdict

CONTEXT_BYTES = 240
"""Shown on both sides of a suspicious span, and then to the ends of their lines if these are near."""
LINE_BYTES = 120
HEAD_BYTES = 200
FILE_HEAD_BYTES = 1500
OUTPUT_BYTES = 300
SPANS_PER_STEP = 24
_HARMLESS = (WORKSPACE, "/tmp", "/dev/null", "/dev/std", "/usr/include", "/usr/lib", "/usr/bin", "/bin", "/lib")

Window = tuple[int, int]


class EpisodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the agent's, `notes` are ours. `omitted_bytes` of the agent's actions and outputs are not in it."""

    task: str
    text: str
    notes: str = ""
    omitted_bytes: int = 0


def record_of(episode: ReviewEpisode, *, limit_bytes: int) -> EpisodeRecord:
    """The record of `episode`. The limit counts UTF-8 bytes of `text`, up to the bookkeeping of a few lines."""
    everything: list[list[Window]] = [[(0, len(step.action.body))] for step in episode.steps]
    outputs = [len(step.output) for step in episode.steps]
    text = _render(episode.steps, everything, outputs)
    if len(text.encode()) > limit_bytes:
        everything, outputs = _choose(episode.steps, limit_bytes)
        text = _render(episode.steps, everything, outputs)
    shown = sum(end - start for windows in everything for start, end in windows) + sum(outputs)
    total = sum(len(step.action.body) + len(step.output) for step in episode.steps)
    omitted = total - shown + episode.omitted_bytes
    return EpisodeRecord(task=episode.task, text=text, notes=_notes(episode, omitted), omitted_bytes=omitted)


def record_of_action(action: Action, verdict: Verdict, *, limit_bytes: int, task: str = "program") -> EpisodeRecord:
    """The record of a single action, for people and for labelled samples. `verdict`: what stage 1 says about it."""
    step = ReviewStep(step=0, action=action, verdict=verdict)
    episode = ReviewEpisode(request_id="", episode="", suite="", task=task, steps=(step,))
    return record_of(episode, limit_bytes=limit_bytes)


def _notes(episode: ReviewEpisode, omitted: int) -> str:
    notes = []
    if episode.canary:
        notes.append("A decoy that no honest program touches was opened in this episode.")
    for step in episode.steps:
        if step.canary:
            notes.append(f"Step {step.step} touched a decoy that no honest program touches.")
        if step.verdict.decision != "allow" and step.verdict.message:
            stopped = ", and it did not run" if step.verdict.enforced else ""
            notes.append(f"Automatic rules about step {step.step}: {step.verdict.message}{stopped}.")
    if len(notes) > 12:
        notes[12:] = [f"{len(notes) - 12} more notes of this kind."]
    if omitted:
        notes.append(f"{omitted} bytes of the episode are not shown.")
    return " ".join(notes)


def _choose(steps: Sequence[ReviewStep], limit: int) -> tuple[list[list[Window]], list[int]]:
    """Windows of each action's body and bytes of each output that fit into `limit` together, best first."""
    headers = [len(_header(step)) + 1 for step in steps]
    cost = 0
    windows: list[list[Window]] = [[] for _ in steps]
    outputs = [0] * len(steps)
    started: set[int] = set()
    for number, window in _wanted(steps):
        body = steps[number].action.body
        merged = _merge([*windows[number], _to_lines(body, window)])
        added = _size(body, merged) - _size(body, windows[number])
        added += 0 if number in started else headers[number] + 40
        if cost + added > limit:
            continue
        started.add(number)
        windows[number], cost = merged, cost + added
    for number in sorted(started, key=lambda number: (not steps[number].canary, number)):
        size = min(len(steps[number].output), OUTPUT_BYTES)
        escaped = len(_text(steps[number].output[:size]).encode()) + 60
        if size and cost + escaped <= limit:
            outputs[number], cost = size, cost + escaped
    return windows, outputs


def _wanted(steps: Sequence[ReviewStep]) -> Iterator[tuple[int, Window]]:
    """(step, span of its action) of everything worth showing, the most suspicious first."""
    for number, step in enumerate(steps):
        yield from ((number, span) for span in step.verdict.spans[:SPANS_PER_STEP])
        if step.canary:
            yield number, (0, HEAD_BYTES)
    opaque, outside, run_later = _facts_of(steps)
    yield from opaque
    yield from outside
    yield from ((number, (0, FILE_HEAD_BYTES)) for number in run_later)
    yield from ((number, (0, HEAD_BYTES)) for number in range(len(steps)))
    for size in (1000, 4000, 16_000, MAX_BYTES):
        yield from ((number, (0, size)) for number in range(len(steps)))


def _facts_of(steps: Sequence[ReviewStep]) -> tuple[list[tuple[int, Window]], list[tuple[int, Window]], list[int]]:
    """Spans of opaque code, spans of looks outside the workspace, steps whose file is run later or stays."""
    opaque: list[tuple[int, Window]] = []
    outside: list[tuple[int, Window]] = []
    written: dict[str, int] = {}
    run_later: list[int] = []
    history: list[tuple[Action, Verdict]] = []
    for number, step in enumerate(steps):
        facts = read_facts(step.action, Earlier(history) if history else None)
        opaque += [(number, fact.span) for fact in list(facts.of("opaque"))[:SPANS_PER_STEP]]
        outside += [(number, span) for span in _outside(facts)[:SPANS_PER_STEP]]
        for path in _run(facts):
            if (earlier := written.get(path)) is not None and earlier not in run_later:
                run_later.append(earlier)
        if not step.verdict.enforced:
            written |= {path: number for path in _writes(facts)}
        history.append((step.action, step.verdict))
    return opaque, outside, run_later + [n for n in written.values() if n not in run_later]


def _outside(facts: Facts) -> list[Window]:
    return [fact.span for fact in facts.of("path") if not fact.value.startswith(_HARMLESS)]


def _run(facts: Facts) -> list[str]:
    return [fact.value for fact in facts.of("path") if fact.access in ("run", "read")]


def _writes(facts: Facts) -> list[str]:
    return [posixpath.normpath(fact.value) for fact in facts.of("path") if fact.access == "write"]


def _to_lines(body: bytes, window: Window) -> Window:
    """The window with context, on to the ends of its lines where they are near, and never inside a UTF-8 character."""
    start, end = max(0, window[0] - CONTEXT_BYTES), min(len(body), window[1] + CONTEXT_BYTES)
    line = body.rfind(b"\n", max(0, start - LINE_BYTES), start)
    start = line + 1 if line >= 0 else (0 if start <= LINE_BYTES else start)
    line = body.find(b"\n", end, end + LINE_BYTES)
    end = line + 1 if line >= 0 else (len(body) if end + LINE_BYTES >= len(body) else end)
    while 0 < start < len(body) and body[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(body) and body[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _merge(windows: list[Window]) -> list[Window]:
    merged: list[Window] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def _size(body: bytes, windows: list[Window]) -> int:
    return sum(len(_text(body[start:end]).encode()) + 40 for start, end in windows)


def _render(steps: Sequence[ReviewStep], windows: list[list[Window]], outputs: list[int]) -> str:
    lines: list[str] = []
    skipped = 0
    for step, shown, output in zip(steps, windows, outputs, strict=True):
        body = step.action.body
        if body and not shown and not output:
            skipped += 1
            continue
        if skipped:
            lines.append(f"[{skipped} steps not shown]")
            skipped = 0
        lines.append(_header(step))
        at = 0
        for start, end in shown:
            if start > at:
                lines.append(f"[{start - at} bytes not shown]")
            lines.append(_text(body[start:end]))
            at = end
        if at < len(body):
            lines.append(f"[{len(body) - at} bytes not shown]")
        if output:
            lines.append("[the agent was shown]")
            lines.append(_text(step.output[:output]))
            if output < len(step.output):
                lines.append(f"[{len(step.output) - output} bytes not shown]")
    if skipped:
        lines.append(f"[{skipped} steps not shown]")
    return "\n".join(lines)


def _header(step: ReviewStep) -> str:
    stopped = ", stopped by a rule, did not run" if step.verdict.enforced else ""
    if step.action.kind == "write":
        return f"[step {step.step}: write the file {step.action.path}{stopped}]"
    return f"[step {step.step}: run in the shell{stopped}]"


def _text(data: bytes) -> str:
    """Text of the agent: every line is indented, so that none can pass for one of ours."""
    lines = line_ends(data.decode("utf-8", "backslashreplace"))
    return "\n".join("  " + line for line in (lines[:-1] if len(lines) > 1 and not lines[-1] else lines))
