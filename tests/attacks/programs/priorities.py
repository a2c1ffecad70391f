# More of the CPU than is due: real-time classes, priorities, all cores, its own group.
# expect: ok
import os

from hostile import libc, must_fail

must_fail("nice", os.setpriority, os.PRIO_PROCESS, 0, -5)
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    must_fail("real time", lambda p=policy: os.sched_setscheduler(0, p, os.sched_param(1)) or 0)
must_fail("init's priority", os.setpriority, os.PRIO_PROCESS, 1, 19)
must_fail("init's policy", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)) or 0)
must_fail("init's affinity", lambda: os.sched_setaffinity(1, {0}) or 0)
must_fail("mlockall", libc.mlockall, 3) if libc.getpagesize() > 1 << 20 else None
