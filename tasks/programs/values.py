"""Cases of the programs whose work is in their arguments or in numbers: seq, expr, factor, numfmt, basename, bc, ..."""

from __future__ import annotations

from tasks.programs.cases import Cases, text

# Tables of options: a line holds what belongs together.
# fmt: off


def seq(c: Cases) -> None:
    c.example("3")
    c.example("-s , 2 2 8")
    c.example("-w 8 11")
    c.arguments(("5", "0", "-3", "1 1", "2 5", "5 2", "5 -1 1", "0 3 10", "1 0.5 3", "-2 2", "1.5 4", "0.1 0.1 0.5",
        "10 -2.5 0", "-w 1 10", "-w -5 5", "-w 0.5 0.25 1.5", "-w 100 -50 0", "-s : 4", "-s '' 5", "-s '\\n' 2",
        "-s ' - ' 3 5", "-s é 3", "é", "-f %g 1 3", "-f %05.1f 1 3", "-f '%.3e' 1 2", "-f 'x%gy' 2", "-f %%%g 2",
        "-f %a 2", "1e2 50 2e2", "0x10 0x12", "1 1000000 3000000", "999999 1000001",
        "9007199254740992 9007199254740994", "-0 1",
        "inf 3", "1 inf 0", "-- -2 0", "18446744073709551615 18446744073709551617", ".5 2", "1. 3", "+1 3", "' 1' 2",
        "-t 3", "-w 1e1", "--equal-width 9 10", "", "x", "1 2 3 4", "1 0 3", "1 x 3", "-f %d 3", "-f %g%g 3",
        "-f abc 3", "-f % 3", "-w -f %g 3", "nan", "1 nan", "--no-such-option", "'' 2", "3 1e"))


def expr(c: Cases) -> None:
    c.example("1 + 2")
    c.example("abc : 'a\\(.\\)c'")
    c.example("5 '<' 3")
    c.arguments(("2 + 3 '*' 4", "'(' 2 + 3 ')' '*' 4", "7 / 2", "-7 / 2", "-7 % 3", "7 % -3", "3 - 5", "0", "''",
        "abc", "00", "-0", "1 = 1", "a = b", "a != b", "10 '<' 9", "a '<' b", "10 '<=' 10", "abc '>' abd",
        "2 '>=' 10", "01 = 1", "a1 = a01", "0 '|' 5", "'' '|' ''", "3 '|' 4", "0 '&' 5", "3 '&' 4", "'' '&' 1",
        "1 + 2 = 3", "1 '|' 0 '&' 0", "length hello", "length ''", "length naïve", "length 日本語", "substr hello 2 3",
        "substr hello 0 2", "substr hello 4 9", "substr hello x 1", "substr naïve 3 2", "index hello lo",
        "index hello z", "index naïve e", "index '' a", "hello : 'h.*l'", "hello : 'x'", "hello : '.*\\(l.\\)'",
        "hello : '\\(x\\)'", "aaa : 'a*'", "match hello 'l'", "match hello 'h\\(e\\)'", "a.b : 'a\\.b'",
        "naïve : '.*'", "naïve : 'na\\(.\\)'", "abc : '[a-b]*'", "abc : 'abc$'", "+ length", "+ length = length",
        "9223372036854775807 + 1", "99999999999999999999 '*' 99999999999999999999", "100000000000000000000 / 3",
        "2 '*' -3", "--  1 + 1", "", "1 +", "1 / 0", "1 % 0", "a + 1", "'(' 1", "1 2", "')' ", "1 '*'", "length",
        "substr a 1", "a : '\\('", "1.5 + 1", "--no-such-option"))


def factor(c: Cases) -> None:
    c.example("12")
    c.example("97 100")
    c.example("", b"15 16\n")
    c.arguments(("0", "1", "2", "4", "97", "1024", "360", "1001", "65537", "999983", "1000000", "4294967295",
        "4294967296", "4294967297", "18446744073709551615", "18446744073709551616", "18446744073709551557",
        "340282366920938463463374607431768211456", "1000000016000000063", "9999999967", "2 3 5 7", "12 x 18", "-5",
        "1.5", "''", "' 12'", "+12", "007", "0x10", "12a", "1e3", "--no-such-option", "-h", "--exponents 360",
        "600851475143", "1000003 1000033"))
    for given in (b"", b"\n", b"12 13\n14", b"x\n10\n", b"  8\t9  \n\n27\n", b"-1\n6\n", "٣ 4\n".encode(),
        b"5\x006\n", b"5\r\n6\r\n", c.latin()):
        c("", given)
    c("", b" ".join(str(c.rng.randint(2, 10**6)).encode() for _ in range(12)) + b"\n")
    c("", b"\n".join(str(c.rng.randint(10**9, 10**12)).encode() for _ in range(5)) + b"\n")
    c("--exponents", b"72 1 97\n")


def numfmt(c: Cases) -> None:
    numbers = b"1000\n1500\n1048576\n-2048\n0\n999999\n"
    rows = text(f"{word} {c.rng.randint(500, 5_000_000)} end" for word in c.words(4))
    c.example("--to=si 1500")
    c.example("--from=iec 2K")
    c.example("--to=iec --field 2", b"a 4096 x\n")
    c.each(("--to=si", "--to=iec", "--to=iec-i", "", "--to=si --round=down", "--to=si --round=nearest",
        "--to=iec --suffix=B", "--to=si --padding=8", "--to=si --padding=-8", "--to=iec --format=%.2f",
        "--to=si --format='%8.1f|'", "--to=si --round=towards-zero", "--format=%010f", "--to-unit=1024",
        "--from-unit=512", "--to=iec --from-unit=1024", "--grouping", "--to=si -d ,"), numbers)
    c.each(("--field 2 --to=si", "--field=2 --to=iec --padding 9", "--field 2- --to=si --invalid=ignore",
        "--to=si --invalid=warn", "--field - --to=si --invalid=ignore", "--field 2 --to=si --header",
        "--header=2 --field 2 --to=iec", "--field 1,2 --to=si --invalid=fail", "--field 2 --to=si -d ' '"), rows)
    c.arguments(("--from=si 1K", "--from=iec 1K", "--from=iec-i 1Ki", "--from=auto 1K 1Ki", "--from=si 1.5M",
        "--from=si -2G", "--to=si 999 1000 1001 999499 999500", "--to=iec 1023 1024 1025 10239 10240",
        "--from=si --to=iec 1M", "--to=si 123456789012345678", "--from=iec 16E", "--suffix=b --from=si 3Kb", "12.5",
        "--to=si -- -1500", "--from=si 1KK", "--from=si 1Ki", "abc", "1k", "--to=nope 1", "--from=si 5X",
        "--format=%d 5", "--format=%f%f 5", "--padding=0 5", "--round=sideways 5", "--field x 5", "--to=si ''", "1e3",
        "--no-such-option", "--to=si 1.4999 1.5001", "--header=x 1"))
    c("--to=si", b"")
    c("--to=si", c.accents())
    c("-z --to=si", b"1000\x002000\0")
    c("--to=si", b"5000")


def basename(c: Cases) -> None:
    c.example("/usr/lib/file.txt")
    c.example("file.txt .txt")
    c.example("-a a/b c/d")
    c.arguments(_PATHS)
    c.arguments(("a/b.c .c", "b.c b.c", "b.c c", ".c .c", "a.tar.gz .gz", "dir/ r", "/ /", "a/b ''",
        "-s .c a.c b.c x/y.d", "-s .c", "-a a b/ /c//", "-z a/b", "-az a/b c", "-s é café thé", "--suffix=.h -z i.h",
        "a b c", "", "-a", "-x a", "--no-such-option", "-- -a", "-s '' a", "-as x ax bx"))


def dirname(c: Cases) -> None:
    c.example("/usr/lib/file.txt")
    c.example("file.txt")
    c.example("a/b /c")
    c.arguments(_PATHS)
    c.arguments(("a/b c/d /e", "-z a/b c/d", "a//b", "a//b//", "//a", "a/./b", "a/../b", "./a", "../", ".hidden/x",
        "-- -a/b", "", "-x a", "--no-such-option", "'a b/c d'", "ä/ö/ü", "a/b/", "/a/", "-z /", "'' a/b"))


_PATHS = ("/", "//", "///", ".", "..", "a", "a/", "a//", "/a", "/a/b", "/a/b/", "/a//b", "a/b", "a/b/c", "''", "' '",
    "a.b", "/.a", "日本/語", "naïve/café.txt", "'new\nline/x\ny'", "./", "a/.", "a/..", "-", "'*'",)


def tsort(c: Cases) -> None:
    c.example("", b"a b\nb c\n")
    c.example("", b"shirt tie\ntie jacket\nshirt belt\n")
    c.example("graph.txt", b"", {"graph.txt": b"x y\n"})
    c.common(several=False)
    for size in range(4, 24):
        names = list(dict.fromkeys(c.words(size)))
        edges = [sorted(c.rng.sample(names, 2)) for _ in range(size)] if len(names) > 1 else []
        c("", text(" ".join(edge) for edge in edges))
    for graph in (b"a a\n", b"a a b b\n", b"a b\nb a\n", b"a b b c c a\n", b"a b b c c a d a\n", b"a b c\n", b"x",
        b"a b\nc d\ne f\n", b"b a\na c\nc b\nd b\n", b"a b a b a b\n", "ä ö\nö ü\n".encode(), b"3 1\n2 1\n10 2\n",
        b"a\tb\n\n\nb   c\n", b"\xff a\na \xfe\n", b"a b\na c\nb d\nc d\nd a\n"):
        c("", graph)
    c("a b", b"", {"a": b"x y\n", "b": b"y z\n"})


def bc(c: Cases) -> None:
    c.example("", b"1 + 2 * 3\n")
    c.example("", b"scale=3\n10/3\n")
    c.example("", b"define f(n){ if (n<2) return 1; return n*f(n-1); }\nf(10)\n")
    scripts = ("2^10", "7/2", "-7/2", "7%3", "-7%3", "scale=2;7%3", "1.50+1.5", "0.1*0.1", ".5", "-.5", "1.10*2.20",
        "scale=4;2/3", "sqrt(2)", "scale=20;sqrt(2)", "length(12345.678)", "scale(1.234)", "2^100", "2^-2",
        "scale=5;2^-2", "ibase=16;FF", "obase=16;255", "obase=2;10", "ibase=2;1011;obase=8;1111", "obase=60;3661",
        "obase=16;-255.5", "a=5;a++;a;++a;a--;a", "a=3;a+=2;a;a*=a;a;a^=2;a;a%=7;a", "1<2;2<1;1==1;1!=1;2>=2",
        "!0;!5;1&&0;1||0", "if(1)2 else 3", "for(i=0;i<4;i++)i", "i=3;while(i>0){i;i-=1}",
        "define f(x){return x*x;}\nf(4)", "define g(a,b){auto c;c=a+b;return(c);}\ng(1,2)",
        "define h(n){if(n<2)return n;return h(n-1)+h(n-2);}\nh(12)", "a[0]=1;a[1]=2;a[0]+a[1];a[9]", '"text"',
        'print "a",1+1,"\\n"', '"x\\ty\n"', "last", "3;last*2", ".+1", "1;.", "/* note */ 1+1 # end", "1+\\\n2",
        "break", "for(i=0;i<9;i++){if(i==3)continue;if(i==5)break;i}", "1;;2", "quit", "1\nquit\n2", "halt",
        "2^200*3^100", "12345678901234567890*98765432109876543210", "scale=70;1/7", "9999999999^9", "1/0", "1+",
        "x y", ")", "sqrt(-1)", "f(1)", "ibase=1;5", "obase=1", "1%0", "scale=-1", "2^1.5", "é", "@", '"unfinished',
        "a[1", "0^0", "-0", "1.000", "0.0", "00012",)
    for script in scripts:
        c("", script.encode() + b"\n")
    c.each(("-l",) * 6, b"s(1)\n", b"c(1)\n", b"a(1)*4\n", b"l(2)\n", b"e(1)\n", b"j(0,1)\nscale\n")
    c("", b"")
    c("", b"1+1")
    c("", b"\xff\n1\n")
    c("", b"1\0+2\n")
    c("a.bc", b"2+2\n", {"a.bc": b"x=41\nx+1\n"})
    c("a.bc b.bc", b"x\n", {"a.bc": b"x=2\n", "b.bc": b"x*5\nquit\n"})
    c("missing.bc", b"1\n")
    c("-s", b"1+1\n")
