"""Reading and writing the workspace from the cell's init, while no command of the agent is alive.

Every path is walked component by component without following a symbolic link, so that whatever the agent has left in
the workspace, nothing outside of it is read or written. Runs inside the container (standard library only).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DEPTH = 64
MAX_NAMES = 4 << 20
"""Bytes of all paths together that `pack` returns."""


def create(path: str, data: bytes, mode: int, dir_fd: int | None = None) -> None:
    """Write a regular file, replacing what was there (a link is replaced, not followed)."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path, dir_fd=dir_fd)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, mode & 0o777)
    finally:
        os.close(fd)


def _walk(root: str, path: str, *, make: bool) -> tuple[int, str]:
    """Open the folder of `path` (relative to `root`); returns its descriptor and the last component."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        raise OSError(errno.EINVAL, "not a plain relative path")
    folder = os.open(root, _FOLDER)
    for part in parts[:-1]:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=folder)
            below = os.open(part, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    return folder, parts[-1]


def write(root: str, path: str, data: bytes, mode: int) -> None:
    folder, name = _walk(root, path, make=True)
    try:
        create(name, data, mode, folder)
    finally:
        os.close(folder)


def _read_at(name: str, folder: int, max_bytes: int) -> tuple[bytes, int]:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if found.st_size > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes")
        data = bytearray()
        while len(data) < found.st_size and (chunk := os.read(fd, found.st_size - len(data))):
            data += chunk
        return bytes(data), stat.S_IMODE(found.st_mode) & 0o777
    finally:
        os.close(fd)


def read(root: str, path: str, max_bytes: int) -> bytes:
    folder, name = _walk(root, path, make=False)
    try:
        return _read_at(name, folder, max_bytes)[0]
    finally:
        os.close(folder)


def pack(root: str, max_bytes: int, max_files: int) -> list[tuple[str, bytes, int]]:
    """Every regular file below `root`, in sorted order. Links, FIFOs, sockets, devices are left out.

    Raises OSError(EFBIG) when there is more than `max_bytes` or `max_files`, or folders are deeper than MAX_DEPTH.
    """
    files: list[tuple[str, bytes, int]] = []
    left, names_left = max_bytes, MAX_NAMES

    def visit(folder: int, prefix: str, depth: int) -> None:
        nonlocal left, names_left
        if depth > MAX_DEPTH:
            raise OSError(errno.EFBIG, f"folders deeper than {MAX_DEPTH}")
        for name in sorted(os.listdir(folder)):
            kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if kind == stat.S_IFDIR:
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    visit(below, f"{prefix}{name}/", depth + 1)
                finally:
                    os.close(below)
            elif kind == stat.S_IFREG:
                if len(files) >= max_files:
                    raise OSError(errno.EFBIG, f"more than {max_files} files")
                try:
                    data, mode = _read_at(name, folder, left)
                except OSError as error:
                    if error.errno == errno.EFBIG:
                        raise OSError(errno.EFBIG, f"more than {max_bytes} bytes") from error
                    raise
                left -= len(data)
                names_left -= len(prefix) + len(name)
                if names_left < 0:
                    raise OSError(errno.EFBIG, f"more than {MAX_NAMES} bytes of file names")
                files.append((prefix + name, data, mode))

    top = os.open(root, _FOLDER)
    try:
        visit(top, "", 0)
    finally:
        os.close(top)
    return files
