"""Conformance: the workspace as the host and as commands see it, and what a fresh cell or folder holds."""

from __future__ import annotations

import hashlib
import os
import random

from sandbox.conformance_frame import MIB, NotConformant, Subject, check, ended, same
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, File, WorkspaceError


@check
async def files_of_any_content(subject: Subject) -> None:
    sandbox = subject.sandbox
    for data in (b"", b"\0", b"text\n", bytes(range(256)) * 16, random.Random(1).randbytes(3 * MIB)):
        ended(await sandbox.write("file", data))
        same(await sandbox.read("file", len(data)), data, f"a file of {len(data)} bytes, read")
        digest = hashlib.sha256(data).hexdigest().encode()
        ended(await sandbox.run(argv=["sha256sum", "file"]), stdout=digest + b"  file\n")


@check
async def empty_files_and_modes(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.write("empty", b""))
    ended(await sandbox.write("program", b"#!/bin/sh\necho ran\n", 0o755))
    ended(await sandbox.run(argv=["./program"]), stdout=b"ran\n")
    packed = {f.path: (f.data, f.mode) for f in await sandbox.pack(max_bytes=MIB, max_files=9)}
    same(packed, {"empty": (b"", 0o644), "program": (b"#!/bin/sh\necho ran\n", 0o755)}, "packed files")
    ended(await sandbox.write("program", b"", 0o644))
    same(await sandbox.read("program", 0), b"", "a file that was written again")


ODD_NAMES = (
    "with space", " leading", "trailing ", "new\nline", "tab\t", "ünï-你好-👋", "quote'\"`$(id)", "*?[]", "back\\slash",
    "-rf", "--help", "~", "#", ".hidden", "...", "\x01\x7f", "\udcff\udcfe", "x" * 255,
)  # fmt: skip


@check
async def odd_file_names(subject: Subject) -> None:
    sandbox = subject.sandbox
    for number, name in enumerate(ODD_NAMES):
        ended(await sandbox.write(f"d/{name}", b"%d" % number))
        same(await sandbox.read(f"d/{name}", 9), b"%d" % number, f"the file {name!r}")
    listing = await sandbox.run(b"cd d; find . -type f -printf '%P\\0'")
    names = {os.fsdecode(name) for name in listing.stdout.split(b"\0") if name}
    same(names, set(ODD_NAMES), "names as a command sees them")
    packed = {f.path: f.data for f in await sandbox.pack(max_bytes=MIB, max_files=99)}
    same(packed, {f"d/{name}": b"%d" % number for number, name in enumerate(ODD_NAMES)}, "packed files")


@check
async def deep_folders(subject: Subject) -> None:
    sandbox = subject.sandbox
    path = "/".join(f"d{n}" for n in range(50)) + "/file"
    ended(await sandbox.write(path, b"deep"))
    same(await sandbox.read(path, 9), b"deep", "a file 50 folders deep")
    ended(await sandbox.run(argv=["cat", path]), stdout=b"deep")
    same([f.path for f in await sandbox.pack(max_bytes=99, max_files=9)], [path], "packed files")
    # deeper than a path may be long: the workspace cannot be packed, and the sandbox goes on
    script = b"rm -r d0; d=$(printf '%060d' 0); for i in $(seq 80); do mkdir $d && cd $d || exit; done"
    ended(await sandbox.run(script))
    try:
        await sandbox.pack(max_bytes=99, max_files=9)
    except WorkspaceError:
        pass
    else:
        raise NotConformant("folders of any depth were packed")
    ended(await sandbox.run(b"rm -r 0*; ls -A"), stdout=b"")


@check
async def paths_that_leave_the_workspace(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"ln -s /etc out; ln -s /tmp/x dangling"))
    for path in ("", ".", "..", "../x", "/etc/passwd", "a/../../x", "out/x", "x/", "a//b", "a\0b"):
        ended(await sandbox.write(path, b"x"), status="nonzero")
        try:
            await sandbox.read(path, 99)
        except WorkspaceError:
            continue
        raise NotConformant(f"{path!r} was read")
    ended(await sandbox.run(b"ls -A /tmp"), stdout=b"")


@check
async def only_regular_files_are_read(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"mkfifo f; ln -s /etc/passwd l; mkdir d; ln -s . d/loop; echo 1 > r; ln r h; : > e"))
    for name in ("f", "l", "d", "d/loop", "missing"):
        try:
            await sandbox.read(name, MIB)
        except WorkspaceError:
            continue
        raise NotConformant(f"{name} was read")
    packed = sorted(f.path for f in await sandbox.pack(max_bytes=99, max_files=9))
    same(packed, ["e", "h", "r"], "packed files")


@check
async def bounds_of_reading(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(b"for i in 1 2 3; do printf 12345 > $i; done; truncate -s 100M sparse; rm sparse"))
    same(len(await sandbox.pack(max_bytes=15, max_files=3)), 3, "files that just fit")
    for size, count in ((14, 3), (15, 2), (0, 3)):
        try:
            await sandbox.pack(max_bytes=size, max_files=count)
        except WorkspaceError:
            continue
        raise NotConformant(f"more than {size} bytes or {count} files were packed")
    try:
        await sandbox.read("1", 4)
    except WorkspaceError:
        return
    raise NotConformant("more bytes than asked for were read")


@check
async def a_fresh_cell_is_empty(subject: Subject) -> None:
    places = b"/work /tmp /var/tmp /dev/shm"
    ended(await subject.sandbox.run(b"for d in " + places + b"; do echo x > $d/left; done; ipcmk -M 99 >/dev/null"))
    await subject.sandbox.open(CellSpec(files=(File("/work/given", b"g", 0o600),)), Limits())
    script = b"find " + places + b" -type f; stat -c %a given; ipcs -m | grep -c 0x"
    ended(await subject.sandbox.run(script), status="nonzero", exit_status=1, stdout=b"/work/given\n600\n0\n")


@check
async def cases_are_clean(subject: Subject) -> None:
    sandbox = subject.sandbox
    await sandbox.write("p", b"#!/bin/sh\ncat; cat given; ls -A . /tmp /dev/shm; touch x /tmp/x /dev/shm/x", 0o755)
    await sandbox.seal()
    given = (File("given", b"file\n"),)
    for _ in range(2):
        result = await sandbox.run_case(["/work/p"], stdin=b"in\n", files=given)
        ended(result, stdout=b"in\nfile\n.:\ngiven\n\n/dev/shm:\n\n/tmp:\n")
    ended(await sandbox.run_case(["touch", "/work/new"], stdin=b"", files=()), status="nonzero", exit_status=1)
