"""What earlier steps of an episode left in the workspace, as far as their actions tell: files with content, links.

A script that was written in one step and is run in another is then read when it runs, with the arguments it is given.
Actions that were stopped left nothing. Only what a later action names is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from detect.facts import MAX_BYTES, WORKSPACE, read_facts
from detect.paths import resolve
from queues.messages import Action, Verdict

MAX_STEPS = 100
"""How many steps one looks back."""


class Earlier:
    """Looks back only when asked: most actions name no file of an earlier step."""

    def __init__(self, history: Sequence[tuple[Action, Verdict]]) -> None:
        self._history = history[-MAX_STEPS:]
        self._files: dict[str, bytes] | None = None
        self.links: dict[str, str] = {}
        for action, verdict in self._history:
            if not verdict.enforced and action.kind == "run" and b"ln " in action.body:
                self.links.update(_left_behind(action)[1])

    def get(self, path: str) -> bytes | None:
        if self._files is None:
            self._files = {}
            for action, verdict in self._history:
                if not verdict.enforced:
                    self._files.update(_left_behind(action)[0])
        return self._files.get(path)


@lru_cache(maxsize=2048)
def _left_behind(action: Action) -> tuple[dict[str, bytes], dict[str, str]]:
    if len(action.body) > MAX_BYTES:
        return {}, {}
    if action.kind == "write":
        where = resolve(action.path or "", WORKSPACE)
        return ({} if where is None else {where: action.body}), {}
    facts = read_facts(action)
    files = {code.written: code.data for code in facts.codes if code.written is not None}
    return files, dict(facts.links)
