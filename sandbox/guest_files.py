"""Reading and writing the workspace from the cell's init, while no command of the agent is alive.

Every path is walked component by component without following a symbolic link, so that whatever the agent has left in
the workspace, nothing outside of it is read or written. Runs inside the container (standard library only).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

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


def _visit(folder: int, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, str, int, os.stat_result | None]]:
    """Every entry below `folder` that is no folder, in sorted order: path, name, its folder, its own status; of an
    empty folder the path alone."""
    if depth > MAX_DEPTH:
        raise OSError(errno.EFBIG, f"folders deeper than {MAX_DEPTH}")
    names = sorted(os.listdir(folder))
    if not names and depth:
        yield prefix, "", folder, None
    for name in names:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                yield from _visit(below, f"{prefix}{name}/", depth + 1)
            finally:
                os.close(below)
        else:
            yield prefix + name, name, folder, found


def pack(root: str, max_bytes: int, max_files: int, *, whole: bool = False) -> list[tuple[str, bytes, int]]:
    """Every regular file below `root`, in sorted order. Links, FIFOs, sockets, devices are left out.

    Raises OSError(EFBIG) when there is more than `max_bytes` or `max_files`, or folders are deeper than MAX_DEPTH;
    with `whole`, OSError(EXDEV) when anything but regular files is there, empty folders too.
    """
    files: list[tuple[str, bytes, int]] = []
    left, names_left = max_bytes, MAX_NAMES
    top = os.open(root, _FOLDER)
    try:
        for path, name, folder, found in _visit(top):
            if found is None or not stat.S_ISREG(found.st_mode):
                if whole:
                    raise OSError(errno.EXDEV, "more than regular files")
                continue
            if len(files) >= max_files:
                raise OSError(errno.EFBIG, f"more than {max_files} files")
            try:
                data, mode = _read_at(name, folder, left)
            except OSError as error:
                if error.errno == errno.EFBIG:
                    raise OSError(errno.EFBIG, f"more than {max_bytes} bytes") from error
                raise
            left -= len(data)
            names_left -= len(path)
            if names_left < 0:
                raise OSError(errno.EFBIG, f"more than {MAX_NAMES} bytes of file names")
            files.append((path, data, mode))
    finally:
        os.close(top)
    return files


def hashes(root: str, sizes: list[int], max_bytes: int, max_names: int) -> list[tuple[str, str]]:
    """Path and sha256 of every regular file below `root` that has one of `sizes`.

    Raises OSError(EFBIG) when they are larger than `max_bytes` together, or there are more than `max_names` entries.
    """
    import hashlib  # of the image, and only where it is needed: it is large

    wanted, left, names_left = set(sizes), max_bytes, MAX_NAMES
    digests: list[tuple[str, str]] = []
    top = os.open(root, _FOLDER)
    try:
        for number, (path, name, folder, found) in enumerate(_visit(top)):
            if number >= max_names:
                raise OSError(errno.EFBIG, f"more than {max_names} files")
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_size in wanted:
                left -= found.st_size
                names_left -= len(path)
                if left < 0 or names_left < 0:
                    raise OSError(errno.EFBIG, f"more than {max_bytes} bytes")
                digests.append((path, hashlib.sha256(_read_at(name, folder, found.st_size)[0]).hexdigest()))
    finally:
        os.close(top)
    return digests


def remove(root: str, path: str) -> None:
    """Remove a file below `root`; follows no link."""
    folder, name = _walk(root, path, make=False)
    try:
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
