"""Actor, critic and generation engine behind the few operations that the training loop needs, on any number of ranks.

Rank 0 runs the training loop; the other ranks sit in `follow()` and repeat every operation that rank 0 broadcasts, so
that tensor- and data-parallel collectives meet. Each operation takes whole episodes and shares them out over the
data-parallel ranks itself; the losses are normalised by the global number of action tokens, so that the split never
changes a gradient.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from audit.errors import EctypeError
from rl import checkpoint, context, parallel, schedules
from rl.advantages import adaptive_lambda, gae, whiten
from rl.config import LearnConfig, PolicyConfig, PPOConfig, WarmStart
from rl.diagnostics import critic_quality, packing_quality, terminal_signal
from rl.engine import MegatronEngine
from rl.episode import Episode
from rl.losses import categorical_value_loss, importance_weights, policy_loss, supervised_loss, value_loss
from rl.models import MegatronModel, ModelShape, OptimizerConfig
from rl.packing import Pack, Sample, balance, make_packs, sample
from rl.rollout import Generation, Request
from rl.tokenizers import ByteCodec, ChatCodec, Codec
from rl.value_head import ValueSupport
from rl.vllm_engine import VLLMEngine

Progress = Callable[..., None]


def model_shape(policy: PolicyConfig, context_tokens: int) -> ModelShape:
    """Shape of the policy's network, without building it."""
    if policy.kind == "tiny":
        shape = policy.shape
        return ModelShape(
            layers=shape.layers,
            hidden=shape.hidden,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            ffn=shape.ffn,
            vocab=ByteCodec.vocab,
            max_positions=context_tokens,
            tied=True,
        )
    from rl import hf

    return hf.read_shape(hf_folder(policy))


def hf_folder(policy: PolicyConfig) -> Path:
    from rl import hf

    if policy.kind == "smollm2":
        return hf.load_smollm2()
    assert policy.path is not None
    return Path(policy.path)


class Learner:
    """Everything that computes. `rank` 0 leads."""

    def __init__(self, config: LearnConfig, *, server_log: Path | None = None) -> None:
        """`server_log`: where the log of a vLLM server goes; needed with `rollout.engine: vllm`."""
        parallel.init(
            tp=config.parallel.tp,
            pp=config.parallel.pp,
            cp=config.parallel.cp,
            sequence=config.parallel.sequence,
            threads=config.policy.threads,
            timeout_s=config.parallel.timeout_s,
        )
        self.rank = parallel.rank()
        self._config = config
        self.shape = model_shape(config.policy, config.rollout.context_tokens)
        self.codec: Codec = make_codec(config.policy)
        ppo = config.ppo
        self._actor_optimizer, self._critic_optimizer = (
            OptimizerConfig(
                lr=lr,
                clip_grad=ppo.clip_grad,
                weight_decay=ppo.weight_decay,
                shard_over_dp=config.parallel.shard_optimizer,
            )
            for lr in (ppo.actor_lr, ppo.critic_lr)
        )
        self._support = value_support(ppo)
        hf_weights = config.policy.kind != "tiny"
        build = partial(MegatronModel, self.shape, seed=config.seed, initialize=not hf_weights)
        self.actor = build(optimizer=self._actor_optimizer)
        self.critic = build(
            critic=True,
            optimizer=self._critic_optimizer,
            value_support=self._support,
            freeze_attention=ppo.critic_freeze_attention,
        )
        self.reference = build() if ppo.with_reference else None
        """Frozen; a tiny policy's is loaded by `load_reference`."""
        if hf_weights:
            from rl import hf

            hf.load_weights(hf_folder(config.policy), self.actor)
            self.critic.copy_body(self.actor)
            if self.reference is not None:
                hf.load_weights(hf_folder(config.policy), self.reference)
        self._engine = MegatronEngine(self.actor)
        self._write: Future[Path] | None = None
        self._trained_tokens = 0
        self._interleaved = config.rollout.mode == "async" and config.rollout.engine == "megatron"
        self._interlude_s = 0.0
        self.between: Callable[[], None] | None = None
        """Called by rank 0 between optimizer steps in the asynchronous mode: it may call `serve`."""
        self._vllm = self._start_vllm(server_log) if config.rollout.engine == "vllm" and self.rank == 0 else None

    def _start_vllm(self, log_file: Path | None) -> VLLMEngine:
        assert log_file is not None
        own = list(self.actor.gpt.parameters())
        layout = self._config.parallel
        engine = VLLMEngine(
            self._config.vllm,
            model=hf_folder(self._config.policy),
            dtype=str(own[0].dtype).removeprefix("torch."),
            context_tokens=self._config.rollout.context_tokens,
            batch=self._config.rollout.generate_batch,
            weight_bytes=sum(p.numel() * p.element_size() for p in own) * layout.tp * layout.pp,
            log_file=log_file,
        )
        engine.start()
        return engine

    # --- every rank, in step ----------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Ranks above 0: repeat what rank 0 does until it releases them."""
        self._repeat(until="")
        self.finish_save()

    def _repeat(self, until: str) -> None:
        while True:
            call: list[Any] = [None]
            dist.broadcast_object_list(call, src=0, group=parallel.control_group())
            name, args, kwargs = call[0] or ("", (), {})
            if name == until:
                return
            getattr(self, name)(*args, **kwargs)

    def _lead(self, name: str, *args: Any, **kwargs: Any) -> None:
        if self.rank == 0 and parallel.world() > 1:
            dist.broadcast_object_list([(name, args, kwargs)], src=0, group=parallel.control_group())

    def release_followers(self) -> None:
        if self.rank == 0 and parallel.world() > 1:
            dist.broadcast_object_list([None], src=0, group=parallel.control_group())

    def _interlude(self) -> None:
        """Between two optimizer steps of an update: rank 0 may generate for episodes that wait, and the others follow.

        In the asynchronous mode with the actor's own weights; what is sampled here is by the actor as it is right now.
        """
        if not self._interleaved:
            return
        started = time.perf_counter()
        if self.rank > 0:
            self._repeat(until="_learn_on")
        else:
            if self.between is not None:
                self.between()
            self._lead("_learn_on")
        self._interlude_s += time.perf_counter() - started

    # --- operations -------------------------------------------------------------------------------------------------

    def publish(self, version: int) -> None:
        """What `generate` samples from becomes the actor as it is now, which is policy version `version`."""
        self._publish(version, None if self._vllm is None else self._vllm.weights_folder / f"policy-{version}")

    def _publish(self, version: int, folder: Path | None) -> None:
        """Megatron's engine reads the actor's own weights; vLLM's server is given them as files."""
        if self._config.rollout.engine != "vllm":
            return
        assert folder is not None
        self._lead("_publish", version, folder)
        from rl import hf

        hf.export(self.actor, folder)
        if self._vllm is not None:
            self._vllm.publish(version, folder)

    def close(self) -> None:
        """End what was started beside this process."""
        if self._vllm is not None:
            self._vllm.close()

    def generate(self, contexts: list[list[int]], seeds: list[int]) -> list[Generation]:
        """One action per context, by the policy that was published last; without vLLM, by the actor as it is."""
        results: dict[int, Generation] = {}
        arrivals = [[(i, c, s) for i, (c, s) in enumerate(zip(contexts, seeds, strict=True))]]
        self.serve(lambda: arrivals.pop() if arrivals else [], results.__setitem__)
        return [results[i] for i in range(len(contexts))]

    def serve(
        self,
        poll: Callable[[], list[tuple[int, list[int], int]]],
        deliver: Callable[[int, Generation], None],
    ) -> None:
        """`rl.rollout.Serve`. Every rank generates for all: rank 0 tells the others before each token what has come."""
        if self._vllm is None:
            self._lead("_serve_along")
        several = self._vllm is None and parallel.world() > 1

        def brought() -> list[tuple[int, Request]]:
            requests = [(number, self._request(context, seed)) for number, context, seed in poll()]
            if several:
                dist.broadcast_object_list([requests], src=0, group=parallel.control_group())
            return requests

        (self._vllm or self._engine).serve(brought, deliver, stop_tokens=self._stops, temperature=self._temperature)

    def _serve_along(self) -> None:
        """Ranks above 0: generate what rank 0 does."""

        def brought() -> list[tuple[int, Request]]:
            requests: list[Any] = [None]
            dist.broadcast_object_list(requests, src=0, group=parallel.control_group())
            return requests[0]

        self._engine.serve(brought, lambda *_: None, stop_tokens=self._stops, temperature=self._temperature)

    def _request(self, context: list[int], seed: int) -> Request:
        rollout = self._config.rollout
        room = min(rollout.context_tokens, self.shape.max_positions) - len(context)
        return Request(context, seed, min(rollout.max_new_tokens, room))

    @property
    def _stops(self) -> set[int]:
        return set(self.codec.stop_tokens)

    def imitate(self, episodes: Sequence[Episode], warm: WarmStart, progress: Progress | None = None) -> None:
        """Warm start: maximum likelihood on the action tokens of demonstrations, learning rate falling to zero."""
        self._lead("imitate", episodes, warm)
        samples = [sample(e.tokens, e.action_mask) for e in episodes]
        rng = random.Random(self._config.seed)
        batches: list[list[Sample]] = []
        for _ in range(warm.epochs):
            order = rng.sample(samples, len(samples))
            size = max(1, round(warm.batch_tokens / np.mean([len(s.tokens) for s in samples])))
            batches += [order[i : i + size] for i in range(0, len(order), size)]
        for number, batch in enumerate(batches):
            self.actor.set_lr(warm.learning_rate * min(1.0, (number + 1) / 10) * (1 - number / len(batches)))
            normalizer = float(sum(s.action_mask.sum() for s in batch))

            def loss(out: Any, pack: Pack, n: float = normalizer) -> Any:
                return supervised_loss(out.logprobs, torch.from_numpy(pack.action_mask), normalizer=n)

            stats = self.actor.train_step(self._share(batch, warm.batch_tokens), loss)
            if progress is not None:
                progress(number, batches=len(batches), nll=stats["nll"])
        self._fresh_optimizer()

    def start_critic(self) -> None:
        """A fresh critic sees the world as the actor does."""
        self._lead("start_critic")
        self.critic.copy_body(self.actor)

    def save(self, root: Path, state: bytes, *, step: int, keep: int) -> None:
        """Copy everything and begin to write a complete checkpoint of it; a write before this one is waited for.

        Raises `EctypeError` when the disk refuses, this time or the time before. `finish_save` waits for the end.
        """
        self._lead("save", root, state, step=step, keep=keep)
        self.finish_save()
        models = {"actor": self.actor, "critic": self.critic}
        self._write = checkpoint.begin(root, models, state, step=step, keep=keep)
        if not self._config.trainer.async_checkpoint:
            self.finish_save()

    def finish_save(self, *, wait: bool = True) -> None:
        """Wait until the checkpoint in flight is on disk, or (`wait=False`) only look whether it failed; raises so."""
        if self._write is not None and (wait or self._write.done()):
            write, self._write = self._write, None
            write.result()

    def load(self, folder: Path) -> bytes:
        """Restore everything from a checkpoint; returns the trainer's state."""
        self._lead("load", folder)
        return checkpoint.load(folder, {"actor": self.actor, "critic": self.critic})

    def save_actor(self, root: Path) -> None:
        """Write the policy alone, for another run to start from."""
        self._lead("save_actor", root)
        checkpoint.save(root, {"actor": self.actor}, b"", step=0, keep=1)

    def load_actor(self, root: Path) -> None:
        """Start from a policy that `save_actor` wrote; its optimizer starts fresh."""
        self._lead("load_actor", root)
        folder = checkpoint.latest(root)
        if folder is None:
            raise EctypeError(
                "no policy to start from",
                where=str(root),
                remedy="set policy.warm_start.load to the warm_start folder of a finished run, or leave it out",
            )
        checkpoint.load(folder, {"actor": self.actor})
        self._fresh_optimizer()

    def load_reference(self, root: Path) -> None:
        """The frozen reference policy becomes the one that `save_actor` wrote."""
        self._lead("load_reference", root)
        assert self.reference is not None
        folder = checkpoint.latest(root)
        if folder is None:
            raise EctypeError(
                "the policy that this run started from is gone: without it there is no reference to keep close to",
                where=str(root),
                remedy="restore the warm_start folder of the run, or start a new run with ppo.kl_coef: 0",
            )
        checkpoint.load(folder, {"actor": self.reference})

    def _fresh_optimizer(self) -> None:
        assert self.actor.optimizer is not None
        self.actor.optimizer.reset(self._actor_optimizer.lr)

    def update(self, episodes: Sequence[Episode], *, step: int) -> dict[str, float]:
        """One PPO step on graded episodes: values, advantages, critic, then (after the critic's warm-up) the actor.

        `step` counts from 0; the schedules, the warm-up and the order of the minibatches follow from it.

        Raises ValueError for an episode without a reward: an infrastructure failure must not get here. Raises
        `EctypeError` for a reward beyond the bins of a categorical critic.
        """
        self._lead("update", episodes, step=step)
        started = time.perf_counter()
        ppo = self._config.ppo
        total = self._config.trainer.steps
        factor = schedules.learning_rate_factor(
            step, total=total, kind=ppo.lr_schedule, warmup=ppo.lr_warmup_steps, floor=ppo.lr_floor
        )
        self.actor.set_lr(ppo.actor_lr * factor)
        self.critic.set_lr(ppo.critic_lr * factor)
        for episode in episodes:
            if episode.reward is None:
                raise ValueError(f"episode {episode.id} has no reward")
            if self._support is not None and not self._support.low <= episode.reward <= self._support.high:
                raise EctypeError(
                    f"episode {episode.id} has the reward {episode.reward:g}, which the critic's bins cannot say",
                    where=f"ppo.value_low: {self._support.low:g}, ppo.value_high: {self._support.high:g}",
                    remedy="start a new run with bins from the smallest to the largest reward",
                )
        acting = [e for e in episodes if any(e.action_mask)]
        if not acting:
            return {"batch_tokens": 0.0}
        samples = [sample(e.tokens, e.action_mask, logprobs=e.logprobs) for e in acting]
        stats = {"batch_tokens": float(sum(len(s.tokens) for s in samples))}
        stats |= self._estimate(
            samples,
            [e.reward or 0.0 for e in acting],
            [e.status == "truncated" and ppo.truncated == "bootstrap" for e in acting],
        )
        stats |= critic_quality(samples)
        stats |= terminal_signal(
            [int(s.action_mask.sum()) for s in samples], gamma=ppo.gamma, alpha=ppo.actor_lambda_alpha
        )
        stats |= {"actor_lr": ppo.actor_lr * factor, "critic_lr": ppo.critic_lr * factor}
        self._trained_tokens, self._interlude_s = 0, 0.0
        epochs = schedules.critic_passes(
            step,
            epochs=ppo.critic_epochs,
            critic_warmup_steps=ppo.critic_warmup_steps,
            warmup_epochs=ppo.critic_warmup_epochs,
        )
        minibatches = ppo.critic_minibatches or ppo.minibatches
        stats |= self._passes(self.critic, samples, epochs, minibatches, self._critic_loss, step)
        if schedules.actor_learns(step, critic_warmup_steps=ppo.critic_warmup_steps):
            stats |= self._prepare_actor(samples, step)
            coefficients = {
                "entropy_coef": schedules.coefficient(
                    step, total=total, start=ppo.entropy_coef, end=ppo.entropy_coef_end
                ),
                "kl_coef": schedules.coefficient(step, total=total, start=ppo.kl_coef, end=ppo.kl_coef_end),
            }
            loss = partial(self._actor_loss, **coefficients)
            stats |= self._passes(self.actor, samples, ppo.epochs, ppo.minibatches, loss, step)
        update_s = time.perf_counter() - started - self._interlude_s
        return stats | {
            "update_s": update_s,
            "trained_tokens_per_s": self._trained_tokens / update_s,
            "memory_peak_mib": parallel.memory_peak_mib(),
        }

    def _estimate(
        self, samples: Sequence[Sample], rewards: Sequence[float], cut: Sequence[bool] | None = None
    ) -> dict[str, float]:
        """Fill in values, advantages and returns. Value targets use their own lambda (decoupled GAE).

        An episode that was `cut` has no outcome: the value of the state it was cut off in stands for it. Returns what
        the advantages were like before they were whitened.
        """
        ppo = self._config.ppo
        if cut is None or not any(cut):
            found = [(index, values, 0.0) for index, values in self._values(samples)]
            cut = [False] * len(samples)
        else:
            found = [(index, values[:-1], float(values[-1])) for index, values in self._values_and_final(samples)]
        advantages: list[np.ndarray] = [np.zeros(0)] * len(samples)
        for index, values, final in found:
            one = samples[index]
            one.values = values
            per_token = np.zeros(len(one.tokens))
            if not cut[index]:
                per_token[np.flatnonzero(one.action_mask)[-1]] = rewards[index]
            bootstrap = final if cut[index] else 0.0
            lam = adaptive_lambda(int(one.action_mask.sum()), ppo.actor_lambda_alpha)
            advantages[index], _ = gae(
                per_token, values, one.action_mask, gamma=ppo.gamma, lam=lam, bootstrap=bootstrap
            )
            _, returns = gae(
                per_token, values, one.action_mask, gamma=ppo.gamma, lam=ppo.critic_lambda, bootstrap=bootstrap
            )
            one.returns = returns.astype(np.float32)
        raw = np.concatenate([a[s.action_mask > 0] for a, s in zip(advantages, samples, strict=True)])
        if ppo.whiten_advantages:
            advantages = whiten(advantages, [s.action_mask for s in samples])
        for one, advantage in zip(samples, advantages, strict=True):
            one.advantages = advantage.astype(np.float32)
        return {"advantage_mean": float(raw.mean()), "advantage_std": float(raw.std())}

    def _prepare_actor(self, samples: Sequence[Sample], step: int) -> dict[str, float]:
        """Old log-probs of the trainer itself with their importance weights, and those of the reference, if wanted.

        In the asynchronous mode the distance to the recorded ones is measured in any case: with `recorded` on some of
        the samples, of one token budget together.
        """
        ppo = self._config.ppo
        if self.reference is not None:
            for index, logprobs in self._logprobs(self.reference, samples):
                samples[index].ref_logprobs = logprobs
        if ppo.old_logprobs == "recorded":
            if self._config.rollout.mode == "sync":
                return {}
            some = _within(random.Random(f"{self._config.seed}:{step}").sample(samples, len(samples)), ppo.batch_tokens)
            return _difference(
                [np.abs(now - some[i].logprobs)[some[i].action_mask > 0] for i, now in self._logprobs(self.actor, some)]
            )
        difference, weights = [], []
        for index, logprobs in self._logprobs(self.actor, samples):
            one = samples[index]
            acts = one.action_mask > 0
            difference.append(np.abs(logprobs - one.logprobs)[acts])
            if ppo.tis_cap:
                now, then, mask = (torch.from_numpy(a) for a in (logprobs, one.logprobs, one.action_mask))
                one.weights = importance_weights(now, then, mask, cap=ppo.tis_cap).numpy()
                weights.append(one.weights[acts])
            one.logprobs = logprobs
        stats = _difference(difference)
        if weights:
            flat = np.concatenate(weights)
            stats |= {"tis_weight": float(flat.mean()), "tis_capped": float((flat >= ppo.tis_cap).mean())}
        return stats

    def _values(self, samples: Sequence[Sample]) -> list[tuple[int, np.ndarray]]:
        """(index, values [tokens]) of every sample."""
        return self._of_each(samples, lambda packs: _pieces(packs, self.critic.values(packs)))

    def _values_and_final(self, samples: Sequence[Sample]) -> list[tuple[int, np.ndarray]]:
        """(index, values [tokens + 1]): the last one is of the state after the last token."""

        def run(packs: Sequence[Pack]) -> list[list[np.ndarray]]:
            values, finals = zip(*self.critic.values_and_final(packs), strict=True) if packs else ((), ())
            return [
                [np.append(piece, last) for piece, last in zip(pieces, _array(final), strict=True)]
                for pieces, final in zip(_pieces(packs, values), finals, strict=True)
            ]

        return self._of_each(samples, run)

    def _logprobs(self, model: MegatronModel, samples: Sequence[Sample]) -> list[tuple[int, np.ndarray]]:
        """(index, log-probs [tokens] at the sampling temperature) of every sample."""
        temperature = self._temperature
        return self._of_each(samples, lambda packs: _pieces(packs, model.logprobs(packs, temperature=temperature)))

    def _of_each(
        self, samples: Sequence[Sample], run: Callable[[Sequence[Pack]], list[list[np.ndarray]]]
    ) -> list[tuple[int, np.ndarray]]:
        """(index, what `run` makes of it) of every sample; data-parallel ranks share the work.

        `run` gets packs and returns one array per sequence of each.
        """
        mine = self._mine(samples)
        packs = make_packs([samples[i] for i in mine], self._config.ppo.batch_tokens)
        own = [
            (mine[i], piece)
            for pack, pieces in zip(packs, run(packs), strict=True)
            for i, piece in zip(pack.indices, pieces, strict=True)
        ]
        if parallel.dp_size() == 1:
            return own
        parts: list[list[tuple[int, np.ndarray]]] = [[] for _ in range(parallel.dp_size())]
        dist.all_gather_object(parts, own, group=parallel.dp_group())
        return [entry for part in parts for entry in part]

    def _mine(self, batch: Sequence[Sample]) -> list[int]:
        """Which samples of a batch are this data-parallel rank's."""
        lengths = [len(s.tokens) for s in batch]
        shares = balance(lengths, parallel.dp_size(), attention_weight=self.shape.attention_weight)
        return shares[parallel.dp_rank()]

    def _share(self, batch: Sequence[Sample], budget: int) -> list[Pack]:
        """This data-parallel rank's packs of a batch."""
        mine = self._mine(batch)
        return make_packs([batch[i] for i in mine], budget)

    def _passes(
        self,
        model: MegatronModel,
        samples: Sequence[Sample],
        epochs: int,
        minibatches: int,
        loss: Callable[..., Any],
        step: int,
    ) -> dict[str, float]:
        """`epochs` passes in random minibatches of whole episodes; statistics are means over the optimizer steps.

        `rollout_kl` and `rollout_outside` are those of the first one, in which the actor has not moved yet.
        """
        ppo = self._config.ppo
        name = "critic" if model.critic else "actor"
        rng = random.Random(f"{self._config.seed}:{step}:{name}")
        collected: list[dict[str, float]] = []
        for _ in range(epochs):
            order = rng.sample(samples, len(samples))
            for part in np.array_split(np.arange(len(order)), min(minibatches, len(order))):
                batch = [order[i] for i in part]
                normalizer = float(sum(s.action_mask.sum() for s in batch))
                packs = self._share(batch, ppo.batch_tokens)
                stats = model.train_step(
                    packs, lambda out, pack, n=normalizer: loss(out, pack, n), temperature=self._temperature
                )
                collected.append(stats | packing_quality(packs, ppo.batch_tokens, context.multiple()))
                self._trained_tokens += sum(len(s.tokens) for s in batch)
                self._interlude()
                if ppo.target_kl and "kl" in stats and parallel.agree(stats["kl"] > ppo.target_kl):
                    return _means(name, collected)
        return _means(name, collected)

    @property
    def _temperature(self) -> float:
        return self._config.rollout.temperature

    def _actor_loss(self, out: Any, pack: Pack, normalizer: float, *, entropy_coef: float, kl_coef: float) -> Any:
        ppo = self._config.ppo
        return policy_loss(
            out.logprobs,
            self._tensor(pack.logprobs),
            self._tensor(pack.advantages),
            self._tensor(pack.action_mask),
            eps_low=ppo.eps_low,
            eps_high=ppo.eps_high,
            mode=ppo.ratio,
            entropy=out.entropy,
            entropy_coef=entropy_coef,
            ref_logprobs=None if self.reference is None else self._tensor(pack.ref_logprobs),
            kl_coef=kl_coef,
            kl_estimator=ppo.kl_estimator,
            weights=self._tensor(pack.weights) if ppo.tis_cap else None,
            normalizer=normalizer,
        )

    def _critic_loss(self, out: Any, pack: Pack, normalizer: float) -> Any:
        returns, mask = self._tensor(pack.returns), self._tensor(pack.action_mask)
        if self._support is not None:
            return categorical_value_loss(
                out.value_outputs,
                returns,
                mask,
                edges=self._support.edges(parallel.device()),
                sigma=self._support.sigma * self._support.width,
                normalizer=normalizer,
            )
        return value_loss(
            out.values,
            self._tensor(pack.values),
            returns,
            mask,
            clip=self._config.ppo.value_clip or None,
            normalizer=normalizer,
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(parallel.device())


def _within(samples: Sequence[Sample], budget: int) -> list[Sample]:
    """The first of `samples` that have `budget` tokens together; at least one."""
    ends = np.cumsum([len(s.tokens) for s in samples])
    return list(samples[: max(1, int((ends <= budget).sum()))])


def _difference(distances: Sequence[np.ndarray]) -> dict[str, float]:
    """Of the engine's and the trainer's log-probs, from the distances at every action token."""
    flat = np.concatenate(distances)
    return {"logprob_difference": float(flat.mean()), "logprob_difference_max": float(flat.max())}


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()


def _pieces(packs: Sequence[Pack], tensors: Sequence[torch.Tensor]) -> list[list[np.ndarray]]:
    """Tensors [tokens] of packs, cut into one array per sequence."""
    return [pack.split(_array(tensor)) for pack, tensor in zip(packs, tensors, strict=True)]


_OWN_NAME = {
    "policy_loss",
    "value_loss",
    "kl",
    "rollout_kl",
    "ratio",
    "outside",
    "rollout_outside",
    "clipped",
    "entropy",
    "ref_kl",
    "value_clipped",
    "pack_fill",
    "padding_waste",
}


def _means(name: str, collected: list[dict[str, float]]) -> dict[str, float]:
    means = {key: float(np.mean([c[key] for c in collected])) for key in collected[0]}
    means["updates"] = float(len(collected))
    means["grad_norm_max"] = max(c["grad_norm"] for c in collected)
    if "kl" in means:
        means["rollout_kl"], means["rollout_outside"] = collected[0]["kl"], collected[0]["outside"]
    return {key if key in _OWN_NAME else f"{name}_{key}": value for key, value in means.items()}


def value_support(ppo: PPOConfig) -> ValueSupport | None:
    """The bins of a categorical critic, None for one of a single number."""
    if not ppo.value_bins:
        return None
    return ValueSupport(bins=ppo.value_bins, low=ppo.value_low, high=ppo.value_high, sigma=ppo.value_sigma)


def make_codec(policy: PolicyConfig) -> Codec:
    if policy.kind == "tiny":
        return ByteCodec()
    return ChatCodec.load(hf_folder(policy))
