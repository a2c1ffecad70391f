"""A copy of the reference is found under every name and in the usual wrappings; what is only similar is left alone."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile

import pytest

from sandbox.copies import Effort, Originals

PROGRAM = b"\x7fELF" + random.Random(0).randbytes(20_000)
SOURCE = b"import sys\n" + b"".join(b"print('line %d of the program')\n" % n for n in range(20))
ORIGINALS = Originals({PROGRAM, SOURCE})


def find(data: bytes) -> str | None:
    return ORIGINALS.find(data, Effort())


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme", b"nothing")
        archive.writestr("a/b", data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("x")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("data", [PROGRAM, SOURCE])
def test_the_file_itself_and_a_file_around_it(data: bytes) -> None:
    assert find(data) == "hash"
    assert find(b"before" + data + b"after") == "contained"


WRAPPED = {
    "base64": lambda d: b"import base64\nx = '''" + base64.encodebytes(d) + b"'''\n",
    "base64_url": lambda d: base64.urlsafe_b64encode(b"." + d),
    "base64_strings": lambda d: b"\n".join(b"    '%s'" % line for line in base64.encodebytes(b".." + d).split()),
    "hex": lambda d: d.hex().encode(),
    "python_bytes": lambda d: b"x = b'" + b"".join(b"\\x%02x" % c for c in d) + b"'",
    "xxd": lambda d: b"unsigned char x[] = {\n" + b",\n".join(b"0x%02x" % c for c in d) + b"};",
}


@pytest.mark.parametrize("how", WRAPPED)
def test_text_that_holds_it(how: str) -> None:
    assert find(WRAPPED[how](PROGRAM)) == "encoded"


@pytest.mark.parametrize("wrap", [gzip.compress, bz2.compress, lzma.compress, zipped, tarred])
def test_archives(wrap) -> None:
    assert find(wrap(PROGRAM)) in ("archived", "contained")
    assert find(gzip.compress(wrap(SOURCE))) == "archived"
    assert find(wrap(b"something else")) is None
    assert find(wrap(PROGRAM)[:-20]) in (None, "contained")  # broken: nobody can unpack it, and nothing is raised


def test_what_is_similar_is_no_copy() -> None:
    assert find(b"") is None
    assert find(PROGRAM[:-1]) is None
    assert find(SOURCE.replace(b"line 7", b"line seven")) is None
    assert Originals({b"print(input())\n"}).find(b"print(input())\n", Effort()) is None, "anybody would write that"
    assert Originals(set()).find(PROGRAM, Effort()) is None


def test_effort_is_bounded() -> None:
    bomb = gzip.compress(gzip.compress(bytes(200 << 20)))
    effort = Effort(unpacked_bytes=1 << 20)
    assert ORIGINALS.find(bomb, effort) is None
    assert ORIGINALS.find(gzip.compress(bytes(10 << 20)), effort) is None
    assert effort.unpacked_bytes == 0


def test_archives_of_nothing_cost_little() -> None:
    """The search runs on the host, beside all other sessions: what is bounded is how often it begins anew as well."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(1000):
            archive.writestr(str(number), b"")
    empty = tarfile.TarInfo("x").tobuf()
    for data in (out.getvalue(), empty * 1000, *(pack(b"") * 1000 for pack in (gzip.compress, bz2.compress))):
        effort = Effort(members=500)
        assert ORIGINALS.find(data, effort) is None
        assert effort.members <= 0
        assert ORIGINALS.find(zipped(PROGRAM), effort) is None, "nothing is left for other files"


def test_streams_one_after_the_other_are_searched() -> None:
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        assert find(pack(b"first") + pack(PROGRAM[:5000]) + pack(PROGRAM[5000:])) == "archived"
