# A namespace of its own, by every call there is.
# expect: ok
import ctypes
import os

from hostile import breach, call, libc, must_fail

for flag in (0x20000, 0x80, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    must_fail(f"unshare {flag:#x}", libc.unshare, flag)
    must_fail(f"unshare user and {flag:#x}", libc.unshare, flag | 0x10000000)
    arguments = ctypes.create_string_buffer(flag.to_bytes(8, "little"), 88)
    if (pid := call(435, arguments, 88)) >= 0:
        breach(f"clone3 {flag:#x}")
        if pid == 0:
            os._exit(0)
    if flag > 0xFF and (pid := call(56, flag | 17, 0, 0, 0, 0)) >= 0:
        breach(f"clone {flag:#x}")
        if pid == 0:
            os._exit(0)
for name in os.listdir("/proc/self/ns"):
    try:
        fd = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
        must_fail(f"setns {name}", libc.setns, fd, 0)
    except OSError:
        pass
must_fail("setns of a process", libc.setns, call(434, 1, 0), 0x20000)
