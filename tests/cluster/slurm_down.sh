#!/usr/bin/env bash
# slurm_down.sh BASE: cancel every job and stop what slurm_up.sh started, by pid file only.
set -u
BASE=$(cd "${1:?usage: slurm_down.sh BASE}" && pwd)
export SLURM_CONF="$BASE/etc/slurm.conf"
jobs_left() { squeue -h -o %A 2>/dev/null | sort -u; }
if [ -n "$(jobs_left)" ]; then
  jobs_left | xargs -r scancel 2>/dev/null
  for _ in $(seq 75); do [ -z "$(jobs_left)" ] && break; sleep 0.2; done
fi
stop() {
  [ -s "$1" ] || return 0
  local pid; pid=$(cat "$1")
  kill -TERM "$pid" 2>/dev/null || return 0
  for _ in $(seq 200); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.05; done
  kill -KILL "$pid" 2>/dev/null
}
for file in "$BASE"/run/slurmd.*.pid "$BASE/run/slurmctld.pid"; do stop "$file" & done
wait
stop "$BASE/run/munged.pid"
# The cgroup plugins leave their (empty) trees behind.
for node in gpu1 cpu1 cpu2; do
  for tree in /sys/fs/cgroup/*/slurm_$node; do [ -d "$tree" ] && find "$tree" -depth -type d -exec rmdir {} + 2>/dev/null; done
done
exit 0
