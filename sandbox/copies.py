"""Copies of the reference in a submission: found by what they are, under whatever name, and kept out of the grade.

Comes in: the files of a submission, before and after it was built. Goes out: which of them hold the reference. A file
counts that equals a program of the task (its hash), holds all of one, holds pieces of one in base64 or hexadecimal, or
is an archive of such files. Reads on the host, bounded. An encoding of the agent's own is not seen here: that no byte
of the reference is where an agent could copy it is what sandboxes and masks are for; this is the second lock.
"""

from __future__ import annotations

import base64
import bz2
import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from containers.files import read_program
from sandbox.hidden import HiddenTask

SMALLEST_TEXT = 128
"""A shorter reference that is no compiled program may be written again, byte for byte, by an honest agent."""
_DEPTH = 3
_XZ_MEMORY = 128 << 20
_PIECE = 48
_PIECES = 3
_ELF = b"\x7fELF"
_PUNCTUATION = b" \t\r\n\"'\\,;(){}[]"

How = Literal["hash", "contained", "encoded", "archived"]


class Copy(msgspec.Struct, frozen=True):
    """`path` is relative to the workspace; `stage` says when it was found; `digest` is the file's sha256."""

    path: str
    stage: Literal["submission", "built"]
    how: How
    digest: str


@dataclass
class Effort:
    """What may still be spent on the files of one submission together; the search uses it up."""

    unpacked_bytes: int = 64 << 20
    """Of what archives hold."""
    text_bytes: int = 16 << 20
    """Of what is searched for encoded pieces. Whole copies are searched for everywhere."""
    members: int = 20_000
    """Of archives, and streams of compressed files: empty ones cost time too. An archive with more is not opened."""
    copied_bytes: int = 1 << 30
    """Of compressed files of many streams, of which each copies what is after it."""


class Originals:
    """The programs of one task, to compare files with."""

    def __init__(self, programs: set[bytes]) -> None:
        self._programs = sorted(p for p in programs if len(p) >= SMALLEST_TEXT or p.startswith(_ELF))
        self._digests = {hashlib.sha256(program).hexdigest() for program in self._programs}
        self._pieces = [_pieces(program) for program in self._programs]

    @classmethod
    def of(cls, image: Path, hidden: HiddenTask) -> Originals:
        """What the oracle runs, and every masked program: those do a task's whole work as well."""
        programs = {file.data for file in hidden.reference.files}
        for path in (*hidden.masked, hidden.reference.argv[0]):
            if path in hidden.masked or not hidden.reference.files:
                try:
                    programs.add(read_program(image, path))
                except FileNotFoundError:
                    continue
        return cls(programs)

    @property
    def sizes(self) -> frozenset[int]:
        return frozenset(map(len, self._programs))

    def has(self, digest: str) -> bool:
        return digest in self._digests

    def find(self, data: bytes, effort: Effort) -> How | None:
        """How `data` holds a program, if it does."""
        return self._find(data, effort, _DEPTH) if self._programs else None

    def _find(self, data: bytes, effort: Effort, depth: int) -> How | None:
        if len(data) in self.sizes and self.has(hashlib.sha256(data).hexdigest()):
            return "hash"
        if any(program in data for program in self._programs):
            return "contained"
        text = data[: effort.text_bytes].translate(None, _PUNCTUATION)
        effort.text_bytes = max(effort.text_bytes - len(data), 0)
        for pieces in self._pieces:
            found = sum(any(form in text for form in forms) for forms in pieces)
            if pieces and found >= min(2, len(pieces)):
                return "encoded"
        if depth:
            for inner in _unpack(data, effort):
                if self._find(inner, effort, depth - 1) is not None:
                    return "archived"
        return None


def _pieces(program: bytes) -> list[list[bytes]]:
    """Some telling pieces of a program, each in every form in which source code usually holds bytes."""
    found = []
    for part in range(1, _PIECES + 1):
        start = len(program) * part // (_PIECES + 1)
        piece = _telling(program, start)
        if piece:
            found.append(_forms(piece))
    return found


def _telling(program: bytes, start: int) -> bytes:
    """The first piece at or after `start` that is not padding or a table."""
    for offset in range(start, min(start + 4096, len(program) - _PIECE), _PIECE):
        piece = program[offset : offset + _PIECE]
        if len(set(piece)) >= _PIECE // 2:
            return piece
    return b""


def _forms(piece: bytes) -> list[bytes]:
    forms = []
    for case in (bytes.lower, bytes.upper):
        digits = [case(b"%02x" % byte) for byte in piece]
        forms += [b"".join(digits), b"x" + b"x".join(digits), b"0x" + b"0x".join(digits)]
    # the piece may begin at any of three places in a group of base64: what depends on its neighbours is cut off
    for shift in range(3):
        encoded = base64.b64encode(piece[shift : len(piece) - (len(piece) - shift) % 3])
        forms += [encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")]
    return forms


def _unpack(data: bytes, effort: Effort) -> Iterator[bytes]:
    """What an archive or a compressed file holds, member by member, until `effort` is used up. Never raises for it."""
    try:
        if data[:2] == b"\x1f\x8b":
            yield _streams(data, lambda: zlib.decompressobj(31), effort)
        elif data[:3] == b"BZh":
            yield _streams(data, bz2.BZ2Decompressor, effort)
        elif data[:6] == b"\xfd7zXZ\x00":
            yield _streams(data, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), effort)
        elif data[:4] == b"PK\x03\x04":
            # the module reads the whole list of members before anything else
            effort.members -= data.count(b"PK\x01\x02")
            if effort.members >= 0:
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    for member in archive.infolist():
                        with archive.open(member) as file:
                            yield _spend(file.read(effort.unpacked_bytes), effort)
        elif data[257:262] == b"ustar":
            yield from _tar_members(data, effort)
    except Exception:  # a broken archive raises anything, and is nothing that a submission could use
        return


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _streams(data: bytes, start: Callable[[], _Decompressor], effort: Effort) -> bytes:
    """What the compressed streams in `data`, one after the other, hold together; of a broken one nothing."""
    parts = []
    while data and effort.members > 0 and effort.unpacked_bytes > 0:
        effort.members -= 1
        stream = start()
        try:
            parts.append(_spend(stream.decompress(data, effort.unpacked_bytes), effort))
        except (zlib.error, lzma.LZMAError, OSError, EOFError):
            break
        # every stream copies what is left: no more than a few that are small and far from the end
        effort.copied_bytes -= len(stream.unused_data)
        data = stream.unused_data if stream.eof and effort.copied_bytes > 0 else b""
    return b"".join(parts)


def _tar_members(data: bytes, effort: Effort) -> Iterator[bytes]:
    """The regular files of a tar archive, header by header: no field of it is believed but kind and size."""
    offset = 0
    while data[offset + 257 : offset + 262] == b"ustar" and effort.members > 0:
        effort.members -= 1
        size = int(data[offset + 124 : offset + 136].strip(b" \0") or b"0", 8)
        begin, offset = offset + 512, offset + 512 + -(-max(size, 0) // 512) * 512
        if data[begin - 356 : begin - 355] in b"0\0":
            yield _spend(data[begin : begin + min(size, effort.unpacked_bytes)], effort)


def _spend(data: bytes, effort: Effort) -> bytes:
    effort.unpacked_bytes -= len(data)
    return data
