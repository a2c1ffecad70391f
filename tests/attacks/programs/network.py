# Every kind of network, local services and the metadata service of a cloud.
# expect: ok
# layers: all
import contextlib
import socket

from hostile import breach, call

for family in range(1, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        for protocol in (0, 1, 6, 17, 255, 768):
            if (fd := call(41, family, kind, protocol)) >= 0:
                if family not in (1, 2, 10, 16):
                    breach(f"a socket of family {family}")
                socket.close(fd)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "169.254.169.254"), (socket.AF_INET6, "::1")):
    for port in (22, 53, 80, 443, 6817, 6818):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as end:
                end.settimeout(0.1)
                end.connect((host, port))
                end.send(b"x")
                end.recv(1)
                breach(f"{host}:{port}")
with contextlib.suppress(OSError):
    breach(socket.getaddrinfo("example.org", 80))
