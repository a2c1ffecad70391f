"""What goes back to the policy: bounded, any bytes, and silent about the host and the grader.

Goes in: the raw streams of the agent's own commands and of the build of its submission. Comes out: the same bytes, cut
to a bound, without the machine's paths, host name and user names. Hidden cases never get this far: their output is
compared where it arrives and is not passed on.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from queues.messages import Observation
from sandbox.sandbox import CommandResult

STREAM_BYTES = 64 << 10
"""Per stream of one observation. A policy reads far less; what is cut is marked."""
COMPILE_STDERR_BYTES = 8 << 10

_HOSTNAME_STANDIN = b"sandbox"
_USER_STANDIN = b"agent"
_ORDINARY_WORDS = {"root", "user", "users", "work", "agent", "sandbox", "nobody", "localhost", "debian", "ubuntu"}
"""Names that tell nothing about a machine and that honest output is full of."""


class Cleaner:
    """Removes this machine's names from bytes that go back to the policy.

    `paths` are folders of the host (image, caches, run directory): they vanish as prefixes. `hostnames` and `users`
    are replaced as whole words; ordinary words and names under 4 characters are left alone, because replacing those
    would corrupt honest output and hide nothing.
    """

    def __init__(
        self, *, paths: Iterable[Path | str] = (), hostnames: Iterable[str] = (), users: Iterable[str] = ()
    ) -> None:
        self._rules: list[tuple[re.Pattern[bytes], bytes | Callable[[re.Match[bytes]], bytes]]] = []
        folders = sorted({str(p).rstrip("/") for p in paths} - {""}, key=len, reverse=True)
        if folders:
            either = b"|".join(re.escape(p.encode()) for p in folders)
            # what lies below such a folder keeps its own path; the folder itself becomes the root
            self._rules.append((re.compile(b"(?:" + either + rb")(?:(?=/)|()(?![\w.-]))"), _below_or_root))
        for names, standin in ((hostnames, _HOSTNAME_STANDIN), (users, _USER_STANDIN)):
            telling = sorted({n for n in names if len(n) >= 4 and n.lower() not in _ORDINARY_WORDS}, key=len)
            if telling:
                either = b"|".join(re.escape(n.encode()) for n in reversed(telling))
                self._rules.append((re.compile(rb"(?<![\w-])(?:" + either + rb")(?![\w-])"), standin))

    @classmethod
    def of_host(cls, *, paths: Iterable[Path | str] = (), users: Iterable[str] = ()) -> Cleaner:
        """A cleaner for this machine: its host names, the user of this process, and what the caller adds."""
        host = socket.gethostname()
        resolved = [Path(p) for p in paths]
        return cls(
            paths=[*resolved, *(p.resolve() for p in resolved)],
            hostnames=[host, host.split(".")[0]],
            users=[getpass.getuser(), *users],
        )

    def clean(self, data: bytes) -> bytes:
        for pattern, standin in self._rules:
            data = pattern.sub(standin, data)
        return data

    def observation(self, result: CommandResult) -> Observation:
        """What the policy sees of one of its own commands."""
        stdout, stdout_cut = self._bounded(result.stdout)
        stderr, stderr_cut = self._bounded(result.stderr)
        return Observation(
            status=result.status,
            exit_status=result.exit_status,
            stdout=stdout,
            stderr=stderr,
            stdout_truncated=result.stdout_truncated or stdout_cut,
            stderr_truncated=result.stderr_truncated or stderr_cut,
        )

    def compile_stderr(self, data: bytes) -> bytes:
        """The start of a compiler's complaint: the first error is the one that explains the others."""
        return self.clean(data[:COMPILE_STDERR_BYTES])[:COMPILE_STDERR_BYTES]

    def _bounded(self, data: bytes) -> tuple[bytes, bool]:
        cleaned = self.clean(data[:STREAM_BYTES])
        return cleaned[:STREAM_BYTES], len(data) > STREAM_BYTES or len(cleaned) > STREAM_BYTES


def _below_or_root(match: re.Match[bytes]) -> bytes:
    return b"" if match.group(1) is None else b"/"
