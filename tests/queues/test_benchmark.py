import json
import subprocess
import sys
from pathlib import Path


def test_the_benchmark_runs_and_reports():
    command = [sys.executable, "-m", "benchmarks.queues", "--json", "--requests", "64", "--sessions", "8"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["requests"] == 64 and result["round_trips_per_s"] > 0 and result["controller_cpu_us"] > 0
