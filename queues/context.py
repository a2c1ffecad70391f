"""What the stage-1 guard knows about an episode when it judges one action.

The session on the sandbox worker builds it and hands it to the guard with every action. It lives beside the messages
because the sandbox and the detection rules share it without importing each other. It carries no hidden case, no path
of the host and nothing else that a fake failure could leak.
"""

from __future__ import annotations

import msgspec

from queues.messages import Action, Verdict


class EpisodeContext(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One episode up to, not including, the action that is being judged.

    `languages` are the languages of the task ("python", "c", ...), likeliest first: a fake failure speaks the first
    of them when the action itself does not tell. `history` holds every earlier action with what was decided about it,
    oldest first, blocked ones included.
    """

    episode: str
    suite: str
    task: str
    step: int = 0
    languages: tuple[str, ...] = ()
    history: list[tuple[Action, Verdict]] = []
