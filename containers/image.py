"""Finds the directory image a sandbox starts from, and builds it once where there is none.

In goes the name of a definition in `containers/images/`, out comes the folder to give to Apptainer. An image is kept
under a name that carries a hash of its definition and of the code that builds it, appears by one rename, and is never
changed afterwards: a running sandbox may use it. Only the standard library is used, because the set-up runs this file
before anything is installed: `python -m containers.image missing|build [NAME]`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from containers.cache import cache_dir, cache_dirs
from containers.rootfs import Definition, ImageError, Installed, build

__all__ = [
    "ImageError",
    "check_reachable",
    "definition_hash",
    "ensure_image",
    "find_image",
    "fingerprint",
    "locked",
    "missing_packages",
]

DEFINITIONS = Path(__file__).parent / "images"
KEEP = 3
"""Images of one name that are kept: the current one and those that another checkout may still use."""


def find_image(name: str = "base") -> Path | None:
    """The built image of the current definition, in the user's own cache or the machine's; None where there is none."""
    folder = f"{name}-{definition_hash(name)}"
    for cache in cache_dirs():
        root = cache / "images" / folder / "rootfs"
        if os.access(root, os.R_OK | os.X_OK):
            return root
    return None


def ensure_image(
    name: str = "base", *, cache: Path | None = None, progress: Callable[[str], None] | None = None
) -> Path:
    """The image, built first if need be (some seconds). Safe to call from many processes at once.

    `cache` replaces the cache folder. Raises ImageError, and leaves nothing half-built behind.
    """
    report = progress or (lambda message: None)
    if cache is None:
        found = find_image(name)
        if found is not None:
            return found
    definition = load_definition(name)
    images = (cache or cache_dir()) / "images"
    images.mkdir(parents=True, exist_ok=True)
    check_reachable(images)
    final = images / f"{name}-{definition_hash(name)}"
    with locked(images / f".{name}.lock"):
        if (final / "rootfs").is_dir():
            return final / "rootfs"
        for leftover in images.glob(f".{name}-building-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        report(f"building the image {final.name}")
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}-building-", dir=images))
        try:
            temporary.chmod(0o755)
            root = temporary / "rootfs"
            root.mkdir()
            packages = build(definition, root, report)
            (temporary / "packages.json").write_text(json.dumps(packages, indent=1, sort_keys=True) + "\n")
            os.rename(temporary, final)
        except OSError as error:
            raise ImageError(
                f"the image {name} could not be built: {error}",
                where=str(images),
                remedy="free some space there (the image takes about 300 MB), or set ECTYPE_CACHE to another folder",
            ) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _prune(images, name)
    report(f"image ready: {final}")
    return final / "rootfs"


def load_definition(name: str) -> Definition:
    path = DEFINITIONS / f"{name}.toml"
    try:
        text = path.read_text()
    except FileNotFoundError:
        known = ", ".join(sorted(other.stem for other in DEFINITIONS.glob("*.toml")))
        raise ImageError(f"there is no image {name!r}", where=str(DEFINITIONS), remedy=f"use one of: {known}") from None
    try:
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in tomllib.loads(text).items()
        }
        return Definition(**values)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ImageError(
            f"the definition of the image {name!r} is not valid: {error}",
            where=str(path),
            remedy="see containers/images/base.toml for the keys it may have",
        ) from error


def definition_hash(name: str) -> str:
    """12 hex digits that change with the definition and with the code that builds from it."""
    load_definition(name)
    digest = hashlib.sha256()
    for path in (DEFINITIONS / f"{name}.toml", Path(__file__).parent / "rootfs.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def fingerprint(image: Path) -> str:
    """12 hex digits for what is in a built image: its definition and the exact versions of its packages."""
    digest = hashlib.sha256(image.parent.name.encode())
    digest.update((image.parent / "packages.json").read_bytes())
    return digest.hexdigest()[:12]


def missing_packages(name: str = "base") -> list[str]:
    """Packages to install before the image can be built here; none when it is built already."""
    return [] if find_image(name) else Installed.read().missing(load_definition(name).packages)


def check_reachable(folder: Path) -> None:
    """As root the sandboxes run as an ordinary user, who must be able to walk down to the image."""
    if os.geteuid() != 0:
        return
    for parent in (folder, *folder.parents):
        if not os.stat(parent).st_mode & stat.S_IXOTH:
            raise ImageError(
                "sandboxes run as an ordinary user, who cannot read an image here",
                where=f"{parent} is closed to other users",
                remedy="set ECTYPE_CACHE to a folder everybody may read, or leave it unset",
            )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; waits for another process that has it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _prune(images: Path, name: str) -> None:
    built = sorted(images.glob(f"{name}-{'[0-9a-f]' * 12}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in built[KEEP:]:
        shutil.rmtree(old, ignore_errors=True)


def main(arguments: list[str]) -> int:
    action, name = arguments[0], arguments[1] if len(arguments) > 1 else "base"
    try:
        if action == "missing":
            print(" ".join(missing_packages(name)))
        else:
            print(ensure_image(name, progress=lambda message: print(message, file=sys.stderr)))
    except ImageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
