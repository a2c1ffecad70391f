"""System calls that Python 3.11 has no function for: namespaces, mounts, process attributes.

Runs inside the container (standard library only) and is sent there as text, together with the other `guest_*` modules.
Every function raises OSError with the name of the call on failure; nothing here decides anything.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

_ATTRIBUTES = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 0x200000,
}

_IN_OPEN = 0x20
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str = "") -> None:
    encoded = [None if x is None else os.fsencode(x) for x in (source, target, kind)]
    _check(_libc.mount(*encoded, flags, data.encode() or None), f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def bind(source: str, target: str, *, read_only: bool = True) -> None:
    mount(source, target, None, MS_BIND)
    if read_only:
        mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def mounts() -> list[tuple[str, int]]:
    """Mount points of this namespace with their per-mount flags, in the order they were mounted."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split(" ")
            target = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
            found.append((target, sum(_ATTRIBUTES.get(word, 0) for word in fields[5].split(","))))
    return found


def map_identity(inner: int, outer_uid: int, outer_gid: int) -> None:
    """Make the caller user and group `inner` in the user namespace it has just created."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner} {outer_uid} 1"),
        ("gid_map", f"{inner} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def prctl(option: int, value: int, extra: int = 0, *, what: str) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(extra), 0, 0), f"prctl({what})")


def inotify() -> int:
    """A new inotify descriptor, not blocking. Fails with EMFILE when the user has too many on this machine."""
    fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    _check(min(fd, 0), "inotify")
    return fd


def watch_opening(fd: int, path: str) -> None:
    """Have `fd` tell when the file at `path` is opened."""
    _check(min(_libc.inotify_add_watch(fd, os.fsencode(path), _IN_OPEN), 0), f"watch {path}")


def call(number: int, *arguments: int | None) -> int:
    """A system call by its number; returns its result."""
    result = _libc.syscall(number, *(None if a is None else ctypes.c_long(a) for a in arguments))
    if result < 0:
        _check(result, f"system call {number}")
    return result


def die_with_parent(signal_number: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal_number, what="PDEATHSIG")


def inspection(allowed: bool) -> None:
    """Whether others of the same user may trace this process and read its memory and descriptors.

    Without it, /proc/self belongs to root, and the process cannot even write its own id maps.
    """
    prctl(_PR_SET_DUMPABLE, int(allowed), what="DUMPABLE")


def adopt_orphans() -> None:
    prctl(_PR_SET_CHILD_SUBREAPER, 1, what="CHILD_SUBREAPER")


def forbid_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1, what="NO_NEW_PRIVS")
