# The control groups of the job, to see or to leave.
# expect: ok
grep -v -E '^[0-9]+:[^:]*:/$' /proc/self/cgroup | sed 's/^/BREACH /'
find / -xdev -name 'cgroup.procs' 2>/dev/null | sed 's/^/BREACH /'; ls -A /sys | sed 's/^/BREACH /'; exit 0
