"""The two independent network layers of a sandbox, and which of them a site can offer.

Layer 1 (`netns`) is an empty network namespace; layer 2 (`seccomp`) is a profile that refuses `socket()` for every
family but AF_UNIX, and io_uring, which could open sockets without that call. Comes in: nothing. Goes out: a record
that says which layers are on. It must never describe a sandbox without any layer: that is refused where it is made.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from audit.errors import EctypeError

SECCOMP_PROFILE = Path(__file__).with_name("seccomp.json")


class NoNetworkIsolation(EctypeError):
    """Neither network layer can be had: nothing may run here."""


class Isolation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which network layers a sandbox has. `Isolation()` is both; both off is refused."""

    netns: bool = True
    seccomp: bool = True

    def __post_init__(self) -> None:
        if not (self.netns or self.seccomp):
            raise NoNetworkIsolation(
                "a sandbox without any network isolation",
                where="isolation: netns and seccomp are both off",
                remedy="switch on at least one layer; `ectype check` shows which this machine offers",
            )
