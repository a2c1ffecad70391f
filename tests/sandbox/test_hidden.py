"""The hidden half of a task on disk: what is written is what is read, and what is wrong is said."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from sandbox.hidden import Case, HiddenTask, Reference, TaskError, hidden_path, list_hidden, load_hidden, write_hidden
from sandbox.sandbox import File


def make(**changes: object) -> HiddenTask:
    hidden = HiddenTask(
        suite="micro",
        task="reverse",
        run=("python3", "-I", "-S", "/work/main.py"),
        reference=Reference(argv=("/usr/bin/rev",)),
        cases=(Case(name="one", stdin=b"ab\n", stdout=b"ba\n"), Case(name="two", stdin=b"\xff\0", exit_status=1)),
    )
    return msgspec.structs.replace(hidden, **changes)


def test_round_trip_with_any_bytes(tmp_path: Path) -> None:
    hidden = make(
        build=b"make -s\n",
        masked=("/usr/bin/rev",),
        eval_files=(File(path="/eval/main.py", data=b"\xff\xfe"),),
    )
    path = write_hidden(tmp_path, hidden)
    assert load_hidden(tmp_path, "micro", "reverse") == hidden
    assert list_hidden(tmp_path) == {"micro": ("reverse",)}
    assert hidden.entry == "main.py"
    assert path.stat().st_mode & 0o777 == 0o600
    assert {p.stat().st_mode & 0o777 for p in path.parents[:3] if p != tmp_path} == {0o700}
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": ("python3", "main.py")}, "/work/main.py"),
        ({"cases": ()}, "no hidden cases"),
        ({"cases": (Case(name="a"), Case(name="a"))}, "not unique: a"),
        ({"masked": ("usr/bin/rev",)}, "usr/bin/rev"),
        ({"masked": ("/work/x",)}, "outside the workspace"),
        ({"eval_files": (File(path="/eval/../etc/passwd", data=b""),)}, "eval_files"),
        ({"reference": Reference(argv=())}, "no argv"),
        ({"cases": (Case(name="a", files=(File(path="../x", data=b""),)),)}, "case a"),
    ],
)
def test_nonsense_is_refused_with_a_remedy(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(TaskError) as caught:
        write_hidden(tmp_path, make(**changes))
    assert words in str(caught.value)
    assert caught.value.remedy
    assert "micro/reverse" in caught.value.what
    assert not list(tmp_path.rglob("*.msgpack"))


def test_missing_damaged_and_foreign_records(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no hidden half"):
        load_hidden(tmp_path, "micro", "reverse")
    path = write_hidden(tmp_path, make())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TaskError, match="damaged"):
        load_hidden(tmp_path, "micro", "reverse")
    path.write_bytes(msgspec.msgpack.encode({"suite": "micro", "unknown": 1}))
    with pytest.raises(TaskError, match=r"damaged or of another version"):
        load_hidden(tmp_path, "micro", "reverse")


@pytest.mark.parametrize("name", ["..", "a/b", "", ".x", "-x", "a\0b", "a b", "x" * 200])
def test_a_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(TaskError, match="not a task name"):
        hidden_path(tmp_path, name, "t")
    with pytest.raises(TaskError, match="not a task name"):
        hidden_path(tmp_path, "s", name)
