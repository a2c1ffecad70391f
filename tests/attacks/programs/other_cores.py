# A core that others have paid for: guesses of the key, other threads and children, the parent's parent.
# expect: ok
import ctypes
import os
import threading

from hostile import breach, call, must_fail

SCHED_SETAFFINITY = 203
mask = (ctypes.c_ulong * 16)(*[~0] * 16)
mine = os.sched_getaffinity(0)


def attempts() -> None:
    for guess in (0, 1, -1, id(mask), 0x5555555555555555):
        for size in (8, 128, 1 << 31):
            for target in (0, 1, os.getpid(), os.getppid(), threading.get_native_id()):
                arguments = [ctypes.c_long(number) for number in (target, size, ctypes.addressof(mask), *[guess] * 3)]
                must_fail(f"affinity of {target}", call, SCHED_SETAFFINITY, *arguments)
    for _ in range(100_000):
        words = [ctypes.c_long(int.from_bytes(os.urandom(8), "little", signed=True)) for _ in range(3)]
        if call(SCHED_SETAFFINITY, 0, 128, ctypes.byref(mask), *words) == 0:
            breach("a guess")


thread = threading.Thread(target=attempts)
thread.start()
thread.join()
if (child := os.fork()) == 0:
    attempts()
    os._exit(0)
os.waitpid(child, 0)
if os.sched_getaffinity(0) != mine:
    breach("moved")
