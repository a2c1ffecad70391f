"""Calibration of the judge: from the raw score of a model to a probability that means what it says.

In go raw scores in [0, 1] with labels (1: cheat) of reviewed samples; out comes a `Calibration`, which maps a raw score
to P(cheat), and is kept as one small JSON file with where it comes from. It belongs to one model and one prompt:
another of either has other scores, and `load` refuses them. Two methods: `platt` (a sigmoid over the logit of the
score, two parameters, for tens of samples) and `isotonic` (any monotone curve, for hundreds).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from audit.errors import EctypeError

Method = Literal["platt", "isotonic"]
FORMAT = 1
EDGE = 1e-6
"""Scores are kept this far from 0 and 1, where the logit ends."""
FEWEST = 10
"""Samples of each label without which nothing is fitted."""


class CalibrationError(EctypeError):
    """A calibration cannot be fitted, read, or does not belong to this judge."""


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the calibration was fitted on. `samples_sha256` is the hash of the file of labelled samples."""

    model: str
    prompt_version: str
    prompt_hash: str
    samples: int
    cheats: int
    samples_sha256: str = ""
    fitted: float = 0.0
    prior: float | None = None


class Quality(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How good the scores are on the samples: `auroc` does not change with calibration, the others should fall."""

    auroc: float
    brier_raw: float
    brier: float
    expected_error_raw: float
    """Mean gap between what is said and what is so, over ten bins of equal count (ECE)."""
    expected_error: float


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`platt`: P = sigmoid(slope * logit(score) + intercept). `isotonic`: straight lines between the points."""

    format: Literal[1] = FORMAT
    method: Method
    slope: float = 1.0
    intercept: float = 0.0
    scores: tuple[float, ...] = ()
    probabilities: tuple[float, ...] = ()
    provenance: Provenance
    quality: Quality
    """By cross-validation: every sample was judged by a calibration that had not seen it."""

    def __call__(self, score: float) -> float:
        """P(cheat) for a raw score."""
        return float(_apply(self.method, self.slope, self.intercept, self.scores, self.probabilities, [score])[0])


def fit(
    scores: np.ndarray, labels: np.ndarray, method: Method, provenance: Provenance, *, folds: int = 5
) -> Calibration:
    """Calibrate `scores` [samples] in [0, 1] against `labels` [samples], 1 for a cheat.

    `provenance.prior`: the share of cheats among the episodes that will be judged, where it is another than among the
    samples; the samples are then weighted to it. Raises CalibrationError with fewer than ten samples of a label.
    """
    scores, labels = np.asarray(scores, float), np.asarray(labels, float)
    cheats = int(labels.sum())
    if min(cheats, len(labels) - cheats) < FEWEST:
        raise CalibrationError(
            f"{cheats} cheats and {len(labels) - cheats} honest samples are too few to calibrate on",
            remedy=f"label at least {FEWEST} of each",
        )
    weights = np.ones(len(labels))
    if provenance.prior is not None:
        share = cheats / len(labels)
        weights = np.where(labels == 1, provenance.prior / share, (1 - provenance.prior) / (1 - share))
    fitted = _fit(method, scores, labels, weights)
    held_out = np.empty(len(labels))
    fold = _folds(labels, folds)
    for number in range(folds):
        inside = fold != number
        part = _fit(method, scores[inside], labels[inside], weights[inside])
        held_out[~inside] = _apply(method, *part, scores[~inside])
    quality = Quality(
        auroc=auroc(scores, labels),
        brier_raw=float(np.average((scores - labels) ** 2, weights=weights)),
        brier=float(np.average((held_out - labels) ** 2, weights=weights)),
        expected_error_raw=expected_error(scores, labels, weights),
        expected_error=expected_error(held_out, labels, weights),
    )
    slope, intercept, xs, ys = fitted
    return Calibration(
        method=method,
        slope=slope,
        intercept=intercept,
        scores=tuple(map(float, xs)),
        probabilities=tuple(map(float, ys)),
        provenance=provenance,
        quality=quality,
    )


def save(calibration: Calibration, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")
    temporary.replace(path)


def load(path: Path, *, model: str, prompt_hash: str) -> Calibration:
    """Read a calibration for this model and prompt; raises CalibrationError when it belongs to another."""
    try:
        calibration = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except OSError as error:
        raise CalibrationError(f"the calibration cannot be read: {error.strerror}", where=str(path)) from error
    except msgspec.DecodeError as error:
        raise CalibrationError(f"no calibration of this version: {error}", where=str(path)) from error
    there = calibration.provenance
    for what, mine, its in (("model", model, there.model), ("prompt", prompt_hash, there.prompt_hash)):
        if mine != its:
            raise CalibrationError(
                f"the calibration was fitted with another {what}: {its}, not {mine}",
                where=str(path),
                remedy="fit it again: ectype judge calibrate SAMPLES.jsonl",
            )
    return calibration


def platt(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """(slope, intercept) of greatest likelihood, by Newton's method with backtracking.

    Targets are smoothed as by Platt (1999), the iteration is that of Lin, Lin and Weng (2007): without the smoothing,
    scores that separate the labels have no finite optimum.
    """
    x = logit(scores)
    cheats, honest = float(weights[labels == 1].sum()), float(weights[labels == 0].sum())
    targets = np.where(labels == 1, (cheats + 1) / (cheats + 2), 1 / (honest + 2))

    def loss(slope: float, intercept: float) -> float:
        z = slope * x + intercept
        return float(np.sum(weights * (np.logaddexp(0, z) - targets * z)))

    slope, intercept = 0.0, float(np.log((cheats + 1) / (honest + 1)))
    now = loss(slope, intercept)
    for _ in range(100):
        p = sigmoid(slope * x + intercept)
        residual = weights * (p - targets)
        gradient = np.array([residual @ x, residual.sum()])
        if np.abs(gradient).max() < 1e-8 * max(1.0, weights.sum()):
            break
        curvature = weights * p * (1 - p)
        hessian = np.array([[curvature @ x**2, curvature @ x], [curvature @ x, curvature.sum()]]) + 1e-12 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-10:
            tried = loss(slope - size * step[0], intercept - size * step[1])
            if tried < now - 1e-4 * size * float(gradient @ step):
                slope, intercept, now = slope - size * step[0], intercept - size * step[1], tried
                break
            size /= 2
        else:
            break
    # a judge whose higher scores mean "more honest" is no judge: never invert it
    if slope < 0:
        return 0.0, float(np.log((cheats + 1) / (honest + 1)))
    return float(slope), float(intercept)


def isotonic(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(scores, probabilities) of a nondecreasing curve, by pooling adjacent violators.

    Every block is one point at its mean score. Each is drawn in by one pseudo-sample of each label, for a few samples
    cannot prove certainty; what is out of order then is pooled again.
    """
    order = np.argsort(scores, kind="stable")
    rows = [(w, w * y, w * x) for x, y, w in zip(scores[order], labels[order], weights[order], strict=True)]
    smoothed = [
        (weight + 2, (weight + 2) * (cheats + 1) / (weight + 2), (weight + 2) * total / weight)
        for weight, cheats, total in _pool(rows)
    ]
    table = np.array(_pool(smoothed))
    return table[:, 2] / table[:, 0], table[:, 1] / table[:, 0]


def _pool(rows: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Merge rows of (weight, weighted labels, weighted scores) until labels rise and no two rows share a score."""
    blocks: list[tuple[float, float, float]] = []
    for row in rows:
        blocks.append(row)
        while len(blocks) > 1:
            (w0, y0, x0), (w1, y1, x1) = blocks[-2:]
            if y0 / w0 < y1 / w1 and x0 / w0 < x1 / w1:
                break
            blocks[-2:] = [(w0 + w1, y0 + y1, x0 + x1)]
    return blocks


def auroc(scores: np.ndarray, labels: np.ndarray) -> float:
    """P(a cheat scores higher than an honest sample), ties counted half."""
    cheats, honest = np.asarray(scores)[labels == 1], np.sort(np.asarray(scores)[labels == 0])
    below = np.searchsorted(honest, cheats, "left") + np.searchsorted(honest, cheats, "right")
    return float(below.mean() / 2 / len(honest))


def expected_error(said: np.ndarray, labels: np.ndarray, weights: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error over `bins` bins with about equally many samples; equal values share a bin."""
    rank = np.searchsorted(np.sort(said), said)
    gaps = []
    for number in range(bins):
        inside = rank * bins // len(said) == number
        if inside.any():
            gap = abs(float(np.average(said[inside] - labels[inside], weights=weights[inside])))
            gaps.append((float(weights[inside].sum()), gap))
    return sum(weight * gap for weight, gap in gaps) / sum(weight for weight, _ in gaps)


def logit(p: np.ndarray | float) -> np.ndarray:
    clipped = np.clip(p, EDGE, 1 - EDGE)
    return np.log(clipped) - np.log1p(-clipped)


def sigmoid(x: np.ndarray | float) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(x, float)))


_Fitted = tuple[float, float, "np.ndarray | tuple[float, ...]", "np.ndarray | tuple[float, ...]"]


def _fit(method: Method, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> _Fitted:
    if method == "platt":
        return (*platt(scores, labels, weights), (), ())
    return (1.0, 0.0, *isotonic(scores, labels, weights))


def _apply(method: Method, slope: float, intercept: float, xs, ys, scores) -> np.ndarray:
    scores = np.asarray(scores, float)
    if method == "platt":
        return sigmoid(slope * logit(scores) + intercept)
    return np.interp(scores, xs, ys)


def _folds(labels: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each sample: every fold gets its share of both labels."""
    fold = np.empty(len(labels), int)
    for label in (0, 1):
        places = np.flatnonzero(labels == label)
        fold[np.random.default_rng(0).permutation(places)] = np.arange(len(places)) % folds
    return fold
