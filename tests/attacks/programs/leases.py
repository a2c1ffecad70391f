# Locks and leases on files of the image, which would hold up or signal whoever uses them.
# expect: ok
import contextlib
import fcntl
import os

from hostile import breach

for name in ("/usr/bin/python3", "/bin/bash", "/etc/passwd", "/lib/x86_64-linux-gnu/libc.so.6"):
    fd = os.open(name, os.O_RDONLY)
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, 1024, fcntl.F_WRLCK)
        breach(f"lease of {name}")
    with contextlib.suppress(OSError):
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        breach(f"lock of {name}")
