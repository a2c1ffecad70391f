"""The metrics of a run: one JSON line of numbers per training step, in one file that survives a restart.

In go the trainer's numbers per step; out come the same numbers, for live progress, the report and notebooks. A number
that is not finite is stored as null and read back as NaN, so that the file stays JSON. After a resume no step stands
in the file twice: lines beyond the resumed step belong to work that was lost and is done again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from audit.errors import EctypeError


class MetricsError(EctypeError):
    """A metrics file cannot be written or is damaged."""


class MetricsLog:
    """Append to `path`. With `resumed_step`, lines of later steps are taken out first."""

    def __init__(self, path: Path, *, resumed_step: int | None = None, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._clock = clock
        if path.exists():
            _rewrite(path, resumed_step)
        self._file = path.open("ab", buffering=0)

    def write(self, step: int, **numbers: float) -> None:
        """Append the numbers of `step` and flush them to the disk."""
        finite = {key: float(value) if math.isfinite(value) else None for key, value in numbers.items()}
        line = json.dumps({"step": step, "time": self._clock(), **finite}, separators=(",", ":")) + "\n"
        size = os.fstat(self._file.fileno()).st_size
        rest = line.encode()
        try:
            while rest:  # a disk that is nearly full takes a part
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), size)
            raise MetricsError(
                f"metrics cannot be written: {error.strerror}",
                where=str(self.path),
                remedy="free space (or quota) on the file system of the run folder, then start the run again",
            ) from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """One dict per line: `step`, `time` (wall clock, seconds) and the numbers of that step; [] if there is no file.

    A torn last line (being written, or cut by a crash) is left out. Any other damage raises MetricsError.
    """
    if not path.exists():
        return []
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
            step = row["step"]
        except (ValueError, KeyError, TypeError) as error:
            raise MetricsError(
                "damaged line of metrics", where=f"{path}:{number}", remedy="delete that line and start again"
            ) from error
        rows.append({key: math.nan if value is None else float(value) for key, value in row.items()} | {"step": step})
    return rows


def _rewrite(path: Path, resumed_step: int | None) -> None:
    rows = [row for row in read_metrics(path) if resumed_step is None or row["step"] <= resumed_step]
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        for row in rows:
            finite = {key: value if math.isfinite(value) else None for key, value in row.items()}
            file.write(json.dumps(finite, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
