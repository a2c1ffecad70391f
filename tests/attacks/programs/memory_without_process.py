# Memory that belongs to no process: memfd, secret memory, pipes and sockets larger than usual.
# expect: ok
import contextlib
import fcntl
import os
import socket

from hostile import breach, call, must_fail

must_fail("memfd_create", os.memfd_create, "x")
must_fail("memfd_secret", call, 447, 0)
for option in (socket.SO_SNDBUF, 32):
    for end in socket.socketpair():
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 1 << 20:
            breach("a large socket")
for _ in range(50):
    with contextlib.suppress(OSError):
        read, write = os.pipe()
        fcntl.fcntl(write, 1031, 1 << 20)
        os.set_blocking(write, False)
        os.write(write, bytes(1 << 20))
