from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "benchmarks.sandbox", "--quick", "--json"]
KEYS = (
    "exec_ratio_vs_instance exec_ratio_vs_floor throughput_ratio_vs_instance warm_start_ms cold_start_ratio_vs_exec "
    "idle_sandboxes idle_pss_mib commands wrong_status leaks"
)

pytestmark = [pytest.mark.apptainer, pytest.mark.slow]


def test_the_benchmark_runs_and_reports(base_image: Path) -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert list(result) == KEYS.split()
    assert result["commands"] == 100 and result["wrong_status"] == 0 and result["leaks"] == 0, done.stdout
    assert all(result[key] > 0 for key in KEYS.split()[:7])


def _instances(name: str) -> list[bytes]:
    """Command lines of Apptainer's processes that mention `name`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes()
            if line.startswith(b"Apptainer instance") and name.encode() in line:
                found.append(line)
    return found


def test_an_interrupted_benchmark_leaves_nothing(base_image: Path) -> None:
    process = subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.DEVNULL)
    name = f"ectype-benchmark-{process.pid}-"
    try:
        while not (running := _instances(name)) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    finally:
        process.kill()
        process.wait()
    assert running
    assert not _instances(name) and not list(Path(tempfile.gettempdir()).glob(f"{name}*"))
