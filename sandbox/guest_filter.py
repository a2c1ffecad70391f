"""System calls that nothing in a cell may use, whatever the container's own profile says.

A seccomp filter and a Landlock scope that the cell's init puts on itself, so that every command inherits them. They
close what namespaces do not: socket families that have none (AF_VSOCK reaches the hypervisor), abstract sockets where
the network namespace is the host's, memory that belongs to no process (memfd), keyrings, io_uring, bpf, the init's own
limits, news of files that others open, other cores. The two layers of network isolation do not depend on them. Runs
inside the container (standard library only).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

from sandbox.guest_kernel import call, prctl

_FAMILIES_WITH_NAMESPACE = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_AF_UNIX = 1

# name: (x86_64, aarch64); from the kernel's system call tables
_REFUSED = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "kcmp": (312, 272),
    "inotify_init": (253, 26),
    "inotify_init1": (294, 26),
}
_SOCKET = (41, 198)
_PRLIMIT64 = (302, 261)
_FCNTL = (72, 25)
_F_SETLEASE, _F_NOTIFY = 1024, 1026
_SETSOCKOPT = (54, 208)
_SO_SNDBUF = 7
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32_BIT = 0x40000000
_FORKS = ((57, 58), ())  # fork, vfork: aarch64 has neither
_EXECVE = (59, 221)
_CLONE = (56, 220)
_CLONE3 = 435
_SCHED_SETAFFINITY = (203, 122)
_KEY_WORDS = 3
"""A system call has six arguments, `sched_setaffinity` takes three of them."""
_CLONE_THREAD = 0x00010000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_LOAD_NUMBER, _XOR, _OR_KEPT, _KEEP = 0x00, 0xA4, 0x4C, 0x07
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000

_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_FIRST_WITH_SCOPES = 6
_SCOPE_ABSTRACT_UNIX_SOCKET = 1


def program(*, unix_sockets: bool, key: Sequence[int] = ()) -> bytes:
    """The filter as an array of `struct sock_filter`: foreign architectures, refused calls, refused arguments.

    `key`: numbers of 64 bits, with which a process may bind itself to cores. Without one, no process may.
    """
    column, audit_arch = _ARCHITECTURES[os.uname().machine]
    families = [family for family in _FAMILIES_WITH_NAMESPACE if unix_sockets or family != _AF_UNIX]
    code = [
        (_LOAD, 0, 0, 4),  # architecture
        (_EQUAL, 1, 0, audit_arch),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_LOAD, 0, 0, 0),  # number of the call
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for entry in _REFUSED.values():
        code += [(_EQUAL, 0, 1, entry[column]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    # the kernel lets a user set the limits of all his processes, the init among them: only one's own
    code += _by_argument(_PRLIMIT64[column], 0, [0], errno.EPERM, allowed=True)
    code += _by_argument(_FCNTL[column], 1, [_F_SETLEASE, _F_NOTIFY], errno.EINVAL, allowed=False)
    # what lies in sockets belongs to no process: the watchdog counts on the size that the kernel gives them
    code += _by_argument(_SETSOCKOPT[column], 2, [_SO_SNDBUF], errno.EPERM, allowed=False)
    code += _by_argument(_SOCKET[column], 0, families, errno.EAFNOSUPPORT, allowed=True)
    code += _by_key(_SCHED_SETAFFINITY[column], key)
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _by_argument(
    number: int, argument: int, values: list[int], error: int, *, allowed: bool
) -> list[tuple[int, int, int, int]]:
    """For the call `number`: whether it is allowed depends on the low half of one argument being among `values`."""
    verdicts = (_ERRNO | error, _ALLOW) if allowed else (_ALLOW, _ERRNO | error)
    return [
        (_EQUAL, 0, len(values) + 3, number),
        (_LOAD, 0, 0, 16 + 8 * argument),
        *((_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)),
        (_RETURN, 0, 0, verdicts[0]),
        (_RETURN, 0, 0, verdicts[1]),
    ]


def _by_key(number: int, key: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """The call `number` is for whoever puts `key` into its last arguments, which mean nothing to the kernel.

    All of them are compared before anything is decided: how long it takes does not tell how much of a guess was right.
    """
    if not key:
        return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    body = [(_LOAD_NUMBER, 0, 0, 0), (_KEEP, 0, 0, 0)]
    for position, half in enumerate(half for word in key for half in (word & 0xFFFFFFFF, word >> 32)):
        offset = 16 + 8 * (6 - len(key)) + 4 * position
        body += [(_LOAD, 0, 0, offset), (_XOR, 0, 0, half), (_OR_KEPT, 0, 0, 0), (_KEEP, 0, 0, 0)]
    body += [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(body), number), *body]


def lone_program() -> bytes:
    """A filter for a program that may have threads, no other process, and become no other program.

    `clone3` is as if the kernel had none, since its flags lie in memory, and the C library then uses `clone`. The
    program itself is started by `execveat`, which nothing but code of one's own calls."""
    column, audit_arch = _ARCHITECTURES[os.uname().machine]
    refused = (*_FORKS[column], _EXECVE[column])
    body = [
        (_LOAD, 0, 0, 4),  # architecture
        (_EQUAL, 0, len(refused) + 6, audit_arch),
        (_LOAD, 0, 0, 0),  # number of the call
        *((_EQUAL, len(refused) + 3 - i, 0, number) for i, number in enumerate(refused)),
        (_EQUAL, 4, 0, _CLONE3),
        (_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, 16),  # low half of the first argument: the flags
        (_ANY_BIT, 2, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in body)


def forbid_processes() -> None:
    """Let this process, and what it becomes by `execveat`, start no other process and become no other program."""
    _install(lone_program())


class Cores:
    """Binds processes of the cell to cores. A command cannot: it would have to guess 192 bits.

    The key lies in the memory of the init, and of what it has forked until that becomes a command.
    """

    def __init__(self) -> None:
        self.key = [int.from_bytes(os.urandom(8), "little") for _ in range(_KEY_WORDS)]

    def bind(self, pid: int, cpus: list[int]) -> None:
        """Keep a process, and all it will start from now on, on these cores."""
        if os.uname().machine not in _ARCHITECTURES:
            os.sched_setaffinity(pid, cpus)
            return
        column, _ = _ARCHITECTURES[os.uname().machine]
        size = (max(cpus) // 64 + 1) * 8
        mask = ctypes.create_string_buffer(sum(1 << cpu for cpu in cpus).to_bytes(size, "little"), size)
        call(_SCHED_SETAFFINITY[column], pid, size, ctypes.addressof(mask), *self.key)


def apply(*, netns: bool, cores: Cores) -> None:
    """Put the filter on this process and all it will start. `netns`: the network namespace is empty.

    Without an empty network namespace, abstract sockets are the host's: Landlock keeps the cell from them, and where
    the kernel has no such scope (before 6.12), AF_UNIX sockets are refused too (pairs still work).
    """
    scoped = _scope_abstract_sockets()
    if os.uname().machine not in _ARCHITECTURES:
        if not (netns or scoped):
            raise OSError(errno.ENOTSUP, f"no filter for {os.uname().machine} keeps abstract sockets of the host away")
        return
    _install(program(unix_sockets=netns or scoped, key=cores.key))


def _install(code: bytes) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)))
    prctl(22, 2, ctypes.addressof(header), what="seccomp filter")  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _scope_abstract_sockets() -> bool:
    try:
        version = call(_SYS_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    except OSError:
        return False
    if version < _LANDLOCK_FIRST_WITH_SCOPES:
        return False
    attributes = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, _SCOPE_ABSTRACT_UNIX_SOCKET), 24)
    ruleset = call(_SYS_LANDLOCK_CREATE_RULESET, ctypes.addressof(attributes), 24, 0)
    try:
        call(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True
