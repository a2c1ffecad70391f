"""The folder of one run on a file system that all its jobs share: what is where, and who may use it.

`RunDir.create` makes it from a run config and a site, `RunDir.open` finds it again and refuses a folder that is no
run, of another format or damaged. Everything in it is either a frozen copy of what the run was started with, or written
by exactly one job. The only thing that all jobs watch is the `stop` file.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from audit.errors import EctypeError
from detect.rule_book import RuleBook
from detect.rule_set import RULES_DIR
from jobs import strict_yaml
from jobs.locks import FileLock
from jobs.run_config import RunConfig, with_steps
from jobs.site_config import Site
from queues.keys import create_keys

FORMAT = 1
FOLDERS = ("checkpoints", "episodes", "audit", "logs", "metrics", "endpoints", "jobs", "tasks", "rules")
StopReason = Literal["finished", "cancelled", "failed"]


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the `stop` file: why every job of the run has to end."""

    reason: StopReason
    detail: str = ""
    at: float = 0.0


class RunDir:
    """Paths and state of one run folder. Make one with `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_yaml = path / "run.yaml"
        self.site_yaml = path / "site.yaml"
        self.stop_file = path / "stop"
        self.jobs_json = path / "jobs.json"
        self.keys = path / "keys"
        self.endpoints = path / "endpoints"
        self.endpoint_file = self.endpoints / "controller.json"
        self.checkpoints = path / "checkpoints"
        self.episodes = path / "episodes"
        self.audit = path / "audit"
        self.logs = path / "logs"
        self.metrics = path / "metrics"
        self.jobs = path / "jobs"
        self.tasks = path / "tasks"
        """The public half of the suite, as the trainer reads it."""
        self.trainer_lock = FileLock(path / "trainer.lock", "run folder")
        self.rules = RuleBook(path / "rules")
        """The rule sets of the run, and which one is in force."""
        self.launch_lock = FileLock(path / "launch.lock", "run folder")

    @classmethod
    def create(cls, path: Path, config: RunConfig, site: Site) -> RunDir:
        """Make the folder, or come back to one that was started from the same config (only `trainer.steps` may differ).

        One that is there may be in use, and is not changed: see `freeze`. Raises EctypeError when `path` is something
        else, or the disk is full or read-only.
        """
        path = path.absolute()
        with disk_errors(path):
            new = not path.exists() or (path.is_dir() and all(map(_is_of_an_unfinished_run, path.iterdir())))
            if new:
                path.mkdir(parents=True, exist_ok=True)
        run = cls(path) if new else cls.open(path)
        if not new:
            run._refuse_another(config)
        with disk_errors(path):
            for folder in FOLDERS:
                (path / folder).mkdir(exist_ok=True)
            run.endpoints.chmod(0o700)
            if not run.keys.is_dir():
                create_keys(run.keys)
        if new:
            run.freeze(config, site)
        return run

    def freeze(self, config: RunConfig, site: Site) -> None:
        """Keep what the run is started with. Only under the launch lock, and when no job of the run is alive."""
        self._refuse_another(config)
        with disk_errors(self.path):
            self._freeze_rules(config.anticheat.rules)
            write_atomically(self.site_yaml, _frozen(site))
            write_atomically(self.run_yaml, _frozen(config))  # last: it makes the folder a run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """The run in `path`. Raises EctypeError when it is not one that this version can read."""
        path = path.absolute()
        run = cls(path)
        with disk_errors(path):
            there = run.run_yaml.is_file()
        if not there:
            what = "is not a folder of ectype" if path.exists() else "does not exist"
            raise EctypeError(
                f"the run folder {what}",
                where=str(path),
                remedy="name the folder of a run (it has a run.yaml), or an empty or new one to start a run",
            )
        try:
            with disk_errors(path):
                version = (yaml.safe_load(run.run_yaml.read_text()) or {}).get("format")
        except (yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
            raise EctypeError(
                "run.yaml of the run folder is damaged",
                where=str(run.run_yaml),
                remedy="restore it, or use a new folder",
            ) from error
        if version != FORMAT:
            raise EctypeError(
                f"the run folder has format {version}, this version of ectype reads format {FORMAT}",
                where=str(run.run_yaml),
                remedy="use the version of ectype that made it, or give another folder with --run",
            )
        return run

    def config(self) -> RunConfig:
        return strict_yaml.parse(_without_format(self.run_yaml), RunConfig, where=str(self.run_yaml))

    def site(self) -> Site:
        return strict_yaml.read(self.site_yaml, Site)

    def samples(self) -> Path:
        """Folder of the sample store: the site's, or the run's own."""
        shared = self.site().samples
        return self.path / "samples" if shared is None else Path(shared)

    def _freeze_rules(self, given: str) -> None:
        """Copy the rule set into the run, once: what is activated later, and stays over restarts, is the book's."""
        source = RULES_DIR if given == "default" else Path(given)
        self.rules.begin(source, given, anew=not any(self.logs.iterdir()))

    def _refuse_another(self, config: RunConfig) -> None:
        """Refuse a config that is not the one of this run, unless no job of it was ever started."""
        if not (self.run_yaml.is_file() and self.logs.is_dir() and any(self.logs.iterdir())):
            return
        frozen = self.config()
        if with_steps(config, 1) != with_steps(frozen, 1):
            changes = list(_differences(frozen.model_dump(mode="json"), config.model_dump(mode="json")))
            raise EctypeError(
                f"the run folder belongs to another config: {'; '.join(changes[:3])}",
                where=str(self.path),
                remedy="give another folder (--run, or --folder of the demo), or undo the change; "
                "only trainer.steps may differ",
            )

    # --- stopping -----------------------------------------------------------------------------------------------

    def request_stop(self, reason: StopReason, detail: str = "") -> None:
        """Tell every job to end. The first reason stays."""
        if self.stop_reason() is None:
            with disk_errors(self.path):
                write_atomically(self.stop_file, msgspec.json.encode(Stop(reason, detail, time.time())).decode())

    def stop_reason(self) -> Stop | None:
        try:
            return msgspec.json.decode(self.stop_file.read_bytes(), type=Stop)
        except FileNotFoundError:
            return None

    def clear_for_start(self) -> None:
        """Remove what an earlier start left: the stop file, endpoints and job records. Only under the launch lock."""
        for stale in (self.stop_file, self.jobs_json, *self.endpoints.iterdir(), *self.jobs.iterdir()):
            stale.unlink(missing_ok=True)


def _is_of_an_unfinished_run(entry: Path) -> bool:
    """Whether making a run folder, interrupted or out of space, leaves this behind before there is a run.yaml."""
    return entry.name in (*FOLDERS, "keys", "site.yaml") or entry.name.startswith(
        (".keys-", ".site.yaml.", ".run.yaml.")
    )


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn a full, read-only or forbidden disk into an EctypeError that says so."""
    try:
        yield
    except OSError as error:
        raise explain_disk_error(error, where) from error


def explain_disk_error(error: OSError, where: Path) -> EctypeError:
    place = str(error.filename2 or error.filename or where)  # of a copy: where it was copied to
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        return EctypeError(
            f"{what}: the run could not be written",
            where=place,
            remedy=f"free space on the file system of {where}, then start the same command again: it resumes",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return EctypeError(
            f"the run folder cannot be used: {error.strerror}",
            where=place,
            remedy="give a folder of your own with --run, or correct its owner and mode",
        )
    return EctypeError(f"{error.strerror or error}", where=place, remedy="check that path and its file system")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace `path` so that a reader sees the old or the new text, never a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _frozen(model: RunConfig | Site) -> str:
    text = strict_yaml.dump(model)
    return text if isinstance(model, Site) else f"format: {FORMAT}\n{text}"


def _without_format(path: Path) -> str:
    return path.read_text().replace(f"format: {FORMAT}\n", "", 1)


def _differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
    elif old != new and key != "trainer.steps":
        yield f"{key} is {json.dumps(old)} there, {json.dumps(new)} here"
