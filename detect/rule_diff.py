"""What changes from one rule set to another: in the rules, and on actions that were judged in the past.

In go two rule sets, and episodes as they were (actions in order, what came of each, what the sandbox saw); out come
rules added, removed and changed, and every action on which the two decide differently. Both sets judge every action in
the same past, the one that really was: what a set would have blocked earlier is still in the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from detect.engine import Engine
from detect.rule_set import RuleSet
from queues.context import EpisodeContext
from queues.messages import Action, Decision, Verdict

EXAMPLES = 3
"""Kept of each kind of change."""
EXCERPT = 160
_PARTS = ("when", "severity", "family", "languages", "message")


class RulesDiff(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: rule -> which of its parts differ. Examples and references are not compared: they decide nothing."""

    old_version: str
    old_hash: str
    new_version: str
    new_hash: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the past, in the context in which it was judged, and what was decided then."""

    action: Action
    context: EpisodeContext
    verdict: Verdict


class Example(msgspec.Struct, frozen=True, kw_only=True):
    episode: str
    step: int
    task: str
    excerpt: str
    """The beginning of what the evidence points to."""


class Change(msgspec.Struct, kw_only=True):
    """All actions that change in one way. `rules`: those that hit in one of the sets only."""

    old: Decision
    new: Decision
    rules: tuple[str, ...]
    count: int = 0
    examples: list[Example] = []


class Replay(msgspec.Struct, kw_only=True):
    """What two sets say about the same actions. `unlike_then`: actions that the old set, which judged them at the time,
    decides differently now: the record of an episode does not hold all that a worker knew."""

    episodes: int = 0
    actions: int = 0
    unlike_then: int = 0
    changes: list[Change] = []

    def add(self, other: Replay) -> None:
        self.episodes += other.episodes
        self.actions += other.actions
        self.unlike_then += other.unlike_then
        known = {(c.old, c.new, c.rules): c for c in self.changes}
        for change in other.changes:
            mine = known.get((change.old, change.new, change.rules))
            if mine is None:
                self.changes.append(change)
            else:
                mine.count += change.count
                mine.examples = (mine.examples + change.examples)[:EXAMPLES]
        self.changes.sort(key=lambda c: (c.old == c.new, -c.count, c.rules))


def diff_rules(old: RuleSet, new: RuleSet) -> RulesDiff:
    before = {rule.id: rule for rule in old.rules}
    after = {rule.id: rule for rule in new.rules}
    changed = {
        name: parts
        for name in before.keys() & after.keys()
        if (parts := tuple(f for f in _PARTS if getattr(before[name], f) != getattr(after[name], f)))
    }
    return RulesDiff(
        old_version=old.version,
        old_hash=old.hash,
        new_version=new.version,
        new_hash=new.hash,
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=dict(sorted(changed.items())),
    )


def replay(old: Engine, new: Engine, episode: Iterable[Past]) -> Replay:
    """Judge one episode's actions by both sets."""
    total = Replay(episodes=1)
    for past in episode:
        total.actions += 1
        before, after = _decide(old, past), _decide(new, past)
        then = past.verdict
        if then.rule_set_hash == old.rules.hash and "canary" not in then.rules and then.decision != before[0]:
            total.unlike_then += 1
        if before[:2] != after[:2]:
            start, end = (after[2] or before[2] or [(0, len(past.action.body))])[0]
            excerpt = past.action.body[start:end].decode("utf-8", "replace")[:EXCERPT]
            context = past.context
            example = Example(episode=context.episode, step=context.step, task=context.task, excerpt=excerpt)
            rules = tuple(sorted(set(before[1]) ^ set(after[1])))
            change = Change(old=before[0], new=after[0], rules=rules, count=1, examples=[example])
            total.add(Replay(changes=[change]))
    return total


def _decide(engine: Engine, past: Past) -> tuple[Decision, tuple[str, ...], Sequence[tuple[int, int]]]:
    hits = engine.judge(past.action, past.context).hits
    if not hits:
        return "allow", (), ()
    decision = "block" if any(hit.rule.severity == "block" for hit in hits) else "review"
    return decision, tuple(hit.rule.id for hit in hits), [e.span for hit in hits for e in hit.evidence]
