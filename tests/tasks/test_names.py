"""Every name of a program is found: links of both kinds, copies, multi-call binaries, and never outside the image."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from containers.files import inside
from tasks.names import names_of


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    root = tmp_path / "rootfs"
    for folder in ("usr/bin", "usr/lib/tools", "etc/alternatives", "opt"):
        (root / folder).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/wc").write_bytes(b"\x7fELF wc")
    (root / "usr/bin/other").write_bytes(b"\x7fELF xx")
    return root


def test_a_program_alone_has_one_name(rootfs: Path):
    assert names_of(rootfs, "/usr/bin/wc") == ("/usr/bin/wc",)
    assert names_of(rootfs, "/bin/wc") == ("/usr/bin/wc",)


def test_hard_links_copies_and_symbolic_links_are_names(rootfs: Path):
    os.link(rootfs / "usr/bin/wc", rootfs / "opt/hard")
    shutil.copy(rootfs / "usr/bin/wc", rootfs / "opt/copy")
    (rootfs / "opt/relative").symlink_to("../usr/bin/wc")
    (rootfs / "opt/through").symlink_to("/bin/wc")
    (rootfs / "etc/alternatives/count").symlink_to("/opt/hard")
    (rootfs / "usr/bin/count").symlink_to("/etc/alternatives/count")
    names = {"/usr/bin/wc", "/opt/hard", "/opt/copy", "/opt/relative", "/opt/through"}
    names |= {"/etc/alternatives/count", "/usr/bin/count"}
    for name in names:
        assert set(names_of(rootfs, name)) == names


def test_a_multi_call_binary_loses_all_of_its_names(rootfs: Path):
    (rootfs / "usr/lib/tools/box").write_bytes(b"\x7fELF every program at once")
    for applet in ("cut", "tr"):
        (rootfs / f"usr/bin/{applet}").symlink_to("../lib/tools/box")
    (rootfs / "usr/bin/sort").write_text("#!/usr/lib/tools/box --coreutils-prog-shebang=sort\n")
    every = ("/usr/bin/cut", "/usr/bin/sort", "/usr/bin/tr", "/usr/lib/tools/box")
    for applet in ("cut", "tr", "sort"):
        assert names_of(rootfs, f"/usr/bin/{applet}") == every


def test_an_ordinary_script_does_not_take_its_interpreter_away(rootfs: Path):
    (rootfs / "usr/bin/script").write_text("#!/usr/bin/other -x\n")
    assert names_of(rootfs, "/usr/bin/script") == ("/usr/bin/script",)
    assert names_of(rootfs, "/usr/bin/other") == ("/usr/bin/other",)


def test_links_stay_inside_the_image(rootfs: Path, tmp_path: Path):
    (tmp_path / "host").write_bytes((rootfs / "usr/bin/wc").read_bytes())
    (rootfs / "opt/out").symlink_to("../../../../../../host")
    (rootfs / "opt/absolute").symlink_to(str(tmp_path / "host"))
    (rootfs / "opt/loop").symlink_to("loop")
    assert inside(rootfs, "/opt/out") is None
    assert inside(rootfs, "/opt/loop") is None
    assert names_of(rootfs, "/usr/bin/wc") == ("/usr/bin/wc",)
    for name in ("/opt/out", "/opt/absolute", "/opt/loop", "/usr/bin/absent", "/usr/bin"):
        with pytest.raises(FileNotFoundError):
            names_of(rootfs, name)


def test_inside_resolves_dots_and_folders(rootfs: Path):
    assert inside(rootfs, "/bin/../bin/./wc") == "/usr/bin/wc"
    assert inside(rootfs, "/../../bin/wc") == "/usr/bin/wc"
