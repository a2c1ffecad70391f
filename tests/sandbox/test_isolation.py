"""No command reaches any network: with both layers, and with each of them alone.

Every attempt is made against something that would answer: servers on the host's loopback and an abstract socket of the
host, proven reachable from the host itself first.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from containers.apptainer import Apptainer, probe_isolation
from containers.isolation import Isolation, NoNetworkIsolation
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox
from tests.sandbox.guests import with_another_guest

LAYERS = {
    "both": Isolation(),
    "netns alone": Isolation(netns=True, seccomp=False),
    "seccomp alone": Isolation(netns=False, seccomp=True),
}

ATTEMPT = """
import ctypes, errno, os, socket, sys
kind, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
socket.setdefaulttimeout(3)
if kind == "tcp":
    s = socket.create_connection((host, port)); s.sendall(b"ping"); print("REACHED", s.recv(9))
elif kind == "udp":
    f = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(f, socket.SOCK_DGRAM); s.sendto(b"ping", (host, port)); print("REACHED", s.recv(9))
elif kind == "dns":
    print("REACHED", socket.getaddrinfo("example.org", 80))
elif kind == "raw":
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); print("REACHED", s)
elif kind == "ping":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.sendto(b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0", (host, 0)); print("REACHED", s.recv(99))
elif kind == "packet":
    print("REACHED", socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
elif kind == "vsock":
    print("REACHED", socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
elif kind == "abstract":
    s = socket.socket(socket.AF_UNIX); s.connect("\\0" + host); print("REACHED", s.recv(9))
elif kind == "abstract-dgram":
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b"x", "\\0" + host); print("REACHED")
elif kind == "uring":
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(425, 8, ctypes.create_string_buffer(120))
    if fd < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    print("REACHED", fd)
elif kind == "interfaces":
    names = [name for _, name in socket.if_nameindex()]
    print("REACHED" if names not in ([], ["lo"]) else "only lo", names)
    raise OSError(0, "no interface")
"""


class Servers:
    """A TCP and a UDP server on the host's loopback (IPv4 and IPv6), and two abstract sockets. All of them answer."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.tcp: dict[str, int] = {}
        self.udp: dict[str, int] = {}
        self._stack = stack
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                self.tcp[host] = self._listen(family, (host, 0))
                self.udp[host] = self._datagrams(family, (host, 0))
            except OSError:  # a host without IPv6
                continue
        self.abstract = "ectype-test-isolation"
        self._listen(socket.AF_UNIX, f"\0{self.abstract}")
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(f"\0{self.abstract}-dgram")

    def _listen(self, family: socket.AddressFamily, address: tuple[str, int] | str) -> int:
        server = self._stack.enter_context(socket.socket(family))
        server.bind(address)
        server.listen(8)

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer:
                        peer.sendall(b"answer")

        threading.Thread(target=answer, daemon=True).start()
        self._stack.callback(lambda: contextlib.suppress(OSError).__enter__() or server.shutdown(socket.SHUT_RDWR))
        return server.getsockname()[1] if family != socket.AF_UNIX else 0

    def _datagrams(self, family: socket.AddressFamily, address: tuple[str, int]) -> int:
        server = self._stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        server.bind(address)
        server.settimeout(0.5)
        stop = threading.Event()

        def answer() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    _, peer = server.recvfrom(99)
                    server.sendto(b"answer", peer)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        self._stack.callback(stop.set)
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with contextlib.ExitStack() as stack:
        yield Servers(stack)


@pytest.mark.apptainer
@pytest.mark.parametrize("layers", LAYERS)
class TestNetwork:
    @pytest.fixture
    async def isolated(self, apptainer: Apptainer, base_image: Path, layers: str) -> AsyncIterator[Sandbox]:
        started = await Sandbox.start(apptainer, base_image, LAYERS[layers])
        try:
            await started.open(CellSpec(oracle=True), Limits())
            yield started
        finally:
            await started.kill()

    async def test_every_attempt_fails(self, isolated: Sandbox, servers: Servers) -> None:
        await isolated.write("attempt.py", ATTEMPT.encode())
        attempts = [("tcp", host, port) for host, port in servers.tcp.items()]
        attempts += [("udp", host, port) for host, port in servers.udp.items()]
        attempts += [("tcp", "169.254.169.254", 80), ("udp", "169.254.169.254", 53), ("udp", "8.8.8.8", 53)]
        attempts += [("tcp", "::ffff:127.0.0.1", port) for host, port in servers.tcp.items() if host == "127.0.0.1"]
        attempts += [
            (kind, "127.0.0.1", 0) for kind in ("dns", "raw", "ping", "packet", "vsock", "uring", "interfaces")
        ]
        attempts += [("abstract", servers.abstract, 0), ("abstract-dgram", f"{servers.abstract}-dgram", 0)]
        for kind, host, port in attempts:
            result = await isolated.run(argv=["python3", "attempt.py", kind, host, str(port)])
            assert b"REACHED" not in result.stdout, (kind, host)
            assert (result.status, b"error" in result.stderr.lower()) == ("nonzero", True), (kind, host, result.stderr)

    async def test_shell_devices_and_32_bit_calls_fail_too(self, isolated: Sandbox, servers: Servers) -> None:
        port = servers.tcp["127.0.0.1"]
        result = await isolated.run(b"exec 3<>/dev/tcp/127.0.0.1/%d && cat <&3" % port)
        assert (result.status, result.stdout) == ("nonzero", b"")
        # int 0x80 with eax = 102 (socketcall): SYS_SOCKET, AF_INET, SOCK_STREAM
        source = b"""
            #include <stdio.h>
            #include <sys/mman.h>
            int main(void) {
                unsigned *args = mmap((void *)0x10000000, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
                args[0] = 2; args[1] = 1; args[2] = 0;
                int fd;
                __asm__ volatile("int $0x80" : "=a"(fd) : "a"(102), "b"(1), "c"(args) : "memory");
                printf("%d\\n", fd);
                return fd < 0;
            }"""
        await isolated.write("call.c", source)
        result = await isolated.run(b"[ $(uname -m) = x86_64 ] || exit 1; gcc -o call call.c && ./call")
        assert result.status in ("nonzero", "killed"), result

    async def test_what_programs_need_still_works(self, isolated: Sandbox) -> None:
        script = b"""python3 -c '
import socket, subprocess
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
s = socket.socket(socket.AF_UNIX); s.bind("/tmp/s"); s.listen(1)
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/s")
print(subprocess.run(["echo", "ok"], capture_output=True).stdout)
'"""
        assert (await isolated.run(script)).stdout == b"b'ok\\n'\n"


def _prove_reachable(servers: Servers) -> None:
    for host, port in servers.tcp.items():
        with socket.create_connection((host, port), timeout=5) as peer:
            assert peer.recv(9) == b"answer"
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(f"\0{servers.abstract}")
        assert peer.recv(9) == b"answer"


def test_the_servers_would_answer(servers: Servers) -> None:
    _prove_reachable(servers)


@pytest.mark.apptainer
async def test_without_landlock_unix_sockets_are_refused_where_the_namespace_is_the_hosts(
    apptainer: Apptainer, base_image: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel before 6.12 does; the guest is told that no kernel has the scope."""
    with_another_guest(monkeypatch, "_LANDLOCK_FIRST_WITH_SCOPES = 6", "_LANDLOCK_FIRST_WITH_SCOPES = 600")
    started = await Sandbox.start(apptainer, base_image, Isolation(netns=False, seccomp=True))
    try:
        await started.open(CellSpec(oracle=True), Limits())
        await started.write("attempt.py", ATTEMPT.encode())
        result = await started.run(argv=["python3", "attempt.py", "abstract", servers.abstract, "0"])
        assert b"Address family not supported" in result.stderr
        assert (await started.run(b"python3 -c 'import socket; socket.socketpair()'")).status == "ok"
        assert (await started.run(b"reference")).exit_status == 125  # the oracle needs no socket
    finally:
        await started.kill()


@pytest.mark.apptainer
async def test_loopback_of_a_task_that_declares_it(apptainer: Apptainer, base_image: Path, servers: Servers) -> None:
    started = await Sandbox.start(apptainer, base_image, Isolation(netns=True, seccomp=False))
    try:
        await started.open(CellSpec(loopback=True), Limits())
        script = b"""python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); print("connected")
'"""
        assert (await started.run(script)).stdout == b"connected\n"
        await started.write("attempt.py", ATTEMPT.encode())
        for host, port in servers.tcp.items():
            result = await started.run(argv=["python3", "attempt.py", "tcp", host, str(port)])
            assert (result.status, result.stdout) == ("nonzero", b"")
    finally:
        await started.kill()


@pytest.mark.apptainer
async def test_this_machine_is_probed_by_trying(apptainer: Apptainer, base_image: Path) -> None:
    assert await probe_isolation(apptainer, base_image) == Isolation()


REFUSES_BOTH_LAYERS = """#!/bin/sh
case "$*" in *--net*|*--security*) echo "FATAL: not allowed by the administrator" >&2; exit 255;; esac
exec apptainer "$@"
"""


@pytest.mark.apptainer
async def test_with_neither_layer_ectype_refuses(base_image: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own is closed to the containers' user
        os.chmod(folder, 0o755)
        with open(f"{folder}/apptainer", "w") as file:  # noqa: ASYNC230
            file.write(REFUSES_BOTH_LAYERS)
        os.chmod(f"{folder}/apptainer", 0o755)
        crippled = await Apptainer.find(f"{folder}/apptainer")
        with pytest.raises(NoNetworkIsolation, match="not allowed by the administrator") as caught:
            await probe_isolation(crippled, base_image)
    assert caught.value.remedy and caught.value.where
    with pytest.raises(NoNetworkIsolation):
        Isolation(netns=False, seccomp=False)


def test_the_filters_are_well_formed() -> None:
    from sandbox import guest_filter

    for code in (guest_filter.program(unix_sockets=True), guest_filter.lone_program()):
        check_jumps(code)


def check_jumps(code: bytes) -> None:
    instructions = [struct.unpack_from("HBBI", code, i) for i in range(0, len(code), 8)]
    for index, (operation, if_true, if_false, _) in enumerate(instructions):
        if operation & 7 == 5:
            assert index + 1 + max(if_true, if_false) < len(instructions)
    assert instructions[-1][0] == 6
