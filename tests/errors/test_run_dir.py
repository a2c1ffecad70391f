"""The run folder: another version, another config, in use, no run at all, a full or read-only disk."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.context
import multiprocessing.synchronize
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.errors import EctypeError
from jobs import strict_yaml
from jobs.locks import FileLock
from jobs.run_config import RunConfig, with_steps
from jobs.run_dir import RunDir
from jobs.site_config import load_site

CONFIG = strict_yaml.parse("name: a\nsuite: micro\n", RunConfig, where="test")
SITE = load_site("local")


def test_a_run_is_made_opened_and_continued(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    assert RunDir.open(run.path).config() == CONFIG
    assert run.site() == SITE
    assert (run.keys.stat().st_mode & 0o777, run.endpoints.stat().st_mode & 0o777) == (0o700, 0o700)
    key = (run.keys / "secret" / "trainer.key_secret").read_bytes()
    longer = RunDir.create(run.path, with_steps(CONFIG, 99), SITE)
    assert longer.config() == CONFIG, "it may be in use"
    longer.freeze(with_steps(CONFIG, 99), SITE)
    assert longer.config().trainer.steps == 99
    assert (run.keys / "secret" / "trainer.key_secret").read_bytes() == key


def test_another_config_names_the_difference(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    (run.logs / "controller").mkdir()
    other = strict_yaml.parse("name: a\nsuite: micro\nppo: {epochs: 7}\n", RunConfig, where="test")
    with pytest.raises(EctypeError, match=r"another config: ppo.epochs is 2 there, 7 here") as caught:
        RunDir.create(run.path, other, SITE)
    assert caught.value.where == str(run.path)
    assert "--run" in caught.value.remedy


def test_a_config_that_never_started_can_be_corrected(tmp_path: Path) -> None:
    typo = strict_yaml.parse("name: a\nsuite: micro\ntasks: [revers]\n", RunConfig, where="test")
    RunDir.create(tmp_path / "run", typo, SITE)
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    run.freeze(CONFIG, SITE)
    assert run.config() == CONFIG


def test_another_format_is_refused(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    run.run_yaml.write_text(run.run_yaml.read_text().replace("format: 1", "format: 7"))
    with pytest.raises(EctypeError, match="has format 7, this version of ectype reads format 1") as caught:
        RunDir.open(run.path)
    assert caught.value.where == str(run.run_yaml)


@pytest.mark.parametrize("content", ["{", "- 3", "\x00"])
def test_a_damaged_run_yaml_is_refused(tmp_path: Path, content: str) -> None:
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    run.run_yaml.write_text(content)
    with pytest.raises(EctypeError, match="damaged"):
        RunDir.open(run.path)


def test_what_is_no_run_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(EctypeError, match="not a folder of ectype"):
        RunDir.create(tmp_path, CONFIG, SITE)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(EctypeError, match="does not exist"):
        RunDir.open(tmp_path / "nowhere")
    with pytest.raises(EctypeError):
        RunDir.create(tmp_path / "thesis.txt", CONFIG, SITE)


def test_the_first_stop_reason_stays(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", CONFIG, SITE)
    assert run.stop_reason() is None
    run.request_stop("finished")
    run.request_stop("failed", "too late")
    stop = run.stop_reason()
    assert stop is not None and stop.reason == "finished"
    run.clear_for_start()
    assert run.stop_reason() is None


def _hold(path: Path, ready: multiprocessing.synchronize.Event) -> None:
    FileLock(path, "run folder").acquire()
    ready.set()
    signal.pause()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[multiprocessing.context.SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path / "trainer.lock", ready))
    process.start()
    assert ready.wait(30)
    yield process
    process.kill()
    process.join()


def test_a_run_in_use_names_the_user_of_it(tmp_path: Path, holder: multiprocessing.context.SpawnProcess) -> None:
    lock = FileLock(tmp_path / "trainer.lock", "run folder")
    with pytest.raises(EctypeError, match=f"the run folder is in use by process {holder.pid} on ") as caught:
        lock.acquire()
    assert caught.value.where == str(tmp_path)
    assert "ectype cancel" in caught.value.remedy
    assert f"process {holder.pid}" in (lock.holder() or "")
    holder.kill()
    holder.join()
    assert lock.holder() is None
    with lock:
        assert lock.holder() is not None
    assert lock.holder() is None


@pytest.mark.parametrize(
    ("record", "mine", "refused"),
    [
        ({"host": "elsewhere", "pid": 1}, "", True),
        ({"host": "elsewhere", "pid": 1, "slurm_job": "77"}, "77", False),  # this job, requeued from a lost node
        ({"host": os.uname().nodename, "pid": 1}, "", False),  # dead: flock is free
    ],
)
def test_a_holder_on_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: dict[str, str], mine: str, refused: bool
) -> None:
    path = tmp_path / "trainer.lock"
    path.write_text(json.dumps(record))
    monkeypatch.setenv("SLURM_JOB_ID", mine)
    lock = FileLock(path, "run folder")
    if refused:
        with pytest.raises(EctypeError, match="on elsewhere"):
            lock.acquire()
        assert json.loads(path.read_text()) == record
    else:
        lock.acquire()
        lock.release()


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_torn_lock_file_is_no_trap(tmp_path: Path, text: str) -> None:
    (tmp_path / "trainer.lock").write_text(text)
    with FileLock(tmp_path / "trainer.lock", "run folder"):
        pass


def test_a_folder_that_cannot_be_looked_into_is_said(tmp_path: Path) -> None:
    for use in (RunDir.open, lambda path: RunDir.create(path, CONFIG, SITE)):
        with pytest.raises(EctypeError, match="name too long") as caught:
            use(tmp_path / ("x" * 300))
        assert str(tmp_path) in caught.value.where


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * (4 << 20))
    with pytest.raises(EctypeError, match="disk is full") as caught:
        RunDir.create(small_disk / "run", CONFIG, SITE)
    assert str(small_disk) in caught.value.where
    assert "free space" in caught.value.remedy and "start the same command again" in caught.value.remedy
    (small_disk / "ballast").unlink()
    assert RunDir.create(small_disk / "run", CONFIG, SITE).config() == CONFIG


@pytest.mark.parametrize("step", ["create_keys", "write_atomically"])
def test_a_folder_that_was_only_half_made_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"jobs.run_dir.{step}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            RunDir.create(tmp_path / "run", CONFIG, SITE)
    assert RunDir.create(tmp_path / "run", CONFIG, SITE).config() == CONFIG


def test_a_full_disk_leaves_the_old_files_whole(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "run", CONFIG, SITE)
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * (4 << 20))
    with pytest.raises(EctypeError, match="disk is full"):
        run.request_stop("finished")
    assert run.stop_reason() is None
    assert RunDir.open(run.path).config() == CONFIG
    assert not list(run.path.glob(".*.tmp"))


def test_a_folder_of_somebody_else_is_said() -> None:
    with pytest.raises(EctypeError) as caught:
        RunDir.create(Path("/proc/run"), CONFIG, SITE)
    assert "/proc/run" in caught.value.where
