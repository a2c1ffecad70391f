"""The base image: what is in it, what must not be, and that making it is safe."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers import image as image_module
from containers.image import ImageError, definition_hash, ensure_image, fingerprint, load_definition
from tasks.micro import MICRO

ROOT = Path(__file__).parents[2]

# Apptainer and the guest need these; they are written by the build and belong to no package.
WRITTEN = {"etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf", "etc/localtime", "etc/ld.so.cache"}


@pytest.fixture(scope="module")
def image() -> Path:
    return ensure_image("base")


def files_of(root: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        yield from (Path(folder, name) for name in names)


def test_every_file_comes_from_a_package(image: Path) -> None:
    packages = json.loads((image.parent / "packages.json").read_text())
    listing = subprocess.run(["dpkg-query", "-L", *packages], check=True, capture_output=True, text=True).stdout
    owned = {re.sub(r"^/(bin|sbin|lib\w*)/", r"/usr/\1/", line)[1:] for line in listing.splitlines()}
    foreign = []
    for path in files_of(image):
        name = str(path.relative_to(image))
        if name in owned or name in WRITTEN:
            continue
        if path.suffix == ".pyc" and f"{path.parent.parent.relative_to(image)}/{path.name.split('.')[0]}.py" in owned:
            continue
        if path.is_symlink() and os.path.realpath(path).startswith("/usr/bin/"):  # awk, cc, sh: Debian's alternatives
            continue
        foreign.append(name)
    assert foreign == []


def test_it_holds_no_task_no_test_no_answer_and_nothing_of_the_project(image: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    project = {
        hashlib.sha256(path.read_bytes()).digest(): name
        for name in tracked.split("\0")
        if name and (path := ROOT / name).is_file() and path.stat().st_size and path.name != "LICENSE"
    }
    words = [b"hidden.msgpack", b"task.toml", str(ROOT).encode() + b"/", *(task.source.encode() for task in MICRO)]
    found = []
    for path in files_of(image):
        if path.is_symlink():
            continue
        data = path.read_bytes()
        if hashlib.sha256(data).digest() in project:
            found.append(f"{path}: is {project[hashlib.sha256(data).digest()]}")
        found += [f"{path}: {word!r}" for word in words if word in data]
        if b"ectype" in data and re.search(rb"\bectype\b", data):  # "vectype" is a word of GCC
            found.append(f"{path}: names ectype")
    assert found == []


def test_it_holds_nothing_of_this_machine(image: Path) -> None:
    for folder in (
        "work",
        "eval",
        "test/hidden",
        "case",
        "reference",
        "run",
        "home",
        "root",
        "mnt",
        "opt",
        "srv",
        "tmp",
    ):
        assert list((image / folder).iterdir()) == [], folder
    assert list((image / "dev").iterdir()) == []
    accounts = (image / "etc/passwd").read_text()
    assert {line.split(":")[0] for line in accounts.splitlines()} == {"root", "agent", "nobody"}
    assert not (image / "usr/bin/apptainer").exists()
    for path in files_of(image / "etc"):
        assert path.name != "shadow" and "ssl" not in path.parts and path.suffix not in (".key", ".pem")


def test_everybody_can_read_it_and_nothing_is_set_uid(image: Path) -> None:
    for path in (image, *image.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode), path
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        assert mode & stat.S_IROTH and (mode & stat.S_IXOTH or stat.S_ISREG(mode)), path
        assert not mode & stat.S_IWOTH or path.name == "tmp", path


def test_every_link_leads_somewhere_inside(image: Path) -> None:
    broken = []
    for path in files_of(image):
        if path.is_symlink():
            target = os.readlink(path)
            inside = image / target[1:] if target.startswith("/") else path.parent / target
            if not os.path.lexists(inside):
                broken.append(f"{path.relative_to(image)} -> {target}")
    assert broken == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="ectype-cache-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_many_processes_at_once_build_it_once(open_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from containers.image import ensure_image\n"
        "print(ensure_image('base', cache=Path(sys.argv[1]), progress=lambda m: print(m, file=sys.stderr)))"
    )
    command = [sys.executable, "-c", code, str(open_folder)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)
    ]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert len({output for output, _ in results}) == 1
    assert sum("building the image" in errors for _, errors in results) == 1
    assert sorted(os.listdir(open_folder / "images")) == [".base.lock", f"base-{definition_hash('base')}"]


@pytest.fixture
def definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of definitions with a small one in it."""
    (tmp_path / "small.toml").write_text('description = "a shell"\npackages = ["dash"]\nmount_points = ["/work"]\n')
    monkeypatch.setattr(image_module, "DEFINITIONS", tmp_path)
    return tmp_path


def test_a_changed_definition_makes_a_new_image_and_old_ones_go(definitions: Path, open_folder: Path) -> None:
    built = []
    for number in range(image_module.KEEP + 2):
        text = (definitions / "small.toml").read_text()
        (definitions / "small.toml").write_text(f"{text}# {number}\n")
        built.append(ensure_image("small", cache=open_folder))
        os.utime(built[-1].parent, (number, number))
    assert len(set(built)) == len(built)
    assert [path.exists() for path in built] == [False, False, True, True, True]
    assert ensure_image("small", cache=open_folder) == built[-1]
    assert len({fingerprint(path) for path in built[-3:]}) == 3


def test_a_package_that_is_not_installed_is_named(definitions: Path, open_folder: Path) -> None:
    (definitions / "small.toml").write_text('description = "x"\npackages = ["dash", "no-such-package"]\n')
    with pytest.raises(ImageError) as error:
        ensure_image("small", cache=open_folder)
    assert error.value.what.endswith("no-such-package")
    assert "apt-get install --no-install-recommends no-such-package" in error.value.remedy
    assert [path.name for path in (open_folder / "images").iterdir()] == [".small.lock"]


def test_an_unknown_image_and_a_misspelt_key_are_named(definitions: Path, open_folder: Path) -> None:
    with pytest.raises(ImageError) as error:
        ensure_image("smal", cache=open_folder)
    assert "'smal'" in error.value.what and str(definitions) in error.value.where and "small" in error.value.remedy
    (definitions / "small.toml").write_text('description = "x"\npackages = ["dash"]\nmount_point = ["/work"]\n')
    with pytest.raises(ImageError) as error:
        load_definition("small")
    assert "mount_point" in error.value.what and "small.toml" in error.value.where


def test_a_full_disk_is_named_and_leaves_nothing(open_folder: Path) -> None:
    """In a mount namespace of its own, on a file system with room for a tenth of the image."""
    code = (
        "import sys, os; from pathlib import Path\n"
        "from containers.image import ensure_image, ImageError\n"
        "try: ensure_image('base', cache=Path(sys.argv[1]))\n"
        "except ImageError as error: print(error); print(*sorted(os.listdir(sys.argv[1] + '/images')))\n"
    )
    script = 'mount -t tmpfs -o size=30m,mode=755 none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh"]
    if os.geteuid() != 0:
        command.insert(1, "--map-root-user")
    result = subprocess.run(
        [*command, str(open_folder), sys.executable, code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "No space left on device" in result.stdout
    assert "where:" in result.stdout and "ECTYPE_CACHE" in result.stdout
    assert result.stdout.splitlines()[-1] == ".base.lock"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandboxes run as that user")
def test_root_is_told_when_other_users_cannot_reach_the_cache() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ectype-closed-", dir="/var/tmp"))
    try:
        with pytest.raises(ImageError) as error:
            ensure_image("base", cache=folder)
        assert str(folder) in error.value.where and "ECTYPE_CACHE" in error.value.remedy
    finally:
        shutil.rmtree(folder)


@pytest.mark.apptainer
def test_its_programs_work_for_an_ordinary_user(image: Path, open_folder: Path) -> None:
    script = r"""
set -e
cd /tmp
printf '#include <stdio.h>\nint main(void) { puts("c"); }\n' > a.c && gcc -O1 -Wall -o a a.c && ./a
printf '#include <iostream>\nint main() { std::cout << "c++" << std::endl; }\n' > b.cc && g++ -O1 -o b b.cc && ./b
printf 'all:\n\t@echo make\n' > Makefile && make -s
python3 -I -S -c 'import ctypes, hashlib, json, socket, struct; print("python", hashlib.sha1(b"").hexdigest()[:4])'
echo '2^70' | bc
printf 'abc\n' | rev
printf 'a b\ncc d\n' | column -t
awk 'BEGIN { print 1 + 1 }'
printf x | hexdump -C | head -n 1
printf 'x\n' | tar -cf - a.c | gzip -d 2>/dev/null || echo not gzip
printf '\303\251' | LC_ALL=C.UTF-8 wc -m
sh -c 'echo sh'; diff a.c a.c && cmp a.c a.c; find . -name a.c
printf 'b\na\n' | sort | sed s/a/A/ | grep -c A; kill -l 9
ps -o comm= -p $$
command -v perl curl wget ssh git apt dpkg sudo || echo none of these
"""
    command = ["apptainer", "exec", "--containall", "--no-home", "--no-privs", str(image), "bash", "-c", script]
    home = open_folder / "home"
    home.mkdir()
    if os.geteuid() == 0:
        shutil.chown(home, "ectype")
        command = ["setpriv", "--reuid=ectype", "--regid=ectype", "--clear-groups", *command]
    environment = {**os.environ, "HOME": str(home), "APPTAINER_CONFIGDIR": str(home), "APPTAINER_TMPDIR": str(home)}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd="/tmp", env=environment, stdin=subprocess.DEVNULL
    )
    assert result.returncode in (0, 1), result.stderr
    assert result.stdout.splitlines() == [
        *("c", "c++", "make", "python da39", "1180591620717411303424", "cba", "a   b", "cc  d", "2"),
        "00000000  78                                                |x|",
        *("not gzip", "1", "sh", "./a.c", "1", "KILL", "bash", "none of these"),
    ]
