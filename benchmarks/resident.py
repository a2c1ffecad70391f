"""Peak resident memory of this process, on Linux, from any moment on."""

from __future__ import annotations

from pathlib import Path


def now_mib() -> float:
    """Memory that this process holds."""
    return _field("VmRSS")


def peak_mib() -> float:
    """Most memory that it has held since `reset_peak`."""
    return _field("VmHWM")


def reset_peak() -> None:
    """Let the peak start again from what is held now. Raises OSError where the kernel was built without it."""
    Path("/proc/self/clear_refs").write_text("5")


def _field(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status does not say {name}")
