"""Builds task suites out of sources and keeps them in the cache, each under a name that says what it was built from.

Comes in: the name of a suite that ships, a folder of task folders that a user wrote, or a folder that was built before.
Goes out: the `tasks_root` with `public/<suite>` and `hidden/<suite>`, complete or not at all: a suite appears by one
rename, after every reference has run well. Nothing of the hidden half is readable by other users.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import fcntl
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from containers.apptainer import Apptainer, probe_isolation
from containers.cache import cache_dir, cache_dirs
from containers.image import ensure_image, find_image, fingerprint
from sandbox import comparison
from sandbox import hidden as hidden_record
from sandbox.hidden import HiddenTask, TaskError, check_name, list_hidden, write_hidden
from sandbox.pool import Pool
from tasks import record as recording
from tasks import source as sources
from tasks.record import RecordedTask, record
from tasks.source import TaskSource, load_folder
from tasks.suites import SUITES, Suite

Progress = Callable[[str], None]
SANDBOXES = 2
KEEP = 3
"""Builds of one suite that are kept: the current one and those that another checkout may still use."""

_SHAPE = (Path(hidden_record.__file__), Path(comparison.__file__), Path(sources.__file__), Path(recording.__file__))
"""What every suite depends on: a change of the records or of the recording makes all of them anew."""


def list_suites() -> dict[str, str]:
    """The suites that ship: name and title."""
    return {suite.name: suite.title for suite in SUITES.values()}


def suite_name(name: str) -> str:
    """The suite's name below a tasks root: a folder's own name, or that of the one suite in a built folder."""
    built = _built_root(name)
    if built is None:
        return _suite(name).name
    suites = list_hidden(built)
    if len(suites) != 1:
        raise TaskError(
            f"{len(suites)} suites in one folder: {', '.join(suites) or 'none'}",
            where=str(built),
            remedy="keep one suite per folder, with both halves: public/<suite> and hidden/<suite>",
        )
    return next(iter(suites))


def find_suite(name: str) -> Path | None:
    """The `tasks_root` of a suite that is there already; None when it has to be built (or the image is missing)."""
    built = _built_root(name)
    if built is not None:
        _check_halves(built, suite_name(name))
        return built
    image = find_image()
    return None if image is None else _find(_suite(name), image)


def ensure_suite(name: str, *, progress: Progress | None = None) -> Path:
    """The `tasks_root` of a suite, built first if need be (seconds to a minute). Safe in many processes at once.

    `name`: a suite that ships, or the path of a folder. Raises `TaskError`, `ImageError` or `ApptainerMissing`.
    Runs its own event loop: call it with `asyncio.to_thread` where one is running.
    """
    report = progress or (lambda message: None)
    found = find_suite(name)
    if found is not None:
        return found
    suite = _suite(name)
    image = ensure_image(progress=progress)
    folder = cache_dir() / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{suite.name}.lock", report):
        found = _find(suite, image)
        if found is not None:
            return found
        for leftover in folder.glob(f".building-{suite.name}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        root = folder / _folder_name(suite, image)
        asyncio.run(_build(suite, root, image, report))
        _prune(folder, suite.name, root)
    return root


async def build_suite(
    suite: str, tasks: Sequence[TaskSource], root: Path, *, pool: Pool, progress: Progress | None = None
) -> None:
    """Record every task in the sandboxes of `pool` and write the suite as `root`, which must not exist yet."""
    report = progress or (lambda message: None)
    done = itertools.count(1)

    async def one(task: TaskSource) -> RecordedTask:
        recorded = await record(task, suite, pool)
        report(f"{suite}: {next(done)} of {len(tasks)} tasks ({task.name}: {recorded.hidden.total} cases)")
        return recorded

    try:
        async with asyncio.TaskGroup() as workers:
            running = [workers.create_task(one(task)) for task in tasks]
    except ExceptionGroup as group:
        known = [error for error in group.exceptions if isinstance(error, EctypeError)]
        raise known[0] if known else group from None
    recorded = [task.result() for task in running]
    _refuse_twins([task.hidden for task in recorded])
    _write(suite, recorded, root)


async def _build(suite: Suite, root: Path, image: Path, report: Progress) -> None:
    tasks = suite.sources(image)  # before any sandbox is started: a wrong folder is said at once
    apptainer = await Apptainer.find()
    pool = Pool(apptainer, image, await probe_isolation(apptainer, image), SANDBOXES)
    try:
        await build_suite(suite.name, tasks, root, pool=pool, progress=report)
    finally:
        await pool.close()


def _write(suite: str, recorded: Sequence[RecordedTask], root: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f".building-{suite}-", dir=root.parent))
    try:
        temporary.chmod(0o755)
        for task in recorded:
            write_hidden(temporary, task.hidden)
            folder = temporary / "public" / suite / task.hidden.task
            (folder / "examples").mkdir(parents=True)
            (folder / "task.toml").write_text(task.settings, "utf-8")
            (folder / "instructions.md").write_text(task.instructions, "utf-8")
            for number, example in enumerate(task.examples, 1):
                public = {
                    "argv": example.argv,
                    "stdin": example.stdin,
                    "files": [{"path": file.path, "data": file.data} for file in example.files],
                    "stdout": example.stdout,
                    "exit_status": example.exit_status,
                }
                data = msgspec.json.format(msgspec.json.encode(public), indent=1)
                (folder / "examples" / f"{number}.json").write_bytes(data + b"\n")
        os.rename(temporary, root)
    except OSError as error:
        raise TaskError(
            f"the suite {suite} could not be written: {error.strerror}",
            where=str(root),
            remedy="free some space there, or set ECTYPE_CACHE to another folder",
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _refuse_twins(tasks: Sequence[HiddenTask]) -> None:
    """Two tasks with the same cases, outputs included, would be one task under two names."""

    def behaviour(task: HiddenTask) -> list[object]:
        cases = [(case.argv, case.stdin, case.files, case.stdout, case.exit_status) for case in task.cases]
        return [*cases, *((test.argv, test.files) for test in task.tests)]

    for one, other in itertools.combinations(tasks, 2):
        if behaviour(one) == behaviour(other):
            raise TaskError(
                f"tasks {one.task} and {other.task} of {one.suite} have the same cases with the same output",
                where=f"{one.suite}/{one.task}",
                remedy="add an input on which the two programs differ, or take one of them out",
            )


def _suite(name: str) -> Suite:
    if name in SUITES:
        return SUITES[name]
    folder = Path(name)
    if folder.is_dir() and check_name(folder.resolve().name):
        folder = folder.resolve()
        return Suite(folder.name, f"the folder {folder}", lambda image: load_folder(folder), (folder,))
    close = difflib.get_close_matches(name, SUITES, 1)
    raise TaskError(
        f"no suite {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
        where="suite",
        remedy=f"use one of {', '.join(SUITES)}, or the path of a folder of tasks",
    )


def _built_root(name: str) -> Path | None:
    root = Path(name)
    built = name not in SUITES and (root / "public").is_dir() and (root / "hidden").is_dir()
    return root.resolve() if built else None


def _check_halves(root: Path, suite: str) -> None:
    hidden = set(list_hidden(root)[suite])
    public = {path.parent.name for path in root.glob(f"public/{suite}/*/task.toml")}
    if hidden != public:
        raise TaskError(
            f"suite {suite}: tasks with one half only: {', '.join(sorted(hidden ^ public))}",
            where=str(root),
            remedy="give every task a folder below public/ and one below hidden/, or build the suite again",
        )


def _find(suite: Suite, image: Path) -> Path | None:
    for cache in cache_dirs():
        root = cache / "tasks" / _folder_name(suite, image)
        if os.access(root / "hidden" / suite.name, os.R_OK | os.X_OK):
            return root
    return None


def _folder_name(suite: Suite, image: Path) -> str:
    """`<suite>-<12 hex digits>`: they change with the image, the generators and the form of the records."""
    digest = hashlib.sha256(fingerprint(image).encode())
    for place in (*_SHAPE, *suite.made_by):
        inside = place.rglob("*") if place.is_dir() else (place,)
        for path in sorted(p for p in inside if p.is_file() and "__pycache__" not in p.parts):
            name = path.relative_to(place.parent)
            digest.update(f"{name} {path.stat().st_mode & 0o100:o} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return f"{suite.name}-{digest.hexdigest()[:12]}"


@contextlib.contextmanager
def _locked(path: Path, report: Progress) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is building this suite; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _prune(folder: Path, suite: str, current: Path) -> None:
    built = sorted(folder.glob(f"{suite}-{'[0-9a-f]' * 12}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in [path for path in built if path != current][KEEP - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
