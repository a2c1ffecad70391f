"""What the stage-1 guard knows about an episode when it judges one action.

The session on the sandbox worker builds it and hands it to the guard with every action. It lives beside the messages
because the sandbox and the detection rules share it without importing each other. It carries no hidden case, no path
of the host and nothing else that a fake failure could leak.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from queues.messages import Action, Verdict

Event = Literal["canary", "decoy", "socket_refused", "killed", "out_of_memory", "timeout"]
"""What a sandbox saw: a decoy's token came up, a decoy was opened, a socket was refused; or how an action ended."""


class Observed(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What the sandbox saw so far in an episode: `events` in order, and what the reference answered, oldest first."""

    events: tuple[Event, ...] = ()
    answers: tuple[bytes, ...] = ()


class EpisodeContext(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One episode up to, not including, the action that is being judged.

    `languages` are the languages of the task ("python", "c", ...), likeliest first: a fake failure speaks the first
    of them when the action itself does not tell. `history` holds every earlier action with what was decided about it,
    oldest first, blocked ones included. `observed` is what running them showed.
    """

    episode: str
    suite: str
    task: str
    step: int = 0
    languages: tuple[str, ...] = ()
    history: list[tuple[Action, Verdict]] = []
    observed: Observed = Observed()
