"""Cases of the programs that work on fields or on several files side by side: cut, paste, comm, join, column, cmp."""

from __future__ import annotations

from tasks.programs.cases import Cases, text

# Tables of options: a line holds what belongs together.
# fmt: off


def cut(c: Cases) -> None:
    c.example("-f 2", c.table())
    c.example("-d , -f 1,3", c.table(","))
    c.example("-c 1-4", c.prose(3))
    c.common("-f 2")
    c.common("-c 2-5")
    c.each(("-f 1", "-f 2,4", "-f 2-", "-f -2", "-f 3-3", "-f 9", "-f 1,2-3,3", "-s -f 2", "-f 4,1"), c.table(),
        c.tabs())
    c.each(("-d , -f 2", "-d, -f1,3 --output-delimiter=-", "-d ' ' -f 2", "-d ' ' -s -f 3-", "--complement -d, -f 2"),
        c.table(","), c.prose())
    c.each(("-b 1-3", "-b 2,5-", "-c 3", "-c -4", "--complement -c 2-4", "-b 1,4 --output-delimiter=:", "-b 3-5,4-8"),
        c.accents(), c.prose())
    c.each(("-z -f 1", "-z -c 2"), c.nuls())
    c.each(("", "-f 0", "-f 3-2", "-f x", "-f 1 -c 1", "-d ab -f 1", "-c 1 -d ,", "-s -c 1", "-f -"), c.table())


def paste(c: Cases) -> None:
    a, b, d = c.list_of_words(4), c.list_of_words(6), c.integers(3)
    files = {"a.txt": a, "b.txt": b, "d.txt": d}
    c.example("a.txt b.txt", b"", {"a.txt": b"1\n2\n", "b.txt": b"x\ny\n"})
    c.example("-s -d ,", b"1\n2\n3\n")
    c.example("-d : - -", b"1\n2\n3\n4\n")
    c.common()
    c.common("-s")
    for option in ("", "-s", "-d ,", "-d ,:", "-s -d '+-'", "-d ''", "-d '\\n'", "-d '\\0'", "-s -d '\\t\\n'",
        "-d '\\\\'"):
        c(f"{option} a.txt b.txt d.txt", b"", files)
    for option in ("- -", "-d, - - -", "-s - a.txt", "a.txt - b.txt", "-d 'ab' - - -", "- a.txt -"):
        c(option, b, files)
    c("-z a.txt -", c.nuls(), files)
    c("-z -s -", c.nuls())
    c("-d é a.txt b.txt", b"", files)
    c("a.txt empty.txt b.txt", b"", {**files, "empty.txt": b""})
    c.arguments(("-d", "-d '\\' a.txt", "a.txt missing.txt"))


def comm(c: Cases) -> None:
    files = {"a": c.sorted_words(7), "b": c.sorted_words(7), "e": b"", "u": c.accents(), "n": c.sorted_words(5)[:-1]}
    shared = c.words(4)
    files["x"], files["y"] = (text(sorted(shared + c.words(4))) for _ in range(2))
    files["Unsorted"] = text(["b", "a", "d", "c"])
    c.example("a b", b"", {"a": b"ape\nbee\n", "b": b"bee\ncat\n"})
    c.example("-1 -2 a b", b"", {"a": b"ape\nbee\n", "b": b"bee\ncat\n"})
    c.example("--total -3 a b", b"", {"a": b"ape\nbee\n", "b": b"bee\ncat\n"})
    for option in ("", "-1", "-2", "-3", "-12", "-13", "-23", "-123", "--total", "--total -2", "--output-delimiter=,",
        "-1 --output-delimiter=::"):
        c(f"{option} x y", b"", files)
        c(f"{option} a b", b"", files)
    for pair in ("a e", "e b", "e e", "x x", "n a", "a n", "u u", "u a", "a missing", "x Unsorted", "Unsorted x",
        "Unsorted Unsorted"):
        c(pair, b"", files)
    for option in ("--check-order", "--nocheck-order", "-12 --nocheck-order", "--check-order -3"):
        c(f"{option} x Unsorted", b"", files)
    c("- a", files["x"], files)
    c("x -", files["y"], files)
    c("-z x y", b"", {"x": b"a\0b\nc\0d\0", "y": b"b\nc\0e"})
    c("--output-delimiter='' x y", b"", files)
    c.arguments(("", "a", "a b c", "--no-such-option"))


def join(c: Cases) -> None:
    keys = sorted(set(c.words(12)))
    one = text(f"{key} {c.rng.randint(1, 99)} {c.rng.choice('xyz')}" for n, key in enumerate(keys) if n % 3)
    two = text(f"{key} {c.rng.choice('pqr')}{n}" for n, key in enumerate(keys) if n % 4)
    twice = text(sorted([f"{key} {n}" for key in keys[:4] for n in (1, 2)] + ["zz end"]))
    commas = text(f"{key},{c.rng.randint(1, 9)},,{key[::-1]}" for key in keys)
    second = text(sorted((f"{c.rng.randint(100, 999)} {key} tail" for key in keys), key=lambda line: line.split()[1]))
    files = {"one": one, "two": two, "twice": twice, "commas": commas, "second": second, "e": b"",
        "Bad": b"b 1\na 2\nc 3\n"}
    files["heads"] = b"KEY NUMBER\n" + one
    files["upper"] = two.upper()
    left = {"a": b"a 1\nb 2\n", "b": b"b x\nc y\n"}
    c.example("a b", b"", left)
    c.example("-a 1 a b", b"", left)
    c.example("-o 1.1,2.2 -e none -a 1 a b", b"", left)
    for option in ("", "-a 1", "-a 2", "-a 1 -a 2", "-v 1", "-v 2", "-v1 -v2", "-o 0", "-o 1.2,2.2",
        "-o '0 1.3 2.2' -a1", "-o auto -a1 -a2", "-e NONE -o auto -a1 -a2", "-e - -o 0,1.2,2.2 -a2", "-i",
        "--nocheck-order", "--check-order", "-1 1 -2 1"):
        c(f"{option} one two", b"", files)
    for option in ("one twice", "twice twice", "-i one upper", "--header heads two", "-a1 --header heads two",
        "-1 2 second two", "-2 2 two second", "-j 2 second second", "-t , commas commas", "-t , -1 4 commas commas",
        "-t , -o 1.1,1.3,2.2 commas commas", "one e", "-a1 one e", "-v2 e two", "one Bad", "--check-order one Bad",
        "--nocheck-order Bad two", "one missing"):
        c(option, b"", files)
    c("- two", one, files)
    c("one -", two, files)
    c("u u", b"", {"u": c.accents()})
    c("-z x y", b"", {"x": b"a 1\0b 2\0", "y": b"a 3\0b\n4\0"})
    c("-t '' one two", b"", files)
    c.arguments(("", "one", "-t ab one two", "-o 3.1 one two", "-a 3 one two", "-1 0 one two", "- -",
        "--no-such-option"))


def column(c: Cases) -> None:
    c.example("-t", c.table(" ", 3, 3))
    c.example("-t -s ,", c.table(",", 3, 3))
    c.example("-c 40", c.list_of_words(10))
    c.common("-t")
    c.common("-c 50")
    many = c.list_of_words(24)
    c.each(("-c 30", "-c 60", "-c 60 -x", "-x -c 33", "-c 8", "-c 200", "-x", ""), many, c.prose(8))
    c.each(("-t", "-t -s ,", "-t -s , -o ' | '", "-s ,: -t", "-t -o ,", "-t -s , -R 2", "-t -s , -N A,B,C,D",
        "-t -s, -N A,B,C,D -H 2"), c.table(",", 5), text([",a,,b", "cc,,d", "", "e"]))
    c.each(("-t -s , -N A,B,C,D -O C,A", "-t -s , -l 2", "-t -s , -N A,B,C,D -d", "-t -L", "-t -s , -N A,B -R 1,2",
        "-t -s, -r 1"), c.table(",", 4))
    c.each(("-t -s, -J -N a,b,c,d", "-t -s, -J -N a,b,c,d -n things"), c.table(",", 3), text(['q"x,\\y,z,',
        "1,2,3,4"]))
    c.each(("-L -c 40", "-t", "-t -L -s ,"), c.blanks(), text(["a,b", "", "c,d"]))
    c.each(("-c x", "-t -R 9", "-J", "-t -N", "-H 2"), c.prose(2))


def cmp(c: Cases) -> None:
    a = c.prose(4)
    changed = bytearray(a)
    changed[10] ^= 3
    changed[40] ^= 1
    files = {"a": a, "same": a, "b": bytes(changed), "short": a[:25], "longer": a + b"more\n", "e": b"",
        "x": c.binary(), "y": c.binary()}
    c.example("a b", b"", {"a": b"one\ntwo\n", "b": b"one\ntoo\n"})
    c.example("-l a b", b"", {"a": b"one\ntwo\n", "b": b"one\ntoo\n"})
    c.example("a b", b"", {"a": b"same\n", "b": b"same\n"})
    for option in ("", "-s", "-l", "-b", "-lb", "-n 11", "-n 10", "-i 11", "-i 5:6", "-n 30 -i 2"):
        c(f"{option} a b", b"", files)
        c(f"{option} a longer", b"", files)
    for pair in ("a same", "a short", "-l short a", "e a", "a e", "e e", "x y", "-l x y", "-b x y", "-lb x y",
        "a missing", "-s a missing"):
        c(pair, b"", files)
    c("a", a, files)
    c("a -", bytes(changed), files)
    c("- a", a[:12], files)
    c("a b 5", b"", files)
    c("a b 11 11", b"", files)
    c("a b 3 1", b"", files)
    c("u v", b"", {"u": c.accents(), "v": c.accents()})
    c.arguments(("", "-l -s a b", "-n x a b", "-i x a b", "a b 1 2 3", "--no-such-option"))
