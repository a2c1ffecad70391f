"""What a researcher writes to start a run: one YAML file, read as `RunConfig`.

It is `rl.config.LearnConfig` (policy, rollout, PPO, ...) plus what the learning side never sees: the anti-cheat and the
sandboxes. `load_run_config` refuses everything that could only fail later (unknown keys, wrong types, impossible
combinations), before any process has started. It imports neither torch nor Megatron.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from audit.errors import EctypeError
from jobs import strict_yaml
from rl.config import LearnConfig, Part, ReviewPolicy
from tasks.suites import SUITES

DEMONSTRATED = ("micro", "micro-leaky")
"""Suites with scripted demonstrations for the warm start of a tiny policy."""
SMALL_MODEL = "smollm2"
"""The model that comes with the packages of the trainer (see `policy.kind`)."""


class AntiCheatConfig(Part):
    """Stage 1, in the path of every action."""

    mode: Literal["enforce", "observe", "off"] = "enforce"
    """`enforce`: a hit is not executed and gets a fake failure; `observe`: judged and recorded, but executed;
    `off`: nothing is judged; only canaries still show a cheat."""
    rules: str = "default"
    """`default`, or a folder of rule files."""


class SandboxConfig(Part):
    """The sandbox workers."""

    workers: int = Field(default=1, ge=1)
    """Worker jobs (Slurm array tasks)."""
    slots: int = Field(default=8, ge=1)
    """Episodes that one worker serves at once; each holds one container."""
    graders: int = Field(default=2, ge=1)
    """Containers per worker that build and test submissions."""
    case_lanes: int = Field(default=2, ge=1)
    """So many of these may run the cases of one long grading at the same time."""
    oracles: int = Field(default=2, ge=1)
    """Containers per worker that run the reference program."""
    idle_timeout_s: float = Field(default=600.0, gt=0)
    """A session without a request for so long is given up."""
    max_cells: int = Field(default=200, ge=1)
    """Episodes or gradings after which a container is replaced by a fresh one."""
    max_age_s: float = Field(default=3600.0, gt=0)
    """A container that is so old is replaced, once nobody uses it."""
    least: int = Field(default=0, ge=0)
    """Containers of each kind that stay started when nothing is asked for."""
    spare: int = Field(default=1, ge=0)
    """Started containers kept beside those in use, so that the next episode need not wait for one."""
    shrink_after_s: float = Field(default=300.0, gt=0)
    """A container that nobody has needed for so long is ended, down to `least`."""
    start_concurrency: int = Field(default=2, ge=1)
    """Containers that one worker starts at the same time."""


class JudgeConfig(ReviewPolicy):
    """Stage 2: a language model judges finished episodes, through the review queue."""

    enabled: bool = False
    workers: int = Field(default=1, ge=1)
    """Judge jobs (Slurm array tasks); each starts its own model server, or all use `endpoint`."""
    endpoint: str | None = Field(default=None, pattern=r"^https?://")
    """OpenAI-compatible endpoint up to /v1; its key, if it needs one, is in ECTYPE_JUDGE_API_KEY."""
    model: str | None = None
    """The model's name at `endpoint`; without one a Hugging Face folder, or `smollm2`."""
    prompt: str = "review-1"
    """A prompt that ships, or the path of a prompt file."""
    calibration: str | None = None
    """File of `ectype judge calibrate`; without one the raw score stands for the probability."""
    threshold: float = Field(default=0.85, gt=0, lt=1)
    """P(cheat) from which an episode is flagged."""
    uncertain_from: float = Field(default=0.5, gt=0, lt=1)
    """P(cheat) from which, below the threshold, a verdict is uncertain."""
    votes: int = Field(default=1, ge=1, le=32)
    """Answers per episode; the first is greedy, the others are sampled."""
    concurrency: int = Field(default=8, ge=1)
    """Episodes that one judge job has in hand at once."""
    record_bytes: int = Field(default=24_000, ge=300)
    """Longest record of an episode that the model is given; longer ones are condensed to what is suspicious."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Time limit of one request to the model."""
    context_tokens: int = Field(default=16_384, ge=1024)
    """Context of the model server that a judge job starts."""
    cache_mib: int = Field(default=2048, ge=64)
    """Memory of that server for keys and values, beside the weights."""

    @model_validator(mode="after")
    def _complete(self) -> JudgeConfig:
        if self.enabled and self.model is None:
            raise ValueError("judge.enabled without judge.model; name the model (or its folder), or set enabled: false")
        if self.uncertain_from > self.threshold:
            raise ValueError(
                f"judge.threshold {self.threshold} is below judge.uncertain_from {self.uncertain_from}; "
                "lower the second"
            )
        return self


class RunConfig(LearnConfig):
    """One run. `name` is also the default folder under `runs/`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    suite: str
    """A suite that ships (`ectype tasks list`), or the folder of one."""
    anticheat: AntiCheatConfig = AntiCheatConfig()
    sandbox: SandboxConfig = SandboxConfig()
    judge: JudgeConfig = JudgeConfig()

    @model_validator(mode="after")
    def _possible(self) -> RunConfig:
        if self.suite not in SUITES and "/" not in self.suite:
            near = difflib.get_close_matches(self.suite, SUITES, n=1)
            raise ValueError(
                f"there is no suite `{self.suite}`; "
                + (f"did you mean `{near[0]}`?" if near else f"use one of: {', '.join(SUITES)}; or give a folder")
            )
        warm_start = self.policy.warm_start
        learns_from_demonstrations = self.policy.kind == "tiny" and warm_start.load is None and warm_start.episodes > 0
        if learns_from_demonstrations and self.suite in SUITES and self.suite not in DEMONSTRATED:
            raise ValueError(
                f"policy.warm_start.episodes: the suite `{self.suite}` has no demonstrations; "
                f"set it to 0, or use one of: {', '.join(DEMONSTRATED)}"
            )
        shape, parallel, rollout = self.policy.shape, self.parallel, self.rollout
        if self.policy.kind == "tiny":
            if shape.hidden % shape.heads or (shape.hidden // shape.heads) % 2:
                raise ValueError(
                    f"policy.shape.hidden {shape.hidden} does not divide into {shape.heads} heads of an even size; "
                    "make policy.shape.hidden a multiple of 2 * policy.shape.heads"
                )
            if shape.heads % shape.kv_heads:
                raise ValueError(
                    f"policy.shape.kv_heads {shape.kv_heads} does not divide policy.shape.heads {shape.heads}; "
                    f"set policy.shape.kv_heads to one of {_divisors(shape.heads)}"
                )
            self._check_layout(shape.heads, shape.kv_heads, shape.ffn, shape.layers)
        elif self.policy.kind == "smollm2":
            self._check_layout(heads=9, kv_heads=3, ffn=1536, layers=30)
        if rollout.max_new_tokens >= rollout.context_tokens:
            raise ValueError(
                f"rollout.max_new_tokens {rollout.max_new_tokens} leaves no room in rollout.context_tokens "
                f"{rollout.context_tokens}; lower the first or raise the second"
            )
        if rollout.episodes_per_step % parallel.dp:
            raise ValueError(
                f"parallel.dp {parallel.dp} does not divide rollout.episodes_per_step {rollout.episodes_per_step}; "
                f"set rollout.episodes_per_step to a multiple of {parallel.dp}"
            )
        return self

    def _check_layout(self, heads: int, kv_heads: int, ffn: int, layers: int) -> None:
        tp, pp = self.parallel.tp, self.parallel.pp
        if layers % pp:
            raise ValueError(
                f"parallel.pp {pp} does not divide the {layers} layers of policy {self.policy.kind}; "
                f"set parallel.pp to one of {_divisors(layers)}"
            )
        for what, number in (("heads", heads), ("key-value heads", kv_heads), ("feed-forward width", ffn)):
            if number % tp:
                usable = [n for n in _divisors(kv_heads) if heads % n == 0 and ffn % n == 0]
                raise ValueError(
                    f"parallel.tp {tp} does not divide the {number} {what} of policy {self.policy.kind}; "
                    f"set parallel.tp to one of {usable}"
                )

    @property
    def world_size(self) -> int:
        return self.parallel.tp * self.parallel.pp * self.parallel.cp * self.parallel.dp


def load_run_config(path: Path, *, steps: int | None = None) -> RunConfig:
    """Read and check a run config; `steps` overrides `trainer.steps`. Raises EctypeError."""
    config = _absolute(strict_yaml.read(path, RunConfig))
    return config if steps is None else with_steps(config, steps)


def judge_config(path: Path | None, **options: str | None) -> JudgeConfig:
    """The `judge` section of a run config (or its defaults), with the options that are given in its place."""
    section = JudgeConfig() if path is None else load_run_config(path).judge
    told = {name: value for name, value in options.items() if value is not None}
    changed = section.model_copy(update=told)
    if changed.model is None:
        raise EctypeError(
            "no model is named", remedy="give --model (with --endpoint, its name there), or --config with judge.model"
        )
    return changed


def _absolute(config: RunConfig) -> RunConfig:
    """The same config with every path in it made absolute: jobs run in other folders than the command line."""
    changes: dict[str, object] = {}
    if config.suite not in SUITES:
        changes["suite"] = str(Path(config.suite).absolute())
    if config.anticheat.rules != "default":
        rules = str(Path(config.anticheat.rules).absolute())
        changes["anticheat"] = config.anticheat.model_copy(update={"rules": rules})
    judge = config.judge
    if judge.model is not None and judge.model != SMALL_MODEL and judge.endpoint is None:
        judge = judge.model_copy(update={"model": str(Path(judge.model).absolute())})
    if "/" in judge.prompt:
        judge = judge.model_copy(update={"prompt": str(Path(judge.prompt).absolute())})
    if judge.calibration is not None:
        judge = judge.model_copy(update={"calibration": str(Path(judge.calibration).absolute())})
    changes["judge"] = judge
    warm_start = config.policy.warm_start
    if warm_start.load is not None:
        warm_start = warm_start.model_copy(update={"load": str(Path(warm_start.load).absolute())})
    path = None if config.policy.path is None else str(Path(config.policy.path).absolute())
    if config.vllm.python is not None:
        changes["vllm"] = config.vllm.model_copy(update={"python": str(Path(config.vllm.python).absolute())})
    changes["policy"] = config.policy.model_copy(update={"path": path, "warm_start": warm_start})
    return config.model_copy(update=changes)


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """The same run with another number of PPO steps."""
    trainer = config.trainer.model_copy(update={"steps": steps})
    return config.model_copy(update={"trainer": trainer})


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
