"""The classifier of `benchmarks.fakes`: features of an answer beside its action, and how well they tell fakes."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from benchmarks.fakes import Collected, Pair
    from queues.messages import Action, Observation

FOLDS = 5
SEEDS = 3
"""How often the folds are drawn."""
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


def measure(found: Collected) -> dict[str, float | int]:
    figures: dict[str, float | int] = {}
    first = [pair for pair in found.measuring if pair.cheat not in found.later]
    later = [pair for pair in found.measuring if pair.cheat in found.later]
    for prefix, pairs in (("", found.measuring), ("first_", first), ("later_", later), ("tuning_", found.tuning)):
        for suffix, kinds in (("", (True, True)), ("_text", (True, False)), ("_timing", (False, True))):
            told = cross_validated(pairs, text=kinds[0], time=kinds[1])
            figures |= {f"{prefix}balanced_accuracy{suffix}": told.accuracy, f"{prefix}auroc{suffix}": told.auroc}
            figures[f"{prefix}balanced_accuracy{suffix}_error"] = told.error
            if prefix == "":
                real = cross_validated(real_twice(pairs), text=kinds[0], time=kinds[1])
                figures[f"balanced_accuracy{suffix}_real"] = real.accuracy
        figures[f"{prefix}identical"] = sum(p.real == p.fake for p in pairs) / max(len(pairs), 1)
        figures[f"{prefix}samples"] = 2 * len(pairs)
    both = cross_validated(found.measuring, text=True, time=True, known=found.tuning)
    figures |= {"trained_on_both": both.accuracy, "trained_on_both_error": both.error}
    files = cross_validated(found.files, text=True, time=True)
    figures |= {"balanced_accuracy_files": files.accuracy, "auroc_files": files.auroc}
    return figures | {"samples_files": 2 * len(found.files), "without_failure": found.without_failure}


def real_twice(pairs: Sequence[Pair]) -> list[Pair]:
    """The first real answer beside the second; which of them is called the fake one is drawn."""
    rng = random.Random(7)
    made = []
    for pair in pairs:
        assert pair.again is not None
        answers = [(pair.real, pair.real_s), (pair.again, pair.again_s)]
        rng.shuffle(answers)
        (real, real_s), (fake, fake_s) = answers
        made.append(msgspec.structs.replace(pair, real=real, real_s=real_s, fake=fake, fake_s=fake_s))
    return made


class Told(msgspec.Struct, frozen=True):
    """How well answers are told apart, on average over `SEEDS` ways to draw the folds."""

    accuracy: float
    auroc: float
    error: float
    """Standard error of the accuracy: cheats drawn anew, with all their answers."""


def _answers(pair: Pair) -> tuple[tuple[Observation, float, int], ...]:
    return (pair.real, pair.real_s, 0), (pair.fake, pair.fake_s, 1)


def cross_validated(pairs: Sequence[Pair], *, text: bool, time: bool, known: Sequence[Pair] = ()) -> Told:
    """Over all folds; no cheat is in two of them. What is `known` is always learnt from."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    labels = np.array([label for pair in pairs for *_, label in _answers(pair)])
    scores = _scores(pairs, text=text, time=time, known=known)
    right = np.mean([(of_seed > 0.5) == labels for of_seed in scores], axis=0)
    cheats = {cheat: number for number, cheat in enumerate(dict.fromkeys(pair.cheat for pair in pairs))}
    groups = np.repeat([cheats[pair.cheat] for pair in pairs], 2)
    sums = np.bincount(groups, right)
    counts = np.bincount(groups)
    drawn = np.random.default_rng(7).integers(len(counts), size=(1000, len(counts)))
    accuracies = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)  # both kinds are equally many of every cheat
    return Told(
        float(np.mean([balanced_accuracy_score(labels, of_seed > 0.5) for of_seed in scores])),
        float(np.mean([roc_auc_score(labels, of_seed) for of_seed in scores])),
        float(np.std(accuracies)),
    )


def _scores(pairs: Sequence[Pair], *, text: bool, time: bool, known: Sequence[Pair]) -> list[np.ndarray]:
    """Of every answer, how likely it is a fake: once for each way to draw the folds."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.preprocessing import StandardScaler

    answers = [(p, a, s, label) for p in (*pairs, *known) for a, s, label in _answers(p)]
    texts = [text_of(a) for _, a, _, _ in answers]
    rows: list[Callable[[int], list[float]]] = []
    if text:
        rows.append(lambda n: agreement(answers[n][0].action, answers[n][1]))
    if time:
        rows.append(lambda n: timing(answers[n][0].action, answers[n][2]))
    numbers = np.array([[value for row in rows for value in row(n)] for n in range(len(answers))])
    labels = np.array([label for *_, label in answers])
    told = 2 * len(pairs)
    groups = np.array([p.cheat for p, *_ in answers[:told]])
    found = []
    for seed in range(SEEDS):
        scores = np.zeros(told)
        folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
        for own, test in folds.split(numbers[:told], labels[:told], groups):
            train = np.concatenate([own, np.arange(told, len(answers))])
            parts_train, parts_test = [], []
            scaler = StandardScaler().fit(numbers[train])
            parts_train.append(csr_matrix(scaler.transform(numbers[train])))
            parts_test.append(csr_matrix(scaler.transform(numbers[test])))
            for analyzer, ngrams in (("word", (1, 2)), ("char_wb", (3, 4))) if text else ():
                vectorizer = TfidfVectorizer(
                    analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, max_features=8000,
                    token_pattern=r"\S+" if analyzer == "word" else None,  # pyright: ignore[reportArgumentType]
                )  # fmt: skip
                parts_train.append(vectorizer.fit_transform([texts[n] for n in train]))
                parts_test.append(vectorizer.transform([texts[n] for n in test]))
            model = LogisticRegression(C=10.0, max_iter=300, solver="liblinear")
            model.fit(hstack(parts_train).tocsr(), labels[train])
            scores[test] = model.predict_proba(hstack(parts_test).tocsr())[:, 1]
        found.append(scores)
    return found
