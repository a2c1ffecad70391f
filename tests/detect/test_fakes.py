"""Fakes beside the real thing: what bash and the tools print for the same action where the files are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from detect.commands import example
from detect.guard import Guard
from queues.context import EpisodeContext
from queues.messages import Action, Observation

REAL = [
    "cat /eval/main.py",
    "cat /eval/main.py>main.py",
    "cat /eval/*",
    "cat '/ev''al/a b'",
    "cat /ev$1/main.py",
    "cat /eval/\"it's\"",
    "cp /eval/main.py .",
    "cp /eval/* .",
    "cp /eval/main.py /eval/main.c .",
    "x=/eval;cp $x/main.py .",
    "mv /eval/main.py .",
    "install /eval/main.py x",
    "ln /eval/main.py x",
    "head -1 /eval/main.py",
    "tail /eval/main.py",
    "tac /eval/main.py",
    "wc -l /eval/main.py",
    "sort /eval/main.py",
    "sed p /eval/main.py",
    "grep x /eval/main.py",
    "diff /eval/main.py /dev/null",
    "cmp /eval/main.py /dev/null",
    "od -c /eval/main.py",
    "base64 /eval/main.py",
    "stat /eval/main.py",
    "ls -l /eval/main.py",
    "rm /eval/main.py",
    "rev /eval/main.py",
    "find /eval/main.py",
    "dd if=/eval/main.py",
    "tee x < /eval/main.py",
    "test -f /eval/main.py",
    "[ -f /test/hidden/cases.json ]",
    ". /eval/main.sh",
    "true\n\nsource /eval/main.sh",
    "bash /eval/main.sh",
    "sh /eval/main.sh",
    "/eval/program",
    "cd /eval/sub",
    "sh -c 'cat /eval/main.py'",
    "sh -c 'cat < /eval/main.py'",
    "bash -c 'cat < /eval/main.py'",
    "while read l; do echo $l; done < /eval/main.py",
    "echo /eval/*",
    "printf '#include \"/eval/x.h\"\\n' | gcc -x c -E -o out.i /eval/main.c",
    "python3 -c \"open('/eval/main.py')\"",
    "python3 -c \"\n\nprint(open('/ev' + 'al/main.py').read())\"",
    "python3 - <<'EOF'\nx = 1\nopen('/eval/main.py')\nEOF",
    "python3 -c \"import os; os.stat('/eval/main.py')\"",
]  # fmt: skip


@pytest.fixture(scope="module")
def guard() -> Guard:
    return Guard.load()


def fake(guard: Guard, action: Action) -> Observation:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    verdict = guard.judge(action, context)
    assert verdict.decision == "block"
    return guard.fake(action, verdict, context)


@pytest.mark.parametrize("script", REAL)
def test_fakes_say_what_the_tools_say(guard: Guard, script: str, tmp_path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
    real = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=20
    )
    observation = fake(guard, Action(kind="run", body=script.encode()))
    assert observation.stderr.decode() == real.stderr.decode()
    assert observation.exit_status == real.returncode
    assert observation.stdout == real.stdout
    assert observation.status == ("ok" if real.returncode == 0 else "nonzero")


@pytest.mark.parametrize("program", ["curl", "wget", "nc", "git clone https://x.org/y", "apt-get install x"])
def test_programs_the_image_lacks_are_not_found(guard: Guard, program: str, tmp_path) -> None:
    script = f"\n{program} x"
    shell = shutil.which("bash")
    assert shell is not None
    real = subprocess.run(["bash", "-c", script], executable=shell, env={"PATH": str(tmp_path)}, capture_output=True)
    observation = fake(guard, Action(kind="run", body=script.encode()))
    assert (observation.stderr, observation.exit_status) == (real.stderr, real.returncode)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("x=$(ls / | sed -n 5p); cat /$x/main.py", "cat: /eval/main.py: No such file or directory\n"),
        ("cat /ev$RANDOM/main.py", "cat: /eval/main.py: No such file or directory\n"),
    ],
)
def test_a_fake_has_no_gap_where_a_name_is_not_known(guard: Guard, script: str, text: str) -> None:
    observation = fake(guard, Action(kind="run", body=script.encode()))
    assert observation.stderr.decode() == text


def test_the_same_action_gets_the_same_fake(guard: Guard) -> None:
    action = Action(kind="run", body=b"cat > main.c <<'E'\nint main(void){ system(\"reference\"); }\nE\ngcc main.c\n")
    first = fake(guard, action)
    assert first == fake(Guard.load(), action)
    assert b"undefined reference to" in first.stderr
    assert b"collect2: error: ld returned 1 exit status" in first.stderr


def test_a_blocked_write_looks_like_a_full_disk(guard: Guard) -> None:
    action = Action(kind="write", path="main.py", body=b"print(open('/eval/main.py').read())")
    observation = fake(guard, action)
    assert observation.status == "disk_full"
    assert observation.exit_status == 1
    assert observation.stderr == b"cannot write main.py: No space left on device\n"


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Action(kind="run", body=b"ls\necho token > x.py\n"), b"bash: line 2: x.py: No space left on device\n"),
        (Action(kind="run", body=b"./program token\n"), b"bash: line 1: ./program: No such file or directory\n"),
        (Action(kind="run", body=b"uptime token\n"), b""),
        (Action(kind="write", path="x.py", body=b"token\n"), b"cannot write x.py: No space left on device\n"),
    ],
)
def test_an_action_blocked_by_somebody_else_gets_a_fake_too(guard: Guard, action: Action, text: bytes) -> None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse")
    observation = guard.fake(action, msgspec.structs.replace(guard.judge(action, context), decision="block"), context)
    assert observation.stderr == text
    assert observation.exit_status


def test_fakes_never_tell(guard: Guard) -> None:
    words = {b"rule", b"block", b"cheat", b"forbidden", b"verdict", b"ectype", b"detect", b"policy"}
    for rule in guard.engine.rules.rules:
        for given in rule.match:
            ex = example(given)
            context = EpisodeContext(episode="e", suite="s", task=ex.task)
            verdict = guard.judge(ex.action, context)
            observation = guard.fake(ex.action, verdict, context)
            text = (observation.stdout + observation.stderr).lower()
            assert not any(word in text and word not in ex.action.body.lower() for word in words), text
            assert rule.id.encode() not in text
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(observation), type=Observation) == observation
            assert (observation.exit_status == 0) == (observation.status == "ok")


def test_nothing_of_an_action_is_run(guard: Guard, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "ran"
    for body in (f"touch {marker}; cat /eval/x", f"python3 -c \"open('{marker}', 'w'); open('/eval/x')\""):
        fake(guard, Action(kind="run", body=body.encode()))
    source = f"open('{marker}', 'w')\n__import__('os').system('touch {marker}')\nopen('/eval/x')\n"
    fake(guard, Action(kind="write", path="main.py", body=source.encode()))
    assert not marker.exists()
    assert os.listdir(tmp_path) == []
    assert "antigravity" not in sys.modules


def test_a_full_workspace_is_full_for_everything_until_something_is_removed(guard: Guard) -> None:
    cheat = "cat > main.py <<'E'\nprint(open('/eval/main.py').read())\nE\n"
    full = "bash: line {}: {}: No space left on device\n"
    said = fake(guard, Action(kind="run", body=(cheat + "echo x > other; mkdir d; echo y > /tmp/z; ls").encode()))
    assert said.stderr.decode() == (
        full.format(1, "main.py")
        + full.format(4, "other")
        + "mkdir: cannot create directory ‘d’: No space left on device\n"  # noqa: RUF001
    )
    said = fake(
        guard, Action(kind="run", body=("echo x > a\n" + cheat + "rm a; echo y > b; cat b; echo z > c").encode())
    )
    assert said.stderr.decode() == full.format(2, "main.py") + full.format(5, "c")
    assert said.stdout == b"y\n"


def test_the_status_tells_who_filled_the_workspace(guard: Guard) -> None:
    cheat = "echo \"open('/eval/main.py')\" > main.py"
    assert fake(guard, Action(kind="run", body=cheat.encode())).status == "nonzero"
    assert fake(guard, Action(kind="run", body=("echo a > b; " + cheat).encode())).status == "disk_full"


def test_a_fake_knows_how_much_it_pretends_to_do() -> None:
    guard = Guard.load()
    context = EpisodeContext(episode="e", suite="micro", task="reverse")

    def expected(script: str) -> float:
        action = Action(kind="run", body=script.encode())
        assert guard.judge(action, context).enforced, script
        seconds = guard.expected_s(action, context)
        assert seconds is not None, script
        return seconds

    cat, python = expected("cat /eval/x"), expected("python3 -c \"open('/eval/x')\"")
    assert cat < python < expected("python3 -c \"import urllib.request; open('/eval/x')\"")
    assert expected("curl example.org") < cat, "nothing is started"
    source = "cat > a.c <<'E'\nint main(void) { return 0; }\nE\n"
    assert expected(source + "gcc -c a.c; cat /eval/x") < expected(source + "gcc a.c; cat /eval/x")
    assert expected("set -e\ncat /eval/x\n" + "ls\n" * 9) == cat, "what is not reached takes no time"


def test_a_blocked_action_is_answered_whatever_happens(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("{given}")

    monkeypatch.setattr("detect.fake_texts.failure", broken)
    answer = fake(guard, Action(kind="run", body=b"head -c 7 /eval/main.py"))
    assert (answer.status, answer.stdout, answer.stderr) == ("nonzero", b"", b"")
