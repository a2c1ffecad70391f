# Kernel memory: sockets that nobody reads from, in many processes.
# expect: out_of_memory
# limits: processes=16 wall_s=20 memory_bytes=128M
import contextlib
import os
import socket
import time

from hostile import breach


def held() -> int:
    pairs, total = [], 0
    with contextlib.suppress(OSError):
        while True:
            pairs.append(socket.socketpair())
            for end in pairs[-1]:
                end.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        total += end.send(bytes(1 << 15))
    time.sleep(2)
    return total


for _ in range(12):
    if not os.fork():
        os._exit(held() >> 20)
total = sum(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(12))
if total > 256:
    breach(f"{total} MiB in sockets")
