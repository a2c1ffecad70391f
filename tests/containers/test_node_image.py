"""The image on a node's own disk: copied once by whoever comes first, complete or not there, pruned when unused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers.apptainer import Apptainer
from containers.image import ImageError
from containers.isolation import Isolation
from containers.node_image import copy_to_node
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox


@pytest.fixture
def node() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ectype-node-", dir="/tmp"))  # where the containers' user can go
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def small_image(folder: Path, name: str = "base-0123456789ab") -> Path:
    root = folder / name / "rootfs"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_bytes(os.urandom(1 << 20))
    (root / "bin/tool").chmod(0o755)
    (root / "bin/link").symlink_to("../gone")
    (root.parent / "packages.json").write_text(f'{{"{name}": 1}}')
    return root


_WORKER = """
import sys, time
from pathlib import Path
from containers.node_image import copy_to_node
said = []
copy = copy_to_node(Path(sys.argv[1]), Path(sys.argv[2]), say=said.append)
print(copy.path, len(said), flush=True)
sys.stdin.read()
"""


def worker(image: Path, node: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(image), str(node)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip


@pytest.mark.apptainer
async def test_two_workers_at_once_copy_it_once_and_sandboxes_start_from_it(
    node: Path, base_image: Path, apptainer: Apptainer, isolation: Isolation
) -> None:
    workers = [worker(base_image, node) for _ in range(2)]
    said = []
    for process in workers:
        assert process.stdout is not None
        said.append(process.stdout.readline().split())
    for process in workers:
        process.communicate("")
        assert process.returncode == 0
    assert said[0][0] == said[1][0], "the same copy"
    assert sorted(count for _, count in said) == ["0", "1"], "and one of them has made it"
    sandbox = await Sandbox.start(apptainer, Path(said[0][0]), isolation)
    try:
        await sandbox.open(CellSpec(), Limits())
        assert (await sandbox.run(b"python3 -c 'print(6*7)'")).stdout == b"42\n"
    finally:
        await sandbox.kill()


def test_a_copy_is_exact_and_used_again(tmp_path: Path, node: Path) -> None:
    image, said = small_image(tmp_path), []
    copy = copy_to_node(image, node, say=said.append)
    assert (copy.path / "bin/tool").read_bytes() == (image / "bin/tool").read_bytes()
    assert os.readlink(copy.path / "bin/link") == "../gone"
    assert (copy.path / "bin/tool").stat().st_mode == (image / "bin/tool").stat().st_mode
    assert (copy.path / "bin/tool").stat().st_mtime == (image / "bin/tool").stat().st_mtime
    again = copy_to_node(image, node, say=said.append)
    assert again.path == copy.path and len(said) == 1
    copy.close()
    again.close()


def test_a_damaged_copy_is_made_again_unless_it_is_in_use(tmp_path: Path, node: Path) -> None:
    image, said = small_image(tmp_path), []
    copy = copy_to_node(image, node)
    (copy.path / "bin/tool").unlink()  # by a cleaner of /tmp
    with pytest.raises(ImageError, match="in use is damaged"):
        copy_to_node(image, node)
    copy.close()
    copy = copy_to_node(image, node, say=said.append)
    assert len(said) == 1 and (copy.path / "bin/tool").stat().st_size == 1 << 20
    copy.close()


def test_a_copy_that_was_cut_short_is_not_taken_for_one(tmp_path: Path, node: Path) -> None:
    image = small_image(tmp_path)
    copies = node / f"ectype-images-{os.geteuid()}"
    (copies / ".copying-1.tmp/rootfs/bin").mkdir(parents=True)
    copy = copy_to_node(image, node)
    assert (copy.path / "bin/tool").exists() and not (copies / ".copying-1.tmp").exists()
    copy.close()


def test_old_copies_go_when_nobody_uses_them(tmp_path: Path, node: Path) -> None:
    copies = [copy_to_node(small_image(tmp_path, f"base-{n:012x}"), node) for n in range(4)]
    assert all(copy.path.exists() for copy in copies), "all are in use"
    for n, copy in enumerate(copies):
        os.utime(copy.path.parent, (n, n))
    for copy in copies[:3]:
        copy.close()
    last = copy_to_node(small_image(tmp_path, f"base-{9:012x}"), node)
    assert [copy.path.exists() for copy in copies] == [False, False, True, True], "the newest unused one, and the used"
    last.close()
    copies[3].close()


def test_a_folder_of_somebody_else_and_a_lack_of_space_are_said(tmp_path: Path, node: Path) -> None:
    image = small_image(tmp_path)
    (node / f"ectype-images-{os.geteuid()}").symlink_to(tmp_path)
    with pytest.raises(ImageError, match="somebody else"):
        copy_to_node(image, node)
    (node / "file").write_text("")
    with pytest.raises(ImageError, match="could not be copied"):
        copy_to_node(image, node / "file")
