"""`ectype rules activate`, `rollback`, `status`: the rule set of a run, changed while it runs; `diff` tells two apart.

In go a run folder and the name or folder of a set; the run's book of rule sets is changed, its audit log says by whom
and why, and every live worker is waited for. What comes out is text and an exit status: 0 when all workers have taken
it, 1 when one has not.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from audit.events import AuditLog
from detect.engine import Engine
from detect.rule_book import SHORT, Activation, Taken
from detect.rule_diff import Replay, diff_rules, replay
from detect.rule_set import RULES_DIR, load_rules
from jobs.job import read_records
from jobs.past import Opened, episode_files, opened_decoys, past_of, read_episodes
from jobs.run_dir import RunDir

Say = Callable[[str], None]
WAIT_S = 10.0
PARALLEL_FROM = 4
"""Files of episodes from which on several processes read them."""
_POLL_S = 0.05


def activate(run: RunDir, given: str, *, why: str, wait_s: float = WAIT_S, say: Say = print) -> int:
    """Put a set in force in every worker of the run. Raises RuleError, and changes nothing, when it is not fit."""
    source = find_set(run, given)
    return _changed(run, run.rules.activate(source, given, by=operator(), why=why), wait_s, say)


def rollback(run: RunDir, *, why: str, wait_s: float = WAIT_S, say: Say = print) -> int:
    """Put back the set that was in force before."""
    return _changed(run, run.rules.rollback(by=operator(), why=why), wait_s, say)


def status(run: RunDir, *, as_json: bool = False, say: Say = print) -> None:
    """Every activation, oldest first, and by which one each worker works."""
    activations, workers = run.rules.activations(), run.rules.taken()
    if as_json:
        said = {"activations": activations, "workers": list(workers.values())}
        say(msgspec.json.encode(said).decode())
        return
    for activation in activations:
        say(f"{'*' if activation is activations[-1] else ' '} {_describe(activation)}")
    for taken in workers.values():
        say(f"  {_taken(taken, activations[taken.number])}")


def diff(
    old: str, new: str, *, over: RunDir | None, processes: int | None = None, as_json: bool = False, say: Say = print
) -> None:
    """What differs between two sets, and `over` which actions of a run's episodes they would decide differently."""
    folders = find_set(over, old), find_set(over, new)
    rules = diff_rules(load_rules(folders[0]), load_rules(folders[1]))
    past = None if over is None else _replay_all(over, folders, processes)
    if as_json:
        say(msgspec.json.encode({"rules": rules, "past": past}).decode())
        return
    say(f"{rules.old_version} ({rules.old_hash[:SHORT]}) -> {rules.new_version} ({rules.new_hash[:SHORT]})")
    for name in rules.added:
        say(f"  + {name}")
    for name in rules.removed:
        say(f"  - {name}")
    for name, parts in rules.changed.items():
        say(f"  ~ {name}: {', '.join(parts)}")
    if not (rules.added or rules.removed or rules.changed):
        say("  the rules are the same" + ("" if rules.old_hash == rules.new_hash else "; examples or version differ"))
    if past is not None:
        _tell(past, say)


def _tell(past: Replay, say: Say) -> None:
    differ = sum(change.count for change in past.changes if change.old != change.new)
    say(f"{past.actions} actions of {past.episodes} episodes: {differ} are decided differently")
    for change in past.changes:
        by = ", ".join(change.rules)
        what = f"{change.old} -> {change.new}" if change.old != change.new else f"{change.old}, by other rules"
        say(f"  {change.count:6} {what}: {by}")
        for example in change.examples:
            say(f"         {example.episode} step {example.step} ({example.task}): {example.excerpt!r}")
    if past.unlike_then:
        say(f"  {past.unlike_then} actions are not decided by the first set now as they were by it then")


def _replay_all(run: RunDir, folders: tuple[Path, Path], processes: int | None) -> Replay:
    files, opened = episode_files(run), opened_decoys(run)
    count = min(processes or os.cpu_count() or 1, len(files))
    total = Replay()
    if len(files) < PARALLEL_FROM or count == 1:
        _load_sets(folders, opened)
        parts = map(_replay_file, files)
        for part in parts:
            total.add(part)
        return total
    with ProcessPoolExecutor(count, initializer=_load_sets, initargs=(folders, opened)) as pool:
        for part in pool.map(_replay_file, files):
            total.add(part)
    return total


_sets: tuple[Engine, Engine, Opened]
"""Of this process, which compares file after file."""


def _load_sets(folders: tuple[Path, Path], opened: Opened) -> None:
    global _sets
    _sets = Engine(load_rules(folders[0])), Engine(load_rules(folders[1])), opened


def _replay_file(file: Path) -> Replay:
    old, new, opened = _sets
    total = Replay()
    for episode in read_episodes(file):
        total.add(replay(old, new, past_of(episode, opened)))
    return total


def find_set(run: RunDir | None, given: str) -> Path:
    """The folder of a set: `default` (the one that ships), `active`, a folder, one of the site's `rule_sets`, or a copy
    in the run by its version or the first digits of its hash. Raises EctypeError that lists what there is."""
    if given == "default":
        return RULES_DIR
    if (folder := Path(given)).is_dir():
        return folder
    known = {"default": RULES_DIR}
    if run is not None:
        known["active"] = run.rules.set_folder(run.rules.activations()[-1].hash)
        declared = run.site().rule_sets
        if declared is not None:
            known |= {path.parent.name: path.parent for path in sorted(Path(declared).glob("*/VERSION"))}
        kept = run.rules.kept()
        known |= kept
        found = {folder for name, folder in kept.items() if len(given) >= 4 and name.startswith(given[:SHORT])}
        found |= {folder for folder in kept.values() if (folder / "VERSION").read_text().strip() == given}
        if given not in known and len(found) == 1:
            return found.pop()
    if given in known:
        return known[given]
    raise EctypeError(
        f"there is no rule set {given!r}, or more than one",
        where="the folder given, `rule_sets` of the site, the sets kept in the run",
        remedy=f"use a folder, or one of: {', '.join(known)}",
    )


def operator() -> str:
    """Who runs this command."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _changed(run: RunDir, activation: Activation, wait_s: float, say: Say) -> int:
    with AuditLog(run.audit, "operator") as audit:
        told = {k: v for k, v in msgspec.structs.asdict(activation).items() if k != "kind"}
        audit.write("rules_activated", kind_of_activation=activation.kind, **told)
    say(_describe(activation))
    alive = {name for name, r in read_records(run).items() if name.startswith("sandbox-") and r.state == "running"}
    if not alive:
        say("no worker of the run is alive: it holds from the next start")
    deadline = time.monotonic() + wait_s
    while True:
        there = run.rules.taken()
        waiting = sorted(name for name in alive if name not in there or there[name].number < activation.number)
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    for name in sorted(alive - set(waiting)):
        say(_taken(there[name], activation))
    for name in waiting:
        say(f"{name}: has not taken it within {wait_s:g} s (is it alive? ectype status {run.path})")
    return int(bool(waiting) or any(there[name].refused for name in alive))


def _describe(activation: Activation) -> str:
    when = datetime.fromtimestamp(activation.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    who = f" by {activation.by}" if activation.by else ""
    why = f": {activation.why}" if activation.why else ""
    name = f"{activation.name}, version {activation.version}, {activation.hash[:SHORT]}"
    return f"{activation.number} {activation.kind:8} {name}, {when} UTC{who}{why}"


def _taken(taken: Taken, activation: Activation) -> str:
    if taken.refused:
        return f"{taken.worker}: refused activation {taken.number}, keeps {taken.hash[:SHORT]}: {taken.refused}"
    late = max(0.0, taken.at - activation.at)
    return f"{taken.worker}: works by activation {taken.number} ({taken.hash[:SHORT]}), {late:.2f} s after it"
