"""`ectype trace`: a `Trace` for people, from the evidence to the answer, or as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from jobs.run_dir import RunDir
from jobs.terminal import marked, visible
from jobs.trace import Trace, trace

SHOWN_EVIDENCE = 8


def show(run: RunDir, episode: str, step: int, *, as_json: bool, console: Console | None = None) -> None:
    """Explain one step. Raises EctypeError when it does not exist."""
    found = trace(run, episode, step)
    if as_json:
        print(json.dumps(_plain(found)))
        return
    _print(found, console or Console(highlight=False, soft_wrap=True))


def _plain(found: Trace) -> Any:
    """JSON values; bytes as text where they are UTF-8, else as base64."""

    def convert(value: Any) -> Any:
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        return [convert(item) for item in value] if isinstance(value, list | tuple) else value

    # records of the wire leave out defaults; a reader of JSON should not have to know them
    whole = {name: msgspec.structs.asdict(part) for name, part in _records(found)}
    return convert({**msgspec.to_builtins(found, builtin_types=(bytes,)), **whole})


def _records(found: Trace) -> Iterator[tuple[str, msgspec.Struct]]:
    for name in ("action", "verdict", "answer"):
        if (part := getattr(found, name)) is not None:
            yield name, part


def _print(found: Trace, console: Console) -> None:
    def say(text: str, style: str = "") -> None:
        console.print(Text(visible(text.encode("utf-8", "surrogatepass")), style=style))

    def head(text: str) -> None:
        console.print()
        say(text, "bold")

    verdict = found.verdict
    when = datetime.fromtimestamp(found.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    say(f"episode {found.episode}, step {found.step}, task {found.suite}/{found.task}", "bold")
    say(f"{when} UTC on {found.worker}")

    head("1  What the agent did")
    what = "ran a script" if found.action.kind == "run" else f"wrote the file {found.action.path}"
    say(f"{what}, {found.action_bytes} bytes")
    spans = [e.span for rule in found.rules for e in rule.evidence] or list(verdict.spans)
    console.print(marked(found.action.body, spans), end="")

    head("2  What was found in it")
    for rule in found.rules:
        kind = ", ".join(part for part in (rule.family, rule.severity) if part)
        say(f"{rule.id} [{kind}]: {rule.message}", "yellow")
        for e in rule.evidence[:SHOWN_EVIDENCE]:
            fact = f"{e.fact} {e.value} {' '.join(e.args)}".strip() if e.fact else "the text itself"
            how = ", ".join(part for part in (e.access, f"by {e.by}" if e.by else "") if part)
            say(f"  line {e.line}, bytes {e.span[0]}-{e.span[1]}: {fact}" + (f" ({how})" if how else ""))
        if len(rule.evidence) > SHOWN_EVIDENCE:
            say(f"  and {len(rule.evidence) - SHOWN_EVIDENCE} more")
        for reference in rule.references:
            say(f"  see {reference}")
    if not found.rules:
        say("no rule hit")

    head("3  What was decided")
    enforced = {"block": "blocked: nothing was run" if verdict.enforced else "a hit, but only observed: it ran"}
    said = enforced.get(verdict.decision, "ran, and is marked for review" if verdict.decision == "review" else "ran")
    say(f"{verdict.decision}: {said}", "red" if verdict.decision == "block" else "")
    say(f"rule set {verdict.rule_set_version or '-'}, {verdict.rule_set_hash or 'none'}")
    if found.activation is not None:
        a = found.activation
        by = f" by {a['by']}" if a["by"] else ""
        say(
            f"in force by activation {a['number']} ({a['kind']} {a['name']}{by})"
            + (f": {a['why']}" if a["why"] else "")
        )
    times = {"judged in": found.judged_s, "pretended to run for": found.pretended_s, "ran for": found.wall_s}
    told = [f"{name} {1000 * s:.1f} ms" for name, s in times.items() if s is not None and (s or name == "judged in")]
    if told:
        say(", ".join(told))

    head("4  What the agent saw")
    if verdict.fake:
        say(f"a fake failure: {verdict.fake}", "red")
    if found.answer is not None:
        say(f"status {found.answer.status}, exit status {found.answer.exit_status}")
    seen = found.seen or (found.answer.stdout + found.answer.stderr if found.answer is not None else b"")
    console.print(marked(seen, ()), end="")

    head("5  What came of it")
    for canary in found.canaries:
        say(f"a decoy surfaced in step {canary['step']} ({canary['place']})", "red")
    for review in found.reviews:
        say(_review(review))
    if not found.reviews:
        say("no verdict of a judge")
    say(found.effect)
    for note in found.notes:
        say(f"note: {note}", "dim")


def _review(review: dict[str, Any]) -> str:
    if review["kind"] == "review_dead_letter":
        return f"no judge could judge it: given up after {review['attempts']} attempts"
    probability = review.get("probability")
    p = "" if probability is None else f", P(cheat) {probability:.3f}"
    if review["kind"] == "late_verdict":
        return f"the verdict came {review['steps_late']} steps late: {review['decision']}{p}"
    why = f": {review['reason']}" if review.get("reason") else ""
    prompt = review.get("prompt_version") or "-"
    return f"judge {review.get('judge') or '-'} (prompt {prompt}): {review['decision']}{p}{why}"
