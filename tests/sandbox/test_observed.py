"""What a session tells the guard of the actions that ran before."""

from __future__ import annotations

from queues.context import Observed
from queues.messages import Action
from sandbox.sandbox import CommandResult
from sandbox.session import observed_after


def _observe(seen: Observed, action: Action, result: CommandResult, canary: bool) -> Observed:
    return observed_after(
        seen,
        action,
        status=result.status,
        stdout=result.stdout,
        stderr=result.stderr,
        canary=canary,
        opened=result.opened,
    )


RUN = Action(kind="run", body=b"reference < in.txt")


def test_nothing_is_noted_of_an_ordinary_command() -> None:
    seen = Observed()
    action = Action(kind="run", body=b"ls")
    assert _observe(seen, action, CommandResult(status="ok", exit_status=0, stdout=b"a\n"), False) is seen


def test_answers_of_the_reference_are_kept_bounded() -> None:
    seen = Observed()
    for number in range(100):
        seen = _observe(seen, RUN, CommandResult(status="ok", exit_status=0, stdout=b"%d\n" % number), False)
    assert len(seen.answers) == 64 and seen.answers[-1] == b"99\n"
    seen = _observe(seen, RUN, CommandResult(status="ok", exit_status=0, stdout=b"x" * 1_000_000), False)
    assert len(seen.answers[-1]) == 16 << 10


def test_events_are_kept_in_order() -> None:
    seen = _observe(Observed(), RUN, CommandResult(status="timeout", opened=True), True)
    refused = b"OSError: [Errno 97] Address family not supported by protocol\n"
    seen = _observe(seen, RUN, CommandResult(status="nonzero", exit_status=1, stderr=refused), False)
    assert seen.events == ("canary", "decoy", "timeout", "socket_refused")
