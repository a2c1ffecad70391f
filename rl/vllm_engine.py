"""Sampling from the actor by vLLM: a server beside the trainer, given the actor's weights after every policy version.

In: contexts (token ids), one seed each, limits; and, by `publish`, a folder with the weights of a policy version. Out:
for each context the sampled tokens and their log-probs at the sampling temperature, as `rl.engine` defines them. Tokens
go in and come out as ids, text is never tokenised. The server starts with random weights and refuses nothing by
itself; so this class never asks it for a token before every worker has said that it holds the published version and
the prefix cache of the one before is gone. A server that dies is started again with the published weights.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from audit.errors import EctypeError
from queues.model_server import ModelServer, ModelServerDown, ServerOptions, vllm_python
from rl.config import VLLMConfig
from rl.rollout import Generation, Request

log = logging.getLogger(__name__)

RESTARTS = 3
"""How often in a row, without an answer in between, the server may die before something must be wrong with it."""
POLL_S = 0.05
"""How often new requests are looked for while others are generated for."""
_NAME = "policy"


class VLLMEngine:
    """Owns the server. `start` returns at once; what needs the server waits until it is ready."""

    def __init__(
        self,
        config: VLLMConfig,
        *,
        model: Path,
        dtype: str,
        context_tokens: int,
        batch: int,
        weight_bytes: int,
        log_file: Path,
    ) -> None:
        """`model`: Hugging Face folder of the architecture and the tokenizer, `dtype` what `auto` means, `batch` the
        contexts that are generated for at once, `weight_bytes` the size of what `publish` will write."""
        self._python = vllm_python(config.python)
        self._parallel = config.max_seqs or batch
        self.longest = context_tokens
        self._options = ServerOptions(
            model=model,
            served_name=_NAME,
            log=log_file,
            dtype=dtype if config.dtype == "auto" else config.dtype,
            max_model_len=context_tokens,
            max_num_seqs=self._parallel,
            kv_cache_bytes=config.cache_mib << 20,
            threads=config.threads,
            eager=config.eager,
            unix_socket=True,
            dev_mode=True,
            scratch=_scratch(2 * weight_bytes),
            worker_extension=(Path(__file__).with_name("vllm_worker.py"), "PolicyWorker"),
            arguments=(
                *("--load-format", "dummy"),
                *("--logprobs-mode", "processed_logprobs"),  # after the temperature
                *("--tensor-parallel-size", str(config.tensor_parallel)),
                *("--uvicorn-log-level", "warning"),
            ),
        )
        self._published: tuple[int, Path] | None = None
        self._loaded: int | None = None
        self._failures = 0
        self._last_error = ModelServerDown("the model server has not died yet")
        self._lock = threading.RLock()
        """One operation at a time: weights never change under a request."""
        self._pool = ThreadPoolExecutor(self._parallel, thread_name_prefix="vllm")
        self._server = ModelServer(self._options, python=self._python)

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def version(self) -> int | None:
        """The policy version that `generate` samples from."""
        return None if self._published is None else self._published[0]

    @property
    def weights_folder(self) -> Path:
        """Where weights for `publish` are written: in memory if there is room, removed with the server."""
        return self._server.folder

    def publish(self, version: int, folder: Path) -> None:
        """From now on sample from the weights in `folder` (safetensors), which belongs to this engine afterwards."""
        with self._lock:
            old, self._published = self._published, (version, folder)
            try:
                self._load()
            except ModelServerDown as error:
                self._last_error = error
                self._restart()
            self._failures = 0
            if old is not None:
                shutil.rmtree(old[1], ignore_errors=True)

    def serve(
        self,
        poll: Callable[[], Sequence[tuple[Any, Request]]],
        deliver: Callable[[Any, Generation], None],
        *,
        stop_tokens: set[int],
        temperature: float = 1.0,
    ) -> None:
        """Generate for whatever `poll` brings until there is nothing left to do, as `MegatronEngine.serve` does."""

        def one(request: Request) -> Generation:
            if not len(request.context):
                raise EctypeError(
                    "an empty context cannot be continued", where="generate", remedy="begin with a prompt"
                )
            if request.limit <= 0:
                return Generation(tokens=[], logprobs=[], stopped=False)
            body = {
                "model": _NAME,
                "prompt": list(request.context),
                "max_tokens": request.limit,
                "temperature": temperature,
                "seed": request.seed,
                "stop_token_ids": sorted(stop_tokens),
                "ignore_eos": True,  # only what the caller calls a stop token is one
                "logprobs": 0,
                "return_token_ids": True,
                "skip_special_tokens": False,
            }
            (choice,) = self._server.post("/v1/completions", body)["choices"]
            return _generation(choice, request.limit, stop_tokens)

        with self._lock:
            if self._published is None:
                raise RuntimeError("no policy was published")
            self._load()
            running: dict[Future[Generation], tuple[Any, Request]] = {}
            while True:
                running |= {self._pool.submit(one, request): (key, request) for key, request in poll()}
                if not running:
                    return
                done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                lost: list[tuple[Any, Request]] = []
                for future in done:
                    key, request = running.pop(future)
                    error = future.exception()
                    if isinstance(error, ModelServerDown):
                        lost.append((key, request))
                        self._last_error = error
                    else:
                        deliver(key, future.result())
                        self._failures = 0
                if lost:
                    wait(running)
                    self._restart()
                    running |= {self._pool.submit(one, request): (key, request) for key, request in lost}

    def _restart(self) -> None:
        """A new server, given the files of the published weights before the old one's folder goes."""
        while True:
            self._failures += 1
            if self._failures > RESTARTS:
                raise self._last_error
            log.warning("the model server died and is started again: %s", self._last_error.what.splitlines()[0])
            assert self._published is not None
            version, folder = self._published
            old, self._server = self._server, ModelServer(self._options, python=self._python)
            self._loaded = None
            self._server.start()
            self._published = (version, Path(shutil.move(folder, self._server.folder)))
            old.stop()
            try:
                self._load()
            except ModelServerDown as error:
                self._last_error = error
            else:
                return

    def _load(self) -> None:
        """Have the server hold the published version, and be certain of it."""
        assert self._published is not None
        version, folder = self._published
        if self._loaded == version:
            return
        self._loaded = None
        self._server.wait_ready()
        call = {"method": "load_policy", "kwargs": {"folder": str(folder), "version": str(version)}}
        self._server.post("/collective_rpc", call)
        if not self._server.post("/reset_prefix_cache", None)["success"]:
            raise self._refusal(f"vLLM did not forget what it had cached before policy version {version}")
        held = self._server.post("/collective_rpc", {"method": "policy_version"})["results"]
        if not held or any(worker != {"version": version} for worker in held):
            raise self._refusal(f"vLLM holds {held} where it was given policy version {version}")
        self._loaded = version

    def _refusal(self, what: str) -> EctypeError:
        return EctypeError(what, where=str(self._options.log), remedy="read the log of the model server")


def _generation(choice: dict[str, Any], limit: int, stop_tokens: set[int]) -> Generation:
    tokens, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    stopped = bool(tokens) and tokens[-1] in stop_tokens
    if len(tokens) != len(logprobs) or not (stopped or len(tokens) == limit):
        raise EctypeError(
            f"vLLM gave {len(tokens)} tokens and {len(logprobs)} log-probs, and ended with {choice['finish_reason']}",
            where="vLLM",
            remedy="this release of vLLM does not do what ectype relies on: use the one that scripts/setup.sh installs",
        )
    return Generation(tokens=tokens, logprobs=logprobs, stopped=stopped)


def _scratch(needed_bytes: int) -> Path:
    """A folder in memory, if it has that much room; else the one for temporary files."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > needed_bytes:
        return memory
    return Path(tempfile.gettempdir())
