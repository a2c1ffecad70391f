# Forks as fast as it can while it is killed: one child for every one that dies.
# expect: timeout too_many_processes
# limits: processes=24 wall_s=0.7 cpu_s=2
import contextlib
import os

while True:
    with contextlib.suppress(OSError):
        if os.fork():
            os._exit(0) if os.getppid() != 1 else None
        os.setsid()
