# Writes the answer of a success to every descriptor it can find or guess, and fails.
# expect: nonzero
import contextlib
import json
import os
import struct

header = json.dumps({"ok": True, "status": "ok", "exit": 0, "signal": None, "out": 6, "err": 0}).encode()
forged = struct.pack(">II", len(header), 6) + header + b"forged"
for fd in range(3, 256):
    with contextlib.suppress(OSError):
        os.write(fd, forged)
        os.write(1, b"BREACH descriptor")
for name in [*os.listdir("/proc/self/fd"), "../../1/fd/0", "../../1/fd/1", "../../1/fd/3"]:
    with contextlib.suppress(OSError), open(f"/proc/self/fd/{name}", "wb") as file:
        file.write(forged)
os.write(1, forged)
os.write(2, forged)
raise SystemExit(9)
