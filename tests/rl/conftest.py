from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def one_rank() -> Iterator[None]:
    """A world of one, for every test of the session that runs a Megatron model."""
    from rl import parallel

    parallel.init(threads=1)
    yield
    parallel.destroy()
