"""How many containers a pool should have, and when the next one may be started: numbers in, numbers out.

`Bounds` turns demand (containers in use and users who wait) into a size; `Backoff` turns failed starts into pauses, so
that a broken image or node costs an attempt now and then and no busy loop. Neither knows what a container is.
"""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`least` to `most` containers. With any demand, `spare` are kept beside those that are used."""

    most: int
    least: int = 0
    spare: int = 1

    def wanted(self, demand: int) -> int:
        """How many should be there; what is beyond may go once it has been idle for long enough."""
        return min(self.most, max(self.least, demand + self.spare if demand else 0))


class Backoff:
    """Pauses that double with each failure in a row, from `first_s` to `longest_s`. Times are the caller's clock's."""

    def __init__(self, *, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0
        self.retry_at = float("-inf")
        """No attempt should begin before."""

    def failed(self, now: float) -> None:
        """An attempt has failed. One that was under way when another failed counts with it."""
        if now < self.retry_at:
            return
        self.retry_at = now + min(self._first_s * 2.0 ** min(self.failures, 32), self._longest_s)
        self.failures += 1

    def succeeded(self) -> None:
        self.failures = 0
        self.retry_at = float("-inf")
