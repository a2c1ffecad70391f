"""Frames on a pair of descriptors: what host, guest and cell say to each other.

A frame is two big-endian 32-bit lengths, a JSON object, and raw bytes (`blob`) that the object describes. Runs inside
the container (standard library only). Raises EOFError when the other side is gone; never answers anything itself.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any

_HEAD = struct.Struct(">II")


def read_exactly(fd: int, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while size:
        count = os.readv(fd, [view[-size:]])
        if not count:
            raise EOFError
        size -= count
    return bytes(data)


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Channel:
    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing

    def receive_raw(self) -> tuple[bytes, bytes]:
        header_size, blob_size = _HEAD.unpack(read_exactly(self.reading, _HEAD.size))
        return read_exactly(self.reading, header_size), read_exactly(self.reading, blob_size)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        header, blob = self.receive_raw()
        return json.loads(header), blob

    def send_raw(self, header: bytes, blob: bytes) -> None:
        if len(header) + len(blob) < 65536:
            write_all(self.writing, _HEAD.pack(len(header), len(blob)) + header + blob)
        else:
            write_all(self.writing, _HEAD.pack(len(header), len(blob)) + header)
            write_all(self.writing, blob)

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        self.send_raw(json.dumps(header).encode("ascii"), blob)
