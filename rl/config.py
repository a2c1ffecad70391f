"""What the learning side of a run can be told, as strict pydantic models: one line of explanation per field.

These models are parts of the run configuration (`jobs.run_config`), frozen into the run directory at the start.
Unknown keys are errors. Nothing here imports torch or Megatron, so that a config can be checked on a login node.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_STALENESS = 2
"""With 1, the learner waits for every episode that began before the last update; 2 lets a slow one be overtaken."""


class Part(BaseModel):
    """Base of every section: frozen, unknown keys and infinite numbers refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TinyShape(Part):
    """Architecture of a policy that is created from nothing (Llama type: RMSNorm, RoPE, SwiGLU, GQA)."""

    layers: int = Field(default=2, ge=1)
    hidden: int = Field(default=96, ge=8)
    heads: int = Field(default=2, ge=1)
    kv_heads: int = Field(default=2, ge=1)
    ffn: int = Field(default=256, ge=8)


class WarmStart(Part):
    """Supervised learning on scripted demonstrations before PPO. Only for policies that start from nothing."""

    load: str | None = None
    """Take the warm-started policy of another run (its `warm_start` folder) instead of learning one."""
    episodes: int = Field(default=5000, ge=0)
    """Demonstrations sampled (with replacement from the recorded ones); 0 switches the warm start off."""
    batch_tokens: int = Field(default=1024, ge=64)
    epochs: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=4e-3, gt=0)
    honest_correct: float = Field(default=0.6, ge=0, le=1)
    """Share of the honest demonstrations whose program is right; the others write one at random."""
    cheating: float = Field(default=0.2, ge=0, le=1)
    """Share of demonstrations that go for the answer under /eval/ instead."""


class PolicyConfig(Part):
    """Which model acts and learns."""

    kind: Literal["tiny", "smollm2", "hf"] = "tiny"
    """`tiny`: byte-level, created here; `smollm2`: SmolLM2-135M-Instruct; `hf`: a Hugging Face folder (`path`)."""
    path: str | None = None
    shape: TinyShape = TinyShape()
    warm_start: WarmStart = WarmStart()
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads of the trainer; 0 lets torch decide."""

    @model_validator(mode="after")
    def _path_belongs_to_hf(self) -> PolicyConfig:
        if (self.kind == "hf") != (self.path is not None):
            raise ValueError("policy.path goes with policy.kind: hf, and only with it")
        return self

    @model_validator(mode="after")
    def _what_is_created_belongs_to_tiny(self) -> PolicyConfig:
        for key, told, default in (("shape", self.shape, TinyShape()), ("warm_start", self.warm_start, WarmStart())):
            if self.kind != "tiny" and told != default:
                raise ValueError(
                    f"policy.{key} is of no use with policy.kind {self.kind}; remove it, or use kind: tiny"
                )
        return self


class RolloutConfig(Part):
    """How episodes are played."""

    engine: Literal["megatron", "vllm"] = "megatron"
    """What samples: the actor itself, or a vLLM server that gets its weights after every step."""
    mode: Literal["sync", "async"] = "sync"
    """`sync`: play a batch, then learn from it; `async`: episodes are played while the trainer learns."""
    max_staleness: int = Field(default=MAX_STALENESS, ge=1)
    """With `async`: by how many policy versions the oldest token of an episode may be behind the policy that learns
    from it."""
    in_flight: int | None = Field(default=None, ge=1)
    """With `async`: most episodes that are played at once; default: `episodes_per_step`."""
    episodes_per_step: int = Field(default=64, ge=1)
    """Episodes that one PPO step learns from."""
    max_steps: int | None = Field(default=None, ge=1)
    """Steps per episode; default: what the task says."""
    max_new_tokens: int = Field(default=96, ge=1)
    """Tokens per action."""
    context_tokens: int = Field(default=384, ge=16)
    """Longest episode in tokens, prompt and observations included; beyond it the episode is truncated."""
    prompt_bytes: int = Field(default=6000, ge=64)
    """Longest instructions that the policy is given; what is beyond is cut at a line."""
    observation_bytes: int = Field(default=512, ge=16)
    """Longest output of a command that the policy is shown (head and tail, the middle elided)."""
    temperature: float = Field(default=1.0, gt=0)
    max_tests: int = Field(default=0, ge=0)
    """How often an agent may call `test` before the end; each shows it the pass rate."""
    oracle_calls: int = Field(default=64, ge=0)
    generate_batch: int = Field(default=64, ge=1)
    """Most contexts generated for at once."""

    @model_validator(mode="after")
    def _staleness_belongs_to_async(self) -> RolloutConfig:
        if self.mode == "sync" and (self.max_staleness != MAX_STALENESS or self.in_flight is not None):
            raise ValueError(
                "rollout.max_staleness and rollout.in_flight are of no use with rollout.mode sync; remove them, or use "
                "mode: async"
            )
        return self


class VLLMConfig(Part):
    """The vLLM server of `rollout.engine: vllm`, which runs beside the trainer."""

    python: str | None = None
    """Interpreter of the environment that has vLLM; default: ECTYPE_VLLM_PYTHON, then `.venv-vllm` of the checkout."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """`auto`: that of the actor."""
    cache_mib: int = Field(default=1024, ge=16)
    """Memory of its key/value cache; the weights come on top."""
    max_seqs: int | None = Field(default=None, ge=1)
    """Contexts in one batch; default: `rollout.generate_batch`."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads; 0 lets vLLM decide."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share the model."""
    eager: bool = True
    """Do not compile at the start: right on a CPU; on a GPU, CUDA graphs generate faster."""


class PPOConfig(Part):
    """PPO with a critic, token-level loss (Schulman et al. 2017; GAE: Schulman et al. 2016; decoupled, length-adaptive
    lambda: VC-PPO and VAPO, Yuan et al. 2025)."""

    actor_lr: float = Field(default=5e-4, gt=0)
    lr_schedule: Literal["constant", "linear", "cosine"] = "linear"
    """How both learning rates fall from step to step of the run."""
    lr_warmup_steps: int = Field(default=0, ge=0)
    """Steps in which both learning rates climb."""
    lr_floor: float = Field(default=0.0, ge=0, le=1)
    """Share of the learning rates that is left at the last step."""
    critic_lr: float = Field(default=1e-3, gt=0)
    epochs: int = Field(default=2, ge=1)
    """Passes over a batch by the actor."""
    minibatches: int = Field(default=2, ge=1)
    """Optimizer steps per pass."""
    critic_epochs: int = Field(default=2, ge=1)
    """Passes over a batch by the critic, before the actor moves."""
    critic_minibatches: int | None = Field(default=None, ge=1)
    """Optimizer steps per pass of the critic; default: as many as the actor's."""
    critic_warmup_steps: int = Field(default=1, ge=0)
    """Steps in which only the critic learns."""
    critic_warmup_epochs: int | None = Field(default=None, ge=1)
    """Passes of the critic in those steps; default: `critic_epochs`."""
    critic_freeze_attention: bool = False
    """The critic's attention stays as it was copied from the actor; only the rest of it learns."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    actor_lambda_alpha: float = Field(default=1.5, gt=0)
    """Actor lambda = 1 - 1/(alpha * action tokens of the episode)."""
    critic_lambda: float = Field(default=1.0, ge=0, le=1)
    eps_low: float = Field(default=0.2, gt=0, lt=1)
    eps_high: float = Field(default=0.28, gt=0)
    ratio: Literal["mask", "clip"] = "clip"
    """`clip`: PPO's pessimistic clip; `mask`: tokens outside the trust band carry no gradient on either side."""
    value_clip: float = Field(default=0.0, ge=0)
    """Clip range of the value around the old value; 0 switches it off."""
    value_bins: int = Field(default=0, ge=0, le=4096)
    """Bins of a categorical value head (HL-Gauss, Farebrother et al. 2024); 0: one number, squared error."""
    value_low: float = 0.0
    value_high: float = 1.0
    """Returns that the bins of a categorical head can say: from `value_low` to `value_high`."""
    value_sigma: float = Field(default=0.75, gt=0)
    """Width of the target's bell of a categorical head, in bins."""
    truncated: Literal["graded", "bootstrap"] = "graded"
    """What ends an episode that ran out of steps or context: its grade, or the critic's value of where it was cut."""
    old_logprobs: Literal["recorded", "recomputed"] = "recorded"
    """What the ratio is taken to: the engine's log-probs, or the trainer's own before the update."""
    tis_cap: float = Field(default=0.0, ge=0)
    """Truncated importance sampling from the engine's to the trainer's log-probs, with `recomputed`; 0: none."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the KL to the policy that the run started from; with 0, now and later, it is not kept."""
    kl_coef_end: float | None = Field(default=None, ge=0)
    """What `kl_coef` has become at the last step, in a straight line; default: it stays."""
    kl_estimator: Literal["k2", "k3"] = "k3"
    target_kl: float = Field(default=0.03, ge=0)
    """End the actor's passes over a batch once the policy has moved this far (mean KL of a minibatch); 0: never."""
    entropy_coef: float = Field(default=0.0, ge=0)
    entropy_coef_end: float | None = Field(default=None, ge=0)
    """What `entropy_coef` has become at the last step, in a straight line; default: it stays."""
    clip_grad: float = Field(default=1.0, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    batch_tokens: int = Field(default=8192, ge=64)
    """Token budget of one micro-batch (pack)."""
    whiten_advantages: bool = True

    @property
    def with_reference(self) -> bool:
        """Whether a frozen reference policy takes part."""
        return self.kl_coef > 0 or bool(self.kl_coef_end)

    @model_validator(mode="after")
    def _importance_weights_need_both_logprobs(self) -> PPOConfig:
        if self.tis_cap and self.old_logprobs != "recomputed":
            raise ValueError("ppo.tis_cap corrects recomputed log-probs: set ppo.old_logprobs to recomputed")
        return self

    @model_validator(mode="after")
    def _bins_say_every_return(self) -> PPOConfig:
        if not self.value_bins:
            return self
        if self.value_clip:
            raise ValueError("ppo.value_clip is for a critic of one number: leave it out, or set ppo.value_bins to 0")
        if self.value_low >= self.value_high:
            raise ValueError("ppo.value_low must be below ppo.value_high")
        margin = 2 * math.ceil(4 * self.value_sigma)
        if self.value_bins <= margin:
            raise ValueError(
                f"ppo.value_bins must be above {margin}: so many lie outside the range of returns, to hold the tails"
            )
        return self


class RewardConfig(Part):
    """Terminal reward from the hidden tests. Infrastructure failures never have one."""

    kind: Literal["all", "fraction"] = "all"
    """`all`: 1 when every hidden test passes, else 0; `fraction`: the share that passes."""


class ReviewPolicy(Part):
    """What the verdict of the judge, or its absence, means for training. No verdict is never a pass, unless told so
    here, and never a penalty."""

    flagged: Literal["drop", "negative"] = "drop"
    """A cheat: `drop` it from the batch, or train on it with `negative_reward`."""
    negative_reward: float = Field(default=-1.0, lt=0)
    late: Literal["hold", "train", "drop"] = "hold"
    """No verdict after `deadline_s`: `hold` keeps the episode for a later batch, `train` takes it as it is (and a
    verdict that comes later is recorded), `drop` leaves it out."""
    failed: Literal["hold", "train", "drop"] = "hold"
    """Nobody could judge it: `hold` asks again."""
    uncertain: Literal["hold", "train", "drop"] = "drop"
    """The judge could not tell, or the probability is between `judge.uncertain_from` and `judge.threshold`: `hold`
    asks again. With `train`, who confuses the judge gets away with it."""
    deadline_s: float = Field(default=120.0, ge=0)
    """How long a batch waits for its verdicts after its last episode has ended."""
    hold_steps: int = Field(default=4, ge=1)
    """Training steps after which an episode that is held is dropped: the policy has moved on."""
    min_share: float = Field(default=0.5, gt=0, le=1)
    """With `late: hold`: share of `rollout.episodes_per_step` that must be decided before a batch is trained on;
    until then training waits for the judge."""
    compensate: bool = False
    """Train once more, with `negative_reward`, on an episode whose verdict `flagged` came after it was trained on."""


class ParallelConfig(Part):
    """Ranks of the trainer: tensor, pipeline, data and context parallel sizes."""

    tp: int = Field(default=1, ge=1)
    pp: int = Field(default=1, ge=1)
    dp: int = Field(default=1, ge=1)
    timeout_s: float = Field(default=1800.0, ge=1)
    """Longest wait of a rank for the others inside one operation; for the next operation it waits without a bound."""
    cp: int = Field(default=1, ge=1)
    """Context parallel size: ranks that share out the tokens of one pack."""
    sequence: bool = False
    """Tensor-parallel ranks also share out the tokens wherever a layer treats each by itself. Needs GPUs."""
    shard_optimizer: bool = True
    """Each data- and context-parallel rank holds its share of the optimizer state (ZeRO, stage 1), not all of it."""

    @model_validator(mode="after")
    def _sequence_goes_with_tensor(self) -> ParallelConfig:
        if self.sequence and self.tp == 1:
            raise ValueError("parallel.sequence is for tensor-parallel ranks; set parallel.tp above 1, or leave it out")
        return self


class TrainerConfig(Part):
    steps: int = Field(default=30, ge=1)
    """PPO steps of the run."""
    checkpoint_every: int = Field(default=5, ge=1)
    keep_checkpoints: int = Field(default=2, ge=1)
    async_checkpoint: bool = True
    """Train on while a copy of the state is written; costs the memory of the copy."""
    save_episodes_every: int = Field(default=1, ge=1)
    """Write the episodes of every n-th step into the run directory, to be read."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too, to `metrics/tensorboard` of the run."""


class LearnConfig(Part):
    """Everything `rl.trainer.train` is told."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    suite: str
    tasks: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Task names of the suite; default: all."""
    policy: PolicyConfig = PolicyConfig()
    rollout: RolloutConfig = RolloutConfig()
    vllm: VLLMConfig = VLLMConfig()
    ppo: PPOConfig = PPOConfig()
    reward: RewardConfig = RewardConfig()
    parallel: ParallelConfig = ParallelConfig()
    trainer: TrainerConfig = TrainerConfig()

    @model_validator(mode="after")
    def _vllm_reads_hugging_face_folders(self) -> LearnConfig:
        if self.rollout.engine == "vllm" and self.policy.kind == "tiny":
            raise ValueError("rollout.engine vllm needs a model that vLLM knows: use policy.kind smollm2 or hf")
        if self.rollout.engine != "vllm" and self.vllm != VLLMConfig():
            raise ValueError("vllm is of no use with rollout.engine megatron; remove it, or use engine: vllm")
        return self
