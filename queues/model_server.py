"""One OpenAI-compatible vLLM server as a child process: started, waited for, watched, and ended for certain.

In: a Hugging Face folder, how much memory and how many requests at once, where the log goes. Out: a base URL and an
API key. vLLM lives in an environment of its own (it pins its own torch), found by `vllm_python`; nothing of it is
imported here. The server and whatever it forks end with `stop`, and also when this process dies in any way: a
supervisor (`queues.supervise`) holds them. The log is bounded.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import EctypeError

PYTHON_VARIABLE = "ECTYPE_VLLM_PYTHON"
LOG_BYTES = 4 << 20
"""The log keeps between one and two times as much, in two files."""
READY_TIMEOUT_S = 900.0
"""A server that is neither up nor dead after so long is ended. A large model takes minutes to load."""
REQUEST_TIMEOUT_S = 1800.0
_STOP_S = 60.0
"""The supervisor needs at most twenty seconds."""
_TAIL_LINES = 25


class ModelServerError(EctypeError):
    """The model server could not be started, has died, or refuses what it is asked."""


class ModelServerDown(ModelServerError):
    """The server has died or cannot answer any more: another one may."""


class ServerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the server is told. Memory is for the key/value cache alone; the weights come on top."""

    model: Path
    """Hugging Face folder, tokenizer included."""
    served_name: str
    """What requests call it, as `model`."""
    log: Path
    dtype: str = "bfloat16"
    """As vLLM calls it: float32, bfloat16, float16; auto: what the model's folder says."""
    max_model_len: int
    """Tokens of a request, prompt and answer together."""
    max_num_seqs: int = 16
    """Requests in one batch; more wait."""
    kv_cache_bytes: int = 1 << 30
    threads: int = 0
    """CPU threads; 0 lets vLLM decide. Of no effect on a GPU."""
    eager: bool = True
    """Start without compiling, which takes minutes on a CPU. On a GPU, CUDA graphs make the wait worth it."""
    unix_socket: bool = False
    """Listen on a socket file that only this user can reach, instead of a TCP port of the loopback interface. For a
    server whose unauthenticated endpoints matter (`dev_mode`)."""
    dev_mode: bool = False
    """vLLM's development endpoints (collective_rpc, reset_prefix_cache). They ask for no key."""
    scratch: Path | None = None
    """Where the server's private folder is made; default: where temporary files go."""
    worker_extension: tuple[Path, str] | None = None
    """(Python file, class in it) that vLLM mixes into its workers. The file must not import ectype."""
    arguments: tuple[str, ...] = ()
    """Further arguments of the server, as its command line knows them."""


def vllm_python(configured: str | None = None) -> Path:
    """The interpreter that has vLLM: `configured`, else ECTYPE_VLLM_PYTHON, else `.venv-vllm` of this checkout, else
    the current one. Raises ModelServerError when there is none."""
    chosen = configured or os.environ.get(PYTHON_VARIABLE)
    if chosen:
        if os.access(chosen, os.X_OK) and not os.path.isdir(chosen):
            return Path(chosen).absolute()
        raise ModelServerError(
            "the Python interpreter for vLLM cannot be run",
            where=chosen,
            remedy=f"set the config's key, or {PYTHON_VARIABLE}, to the python of an environment with vLLM",
        )
    beside = Path(__file__).parents[1] / ".venv-vllm/bin/python"
    if os.access(beside, os.X_OK):
        return beside
    if importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    raise ModelServerError(
        "vLLM is not installed",
        where=str(beside),
        remedy=f"run scripts/setup.sh --vllm, or set {PYTHON_VARIABLE} to the python of an environment that has it",
    )


class ModelServer:
    """A context manager around one server. Every method may be called from any thread.

    with ModelServer(options) as server:   # started, and ready
        server.post("/v1/completions", {"model": server.options.served_name, "prompt": [1, 2]})
    """

    def __init__(self, options: ServerOptions, *, python: Path | None = None) -> None:
        self.options = options
        self.api_key = secrets.token_urlsafe(32)
        self.port = 0
        """TCP port on 127.0.0.1; 0 with a unix socket, or before the start."""
        self._python = python
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stop_lock = threading.Lock()

    def __enter__(self) -> ModelServer:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """Base URL for OpenAI clients (not with a unix socket)."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def folder(self) -> Path:
        """The server's private folder, from its start until `stop` (or the end of this process)."""
        assert self._folder is not None, "the model server was not started"
        return self._folder

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; it is not ready yet."""
        if self._process is not None:
            raise RuntimeError("a model server is started once")
        options = self.options
        if not (options.model / "config.json").is_file():
            raise ModelServerError(
                "no Hugging Face model here", where=str(options.model), remedy="give a folder with config.json"
            )
        python = self._python or vllm_python()
        self._folder = Path(tempfile.mkdtemp(prefix="ectype-vllm-", dir=options.scratch))
        options.log.parent.mkdir(parents=True, exist_ok=True)
        if options.unix_socket:
            listen = ["--uds", str(self._socket)]
        else:
            self.port = _free_port()
            listen = ["--host", "127.0.0.1", "--port", str(self.port)]
        supervisor = Path(__file__).with_name("supervise.py")
        supervised = [sys.executable, "-I", str(supervisor), str(options.log), str(LOG_BYTES), str(self._folder)]
        self._process = subprocess.Popen(
            [*supervised, str(python), *self._arguments(), *listen],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        )

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return when the server answers. Raises ModelServerDown, with the end of its log, when it never will."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._send("GET", "/health", None, timeout_s=5.0)[0] == 200:
                    return
            time.sleep(0.2)
        raise self._error(f"the model server was not ready after {timeout_s:.0f} s", down=True)

    def check(self) -> None:
        """Raise ModelServerDown, with the end of its log, when the server has died."""
        if self._process is None:
            raise RuntimeError("the model server was not started")
        status = self._process.poll()
        if status is not None:
            raise self._error(f"the model server has ended with status {status}", down=True)

    def post(self, path: str, body: Any, *, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Send JSON, get JSON (None for an empty answer). Raises ModelServerError for any answer but 200, and
        ModelServerDown when there is none, or one that says that the server is broken."""
        return self._call("POST", path, body, timeout_s)

    def get(self, path: str, *, timeout_s: float = 60.0) -> Any:
        return self._call("GET", path, None, timeout_s)

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines of the server's log."""
        try:
            with self.options.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 16)))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the server and everything it started. May be called twice."""
        with self._stop_lock:
            process = self._process
            if process is not None:
                assert process.stdin is not None
                process.stdin.close()  # the supervisor's sign
                try:
                    process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _socket(self) -> Path:
        return self.folder / "http"

    def _arguments(self) -> list[str]:
        options = self.options
        arguments = [
            *("-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(options.model)),
            *("--served-model-name", options.served_name),
            *("--dtype", options.dtype),
            *("--max-model-len", str(options.max_model_len)),
            *("--max-num-seqs", str(options.max_num_seqs)),
            *("--kv-cache-memory-bytes", str(options.kv_cache_bytes)),
            *("--generation-config", "vllm"),  # what a request does not say is never taken from the model's folder
        ]
        if options.eager:
            arguments.append("--enforce-eager")
        if options.worker_extension is not None:
            file, name = options.worker_extension
            shutil.copyfile(file, self.folder / "ectype_worker_extension.py")
            arguments += ["--worker-extension-cls", f"ectype_worker_extension.{name}"]
        return [*arguments, *options.arguments]

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        environment |= {
            "VLLM_API_KEY": self.api_key,
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "VLLM_CACHE_ROOT": f"{folder}/cache",
            "VLLM_CONFIG_ROOT": f"{folder}/config",
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
            "PYTHONPATH": folder,
            "PYTHONUNBUFFERED": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin would starve the trainer and sandboxes beside it
        }
        if len(folder) + 1 + 36 < _SOCKET_PATH:  # where vLLM's processes meet: sockets that it leaves behind
            environment["VLLM_RPC_BASE_PATH"] = folder
        if self.options.dev_mode:
            environment["VLLM_SERVER_DEV_MODE"] = "1"
        if self.options.threads:
            environment["OMP_NUM_THREADS"] = str(self.options.threads)
        return environment

    def _call(self, method: str, path: str, body: Any, timeout_s: float) -> Any:
        try:
            status, answer = self._send(method, path, body, timeout_s=timeout_s)
        except (OSError, http.client.HTTPException) as error:
            self.check()
            raise self._error(f"the model server does not answer {path}: {error}", down=True) from error
        if status != 200:
            raise self._error(
                f"the model server answers {path} with {status}: {answer[:1000].decode(errors='replace')}"
            )
        return json.loads(answer) if answer else None

    def _send(self, method: str, path: str, body: Any, *, timeout_s: float) -> tuple[int, bytes]:
        if self.options.unix_socket:
            connection: http.client.HTTPConnection = _UnixConnection(self._socket, timeout_s)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()

    def _error(self, what: str, *, down: bool = False) -> ModelServerError:
        tail = self.log_tail()
        return (ModelServerDown if down else ModelServerError)(
            f"{what}\n{tail}" if tail else what,
            where=str(self.options.log),
            remedy="read the log; less memory: lower the cache, the length or the number of sequences",
        )


_NOT_INHERITED = frozenset(
    {"VLLM_API_KEY", "VLLM_SERVER_DEV_MODE", "PYTHONPATH", "PYTHONHOME", "OMP_NUM_THREADS", "OMP_WAIT_POLICY"}
    | {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
)
"""Variables of this process that mean something else to the server: the trainer's ranks among them."""


_SOCKET_PATH = 107
"""Longest path of a unix socket."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
