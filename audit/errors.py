"""The one base class of errors that a user is meant to read: what happened, where, and what to do about it."""

from __future__ import annotations


class EctypeError(Exception):
    """An error with a remedy. The command line prints it without a traceback and exits with status 2.

    `what` names the thing that is wrong, `where` the file, key or host, `remedy` what to do next.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        lines = [what]
        if where:
            lines.append(f"  where:  {where}")
        if remedy:
            lines.append(f"  remedy: {remedy}")
        super().__init__("\n".join(lines))


class Interrupted(EctypeError):
    """The user or the system asked for an end. `status` is the exit status that belongs to the signal."""

    def __init__(self, what: str, *, where: str, remedy: str, status: int) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.status = status
