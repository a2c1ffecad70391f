"""What a command sees of the file system: first once per container, then once per cell.

`prepare_container` runs in the guest's own namespaces: it makes every mount of the container read-only and covers what
tells about the host. `prepare_cell` runs in the cell's namespaces: fresh tmpfs for the workspace and for scratch, a
fresh /proc, decoys and masks. Afterwards the only writable places are /work, /tmp, /var/tmp, /dev/shm and /case, all of
them tmpfs that die with the cell. Runs inside the container (standard library only).
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from sandbox import guest_files
from sandbox import guest_kernel as kernel

TMPFS = kernel.MS_NOSUID | kernel.MS_NODEV
USER = 1000
_IDENTITY = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000::/work:/bin/bash\n",
    "group": "root:x:0:\nagent:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "resolv.conf": "",
    "hostname": "sandbox\n",
}
_HOST_FACTS = ("cmdline", "keys", "key-users", "timer_list", "diskstats", "partitions", "config.gz", "kmsg")

_STAND_INS = {
    "sys/kernel/core_pattern": "core\n",  # a host's may name its programs and folders
    "sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000\n",
}
"""What is said instead of facts that programs may want to read. `version` is another, without who built the kernel."""


class CellRefused(Exception):
    """The cell was asked for something that this image cannot give; says what."""


def prepare_container() -> None:
    uid, gid = os.getuid(), os.getgid()
    # a cgroup namespace as well: /proc/self/cgroup would tell the job's and the user's ids
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWCGROUP)
    kernel.map_identity(USER, uid, gid)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", "/run", "tmpfs", TMPFS, "size=1m,mode=755")
    for name, text in _IDENTITY.items():
        if os.path.exists(f"/etc/{name}"):
            with open(f"/run/{name}", "w", encoding="ascii") as file:
                file.write(text)
            kernel.bind(f"/run/{name}", f"/etc/{name}")
    for covered in ("/sys", "/dev/mqueue"):
        if os.path.isdir(covered):
            kernel.mount("tmpfs", covered, "tmpfs", TMPFS, "size=4k,mode=755")
    for target, flags in kernel.mounts():
        # /proc stays writable: the cell writes its id maps there, and has its own /proc afterwards
        if target != "/proc" and not target.startswith("/proc/") and os.path.lexists(target):
            kernel.mount(None, target, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)


class Layout:
    """The mounts of one cell. Made by the cell's init, after it has its own namespaces."""

    def __init__(self, workspace_bytes: int, workspace_inodes: int) -> None:
        self._tmpfs = f"size={workspace_bytes},nr_inodes={workspace_inodes},mode=755"
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("proc", "/proc", "proc", TMPFS | kernel.MS_NOEXEC, "hidepid=2")
        kernel.mount("tmpfs", "/run", "tmpfs", TMPFS, "size=64m,mode=755")
        for name in ("bin", "oracle", "masks", "facts"):
            os.mkdir(f"/run/{name}", 0o755)
        kernel.mount("tmpfs", "/work", "tmpfs", TMPFS, self._tmpfs)
        self._has_scratch = False
        self.refresh_scratch()
        with open("/run/empty", "wb"):
            pass
        os.chmod("/run/empty", 0)
        for name in _HOST_FACTS:
            if os.path.exists(f"/proc/{name}"):
                kernel.bind("/run/empty", f"/proc/{name}")
        for name, text in {**_STAND_INS, "version": f"Linux version {os.uname().release}\n"}.items():
            if os.path.exists(f"/proc/{name}"):
                place = "/run/facts/" + name.replace("/", ".")
                with open(place, "w", encoding="ascii") as file:
                    file.write(text)
                kernel.bind(place, f"/proc/{name}")

    def refresh_scratch(self) -> None:
        """Empty /tmp, /var/tmp, /dev/shm, /case and /dev/pts, and number processes and terminals from the start again.
        Nothing of the cell but its init may be alive."""
        if self._has_scratch:
            for target in ("/dev/pts", "/case", "/case", "/dev/shm", "/var/tmp", "/tmp"):
                kernel.unmount(target)
        # the host has one store of terminals for everybody: without a bound, one cell takes it all
        options = "newinstance,ptmxmode=0666,max=64"
        kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, options)
        # not every kernel can
        with contextlib.suppress(OSError), open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write("1")
        kernel.mount("tmpfs", "/case", "tmpfs", TMPFS, self._tmpfs)
        for name in ("tmp", "shm", "case"):
            os.mkdir(f"/case/{name}")
            os.chmod(f"/case/{name}", 0o1777)
        for name, target in (("tmp", "/tmp"), ("tmp", "/var/tmp"), ("shm", "/dev/shm"), ("case", "/case")):
            kernel.bind(f"/case/{name}", target, read_only=False)
        self._has_scratch = True

    def place(self, files: list[tuple[str, bytes, int]]) -> None:
        """Put read-only files outside the workspace: into an empty folder of the image, or over a file of it."""
        covered: set[str] = set()
        for path, data, mode in files:
            if os.path.normpath(path) != path or not path.startswith("/"):
                raise CellRefused(f"{path}: not an absolute, plain path")
            folder = os.path.dirname(path)
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            if folder not in covered and not any(folder.startswith(f"{c}/") for c in covered):
                if folder == "/" or os.listdir(folder):
                    raise CellRefused(f"{path}: the image has no empty folder to put it in ({folder} is in use)")
                kernel.mount("tmpfs", folder, "tmpfs", TMPFS, "mode=755")
                covered.add(folder)
            place = next(c for c in covered if path.startswith(f"{c}/"))
            guest_files.write(place, path[len(place) + 1 :], data, mode)  # the whole may be longer than a path can be
        for folder in covered:
            kernel.mount(None, folder, None, kernel.MS_REMOUNT | kernel.MS_RDONLY | TMPFS)

    def mask(self, programs: list[str]) -> None:
        """Make files of the image vanish: whiteouts in an overlay, or an unusable file where overlays are refused."""
        folders: dict[str, set[str]] = {}
        for program in programs:
            if os.path.lexists(program):
                folders.setdefault(os.path.realpath(os.path.dirname(program)), set()).add(os.path.basename(program))
        for folder, names in sorted(folders.items()):
            kernel.mount("tmpfs", "/run/masks", "tmpfs", TMPFS, "mode=755")
            try:
                for name in names:
                    os.mknod(f"/run/masks/{name}", stat.S_IFCHR, os.makedev(0, 0))
                kernel.mount("overlay", folder, "overlay", kernel.MS_RDONLY | TMPFS, f"lowerdir=/run/masks:{folder}")
            except OSError:
                for name in names:
                    kernel.bind("/run/empty", f"{folder}/{name}")
            kernel.unmount("/run/masks")  # the overlay keeps it; the cell need not see the list

    def finish(self) -> int:
        """Make /run read-only for commands; returns a descriptor of it through which the init still can write."""
        writable = os.open("/run", os.O_RDONLY | os.O_DIRECTORY)
        kernel.bind("/run", "/run")
        # not in this namespace, nor in one below: a command cannot gain capabilities by a namespace of its own
        with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
            file.write("0")
        return writable

    def show_logs(self) -> None:
        """Show the folder `logs` of the workspace as /logs as well, with a place for a verdict in it."""
        if not os.path.isdir("/logs"):
            raise CellRefused("/logs: the image has no such folder")
        os.makedirs("/work/logs/verifier")
        kernel.bind("/work/logs", "/logs", read_only=False)

    def seal(self) -> None:
        kernel.mount(None, "/work", None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | TMPFS)


def header_files(entries: list[list[Any]], blob: bytes, offset: int = 0) -> list[tuple[str, bytes, int]]:
    """Split `blob` into the files that `entries` ([path, size, mode]) describe."""
    files = []
    for path, size, mode in entries:
        files.append((path, blob[offset : offset + size], mode))
        offset += size
    return files
