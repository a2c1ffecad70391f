"""CURVE keys: one pair per role, made once per run, and what each role is admitted to.

    <keys>/public/<role>.key          public key of the role
    <keys>/secret/<role>.key_secret   public and secret key, mode 0600

Files are in the certificate format of ZeroMQ. A job needs its own secret file and the public folder, nothing else.
A secret never leaves this module except into a socket option, and a secret file that others can read is refused.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import zmq

from audit.errors import EctypeError

Role = Literal["controller", "trainer", "sandbox", "judge", "viewer"]
ROLES: tuple[Role, ...] = get_args(Role)

DRIVER_ROLES: tuple[Role, ...] = ("trainer", "viewer")
"""Admitted to the drivers' socket; a viewer may only ask for the status there."""
WORKER_ROLES: tuple[Role, ...] = ("sandbox",)
"""Admitted to the workers' socket."""
JUDGE_ROLES: tuple[Role, ...] = ("judge",)
"""Admitted to the judges' socket."""


class KeysError(EctypeError):
    """A key file is missing, damaged or readable by others."""


class KeyPair(NamedTuple):
    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair({self.public.decode()})"


def create_keys(directory: Path) -> None:
    """Make a fresh pair for every role in `directory`, which must be missing or empty; all of it appears at once."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    if directory.exists() and any(directory.iterdir()):
        raise KeysError(
            "the folder of keys is not empty; keys are never replaced under a run",
            where=str(directory),
            remedy="use a new run folder, or stop the run's jobs and delete the folder of keys",
        )
    staging = Path(tempfile.mkdtemp(prefix=".keys-", dir=directory.parent))  # mode 0700
    try:
        (staging / "public").mkdir(mode=0o755)
        (staging / "secret").mkdir(mode=0o700)
        for role in ROLES:
            public, secret = (key.decode() for key in zmq.curve_keypair())
            certificate = f'curve\n    public-key = "{public}"\n'
            _write(staging / "public" / f"{role}.key", certificate, 0o644)
            _write(staging / "secret" / f"{role}.key_secret", f'{certificate}    secret-key = "{secret}"\n', 0o600)
        os.rename(staging, directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def load_pair(directory: Path, role: Role) -> KeyPair:
    """The pair of `role`, for its own process."""
    path = directory / "secret" / f"{role}.key_secret"
    fields = _read(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise KeysError("a secret key is readable by others", where=str(path), remedy=f"chmod 600 {path}")
    return KeyPair(_key(fields, "public-key", path), _key(fields, "secret-key", path))


def load_public(directory: Path, role: Role) -> bytes:
    """The public key of `role` (Z85, 40 bytes)."""
    path = directory / "public" / f"{role}.key"
    return _key(_read(path), "public-key", path)


def _write(path: Path, text: str, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(fd, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        raise KeysError(
            "a key is missing", where=str(path), remedy="the keys are made with the run folder: start a new run"
        ) from None
    except (OSError, ValueError) as error:
        raise KeysError(f"a key cannot be read: {error}", where=str(path)) from error
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {name.strip(): value.strip().strip('"') for name, value in pairs}


def _key(fields: dict[str, str], name: str, path: Path) -> bytes:
    key = fields.get(name, "").encode()
    if len(key) != 40:
        raise KeysError(f"no {name} in the key file", where=str(path), remedy="start a new run: keys are made with it")
    return key
