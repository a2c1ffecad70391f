"""The limits of one cell and of the commands in it: numbers in, validated numbers out.

Enforced without any privilege: rlimits per process, tmpfs sizes for the workspace, cores that it cannot leave, and a
watchdog in the cell that sums up memory and CPU time over all processes of a command. What the agent sees when a limit
is hit is a status (`queues.messages.CommandStatus`), never a word about how it is enforced.
"""

from __future__ import annotations

import msgspec

from audit.errors import EctypeError

MIB = 1 << 20


class LimitsError(EctypeError):
    """A limit that cannot be enforced or makes no sense."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one command may use. `workspace_*` are fixed when the cell is opened; the rest may differ per command."""

    wall_s: float = 30.0
    """Seconds of wall-clock time; then everything the command started is killed."""
    cpu_s: float = 30.0
    """Seconds of CPU time, summed over all processes of the command."""
    cpus: int = 1
    """Cores that it may use at once."""
    memory_bytes: int = 2 << 30
    """Address space of each process, and resident memory of all processes together."""
    processes: int = 128
    """Processes and threads alive at once."""
    open_files: int = 256
    """Descriptors per process."""
    file_bytes: int = 256 * MIB
    """Size of any one file."""
    workspace_bytes: int = 256 * MIB
    """Size of the workspace; scratch (/tmp and /dev/shm together) may grow to as much again."""
    workspace_inodes: int = 65536
    """Files and folders in the workspace, and again in scratch."""
    output_bytes: int = MIB
    """Bytes kept of each of stdout and stderr; what is beyond is counted and dropped."""

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float, float]] = {
            "wall_s": (0.01, 86400.0),
            "cpu_s": (0.01, 86400.0),
            "cpus": (1, 4096),
            "memory_bytes": (64 * MIB, 1 << 40),
            "processes": (2, 32768),
            "open_files": (16, 65536),
            "file_bytes": (4096, 1 << 40),
            "workspace_bytes": (65536, 1 << 40),
            "workspace_inodes": (16, 1 << 24),
            "output_bytes": (0, 1 << 30),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise LimitsError(
                    f"the limit {name} = {value} is out of range",
                    where=f"limits.{name}",
                    remedy=f"choose a value from {low} to {high}",
                )
