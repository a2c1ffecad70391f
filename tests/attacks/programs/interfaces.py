# The interfaces, routes and neighbours of the host.
# expect: ok
# layers: netns both
import contextlib
import socket

from hostile import breach

names: list[str] = []
with contextlib.suppress(OSError):
    names = [name for _, name in socket.if_nameindex()]
if set(names) - {"lo"}:
    breach(names)
for name in ("route", "arp", "tcp", "udp", "unix", "fib_trie"):
    with contextlib.suppress(OSError), open(f"/proc/net/{name}") as file:
        lines = [line for line in file.read().splitlines()[1:] if "/" not in line.split()[-1]]
        if name not in ("unix", "fib_trie") and lines:
            breach((name, lines))
