"""Cases of the programs that show, encode or sum up bytes: od, hexdump, base64, base32, cksum, sum, md5sum, ..."""

from __future__ import annotations

import hashlib

from tasks.programs.cases import Cases

# Tables of options: a line holds what belongs together.
# fmt: off


def od(c: Cases) -> None:
    data = c.binary(75)
    c.example("", b"hello, world\n")
    c.example("-A x -t x1z", b"hello, world\n")
    c.example("-c", b"a\tb\n\0")
    c.common()
    c.common("-c")
    c.each(("-b", "-c", "-d", "-o", "-s", "-x", "-i", "-l", "-a", "-f", "-t x1", "-t d2", "-t u4", "-t o8", "-t x8z",
        "-t fD", "-t a -t c"), data)
    c.each(("-A d", "-A n -t x1", "-A x -t u1", "-j 5", "-N 10", "-j 3 -N 7 -c", "-w8 -t x1", "-w1 -c", "-v -t x1",
        "-t x1"), b"\0" * 64 + data)
    c.each(("--endian=big -t x2", "--endian=little -t x4", "-S 3", "-S 4 -t x1", "-An -t dC -w5", "-t x1 -j 0x10",
        "-N 0"), data, c.prose())
    c.each(("-t q", "-A q", "-w0", "-j 999", "-N x", "-t x3"), data)


def hexdump(c: Cases) -> None:
    data = c.binary(70)
    c.example("-C", b"hello, world\n")
    c.example("", b"hello, world\n")
    c.example("-e '4/1 \"%02x \" \"\\n\"'", b"abcdefgh")
    c.common("-C")
    c.each(("", "-C", "-b", "-c", "-d", "-o", "-x", "-Cv", "-v", "-n 20 -C", "-n 33", "-n 5 -c", "-n 0"), data,
        b"\0" * 60 + data)
    c.each(("-e '16/1 \"%02X\" \"\\n\"'", "-e '\"%08_ax \" 8/1 \"%3u \" \"\\n\"'", "-e '1/2 \"%d\\n\"'",
        "-v -e '/1 \"%_c\"'", "-e '\"%_ad: \" 4/2 \"%04x \"' -e '\" \" 8/1 \"%_p\" \"\\n\"'", "-e '4/1 \"%o \"'",
        "-v -e '1/1 \"%_u \"'"), data, c.nuls())
    for option in ("-s 7 -C", "-s 3 -n 9", "-s 0x10", "-C -s 100", "-v -d"):
        c(f"{option} a b", b"", {"a": data, "b": c.prose()})
    c.each(("-n x", "-s x", "-e '1/3 \"%d\"'", "-e x", "-e '\"%q\"'"), data)


def base64(c: Cases) -> None:
    _base(c, b"aGVsbG8=\n", b"aGVsbG8gd29ybGQ", b"aGV*bG8=\n", b"aGV\nsbG8=aGk=\n")


def base32(c: Cases) -> None:
    _base(c, b"NBSWY3DP\n", b"NBSWY3DPEB3W64TMMQ", b"NBS*Y3DP\n", b"NBSW\nY3DPNBUQ====\n")


def _base(c: Cases, *encoded: bytes) -> None:
    data = c.binary(120)
    c.example("", b"hello\n")
    c.example("-w 8", b"hello, world\n")
    c.example("-d", encoded[0])
    c.common(several=False)
    for count in (1, 2, 3, 4, 5, 57, 58, 77):
        c("", c.binary(count))
    c.each(("-w 0", "-w 1", "-w 10", "-w 76", "--wrap=33", "-w 0 -", "-w 4096"), data)
    for option in ("-d", "-di", "-d -w 3", "--decode --ignore-garbage"):
        c.each((option,) * len(encoded), *encoded)
        c(option, b"")
    c.each(("-d", "-d", "-di"), b"====", b"A\n", b"%%%\n")
    c("a.txt b.txt", b"", {"a.txt": data, "b.txt": data})
    c.each(("-w x", "-w -1", "-w"), data)


def cksum(c: Cases) -> None:
    c.example("", b"hello\n")
    c.example("a.txt", b"", {"a.txt": b"hello\n"})
    c.example("-a bsd", b"hello\n")
    c.common()
    c.common("-a sysv")
    for count in (1, 5, 64, 127, 1000, 5000, 70000):
        c("", c.binary(count))
    for name in ("bsd", "sysv", "crc", "md5", "sha1", "sha224", "sha256", "sha512", "blake2b", "sm3"):
        c(f"-a {name}", c.binary(200))
    c("-a blake2b -l 128", c.prose())
    c("-a md5 --untagged a.txt", b"", {"a.txt": c.prose()})
    c.arguments(("-a nope", "-a sha1 -l 8"))


def sum(c: Cases) -> None:
    c.example("", b"hello\n")
    c.example("-s", b"hello\n")
    c.example("a.txt", b"", {"a.txt": b"hello\n"})
    c.common("-r")
    c.common("-s")
    for count in (1, 100, 511, 512, 513, 1024, 1025, 5000):
        for option in ("", "-s", "--sysv"):
            c(option, c.binary(count))


def md5sum(c: Cases) -> None:
    _digest(c, "md5")


def sha1sum(c: Cases) -> None:
    _digest(c, "sha1")


def b2sum(c: Cases) -> None:
    _digest(c, "blake2b")
    for bits in (8, 128, 256, 504, 512, 0, 7, 520):
        c(f"-l {bits}", c.prose())
    c("-l 128 --tag a.txt", b"", {"a.txt": c.prose()})


def _digest(c: Cases, algorithm: str) -> None:
    """The lists that `-c` checks are inputs: they are written here, and what the program says of them is recorded."""

    def line(name: str, data: bytes, form: str = "{digest}  {name}\n") -> bytes:
        return form.format(digest=hashlib.new(algorithm, data).hexdigest(), name=name).encode()

    a, b = c.prose(), c.accents()
    files = {"a.txt": a, "b.txt": b}
    good = line("a.txt", a) + line("b.txt", b)
    bad = line("a.txt", b) + line("b.txt", b)
    absent = line("a.txt", a) + line("missing.txt", b)
    tag = {"md5": "MD5", "sha1": "SHA1", "blake2b": "BLAKE2b"}[algorithm]
    c.example("", b"hello\n")
    c.example("a.txt", b"", {"a.txt": b"hello\n"})
    c.example("-c sums", b"", {"sums": line("a.txt", b"hello\n"), "a.txt": b"hello\n"})
    c.common()
    for count in (1, 55, 56, 64, 119, 128, 1000):
        c("", c.binary(count))
    for option in ("-b a.txt", "-t a.txt", "--tag a.txt", "-z a.txt b.txt", "--tag - a.txt", "-b", "--tag",
        "a.txt a.txt"):
        c(option, b, files)
    c("'a\\b.txt' 'new\nline'", b"", {"a\\b.txt": a, "new\nline": b})
    for option in ("-c", "-c --quiet", "-c --status", "-c -w", "-c --strict", "-c --ignore-missing"):
        c(f"{option} sums", b"", {**files, "sums": good})
        c(f"{option} sums", b"", {**files, "sums": bad})
        c(f"{option} sums", b"", {**files, "sums": absent})
        c(f"{option}", good + b"not a sum\n", files)
    c("-c", b"", files)
    c("-c", b"nothing of use\n", files)
    c("-c", line("a.txt", a, tag + " ({name}) = {digest}\n"), files)
    c("-c", line("a.txt", a, "{digest} *{name}\n"), files)
    c("-c", line("a.txt", a).upper().replace(b"A.TXT", b"a.txt"), files)
    c("--quiet a.txt", b"", files)
