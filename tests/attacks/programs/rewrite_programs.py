# Rewrites the interpreter that everybody uses, through every name it has.
# expect: ok
import contextlib
import os

from hostile import breach

names = ["/proc/self/exe", "/usr/bin/python3", "/proc/self/root/usr/bin/env", "/proc/self/task/self/exe", "/bin/bash"]
with contextlib.suppress(OSError):
    names += [f"/proc/self/map_files/{n}" for n in os.listdir("/proc/self/map_files")]
for name in names:
    for flags in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        with contextlib.suppress(OSError):
            os.close(os.open(name, flags))
            breach(name)
    with contextlib.suppress(OSError):
        os.chmod(name, 0o777)
        breach(f"chmod {name}")
with contextlib.suppress(OSError):
    os.link("/proc/self/exe", "/work/linked")
    breach("link")
