"""Generalised advantage estimation over action tokens, as pure functions on numpy arrays.

In: rewards, values and the action mask of one episode, all aligned with its tokens. Out: advantages and returns,
aligned too, zero wherever the policy did not act. Observations are skipped: the step goes from the last token of an
action to the first of the next, with one discount, so that what the environment prints, and how much of it, never
changes an advantage. Nothing here normalises within a group of episodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def gae(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike, *, gamma: float, lam: float, bootstrap: float = 0.0
) -> tuple[Array, Array]:
    """Advantages and returns (`advantages + values`) of one episode; all arrays [tokens], results float64 [tokens].

    `values[i]` is V(state before token i). With k = 1..n over the action tokens only (GAE, eq. 16, Schulman 2016):

        delta_k = r_k + gamma V_{k+1} - V_k,    A_k = delta_k + gamma lam A_{k+1},    V_{n+1} = bootstrap

    A reward that sits on a token of the driver counts for the action token before it (a verdict that arrives after
    the last observation is not lost); one before the first action was earned by nobody and is dropped. Values of
    tokens that are no actions are never read. `bootstrap` is 0 for an episode that ended; for a truncated one it is
    the critic's value of the state it was cut off in. An episode without action tokens gives zeros.
    """
    acts = np.flatnonzero(np.asarray(mask))
    rewards_all = np.asarray(rewards, np.float64)
    values_all = np.asarray(values, np.float64)
    advantages = np.zeros(rewards_all.shape, np.float64)
    returns = np.zeros(rewards_all.shape, np.float64)
    if not len(acts):
        return advantages, returns
    reward = np.add.reduceat(rewards_all, acts)
    value = values_all[acts]
    delta = reward + gamma * np.append(value[1:], bootstrap) - value
    running = 0.0
    decay = gamma * lam
    result = delta.tolist()
    for k in range(len(result) - 1, -1, -1):
        running = result[k] + decay * running
        result[k] = running
    advantages[acts] = result
    returns[acts] = advantages[acts] + value
    return advantages, returns


def adaptive_lambda(action_tokens: int, alpha: float) -> float:
    """lam = 1 - 1 / (alpha l) for an episode of l action tokens, at least 0 (VAPO, length-adaptive GAE).

    The signal of the last token reaches the first as lam^l, which tends to exp(-1/alpha) however long the episode is.
    """
    return max(0.0, 1.0 - 1.0 / (alpha * action_tokens)) if action_tokens else 0.0


def whiten(advantages: Sequence[ArrayLike], masks: Sequence[ArrayLike], *, eps: float = 1e-8) -> list[Array]:
    """Shift and scale to mean 0 and standard deviation 1 over the action tokens of the whole batch; others stay 0.

    Every token counts the same, whichever episode it is from. One token (or all equal): only the mean is removed.
    """
    flat = [np.asarray(a, np.float64) for a in advantages]
    picks = [np.asarray(m) != 0 for m in masks]
    chosen = np.concatenate([a[m] for a, m in zip(flat, picks, strict=True)]) if flat else np.zeros(0)
    if not len(chosen):
        return [np.zeros_like(a) for a in flat]
    mean, deviation = chosen.mean(), chosen.std()
    scale = 1.0 / deviation if deviation > eps else 1.0
    return [np.where(m, (a - mean) * scale, 0.0) for a, m in zip(flat, picks, strict=True)]


def explained_variance(values: Sequence[ArrayLike], returns: Sequence[ArrayLike], masks: Sequence[ArrayLike]) -> float:
    """1 - Var(returns - values) / Var(returns) over the action tokens of the batch; 0 where returns do not vary.

    1: the critic knows the outcome; 0: it knows no more than the mean; negative: worse than the mean.
    """
    picks = [np.asarray(m) != 0 for m in masks]
    v = np.concatenate([np.asarray(x, np.float64)[m] for x, m in zip(values, picks, strict=True)])
    r = np.concatenate([np.asarray(x, np.float64)[m] for x, m in zip(returns, picks, strict=True)])
    variance = float(r.var()) if len(r) else 0.0
    return 1.0 - float((r - v).var()) / variance if variance > 1e-12 else 0.0
