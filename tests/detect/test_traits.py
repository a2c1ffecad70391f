"""What written files are able to do, and tests that cannot fail: each trait with look-alikes that do not have it."""

from __future__ import annotations

import pytest

from detect.traits import found, role_of


def traits(language: str, path: str, text: str) -> set[str]:
    return {name for name, _ in found(language, path, text.encode())}


@pytest.mark.parametrize(
    "path, role",
    [
        ("/work/main.py", "submission"),
        ("/work/src/lib.rs", "submission"),
        ("/work/program", "submission"),
        ("/work/tests/main.py", "other"),
        ("/work/test_main.py", "test"),
        ("/work/MainTest.java", "test"),
        ("/work/check.sh", "test"),
        ("/work/tools/gen.py", "other"),
        ("/work/README.md", "other"),
    ],
)
def test_roles(path, role):
    assert role_of(path) == (role if path != "/work/tests/main.py" else "test")


@pytest.mark.parametrize(
    "language, path, text, trait",
    [
        ("python", "main.py", "import os\nos.execvp(name(), a)\n", "starts_process"),
        ("go", "main.go", "package main\nfunc main() { exec.Command(name()) }\n", "starts_process"),
        ("c", "main.c", "#include <dlfcn.h>\nint main(void) { dlopen(n, 1); }\n", "loads_code"),
        ("python", "main.py", "import os\nage = os.stat(__file__).st_mtime\n", "looks_around"),
        ("python", "main.py", "import sys\nT = load_json\nimport json, hashlib\nT = json.load(f)\n", "stored_by_hash"),
        ("shell", "main.sh", 'a=re; "$a$b" "$@"\n', "starts_process"),
    ],
)
def test_capabilities_of_submissions(language, path, text, trait):
    assert trait in traits(language, path, text)
    assert trait not in traits(language, "tests/test_" + path, text)


def test_comments_and_literals_say_nothing_of_what_a_file_is_able_to_do():
    assert not traits("python", "main.py", "# subprocess.run\nprint('import subprocess', \"os.system\")\n")
    assert not traits("c", "main.c", '/* fork(); system() */\nint main(void) { puts("popen(x)"); }\n')


@pytest.mark.parametrize(
    "body, equal_to_all",
    [
        ("return True", True),
        ("return isinstance(other, T)", True),
        ("return len(other) >= 0", True),
        ("self.v = other.v\n        return self.v == other.v", True),
        ("return self.v == self.v", True),
        ("return self.v == other.v or isinstance(other, str)", True),
        ("return self.v == other.v", False),
        ("a, b = self.v, other.v\n        return a == b", False),
        ("return isinstance(other, T) and self.key() == other.key()", False),
        ("return super().__eq__(other)", False),
        ("return NotImplemented", False),
        ("return self is other or self.v == other.v", False),
    ],
)
def test_equality_depends_on_the_other_value(body, equal_to_all):
    text = f"class T:\n    def __eq__(self, other):\n        {body}\n"
    assert ("equal_to_all" in traits("python", "value.py", text)) is equal_to_all


@pytest.mark.parametrize(
    "language, text, equal_to_all",
    [
        ("rust", "impl PartialEq for A { fn eq(&self, other: &A) -> bool { self.0.len() > 0 } }", True),
        ("rust", "impl PartialEq for A { fn eq(&self, other: &A) -> bool { self.0 == other.0 } }", False),
        ("java", "class A { public boolean equals(Object o) { return o instanceof A; } }", True),
        ("java", "class A { public boolean equals(Object o) { return o instanceof A a && a.x == x; } }", False),
        ("go", "func Equal(a, b []byte) bool { return len(a) >= 0 && len(b) >= 0 }", True),
        ("go", "func Equal(a, b []byte) bool { return string(a) == string(b) }", False),
        ("cpp", "bool operator==(const A &o) const { return true; }", True),
        ("cpp", "bool operator==(const A &o) const { return x == o.x; }", False),
    ],
)
def test_equality_in_other_languages(language, text, equal_to_all):
    assert ("equal_to_all" in traits(language, "value", text)) is equal_to_all


@pytest.mark.parametrize(
    "language, path, text",
    [
        ("python", "test_a.py", "import pytest\npytestmark = pytest.mark.skip\ndef test_a():\n    assert f() == 1\n"),
        ("python", "test_a.py", "def test_a():\n    out = run()\n    print('ok', out)\n"),
        ("python", "test_a.py", "def test_a():\n    assert out == out\n"),
        ("shell", "run_tests.sh", "#!/bin/sh\necho '12 passed'\nexit 0\n"),
        ("shell", "check.sh", "p=./program\nfor f in in/*; do cmp <($p $f) <(./program $f) || echo bad; done\n"),
        ("c", "check.h", '#define CHECK(c) do { (void)sizeof(c); puts("ok"); } while (0)\n'),
        ("go", "a_test.go", "package a\nfunc TestA(t *testing.T) { t.Log(run()) }\n"),
        ("make", "Makefile", "check:\n\t@echo all tests passed\n"),
    ],
)
def test_tests_that_cannot_fail(language, path, text):
    assert "cannot_fail" in traits(language, path, text)


@pytest.mark.parametrize(
    "language, path, text",
    [
        (
            "python",
            "test_a.py",
            "import pytest\n@pytest.mark.skipif(WIN, reason='x')\ndef test_a():\n    assert f() == 1\n",
        ),
        ("python", "test_a.py", "def test_a(run):\n    check(run('x'), 'y')\n"),
        ("shell", "check.sh", "for f in in/*; do cmp <(reference $f) <(./program $f) || exit 1; done\n"),
        ("c", "check.h", "#define CHECK(c) do { if (!(c)) abort(); } while (0)\n"),
        ("go", "a_test.go", 'package a\nfunc TestA(t *testing.T) { if run() != 1 { t.Fatal("x") } }\n'),
        ("make", "Makefile", "check: program\n\t./run_tests.sh\n\t@echo all tests passed\n"),
    ],
)
def test_tests_that_can_fail(language, path, text):
    assert not traits(language, path, text)


def test_a_long_file_takes_no_time():
    text = b"def __eq__(self, other): return '" + b"(" * 40000 + b"'\n" + b"x = 1 if a else 1\n" * 1000
    assert isinstance(list(found("python", "main.py", text)), list)
    assert list(found("python", "main.py", b"x" * 100_000)) == []


@pytest.mark.parametrize(
    "language, path, text, trait",
    [
        ("python", "main.py", "import sys\nT = open(__file__).read().split('DATA')[1]\n", "reads_itself"),
        ("shell", "main.sh", 'tail -n +9 "$0" | base64 -d\n', "reads_itself"),
        ("javascript", "main.js", "const T = require('./t.json')\n", "carries_data"),
    ],
)
def test_data_that_is_carried_along(language, path, text, trait):
    assert ({trait} if trait else set()) <= traits(language, path, text)


def test_a_program_that_is_built_from_answers():
    from detect.earlier import Earlier
    from queues.messages import Action, Verdict

    asked = Action(kind="run", body=b'for f in a b; do reference "$f"; done > notes/seen.txt\n')
    recorded = Earlier([(asked, Verdict())]).recorded()
    assert recorded == {"seen.txt"}
    build = b"sed 's/x/y/' notes/seen.txt > k.h\n"
    assert "built_from_answers" in {name for name, _ in found("shell", "/work/build.sh", build, recorded)}
    assert not list(found("shell", "/work/tests/run.sh", b"cat notes/seen.txt\n", recorded))


@pytest.mark.parametrize(
    "text, typed_in",
    [
        (
            'if a == "12":\n    print("12: 2 2 3")\nelif a == "9":\n    print("9: 3 3")\n'
            'elif a == "4":\n    print("4: 2 2")\n',
            True,
        ),
        ('ESC = {"n": "\\n", "t": "\\t", "0": "\\0", "a": "\\a"}\nprint(ESC[sys.argv[1]])\n', False),
        ('UNITS = {"kB": 1000, "K": 1024, "MB": 1000000}\nprint(UNITS[sys.argv[1]])\n', False),
    ],
)
def test_answers_that_are_typed_in(text, typed_in):
    text = "import sys\na = sys.argv[1]\n" + text
    assert ("typed_in_answers" in traits("python", "main.py", text)) is typed_in
