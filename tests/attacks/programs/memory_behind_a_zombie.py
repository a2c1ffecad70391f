# Memory of processes whose first thread has ended: /proc shows nothing of it under the name of the process.
# expect: out_of_memory
# limits: memory_bytes=200M processes=32 wall_s=20
import os
import threading
import time

from hostile import breach, call


def hold() -> None:
    held = [bytearray(20 << 20) for _ in range(6)]
    time.sleep(5)
    breach(f"{len(held) * 20} MiB in one of four processes")
    os._exit(0)


for _ in range(4):
    if not os.fork():
        threading.Thread(target=hold).start()
        call(60, 0)  # exit, of this thread alone
time.sleep(8)
