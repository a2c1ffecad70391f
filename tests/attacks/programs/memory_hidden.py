# Many processes that let nobody look at them.
# expect: out_of_memory
# limits: memory_bytes=150M processes=32
import os
import time

from hostile import libc

libc.prctl(4, 0, 0, 0, 0)
for _ in range(20):
    if not os.fork():
        held = bytearray(30 << 20)
        time.sleep(60)
time.sleep(60)
