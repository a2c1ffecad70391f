"""docs/sandbox.md lists every limit with its default, every status, and every field of the JSON result."""

from __future__ import annotations

import re
import typing
from pathlib import Path

from queues.messages import CommandStatus
from sandbox.limits import Limits
from sandbox.sandbox import CommandResult

PAGE = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()


def first_cells(heading: str) -> list[list[str]]:
    """The code spans of the first two cells of each row below a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.MULTILINE)
    return [re.findall(r"`([^`]+)`", cell) for row in rows for cell in row]


def test_limits() -> None:
    cells = first_cells("Limits")
    listed = {names[0]: float(values[0]) for names, values in zip(cells[::2], cells[1::2], strict=True)}
    assert listed == {name: getattr(Limits(), name) for name in Limits.__struct_fields__}


def test_statuses() -> None:
    assert [names[0] for names in first_cells("Statuses")[::2]] == list(typing.get_args(CommandStatus))


def test_fields_of_the_result() -> None:
    listed = [name for names in first_cells("Looking inside")[::2] for name in names]
    assert sorted(listed) == sorted([*CommandResult.__struct_fields__, "limits", "isolation"])
