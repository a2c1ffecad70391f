# Adopts its orphans, so that the init does not see them, and traces one of them to keep it stopped.
# expect: ok
import os
import time

from hostile import libc

libc.prctl(36, 1, 0, 0, 0)
for _ in range(5):
    if not (pid := os.fork()):
        if not os.fork():
            os.setsid()
            time.sleep(60)
        os._exit(0)
if not (pid := os.fork()):
    time.sleep(60)
libc.ptrace(0x4206, pid, 0, 0)
libc.ptrace(0x4207, pid, 0, 0)
if not os.fork():
    libc.ptrace(0, 0, 0, 0)
    time.sleep(60)
