"""A synthetic task with episodes of 3 to 200 steps, each played once, and a policy that plays many of them at once.

In: a random number generator, or drawn tasks and a policy. Out: tasks, graded episodes, demonstrations of how to answer
but not of what. In each step the policy is shown a letter and answers with a digit; which digit is right for a letter
is what is to be learnt. The task's prompt is its difficulty: as in real suites, some programs pass most hidden tests
whatever is done and others hardly any, and what the actions decide is a fifth of the scale,

    reward = span * (share of right answers) + (1 - span) * difficulty,    paid once, at the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rl.engine import MegatronEngine
from rl.episode import Episode
from rl.tokenizers import ByteCodec

LETTERS = b"abcd"
ANSWERS = b"0123"
RIGHT = {letter: ANSWERS[(7 * i + 3) % len(ANSWERS)] for i, letter in enumerate(LETTERS)}
LEVELS = b"ABCDE"
"""Difficulties, from a floor of 0 to one of 1 - span."""


@dataclass(frozen=True)
class World:
    shortest: int = 3
    longest: int = 200
    levels: int = len(LEVELS)
    span: float = 0.2

    @property
    def context_tokens(self) -> int:
        return max(16, 3 + 2 * self.longest)

    def draw(self, rng: random.Random, count: int) -> list[Task]:
        """Lengths log-uniform, levels and letters uniform."""
        ratio = self.longest / self.shortest
        return [
            Task(
                level=rng.randrange(self.levels),
                letters=bytes(rng.choices(LETTERS, k=round(self.shortest * ratio ** rng.random()))),
            )
            for _ in range(count)
        ]

    def reward(self, task: Task, answers: Sequence[int]) -> float:
        floor = task.level / (self.levels - 1) if self.levels > 1 else 0.0
        return self.span * share_right(task, answers) + (1 - self.span) * floor


@dataclass(frozen=True)
class Task:
    level: int
    letters: bytes
    """What is shown, step by step."""

    def episode(self, name: str) -> Episode:
        made = Episode(
            id=name, suite="lengths", task="letters", seed=0, tokens=[], action_mask=[], logprobs=[], versions=[]
        )
        made.append([ByteCodec.BOS, LEVELS[self.level], ByteCodec.ACT], sampled=False)
        return made


def share_right(task: Task, answers: Sequence[int]) -> float:
    return float(np.mean([answer == RIGHT[letter] for letter, answer in zip(task.letters, answers, strict=True)]))


def demonstrations(world: World, rng: random.Random, count: int) -> list[Episode]:
    """Episodes that answer at random: they teach that an answer is one of the digits, and nothing else."""
    made = []
    for task in world.draw(rng, count):
        episode = task.episode("demonstration")
        for letter in task.letters:
            episode.append([letter], sampled=False)
            episode.append([rng.choice(ANSWERS)], sampled=True, logprobs=[0.0], version=0)
        made.append(episode)
    return made


class Player(MegatronEngine):
    """Plays episodes step by step with one key/value cache: what is shown goes through it like what is sampled."""

    @torch.no_grad()
    def play(self, world: World, tasks: Sequence[Task], rng: torch.Generator) -> tuple[list[Episode], list[float]]:
        """Graded episodes, longest first, and the share of right answers of each."""
        tasks = sorted(tasks, key=lambda task: -len(task.letters))
        episodes = [task.episode(str(number)) for number, task in enumerate(tasks)]
        answers: list[list[int]] = [[] for _ in tasks]
        shape, weights = self._model.shape, self._weights()
        cache = torch.zeros(
            shape.layers, 2, len(tasks), shape.kv_heads, world.context_tokens, shape.head_dim, dtype=self._dtype
        )
        column = 0

        def see(tokens: list[int]) -> Tensor:
            """The hidden states after one more token of each of the first episodes, all of which are equally long."""
            nonlocal column
            rows, end = len(tokens), column + 1

            def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                keys, values = cache[layer, :, :rows]
                keys[:, :, end - 1], values[:, :, end - 1] = k, v
                out = F.scaled_dot_product_attention(
                    q[:, :, None],
                    keys[:, :, :end],
                    values[:, :, :end],
                    scale=self._scale,
                    enable_gqa=self._queries > 1,
                )
                return out[:, :, 0]

            hidden = self._forward(weights, torch.tensor(tokens), torch.full((rows,), column), attend)
            column = end
            return hidden

        for place in range(len(episodes[0].tokens)):
            see([episode.tokens[place] for episode in episodes])
        for step in range(len(tasks[0].letters)):
            shown = [task.letters[step] for task in tasks if len(task.letters) > step]
            hidden = see(shown)
            uniform = torch.rand(len(shown), generator=rng, dtype=torch.float64)
            sampled, logprobs = (drawn.tolist() for drawn in self._sample(hidden, uniform, 1.0))
            for i, letter in enumerate(shown):
                episodes[i].append([letter], sampled=False)
                episodes[i].append([sampled[i]], sampled=True, logprobs=[logprobs[i]], version=0)
                answers[i].append(sampled[i])
            going = sum(len(task.letters) > step + 1 for task in tasks)
            if going:
                see(sampled[:going])
        shares = []
        for task, episode, given in zip(tasks, episodes, answers, strict=True):
            episode.status, episode.reward = "done", world.reward(task, given)
            shares.append(share_right(task, given))
        return episodes, shares
