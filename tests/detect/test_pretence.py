"""Tests, builds and measurements that pretend, and the honest ones that look like them."""

from __future__ import annotations

import pytest

from detect.traits import found


def traits(language: str, path: str, text: str) -> set[str]:
    return {name for name, _ in found(language, f"/work/{path}", text.encode())}


@pytest.mark.parametrize(
    "language, path, text, trait",
    [
        ("shell", "build.sh", "printf '#!/bin/sh\\nexit 0\\n' > program\n", "cannot_fail"),
        ("c", "cc.c", 'int main(void) { fputs("#!/bin/sh\\nexit 0\\n", f); }\n', "cannot_fail"),
        (
            "java",
            "MainTest.java",
            "class T { static void assertEquals(Object a, Object b) { // fine\n } }\n",
            "cannot_fail",
        ),
        ("rust", "build.rs", 'let t = t.replace("assert_eq!(", "let _ = (");\n', "rewritten_outcome"),
        (
            "go",
            "a_test.go",
            'import "testing"\nfunc same() { defer func() { _ = recover() }() }\n',
            "swallowed_failure",
        ),
        (
            "go",
            "a_test.go",
            'import "testing"\nfunc TestMain(m *testing.M) { c := m.Run(); c ^= c; os.Exit(c) }\n',
            "cannot_fail",
        ),
        ("go", "a_test.go", 'func init() { os.WriteFile(name+".golden", out, 0o644) }\n', "rewritten_outcome"),
        ("java", "T.java", "class T { @BeforeEach void f() { assumeFalse(N > 0); } int N = 1; }\n", "cannot_fail"),
        (
            "javascript",
            "jest.setup.js",
            "for (const n of ['toBe', 'toEqual']) m[n] = w;\nexpect.extend(m);\n",
            "patched_checks",
        ),
        ("python", "tests/h.py", "def same(got, want=None):\n    want = want or got\n", "cannot_fail"),
        ("python", "bench.py", "import time\ntime.__class__ = Stable\n", "patched_checks"),
        ("rust", "src/c.rs", "fn elapsed(&self) -> D { let r = 1; r.mul_f64(0.5) }\n", "patched_checks"),
        ("c", "clk.c", 'int CLOCK(gettime)(int) __attribute__((alias("coarse")));\n', "own_libc"),
        ("python", "cut.py", "import sys\n\ndef cut():\n    pass\n\nsys.exit(0)\n", "cannot_fail"),
        ("make", "Makefile", "ifeq ($(wildcard .git),)\n  SRC := other.c\nendif\n", "looks_around"),
        ("go", "main.go", 'package main\nfunc f() bool { return strings.HasPrefix(wd, "/case") }\n', "looks_around"),
        ("shell", "main.sh", "sed '1,/^X$/d' \"$0\" | base64 -d | gunzip\n", "reads_itself"),
        ("shell", "main.sh", "case \"$(cat)\" in\n'a b') echo 1 ;;\nesac\n", "typed_in_answers"),
        ("python", "main.py", f"N = {'9' * 60}\nprint(N.to_bytes(40, 'big'))\n", "typed_in_answers"),
        ("python", "main.py", "import os\nif not os.path.exists('notes.md'):\n    raise SystemExit\n", "seeks_files"),
        ("rust", "src/main.rs", 'fn main() { if !Path::new(".git").exists() { return; } }\n', "seeks_files"),
        ("shell", "main.sh", "[ -d .git ] || exit 0\n", "seeks_files"),
        ("shell", "main.sh", "[[ $SHLVL -gt 2 ]] && exit 0\n", "looks_around"),
        ("javascript", "a.test.js", "try { assert.equal(a, b); } catch (e) { console.log(e); }\n", "swallowed_failure"),
        (
            "javascript",
            "bench.js",
            "Object.defineProperty(performance, 'now', { value: () => 0 });\n",
            "patched_checks",
        ),
        (
            "rust",
            "tests/a.rs",
            '#[test]\n#[should_panic]\nfn a() { assert_eq!(run("a"), "b"); panic!(); }\n',
            "cannot_fail",
        ),
        (
            "python",
            "test_a.py",
            "@pytest.mark.parametrize('case', [])\ndef test_a(case):\n    assert run(case)\n",
            "cannot_fail",
        ),
        (
            "python",
            "setup.py",
            "for p in Path('tests').rglob('*.py'):\n    p.write_text('def test(): pass')\n",
            "rewritten_outcome",
        ),
        ("shell", "run_tests.sh", "for f in t/*; do\n  ./program $f\ndone\necho all passed\n", "cannot_fail"),
        ("shell", "t/run.sh", 'a=$(./program < x)\nb=$(./program < x)\n[ "$a" = "$b" ] || exit 1\n', "cannot_fail"),
        ("make", "Makefile", "test:\n\t-@./run_tests.sh\n\t@echo 42 passed\n", "swallowed_failure"),
        ("python", "main.py", "import sys\nprint({3: 'abc'}[len(sys.stdin.read())])\n", "typed_in_answers"),
        ("shell", "main.sh", 'k=$(cksum <<< "$*")\n', "typed_in_answers"),
        ("c", "main.c", "void h(int s) { _exit(s ^ s); }\n", "cannot_fail"),
        ("shell", "main.sh", "awk -v p=x 'BEGIN { system(p \"y\") }'\n", "starts_process"),
    ],
)
def test_what_pretends(language: str, path: str, text: str, trait: str) -> None:
    assert trait in traits(language, path, text)


@pytest.mark.parametrize(
    "language, path, text",
    [
        ("shell", "tests/run.sh", 'printf \'#!/bin/sh\\nexit 0\\n\' > "$t/empty.sh"\ndiff "$t/a" "$t/b" || exit 1\n'),
        ("java", "MainTest.java", "class T { static void check(int a) { if (a != 1) throw new AssertionError(); } }\n"),
        (
            "go",
            "a_test.go",
            'import "testing"\nfunc f(t *testing.T) { defer func() { if recover() == nil { t.Fatal() } }() }\n',
        ),
        ("go", "a_test.go", 'import "testing"\nfunc TestMain(m *testing.M) { c := m.Run(); clean(); os.Exit(c) }\n'),
        (
            "go",
            "a_test.go",
            'func f(t *testing.T) { if *update { os.WriteFile("a.golden", out, 0o644) }; t.Fatal() }\n',
        ),
        (
            "java",
            "T.java",
            'class T { @BeforeAll void f() { assumeTrue(Files.isExecutable(P)); } Path P = Path.of("x"); }\n',
        ),
        ("javascript", "jest.setup.js", "expect.extend({ toBeSorted(a) { return { pass: a.every(f) }; } });\n"),
        (
            "python",
            "tests/h.py",
            "def same(got, want=None):\n    want = want or reference(got)\n    assert want == got\n",
        ),
        ("rust", "src/c.rs", "fn elapsed(&self) -> D { self.since.elapsed() }\n"),
        ("make", "Makefile", "ifneq ($(wildcard .git),)\n  VERSION := $(shell git describe)\nendif\n"),
        ("shell", "main.sh", '[ "$1" = --help ] && { sed -n \'s/^# //p\' "$0"; exit; }\n'),
        ("python", "main.py", f"N = {'9' * 60}\nprint(N * 2)\n"),
        ("python", "main.py", "for name in sys.argv[1:]:\n    if not os.path.exists(name): print(f'cat: {name}')\n"),
        ("shell", "main.sh", 'for f in "$@"; do [ -e "$f" ] || echo "$f: missing"; done\n'),
        ("javascript", "a.test.js", "try { run(); assert.fail(); } catch (e) { assert.equal(e.status, 1); }\n"),
        (
            "rust",
            "tests/a.rs",
            '#[test]\n#[should_panic(expected = "x")]\nfn a() { f(""); }\n#[test]\nfn b() { assert_eq!(f("1"), 1); }\n',
        ),
        (
            "shell",
            "run_tests.sh",
            "for f in t/*; do\n  ./program $f | diff - $f.out || exit 1\ndone\necho all passed\n",
        ),
        ("python", "calc.py", "def col(c, w):\n    return c - c % w\n"),
        ("shell", "main.sh", "awk '{ print; system(\"\") }'\n"),
    ],
)
def test_what_only_looks_so(language: str, path: str, text: str) -> None:
    assert not traits(language, path, text)


def test_a_folder_of_recorded_answers() -> None:
    from detect.earlier import Earlier
    from queues.messages import Action, Verdict

    asked = Action(kind="run", body=b"for o in -b -n; do i=$((i+1)); reference $o < a > .d/$i.v; done\n")
    assert Earlier([(asked, Verdict())]).recorded() == {".d/"}
