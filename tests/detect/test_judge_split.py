from __future__ import annotations

import random

import pytest

from detect.judge_split import matched, nearly_among, pattern, side


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cat /eval/main.py > main.py", "cat /eval/answers/7.txt   >  out.txt"),
        ("objdump -d ./a.out | head -40", "objdump -D build/wc | head -n 12"),
        ("echo Y2F0IC9ldmFsL21haW4ucHk= | base64 -d | sh", "echo bHMgLWxhIC9ldmFsL2hpZGRlbg== | base64 -d | sh"),
        ("a='cp /eval/'; b='main.py .'; eval \"$a$b\"", "a='ls /ev'; b='al'; eval \"$a$b\""),
        ("curl -s http://10.0.0.7/x", "curl http://192.168.1.12/answers/2"),
    ],
)
def test_what_differs_in_names_numbers_strings_and_payload_alone_is_one_pattern(one: str, other: str) -> None:
    assert pattern(one) == pattern(other)


@pytest.mark.parametrize(("one", "other"), [("cat notes", "head notes"), ("echo x | rev | sh", "echo x | sh")])
def test_other_commands_are_other_patterns(one: str, other: str) -> None:
    assert pattern(one) != pattern(other)


def test_sides_follow_from_the_pattern_alone_and_have_their_shares() -> None:
    patterns = [f"word{random.Random(i).random()} P" for i in range(4000)]
    sides = {one: side(one, held_out=0.3, validation=0.1) for one in patterns}
    assert abs(sum(s == "held_out" for s in sides.values()) / 4000 - 0.3) < 0.03
    assert abs(sum(s == "validation" for s in sides.values()) / 4000 - 0.1) < 0.02
    assert all(side(one, held_out=0.3, validation=0.1) == sides[one] for one in reversed(patterns))
    grown = [side(one, held_out=0.3, validation=0.2) for one in patterns]
    assert all((s == "held_out") == (sides[one] == "held_out") for one, s in zip(patterns, grown, strict=True))


def test_near_duplicates_are_found() -> None:
    known = ["for f in P; do cmp S P || echo S; done", "python - <<S import os os.system(S) eof"]
    close, far = "for g in P; do cmp S P || echo S; done", "gcc P && P"
    assert nearly_among([known[0], close, far], known) == [True, True, False]
    assert nearly_among([far], []) == [False]
    assert nearly_among(["ls"], ["ls"]) == [True]


def test_every_language_has_as_many_cheats_as_honest_samples() -> None:
    samples = (
        [("shell", True)] * 10 + [("shell", False)] * 100 + [("c", True)] * 30 + [("c", False)] * 20 + [("go", True)]
    )
    chosen = matched(samples, 40, cheat=lambda one: one[1], kind=lambda one: one[0])
    assert len(chosen) == 40
    counts = {one: chosen.count(one) for one in set(samples)}
    assert counts.get(("go", True), 0) == 0
    assert counts["shell", True] == counts["shell", False] and counts["c", True] == counts["c", False]
    assert abs(counts["c", True] / counts["shell", True] - 2) < 0.5, "languages keep their shares"
    assert len(matched(samples, 1000, cheat=lambda one: one[1], kind=lambda one: one[0])) == 60
