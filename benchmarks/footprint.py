"""How much memory a command and everything it starts use, and how lean a sandbox worker is.

    python -m benchmarks.footprint [--json] -- ectype train configs/micro.yaml --run /tmp/x
    python -m benchmarks.footprint --worker [--json]

The first form runs the command and samples, twice a second, the proportional set size (PSS: shared pages counted
once over all who share them) of the command and all its descendants; it needs to be root to see those of other users.
The second form starts the interpreter of a sandbox worker with everything it imports, several times, and says how long
that takes and what it holds before its first sandbox. The last line with `--json` is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

import psutil

SAMPLE_S = 0.5
WORKER = "import time; t = time.monotonic(); import jobs.sandboxes, sandbox.worker, detect.guard; " + (
    "detect.guard.Guard.load(); import psutil; print(time.monotonic() - t, psutil.Process().memory_info().rss)"
)


def pss_of_tree(root: psutil.Process) -> tuple[int, int]:
    """(bytes of PSS, number of processes) of `root` and its descendants; processes that just ended count nothing."""
    total = count = 0
    try:
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0, 0
    for process in members:
        try:
            with open(f"/proc/{process.pid}/smaps_rollup") as file:
                total += next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
            count += 1
        except (OSError, StopIteration):
            continue
    return total, count


def measure(command: list[str]) -> dict[str, float]:
    """Run `command` to its end; peak PSS in MiB, and the number of processes then."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=sys.stderr)
    root = psutil.Process(process.pid)
    peak, processes, samples = 0, 0, 0
    while process.poll() is None:
        total, count = pss_of_tree(root)
        samples += 1
        if total > peak:
            peak, processes = total, count
        time.sleep(SAMPLE_S)
    return {
        "peak_pss_mib": round(peak / 2**20, 1),
        "processes_at_peak": processes,
        "samples": samples,
        "wall_s": round(time.monotonic() - started, 1),
        "exit_status": process.returncode,
    }


def worker(runs: int = 5) -> dict[str, float]:
    """Start and memory of a worker's interpreter with all its imports and rules, before any sandbox."""
    walls, imports, memories = [], [], []
    for _ in range(runs):
        started = time.monotonic()
        answer = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True)
        walls.append(time.monotonic() - started)
        seconds, rss = answer.stdout.split()
        imports.append(float(seconds))
        memories.append(int(rss) / 2**20)
    return {
        "worker_start_s": round(statistics.median(walls), 3),
        "worker_import_s": round(statistics.median(imports), 3),
        "worker_rss_mib": round(max(memories), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", action="store_true", help="measure the start of a sandbox worker")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("command", nargs="*", help="the command to run, after --")
    options = parser.parse_args()
    if options.worker == bool(options.command):
        parser.error("give either --worker or a command after --")
    result = worker() if options.worker else measure(options.command)
    for key, value in result.items():
        print(f"{key:20} {value}")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
