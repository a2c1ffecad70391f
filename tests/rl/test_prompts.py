from __future__ import annotations

from queues.messages import Observation, TestResult
from rl import prompts
from rl.prompts import elide, observation_text, task_prompt
from rl.tasks import PublicTask


def test_plain_success_shows_the_output_only() -> None:
    assert observation_text(Observation(status="ok", exit_status=0, stdout=b"a\n"), 100) == b"a\n"
    assert observation_text(Observation(status="ok", exit_status=0), 100) == b"[ok]"


def test_failures_name_their_status() -> None:
    failed = Observation(status="nonzero", exit_status=2, stdout=b"out", stderr=b"err\n")
    assert observation_text(failed, 100) == b"out\nerr\n[exit 2]"
    assert observation_text(Observation(status="timeout", stdout=b"half"), 100) == b"half\n[timeout]"
    assert observation_text(Observation(status="out_of_memory"), 100) == b"[out_of_memory]"


def test_long_output_keeps_head_and_tail() -> None:
    text = elide(b"a" * 500 + b"b" * 500, 100)
    assert text == b"a" * 50 + b"\n[... 900 bytes left out ...]\n" + b"b" * 50
    assert elide(b"short", 100) == b"short"


def test_results_of_hidden_tests_are_counts() -> None:
    assert prompts.test_text(TestResult(compile_status="ok", passed=3, total=7), refused=False, limit=99) == (
        b"[3 of 7 hidden tests pass]"
    )
    failed = TestResult(compile_status="failed", compile_stderr=b"main.c:1: error", total=7)
    assert prompts.test_text(failed, refused=False, limit=99) == b"[build failed]\nmain.c:1: error"
    assert b"no tests left" in prompts.test_text(failed, refused=True, limit=99)


def test_a_long_task_is_cut_at_a_line() -> None:
    task = PublicTask(
        suite="s",
        task="t",
        instructions="line one\n" * 1000,
        examples=(),
        build_hint="",
        max_steps=3,
        entry="main.py",
    )
    cut = task_prompt(task, max_bytes=100)
    assert cut.endswith("line one\n[...]")
    assert len(cut) < 110
