"""Guests that differ from the real one in a detail: what another kernel would make of it."""

from __future__ import annotations

import pytest

from sandbox import bootstrap


def with_another_guest(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Until the test ends, sandboxes start with `new` in place of `old` in the guest's source."""
    real = bootstrap.guest_modules()
    changed = {name: text.replace(old, new) for name, text in real.items()}
    assert changed != real
    monkeypatch.setattr(bootstrap, "guest", lambda: bootstrap.pack(changed))
