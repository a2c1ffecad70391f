# Types into a terminal of somebody else.
# expect: ok
import contextlib
import fcntl
import os

from hostile import breach

for name in ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/pts/0"):
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_RDWR)
        fcntl.ioctl(fd, 0x5412, b"x")
        breach(name)
for fd in range(3):
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, 0x5412, b"x")
        breach(fd)
