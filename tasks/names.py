"""Finds every name that a program of an image has, so that all of them can be taken away.

Comes in: a root filesystem on disk and an absolute path in it. Goes out: paths, as seen from inside the image. A name
counts when it leads to the same inode, to the same bytes, or through symbolic links to either; for a multi-call binary
that makes all of its names. Nothing of the image is executed, and no link is followed out of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from containers.files import inside


def names_of(rootfs: Path, program: str) -> tuple[str, ...]:
    """Every path of the image that starts the same program as `program`, sorted; raises `FileNotFoundError`.

    A wrapper that only names its multi-call binary (`#!/usr/bin/coreutils --coreutils-prog-shebang=wc`) counts as that
    binary.
    """
    real = inside(rootfs, program)
    if real is None or not (rootfs / real.lstrip("/")).is_file():
        raise FileNotFoundError(program)
    real = _shebang_target(rootfs, real) or real
    original = _Content(rootfs / real.lstrip("/"))
    targets = {path for path, info in _walk(rootfs) if stat.S_ISREG(info.st_mode) and original.same(rootfs, path, info)}
    names = set(targets)
    for path, info in _walk(rootfs):
        if stat.S_ISLNK(info.st_mode):
            if inside(rootfs, path) in targets:
                names.add(path)
        elif stat.S_ISREG(info.st_mode) and info.st_size < 200 and _shebang_target(rootfs, path) in targets:
            names.add(path)
    return tuple(sorted(names))


class _Content:
    """One file, to compare others with; its bytes are hashed when the first candidate of equal size turns up."""

    def __init__(self, path: Path) -> None:
        info = path.stat()
        self.inode, self.size = (info.st_dev, info.st_ino), info.st_size
        self.digest = _digest(path)

    def same(self, rootfs: Path, path: str, info: os.stat_result) -> bool:
        if (info.st_dev, info.st_ino) == self.inode:
            return True
        return info.st_size == self.size and _digest(rootfs / path.lstrip("/")) == self.digest


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _walk(rootfs: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file and link of the image: its path as seen from inside, and its own (unfollowed) status."""
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(f"{rootfs}/{folder}") as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    yield path, entry.stat(follow_symlinks=False)


def _shebang_target(rootfs: Path, path: str) -> str | None:
    """The multi-call binary a one-line wrapper starts, resolved; None for anything else."""
    with (rootfs / path.lstrip("/")).open("rb") as file:
        first = file.read(200).split(b"\n", 1)[0]
    if not first.startswith(b"#!") or b"-prog-shebang=" not in first:
        return None
    return inside(rootfs, first[2:].split()[0].decode())
