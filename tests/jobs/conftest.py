from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.command_line import CommandLine


@pytest.fixture
def command_line(tmp_path: Path) -> Iterator[CommandLine]:
    """`ectype` in an empty folder; the test fails when anything it started is still there."""
    line = CommandLine(tmp_path)
    try:
        yield line
        line.assert_nothing_left()
    finally:
        line.clean()
