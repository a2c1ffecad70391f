# Watches the image's folders: which programs and libraries others open, the reference among them.
# expect: ok
import contextlib
import fcntl
import os

from hostile import breach, call

if call(294, 0) >= 0 or call(253) >= 0:
    breach("inotify")
for folder in ("/usr/bin", "/usr/lib", "/etc"):
    with contextlib.suppress(OSError):
        fcntl.fcntl(os.open(folder, os.O_RDONLY), 1026, 0x80000001)
        breach(f"notification of {folder}")
