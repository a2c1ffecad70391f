"""What a script would find and leave in a sandbox without decoys, held in memory: files, folders, what is unknown.

The workspace holds what the action itself, and earlier `write`s of the episode, put there. After an earlier script that
ran, files that it names may or may not be there: asking for one of them raises `Unsure`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from detect import image_programs

if TYPE_CHECKING:
    from detect.script_c_run import Program

FOLDERS = frozenset([
    "/", "/bin", "/case", "/dev", "/dev/shm", "/etc", "/eval", "/home", "/lib", "/logs", "/opt", "/proc",
    "/reference", "/run", "/run/bin", "/sbin", "/submission", "/sys", "/test", "/test/hidden", "/tests", "/tmp",
    "/usr", "/usr/bin", "/usr/include", "/usr/lib", "/usr/sbin", "/var", "/var/tmp", "/work", "/lib64", "/mnt", "/root",
    "/srv",
])  # fmt: skip
WRITABLE = ("/work", "/tmp", "/var/tmp", "/dev/shm")
SYSTEM = ("/bin", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/case")
"""Below these only the real sandbox knows what there is."""
ABSENT = ("/eval/", "/test/", "/run/bin/", "/proc/1/", "/usr/local")
"""Below these there is nothing but what is listed here."""
ROOT = (
    "bin", "case", "dev", "etc", "eval", "home", "lib", "lib64", "logs", "mnt", "opt", "proc", "reference", "root",
    "run", "sbin", "srv", "submission", "sys", "test", "tests", "tmp", "usr", "var", "work",
)  # fmt: skip
_MAGIC = re.compile(r"[*?\[]")
MAX_FILE = 256 * 1024


NO_ROOM = "No space left on device"


def _disk(path: str) -> str:
    """The workspace, or scratch."""
    return "/work" if path.startswith("/work") else "/tmp"


class Unsure(Exception):
    """What happens next cannot be told from the action."""


class File:
    def __init__(self, text: str = "", *, program: str = "") -> None:
        self.text = text
        self.program = program
        """What the compiled program was compiled from: it prints this, if it is not empty."""
        self.runs: Program | None = None
        self.executable = False
        self.fixed = False
        """Whether it may not be written to."""

    def write(self, text: str) -> None:
        self.text += text
        if len(self.text) > MAX_FILE:
            raise Unsure


class Files(dict[str, File]):
    def __missing__(self, path: str) -> File:
        """A file of the image: there, but what is in it is not known."""
        raise Unsure


class World:
    def __init__(
        self,
        written: dict[str, str],
        doubtful: Iterable[str] = (),
        programs: frozenset[str] = image_programs.BASE,
    ) -> None:
        """`written`: files of earlier steps. `doubtful`: earlier scripts, whose names may stand for files.
        `programs`: what the image has."""
        self.programs = programs
        self.files = Files()
        self.folders: set[str] = set(FOLDERS)
        self.gone: set[str] = set()
        self.links: dict[str, str] = {}
        """Symbolic links to what is not there."""
        self.born: dict[str, int] = {}
        """In which order files and folders came to be."""
        self.doubtful = tuple(doubtful)
        self.full: frozenset[str] = frozenset()
        """Base names of files that find no room: those that must not be written."""
        self.room: dict[str, int] = {}
        """Files for which there is room, of a file system that got full: once one found none, none does."""
        self.made: set[str] = set()
        """File systems in which something was created before they got full."""
        self.files["/run/bin/reference"] = File()
        self.files["/run/bin/reference"].executable = True
        for path, text in written.items():
            self._parents(path)
            self.files[path] = File(text)

    def _parents(self, path: str) -> None:
        parent = posixpath.dirname(path)
        while parent not in self.folders:
            self.folders.add(parent)
            parent = posixpath.dirname(parent)

    def is_file(self, path: str) -> bool:
        """Raises Unsure where only the sandbox knows."""
        if path in self.files:
            return True
        folder, _, name = path.rpartition("/")
        if folder in ("/bin", "/usr/bin", "/sbin", "/usr/sbin") and name in self.programs:
            return True
        self._known(path)
        return False

    def is_folder(self, path: str) -> bool:
        if path in self.folders:
            return True
        if path not in self.files:
            self._known(path)
        return False

    def _known(self, path: str) -> None:
        if path in self.gone or path in self.folders or path.startswith(ABSENT):
            return
        if path.startswith(tuple(folder + "/" for folder in SYSTEM)) and not path.startswith(
            ("/var/tmp/", "/dev/shm/")
        ):
            raise Unsure
        name = posixpath.basename(path)
        if any(name in script for script in self.doubtful):
            raise Unsure

    def writable(self, path: str) -> str:
        """Why a file at `path` cannot be created; empty if it can."""
        if path in self.folders:
            return "Is a directory"
        if not path.startswith(tuple(folder + "/" for folder in WRITABLE)):
            parent = posixpath.dirname(path)
            if parent not in self.folders:
                self._known(parent)
                return "No such file or directory"
            return "Read-only file system"
        if path in self.files and self.files[path].fixed:
            return "Permission denied"
        parent = posixpath.dirname(path)
        if not self.is_folder(parent):
            return "Not a directory" if parent in self.files else "No such file or directory"
        disk = _disk(path)
        if posixpath.basename(path) in self.full:
            self.room.setdefault(disk, 0)
            return NO_ROOM
        return NO_ROOM if path not in self.files and self.room.get(disk) == 0 else ""

    @property
    def filled(self) -> bool:
        """Whether it was the action that used up the last of a file system: one that was full before is no news."""
        return any(disk in self.made for disk in self.room)

    def create(self, path: str, *, append: bool = False) -> File:
        if path not in self.files:
            self._takes(path, 1)
            self.born[path] = len(self.born)
        if not append or path not in self.files:
            made = File()
            if path in self.files:
                made.executable = self.files[path].executable
            self.files[path] = made
        return self.files[path]

    def create_folder(self, path: str) -> None:
        self._takes(path, 1)
        self.born[path] = len(self.born)
        self.folders.add(path)

    def link(self, path: str, target: str) -> None:
        """A symbolic link: to a file that is there it is that file; to nothing it is only a name."""
        self._takes(path, 1)
        self.born[path] = len(self.born)
        if target in self.files:
            self.files[path] = self.files[target]
        elif self.is_folder(target):
            raise Unsure
        else:
            self.links[path] = target

    def newest_first(self, folder: str) -> list[str]:
        """Names in a folder as the file system of the workspace lists them."""
        names = self.names(folder)
        return sorted(names, key=lambda name: -self.born.get(posixpath.join(folder, name), -1))

    def _takes(self, path: str, number: int) -> None:
        disk = _disk(path)
        if disk in self.room:
            self.room[disk] = max(self.room[disk] - number, 0)
        else:
            self.made.add(disk)

    def saved(self) -> tuple:
        """What there is, to come back to."""
        files = {path: (file.text, file.executable, file.runs) for path, file in self.files.items()}
        return files, set(self.folders), set(self.gone), dict(self.room), set(self.made)

    def restore(self, saved: tuple) -> None:
        files, self.folders, self.gone, self.room, self.made = saved
        for path in [path for path in self.files if path not in files]:
            del self.files[path]
        for path, (text, executable, runs) in files.items():
            file = self.files.setdefault(path, File())
            file.text, file.executable, file.runs = text, executable, runs

    def left(self) -> set[str]:
        """Every file and folder that is there beyond what the image has."""
        return {p for p in self.files if not p.startswith("/dev/fd/")} | (self.folders - FOLDERS)

    def remove(self, path: str) -> None:
        if path in self.files or path in self.folders:
            self._takes(path, -1)
        self.files.pop(path, None)
        self.links.pop(path, None)
        self.folders.discard(path)
        self.gone.add(path)

    def names(self, folder: str) -> list[str]:
        """Names in a folder, hidden ones too. Raises Unsure where only the sandbox knows."""
        if folder == "/":
            return list(ROOT)
        if (folder == "/work" and self.doubtful) or folder.startswith(SYSTEM):
            raise Unsure
        prefix = folder.rstrip("/") + "/"
        below = [
            p[len(prefix) :] for p in (*self.files, *self.folders, *self.links) if p.startswith(prefix) and p != prefix
        ]
        return sorted({name.split("/")[0] for name in below if name})

    def glob(self, pattern: str, cwd: str) -> list[str]:
        """Paths that a glob matches, as bash would spell them."""
        found = ["/"] if pattern.startswith("/") else [""]
        for part in [p for p in pattern.split("/") if p]:
            following = []
            for head in found:
                folder = posixpath.normpath(posixpath.join(cwd, head or "."))
                if not _MAGIC.search(part):
                    name = part
                    path = posixpath.join(folder, name)
                    if path in self.folders or self.is_file(path) or self.is_folder(path):
                        following.append(head + name + "/")
                elif self.is_folder(folder):
                    following += [
                        head + name + "/"
                        for name in self.names(folder)
                        if fnmatch.fnmatchcase(name, part) and (name[0] != "." or part[0] == ".")
                    ]
            found = following
        return [path.rstrip("/") for path in found]
