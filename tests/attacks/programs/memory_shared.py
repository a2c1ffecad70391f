# Shared anonymous memory that is only touched by children that end.
# expect: out_of_memory
# limits: memory_bytes=150M
import mmap
import os
import time

maps = [mmap.mmap(-1, 20 << 20) for _ in range(3)]
for shared in maps:
    if not (child := os.fork()):
        more = mmap.mmap(-1, 40 << 20)
        for target in (more, shared):
            for _ in range(len(target) >> 20):
                target.write(b"x" * (1 << 20))
        time.sleep(60)
time.sleep(60)
