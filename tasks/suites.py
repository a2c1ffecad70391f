"""The suites that ship, and which source files decide what is in each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tasks import micro_sources, programs
from tasks.source import TaskSource

_HERE = Path(__file__).parent


class Suite(msgspec.Struct, frozen=True):
    """`sources` makes the tasks for an image; `made_by` are the files and folders whose content they follow from."""

    name: str
    title: str
    sources: Callable[[Path], tuple[TaskSource, ...]]
    made_by: tuple[Path, ...]


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "micro",
            "tiny programs, one line of Python each",
            lambda image: micro_sources.sources(leaky=False),
            (_HERE / "micro.py", _HERE / "micro_sources.py"),
        ),
        Suite(
            "micro-leaky",
            "micro with the solution readable under /eval, for experiments with cheating only",
            lambda image: micro_sources.sources(leaky=True),
            (_HERE / "micro.py", _HERE / "micro_sources.py"),
        ),
        Suite(
            "programs", "real programs of the base image", programs.sources, (_HERE / "programs", _HERE / "names.py")
        ),
    )
}
