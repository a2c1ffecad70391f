# Core dumps, into the workspace or to a handler of the host.
# expect: ok
ulimit -c unlimited 2>/dev/null; for s in SEGV ABRT BUS TRAP; do sleep 60 & kill -$s $!; done; wait
find /work /tmp -name '*core*' -size +0 | sed 's/^/BREACH /'; exit 0
