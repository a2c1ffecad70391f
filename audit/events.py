"""The audit log: one JSON line per event, append-only, one file per producer and attempt.

In go events of the controller, the workers and the trainer; out come the same events, for the report, the notebooks and
re-audits. An event is on the file system when `write` returns and on the disk at most a second later. The log never
rewrites an event and never drops one silently: what cannot be written raises `AuditError`.

`bytes` in an event's data stay bytes: they are stored as `{"utf8": "..."}` when they are valid UTF-8 (so that a script
can be read in the file) and as `{"base64": "..."}` otherwise, and `read_events` turns both back. Records are stored as
JSON objects of their fields. File names with undecodable bytes (surrogateescape) survive as JSON escapes.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from audit.errors import EctypeError

SYNC_EVERY_S = 1.0
_PRODUCER = re.compile(r"[A-Za-z0-9_-]+")


class AuditError(EctypeError):
    """The audit log cannot be written or is damaged."""


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One event. `seq` counts from 0 in each file without gaps, so that a missing event shows.

    `time` is the wall clock in seconds; `step` is -1 for an event that belongs to no step of an episode.
    """

    time: float
    producer: str
    attempt: int
    seq: int
    kind: str
    episode: str = ""
    step: int = -1
    data: dict[str, Any] = {}


class AuditLog:
    """The events of one producer (`controller`, `sandbox-0`, `trainer`, ...) in this attempt.

    The file is `<dir>/<producer>.<attempt>.jsonl`; the attempt is the first number that is free.
    """

    def __init__(self, directory: Path, producer: str, *, clock: Callable[[], float] = time.time) -> None:
        if not _PRODUCER.fullmatch(producer):
            raise ValueError(f"producer {producer!r}: only letters, digits, '-' and '_'")
        directory.mkdir(parents=True, exist_ok=True)
        self.producer = producer
        self.path, self.attempt, self._fd = _create(directory, producer)
        self._clock = clock
        self._lock = threading.Lock()
        self._seq = 0
        self._size = 0
        self._unsynced = False
        self._sync_error: OSError | None = None
        self._closed = threading.Event()
        self._syncer = threading.Thread(target=self._sync_regularly, name=f"audit-{producer}", daemon=True)
        self._syncer.start()

    def write(self, kind: str, episode: str = "", step: int = -1, **data: Any) -> None:
        """Append one event. `data`: JSON values, bytes, msgspec records, and lists or dicts of them."""
        with self._lock:
            if self._closed.is_set():
                raise AuditError(f"audit event {kind!r} after the log was closed", where=str(self.path))
            event = Event(
                time=self._clock(),
                producer=self.producer,
                attempt=self.attempt,
                seq=self._seq,
                kind=kind,
                episode=episode,
                step=step,
                data={key: _to_json(value) for key, value in data.items()},
            )
            line = json.dumps(msgspec.structs.asdict(event), separators=(",", ":")).encode() + b"\n"
            try:
                if self._sync_error is not None:
                    raise self._sync_error
                _append(self._fd, line, self._size)
            except OSError as error:
                raise AuditError(
                    f"the audit log cannot be written: {error.strerror}",
                    where=str(self.path),
                    remedy="free space (or quota) on the file system of the run folder, then start the run again",
                ) from error
            self._seq += 1
            self._size += len(line)
            self._unsynced = True

    def close(self) -> None:
        """Flush to the disk and close; a second call does nothing."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self._syncer.join()
        os.fsync(self._fd)
        os.close(self._fd)

    def _sync_regularly(self) -> None:
        while not self._closed.wait(SYNC_EVERY_S):
            if self._unsynced:
                self._unsynced = False
                try:
                    os.fsync(self._fd)
                except OSError as error:  # raised by the next write: nobody would see it here
                    self._sync_error = error

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def read_events(directory: Path, *, containing: bytes = b"") -> Iterator[Event]:
    """All events below `directory`, file after file, each file in the order of writing.

    `containing`: only those whose line holds these bytes, such as `"episode":"e1"`; the others are not even decoded.

    An unfinished last line (its producer is writing it, or was killed) is left out. Any other damage raises AuditError.
    """
    for path in sorted(directory.glob("*.jsonl")):
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                if containing not in line:
                    continue
                try:
                    event = msgspec.convert(json.loads(line), Event)
                except (ValueError, msgspec.ValidationError) as error:
                    raise AuditError(f"damaged audit event: {error}", where=f"{path}:{number}") from error
                yield msgspec.structs.replace(event, data=_from_json(event.data))


def _create(directory: Path, producer: str) -> tuple[Path, int, int]:
    attempt = 0
    while True:
        path = directory / f"{producer}.{attempt:04d}.jsonl"
        try:
            return path, attempt, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            attempt += 1
        except OSError as error:
            raise AuditError(f"the audit log cannot be created: {error.strerror}", where=str(path)) from error


def _append(fd: int, line: bytes, size: int) -> None:
    written = 0
    try:
        while written < len(line):
            written += os.write(fd, line[written:])
    except OSError:
        # A full disk tears the line: take the half back, so that the next event starts on a line of its own.
        os.ftruncate(fd, size)
        raise


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return {"utf8": value.decode()}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(item) for item in value]
    if isinstance(value, str | int | float | None):
        return value
    return _to_json(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _from_json(value: Any) -> Any:
    match value:
        case {"utf8": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(text), **rest} if not rest:
            return base64.b64decode(text)
        case dict():
            return {key: _from_json(item) for key, item in value.items()}
        case list():
            return [_from_json(item) for item in value]
        case _:
            return value
