"""`ectype samples`: look at what was blocked or flagged, say what it is, and export it as data.

In go a store (its folder, or a run's) and what a person presses; labels go into the store, text and JSONL come out.
Only labelled samples are exported: what nobody looked at is no ground truth.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import termios
import tty
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from audit.errors import EctypeError
from detect.judge_prompt import Prompt, load_prompt
from detect.judge_record import record_of
from detect.samples import STATES, Label, Sample, SampleStep, SampleStore, State, episode_of
from jobs.rules_command import operator
from jobs.run_dir import RunDir
from jobs.terminal import marked, visible

Say = Callable[[str], None]
KEYS: dict[str, State] = {"c": "confirmed", "f": "false_positive"}
HELP = "[c]onfirm a cheat   [f]alse positive   [s]kip   [u]ndo   [q]uit"
OUTPUT_SHOWN = 1000


def open_store(given: Path) -> SampleStore:
    """The store in a folder, or of the run in it. Raises EctypeError when the folder is neither."""
    if (given / "run.yaml").is_file():
        return SampleStore(RunDir.open(given).samples(), by=operator())
    if not given.is_dir():
        raise EctypeError("there is no such folder", where=str(given), remedy="name a run folder, or a sample store")
    if any(given.iterdir()) and not any((given / part).is_dir() for part in ("found", "labels")):
        raise EctypeError(
            "neither a run nor a sample store", where=str(given), remedy="name a run folder, or `samples` of the site"
        )
    return SampleStore(given, by=operator())


def show_list(store: SampleStore, *, state: str | None, as_json: bool, say: Say = print) -> None:
    """One line per sample, oldest first."""
    states, wanted = store.states(), _state(state) if state is not None else None
    counts: Counter[str] = Counter()
    for sample in store.samples().values():
        is_now = states.get(sample.id, "suspected")
        counts[is_now] += 1
        if wanted is not None and is_now != wanted:
            continue
        if as_json:
            say(json.dumps({"state": is_now, **msgspec.to_builtins(sample)}))
        else:
            say(f"{sample.id}  {is_now:14}  {sample.source:6}  {sample.task:12}  {_why(sample)}")
    if not as_json:
        say(", ".join(f"{counts[name]} {name}" for name in STATES))


def put_label(store: SampleStore, given: str, state: str, *, note: str, say: Say = print) -> None:
    sample = store.find(given)
    store.label(sample.id, _state(state), note)
    store.close()
    say(f"{sample.id}: {state}")


def export(
    store: SampleStore,
    out: Path,
    *,
    supervised: bool,
    prompt: Prompt | None = None,
    record_bytes: int,
    say: Say = print,
) -> None:
    """Write the labelled samples: chats of the judge's prompt and the right answer, or actions with labels
    and what came before them."""
    states, lines, left_out = store.states(), [], 0
    for sample in store.samples().values():
        state = states.get(sample.id, "suspected")
        if state == "suspected":
            continue
        if supervised:
            lines.append(supervised_line(sample, state, prompt or load_prompt(), record_bytes=record_bytes))
        elif all(step.encoding == "utf-8" for step in sample.steps):
            lines.append(_labelled_line(sample, state))
        else:
            left_out += 1
    try:
        out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    except OSError as error:
        raise EctypeError(f"cannot write: {error.strerror}", where=str(out), remedy="give another path") from error
    say(f"{out}: {len(lines)} labelled samples")
    if left_out:
        say(f"{left_out} hold what is no text, which only --supervised can hold")


def supervised_line(sample: Sample, state: State, prompt: Prompt, *, record_bytes: int) -> dict:
    """One chat: what the judge would be asked about the sample, and the answer it should give. The same every time."""
    episode = episode_of(sample)
    record = record_of(episode, limit_bytes=record_bytes)
    drawn = (hashlib.sha256(f"{sample.id} {number}".encode()).hexdigest() for number in range(8))
    rendered = prompt.render(record.task, record.text, record.notes, draw=lambda: next(drawn)[:32])
    honest, cheat = prompt.verdicts
    reason = {"reason": _reason(sample, state)[: prompt.reason_characters]} if prompt.reason_characters else {}
    verdict = cheat if state == "confirmed" else honest
    answer = json.dumps({"check": rendered.nonce, **reason, "verdict": verdict})
    messages = [{"role": message.role, "content": message.content} for message in rendered.messages]
    return {
        "messages": [*messages, {"role": "assistant", "content": answer}],
        "label": state,
        "id": sample.id,
        "task": sample.task,
        "source": sample.source,
        "prompt_version": prompt.version,
        "prompt_hash": prompt.hash,
    }


def _reason(sample: Sample, state: State) -> str:
    if state == "false_positive":
        return "Nothing in it is a cheat."
    said = [step.message for step in sample.steps if step.message] or [sample.reason]
    return "; ".join(dict.fromkeys(said)) or "It reads evaluation material."


def _labelled_line(sample: Sample, state: State) -> dict:
    """A line as `ectype judge tune` and `ectype rules scan --batch` read it."""
    *history, last = map(_action_line, sample.steps)
    more = {"history": history} if history else {}
    return {**last, **more, "task": sample.task, "suite": sample.suite, "label": state, "id": sample.id}


def _action_line(step: SampleStep) -> dict:
    where = {"language": "shell"} if step.kind == "run" else {"filename": step.path or "file"}
    return {"action": step.body, **where, **({"output": step.output} if step.output else {})}


def review(store: SampleStore, keys: Iterator[str], *, console: Console) -> Counter[str]:
    """Show suspected samples one after the other until `keys` end, and label them. Returns what was done.

    Each label is on the disk before the next sample is shown, so a review goes on where it was left. What another
    reviewer has on the screen, or has labelled meanwhile, is passed over.
    """
    done: Counter[str] = Counter()
    mine: list[Label] = []
    samples, states, at = store.samples(), store.states(), 0
    queue = [name for name in samples if states.get(name, "suspected") == "suspected"]
    while at < len(queue):
        name = queue[at]
        # labelled by somebody since; an undone one of mine is suspected again
        if store.states().get(name, "suspected") != "suspected":
            at += 1
            continue
        with store.claimed(name) as free:
            if not free:
                done["elsewhere"] += 1
                at += 1
                continue
            _show(samples[name], at, len(queue), console)
            key = _key(keys, console)
            if key == "q":
                return done
            if key == "u":
                if not mine:
                    console.print("nothing to undo")
                    continue
                label = mine.pop()
                store.label(label.sample, "suspected", "undone")
                done[label.state] -= 1
                at = queue.index(label.sample)
                continue
            if key in KEYS:
                mine.append(store.label(name, KEYS[key]))
                done[KEYS[key]] += 1
            else:
                done["skipped"] += 1
            at += 1
    console.print("Nothing is left to review.")
    return done


def _key(keys: Iterator[str], console: Console) -> str:
    for key in keys:
        if key.isspace():
            continue
        if key in (*KEYS, "s", "u", "q"):
            return key
        console.print(Text(HELP))
    return "q"


def pressed_keys() -> Iterator[str]:
    """Keys as they are pressed; from a file or a pipe its characters."""
    if not sys.stdin.isatty():
        yield from sys.stdin.read()
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    while True:
        try:
            tty.setcbreak(fd)
            key = os.read(fd, 1).decode("ascii", "replace")
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
        if key in ("", "\x04"):
            return
        yield key


def _show(sample: Sample, at: int, count: int, console: Console) -> None:
    def say(text: str, style: str = "") -> None:
        console.print(Text(visible(text.encode("utf-8", "surrogatepass")), style=style))

    console.print()
    console.rule(Text(f"{at + 1} of {count}: {sample.id}"))
    say(f"task {sample.suite}/{sample.task}, episode {sample.episode or '-'} of {sample.run or '-'}", "dim")
    say(_why(sample), "yellow")
    for step in sample.steps:
        what = "runs a script" if step.kind == "run" else f"writes the file {step.path}"
        stopped = ", and was stopped" if step.enforced else ""
        say(f"step {step.step} {what}{stopped}" + (", and surfaces a decoy" if step.canary else ""), "bold")
        console.print(marked(step.data, step.spans), end="")
        if step.output:
            say("the agent was shown:", "dim")
            say(step.output[:OUTPUT_SHOWN])
    console.print(Text(HELP, style="bold"))


def _why(sample: Sample) -> str:
    if sample.source == "judge":
        p = "" if sample.probability is None else f", P(cheat) {sample.probability:.2f}"
        return f"judge: {sample.decision}{p}" + (f": {sample.reason}" if sample.reason else "")
    rules = dict.fromkeys(rule for step in sample.steps for rule in step.rules)
    message = next((step.message for step in sample.steps if step.message), "a decoy surfaced")
    return f"{', '.join(rules) or 'canary'}: {message}"


def _state(given: str) -> State:
    for state in STATES:
        if given.replace("-", "_") == state:
            return state
    raise EctypeError(f"unknown state {given!r}", remedy=f"use one of: {', '.join(STATES)}")
