"""The classifier of `benchmarks.fakes`: features of an answer beside its action, and how well they tell fakes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.fakes import Pair
    from queues.messages import Action, Observation

FOLDS = 5
_OBJECT = re.compile(r"/tmp/cc\w{6}|\(\.text\+0x[0-9a-f]+\)")
_ECHO = re.compile(r"^\s*echo\s+['\"]?([\w -]{3,}?)['\"]?\s*$", re.M)
_LINE = re.compile(r"line (\d+)")
_FILE = re.compile(r"[\w./-]+\.(?:py|c|sh|txt|json)\b")


def text_of(answer: Observation) -> str:
    text = (answer.stdout + b"\n--\n" + answer.stderr).decode("utf-8", "replace")
    return _OBJECT.sub("OBJECT", text) + f"\n{answer.status} {answer.exit_status}"


def agreement(action: Action, answer: Observation) -> list[float]:
    """How an answer fits its action: what is echoed, the lines and files that are named, its size and status."""
    script = action.body.decode("utf-8", "replace")
    out, err = answer.stdout.decode("utf-8", "replace"), answer.stderr.decode("utf-8", "replace")
    echoed = _ECHO.findall(script)
    lines = [int(number) for number in _LINE.findall(err)]
    named = _FILE.findall(err)
    first = script.find(err.split(":")[0]) if err else -1
    return [
        float(sum(text not in out for text in echoed)),
        float(len(echoed) > 0 and all(text in out for text in echoed)),
        float(sum(number > script.count("\n") + 1 for number in lines)),
        float(len(set(lines))),
        float(sum(name not in script for name in named)),
        math.log1p(len(out)),
        math.log1p(len(err)),
        float(err.count("\n")),
        float(out.count("\n")),
        float(bool(out) and not out.endswith("\n")),
        float(bool(err) and not err.endswith("\n")),
        float(answer.status == "ok"),
        float(answer.status == "nonzero"),
        float(answer.status == "disk_full"),
        float(answer.exit_status or 0) / 128,
        float(first >= 0),
        float("set -e" in script and out.rstrip().endswith(echoed[-1] if echoed else "\0")),
    ]


def timing(action: Action, seconds: float) -> list[float]:
    """Latency, and latency beside what the action does."""
    latency = math.log(max(seconds, 1e-4))
    kinds = [
        float(action.kind == "write"),
        float(re.search(rb"\b(gcc|cc|make|g\+\+)\b", action.body) is not None),
        float(b"python" in action.body),
        float(b"sleep 0.05" in action.body),
        math.log1p(action.body.count(b"\n")),
    ]
    return [latency, latency**2, *kinds, *(latency * kind for kind in kinds)]


def measure(scripts: Sequence[Pair], files: Sequence[Pair]) -> dict[str, float | int]:
    both, auroc = _cross_validated(scripts, text=True, time=True)
    text, text_auroc = _cross_validated(scripts, text=True, time=False)
    seconds, seconds_auroc = _cross_validated(scripts, text=False, time=True)
    written, written_auroc = _cross_validated(files, text=True, time=True)
    return {
        "balanced_accuracy": both,
        "auroc": auroc,
        "balanced_accuracy_text": text,
        "auroc_text": text_auroc,
        "balanced_accuracy_timing": seconds,
        "auroc_timing": seconds_auroc,
        "balanced_accuracy_files": written,
        "auroc_files": written_auroc,
        "identical": sum(p.real == p.fake for p in scripts) / max(len(scripts), 1),
        "samples": 2 * len(scripts),
        "samples_files": 2 * len(files),
    }


def _cross_validated(pairs: Sequence[Pair], *, text: bool, time: bool) -> tuple[float, float]:
    """Balanced accuracy and AUROC over all folds; no cheat is in two of them."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.preprocessing import StandardScaler

    answers = [(p, a, s, label) for p in pairs for a, s, label in ((p.real, p.real_s, 0), (p.fake, p.fake_s, 1))]
    texts = [text_of(a) for _, a, _, _ in answers]
    rows: list[Callable[[int], list[float]]] = []
    if text:
        rows.append(lambda n: agreement(answers[n][0].action, answers[n][1]))
    if time:
        rows.append(lambda n: timing(answers[n][0].action, answers[n][2]))
    numbers = np.array([[value for row in rows for value in row(n)] for n in range(len(answers))])
    labels = np.array([label for *_, label in answers])
    groups = np.array([hash(p.cheat) for p, *_ in answers])
    scores = np.zeros(len(answers))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(numbers, labels, groups):
        parts_train, parts_test = [], []
        scaler = StandardScaler().fit(numbers[train])
        parts_train.append(csr_matrix(scaler.transform(numbers[train])))
        parts_test.append(csr_matrix(scaler.transform(numbers[test])))
        if text:
            for analyzer, ngrams in (("word", (1, 2)), ("char_wb", (3, 4))):
                vectorizer = TfidfVectorizer(
                    analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, max_features=8000,
                    token_pattern=r"\S+",
                )  # fmt: skip
                parts_train.append(vectorizer.fit_transform([texts[n] for n in train]))
                parts_test.append(vectorizer.transform([texts[n] for n in test]))
        model = LogisticRegression(C=10.0, max_iter=300, solver="liblinear")
        model.fit(hstack(parts_train).tocsr(), labels[train])
        scores[test] = model.predict_proba(hstack(parts_test).tocsr())[:, 1]
    return (
        float(balanced_accuracy_score(labels, scores > 0.5)),
        float(roc_auc_score(labels, scores)),
    )
