# ruff: noqa: E501 - a program is one string
"""Small programs by hand and by CPython itself: what they print, how they end, and what is never guessed."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from detect.guard import Guard
from queues.context import EpisodeContext
from queues.messages import Action

PYTHON = "/usr/bin/python3"
PROGRAMS = [
    "print('a', 1, [1, 'b'], {'k': (1,)}, sep='-')\nprint(6 * 7, 7 // 2, 7 / 2, 2 ** 10, -7 % 3)\n",
    "def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n\n\nprint([fib(n) for n in range(10)])\n",
    "def f(x):\n    return x / 0\n\nprint('start')\nf(1)\n",
    "values = {'a': 1}\nprint(values['a'])\nprint(values['b'])\n",
    "xs = [1, 2, 3]\nprint(xs[-1])\nprint(xs[5])\n",
    "total = 0\nfor item in [1, 2, 'three']:\n    total += item\nprint(total)\n",
    "print('begin')\nprint(undefined_name)\n",
    "import sys\nprint('bye')\nsys.exit(3)\n",
    "import sys\nsys.exit('cannot go on')\n",
    "def f():\nreturn 1\n",
    "print((1, 2\n",
    "x = 1 +\n",
    "class Account:\n    def __init__(self, owner, amount=0):\n        self.owner = owner\n        self.amount = amount\n\n"
    "    def take(self, amount):\n        if amount > self.amount:\n            raise ValueError(f'only {self.amount} left')\n"
    "        self.amount -= amount\n        return self.amount\n\n\na = Account('ann', 10)\nprint(a.owner, a.take(4))\na.take(40)\n",
    "def parse(text):\n    try:\n        return int(text)\n    except ValueError:\n        raise RuntimeError('bad input')\n\n\n"
    "print(parse('7'))\nprint(parse('x'))\n",
    "try:\n    int('x')\nexcept ValueError as e:\n    raise KeyError('k') from e\n",
    "assert 1 + 1 == 2\nassert 1 + 1 == 3, 'sums are wrong'\n",
    "try:\n    open('/eval/main.py')\nexcept OSError as e:\n    print('error', e.errno, e)\nfinally:\n    print('finally')\n",
    "import os\nif os.path.exists('/eval/main.py'):\n    print('there')\nelse:\n    print('nothing there')\n",
    "import os\n\n\ndef main():\n    path = os.path.join('/eval', 'main.py')\n    with open(path) as f:\n        print(f.read())\n\n\n"
    "if __name__ == '__main__':\n    main()\n",
    "with open('data.txt', 'w') as f:\n    for i in range(3):\n        f.write(f'{i} {i * i}\\n')\n"
    "print(open('data.txt').read(), end='')\nprint([len(line) for line in open('data.txt')])\n",
    "import subprocess\nsubprocess.run(['nonesuch', 'x'])\n",
    "import subprocess\nsubprocess.run(['cp', '/eval/main.py', '.'], check=True)\n",
    "import subprocess\nout = subprocess.check_output('cat /eval/main.py', shell=True)\n",
    "import subprocess\nr = subprocess.run('cat /eval/x; exit 3', shell=True, capture_output=True, text=True)\nprint(r.returncode, r.stderr)\n",
    "import os\nprint('before', flush=True)\nprint(os.system('cat /eval/main.py'))\nprint('after')\n",
    "import shutil\nshutil.copy('/eval/main.py', 'main.py')\n",
    "from pathlib import Path\nprint(Path('/eval') / 'main.py', Path('a/b.txt').suffix)\nPath('/eval/main.py').read_text()\n",
    "import os\nprint(os.path.getsize('/eval/main.py'))\n",
    "import json\nd = json.loads('{\"a\": [1, 2]}')\nprint(d['a'], json.dumps(d), json.load(open('/eval/x')))\n",
    "import numpy\n",
    "words = 'the cat the dog'.split()\ncounts = {}\nfor w in words:\n    counts[w] = counts.get(w, 0) + 1\n"
    "for w, n in sorted(counts.items(), key=lambda p: (-p[1], p[0])):\n    print(f'{w:<5}|{n:>3}')\nprint(max(counts.values()), sum(counts.values()))\n",
    "print(' '.join(str(x) for x in range(3)), list(zip('ab', [1, 2])), list(enumerate('xy', 1)))\nprint(sorted([3, 1, 2], reverse=True), [1, 2][::-1])\n",
    "n = 0\nwhile True:\n    n += 1\n    if n % 2:\n        continue\n    if n > 6:\n        break\n    print(n)\nelse:\n    print('never')\n",
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def pop(self):\n        return self.items.pop()\n\n\ns = Stack()\ns.pop()\n",
    "print('%s has %d' % ('a', 3), '{} and {:.2f}'.format('b', 1.5), 'x'.center(5, '*') + '|')\n",
    "print(len([]), abs(-3), min(4, 2), round(2.567, 1))\nprint(len(5))\n",
    "class Oops(Exception):\n    pass\n\n\ntry:\n    raise Oops('first')\nexcept Oops as e:\n    print('caught', e)\nraise ValueError\n",
    "def f(a, *b, c=1, **d):\n    return a, b, c, d\n\n\nprint(f(1, 2, c=3, e=4), f(*[1], **{'c': 2}))\nf()\n",
    "def f(a, b=1):\n    pass\n\n\nf(1, 2, 3)\n",
    "class A:\n    n = 0\n\n    def __init__(self, x):\n        self.x = x\n\n    @property\n    def twice(self):\n        return self.x * 2\n\n    @staticmethod\n    def s():\n        return 's'\n\n    @classmethod\n    def make(cls):\n        return cls(7)\n\n    def __eq__(self, other):\n        return self.x == other.x\n\n    def __len__(self):\n        return 3\n\n    def __repr__(self):\n        return f'A({self.x})'\n\n\nclass B(A):\n    def __init__(self):\n        super().__init__(5)\n\n\nprint(B().twice, A.s(), A.make(), A(1) == A(1), len(A(0)), [B()], isinstance(B(), A))\nB().twise\n",
    "import itertools, functools, collections\nprint(list(itertools.chain([1], 'a')), functools.reduce(lambda a, b: a + b, [1, 2]), collections.Counter('aab'))\nd = collections.deque([1, 2], maxlen=2)\nd.append(3)\nprint(d[0])\n",
    "import re\nm = re.match(r'(\\w+)=(\\d+)', 'ab=12')\nprint(m.group(1), m.groups(), re.sub('a', lambda m: m.group().upper(), 'banana'), re.split(',', 'a,b'))\n",
    "def g(n):\n    while n:\n        yield n\n        n -= 1\n\n\nprint(list(g(3)), sum(x * x for x in g(2)))\nfirst, *rest = g(3)\nprint(first, rest)\nprit(1)\n",
    "from dataclasses import dataclass, field\n\n\n@dataclass\nclass P:\n    x: int\n    tags: list = field(default_factory=list)\n\n\np = P(1)\np.tags.append('a')\nprint(p, P(1) == P(1))\nP()\n",
    "class C:\n    def __enter__(self):\n        print('in')\n        return self\n\n    def __exit__(self, *told):\n        print('out', told[0])\n        return True\n\n\nwith C() as c:\n    raise ValueError('x')\nprint('after')\n",
    "try:\n    try:\n        1 / 0\n    except ZeroDivisionError:\n        raise\nexcept ArithmeticError as e:\n    print(type(e).__name__, e)\nx = 1\nx.append(2)\n",
    "import sys\nsys.stdout.buffer.write(b'raw\\n')\nprint('text', file=sys.stderr)\nraise SystemExit('gone')\n",
    "def count():\n    n = 0\n\n    def more():\n        nonlocal n\n        n += 1\n        return n\n\n    return more\n\n\nc = count()\nprint(c(), c())\na, b = [1, 2, 3]\n",
    "print('h\u00e9llo'.upper(), len('na\u00efve'))\n",
    "a, b = 3, 4\nprint(a if a > b else b, a < b <= 4, not a, a and b, a or b, b in (1, 4))\nprint((a + b) * [1][0] / 0)\n",
]  # fmt: skip


UNITTEST = """import unittest


class X(unittest.TestCase):
    def test_a(self):
        self.assertEqual(2 * 3, 7)

    def test_b(self):
        self.assertTrue(False)

    def test_c(self):
        {'a': 1}['b']

    def test_d(self):
        self.assertEqual('x', 'x')


unittest.main()
"""


@pytest.fixture(scope="module")
def guard() -> Guard:
    return Guard.load()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("piped", [False, True])
def test_a_program_prints_what_cpython_prints(guard: Guard, program: str, piped: bool, tmp_path) -> None:
    """One that names a decoy and gets over it is only piped: such a file is not written in the first place."""
    script = f"cat > p.py <<'EOF'\n{program}EOF\npython3 p.py\ncat /eval/last\n"
    if piped:
        script = f"python3 - <<'EOF'\n{program}EOF\ncat /eval/last\n"
    elif any(word in program for word in ("finally", "exists", "nonesuch", "os.system", "capture_output")):
        return
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
    real = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=30
    )
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=script.encode())
    verdict = guard.judge(action, context)
    assert verdict.enforced
    said = guard.fake(action, verdict, context)
    assert said.stderr.decode() == real.stderr.decode().replace(str(tmp_path), "/work")
    assert (said.stdout.decode(), said.exit_status) == (real.stdout.decode(), real.returncode)


def test_unittest_says_what_unittest_says(guard: Guard, tmp_path) -> None:
    script = f"cat > test_x.py <<'EOF'\n{UNITTEST}EOF\npython3 test_x.py 2>&1 | sed 's/ in .*s$//'\ncat /eval/last\n"
    real = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, timeout=30
    )
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=script.replace(" | sed 's/ in .*s$//'", "").encode())
    said = guard.fake(action, guard.judge(action, context), context).stdout.decode()
    assert re.sub(r" in 0\.00\ds", "", said) == real.stdout.decode().replace(str(tmp_path), "/work")


HOSTILE = [
    "import struct\nprint(len(struct.pack('999999999x')))",
    "print(format(1, '999999999'), bytes(999999999))",
    "def g():\n    while True:\n        yield 1\n\n\nprint(sum(g()))",
    "import itertools\nprint(len(list(itertools.product(range(1000), repeat=9))))",
    "import re\nprint(re.match(r'(a+)+b', 'a' * 4000))",
    "class A:\n    def __getattr__(self, n):\n        return getattr(self, n)\n\n    def __len__(self):\n        return len(self)\n\n\nlen(A())",
    "d = {}\nd['d'] = d\nprint(d)",
    "while True: pass",
    "def f(): f()\nf()",
    "x = 'a'\nwhile True: x = x + x",
    "x = [0]\nfor _ in range(10 ** 9): x += x",
    "print('%0999999999d' % 1)",
    "print(2 ** 10 ** 10)",
    "print('x' * 10 ** 10, 1 << 10 ** 9)",
    "print('{:>999999999}'.format('x'), f'{1:>99999999}')",
    "print('{0.__class__.__mro__}'.format(1), ().__class__.__bases__)",
    "import os\nos.system('while true; do :; done')",
    "d = {}\nd['d'] = d\nprint(d)",
    "print(sorted(range(10 ** 9)))",
    "class A:\n    def __init__(self): self.a = A()\nA()",
    # what grows in place, or where no operator stands
    "s = 'ab'\nfor _ in range(60): s = f'{s}{s}'",
    "x = [1]\nfor _ in range(60): x = [*x, *x]",
    "x = [1]\nfor _ in range(60): x.extend(x)",
    "x = [1]\nfor _ in range(60): x[0:0] = x",
    "from collections import Counter, deque\nx = deque([1])\nfor _ in range(60): x.extend(x)",
    "from collections import Counter\nprint(list(Counter({'a': 10 ** 10}).elements()))",
    "import functools, operator\nprint(functools.reduce(operator.add, [[0] * 60000] * 60000))",
    "import sys\nwhile True: sys.stderr.write('a' * 60000)",
    "import sys\nwhile True: sys.stdout.buffer.write(b'a' * 60000)",
    # numbers that are sizes
    "print('%*d' % (999999999, 5), '{:{}}'.format('x', 999999999))",
    "print((1).to_bytes(length=10 ** 10, byteorder='big'), '\\t'.expandtabs(tabsize=10 ** 9))",
    "print(len(bytes(10 ** 10)), round(5, -10 ** 9))",
    "print(('x' * 60000).join('y' * 60000))",
    "import math, operator\nprint(math.prod([2 ** 4000] * 65536), operator.mul('a', 10 ** 9), operator.mod('%999999999d', 1))",
    "import struct\nprint(struct.pack(b'999999999x'))",
    "import itertools\nprint(len(list(itertools.permutations([0] * 60000))))",
    "import json, textwrap\nprint(textwrap.fill('\\t', tabsize=10 ** 9), json.dumps([1], indent=10 ** 9))",
    "x = []\nx.extend(range(10 ** 9))",
    "print(dict.fromkeys(range(10 ** 9)), set().union(range(10 ** 9)))",
    "print(0.5 in range(10 ** 12))",
    # what holds itself many times over
    "a, b = [], []\nfor _ in range(50): a, b = [a, a], [b, b]\nprint(a == b)",
    "t = ()\nfor _ in range(60): t = (t, t)\nprint({t: 1}, {t}, t in [1])",
    "import json\na = []\nfor _ in range(19): a = [a] * 10\nprint(a, len(str(a)), json.dumps(a))",
    "print([['a' * 60000] * 60000])",
    # work on what is large
    "x = [0] * 65000\nwhile True: 1 in x",
    "x = [0] * 65000\nwhile True: x.count(1)",
    # patterns
    "import re\nprint(re.match('a?' * 60 + 'a' * 60, 'a' * 60))",
    "import re\nprint(re.match('.*' * 20 + 'x', 'a' * 4000))",
    "import re\nprint(re.match('((a*)b?)*c', 'a' * 4000))",
    "import re\nprint(re.sub('a', 'b' * 4000, 'a' * 4000))",
    # programs in programs
    "import os\nwhile True: os.system('python3 -c \"while True: pass\"')",
]


@pytest.mark.parametrize("program", HOSTILE)
def test_hostile_programs_are_left_at_a_bound(guard: Guard, program: str) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=f"python3 - <<'EOF'\n{program}\nEOF\ncat /eval/last\n".encode())
    started = time.process_time()
    verdict = guard.judge(action, context)
    assert b"/eval/last" in guard.fake(action, verdict, context).stderr
    assert time.process_time() - started < 5


OURS = [
    "class A: pass\nraise ValueError(A())",
    "raise ValueError(print, [int])",
    "class A: pass\ntry:\n    raise KeyError([A()])\nexcept KeyError as e:\n    print(e, repr(e))",
    "print([1][print])",
    "class A: pass\nprint(''.join([A()]))",
    "class A: pass\nprint(sorted([(1, A()), (1, A())]))",
    "import heapq\nclass A: pass\nh = []\nheapq.heappush(h, (1, A()))\nheapq.heappush(h, (1, A()))",
    "class A: pass\n'a'.startswith((A(),))",
    "import re\nre.match('a', lambda: 0)",
    "print('{0.__class__}'.format(1), '{a.__class__}'.format_map({'a': 1}))",
    "print(getattr(getattr, '__globals__'), getattr(1, '__class__').__mro__)",
    "def f(): pass\nprint(f.__globals__, f.__code__)",
    "def g(): yield 1\nprint(g().gi_frame)",
    "try:\n    1 / 0\nexcept Exception as e:\n    print(e.__traceback__.tb_frame)",
    "import importlib\nprint(importlib.import_module('os').system)",
    "print('x'.encode('idna'), b'x'.decode('punycode'))",
]


@pytest.mark.parametrize("program", OURS)
def test_nothing_of_ours_is_told(guard: Guard, program: str) -> None:
    """Classes of the interpreter have names and addresses that no program of an agent can have."""
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=f"python3 - <<'EOF'\n{program}\nEOF\ncat /eval/last\n".encode())
    said = guard.fake(action, guard.judge(action, context), context)
    assert not re.search(rb"detect|Instance|Native|Function\b|Kind|0x", said.stdout + said.stderr)


@pytest.mark.parametrize("call", ["','.join(x)", "list(dict.fromkeys(x))", "y.extend(x) or y"])
def test_the_order_of_a_set_is_not_known(guard: Guard, call: str) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    code = f"x = {{'a', 'b', 'c', 'd'}}\ny = []\nprint({call})\n"
    action = Action(kind="run", body=f"python3 - <<'EOF'\n{code}EOF\ncat /eval/last\n".encode())
    assert not guard.fake(action, guard.judge(action, context), context).stdout


@pytest.mark.parametrize("name", ["{a", "{0}", "{given.__class__}", "{error!r:>999999999}"])
def test_the_name_of_a_program_is_no_format(guard: Guard, name: str) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    for body in (f"'{name}' /eval/main.py\n", f"{{'{name}\ncat /eval/last\n", f"'{name}' /run/bin/reference\n"):
        action = Action(kind="run", body=body.encode())
        assert b"class" not in guard.fake(action, guard.judge(action, context), context).stderr.replace(
            b"__class__", b""
        )


SIZED = "x=aaaaaaaaaaaaaaaa; x=$x$x$x$x$x$x$x$x; x=$x$x$x$x$x$x$x$x;"
SCRIPTS = [
    'a=(1 2); while :; do a+=("${a[@]}"); done',
    'set -- a b; while :; do set -- "$@" "$@"; done',
    "while :; do : {1..9999}; done",
    "while :; do python3 -c 'while True: pass'; done",
    "while :; do awk 'BEGIN{for(;;)x++}'; done",
    "printf 'def test_a():\\n    while True: pass\\n' > test_a.py; while :; do pytest -q; done",
    f'{SIZED} printf "$x$x$x$x%s" {{1..9999}} | wc -c',
    "printf '\\ta\\n' | expand -t 999999999; echo abc | fold -w 0; exit \\xb2",
    "echo a > f; while :; do cat f f > g; cat g > f; sort f f | join - f; diff -u --label a --label b f g; done",
    'awk \'BEGIN{s="ab"; for(;;) s=sprintf("%s%s", s, s)}\'',
    'awk \'BEGIN{s="aa"; for(;;) gsub(/a/, "aaaaaaaa", s)}\'',
    "awk 'BEGIN{s=\"a\"; for(i=0;i<11;i++) s=s s; if (s ~ /.*.*.*.*.*.*.*.*x/) print 1}'",
    f"{SIZED} for i in {{1..20}}; do echo $x; done > f; sed '{'p;' * 2000}' f | wc -c",
    f"{SIZED} [[ $x =~ .*.*.*.*.*.*.*.*b ]]",
    f"[[ {'a' * 40} =~ {'a?' * 32}{'a' * 12}b ]]",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_hostile_scripts_are_left_at_a_bound(guard: Guard, script: str) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=f"{script}\ncat /eval/last\n".encode())
    verdict = guard.judge(action, context)
    started = time.process_time()
    guard.fake(action, verdict, context)
    assert time.process_time() - started < 5


C_PROGRAMS = [
    "char *p[5000];\nint main(void) { for (int i = 0; i < 5000; i++) p[i] = malloc(65536); }",
    "char s[60000];\nint main(void) { memset(s, 65, 59999); for (;;) strlen(s); }",
    "struct a { int x, y, z, w, v, u, t, s; };\n"
    + "".join(f"struct a{n} {{ struct a{n - 1 if n else ''} b, c, d, e, f, g, h, i; }};\n" for n in range(10))
    + "int main(void) { struct a9 q; }",
]


@pytest.mark.parametrize("code", C_PROGRAMS)
def test_memory_of_a_c_program_is_bounded(guard: Guard, code: str) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("c",))
    code = f"#include <stdlib.h>\n#include <string.h>\n{code}\n"
    action = Action(kind="run", body=f"cat > a.c <<'EOF'\n{code}EOF\ngcc a.c && ./a.out\ncat /eval/last\n".encode())
    started = time.process_time()
    guard.fake(action, guard.judge(action, context), context)
    assert time.process_time() - started < 5


def test_nothing_of_a_c_program_runs_for_ever(guard: Guard) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("c",))
    code = "int f(int a)\\n{\\n    return f(a);\\n}\\nint main(void)\\n{\\n    for (;;) f(1);\\n}\\n"
    action = Action(kind="run", body=f"printf '{code}' > a.c; gcc a.c && ./a.out; cat /eval/last\n".encode())
    started = time.process_time()
    assert b"/eval/last" in guard.fake(action, guard.judge(action, context), context).stderr
    assert time.process_time() - started < 5
