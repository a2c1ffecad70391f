# Kernel memory: sockets in descriptor tables of single threads, which the table of the process does not show.
# expect: out_of_memory
# limits: memory_bytes=256M processes=64 wall_s=20
import contextlib
import socket
import threading
import time

from hostile import breach, call

CLONE_FILES = 0x400
threading.stack_size(256 << 10)
totals: list[int] = []


def hold() -> None:
    pairs, total = [], 0
    call(272, CLONE_FILES)  # unshare
    with contextlib.suppress(OSError):
        while True:
            pairs.append(socket.socketpair())
            for end in pairs[-1]:
                end.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        total += end.send(bytes(1 << 15))
    totals.append(total >> 20)
    time.sleep(2)


threads = [threading.Thread(target=hold) for _ in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if sum(totals) > 400:
    breach(f"{sum(totals)} MiB in sockets")
