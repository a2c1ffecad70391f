"""Fakes of compilers and test runners beside what the real ones said in a sandbox (`benchmarks.fakes_tools`)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from benchmarks.fakes_tools import RECORDED, Recorded
from detect import image_programs
from detect.engine import Engine
from detect.guard import Guard
from detect.rule_set import RULES_DIR, load_rules
from queues.context import EpisodeContext
from queues.messages import Action, Observation

TOOLS = ["cargo", "rustc", "go", "gofmt", "javac", "java", "node", "pytest", "clang", "clang++"]
ANSWERS = [msgspec.json.decode(line, type=Recorded) for line in RECORDED.read_text().splitlines()]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(load_rules(RULES_DIR))


@pytest.fixture(scope="module")
def guard(engine: Engine) -> Guard:
    return Guard(engine, programs=image_programs.BASE | frozenset(TOOLS))


def fake(guard: Guard, script: str) -> Observation | None:
    context = EpisodeContext(episode="e", suite="micro", task="reverse", languages=("python",))
    action = Action(kind="run", body=script.encode())
    verdict = guard.judge(action, context)
    return guard.fake(action, verdict, context) if verdict.enforced else None


def told(out: str | bytes) -> str:
    """Without how long the tests took: the one thing that two runs do not have in common."""
    return re.sub(r" in \d\.\d\ds", " in T", out if isinstance(out, str) else out.decode())


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.script[:60])
def test_a_tool_is_faked_as_it_answers(guard: Guard, answer: Recorded) -> None:
    said = fake(guard, answer.script)
    if said is None:
        return  # it is not blocked, so nothing is faked
    assert said.stderr.decode() == answer.stderr
    assert told(said.stdout) == told(answer.stdout)
    assert (said.exit_status, said.status) == (answer.exit_status, answer.status)


def test_most_of_what_was_recorded_is_blocked(guard: Guard) -> None:
    blocked = [answer.script for answer in ANSWERS if fake(guard, answer.script) is not None]
    assert len(blocked) > 0.75 * len(ANSWERS)
    for tool in TOOLS:
        assert any(re.search(rf"(^|\n|; ){re.escape(tool)} ", script) for script in blocked), tool


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_the_image_lacks_is_not_found(engine: Engine, tool: str) -> None:
    said = fake(Guard(engine), f"echo a\n{tool} /eval/main.x\n")
    assert said is not None
    assert said.stderr.decode() == f"bash: line 2: {tool}: command not found\n"
    assert (said.stdout, said.exit_status) == (b"a\n", 127)


def test_names_and_lines_are_those_of_the_action(guard: Guard) -> None:
    for name in ("alpha", "beta"):
        said = fake(guard, f"clang /eval/{name}.c -o {name}\n")
        assert said is not None and f"'/eval/{name}.c'" in said.stderr.decode()
        said = fake(guard, f"printf '\\n\\nX = open(\"/eval/{name}.json\")\\n' > test_{name}.py; pytest -q\n")
        assert said is not None and f"test_{name}.py:3: in <module>" in said.stdout.decode()
        said = fake(guard, f"node -e \"\n\nrequire('fs').readFileSync('/eval/{name}')\"\n")
        assert said is not None and "[eval]:3:15" in said.stderr.decode() and f"'/eval/{name}'" in said.stderr.decode()


def test_the_same_action_gets_the_same_fake(engine: Engine, guard: Guard) -> None:
    other = Guard(engine, programs=guard.programs)
    for answer in ANSWERS:
        assert fake(guard, answer.script) == fake(other, answer.script)


def test_clang_misses_what_a_file_calls_that_must_not_be_compiled(guard: Guard) -> None:
    code = '#include <stdlib.h>\nint main(void)\n{\n    return system("reference");\n}\n'
    script = f"cat > main.c <<'E'\n{code}E\nclang -o main main.c\n"
    said = fake(guard, script)
    assert said is not None
    assert re.fullmatch(
        r"/usr/bin/ld: /tmp/main-[0-9a-f]{6}\.o: in function `main':\n"
        r"main\.c:\(\.text\+0x[0-9a-f]+\): undefined reference to `system'\n"
        r"clang: error: linker command failed with exit code 1 \(use -v to see invocation\)\n",
        said.stderr.decode(),
    )


def test_programs_are_read_from_the_image(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/cargo").write_text("")
    programs = image_programs.of_image(tmp_path)
    assert "cargo" in programs and "cd" in programs and "gcc" not in programs
