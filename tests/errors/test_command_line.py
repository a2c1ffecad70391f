"""Mistakes as a user meets them: a message with thing, place and remedy, exit status 2, no traceback, nothing left."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from containers.image import definition_hash
from tests.cluster.command_line import SMALL, CommandLine


def message(done: subprocess.CompletedProcess[str], *, status: int = 2) -> str:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n  where:") == 1
    assert done.stderr.count("\n  remedy:") == 1
    return done.stderr


def config(folder: Path, text: str = "") -> str:
    path = folder / "run.yaml"
    path.write_text(SMALL.read_text() + text)
    return str(path)


def path_without_apptainer(folder: Path) -> str:
    """A PATH with every program of this one but `apptainer`."""
    shadow = folder / "bin"
    shadow.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*"):
            if program.name != "apptainer" and not (shadow / program.name).is_symlink():
                (shadow / program.name).symlink_to(program)
    return str(shadow)


def test_misspelt_key(command_line: CommandLine) -> None:
    shown = message(command_line.run("train", config(command_line.folder, "trainr: {steps: 1}\n")))
    assert "unknown key `trainr`" in shown
    assert f"{command_line.folder}/run.yaml:" in shown
    assert "did you mean `trainer`?" in shown
    assert not (command_line.folder / "runs").exists()


@pytest.mark.parametrize(
    ("text", "what", "where", "remedy"),
    [
        ("anticheat: {rules: ./no-rules}\n", "not a rule set", "no-rules", "detect/rules"),
        ("tasks: [revers]\n", "no task `revers`", "tasks", "did you mean `reverse`?"),
        (
            "rollout: {context_tokens: 40, max_new_tokens: 9}",
            "leaves no room to act",
            "rollout.context_tokens",
            "raise",
        ),
        ("policy: {kind: hf, path: ./no-model}", "no Hugging Face model", "policy.path", "downloaded or exported"),
    ],
)
def test_what_the_config_names_must_be_there(
    command_line: CommandLine, text: str, what: str, where: str, remedy: str
) -> None:
    path = command_line.folder / "run.yaml"
    path.write_text(f"name: a\nsuite: micro\n{text}")
    shown = message(command_line.run("train", str(path)))
    assert what in shown and where in shown and remedy in shown
    assert not (command_line.folder / "runs" / "a" / "jobs.json").exists(), "nothing was started"


def test_no_config(command_line: CommandLine) -> None:
    assert "cannot read nowhere.yaml" in message(command_line.run("train", "nowhere.yaml"))
    assert command_line.run("train").returncode == 2
    assert command_line.run("trian", "nowhere.yaml").returncode == 2


def test_no_apptainer(command_line: CommandLine) -> None:
    path = path_without_apptainer(command_line.folder)
    shown = message(command_line.run("train", config(command_line.folder), env={"PATH": path}))
    assert "apptainer" in shown
    assert "install.sh" in shown


@pytest.mark.apptainer
def test_no_apptainer_is_found_by_the_check(command_line: CommandLine) -> None:
    path = path_without_apptainer(command_line.folder)
    checked = command_line.run("check", "--site", "local", env={"PATH": path, "COLUMNS": "200"})
    assert checked.returncode == 1
    assert "install.sh" in checked.stdout
    assert command_line.run("check", "--site", "local").returncode == 0


@pytest.mark.apptainer
def test_image_that_does_not_start(command_line: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = Path("/tmp") / f"ectype-broken-{os.getpid()}"
    root = cache / "images" / f"base-{definition_hash('base')}" / "rootfs"
    try:
        for folder in ("bin", "dev", "proc", "sys", "tmp", "etc"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        shown = message(command_line.run("train", config(command_line.folder), env={"ECTYPE_CACHE": str(cache)}))
        assert str(root) in shown
        assert "image" in shown
    finally:
        shutil.rmtree(cache, ignore_errors=True)


@pytest.mark.apptainer
def test_neither_network_layer(command_line: CommandLine) -> None:
    real = shutil.which("apptainer")
    folder = command_line.folder / "site"
    folder.mkdir(mode=0o755)
    wrapper = folder / "apptainer"
    wrapper.write_text(
        "#!/bin/sh\n"
        'for option in "$@"; do case "$option" in\n'
        '  --net|--security) echo "FATAL: $option is not allowed by the administrator" >&2; exit 255;;\n'
        f'esac; done\nexec {real} "$@"\n'
    )
    wrapper.chmod(0o755)
    for parent in (command_line.folder, *command_line.folder.parents):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    shown = message(
        command_line.run("train", config(command_line.folder), env={"PATH": f"{folder}:{os.environ['PATH']}"})
    )
    assert "network" in shown


@pytest.mark.apptainer
def test_unknown_task_of_a_suite(command_line: CommandLine) -> None:
    shown = message(command_line.run("train", config(command_line.folder, "tasks: [revers]\n")))
    assert "no task `revers`" in shown
    assert "did you mean `reverse`?" in shown


def test_run_folder_of_another_version(command_line: CommandLine) -> None:
    folder = command_line.folder / "old"
    folder.mkdir()
    (folder / "run.yaml").write_text("format: 99\nname: old\n")
    shown = message(command_line.run("train", config(command_line.folder), "--run", str(folder)))
    assert "format 99" in shown
    for command in ("status", "cancel"):
        assert "format 99" in message(command_line.run(command, str(folder)))
    assert sorted(p.name for p in folder.iterdir()) == ["run.yaml"]


def test_status_of_a_run_that_was_never_started_and_of_no_run(command_line: CommandLine) -> None:
    assert "does not exist" in message(command_line.run("status", "nowhere"))
    assert "not a folder of ectype" in message(command_line.run("cancel", str(command_line.folder)))


def task_folder(folder: Path, reference: str | None) -> Path:
    """A suite `mine` with one task whose reference is missing or wrong."""
    task = folder / "mine" / "greet"
    (task / "reference").mkdir(parents=True)
    (task / "cases").mkdir()
    (task / "task.toml").write_text(
        'reference = ["/usr/bin/python3", "-I", "/reference/main.py"]\n'
        'run = ["/usr/bin/python3", "-I", "/work/main.py"]\nentry = "main.py"\n'
    )
    (task / "instructions.md").write_text("Rebuild it.\n\n{{examples}}\n")
    for number in (1, 2):
        (task / "cases" / f"{number}.toml").write_text(f'stdin = "{number}\\n"\npublic = {str(number == 1).lower()}\n')
    if reference is not None:
        (task / "reference" / "main.py").write_text(reference)
    return task


@pytest.mark.apptainer
@pytest.mark.parametrize("reference", [None, "import sys\nsys.exit(3)\n"])
def test_a_task_whose_reference_is_missing_or_fails(command_line: CommandLine, reference: str | None) -> None:
    task = task_folder(command_line.folder, reference)
    config = command_line.folder / "mine.yaml"
    config.write_text(SMALL.read_text().replace("suite: micro", "suite: ./mine"))
    shown = message(command_line.run("train", str(config)))
    assert "reference" in shown
    assert task.name in shown
    assert task.parent.name in shown
