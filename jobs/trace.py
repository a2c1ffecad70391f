"""One step of one episode, from evidence to answer: why it was decided as it was, what the agent saw, what came of it.

A run folder, an episode and a step go in, a `Trace` comes out, put together from the audit log, the saved episodes and
the copies of rule sets in the run. The facts behind a verdict are found again by judging the action once more, by the
very set that judged it; where that set is not there any more, or says something else now, the trace says so.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from audit.errors import EctypeError
from audit.events import Event, read_events
from detect.engine import Engine
from detect.rule_set import RULES_DIR, RuleSet, load_rules
from jobs.past import episode_files, opened_decoys, past_of, read_episodes
from jobs.run_dir import RunDir
from queues.context import EpisodeContext
from queues.messages import Action, Observation, Verdict
from rl.episode import Episode

Span = tuple[int, int]
DECIDED = ("action", "block", "flag")
JUDGED = ("verdict", "review_dead_letter", "late_verdict")
OUTCOMES = ("episode_released", "episode_dropped", "episode_held", "episode_compensated", "late_verdict_given_up")
SUGGESTED = 5


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One reason of a rule: bytes of the action, and the fact that was found there (None: the text itself)."""

    span: Span
    line: int
    text: str
    fact: str = ""
    value: str = ""
    args: tuple[str, ...] = ()
    access: str = ""
    by: str = ""


class TracedRule(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    family: str = ""
    severity: str = ""
    message: str = ""
    references: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """`seen` is the text that the agent was given, `recorded` whether step and episode are saved as a whole.

    Times in seconds: `judged_s` of stage 1, `pretended_s` of the fake, `wall_s` of the true execution.
    """

    run: str
    episode: str
    suite: str
    task: str
    step: int
    worker: str
    time: float
    action: Action
    action_bytes: int
    verdict: Verdict
    rules: tuple[TracedRule, ...]
    activation: dict[str, Any] | None
    answer: Observation | None
    seen: bytes
    judged_s: float | None
    pretended_s: float | None
    wall_s: float | None
    canaries: tuple[dict[str, Any], ...]
    reviews: tuple[dict[str, Any], ...]
    outcomes: tuple[dict[str, Any], ...]
    status: str
    reward: float | None
    effect: str
    notes: tuple[str, ...]


def trace(run: RunDir, name: str, number: int) -> Trace:
    """Explain step `number` (counted from 0, as in the audit log) of episode `name`. Raises EctypeError with what is
    there instead, when there is no such episode, no such step, or nothing to judge in it."""
    events = _events_of(run, name)
    episode = _saved(run, name)
    if not events and episode is None:
        raise _unknown_episode(run, name)
    # an episode that was played again under the same id: what counts is its last session
    opened = max((n for n, e in enumerate(events) if e.kind == "session_opened"), default=0)
    decided = {e.step: e for e in events[opened:] if e.kind in DECIDED and e.kind != "action"}
    executed = {e.step: e for e in events[opened:] if e.kind == "action"}
    if number not in decided and number not in executed:
        raise _unknown_step(name, number, events[opened:], episode)
    hit, ran = decided.get(number), executed.get(number)
    event = hit or ran
    assert event is not None
    notes: list[str] = []
    step = episode.steps[number] if episode is not None and number < len(episode.steps) else None
    first = next((e.data for e in events[opened:] if e.kind == "session_opened"), {})
    if step is not None and step.action is not None:
        action = step.action
    else:
        path = event.data.get("path")
        action = Action(kind=event.data["kind_of_action"], path=path, body=event.data.get("body", b""))
        notes.append("the episode is not saved (yet, or at all): the action is shown as far as the audit log has it")
    verdict = step.verdict if step is not None and step.verdict is not None else _verdict(event)
    suite, task = first.get("suite", ""), first.get("task", "")
    context = EpisodeContext(episode=name, suite=suite, task=task, step=number)
    if episode is not None:
        opened_here = frozenset(o for o in opened_decoys(run) if o[0] == name)
        context = next((p.context for p in past_of(episode, opened_here) if p.context.step == number), context)
    return Trace(
        run=str(run.path),
        episode=name,
        suite=suite,
        task=task,
        step=number,
        worker=event.producer,
        time=event.time,
        action=action,
        action_bytes=event.data["bytes"] if "bytes" in event.data else len(action.body),
        verdict=verdict,
        rules=_explain(run, action, context, verdict, notes),
        activation=_activation(run, verdict.rule_set_hash, event.time),
        answer=step.observation if step is not None else _observation(hit),
        seen=step.shown if step is not None else b"",
        judged_s=event.data.get("judged_s"),
        pretended_s=hit.data.get("pretended_s") if hit is not None else None,
        wall_s=ran.data.get("wall_s") if ran is not None else None,
        canaries=tuple({"step": e.step, "place": e.data["place"]} for e in events if e.kind == "canary"),
        reviews=tuple(_plain(e) for e in events if e.kind in JUDGED),
        outcomes=tuple(_plain(e) for e in events if e.kind in OUTCOMES),
        status=episode.status if episode is not None else "",
        reward=episode.reward if episode is not None else None,
        effect=_effect(episode, events),
        notes=tuple(notes),
    )


def _events_of(run: RunDir, episode: str) -> list[Event]:
    found = read_events(run.audit, containing=f'"episode":{json.dumps(episode)}'.encode())
    return sorted((e for e in found if e.episode == episode), key=lambda e: e.time)


def _saved(run: RunDir, name: str) -> Episode | None:
    for file in reversed(sorted(run.episodes.glob("step-*.msgpack"))):
        if name.encode() in file.read_bytes():
            found = [episode for episode in read_episodes(file) if episode.id == name]
            if found:
                return found[-1]
    return None


def _verdict(event: Event) -> Verdict:
    data = event.data
    told = {k: data[k] for k in Verdict.__struct_fields__ if k in data}
    return msgspec.convert({"decision": "block" if event.kind == "block" else "allow", **told}, Verdict)


def _observation(hit: Event | None) -> Observation | None:
    if hit is None or "status" not in hit.data:
        return None
    return msgspec.convert({k: hit.data[k] for k in ("status", "exit_status", "stdout", "stderr")}, Observation)


def _explain(
    run: RunDir, action: Action, context: EpisodeContext, verdict: Verdict, notes: list[str]
) -> tuple[TracedRule, ...]:
    """The rules that decided, with their evidence as far as the rule set is still there."""
    if not verdict.rules:
        return ()
    rules = _rule_set(run, verdict.rule_set_hash)
    if rules is None:
        notes.append(f"rule set {verdict.rule_set_hash[:12]} is not kept in this run: the facts cannot be found again")
        family = ", ".join(verdict.families)
        return tuple(TracedRule(id=name, family=family, message=verdict.message) for name in verdict.rules)
    hits = {hit.rule.id: hit for hit in Engine(rules).judge(action, context).hits}
    known = {rule.id: rule for rule in rules.rules}
    if set(hits) != set(verdict.rules) - {"canary"}:
        now = ", ".join(hits) or "no rule"
        notes.append(f"judged again, {now} hits: the record lacks something of what the worker knew")
    traced = []
    for name in verdict.rules:
        rule, hit = known.get(name), hits.get(name)
        traced.append(
            TracedRule(
                id=name,
                family=rule.family if rule is not None else "evaluation",
                severity=rule.severity if rule is not None else "block",
                message=rule.message if rule is not None else verdict.message,
                references=rule.references if rule is not None else (),
                evidence=tuple(_evidence(action, e.span, e.fact) for e in hit.evidence) if hit is not None else (),
            )
        )
    return tuple(traced)


def _evidence(action: Action, span: Span, fact: Any) -> Evidence:
    start, end = span
    text = action.body[start:end].decode("utf-8", "backslashreplace")
    place = {"span": span, "line": action.body.count(b"\n", 0, start) + 1, "text": text[:400]}
    if fact is None:
        return Evidence(**place)
    shown = {"value": fact.value.replace("\x01", "?"), "args": tuple(a.replace("\x01", "?") for a in fact.args)}
    return Evidence(**place, fact=fact.kind, access=fact.access, by=fact.by, **shown)


def _rule_set(run: RunDir, digest: str) -> RuleSet | None:
    if run.rules.set_folder(digest).is_dir():
        return run.rules.load(digest)
    shipped = load_rules(RULES_DIR)
    return shipped if shipped.hash == digest else None


def _activation(run: RunDir, digest: str, time: float) -> dict[str, Any] | None:
    """The activation by which the set was in force then."""
    if not run.rules.pointer.exists():
        return None
    fits = [a for a in run.rules.activations() if a.hash == digest and a.at <= time]
    return msgspec.structs.asdict(fits[-1]) if fits else None


def _effect(episode: Episode | None, events: Sequence[Event]) -> str:
    """What all of it meant for learning, in words."""
    said = []
    graded = next((e.data for e in reversed(events) if e.kind == "grading" and e.data.get("call") == "result"), None)
    if graded is not None and "passed" in graded:
        said.append(f"the submission passed {graded['passed']} of {graded['total']} hidden tests")
        if graded.get("voided"):
            said.append("which counts for nothing, since a decoy was read")
    if episode is not None:
        said.append(f"reward {episode.reward:g}" if episode.reward is not None else f"no reward ({episode.status})")
    for event in events:
        data = event.data
        if event.kind == "episode_released":
            said.append(f"trained on with reward {data['reward']:g} ({data['reason']}) in step {data['training_step']}")
        elif event.kind == "episode_dropped":
            said.append(f"dropped ({data['reason']}) in step {data['training_step']}: nothing was learnt from it")
        elif event.kind == "episode_compensated":
            said.append(f"trained on again with reward {data['reward']:g} in step {data['training_step']}")
    return "; ".join(said) or "not graded yet"


def _plain(event: Event) -> dict[str, Any]:
    return {"kind": event.kind, "time": event.time, "producer": event.producer, **event.data}


def _unknown_episode(run: RunDir, name: str) -> EctypeError:
    known = {e.episode for e in read_events(run.audit, containing=b'"kind":"session_opened"')}
    if run.episodes.is_dir() and any(run.episodes.iterdir()):
        known |= {episode.id for episode in read_episodes(episode_files(run)[-1])}
    near = difflib.get_close_matches(name, known, n=SUGGESTED, cutoff=0.3) or sorted(known)[-SUGGESTED:]
    return EctypeError(
        f"there is no episode {name!r} in this run",
        where=str(run.audit),
        remedy=f"did you mean: {', '.join(near)}" if near else "no episode was played yet",
    )


def _unknown_step(name: str, number: int, events: Iterable[Event], episode: Episode | None) -> EctypeError:
    steps = sorted({e.step for e in events if e.kind in DECIDED})
    stopped = sorted({e.step for e in events if e.kind in ("block", "flag")})
    what = f"step {number} of episode {name} has no action that was judged"
    if episode is not None and 0 <= number < len(episode.steps):
        what += f" (it was `{episode.steps[number].call}`)"
    listed = ", ".join(map(str, stopped[:10])) or "none"
    return EctypeError(
        what, remedy=f"steps with an action: {', '.join(map(str, steps[:40])) or 'none'}; with a hit: {listed}"
    )
