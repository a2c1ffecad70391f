"""Stage 1 of the anti-cheat, as a sandbox worker uses it: judge an action before it runs, and fake a failure.

An action and its episode's context go in; a `Verdict`, and for a blocked action an `Observation` in the exact shape of
a real one, come out. `enforce` stops a cheat; `observe` records the same verdict and lets it run; `off` looks at
nothing. The observation never tells a rule; the verdict is for the driver and the audit log only.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Literal

from detect import image_programs
from detect.earlier import MAX_STEPS
from detect.engine import Engine, Judged
from detect.fakes import Fake, fake_failure
from detect.rule_set import RULES_DIR, load_rules
from queues.context import EpisodeContext
from queues.messages import Action, Observation, Verdict

GuardMode = Literal["enforce", "observe", "off"]
MAX_SPANS = 16
_REMEMBERED = 64


class Guard:
    def __init__(
        self, engine: Engine, mode: GuardMode = "enforce", programs: frozenset[str] = image_programs.BASE
    ) -> None:
        """`programs`: what can be started in the sandboxes, so that fakes speak for no tool that is not there."""
        self.engine = engine
        self.programs = programs
        self.mode: GuardMode = mode
        self._judged: OrderedDict[tuple, Judged] = OrderedDict()
        self._faked: OrderedDict[tuple, Fake] = OrderedDict()

    @classmethod
    def load(cls, rules_dir: Path | None = None, mode: GuardMode = "enforce") -> Guard:
        """A guard with the rules of `rules_dir` (the rule set that ships, by default). Raises RuleError."""
        return cls(Engine(load_rules(rules_dir or RULES_DIR)), mode)

    def use(self, engine: Engine) -> None:
        """Judge by other rules from the next action on."""
        self.engine = engine
        self._judged.clear()
        self._faked.clear()

    def judge(self, action: Action, context: EpisodeContext) -> Verdict:
        if self.mode == "off":
            return Verdict()
        judged = self._look(action, context)
        rules = self.engine.rules
        if not judged.hits:
            return Verdict(rule_set_version=rules.version, rule_set_hash=rules.hash)
        decision = "block" if any(hit.rule.severity == "block" for hit in judged.hits) else "review"
        enforced = decision == "block" and self.mode == "enforce"
        return Verdict(
            decision=decision,
            enforced=enforced,
            rules=tuple(hit.rule.id for hit in judged.hits),
            families=tuple(dict.fromkeys(hit.rule.family for hit in judged.hits)),
            rule_set_version=rules.version,
            rule_set_hash=rules.hash,
            spans=tuple(dict.fromkeys(e.span for hit in judged.hits for e in hit.evidence))[:MAX_SPANS],
            message="; ".join(dict.fromkeys(hit.rule.message for hit in judged.hits)),
            fake=self._fake(judged, action, context).name if enforced else "",
        )

    def fake(self, action: Action, verdict: Verdict, context: EpisodeContext) -> Observation:
        """The failure that the agent sees instead of a blocked action's result: the same one for the same action."""
        return self._fake(self._look(action, context), action, context).observation

    def expected_s(self, action: Action, context: EpisodeContext) -> float | None:
        """How long what the fake pretends to have done takes on an idle machine, where that is known."""
        return self._fake(self._look(action, context), action, context).expected_s

    def _fake(self, judged: Judged, action: Action, context: EpisodeContext) -> Fake:
        key = _key(action, context)
        fake = self._faked.get(key)
        if fake is None:
            evidence = [e for hit in judged.hits for e in hit.evidence]
            fake = fake_failure(action, evidence, judged.facts, context, self.programs)
            _remember(self._faked, key, fake)
        return fake

    def _look(self, action: Action, context: EpisodeContext) -> Judged:
        """Judging and faking one action look at it once."""
        key = _key(action, context)
        judged = self._judged.get(key)
        if judged is None:
            judged = self.engine.judge(action, context)
            _remember(self._judged, key, judged)
        return judged


def _key(action: Action, context: EpisodeContext) -> tuple:
    history = tuple((earlier, verdict.enforced) for earlier, verdict in context.history[-MAX_STEPS:])
    return action, context.episode, context.task, context.observed, history


def _remember(known: OrderedDict, key: tuple, value: object) -> None:
    known[key] = value
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
