# Many processes, each of them modest.
# expect: out_of_memory
# limits: memory_bytes=150M processes=32
import os
import time

for _ in range(20):
    if not os.fork():
        held = bytearray(30 << 20)
        time.sleep(60)
time.sleep(60)
