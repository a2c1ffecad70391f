"""What a process that starts containers leaves on a node when it is killed, and how the next one removes it.

Every such process holds a lock on a folder of its own (`Holder`) as long as it lives, names that folder in the
environment of all it starts, and keeps a record of every container in it. `purge` looks for folders whose lock nobody
holds, ends what is left of their processes, and removes them. Facts decide: the lock, the environment, a process's
start time and user, the boot. What belongs to a living process, or to somebody else, is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import time
import weakref
from pathlib import Path

import msgspec

from containers.processes import Process, find_init, identify

VARIABLE = "ECTYPE_HOLDER"
_UNFINISHED_S = 60.0
"""A folder without a lock that is older was not finished by a process that died."""
_GONE_WITHIN_S = 10.0


class Purged(msgspec.Struct, forbid_unknown_fields=True):
    """What was found and removed; `remains` are folders that could not be removed."""

    folders: list[str] = []
    processes: int = 0
    remains: list[str] = []


class Holder:
    """This process's folder below `parent`: `tmp` for what it starts, which runs as user `uid`, and the records."""

    def __init__(self, parent: Path, uid: int) -> None:
        parent.mkdir(mode=0o755, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        unfinished = parent / f".{name}"
        unfinished.mkdir(mode=0o755)
        lock = os.open(unfinished / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (unfinished / "boot").write_text(_boot())
        (unfinished / "containers").mkdir(mode=0o700)
        (unfinished / "tmp").mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(unfinished / "tmp", uid, -1)
        self.folder = parent / name
        unfinished.rename(self.folder)
        self.tmp = self.folder / "tmp"
        self._finalizer = weakref.finalize(self, _leave, self.folder, lock, os.getpid())

    def record(self, pid: int) -> None:
        """Note a process of a container. `forget` it when it has ended."""
        process = identify(pid)
        with contextlib.suppress(FileNotFoundError):  # a cleaner of /tmp has taken the folder
            if process is not None:
                (self.folder / "containers" / str(pid)).write_bytes(msgspec.json.encode(process))

    def forget(self, pid: int) -> None:
        (self.folder / "containers" / str(pid)).unlink(missing_ok=True)

    def close(self) -> None:
        self._finalizer()


def _leave(folder: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def purge(parent: Path, uid: int) -> Purged:
    """Remove what dead holders below `parent` have left; their containers run as user `uid`."""
    purged = Purged()
    for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
        with contextlib.suppress(OSError):  # its own holder, or another purge, was faster
            lock = _take_over(folder)
            if lock is None:
                continue
            try:
                purged.processes += _end_all(folder, uid)
                shutil.rmtree(folder, ignore_errors=True)
                (purged.remains if folder.exists() else purged.folders).append(folder.name)
            finally:
                os.close(lock)
    return purged


def _take_over(folder: Path) -> int | None:
    """The lock of a folder of this user whose holder is dead; None when it is alive or somebody else's."""
    found = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or found.st_uid != os.geteuid():
        return None
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - found.st_mtime > _UNFINISHED_S:
            shutil.rmtree(folder, ignore_errors=True)
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _end_all(folder: Path, uid: int) -> int:
    """End every process that the dead holder of `folder` has started; returns how many there were."""
    if (folder / "boot").read_text() != _boot():
        return 0
    started = _marked(folder.name, uid)
    started |= {process for path in folder.glob("containers/*") if (process := _recorded(path, uid))}
    inits = {init for process in started if (init := identify(find_init(process.pid))) and _user(init.pid) == uid}
    ended = 0
    # with its init, the kernel ends all of a container; what is outside of it then has nothing left to clean up
    for processes in (inits, started - inits):
        ended += sum(_kill(process) for process in processes)
        deadline = time.monotonic() + _GONE_WITHIN_S
        while any(identify(p.pid) == p for p in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
    return ended


def _marked(name: str, uid: int) -> set[Process]:
    """Processes of user `uid` with the holder's name in their environment."""
    marker = f"{VARIABLE}={name}".encode()
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended, or is none of ours to look at
            process = identify(int(entry))
            with open(f"/proc/{entry}/environ", "rb") as file:
                if process is not None and marker in file.read().split(b"\0") and _user(process.pid) == uid:
                    found.add(process)
    return found


def _recorded(path: Path, uid: int) -> Process | None:
    """The process of a record, if it is still the same one."""
    with contextlib.suppress(msgspec.DecodeError, OSError):
        process = msgspec.json.decode(path.read_bytes(), type=Process)
        if identify(process.pid) == process and _user(process.pid) == uid:
            return process
    return None


def _user(pid: int) -> int:
    """The effective user of a process, -1 when it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _kill(process: Process) -> bool:
    """Send the signal that nothing survives, to this process and no other that has its PID now."""
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(process.pid)
        try:
            if identify(process.pid) == process:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                return True
        finally:
            os.close(fd)
    return False


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
