"""The learner on episodes made by hand: what is credited to which token, and what an update does to the policy."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.errors import EctypeError
from rl.config import WarmStart
from rl.learner import Learner
from rl.packing import Sample, make_packs, sample
from tests.rl.learner_data import EVERYTHING, as_sampled, batch, config, episode, give_opinions, one_step, staged
from tests.rl.processes import ranks

pytestmark = [pytest.mark.megatron, pytest.mark.usefixtures("one_rank")]


def samples_of(episodes: list) -> list[Sample]:
    return [sample(e.tokens, e.action_mask, logprobs=e.logprobs) for e in episodes]


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.gpt.named_parameters()}


def logprob(learner: Learner, one: Any) -> float:
    """Of all action tokens of an episode together."""
    (pack,) = make_packs(samples_of([one]), 1024)
    return float(learner.actor.logprobs([pack])[0].sum())


def test_a_value_is_of_the_state_before_its_token() -> None:
    learner = Learner(config())
    give_opinions(learner)
    (long,) = samples_of([batch()[2]])
    other = sample(long.tokens.copy(), long.action_mask)
    at = int(np.flatnonzero(long.action_mask)[4])
    other.tokens[at] = ord("!")
    found = dict(learner._values([long, other]))
    assert found[0][0] == 0.0
    np.testing.assert_allclose(found[1][: at + 1], found[0][: at + 1], atol=1e-5)
    assert abs(found[1][at + 1] - found[0][at + 1]) > 1e-3, "the next state has seen the other token"


def test_values_do_not_depend_on_how_episodes_are_packed() -> None:
    values = []
    for budget in (64, 8192):
        learner = Learner(config(ppo={"batch_tokens": budget}))
        give_opinions(learner)
        values.append(dict(learner._values(samples_of(batch()))))
    for index in values[0]:
        np.testing.assert_allclose(values[0][index], values[1][index], atol=1e-5)


def test_advantages_and_returns_lie_on_the_tokens_that_earned_them() -> None:
    ppo = {"gamma": 0.9, "critic_lambda": 1.0, "actor_lambda_alpha": 1.5, "whiten_advantages": False}
    learner = Learner(config(ppo=ppo))
    give_opinions(learner)
    episodes = batch()
    made = samples_of(episodes)
    rewards = [e.reward or 0.0 for e in episodes]
    learner._estimate(made, rewards)
    for one, played, outcome in zip(made, episodes, rewards, strict=True):
        acts = [i for i, acted in enumerate(played.action_mask) if acted]
        outside = [i for i, acted in enumerate(played.action_mask) if not acted]
        assert not one.advantages[outside].any() and not one.returns[outside].any()
        assert one.values[acts].std() > 0 or len(acts) == 1
        lam = max(0.0, 1 - 1 / (1.5 * len(acts)))
        advantage, following = 0.0, 0.0
        for k, i in reversed(list(enumerate(acts))):
            reward = outcome if k == len(acts) - 1 else 0.0
            advantage = reward + 0.9 * following - one.values[i] + 0.9 * lam * advantage
            following = one.values[i]
            assert one.advantages[i] == pytest.approx(advantage, abs=1e-5)
            assert one.returns[i] == pytest.approx(outcome * 0.9 ** (len(acts) - 1 - k), abs=1e-5)


def test_whitening_is_over_the_action_tokens_of_the_whole_batch() -> None:
    learner = Learner(config())
    give_opinions(learner)
    made = samples_of(batch())
    learner._estimate(made, [1.0, 0.0, 1.0, 0.0, 1.0])
    chosen = np.concatenate([s.advantages[s.action_mask > 0] for s in made])
    assert (chosen.mean(), chosen.std()) == (pytest.approx(0, abs=1e-5), pytest.approx(1, abs=1e-5))
    assert all(not s.advantages[s.action_mask == 0].any() for s in made)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_probability_moves_towards_what_was_rewarded(temperature: float) -> None:
    rollout = {"context_tokens": 96, "max_new_tokens": 12, "temperature": temperature}
    learner = Learner(config(rollout=rollout, ppo={"actor_lr": 3e-3}))
    good, bad = episode("good", [(b"yes", b"")], 1.0), episode("bad", [(b"no!", b"")], 0.0)
    before = logprob(learner, good), logprob(learner, bad)
    for step in range(4):
        stats = learner.update(as_sampled(learner, [good, bad]), step=step)
        assert stats["actor_skipped"] == 0.0
    assert logprob(learner, good) > before[0]
    assert logprob(learner, bad) < before[1]


def test_on_policy_the_first_ratio_is_one() -> None:
    """Recorded log-probs and the training forward agree, also at a temperature."""
    rollout = {"context_tokens": 96, "max_new_tokens": 12, "temperature": 1.3}
    learner = Learner(config(rollout=rollout, ppo={"epochs": 1, "minibatches": 1}))
    prompt = learner.codec.prompt("go")
    episodes = []
    for number, answer in enumerate(learner.generate([prompt] * 6, list(range(6)))):
        played = episode(f"e{number}", [], float(number % 2))
        played.append(answer.tokens, sampled=True, logprobs=answer.logprobs, version=0)
        episodes.append(played)
    stats = learner.update(episodes, step=0)
    assert stats["ratio"] == pytest.approx(1, abs=1e-4)
    assert stats["kl"] == pytest.approx(0, abs=1e-6)
    assert stats["outside"] == 0.0


def test_the_critic_learns_the_outcome() -> None:
    learner = Learner(config(ppo={"critic_lr": 1e-2, "critic_epochs": 8, "critic_warmup_steps": 99}))
    stats = [learner.update(as_sampled(learner, batch()), step=step) for step in range(6)]
    assert stats[0]["explained_variance"] <= 0.0 and stats[0]["value_mean"] == 0.0
    assert stats[-1]["explained_variance"] > 0.5


def test_a_warm_up_leaves_the_actor_as_it_is() -> None:
    learner = Learner(config(ppo={"critic_warmup_steps": 2}))
    episodes = as_sampled(learner, batch())
    actor, critic = weights(learner.actor), weights(learner.critic)
    for step in range(2):
        stats = learner.update(episodes, step=step)
        assert "policy_loss" not in stats and stats["value_loss"] > 0
    assert all(torch.equal(now, actor[name]) for name, now in weights(learner.actor).items())
    assert learner.actor.optimizer is not None and learner.actor.optimizer.steps == 0
    assert any(not torch.equal(now, critic[name]) for name, now in weights(learner.critic).items())
    assert "policy_loss" in learner.update(episodes, step=2)
    assert any(not torch.equal(now, actor[name]) for name, now in weights(learner.actor).items())


def test_the_schedule_ends_at_zero() -> None:
    """Ten steps are planned; at the eleventh nothing would move any more."""
    learner = Learner(config(ppo={"lr_schedule": "linear"}))
    episodes = as_sampled(learner, batch())
    before = weights(learner.actor)
    learner.update(episodes, step=10)
    assert all(torch.equal(now, before[name]) for name, now in weights(learner.actor).items())


def test_learning_rates_follow_the_plan() -> None:
    plan = {"lr_schedule": "cosine", "lr_warmup_steps": 2, "lr_floor": 0.1, "actor_lr": 1e-3, "critic_lr": 1e-2}
    learner = Learner(config(ppo=plan))
    episodes, seen = as_sampled(learner, batch()), []
    for step in (0, 2, 6, 10):
        learner.update(episodes, step=step)
        rates = [group["lr"] for m in (learner.actor, learner.critic) for group in m.optimizer._adam.param_groups]  # type: ignore[union-attr]
        seen.append((rates[0], rates[-1]))
    # ten steps, of which two climb: 1/3, then the whole, the middle and the end of the cosine
    expected = [(1e-3 * f, 1e-2 * f) for f in (1 / 3, 1.0, 0.55, 0.1)]
    np.testing.assert_allclose(seen, expected, rtol=1e-9)


def test_the_critic_learns_more_often_than_the_actor_and_still_more_in_its_warm_up() -> None:
    plan = {
        "minibatches": 1, "epochs": 2, "critic_minibatches": 3, "critic_epochs": 2,
        "critic_warmup_steps": 1, "critic_warmup_epochs": 4, "target_kl": 0.0,
    }  # fmt: skip
    learner = Learner(config(ppo=plan))
    episodes = as_sampled(learner, batch())
    first, second = (learner.update(episodes, step=step) for step in range(2))
    assert first["critic_updates"] == 12 and "actor_updates" not in first
    assert (second["critic_updates"], second["actor_updates"]) == (6, 2)


def test_an_episode_that_was_cut_ends_in_the_value_of_where_it_was_cut() -> None:
    told = {"gamma": 0.9, "whiten_advantages": False, "truncated": "bootstrap", "critic_lambda": 1.0}
    learner = Learner(config(ppo=told))
    give_opinions(learner)
    episodes = batch()
    made = samples_of(episodes)
    (pack,) = make_packs([made[2]], 1024)
    ((values, final),) = learner.critic.values_and_final([pack])
    learner._estimate(made, [1.0] * 5, [False, False, True, False, False])
    acts = np.flatnonzero(made[2].action_mask)
    assert final.item() != 0.0
    for k, i in enumerate(acts):
        assert made[2].values[i] == pytest.approx(values[i].item(), abs=1e-5)
        assert made[2].returns[i] == pytest.approx(final.item() * 0.9 ** (len(acts) - k), abs=1e-5)
    ended = np.flatnonzero(made[0].action_mask)
    assert made[0].returns[ended[-1]] == pytest.approx(1.0, abs=1e-6), "one that ended keeps its reward"


@pytest.mark.parametrize("how", ["graded", "bootstrap"])
def test_a_truncated_episode_counts_its_grade_unless_told_otherwise(how: str) -> None:
    learner = Learner(config(ppo={"truncated": how, "critic_lr": 1e-2, "critic_epochs": 5}))
    episodes = as_sampled(learner, batch())
    for one in episodes:
        one.status, one.reward = "truncated", 1.0
    stats = [learner.update(episodes, step=step) for step in range(2)]
    # the critic starts at zero and says of itself that it is right, or learns that all of them were worth 1
    assert (stats[1]["value_mean"] > 0.1) == (how == "graded")
    assert (stats[0]["value_loss"] > 0) == (how == "graded")


def test_recomputed_logprobs_are_the_trainers_and_the_engines_become_weights() -> None:
    told = {"old_logprobs": "recomputed", "tis_cap": 1.5, "epochs": 1, "minibatches": 1, "whiten_advantages": False}
    learner = Learner(config(ppo=told))
    made = samples_of(as_sampled(learner, batch()))
    true = [s.logprobs.copy() for s in made]
    for one in made:  # an engine that said half as likely as it was, everywhere but on the first action token
        acts = np.flatnonzero(one.action_mask)
        one.logprobs[acts[1:]] -= np.float32(np.log(2))
    stats = learner._prepare_actor(made, 0)
    for one, logprobs in zip(made, true, strict=True):
        acts = np.flatnonzero(one.action_mask)
        np.testing.assert_allclose(one.logprobs[acts], logprobs[acts], atol=1e-5)
        np.testing.assert_allclose(one.weights[acts], [1.0] + [1.5] * (len(acts) - 1), atol=1e-5)
        assert (one.weights[one.action_mask == 0] == 1).all()
    tokens, firsts = sum(int(s.action_mask.sum()) for s in made), len(made)
    assert stats["tis_capped"] == pytest.approx((tokens - firsts) / tokens)
    assert stats["logprob_difference"] == pytest.approx(np.log(2) * (tokens - firsts) / tokens, rel=1e-3)
    assert learner.update(as_sampled(learner, batch()), step=0)["ratio"] == pytest.approx(1, abs=1e-4)


def test_the_reference_is_the_policy_of_the_start_and_holds_the_actor_back(tmp_path: Path) -> None:
    distance = {}
    for kl_coef in (0.001, 100.0):
        learner = Learner(config(ppo={"kl_coef": kl_coef, "actor_lr": 3e-3, "target_kl": 0.0, "epochs": 4}))
        learner.save_actor(tmp_path / f"{kl_coef}")
        learner.load_reference(tmp_path / f"{kl_coef}")
        assert learner.reference is not None and learner.reference.optimizer is None
        start = weights(learner.actor)
        stats = [learner.update(as_sampled(learner, batch()), step=step) for step in range(4)]
        assert all(torch.equal(now, start[name]) for name, now in weights(learner.reference).items())
        distance[kl_coef] = stats[-1]["ref_kl"]
    assert distance[100.0] < 0.2 * distance[0.001]
    with pytest.raises(EctypeError, match="the policy that this run started from is gone"):
        learner.load_reference(tmp_path / "nowhere")
    assert Learner(config()).reference is None


def test_a_categorical_critic_learns_the_outcome() -> None:
    told = {"value_bins": 31, "critic_lr": 1e-2, "critic_epochs": 8, "critic_warmup_steps": 99}
    learner = Learner(config(ppo=told))
    stats = [learner.update(as_sampled(learner, batch()), step=step) for step in range(6)]
    assert stats[0]["value_mean"] == pytest.approx(0.5)
    with pytest.raises(EctypeError, match="reward -1, which the critic's bins cannot say"):
        learner.update([episode("punished", [(b"x", b"")], -1.0)], step=7)
    assert stats[-1]["explained_variance"] > 0.5


def test_a_batch_in_which_nobody_acted_is_no_error() -> None:
    learner = Learner(config())
    assert learner.update([episode("silent", [], 0.0)], step=0) == {"batch_tokens": 0.0}


def test_passes_end_where_the_policy_has_moved_far_enough() -> None:
    far = {"actor_lr": 1e-2, "epochs": 5, "minibatches": 1}
    updates = {}
    for target in (0.0, 1e-4):
        learner = Learner(config(ppo=far | {"target_kl": target}))
        updates[target] = learner.update(as_sampled(learner, batch()), step=0)["actor_updates"]
    assert updates == {0.0: 5.0, 1e-4: 2.0}


def test_an_episode_without_a_reward_is_refused_and_one_without_an_action_ignored() -> None:
    learner = Learner(config())
    with pytest.raises(ValueError, match="episode lost has no reward"):
        learner.update([*batch(), episode("lost", [(b"x", b"")], None)], step=0)
    stats = [
        one_step(Learner(config()), as_sampled(Learner(config()), batch()) + silent)
        for silent in ([], [episode("silent", [], 0.0)])
    ]
    assert stats[0]["value_loss"] == pytest.approx(stats[1]["value_loss"])
    assert stats[0]["batch_tokens"] == stats[1]["batch_tokens"]


def test_imitation_makes_demonstrations_likely_and_leaves_a_fresh_optimizer() -> None:
    learner = Learner(config())
    shown = [episode("shown", [(b"yes", b"seen"), (b"done", b"")], None)] * 256
    before = logprob(learner, shown[0])
    told: list[float] = []
    warm = WarmStart(batch_tokens=64, learning_rate=1e-2)
    learner.imitate(shown, warm, lambda number, **numbers: told.append(numbers["nll"]))
    assert logprob(learner, shown[0]) > 0.2 * before
    assert told[-1] < 0.3 * told[0] and all(math.isfinite(nll) for nll in told)
    assert learner.actor.optimizer is not None and learner.actor.optimizer.steps == 0
    assert not any(first.any() or second.any() for first, second in learner.actor.optimizer.moments.values())


def test_observations_are_not_imitated() -> None:
    told: list[list[float]] = []
    for seen in (b"seen", b"xxxx"):
        losses: list[float] = []
        Learner(config()).imitate(
            [episode("shown", [(b"yes", seen), (b"", b"")], None)],
            WarmStart(batch_tokens=64),
            lambda number, into=losses, **numbers: into.append(numbers["nll"]),
        )
        told.append(losses)
    # the first action has seen nothing of it, the one token of the second a little
    assert told[0] == pytest.approx(told[1], rel=0.1) and told[0] != told[1]


@pytest.fixture(scope="module")
def alone() -> Iterator[tuple[list[list[float]], dict[str, Any]]]:
    """Recorded log-probs of the batch, and what one rank makes of them."""
    learner = Learner(config())
    give_opinions(learner)
    episodes = as_sampled(learner, batch())
    yield [e.logprobs for e in episodes], one_step(learner, episodes)


def test_two_data_parallel_ranks_learn_what_one_does(
    alone: tuple[list[list[float]], dict[str, Any]], tmp_path: Path
) -> None:
    logprobs, expected = alone[0], dict(alone[1])
    (tmp_path / "logprobs.json").write_text(json.dumps(logprobs))
    with ranks(2, "tests.rl.learner_data", str(tmp_path)) as started:
        errors = [rank.communicate(timeout=300)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.pop("tokens") == expected.pop("tokens")
    assert result == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_two_pipeline_stages_learn_what_one_does(tmp_path: Path) -> None:
    learner = Learner(staged(pp=1))
    give_opinions(learner)
    episodes = as_sampled(learner, batch())
    (tmp_path / "logprobs.json").write_text(json.dumps([e.logprobs for e in episodes]))
    expected = one_step(learner, episodes)
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "stages") as started:
        errors = [rank.communicate(timeout=300)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.pop("tokens") == expected.pop("tokens")
    assert result == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_two_tensor_parallel_ranks_learn_what_one_does_with_everything_switched_on(tmp_path: Path) -> None:
    other = Learner(config(seed=7))
    other.save_actor(tmp_path / "reference")
    learner = Learner(config(ppo=EVERYTHING))
    give_opinions(learner)
    learner.load_reference(tmp_path / "reference")
    logprobs = [[x - 0.2 if x else 0.0 for x in e.logprobs] for e in as_sampled(learner, batch())]
    (tmp_path / "logprobs.json").write_text(json.dumps(logprobs))
    episodes = batch()
    for one, recorded in zip(episodes, logprobs, strict=True):
        one.logprobs = recorded
    expected = one_step(learner, episodes)
    assert expected["tis_weight"] == pytest.approx(math.exp(0.2), rel=1e-4) and expected["ref_kl"] > 0
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "all") as started:
        errors = [rank.communicate(timeout=300)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result.pop("tokens") == expected.pop("tokens")
    assert result == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_generating_between_optimizer_steps_changes_nothing_in_an_update_and_ranks_keep_in_step(
    alone: tuple[list[list[float]], dict[str, Any]], tmp_path: Path
) -> None:
    logprobs, expected = alone
    (tmp_path / "logprobs.json").write_text(json.dumps(logprobs))
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "interleaved") as started:
        errors = [rank.communicate(timeout=300)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)
    result = json.loads((tmp_path / "result.json").read_text())
    assert 0 <= result.pop("logprob_difference") <= result.pop("logprob_difference_max") < 1e-3
    assert result.pop("tokens") == expected["tokens"]
    assert result == pytest.approx({name: expected[name] for name in result}, rel=1e-3, abs=1e-5)
    meanwhile = [json.loads(line) for line in (tmp_path / "meanwhile").read_text().splitlines()]
    assert len(meanwhile) == result["critic_updates"] + result["actor_updates"]
    assert all(len(answer) > 0 for answers in meanwhile for answer in answers)


def test_an_error_of_the_first_rank_is_said_although_others_wait_for_it(tmp_path: Path) -> None:
    """They may wait inside a collective that the first rank never reaches; submitit ends them with it."""
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "fail") as (first, _):
        try:
            out, err = first.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            pytest.fail("the first rank waits for the others")
        assert first.returncode == 2, err
        assert "cannot write a checkpoint" in out


def test_ranks_wait_for_the_next_operation_longer_than_an_operation_may_take(tmp_path: Path) -> None:
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "idle") as started:
        errors = [rank.communicate(timeout=300)[1] for rank in started]
        assert all(rank.returncode == 0 for rank in started), "\n".join(errors)


def test_ranks_do_not_wait_for_one_that_is_gone(tmp_path: Path) -> None:
    with ranks(2, "tests.rl.learner_data", str(tmp_path), "die") as (first, second):
        first.communicate(timeout=120)
        second.communicate(timeout=120)
        assert second.returncode != 0
