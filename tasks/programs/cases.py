"""Builds the inputs of one program's cases: arguments, standard input and files, never an expected output.

`Cases` is called once per case and makes texts of many kinds from a generator that is seeded by the program's name, so
the same checkout always makes the same cases. Options are written as on a command line (`shlex` splits them).
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable, Mapping

from sandbox.sandbox import File
from tasks.source import CaseInput

WORDS = """
amber anchor apple basil beacon birch cedar cinder cobalt coral delta ember fable falcon fern flint garnet glade harbor
hazel indigo iris jade juniper kelp lantern linen maple marble nectar oak onyx opal pebble quartz quill raven reed ruby
sable sage slate tulip umber violet willow yarrow zephyr
""".split()  # noqa: SIM905
FOREIGN = (
    "naïve café",
    "Ωμέγα άλφα",
    "日本語 テキスト",
    "żółć źdźbło",
    "crème brûlée",
    "Ünïcödé ß",
    "emoji 🙂 x",
    "e\u0301 à",
)
Files = Mapping[str, bytes]


class Cases:
    """Collects the cases of one program; a repeated case is kept once."""

    def __init__(self, program: str) -> None:
        self.rng = random.Random(f"ectype programs {program}")
        self._inputs: dict[tuple[object, ...], CaseInput] = {}

    def __call__(
        self, options: str = "", stdin: bytes = b"", files: Files | None = None, *, public: bool = False
    ) -> None:
        argv = tuple(shlex.split(options))
        placed = tuple(File(path=path, data=data) for path, data in (files or {}).items())
        key = (argv, stdin, placed)
        self._inputs.setdefault(key, CaseInput(argv=argv, stdin=stdin, files=placed, public=public))

    def inputs(self) -> tuple[CaseInput, ...]:
        return tuple(self._inputs.values())

    def example(self, options: str, stdin: bytes = b"", files: Files | None = None) -> None:
        """A case that everybody may see; it is not among the hidden ones."""
        self(options, stdin, files, public=True)

    def each(self, options: Iterable[str], *texts: bytes) -> None:
        """Every option list once, on one of `texts` in turn (on texts of every kind where none is given)."""
        chosen = texts or (
            self.prose(), self.blanks(), self.accents(), self.tabs(), self.latin(), self.unfinished(), self.long()
        )  # fmt: skip
        for number, option in enumerate(options):
            self(option, chosen[number % len(chosen)])

    def arguments(self, options: Iterable[str]) -> None:
        for option in options:
            self(option)

    def common(self, option: str = "", *, several: bool = True) -> None:
        """What every filter has to get right: unusual bytes, files, missing files, wrong options.

        `several`: the program reads any number of files.
        """
        a, b = self.prose(4), self.unfinished()
        odd = (self.accents(), self.latin(), self.nuls(), self.unfinished(), self.crlf(), self.long())
        for given in (b"", b"\n", *odd):
            self(option, given)
        self(f"{option} a.txt", b"not read\n", {"a.txt": a})
        self(f"{option} empty.txt", b"", {"empty.txt": b""})
        self(f"{option} missing.txt")
        self(f"{option} -- -a", b"", {"-a": a})
        self("--no-such-option", b"text\n")
        self(f"{option} -", a)
        if several:
            self(f"{option} a.txt b.txt", b"", {"a.txt": a, "b.txt": b})
            self(f"{option} b.txt missing.txt a.txt", b"", {"a.txt": a, "b.txt": b})
            self(f"{option} a.txt - 'two words.txt'", b, {"a.txt": a, "two words.txt": self.accents()})

    # --- texts -------------------------------------------------------------------------------------------------------

    def words(self, count: int) -> list[str]:
        return [self.rng.choice(WORDS) for _ in range(count)]

    def lines(self, count: int, most: int = 6) -> list[str]:
        return [" ".join(self.words(self.rng.randint(1, most))) for _ in range(count)]

    def prose(self, count: int = 5) -> bytes:
        return text(self.lines(count))

    def list_of_words(self, count: int = 8) -> bytes:
        return text(self.words(count))

    def sorted_words(self, count: int = 6) -> bytes:
        return text(sorted(self.words(count)))

    def blanks(self) -> bytes:
        """Runs of empty lines, and a line of spaces only."""
        first, second, third = self.lines(3)
        return text(["", first, "", "", "", second, "   ", third, "", ""])

    def tabs(self) -> bytes:
        a, b, c, d = self.words(4)
        return text([f"{a}\t{b}", f"\t{c}", f"  \t {d}\t\t{a}", f"    {b}  {c}\t", "\t\t", f"{d}{' ' * 11}{a}"])

    def accents(self) -> bytes:
        return text(self.rng.sample(FOREIGN, 4))

    def latin(self) -> bytes:
        """Bytes that are not UTF-8."""
        a, b = self.words(2)
        return a.encode() + b" caf\xe9 \xff\xfe\n" + b"\x80" + b.encode() + b"\n\xc3\n\xed\xa0\x80 x\n"

    def nuls(self) -> bytes:
        a, b, c = (word.encode() for word in self.words(3))
        return a + b"\0" + b + b"\n\0\0" + c + b"\n\x01\x07\x1b[0m\x7f\n"

    def unfinished(self) -> bytes:
        """No newline at the end."""
        return self.prose(3)[:-1]

    def crlf(self) -> bytes:
        return self.prose(3).replace(b"\n", b"\r\n")

    def long(self) -> bytes:
        return text([" ".join(self.words(40)), "".join(self.words(25)), "x" * 81])

    def repeats(self) -> bytes:
        """Runs of equal lines, some in another case."""
        lines = []
        for word in self.words(6):
            lines += self.rng.choice(([word], [word] * 2, [word] * 3, [word, word.upper()], [word.title(), word, word]))
        return text(lines)

    def integers(self, count: int = 10, least: int = -50, most: int = 150) -> bytes:
        return text(str(self.rng.randint(least, most)) for _ in range(count))

    def table(self, separator: str = "\t", rows: int = 6, columns: int = 4) -> bytes:
        return text(separator.join(self.words(columns)) for _ in range(rows))

    def binary(self, count: int = 70) -> bytes:
        return self.rng.randbytes(count)


def text(lines: Iterable[str]) -> bytes:
    """The lines, each ended by a newline, as UTF-8."""
    return "".join(line + "\n" for line in lines).encode()
