"""Cases of the programs that read lines and print lines: wc, nl, fold, fmt, pr, head, tail, tac, rev, sort, tr, ..."""

from __future__ import annotations

from tasks.programs.cases import Cases, text

# Tables of options: a line holds what belongs together.
# fmt: off


def wc(c: Cases) -> None:
    c.example("", c.prose())
    c.example("-l -w a.txt b.txt", b"", {"a.txt": c.prose(3), "b.txt": c.prose(2)})
    c.example("-L", c.prose())
    c.common()
    c.common("-lm")
    c.each(("", "-l", "-w", "-c", "-m", "-L", "-lw", "-cml", "-wL", "--lines --chars", "--bytes",
        "--max-line-length"))
    c.each(("-L", "-m", "-mc", "-w"), c.accents(), c.latin(), c.tabs(), c.nuls())
    c("--files0-from=list", b"", {"list": b"a.txt\0b.txt\0", "a.txt": c.prose(), "b.txt": c.blanks()})
    c("--files0-from=-", b"a.txt", {"a.txt": c.prose()})
    c("--files0-from=list a.txt", b"", {"list": b"a.txt", "a.txt": c.prose()})


def nl(c: Cases) -> None:
    sections = text(["\\:\\:\\:", "head", "\\:\\:", "body one", "", "body two", "\\:", "foot", "\\:\\:", "again"])
    c.example("", c.blanks())
    c.example("-b a -w 3 -s ': '", c.prose())
    c.example("-n rz -i 5", c.prose(4))
    c.common()
    c.each(("-b a", "-b t", "-b n", "-b p^[a-f]", "-n ln", "-n rn", "-n rz", "-v 10", "-v -3 -i 2", "-w 1",
        "-w 12 -s ::"))
    c.each(("-l 2 -b a", "-l 3 -ba", "-s ''", "-i 0", "--number-width=4 --number-separator=' | '"), c.blanks())
    c.each(("", "-h a", "-f a -h n", "-p", "-p -b a -f a", "-d :-", "-h t -b n -f t"), sections)
    c.each(("-d xy -b a",), text(["xyxy", "one", "xyxyxy", "two"]))
    c.each(("-b z", "-w 0", "-i x", "-n qq", "-l 0", "-v 9223372036854775807"), c.prose(2))


def fold(c: Cases) -> None:
    c.example("-w 20", c.prose())
    c.example("-s -w 16", c.prose())
    c.example("-w 5", b"abcdefghijkl\n")
    c.common("-w 12")
    c.each(("", "-w 1", "-w 10", "-s", "-s -w 9", "-b -w 7", "-bs -w 15", "-sw 30", "-w 79", "--width=33 --spaces"))
    c.each(("-w 8", "-sw 8", "-bw 8", "-w 3 -s"), c.tabs(), b"ab\bcd\bef\bghijkl mn\r\nopqrst\tuv\n", c.long())
    c.each(("-w 2", "-s -w 2", "-b", "-c -w 4", "-w 6 -b"), c.crlf(), c.accents(), c.nuls())
    c.each(("-5", "-s -13", "-w 0", "-w -1", "-w x", "-w", "-w 99999999999999999999"), c.prose(3))


def fmt(c: Cases) -> None:
    indented = text(["  " + line for line in c.lines(4, 9)] + ["", "     " + " ".join(c.words(20))])
    quoted = text(["> " + line for line in c.lines(4, 8)] + ["plain " + " ".join(c.words(15))])
    sentences = b"One ends here. Another one?  A third!\nFourth (really.) Fifth.\nMr. X. went. " + c.prose(3)
    c.example("-w 30", c.prose())
    c.example("-u", b"too   many    spaces.   Really.  Yes.\n")
    c.example("-s -w 20", c.long())
    c.common("-w 40")
    c.each(("", "-w 20", "-20", "-s", "-s -w 25", "-u", "-u -w 35", "-c", "-t", "-w 50 -g 45", "-g 20 -w 30"))
    c.each(("", "-c", "-t -w 30", "-w 30", "-u -c -w 25", "-s -w 20", "-p '> ' -w 30", "-p '>' -u"), indented, quoted)
    c.each(("-w 40", "-u -w 30", ""), sentences)
    c.each(("-w 0", "-w 2501", "-w x", "-g 90 -w 20", "-w 1"), c.prose(2))


def pr(c: Cases) -> None:
    many = text(f"{n} {word}" for n, word in enumerate(c.words(30), 1))
    c.example("-t -2 -w 40 -l 5", c.list_of_words(10))
    c.example("-t -n", c.prose(3))
    c.example("-D today -h Title -l 20", c.prose(2))
    for option in ("-t", "-D now -l 30"):
        for given in (b"", c.accents(), c.latin(), c.unfinished(), c.tabs(), c.nuls()):
            c(f"{option} -h H", given)
    c.each(("-t -2", "-t -3 -w 60", "-t -a -3 -w 45", "-t -n", "-t -n:3", "-t -n -N 10", "-t -o 4", "-t -d",
        "-T -2 -l 8"), many)
    c.each(("-t -s -3", "-t -s, -4", "-t -S' | ' -3", "-t -J -2 -S:", "-t -l 6 -3", "-t -W 20", "-t -W 20 -2"), many)
    c.each(("-D x -h T -l 15", "-D x -h T -l 15 -F", "-D x -h T -l 15 +2", "-D x -h T -l 15 +2:2 -n",
        "-D x -h '' -l 12"), many)
    c.each(("-t -e", "-t -e4", "-t -i", "-t -v", "-t -e -n"), c.tabs(), c.nuls())
    two = {"a.txt": c.prose(4), "b.txt": c.list_of_words(6)}
    for option in ("-t -m", "-t -m -w 50", "-t -m -s:", "-t -m -J -S,", "-t", "-t -m -n"):
        c(f"{option} a.txt b.txt", b"", two)
    c("-t a.txt missing.txt", b"", two)
    c("-t -m - a.txt", c.prose(3), two)
    c.each(("--no-such-option", "-t -0", "-t -l x", "-t -m -2", "-t -w 3 -4", "-t +x"), c.prose(2))


def head(c: Cases) -> None:
    lines = text(c.lines(15))
    c.example("-n 2", c.prose())
    c.example("-c 10", c.prose())
    c.example("-n 1 a.txt b.txt", b"", {"a.txt": c.prose(3), "b.txt": c.prose(2)})
    c.common()
    c.common("-n 2")
    c.each(("", "-n 3", "-n -3", "-n 0", "-n -0", "-c 17", "-c -17", "-c 0", "-5", "-n 99", "-n -99", "-c 1K"), lines)
    c.each(("-q a.txt b.txt", "-v a.txt"), b"")
    c("-v", lines)
    c("-q -n 1 a.txt b.txt", b"", {"a.txt": lines, "b.txt": c.accents()})
    c("-z -n 2", c.nuls())
    c.each(("-n x", "-n", "-c 1x", "-c -1b", "-n 1 -c 5"), lines)


def tail(c: Cases) -> None:
    lines = text(c.lines(15))
    c.example("-n 2", c.prose())
    c.example("-n +3", c.prose())
    c.example("-c 10", c.prose())
    c.common()
    c.common("-n 2")
    c.each(("", "-n 3", "-n +3", "-n 0", "-n +0", "-n +1", "-c 17", "-c +17", "-c 0", "-5", "-n 99", "-n +99",
        "-c 1K"), lines)
    c("-v", lines)
    c("-q -n 1 a.txt b.txt", b"", {"a.txt": lines, "b.txt": c.accents()})
    c("-v -c 9 a.txt", b"", {"a.txt": lines})
    c("-z -n 2", c.nuls())
    c("-z -n +2", c.nuls())
    c.each(("-n x", "-n", "-c 1x", "-n 1 -c 5", "-n -2"), lines)


def tac(c: Cases) -> None:
    c.example("", c.prose(4))
    c.example("-s ,", b"one,two,three")
    c.example("-b -s :", b":a:b:c")
    c.common()
    c.common("-b")
    joined = b"-".join(word.encode() for word in c.words(9))
    c.each(("", "-b", "-s -", "-b -s -", "-s a", "-r -s '[aeiou]'", "-b -r -s '[ei]'", "-s er", "-s ''", "-s '\n-'"),
        joined)
    c.each(("-r -s '[0-9][0-9]*'", "-r -s 'x*'", "-s ' '", "-b -s ' '", "-r -s '('"), b"a1bb22ccc333d 4\n5 x",
        c.long())


def rev(c: Cases) -> None:
    c.example("", c.prose(3))
    c.example("a.txt", b"", {"a.txt": b"stressed\n12345"})
    c.example("", b"")
    c.common()
    for _ in range(4):
        for given in (c.prose(), c.accents(), c.tabs(), c.blanks(), c.unfinished(), c.crlf()):
            c("", given)


def expand(c: Cases) -> None:
    c.example("", b"a\tb\n\tc\n")
    c.example("-t 4", b"a\tb\n\tc\n")
    c.example("-i", b"\ta\tb\n")
    c.common()
    c.common("-t 3")
    options = ("", "-i", "-t 1", "-t 4", "-t 2,6,9", "-t '3 7'", "-t 5,/4", "-t 5,+4", "-i -t 3",
        "--tabs=6 --initial", "-4", "-3,9")
    c.each(options, c.tabs(), b"\t\ta\tbb\tccc\tdddd\n \t x\ty\n", b"ab\b\tc\n\t\b\bd\te\n")
    c.each(("-t 0", "-t x", "-t 4,2", "-t /3,4", "-t 3,3"), c.tabs())


def unexpand(c: Cases) -> None:
    spaced = text(["        a       b", "    c   d", "  \te        f", " " * 17 + "g", "x" + " " * 15 + "y  z",
        "\t  \t h"])
    c.example("", b"        a       b\n")
    c.example("-a", b"        a       b\n")
    c.example("-t 4", b"    a   b\n")
    c.common()
    c.common("-a")
    options = ("", "-a", "-t 1", "-t 4", "-t 2,6,9", "-t 4 --first-only", "--first-only -a", "-t 5,/4", "-t 5,+4",
        "-a -t 3", "-4", "-3,9")
    c.each(options, spaced, c.tabs(), b"ab      \b\b      c\n        \b d\n")
    c.each(("-t 0", "-t x", "-t 4,2"), spaced)


def uniq(c: Cases) -> None:
    fields = text(f"{n % 3} {word} {word[:2]}" for n, word in enumerate(sorted(c.words(10) * 2)))
    c.example("", b"a\na\nb\na\n")
    c.example("-c", b"a\na\nb\na\n")
    c.example("-d -i", b"Ab\naB\nc\n")
    c.common(several=False)
    c.common("-c", several=False)
    c.each(("", "-c", "-d", "-D", "-u", "-i", "-ci", "-di", "-ui", "-Di", "-cd", "-cu", "-du",
        "--all-repeated=prepend"), c.repeats(), c.repeats())
    c.each(("--group", "--group=prepend", "--group=append", "--group=both", "--all-repeated=separate", "-w 1",
        "-w 2 -c"), c.repeats())
    c.each(("-f 1", "-f 1 -c", "-s 2", "-f 1 -s 3", "-f 2 -w 2 -d", "-f 9", "-f 1 -w 3 -u"), fields)
    c("-z -c", b"a\0a\0b\nb\0")
    c.each(("--group -c", "-f x", "-w -1", "--group=no", "-D -c"), c.repeats())


def sort(c: Cases) -> None:
    numbers = text(["10", "9", "-3", "2.5", "", " 7", "1e3", "abc", "0x1F", "+4", "-0", "1,000", "10"])
    sizes = text(["2K", "1M", "512", "3G", "1k", "900K", "-1M", "0"])
    keyed = text(f"{word}:{c.rng.randint(1, 30)}:{c.rng.choice('abcABC')}" for word in c.words(9))
    c.example("", c.list_of_words(5))
    c.example("-n -r", c.integers(5))
    c.example("-t : -k 2,2n", b"a:10\nb:9\nc:100\n")
    c.common()
    c.each(("", "-r", "-n", "-g", "-u", "-nu", "-nr", "-b", "-V", "-h"), numbers)
    c.each(("-h", "-hr", "-V"), sizes)
    c.each(("-f", "-fu", "-d", "-df", "-i", "-u", "-ru", "-s -f", "-b", "-fr"), c.repeats(), c.tabs(), c.accents())
    c.each(("-M", "-Mr"), b"Mar\njan\n FEB\nxyz\ndec 1\nDEC 0\n\n")
    c.each(("-t : -k 2n", "-t: -k2,2 -k1r", "-t: -k3f,3 -k2,2nr", "-t: -k1.2,1.3", "-t: -k2nr -s", "-t : -k 3,3 -u",
        "-k 2"), keyed)
    c.each(("-c", "-C", "-cu", "-cr", "-cn"), c.sorted_words(), c.prose(), b"1\n2\n10\n", b"a\na\n")
    c("-m a.txt b.txt", b"", {"a.txt": c.sorted_words(), "b.txt": c.sorted_words()})
    c("-V", text(["a-1.10", "a-1.9", "a-1.09", "b1", "a", "a-1.10~rc", "a.10.x"]))
    c("-z", b"b\0a\nz\0c")
    c.each(("-k 0", "-k 1x", "-t ab", "-t '' -k 1", "-n -d", "-c a.txt b.txt", "-k 2.0"), keyed)


def tr(c: Cases) -> None:
    c.example("a-z A-Z", c.prose(2))
    c.example("-d aeiou", c.prose(2))
    c.example("-s ' '", b"a   b  c\n")
    pairs = ("a-z A-Z", "[:lower:] [:upper:]", "[:upper:] [:lower:]", "aeiou '*'", "abc xyz", "a-f 0-5", "-t a-z XY",
        "'a-c' 'x'", "' ' '\\n'", "'\\n' ' '", "'\\141' Z", "a-z n-za-m", "'[a*3]' xyz", "abc '[x*]'", "abc '[x*2]y'",
        "-c a-z '_'", "-cs '[:alpha:]' '\\n'", "-C '[:alnum:]' '.'", "-s a-z A-Z", "'[=a=]' X", "'\\t' ' '", "a- -a",
        "'\\\\' /",)
    c.each(pairs)
    c.each(("-d a-m", "-d '[:space:]'", "-d '[:digit:][:punct:]'", "-cd '[:print:]'", "-cd 'a-e\\n'", "-d '\\0'",
        "-d '\\n'"))
    c.each(("-s e", "-s '[:alpha:]'", "-s '\\n'", "-ds aeiou '[:space:]'", "-s '\\n ' ' '", "-cs a-z"), c.blanks(),
        c.long(), c.nuls())
    c.each(("a b", "-d '\\303'", "-d é", "é e", "-c '[:cntrl:]' x", "'\\200-\\377' '?'"), c.accents(), c.latin(),
        c.nuls())
    c("a b", b"")
    c.each(("", "a", "-d a b", "a ''", "z-a b", "'[:nope:]' x", "-d", "a b c", "a '[:upper:]'", "--no-such-option",
        "'[a*2' x"), c.prose(2))
