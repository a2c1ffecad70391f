"""Makes the directory image of a definition out of the Debian packages installed on this machine.

In goes a definition (`Definition`) and an empty folder, out comes a root filesystem in it and a list of what went in.
It copies files that packages own, nothing else: never a home folder, a project, a key or the host's settings. Nothing
in the result is set-uid, and everything is readable by everybody. Only the standard library is used, because the set-up
runs this before anything is installed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from audit.errors import EctypeError

MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Top-level folders that are links into /usr on every Debian since 12."""


class ImageError(EctypeError):
    """An image cannot be built or found."""


@dataclass(frozen=True)
class Definition:
    """What `containers/images/<name>.toml` says."""

    description: str
    packages: tuple[str, ...]
    without: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    etc: tuple[str, ...] = ()
    mount_points: tuple[str, ...] = ()


@dataclass(frozen=True)
class Installed:
    """The installed packages of this machine."""

    versions: dict[str, str] = field(default_factory=dict)
    depends: dict[str, list[list[str]]] = field(default_factory=dict)
    provides: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Installed:
        if shutil.which("dpkg-query") is None:
            raise ImageError(
                "this machine has no dpkg, so an image cannot be built from its packages",
                where="dpkg-query is not on the PATH",
                remedy="build the image on a Debian or Ubuntu machine (`ectype image build`) and copy its folder "
                "images/ to $ECTYPE_CACHE here; see docs/install.md",
            )
        fields = "${Package}\t${db:Status-Abbrev}\t${Version}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
        listing = subprocess.run(["dpkg-query", "-W", "-f", fields], check=True, capture_output=True, text=True).stdout
        result = cls()
        for line in listing.splitlines():
            name, status, version, provided, depends = line.split("\t")
            if not status.startswith("ii"):
                continue
            result.versions[name] = version
            result.depends[name] = [
                [_bare(alternative) for alternative in group.split("|")]
                for group in depends.split(",")
                if group.strip()
            ]
            for virtual in provided.split(","):
                if virtual.strip():
                    result.provides.setdefault(_bare(virtual), name)
        return result

    def real(self, name: str) -> str | None:
        """The installed package of that name, or the one that provides it."""
        return name if name in self.versions else self.provides.get(name)

    def missing(self, packages: Iterable[str]) -> list[str]:
        return [name for name in packages if self.real(name) is None]

    def closure(self, packages: Iterable[str], without: Iterable[str]) -> list[str]:
        """The packages and all they depend on, sorted. A dependency that is not installed is left out."""
        seen: set[str] = set()
        left_out = set(without)
        todo = [*packages]
        while todo:
            name = self.real(todo.pop())
            if name is None or name in seen or name in left_out:
                continue
            seen.add(name)
            for group in self.depends[name]:
                chosen = next((alternative for alternative in group if self.real(alternative)), None)
                if chosen is not None:
                    todo.append(chosen)
        return sorted(seen)


def build(definition: Definition, root: Path, progress: Callable[[str], None]) -> dict[str, str]:
    """Fill the empty folder `root`; returns the packages that went in with their versions."""
    installed = Installed.read()
    missing = installed.missing(definition.packages)
    if missing:
        raise ImageError(
            f"the image needs packages that are not installed here: {' '.join(missing)}",
            where="the Debian packages of this machine",
            remedy=f"as root: apt-get install --no-install-recommends {' '.join(missing)}   (or run scripts/setup.sh)",
        )
    packages = installed.closure(definition.packages, definition.without)
    progress(f"copying {len(packages)} packages")
    for name in MERGED:
        if os.path.islink(f"/{name}"):
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")
    paths = _owned_paths(packages, definition)
    copied = _copy(paths, root)
    _alternatives(copied, root)
    progress("finishing")
    _skeleton(root, definition)
    _compile_python(root)
    _library_cache(root)
    return {name: installed.versions[name] for name in packages}


def _bare(dependency: str) -> str:
    """`libc6:any (>= 2.36)` -> `libc6`"""
    return re.split(r"[ :(]", dependency.strip(), maxsplit=1)[0]


def _owned_paths(packages: list[str], definition: Definition) -> list[str]:
    """Absolute paths of the files and links of these packages, under their names in a merged /usr."""
    listing = subprocess.run(["dpkg-query", "-L", *packages], check=True, capture_output=True, text=True).stdout
    excluded = re.compile("|".join(fnmatch.translate(pattern) for pattern in definition.exclude) or r"(?!)")
    wanted_etc = re.compile("|".join(fnmatch.translate(pattern) for pattern in definition.etc) or r"(?!)")
    found: set[str] = set()
    for line in listing.splitlines():
        if not line.startswith("/"):
            continue
        top, _, rest = line[1:].partition("/")
        path = f"/usr/{top}/{rest}" if top in MERGED and rest and os.path.islink(f"/{top}") else line
        if excluded.match(path) or (path.startswith("/etc/") and not wanted_etc.match(path)):
            continue
        if os.path.islink(path) or os.path.isfile(path):
            found.add(path)
    return sorted(found)


def _copy(paths: list[str], root: Path) -> set[str]:
    """Copy files and links; hard links stay hard links, no set-uid bit survives, byte code comes along."""
    first_of: dict[tuple[int, int], Path] = {}
    copied: set[str] = set()
    for path in paths:
        status = os.lstat(path)
        target = root / path[1:]
        if os.path.lexists(target):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(status.st_mode):
            target.symlink_to(os.readlink(path))
        elif status.st_nlink > 1 and (status.st_dev, status.st_ino) in first_of:
            os.link(first_of[status.st_dev, status.st_ino], target)
        else:
            try:
                shutil.copyfile(path, target)
            except PermissionError:  # a file that only root may read is none that a sandbox needs
                continue
            shutil.copystat(path, target)
            target.chmod(0o755 if status.st_mode & 0o100 else 0o644)
            first_of[status.st_dev, status.st_ino] = target
            if path.endswith(".py"):
                _copy_byte_code(path, target)
        copied.add(path)
    return copied


def _copy_byte_code(source: str, target: Path) -> None:
    folder, name = os.path.split(source)
    for byte_code in Path(folder, "__pycache__").glob(f"{name[:-3]}.cpython-*.pyc"):
        if byte_code.name.count(".") == 2:  # not the optimised ones
            (target.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(byte_code, target.parent / "__pycache__" / byte_code.name)


def _alternatives(copied: set[str], root: Path) -> None:
    """Bring the links Debian keeps in /etc/alternatives (awk, cc, c++, ...) for the programs that are in the image."""
    for record in sorted(Path("/var/lib/dpkg/alternatives").glob("*")):
        link = record.read_text().splitlines()[1]
        chosen = Path("/etc/alternatives") / record.name
        if not link.startswith("/usr/bin/") or os.path.realpath(chosen) not in copied:
            continue
        target = root / link[1:]
        if not os.path.lexists(target):
            target.symlink_to(os.path.realpath(chosen))


def _skeleton(root: Path, definition: Definition) -> None:
    """The folders and the few files of /etc that a container runtime and the C library expect."""
    folders = ("dev", "proc", "sys", "home", "root", "mnt", "opt", "srv", "etc", "tmp", "var/tmp")
    for folder in (*folders, *(point[1:] for point in definition.mount_points)):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shell = root / "usr/bin/sh"
    if not os.path.lexists(shell):
        shell.symlink_to("dash")
    accounts = {
        "passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/work:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost\n",
        "resolv.conf": "",
        "localtime": "",
    }
    for name, text in accounts.items():
        path = root / "etc" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)
    for folder in ("tmp", "var/tmp"):
        os.chmod(root / folder, 0o1777)


def _compile_python(root: Path) -> None:
    """Byte code for what the host had none of: the image is read-only, so Python would compile at every start."""
    for library in (root / "usr/lib").glob("python3.*"):
        interpreter = f"/usr/bin/{library.name}"
        if os.path.exists(interpreter):
            command = [interpreter, "-I", "-m", "compileall", "-q", "-s", str(root), "-p", "/", str(library)]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _library_cache(root: Path) -> None:
    """/etc/ld.so.cache makes the start of a program a little faster. Without it the default folders are searched."""
    command = ["/sbin/ldconfig", "-r", str(root)]
    if os.geteuid() != 0:
        command = ["unshare", "--map-root-user", *command]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(root / "var/cache", ignore_errors=True)
