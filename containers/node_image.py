"""A copy of an image on the node's own disk, made once per node and shared by all workers of a user on it.

In goes an image that lies on a shared file system, out comes the same image on a local one. A copy appears by one
rename when every byte of it has been compared; a lock keeps two workers from copying at once, and each user of a copy
holds a lock on it, so that older copies are removed when nobody uses them. A copy that has lost files is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from containers.image import ImageError, check_reachable, fingerprint, locked

_UNUSED_KEPT = 1
"""Copies that nobody uses now and that stay: the one of the run before, perhaps."""
_MARKER = "complete"


class NodeImage:
    """A copy in use. As long as this is not closed and its process lives, nobody removes it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        os.close(self._lock)


def copy_to_node(image: Path, folder: Path, *, say: Callable[[str], None] = lambda message: None) -> NodeImage:
    """The copy of `image` below `folder`, made if need be. Raises ImageError when that cannot be."""
    copies = folder / f"ectype-images-{os.geteuid()}"
    name = f"{image.parent.name}-{fingerprint(image)}"
    try:
        copies.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = copies.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ImageError("the folder for copies of images belongs to somebody else", where=str(copies))
        check_reachable(copies)
        with locked(copies / ".copying.lock"):
            for leftover in copies.glob(".copying-*.tmp"):
                shutil.rmtree(leftover, ignore_errors=True)
            lock = os.open(copies / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _make(image, copies, name, lock, say)
                fcntl.flock(lock, fcntl.LOCK_SH)
            except BaseException:
                os.close(lock)
                raise
            _prune(copies, name)
    except OSError as error:
        raise ImageError(
            f"the image could not be copied to this node: {error}",
            where=str(copies),
            remedy="free some space there, or take `node_local` out of the site config",
        ) from error
    return NodeImage(copies / name / "rootfs", lock)


def _make(image: Path, copies: Path, name: str, lock: int, say: Callable[[str], None]) -> None:
    final = copies / name
    if final.is_dir():
        if _marker(final) == _digest(final / "rootfs", contents=False):
            os.utime(final)
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImageError("a copy of the image that is in use is damaged", where=str(final)) from None
        shutil.rmtree(final)
    say(f"copying the image {name} to {copies}")
    temporary = copies / f".copying-{os.getpid()}.tmp"
    try:
        temporary.mkdir()
        temporary.chmod(0o755)
        shutil.copytree(image, temporary / "rootfs", symlinks=True)
        if _digest(image, contents=True) != _digest(temporary / "rootfs", contents=True):
            raise ImageError("the copy of the image differs from the image", where=str(temporary))
        (temporary / _MARKER).write_text(_digest(temporary / "rootfs", contents=False))
        temporary.rename(final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _marker(copy: Path) -> str:
    try:
        return (copy / _MARKER).read_text()
    except OSError:
        return ""


def _digest(root: Path, *, contents: bool) -> str:
    """A hash of all names, kinds, modes, sizes and link targets below `root`, and of what is in the files."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            kind = stat.S_IFMT(found.st_mode)
            facts: list[object] = [os.path.relpath(path, root), kind]
            if kind == stat.S_IFLNK:
                facts.append(os.readlink(path))
            else:
                facts.append(stat.S_IMODE(found.st_mode))
            if kind == stat.S_IFREG:
                facts.append(found.st_size)
                if contents:
                    with open(path, "rb") as file:
                        facts.append(hashlib.file_digest(file, "sha256").hexdigest())
            digest.update(repr(facts).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _prune(copies: Path, current: str) -> None:
    """Remove copies that nobody uses, but the newest. `.copying.lock` is held."""
    unused = 0
    others = [path for path in copies.iterdir() if path.is_dir() and path.name[0] != "." and path.name != current]
    for copy in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True):
        lock = os.open(copies / f"{copy.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unused += 1
            if unused > _UNUSED_KEPT:
                shutil.rmtree(copy, ignore_errors=True)
                (copies / f"{copy.name}.lock").unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
