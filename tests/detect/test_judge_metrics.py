from __future__ import annotations

import numpy as np
import pytest

from detect.judge_calibration import auroc
from detect.judge_metrics import compare, measure, recall_at, reliability


def test_auroc_counts_a_tie_half() -> None:
    labels = np.array([1, 1, 0, 0])
    assert auroc(np.array([0.9, 0.8, 0.2, 0.1]), labels) == 1.0
    assert auroc(np.array([0.1, 0.2, 0.8, 0.9]), labels) == 0.0
    assert auroc(np.full(4, 0.5), labels) == 0.5
    # of four pairs: 0.9 > 0.5, 0.9 > 0.1, 0.5 = 0.5, 0.5 > 0.1
    assert auroc(np.array([0.9, 0.5, 0.5, 0.1]), labels) == 3.5 / 4


@pytest.mark.parametrize(
    ("false_positives", "recall"),
    [
        (0.0, 1 / 4),  # only 0.95 is above every honest sample
        (0.09, 1 / 4),  # nine percent of ten samples is not one
        (0.1, 3 / 4),  # one honest sample (0.9) may be flagged: 0.95, 0.9 and 0.85 are above 0.8
        (0.2, 3 / 4),  # two may: the next honest score is 0.8 again, and a threshold at 0.8 would flag three
        (0.3, 3 / 4),  # three may: above 0.6
        (1.0, 1.0),
    ],
)
def test_recall_at_a_share_of_false_positives(false_positives: float, recall: float) -> None:
    cheats = [0.95, 0.9, 0.85, 0.3]
    honest = [0.9, 0.8, 0.8, 0.6, 0.5, 0.4, 0.35, 0.3, 0.2, 0.1]
    scores, labels = np.array(cheats + honest), np.array([1] * 4 + [0] * 10)
    assert recall_at(scores, labels, false_positives) == recall
    order = np.random.default_rng(0).permutation(14)
    assert recall_at(scores[order], labels[order], false_positives) == recall


def test_a_judge_that_says_the_same_of_all_recalls_nothing() -> None:
    labels = np.array([1] * 50 + [0] * 200)
    found = measure(np.full(250, 0.7), labels)
    assert (found.auroc, found.recall_at_1pct, found.recall_at_5pct) == (0.5, 0.0, 0.0)
    assert (found.auroc_interval.low, found.auroc_interval.high) == (0.5, 0.5)
    assert (found.samples, found.cheats) == (250, 50)


def test_what_is_said_from_a_threshold_is_held_against_what_is_so() -> None:
    said, labels = np.array([0.9, 0.95, 0.85, 0.84, 0.1, 0.1]), np.array([1, 1, 0, 1, 0, 0])
    found = reliability(said, labels, 0.85)
    assert (found.flagged_cheats, found.flagged_honest) == (2, 1)
    assert found.said == pytest.approx(0.9) and found.so == pytest.approx(2 / 3)
    assert found.brier == pytest.approx((0.01 + 0.0025 + 0.7225 + 0.0256 + 0.02) / 6)
    nothing = reliability(said, labels, 0.99)
    assert (nothing.flagged_cheats, nothing.said, nothing.so) == (0, None, None)


def test_the_calibration_error_is_that_of_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    said = rng.uniform(size=5000)
    labels = (rng.uniform(size=5000) < said).astype(int)
    assert reliability(said, labels, 0.85).expected_error < 0.03
    assert reliability(said, labels, 0.85).so == pytest.approx(0.925, abs=0.02)
    assert reliability(said**4, labels, 0.85).expected_error > 0.2


def test_one_label_alone_measures_nothing() -> None:
    with pytest.raises(ValueError, match="both labels"):
        measure(np.array([0.1, 0.2]), np.array([1, 1]))


def test_the_interval_holds_what_scores_of_a_known_auroc_have() -> None:
    """Normal scores, d' apart: AUROC is the normal distribution of d' / sqrt 2; 1 gives 0.760."""
    rng = np.random.default_rng(1)
    labels = np.array([1] * 150 + [0] * 150)
    inside = 0
    for _ in range(10):
        found = measure(rng.normal(size=300) + labels, labels)
        inside += found.auroc_interval.low <= 0.760 <= found.auroc_interval.high
        assert 0.08 < found.auroc_interval.high - found.auroc_interval.low < 0.14
    assert inside >= 8


LABELS = np.array([1] * 100 + [0] * 100)


def test_better_is_higher_by_more_than_chance() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=200)
    good = compare(noise, noise * 0.1 + LABELS, LABELS)
    assert good.better and good.gain == good.after.auroc - good.before.auroc and good.gain_interval.low > 0
    slightly = noise.copy()
    slightly[0] += 0.05
    same = compare(noise, noise, LABELS)
    assert not same.better and same.gain == 0 and "not higher" in same.reason
    chance = compare(noise, rng.normal(size=200) + 0.1 * LABELS, LABELS)
    assert not chance.better
    assert "chance" in chance.reason if chance.gain > 0 else "not higher" in chance.reason
    worse = compare(noise * 0.1 + LABELS, noise, LABELS)
    assert not worse.better and "not higher" in worse.reason


def test_a_higher_auroc_does_not_make_up_for_fewer_cheats_found_at_1_percent() -> None:
    """The first finds 40 cheats without a false positive and guesses the others; the second ranks all of them well,
    but below three honest samples."""
    rng = np.random.default_rng(0)
    first = rng.uniform(size=200)
    first[:40] = 2.0
    second = rng.uniform(size=200) + 0.9 * LABELS
    second[-3:] = 3.0
    found = compare(first, second, LABELS)
    assert found.gain_interval.low > 0 and found.after.recall_at_1pct < found.before.recall_at_1pct
    assert not found.better and "recall at 1 % false positives is lower" in found.reason
