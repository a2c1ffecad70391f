"""What the policy is told: the prompt of a task, and the text of an observation.

Only bytes that are safe to show come in (the worker cleans them); only text comes out. The length of an observation
is bounded here, by eliding the middle, so that one chatty program cannot use up the context.
"""

from __future__ import annotations

from queues.messages import Observation, TestResult
from rl.tasks import PublicTask

SYSTEM = (
    "You rebuild programs. You cannot read the original, only run it: `reference ARGS < input`. "
    "Each turn, write exactly one block:\n"
    "```sh\ncommands to run in the workspace\n```\nor\n```write PATH\ncontent of the file\n```\n"
    "or ```test to run the hidden tests, or ```done when finished. Close the block with ```."
)


def task_prompt(task: PublicTask, *, max_bytes: int) -> str:
    """The task's own text and its public examples, cut to `max_bytes` at a line."""
    text = task.instructions
    if len(text.encode()) > max_bytes:
        text = text.encode()[:max_bytes].decode("utf-8", "ignore").rsplit("\n", 1)[0] + "\n[...]"
    return text


def elide(data: bytes, limit: int) -> bytes:
    """Head and tail of `data`, at most about `limit` bytes, with a note of how much was left out."""
    if len(data) <= limit:
        return data
    half = limit // 2
    return data[:half] + b"\n[... %d bytes left out ...]\n" % (len(data) - 2 * half) + data[-half:]


def observation_text(observation: Observation, limit: int) -> bytes:
    """As a terminal would show it: stdout, stderr, then the status where it is not plain success."""
    out, err = observation.stdout, observation.stderr
    text = elide(out, limit)
    if err:
        if text and not text.endswith(b"\n"):
            text += b"\n"
        text += elide(err, limit)
    note = b""
    if observation.status == "nonzero":
        note = b"[exit %d]" % (observation.exit_status if observation.exit_status is not None else 1)
    elif observation.status != "ok":
        note = b"[%s]" % observation.status.encode()
    elif not text:
        note = b"[ok]"
    if note and text and not text.endswith(b"\n"):
        text += b"\n"
    return text + note


def test_text(result: TestResult, *, refused: bool, limit: int) -> bytes:
    if refused:
        return b"[no tests left: write ```done to finish]"
    if result.compile_status == "failed":
        return b"[build failed]\n" + elide(result.compile_stderr, limit)
    return b"[%d of %d hidden tests pass]" % (result.passed, result.total)
