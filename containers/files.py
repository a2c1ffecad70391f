"""Files of an image, read on the host: links lead where they lead inside the image, and never out into the host.

Comes in: a root filesystem on disk and an absolute path in it. Goes out: the path behind the links, or the bytes that
lie there. Nothing of the image is executed.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

MOST_LINKS = 40


def inside(rootfs: Path, path: str) -> str | None:
    """`path` of the image with every symbolic link resolved inside it; None when it leads nowhere."""
    done: list[str] = []
    left = [part for part in path.split("/") if part and part != "."][::-1]
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = "/".join([*done, part])
        try:
            target = os.readlink(rootfs / here)
        except FileNotFoundError:
            return None
        except OSError:  # not a link
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            return None
        if target.startswith("/"):
            done = []
        left += [piece for piece in target.split("/") if piece and piece != "."][::-1]
    return "/" + "/".join(done)


@lru_cache(maxsize=64)
def read_program(rootfs: Path, program: str) -> bytes:
    """The bytes of a program of the image. Raises FileNotFoundError when it leads to no regular file there."""
    real = inside(rootfs, program)
    if real is None or not (rootfs / real.lstrip("/")).is_file():
        raise FileNotFoundError(program)
    return (rootfs / real.lstrip("/")).read_bytes()
