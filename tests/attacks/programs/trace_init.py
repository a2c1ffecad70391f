# Traces the init, reads and writes its memory, takes its descriptors.
# expect: ok
import ctypes

from hostile import breach, call, libc, must_fail

buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
must_fail("attach", libc.ptrace, 16, 1, 0, 0)
must_fail("seize", libc.ptrace, 0x4206, 1, 0, 0)
must_fail("process_vm_readv", call, 310, 1, vector, 1, vector, 1, 0)
must_fail("process_vm_writev", call, 311, 1, vector, 1, vector, 1, 0)
must_fail("kcmp", call, 312, 1, 1, 0, 0, 0)
must_fail("process_madvise", call, 440, call(434, 1, 0), vector, 1, 21, 0)
pidfd = call(434, 1, 0)
for number in range(32):
    must_fail(f"pidfd_getfd {number}", call, 438, pidfd, number, 0)
for name in ("mem", "environ", "maps", "fd/0", "root", "cwd", "exe", "map_files", "task/1/mem", "clear_refs"):
    for mode in ("rb", "wb"):
        try:
            with open(f"/proc/1/{name}", mode):
                breach(name)
        except OSError:
            pass
