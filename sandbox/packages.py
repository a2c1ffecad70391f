"""A folder of packages that sandboxes may install from without a network: wheels, crates, Go modules.

In goes a folder of the site, out come what to mount and the environment that makes `pip`, `cargo` and `go` use it. It
is mounted read-only at /srv, in agents' and graders' cells alike, and holds nothing of any task. Which packages lie in
it is for the site to decide; whether an agent may install them is for the rules of `detect`.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from audit.errors import EctypeError
from containers.apptainer import Bind

MOUNTED_AT = "/srv"

_ENVIRONMENTS = {
    "wheels": {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{MOUNTED_AT}/wheels",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # a distribution's Python refuses to install beside its own packages, which nothing here could change
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
    },
    "cargo": {"CARGO_HOME": f"{MOUNTED_AT}/cargo", "CARGO_NET_OFFLINE": "true"},
    "modules": {
        "GOPROXY": f"file://{MOUNTED_AT}/modules",
        "GOSUMDB": "off",
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
    },
}
"""By the folder that is there: `wheels` for pip, `cargo` (crates and a config.toml), `modules` (a proxy of Go)."""


class Packages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The folder on the host, and the environment of commands that find it at /srv."""

    folder: Path
    environment: dict[str, str]

    @classmethod
    def at(cls, folder: Path) -> Packages:
        """Raises EctypeError when it is no folder, or holds nothing that a package manager could use."""
        folder = folder.absolute()
        if not os.access(folder, os.R_OK | os.X_OK) or not folder.is_dir():
            raise EctypeError(
                "the folder of packages cannot be read", where=str(folder), remedy="correct `packages` of the site"
            )
        found = [kind for kind in _ENVIRONMENTS if (folder / kind).is_dir()]
        if not found:
            raise EctypeError(
                "the folder of packages has nothing in it that can be used",
                where=str(folder),
                remedy=f"make one of the folders {', '.join(_ENVIRONMENTS)} in it; see docs/sandbox.md",
            )
        environment = {name: value for kind in found for name, value in _ENVIRONMENTS[kind].items()}
        for pip in sorted(folder.glob("wheels/pip-*.whl")):  # runs as it is: images need not have one
            environment["PYTHONPATH"] = f"{MOUNTED_AT}/wheels/{pip.name}"
        return cls(folder, environment)

    @property
    def bind(self) -> Bind:
        return Bind(source=self.folder, target=MOUNTED_AT)
