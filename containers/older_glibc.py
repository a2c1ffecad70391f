"""Makes programs built against a newer C library run on this machine's older one, where that is safe.

In go the paths of x86-64 ELF programs, which are changed in place. The only newer symbols accepted are the C23 integer
parsers (`__isoc23_strtol` and its three sisters). They differ from `strtol` only in that they also read "0b" literals,
so each such reference is pointed at the plain function (the same string, nine bytes on) under the symbol version the
program already needs for other functions, and the need for the newer version is renamed to that one. The layout of the
file does not change. It must never leave a program that half works: with any other newer symbol it changes nothing and
exits 1. Standard library only; `containers/install.sh` calls it.
"""

from __future__ import annotations

import platform
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

PREFIX = b"__isoc23_"
REPLACEABLE = {b"strtol", b"strtoul", b"strtoll", b"strtoull"}
OLDEST = b"GLIBC_2.2.5"
DYNSYM, VERNEED, VERSYM = 11, 0x6FFFFFFE, 0x6FFFFFFF
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


class CannotPatch(Exception):
    """The program needs something of a newer C library that has no equal in the older one."""


@dataclass(frozen=True)
class Section:
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True)
class VersionNeed:
    """One entry of the table of symbol versions that a program needs of libc."""

    offset: int
    hash: int
    index: int
    name_offset: int


def patched(data: bytes, newest: tuple[int, ...]) -> bytes:
    """The program `data` without needs beyond glibc `newest`, e.g. (2, 36). Raises CannotPatch."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise CannotPatch("not a 64-bit little-endian ELF file")
    out = bytearray(data)
    sections, string_table = _sections(data)
    needs = _version_needs(data, sections[VERNEED], string_table)
    newer = [name for name in needs if name.startswith(b"GLIBC_2.") and _version(name) > newest]
    if not newer:
        return data
    if OLDEST not in needs:
        raise CannotPatch(f"does not use {OLDEST.decode()}")
    base = needs[OLDEST]
    newer_indices = {needs[name].index for name in newer}
    dynsym = sections[DYNSYM]
    for position in range(dynsym.size // SYMBOL.size):
        symbol_offset = dynsym.offset + SYMBOL.size * position
        name_offset, _, _, section_index, _, _ = SYMBOL.unpack_from(data, symbol_offset)
        version_offset = sections[VERSYM].offset + 2 * position
        if struct.unpack_from("<H", data, version_offset)[0] & 0x7FFF not in newer_indices:
            continue
        name = _string(data, string_table + name_offset)
        if section_index != 0 or not name.startswith(PREFIX) or name[len(PREFIX) :] not in REPLACEABLE:
            raise CannotPatch(f"needs {name.decode()} of a newer C library")
        struct.pack_into("<I", out, symbol_offset, name_offset + len(PREFIX))
        struct.pack_into("<H", out, version_offset, base.index)
    for name in newer:
        struct.pack_into("<I", out, needs[name].offset, base.hash)
        struct.pack_into("<I", out, needs[name].offset + 8, base.name_offset)
    return bytes(out)


def _sections(data: bytes) -> tuple[dict[int, Section], int]:
    """The three sections about dynamic symbols by their type, and the offset of their strings."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    found: dict[int, Section] = {}
    for position in range(count):
        _, kind, _, _, offset, size, link, info, _, _ = SECTION.unpack_from(data, table + position * entry_size)
        found.setdefault(kind, Section(offset, size, link, info))
    if not {DYNSYM, VERNEED, VERSYM} <= found.keys():
        raise CannotPatch("has no versioned dynamic symbols")
    strings = SECTION.unpack_from(data, table + found[DYNSYM].link * entry_size)[4]
    return found, strings


def _version_needs(data: bytes, section: Section, string_table: int) -> dict[bytes, VersionNeed]:
    needs: dict[bytes, VersionNeed] = {}
    library = section.offset
    for _ in range(section.info):
        _, count, file_name, first, next_library = struct.unpack_from("<HHIII", data, library)
        entry = library + first
        for _ in range(count):
            name_hash, _, index, name_offset, next_entry = struct.unpack_from("<IHHII", data, entry)
            if _string(data, string_table + file_name) == b"libc.so.6":
                needs[_string(data, string_table + name_offset)] = VersionNeed(entry, name_hash, index, name_offset)
            entry += next_entry
        library += next_library
    return needs


def _string(data: bytes, offset: int) -> bytes:
    return data[offset : data.index(0, offset)]


def _version(name: bytes) -> tuple[int, ...]:
    return tuple(int(part) for part in name.removeprefix(b"GLIBC_").split(b"."))


def main(paths: list[str]) -> int:
    newest = tuple(int(part) for part in platform.libc_ver()[1].split(".")[:2])
    results: dict[Path, bytes] = {}
    for path in map(Path, paths):
        try:
            results[path] = patched(path.read_bytes(), newest)
        except CannotPatch as reason:
            print(f"{path}: {reason}", file=sys.stderr)
            return 1
    for path, data in results.items():
        mode = path.stat().st_mode
        path.write_bytes(data)
        path.chmod(mode)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
