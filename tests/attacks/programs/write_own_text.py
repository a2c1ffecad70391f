# Writes over read-only pages of a library through /proc/self/mem: its own copy may change, no other.
# expect: ok killed
import contextlib

with open("/proc/self/maps") as file:
    lines = [line for line in file if "libc.so" in line and " r-xp " in line]
start = int(lines[0].split("-")[0], 16)
with contextlib.suppress(OSError), open("/proc/self/mem", "r+b", buffering=0) as memory:
    for offset in range(0, 1 << 20, 4096):
        memory.seek(start + offset)
        memory.write(b"\xcc" * 4096)
