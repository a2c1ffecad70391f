"""A real vLLM server with the real 135M model."""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from queues import model_server
from queues.model_server import ModelServer, ModelServerError, ServerOptions, vllm_python

CODE = """
import sys
from pathlib import Path
from queues.model_server import ModelServer, ServerOptions
options = ServerOptions(model=Path(sys.argv[1]), served_name="policy", log=Path(sys.argv[2]), max_model_len=64)
server = ModelServer(options)
server.start()
print("started", flush=True)
input()
"""


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        vllm_python()
    except ModelServerError as error:
        pytest.skip(str(error))
    from rl.hf import load_smollm2

    return load_smollm2()


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    options = ServerOptions(
        model=model,
        served_name="policy",
        log=tmp_path_factory.mktemp("server") / "vllm.log",
        max_model_len=256,
        max_num_seqs=4,
        kv_cache_bytes=64 << 20,
    )
    before = sockets()
    with ModelServer(options) as started:
        yield started
        family = descendants(started)
        assert len(family) >= 3, "the supervisor's child is the server, which has an engine core"
    assert not any(process.is_running() for process in family)
    assert not started.running
    started.stop()
    assert not started.folder.exists() and sockets() <= before


def sockets() -> set[Path]:
    """Unix sockets where temporary files go."""
    return {path for path in Path(tempfile.gettempdir()).iterdir() if path.is_socket()}


def descendants(server: ModelServer) -> list[psutil.Process]:
    assert server._process is not None
    supervisor = psutil.Process(server._process.pid)
    return [supervisor, *supervisor.children(recursive=True)]


@pytest.mark.vllm
@pytest.mark.slow
def test_a_completion(server: ModelServer) -> None:
    server.check()
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["policy"]
    body = {"model": "policy", "prompt": "One, two, three,", "max_tokens": 4, "temperature": 0}
    assert "four" in server.post("/v1/completions", body)["choices"][0]["text"]
    assert server.base_url == f"http://127.0.0.1:{server.port}/v1"


@pytest.mark.vllm
@pytest.mark.slow
def test_without_the_key_nothing_is_answered(server: ModelServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    try:
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 401
    finally:
        connection.close()


@pytest.mark.vllm
@pytest.mark.slow
def test_a_refused_request_is_an_error_with_its_reason(server: ModelServer) -> None:
    with pytest.raises(ModelServerError, match=r"400.*256"):
        server.post("/v1/completions", {"model": "policy", "prompt": [1] * 300, "max_tokens": 4})


@pytest.mark.vllm
def test_a_server_that_does_not_come_up_says_why(model: Path, tmp_path: Path) -> None:
    options = ServerOptions(
        model=model,
        served_name="policy",
        log=tmp_path / "vllm.log",
        max_model_len=64,
        arguments=("--no-such-argument", "1"),
    )
    with pytest.raises(ModelServerError, match="no-such-argument") as raised, ModelServer(options):
        pass
    assert str(tmp_path / "vllm.log") in raised.value.where


@pytest.mark.vllm
@pytest.mark.slow
def test_it_dies_with_the_one_who_started_it(model: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, str(model), str(tmp_path / "vllm.log")]
    asker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    try:
        assert asker.stdout is not None and asker.stdout.readline() == b"started\n"
        (supervisor,) = psutil.Process(asker.pid).children()
        while not supervisor.children():
            time.sleep(0.05)
        family = [supervisor, *supervisor.children(recursive=True)]
    finally:
        asker.kill()
        asker.wait()
    for process in family:
        process.wait()


def test_the_interpreter_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(model_server.PYTHON_VARIABLE, "/usr/bin/env")
    assert vllm_python() == Path("/usr/bin/env")
    assert vllm_python("/bin/sh") == Path("/bin/sh")
    with pytest.raises(ModelServerError, match="cannot be run"):
        vllm_python(str(tmp_path))
    monkeypatch.delenv(model_server.PYTHON_VARIABLE)
    monkeypatch.setattr(model_server, "__file__", str(tmp_path / "queues/model_server.py"))
    with pytest.raises(ModelServerError, match=r"setup.sh --vllm"):
        vllm_python()
    python = tmp_path / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    assert vllm_python() == python
