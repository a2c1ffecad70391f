"""Rules as data: one YAML file per rule, read into typed records, with a version and a content hash.

A folder of rules goes in, a `RuleSet` comes out. Unknown keys, wrong types, bad regular expressions and rules without
examples are refused with the file's name: a rule that silently never matches is worse than none.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from audit.errors import EctypeError
from detect.facts import Access, Language
from queues.context import EpisodeContext, Event, Observed
from queues.messages import Action

RULES_DIR = Path(__file__).parent / "rules"

Family = Literal[
    "evaluation",
    "network",
    "upstream",
    "reference",
    "tampering",
    "forced-success",
    "hard-coded",
    "environment",
    "escape",
    "unreadable",
]


class RuleError(EctypeError):
    """A rule file, or a whole folder of them, that cannot be used."""


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Place(Strict, frozen=True, kw_only=True):
    """Which code a condition is about. `code`: what runs with the action, what it writes to a file, or both.

    `file` is a regular expression for the path that is written.
    """

    code: Literal["any", "action", "file"] = "any"
    file: str = ""
    languages: tuple[Language, ...] = ()


class PathCondition(Place, frozen=True, kw_only=True):
    """A path (or a glob that could be it): `under` a folder or the folder itself; or from which a walk `covers` one."""

    under: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    match: str = ""
    access: tuple[Access, ...] = ("read", "write", "run", "list")
    by: str = ""


class CommandCondition(Place, frozen=True, kw_only=True):
    """A program that would be started. `args` must match the arguments joined by blanks, `without` must not.

    `task_program`: the name is the one of the task itself.
    """

    name: tuple[str, ...] = ()
    args: str = ""
    without: str = ""
    task_program: bool = False


class CallCondition(Place, frozen=True, kw_only=True):
    """A function that would be called, by dotted name (`os.*` for all of a module); `args` as for commands."""

    name: tuple[str, ...]
    args: str = ""
    without: str = ""


class ImportCondition(Place, frozen=True, kw_only=True):
    module: tuple[str, ...]


class StringCondition(Place, frozen=True, kw_only=True):
    match: str


class OpaqueCondition(Place, frozen=True, kw_only=True):
    reason: tuple[str, ...] = ()


class TraitCondition(Place, frozen=True, kw_only=True):
    """What a written file is able to do, or can only do (see `detect.traits`)."""

    name: tuple[str, ...]


class TableCondition(Strict, frozen=True, kw_only=True):
    """A written file is mostly a table from literals to literals (see `detect.tables`).

    `entries` is the least number of pairs, `share` the least part of the file's code that they make up, `digests` asks
    for keys that are hashes, `answered` for values that the reference gave in this episode (their least part of all).
    """

    file: str = ""
    entries: int = 8
    share: float = 0.0
    digests: bool = False
    answered: float = 0.0


class ObservedCondition(Strict, frozen=True, kw_only=True):
    """The sandbox saw one of `events` at least `times` in earlier steps."""

    events: tuple[Event, ...]
    times: int = 1


class TaskCondition(Strict, frozen=True, kw_only=True):
    """The task is one of these, or of one of these suites."""

    name: tuple[str, ...] = ()
    suite: tuple[str, ...] = ()


class QueryCondition(Strict, frozen=True, kw_only=True):
    """A tree-sitter query; the condition holds where it captures something as `@hit`.

    Code is only parsed when the text `needs`, or one of several, occurs in it.
    """

    language: Literal["shell", "python", "c", "cpp", "go", "rust", "java", "javascript"]
    source: str
    needs: str | tuple[str, ...]
    code: Literal["any", "action", "file"] = "any"


class Condition(Strict, frozen=True, kw_only=True):
    """Exactly one of these. `regex` and `contains` look at the action's whole text, the rest at what was understood.

    `contains` holds where one of its texts occurs: cheap, it keeps a slow `regex` behind it from being tried in vain.
    """

    any: tuple[Condition, ...] | None = None
    all: tuple[Condition, ...] | None = None
    none: tuple[Condition, ...] | None = None
    path: PathCondition | None = None
    command: CommandCondition | None = None
    call: CallCondition | None = None
    imports: ImportCondition | None = None
    string: StringCondition | None = None
    opaque: OpaqueCondition | None = None
    trait: TraitCondition | None = None
    table: TableCondition | None = None
    observed: ObservedCondition | None = None
    task: TaskCondition | None = None
    query: QueryCondition | None = None
    contains: tuple[str, ...] | None = None
    regex: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a condition needs exactly one key, this one has {given or 'none'}")

    @property
    def parts(self) -> tuple[Condition, ...]:
        """The conditions that it is made of."""
        return self.any or self.all or self.none or ()


class Example(Strict, frozen=True, kw_only=True):
    """One action in a rule's tests: a script to `run`, or a `body` to `write` to a path.

    `task`, `suite`, `events` and `answers` (what the sandbox saw, what the reference said before) where they matter.
    """

    run: str | None = None
    write: str | None = None
    body: str = ""
    task: str = "example"
    suite: str = "example"
    events: tuple[Event, ...] = ()
    answers: tuple[str, ...] = ()

    @property
    def context(self) -> EpisodeContext:
        observed = Observed(events=self.events, answers=tuple(answer.encode() for answer in self.answers))
        return EpisodeContext(episode="example", suite=self.suite, task=self.task, observed=observed)

    @property
    def action(self) -> Action:
        if self.run is not None:
            return Action(kind="run", body=self.run.encode())
        return Action(kind="write", path=self.write, body=self.body.encode())


class Rule(Strict, frozen=True, kw_only=True):
    """One rule. `severity: block` stops the action, `review` lets it run and marks the episode for the judge."""

    id: str
    family: Family
    severity: Literal["block", "review"]
    message: str
    when: Condition
    match: tuple[str | Example, ...]
    no_match: tuple[str | Example, ...]
    todo_match: tuple[str | Example, ...] = ()
    """Known gaps: what the rule should catch and does not yet."""
    languages: tuple[Language, ...] = ()
    """Where given, only code in these languages is looked at."""
    references: tuple[str, ...] = ()


class RuleSet(Strict, frozen=True, kw_only=True):
    version: str
    hash: str
    rules: tuple[Rule, ...]


def example(given: str | Example) -> Example:
    """A plain string in `match:` is a script to run."""
    return Example(run=given) if isinstance(given, str) else given


def load_rules(folder: Path = RULES_DIR) -> RuleSet:
    """Read all `*.yaml` of `folder` and its VERSION. Raises RuleError naming file, place and remedy."""
    files = sorted(folder.glob("*.yaml"))
    version_file = folder / "VERSION"
    if not files or not version_file.is_file():
        missing = "no *.yaml in it" if not files else "no VERSION file in it"
        raise RuleError(f"not a rule set: {missing}", where=str(folder), remedy="point to a folder like detect/rules")
    digest = hashlib.sha256()
    rules = []
    for file in [version_file, *files]:
        data = file.read_bytes()
        digest.update(f"{file.name}\0{len(data)}\0".encode() + data)
        if file.suffix == ".yaml":
            rules.append(read_rule(file, data))
    return RuleSet(version=version_file.read_text().strip(), hash=digest.hexdigest(), rules=tuple(rules))


def read_rule(file: Path, data: bytes) -> Rule:
    try:
        rule = msgspec.convert(yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), Rule)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise RuleError(f"rule cannot be read: {error}", where=str(file), remedy="see docs/rules.md") from error
    if rule.id != file.stem:
        raise RuleError(f"rule id {rule.id!r} is not the file's name", where=str(file), remedy=f"id: {file.stem}")
    if not rule.match or not rule.no_match:
        raise RuleError(
            "a rule needs examples under `match:` and `no_match:`", where=str(file), remedy="add at least one of each"
        )
    for pattern in _patterns(rule.when):
        try:
            compiled(pattern)
        except re.error as error:
            raise RuleError(
                f"bad regular expression {pattern!r}: {error}", where=str(file), remedy="correct it"
            ) from error
    return rule


def _patterns(condition: Condition) -> list[str]:
    found = [condition.regex] if condition.regex is not None else []
    for part in condition.parts:
        found += _patterns(part)
    for leaf in (condition.path, condition.command, condition.call, condition.string, condition.table, condition.trait):
        if leaf is not None:
            found += [p for name in ("file", "match", "args", "without", "by") if (p := getattr(leaf, name, ""))]
    return found


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
