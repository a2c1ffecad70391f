"""The report and the picture, from made-up runs in the real formats."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jobs.curves import curves_svg, describe, metrics_of, moving_average
from jobs.report import choose_episodes, default_summary, write_curves_svg, write_report
from tests.report import synthetic


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "Anti-cheat off": synthetic.write_run(folder / "off", enforce=False, steps=12),
        "Anti-cheat on": synthetic.write_run(folder / "on", enforce=True, steps=12),
    }


@pytest.fixture(scope="module")
def page(arms: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("report") / "report.html"
    assert write_report(arms, out, title="A <b> & its report") == out
    return out.read_text()


class Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    VOID = frozenset(["meta", "br", "hr", "img", "link"])

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(page: str) -> None:
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert not {"script", "link", "img", "iframe"} & set(parser.seen)
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?\s*(?:https?:)?//", page)
    assert "prefers-color-scheme:dark" in page
    assert "A &lt;b&gt; &amp; its report" in page


def test_three_episodes_can_be_read(page: str) -> None:
    for heading in ("An honest success", "A cheat that paid", "A cheat that got a fake failure"):
        assert page.count(f"<h3>{heading}</h3>") == 1
    assert "print(input()[::-1])" in page
    assert "cp: cannot stat &#x27;/eval/main.py&#x27;: No such file or directory" in page
    assert "Blocked: nothing was run." in page
    assert "only observing" in page
    assert "<mark>cp $x/main.py .</mark>" in page
    assert "evaluation-path" in page


def test_what_an_agent_wrote_is_text(page: str) -> None:
    assert "abc &lt;b&gt;" in page
    assert "<b>" not in page


def test_the_right_episodes_are_chosen(arms: dict[str, Path]) -> None:
    chosen = choose_episodes(list(arms.values()))
    honest, paid, faked = chosen.values()
    assert honest.solved and not honest.cheated
    assert paid.cheated and paid.reward == 1
    assert faked.blocked_actions == 1 and faked.reward == 0


def test_no_episodes_no_section(tmp_path: Path) -> None:
    out = write_report({"empty": tmp_path}, tmp_path / "report.html", title="nothing yet")
    assert "step by step" not in out.read_text()
    assert "no steps yet" in out.read_text()


def test_the_table_has_the_last_fifth(arms: dict[str, Path]) -> None:
    head, off, on = default_summary({name: metrics_of(path) for name, path in arms.items()})
    assert head[1:4] == ["Episodes", "Honest success", "Cheat attempts"]
    assert off[1] == on[1] == "768"
    assert int(off[3].rstrip("%")) > 80 > 20 > int(on[3].rstrip("%"))
    assert on[4] == "0%"


def test_a_given_summary_is_shown(arms: dict[str, Path], tmp_path: Path) -> None:
    rows = [["", "Before", "After"], ["Honest success", "31 %", "92 %"]]
    text = write_report(arms, tmp_path / "r.html", title="x", episodes={}, summary=rows).read_text()
    assert "<td>92 %</td>" in text


def test_the_picture_stands_alone(arms: dict[str, Path], tmp_path: Path) -> None:
    out = write_curves_svg(arms, tmp_path / "curves.svg", title="Two <arms>")
    root = ElementTree.parse(out).getroot()
    texts = "".join(root.itertext())
    for word in ("Two <arms>", "Anti-cheat off", "Anti-cheat on", "honest success", "cheat attempts", "paid cheats"):
        assert word in texts
    assert root.get("role") == "img"
    assert len(root.findall(".//{*}polyline")) == 2 * 4 * 2


def test_gaps_in_metrics_are_no_zeros(arms: dict[str, Path]) -> None:
    rows = [{"step": float(n), "episodes": 8.0, "reward": float("nan")} for n in range(3)]
    assert "<polyline" not in curves_svg({"x": rows}, title="x")
    assert describe("x", rows) == "x, over 24 episodes: ."


def test_moving_average() -> None:
    assert moving_average([1.0, 2.0, 3.0]) == [1.0, 1.5, 2.0]
    assert moving_average([0.0] * 5 + [1.0] * 5)[-1] == 1.0
