"""What earlier steps of an episode left in the workspace, as far as their actions tell: files with content, links.

A script that was written in one step and is run in another is then read when it runs, with the arguments it is given.
Actions that were stopped left nothing. Only what a later action names is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from detect.facts import MAX_BYTES, WORKSPACE, read_facts
from detect.paths import resolve
from queues.messages import Action, Verdict

_RECORDED = re.compile(
    rb"(?:\breference\b[^\n;&]{0,300}?|\bdone\s{0,4}(?:2>\S{1,40}\s{1,4})?)(?:>{1,2}|"
    rb"\|\s{0,4}tee\s(?:-a\s)?)\s{0,4}[\"']?([\w./-]{1,200})"
    rb"|\bopen\(\s*[\"']([\w./-]{1,200})[\"']\s*,\s*[\"'][wa]"
)
"""Where a step that asks the reference puts something."""
MAX_STEPS = 100
"""How many steps one looks back."""


class Earlier:
    """Looks back only when asked: most actions name no file of an earlier step."""

    def __init__(self, history: Sequence[tuple[Action, Verdict]]) -> None:
        self._history = history[-MAX_STEPS:]
        self._files: dict[str, bytes] | None = None
        self._recorded: frozenset[str] | None = None
        self.links: dict[str, str] = {}
        for action, verdict in self._history:
            if not verdict.enforced and action.kind == "run" and b"ln " in action.body:
                self.links.update(_left_behind(action)[1])

    def recorded(self) -> frozenset[str]:
        """Names of files that earlier steps wrote with answers of the reference."""
        if self._recorded is None:
            found: set[str] = set()
            for action, verdict in self._history:
                if verdict.enforced or b"reference" not in action.body or len(action.body) > MAX_BYTES:
                    continue
                for match in _RECORDED.finditer(action.body):
                    where = (match[1] or match[2]).decode("latin-1")
                    # `> .d/$i.v` tells of the folder only
                    found.add(where if where.endswith("/") and where != "/tmp/" else where.rsplit("/", 1)[-1])
            self._recorded = frozenset(name for name in found if len(name) > 2)
        return self._recorded

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
