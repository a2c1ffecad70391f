"""C files that look quiet and are not, and honest ones that are."""

from __future__ import annotations

import pytest

from detect.quiet import is_quiet
from tests.detect.test_screen import cleared, read_hits, write

HEADERS = "".join(f"#include <{name}.h>\n" for name in ("stdio", "stdlib", "string", "unistd", "fcntl"))


def program(body: str, before: str = "") -> str:
    return f"{HEADERS}{before}int main(int argc, char **argv)\n{{\n{body}\nreturn 0;\n}}\n"


def opening(name: str, body: str, before: str = "") -> str:
    """A program that opens a file of that name; `B` is a text that begins with a slash."""
    body = body.replace("B;", "char b[9]; b[0] = 40 + 7;")
    return program(f'{body} FILE *f = fopen({name}, "r"); if (f) putchar(getc(f));', before)


@pytest.mark.parametrize(
    "body",
    [
        program('/\\\n* " */ fork(); /* " */'),
        program("/* x *\\\n/ fork(); // */"),
        program("/* x *\\ \n/ fork(); // */"),
        program("// what??/\n/*\nfork(); //*/"),
        program("int a = 4 //* x */ 2; fork();\n;"),
        program("fo\\\nrk();"),
        program("for\\\n  k();"),
        program("#if 0\ndon't\n#endif\nfork(); char c = '\"';"),
        program("int n = 1'000; fork(); n = 1'000;"),
        program('const char *s = R"(a"b)"; fork(); s = ")";'),
        program("%:define X fork"),
        program('puts("a"); /* x */ int a = 1 # 2;'),
    ],
)
def test_what_is_a_comment_or_a_text_for_the_compiler_only(body: str):
    assert not cleared(write("main.c", body))


@pytest.mark.parametrize(
    "line",
    [
        "#include <mntent.h>",
        "#include </eval/main.c>",
        "#include <../main.c>",
        "#include HEADER",
        "#include_next <stdio.h>",
        "#include/**/<sys/socket.h>",
        "#import <stdio.h>",
        "#embed <main.py>",
        "#pragma weak own = creat",
        "# \\\n  include <netdb.h>",
    ],
)
def test_only_headers_that_are_known_are_included(line: str):
    assert not cleared(write("main.c", line + "\n" + program("return 1;")))


@pytest.mark.parametrize(
    "call",
    [
        *("chown", "lchown", "fchmodat", "creat64", "mkdirat", "mknodat", "mkfifoat", "truncate64", "acct"),
        *("mkstemps", "mkostemps64", "tmpfile64", "tmpnam_r", "getdents64", "fdopendir", "readdir64", "fts64_read"),
        *("_Fork", "daemon", "forkpty", "pthread_create", "thrd_create", "rcmd", "rexec", "ruserok", "posix_spawnp"),
        *("connect", "accept4", "sendmmsg", "recvmsg", "gethostbyaddr", "getservbyname", "res_query", "getaddrinfo_a"),
        *(
            "setmntent",
            "getmntent",
            "utmpname",
            "updwtmpx",
            "pututxline",
            "logwtmp",
            "putpwent",
            "getgrnam",
            "getspnam",
        ),
        *("getttyent", "getfsent", "getdate", "getxattr", "lsetxattr", "inotify_add_watch", "fanotify_mark"),
        *("pwritev2", "fallocate64", "ftruncate64", "vmsplice", "tee", "copy_file_range", "dup2", "fcntl", "ioctl"),
        *(
            "backtrace_symbols_fd",
            "malloc_info",
            "mtrace",
            "monstartup",
            "sprofil",
            "syslog",
            "iconv",
            "bindtextdomain",
        ),
        *("confstr", "ctermid", "cuserid", "ttyname_r", "realpath", "getcwd", "get_current_dir_name", "getpass"),
        *("kill", "tgkill", "sigqueue", "raise", "alarm", "nice", "sethostname", "clearenv", "initgroups", "longjmp"),
        *("io_uring_setup_syscall", "_IO_file_fopen", "_ZNSt13basic_filebuf", "__libc_system", "sem_unlink"),
    ],
)
def test_the_library_does_nothing_but_read_print_and_compute(call: str):
    assert call == "fcntl" or not is_quiet("c", program(f"{call}(1, 2);").encode())
    assert not is_quiet("c", program("fork();", f"int {call}();\n").encode())


@pytest.mark.parametrize(
    "body",
    [
        program("int (*f)(const char *) = (void *)((char *)puts - 200); f(argv[1]);"),
        program("((int (*)(const char *))((char *)stdout - 200))(argv[1]);"),
        program("((char *(*)(const char *))((char *)stdout - 200))(argv[1]);"),
        program("fn *f = (void *)((char *)puts - 200); f(argv[1]);", "typedef int fn(const char *);\n"),
        program("typeof(main) *f = (void *)((char *)puts - 200); f(1, argv);"),
        program("auto f = (char *)puts - 200;"),
        program("goto *((char *)puts - 200);"),
        "const int main[] = { 235, 254 };\n",
        program("own(1);", '[[gnu::alias("creat")]] int own(int);\n'),
    ],
)
def test_functions_are_those_that_are_named(body: str):
    assert not cleared(write("main.c", body))


@pytest.mark.parametrize(
    "body",
    [
        opening("b", "B;"),
        opening("b", "char a, b[9]; b[0] = 6 * 8 - 1;"),
        opening("n", "B; const char *n = b;"),
        opening("n", "B; const char *n; n = b;"),
        opening("n", "B; const char *n = argc > 1 ? argv[1] : b;"),
        opening("n", "B; const char *n = argc > 1 ? b : argv[1];"),
        opening("n", "B; const char *n = 0; argc ? (n = b) : 0;"),
        opening("n", "B; const char *n = 0, **q = &n; *q = b;"),
        opening("n", "B; void *k, *n; n = b;"),
        opening("n", 'const char *n = getenv("HOME");'),
        opening("n", "const char *n = strerror(5);"),
        opening("n", "long t = 0; const char *n = ctime(&t);"),
        opening("n", "static char n[9]; n[0] = 40 + 7;"),
        opening("n", "T k, n; n[0] = 40 + 7;", "typedef char T[9];\n"),
        opening("n[0]", "char (*n)[9] = malloc(9); n[0][0] = 40 + 7;"),
        opening("l[1]", "B; const char *l[2] = { argv[1], b };"),
        opening("l[1]", "B; const char *l[2] = { argv[1] }; l[1] = b;"),
        opening("s.n", "struct { char n[9]; } s; s.n[0] = 40 + 7;"),
        opening("optarg", "B; optarg = b;"),
        opening("n", "b[0] = 46; ++*b; const char *n = NULL;", "#undef NULL\n#define NULL b\nchar b[9];\n"),
        program(
            "B; show(b);".replace("B;", "char b[9]; b[0] = 40 + 7;"),
            'static void show(const char *n)\n{\n    fopen(n, "r");\n}\n',
        ),
        program(
            "show(argv[1]); qsort(argv, 1, 1, show);", 'static int show(const char *n)\n{\n    fopen(n, "r");\n}\n'
        ),
        f'{HEADERS}void show(const char *n)\n{{\n    fopen(n, "r");\n}}\n',
        f'{HEADERS}int show(n) char *n; {{ fopen(n, "r"); }}\n',
    ],
)
def test_names_of_files_are_made_of_nothing(body: str):
    assert not cleared(write("main.c", body))


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("argv[1][0] = 40 + 7;", ""),
        ("*argv[1] = 40 + 7;", ""),
        ("*(argv[1] + 1) = 40 + 7;", ""),
        ("(argv[1])[0] = 40 + 7;", ""),
        ("0[argv[1]] = 40 + 7;", ""),
        ("argv[1][0] += 7;", ""),
        ("argv[1][0]++;", ""),
        ("++*argv[1];", ""),
        ("(*argv[1])++;", ""),
        ("B; argv[1] = b;", ""),
        ("B; strcpy(argv[1], b);", ""),
        ('sprintf(argv[1], "x", 40 + 7);', ""),
        ('scanf("%s", argv[1]);', ""),
        ('printf("%d%hhn", 47 - 0, argv[1]);', ""),
        ("char *p = argv[1]; *p = 40 + 7;", ""),
        ("char *p = argv[1], *q; q = p; *q++ = 40 + 7;", ""),
        ("char *p; if (argc) p = argv[1]; p[0] = 40 + 7;", ""),
        ("const char *p = argv[1]; *(char *)p = 40 + 7;", ""),
        ("char *e; strtol(argv[1], &e, 10); *e = 40 + 7;", ""),
        ("char *p = strchr(argv[1], 46); *p = 40 + 7;", ""),
        ("long p = (long)argv[1]; *(char *)p = 40 + 7;", ""),
        ("char **p = argv; p[1][0] = 40 + 7;", ""),
        ("char **p = &argv[0]; p[1][0] = 40 + 7;", ""),
        ("char *l[2]; l[0] = argv[1]; *l[0] = 40 + 7;", ""),
        ("struct { char *p; } s; s.p = argv[1]; *s.p = 40 + 7;", ""),
        ("B; char *w[2]; w[1] = b; main(2, w);", ""),
        ("char argv[9][9]; argv[1][0] = 40 + 7;", ""),
        ("edit(argv[1]);", "static void edit(char *s)\n{\n    s[0] = 40 + 7;\n}\n"),
        ("edit(argv[1]);", "static void edit(const char *s)\n{\n    char *t = s; t[0] = 40 + 7;\n}\n"),
        ("edit(argv[1]);", "static void edit(long s)\n{\n    *(char *)s = 40 + 7;\n}\n"),
        ("strcmp(argv[1], 0);", "int x; static int strcmp(char *a, char *b)\n{ a[0] = 40 + 7; return 0; }\n"),
        ("B; strcmp(argv[1], b);", "#define strcmp strcpy\n"),
        ("argv[1][0] TO 40 + 7;", "#define TO =\n"),
        ("char *p = argv[1]; TO p = 40 + 7;", "#define TO 0; *\n"),
        ("V[0] = 40 + 7;", "#define V argv[1]\n"),
        ("OF(argv[1]) = 40 + 7;", "#define OF(x) x[0]\n"),
        ("if (argv[1])", "#define if(x) *(x) = 40 + 7;\n"),
        ("b[1][0] = 40 + 7;", "#define argv b\nchar b[9][9];\n"),
    ],
)
def test_arguments_are_what_the_program_is_given(body: str, before: str):
    assert not cleared(write("main.c", opening("argv[1]", body, before)))


@pytest.mark.parametrize("body", ["(" * 3000 + "argv[1]" + ")" * 3000 + ";", "puts(argv[1]);" * 400])
def test_hostile_files_are_not_looked_at_for_long(body: str):
    assert not is_quiet("c", opening("argv[1]", body).encode())


@pytest.mark.parametrize(
    "before", ["#define O_RDONLY 577\n", "#undef O_RDONLY\n#define O_RDONLY 577\n", "enum { X, O_RDONLY };\n"]
)
def test_what_is_opened_to_be_read_is_not_written(before: str):
    body = program("int f = open(argv[1], O_RDONLY); write(f, argv[0], 1);", before)
    assert not cleared(write("main.c", body.replace("#include <fcntl.h>\n", "")))


COPY = "static void copy(FILE *f)\n{\n    int c;\n    while ((c = getc(f)) != EOF) putchar(c);\n}\n"
SHOW = (
    'static int show(const char *name)\n{\n    FILE *f = strcmp(name, "-") ? fopen(name, "r") : stdin;\n'
    "    if (!f) { perror(name); return 1; }\n    return 0;\n}\n"
)


@pytest.mark.parametrize(
    "body",
    [
        program(
            'for (int i = 1; i < argc; i++) { FILE *f = strcmp(argv[i], "-") ? fopen(argv[i], "r") : stdin;'
            " if (!f) { perror(argv[i]); continue; } copy(f); }",
            COPY,
        ),
        program(
            "int i = 1;\nfor (; i < argc && argv[i][0] == '-' && argv[i][1]; i++)\n"
            "    for (char *p = argv[i] + 1; *p; p++) if (*p == 'n') puts(\"n\");\n"
            'const char *name = i < argc ? argv[i] : "-";\nFILE *f = strcmp(name, "-") ? fopen(name, "r") : stdin;\n'
            'if (!f) { fprintf(stderr, "%s: %s", name, "no"); return 1; }'
        ),
        program('return show(argc > 1 ? argv[1] : "-");', SHOW),
        program(
            "int o, n = 0;\nwhile ((o = getopt(argc, argv, \"n:\")) != -1) n = o == 'n' ? atoi(optarg) : 0;\n"
            "int fd = open(argv[optind], O_RDONLY); char b[99]; ssize_t k = read(fd, b, n); write(1, b, k);"
        ),
        program(
            'char *end; long n = strtol(argv[1], &end, 10); if (*end || end == argv[1]) return 1; printf("%ld", n);'
            '\nFILE *f = fopen(argv[2], "r");'
        ),
        program("#define OF(a) \\\n    ((a) + 1)\nprintf(\"%d\", OF(argc)); /* it's ** one */ // of 'two'"),
    ],
)
def test_honest_programs_are_cleared(body: str):
    action = write("main.c", body)
    assert not read_hits(action)
    assert cleared(action)
