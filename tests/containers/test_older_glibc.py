"""Programs of a newer C library on this one: with a real compiler, linker and loader."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from containers.older_glibc import CannotPatch, patched

HOST = tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2])
NEWER = "GLIBC_2.99"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 programs are changed")


def program(folder: Path, symbol: str) -> Path:
    """A program that needs `symbol` at a version this machine's C library has not."""
    (folder / "stub.c").write_text(
        f"void strtol(void) {{}} void {symbol}(void) {{}} void __libc_start_main(void) {{}}\n"
    )
    (folder / "stub.map").write_text(
        f"GLIBC_2.2.5 {{ global: strtol; local: *; }};\nGLIBC_2.34 {{ global: __libc_start_main; }} GLIBC_2.2.5;\n"
        f"{NEWER} {{ global: {symbol}; }} GLIBC_2.34;\n"
    )
    (folder / "main.c").write_text(
        f"extern long {symbol}(const char *, char **, int); extern long strtol(const char *, char **, int);\n"
        f'int main(void) {{ return (int)({symbol}("40", 0, 10) + strtol("2", 0, 10)); }}\n'
    )
    stub = folder / "libc.so.6"
    script = f"-Wl,--version-script={folder / 'stub.map'}"
    flags = ["-w", "-fno-builtin", "-nostdlib"]
    run(["gcc", *flags, "-shared", "-fPIC", "-Wl,-soname,libc.so.6", script, "-o", str(stub), str(folder / "stub.c")])
    output = folder / "program"
    run(["gcc", "-w", "-fno-builtin", "-nodefaultlibs", "-o", str(output), str(folder / "main.c"), str(stub)])
    return output


def run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_program_that_needs_only_the_newer_integer_parsers_runs(tmp_path: Path) -> None:
    path = program(tmp_path, "__isoc23_strtol")
    before = subprocess.run([path], capture_output=True, text=True)
    assert before.returncode != 42 and NEWER in before.stderr
    path.write_bytes(patched(path.read_bytes(), HOST))
    assert subprocess.run([path], capture_output=True).returncode == 42


def test_a_program_that_needs_more_is_refused(tmp_path: Path) -> None:
    path = program(tmp_path, "something_new")
    with pytest.raises(CannotPatch, match="something_new"):
        patched(path.read_bytes(), HOST)


def test_a_program_of_this_machine_stays_as_it_is() -> None:
    data = Path("/bin/bash").read_bytes()
    assert patched(data, HOST) == data


def test_another_file_is_refused() -> None:
    with pytest.raises(CannotPatch, match="not a 64-bit"):
        patched(b"#!/bin/sh\n", HOST)
