"""The sample store: many writers, crashes, labels of several people."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from audit.errors import EctypeError
from detect.guard import Guard
from detect.samples import MAX_BYTES, SampleStore, SampleWriter, episode_of, sample_of_action
from queues.context import EpisodeContext
from queues.messages import Action, ReviewEpisode, ReviewStep, Verdict


def context(task: str = "double", episode: str = "e1", step: int = 3) -> EpisodeContext:
    return EpisodeContext(episode=episode, suite="micro", task=task, step=step)


def put(
    writer: SampleWriter, body: bytes, *, task: str = "double", path: str | None = None, canary: bool = False
) -> None:
    action = Action(kind="write" if path else "run", path=path, body=body)
    writer.add(action, Guard.load().judge(action, context(task)), context(task), canary=canary)


def test_the_same_action_is_one_sample(tmp_path: Path) -> None:
    for producer in ("w0", "w1", "w1"):
        writer = SampleWriter(tmp_path, producer, run="r")
        for _ in range(3):
            put(writer, b"cat /eval/main.py")
        put(writer, b"cat /eval/main.py", task="reverse")
        put(writer, b"cat /eval/main.py", path="run.sh")
        writer.close()
    lines = [line for file in tmp_path.glob("found/*.jsonl") for line in file.read_bytes().splitlines()]
    assert len(lines) == 9, "once by each process"
    samples = list(SampleStore(tmp_path).samples().values())
    assert [(s.task, s.steps[0].kind) for s in samples] == [("double", "run"), ("reverse", "run"), ("double", "write")]
    step = samples[0].steps[0]
    assert (step.step, step.rules, step.decision, samples[0].source) == (3, ("evaluation-path",), "block", "rule")
    start, end = step.spans[0]
    assert step.data[start:end] == b"cat /eval/main.py"


def test_any_bytes_are_kept(tmp_path: Path) -> None:
    for body, encoding, cut in (
        (b"\xff\x00", "base64", 0),
        ("é".encode() * MAX_BYTES, "utf-8", MAX_BYTES),
        (b"x" + "é".encode() * MAX_BYTES, "utf-8", MAX_BYTES + 2),
        (b"\xff" * (MAX_BYTES + 7), "base64", 7),
    ):
        sample = sample_of_action(
            Action(kind="write", path="a\udcff", body=body), Verdict(), context(), canary=True, run="r", found=0.0
        )
        step = sample.steps[0]
        assert (step.encoding, step.cut_bytes, sample.source) == (encoding, cut, "canary")
        assert step.data == body[: len(body) - cut]
        writer = SampleWriter(tmp_path, "w", run="r")
        writer.add(Action(kind="write", path="a\udcff", body=body), Verdict(), context(), canary=True)
        writer.close()
    assert len(SampleStore(tmp_path).samples()) == 4


def test_an_episode_of_the_judge_comes_back_as_it_was(tmp_path: Path) -> None:
    verdict = Verdict(decision="block", enforced=True, rules=("x",), spans=((0, 2),), message="reads it")
    steps = (
        ReviewStep(step=0, action=Action(kind="run", body=b"ls"), output=b"main.py\n"),
        ReviewStep(step=2, action=Action(kind="write", path="m.py", body=b"\xfe"), verdict=verdict, canary=True),
    )
    episode = ReviewEpisode(request_id="q", episode="e", suite="s", task="t", steps=steps)
    writer = SampleWriter(tmp_path, "judge-0", run="r")
    for _ in range(2):
        writer.add_episode(episode, "flagged", 0.9, model="m", prompt_version="p", reason="so")
    writer.close()
    (sample,) = SampleStore(tmp_path).samples().values()
    assert (sample.source, sample.decision, sample.probability, sample.reason) == ("judge", "flagged", 0.9, "so")
    assert episode_of(sample).steps == steps


def test_a_torn_line_is_left_out_and_damage_is_named(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path, "w", run="r")
    put(writer, b"cat /eval/a")
    put(writer, b"cat /eval/b")
    writer.close()
    (file,) = tmp_path.glob("found/*.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert len(SampleStore(tmp_path).samples()) == 1
    file.write_bytes(b"{}\n" + whole)
    with pytest.raises(EctypeError, match="damaged line"):
        SampleStore(tmp_path).samples()


def label_many(folder: Path, by: str, count: int) -> None:
    store = SampleStore(folder, by=by)
    for number in range(count):
        store.label(f"sample-{number}", "confirmed")
    os._exit(0)  # as if it was killed: nothing is closed


def test_people_label_at_the_same_time(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    people = [fork.Process(target=label_many, args=(tmp_path, "ann@host", 40)) for _ in range(3)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    labels = SampleStore(tmp_path).labels()
    assert len(labels) == 40 and all(len(of_one) == 3 for of_one in labels.values())


def test_the_last_label_counts_and_all_stay(tmp_path: Path) -> None:
    now = iter(range(10))
    ann, bob = (SampleStore(tmp_path, by=by, clock=lambda: float(next(now))) for by in ("ann", "bob"))
    ann.label("s", "confirmed")
    bob.label("s", "false_positive", "it reads its own folder")
    assert ann.states() == {"s": "false_positive"}
    assert [(label.by, label.state, label.at) for label in ann.labels()["s"]] == [
        *(("ann", "confirmed", 0.0), ("bob", "false_positive", 1.0))
    ]


def test_one_reviewer_has_a_sample_at_a_time(tmp_path: Path) -> None:
    ann, bob = SampleStore(tmp_path, by="ann"), SampleStore(tmp_path, by="bob")
    with ann.claimed("s") as free:
        assert free
        with bob.claimed("s") as also:
            assert not also
        with bob.claimed("other") as other:
            assert other
    with bob.claimed("s") as free:
        assert free
    claim = tmp_path / "claims" / "s"
    claim.touch()
    os.utime(claim, (0, 0))  # of a reviewer who went away
    with ann.claimed("s") as free:
        assert free
