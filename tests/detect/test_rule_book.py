"""Rule sets of a run: kept, activated, rolled back, refused; and workers that follow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from audit.errors import EctypeError
from audit.events import AuditLog, read_events
from detect.rule_book import RuleBook
from detect.rule_set import RULES_DIR, RuleError, load_rules
from detect.rule_watch import RuleWatch
from queues.context import EpisodeContext
from queues.messages import Action
from tests.detect.rule_sets import with_marker

MARKED = Action(kind="run", body=b"echo MARKER\n")
CONTEXT = EpisodeContext(episode="e", suite="micro", task="reverse")


@pytest.fixture
def book(tmp_path: Path) -> RuleBook:
    book = RuleBook(tmp_path / "rules", clock=lambda: 100.0)
    book.begin(RULES_DIR, "default")
    return book


def test_roll_back_goes_back_further_each_time(book: RuleBook, tmp_path: Path) -> None:
    first = book.activations()[0].hash
    one = book.activate(with_marker(tmp_path / "one", version="one"), "one", by="me", why="because")
    two = book.activate(with_marker(tmp_path / "two", version="two"), "two", by="me")
    assert (one.by, one.why, one.at, one.number) == ("me", "because", 100.0, 1)
    assert book.rollback(by="me").hash == one.hash
    assert book.rollback(by="me").hash == first
    with pytest.raises(RuleError, match="nothing to roll back to"):
        book.rollback(by="me")
    assert book.activate(tmp_path / "two", "two", by="me").hash == two.hash
    assert book.rollback(by="you").hash == first
    assert [a.kind for a in book.activations()] == [
        *("start", "activate", "activate", "rollback", "rollback", "activate", "rollback")
    ]


def test_a_set_that_is_not_fit_changes_nothing(book: RuleBook, tmp_path: Path) -> None:
    before = book.pointer.read_bytes()
    broken = with_marker(tmp_path / "broken")
    (broken / "marker.yaml").write_text("id: [")
    query = with_marker(tmp_path / "query")
    marker = (query / "marker.yaml").read_text()
    (query / "marker.yaml").write_text(
        marker.replace("regex: MARKER", "query: {language: python, source: '(nonsense) @hit', needs: x}")
    )
    for folder, message in (
        (broken, "cannot be read"),
        (query, "query"),
        (with_marker(tmp_path / "wrong", pattern="NEVER"), "must match"),
        (with_marker(tmp_path / "greedy", pattern='""'), "must not match"),
        (tmp_path / "nowhere", "not a rule set"),
        (RULES_DIR, "in force already"),
    ):
        with pytest.raises(EctypeError, match=message):
            book.activate(folder, "x", by="me")
    assert book.pointer.read_bytes() == before
    assert list(book.kept()) == [book.activations()[0].hash[:12]]


def test_a_copy_is_used_and_not_the_folder(book: RuleBook, tmp_path: Path) -> None:
    folder = with_marker(tmp_path / "set")
    activation = book.activate(folder, "set", by="me")
    (folder / "VERSION").write_text("changed\n")
    assert book.load(activation.hash).version == "marked"
    (book.set_folder(activation.hash) / "VERSION").write_text("changed\n")
    with pytest.raises(RuleError, match="the copy was changed"):
        book.load(activation.hash)


def test_two_operators_at_once(book: RuleBook, tmp_path: Path) -> None:
    folders = [with_marker(tmp_path / f"set-{n}", version=str(n)) for n in range(4)]
    threads = [threading.Thread(target=book.activate, args=(f, f.name), kwargs={"by": f.name}) for f in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    activations = book.activations()
    assert [a.number for a in activations] == list(range(5))
    assert {a.by for a in activations[1:]} == {f.name for f in folders}


async def test_a_worker_follows_and_refuses(book: RuleBook, tmp_path: Path) -> None:
    with AuditLog(tmp_path / "audit", "sandbox-0", clock=lambda: 101.0) as audit:
        watch = RuleWatch(book, audit, "sandbox-0", mode="enforce", clock=lambda: 101.0)
        first = watch.guard.judge(MARKED, CONTEXT)
        assert first.decision == "allow"
        one = book.activate(with_marker(tmp_path / "one"), "one", by="me", why="try")
        assert watch.guard.judge(MARKED, CONTEXT).decision == "allow", "not before the worker has looked"
        await watch.look()
        await watch.look()
        verdict = watch.guard.judge(MARKED, CONTEXT)
        assert (verdict.decision, verdict.rule_set_version, verdict.rule_set_hash) == ("block", "marked", one.hash)
        two = book.activate(with_marker(tmp_path / "two", version="two"), "two", by="me")
        (book.set_folder(two.hash) / "marker.yaml").unlink()
        await watch.look()
        assert watch.guard.judge(MARKED, CONTEXT) == verdict, "what cannot be read is refused"
        assert book.taken()["sandbox-0"].refused
        book.pointer.write_text("{")
        await watch.look()
        assert watch.guard.judge(MARKED, CONTEXT) == verdict
    events = list(read_events(tmp_path / "audit"))
    assert [(e.kind, e.data["number"]) for e in events] == [
        *(("rules_taken", 0), ("rules_taken", 1), ("rules_refused", 2))
    ]
    assert events[1].data["after_s"] == 1.0 and events[1].data["by"] == "me" and events[1].data["why"] == "try"
    assert events[2].data["hash"] == two.hash and events[2].data["in_force"] == one.hash


def test_a_worker_does_not_start_without_rules(tmp_path: Path) -> None:
    with (
        AuditLog(tmp_path / "audit", "sandbox-0") as audit,
        pytest.raises(RuleError, match="no rule set was activated"),
    ):
        RuleWatch(RuleBook(tmp_path / "rules"), audit, "sandbox-0", mode="enforce")


def test_kept_copies_are_whole(book: RuleBook) -> None:
    (folder,) = book.kept().values()
    assert load_rules(folder) == load_rules(RULES_DIR)
