"""Rust's and Go's tools in the player's world, as far as a blocked action gets: what they miss, and the network.

The texts are those of Debian 12 (cargo 1.65, rustc 1.63, go 1.19); `tests/detect/test_fakes_tools.py` compares them
with recorded ones. Building honest code is not known: it raises `Unsure`.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import tomllib
from typing import TYPE_CHECKING

from detect.script_tools import Answer, Tool
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

_UNREACHED = "failed to resolve address for github.com: Temporary failure in name resolution; class=Net (12)"
_TRIES = "".join(f"warning: spurious network error ({n} tries remaining): {_UNREACHED}\n" for n in (2, 1))
_WHY = (
    "network failure seems to have happened\n"
    "  if a proxy or similar is necessary `net.git-fetch-with-cli` may help here\n"
    "  https://doc.rust-lang.org/cargo/reference/config.html#netgit-fetch-with-cli"
)
_INDEX = "failed to fetch `https://github.com/rust-lang/crates.io-index`"
_NO_TARGET = (
    "no targets specified in the manifest\n"
    "  either src/lib.rs, src/main.rs, a [lib] section, or [[bin]] section must be present"
)
_SUBCOMMANDS = {"b": "build", "r": "run", "t": "test", "c": "check"}
_NEED_MANIFEST = frozenset(
    ["build", "run", "test", "check", "fetch", "update", "add", "vendor", "bench", "doc", "publish"]
)


def _chain(*causes: str) -> str:
    return "error: " + "\n\nCaused by:\n  ".join(causes) + "\n"


def _above(player: Player, name: str) -> str | None:
    """The nearest file of that name, here or in a folder above."""
    folder = player.cwd
    while True:
        if player.world.is_file(posixpath.join(folder, name)):
            return posixpath.join(folder, name)
        if folder == "/":
            return None
        folder = posixpath.dirname(folder)


def _arguments(words: list[str], with_value: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """Options (with their values, if they have some) and the other words."""
    options: dict[str, str] = {}
    rest, names = list(words), []
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        if word in with_value:
            options[word] = rest.pop(0) if rest else ""
        elif word.startswith("-"):
            name, _, value = word.partition("=")
            options[name] = value
        else:
            names.append(word)
    return options, names


def _rustc(player: Player, words: list[str], node: Simple) -> Answer:
    options, names = _arguments(words[1:], ("-o", "--edition", "--crate-type", "-C", "--crate-name", "-L", "--out-dir"))
    if options.keys() & {"--version", "-V"}:
        return "rustc 1.63.0\n", "", 0
    if len(names) != 1 or player.world.is_file(player.resolve(names[0])):
        raise Unsure
    text = f"error: couldn't read {names[0]}: No such file or directory (os error 2)\n\n"
    return "", text + "error: aborting due to previous error\n\n", 1


def _cargo(player: Player, words: list[str], node: Simple) -> Answer:
    if words[1:2] in (["--version"], ["-V"]):
        return "cargo 1.65.0\n", "", 0
    if len(words) < 2 or words[1].startswith("-"):
        raise Unsure
    command = _SUBCOMMANDS.get(words[1], words[1])
    options, names = _arguments(
        words[2:], ("--git", "--path", "--features", "-F", "--version", "--bin", "-p", "--root")
    )
    if command in ("clippy", "fmt"):
        near = "\tDid you mean `fix`?\n\n" if command == "fmt" else ""
        return (
            "",
            f"error: no such subcommand: `{command}`\n\n{near}\tView all installed commands with `cargo --list`\n",
            101,
        )
    if command == "install":
        return _cargo_install(player, options, names)
    if command == "search":
        return "", _cargo_index(_chain("failed to update registry `crates-io`", _INDEX, _WHY, _UNREACHED)), 101
    if command not in _NEED_MANIFEST:
        raise Unsure
    manifest = _above(player, "Cargo.toml")
    if manifest is None:
        return "", f"error: could not find `Cargo.toml` in `{player.cwd}` or any parent directory\n", 101
    return _cargo_package(player, manifest, command, names)


def _cargo_index(error: str) -> str:
    return "    Updating crates.io index\n" + _TRIES + error


def _cargo_install(player: Player, options: dict[str, str], names: list[str]) -> Answer:
    if path := options.get("--path"):
        where = player.resolve(path)
        if player.world.is_file(posixpath.join(where, "Cargo.toml")):
            raise Unsure
        text = f"error: `{where}` does not contain a Cargo.toml file. --path must point to a directory"
        return "", text + " containing a Cargo.toml file.\n", 101
    if url := options.get("--git"):
        base = re.sub(r"\.git$", "", posixpath.basename(url.rstrip("/"))).lower()
        drawn = _KNOWN_CLONES.get(url) or hashlib.sha256(url.encode()).hexdigest()[:16]
        error = _chain(f"failed to clone into: /work/.cargo/git/db/{base}-{drawn}", _WHY, _UNREACHED)
        return "", f"    Updating git repository `{url}`\n{_TRIES}{error}", 101
    if not names:
        raise Unsure
    return "", _cargo_index(_chain(_INDEX, _WHY, _UNREACHED)), 101


_KNOWN_CLONES = {
    "https://github.com/BurntSushi/ripgrep": "c5ec4b80e634fc7f",
    "https://github.com/uutils/coreutils": "7adabd94a75d880a",
}
"""cargo's own hash of an address, where it was recorded; others get one that is drawn from the address."""


def _cargo_package(player: Player, manifest: str, command: str, names: list[str]) -> Answer:
    folder = posixpath.dirname(manifest)
    try:
        package = tomllib.loads(player.world.files[manifest].text)
        name, version = package["package"]["name"], package["package"]["version"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        raise Unsure from None
    targets = any(player.world.is_file(posixpath.join(folder, "src", source)) for source in ("main.rs", "lib.rs"))
    if not targets and not package.keys() & {"bin", "lib"}:
        return "", _chain(f"failed to parse manifest at `{manifest}`", _NO_TARGET), 101
    needs = {
        need: spec
        for section in ("dependencies", "dev-dependencies", "build-dependencies")
        for need, spec in package.get(section, {}).items()
    }
    if command == "add" and len(names) == 1:
        first = f"failed to load source for dependency `{names[0]}`"
        causes = (first, "Unable to update registry `crates-io`", _INDEX, _WHY, _UNREACHED)
        return "", _cargo_index(_chain(*causes)), 101
    if (
        command == "add"
        or not needs
        or any(isinstance(spec, dict) and "version" not in spec for spec in needs.values())
    ):
        raise Unsure
    need = min(needs)
    causes = (
        f"failed to get `{need}` as a dependency of package `{name} v{version} ({folder})`",
        f"failed to load source for dependency `{need}`",
        "Unable to update registry `crates-io`",
        _INDEX,
        _WHY,
        _UNREACHED,
    )
    return "", _cargo_index(_chain(*causes)), 101


_NO_MODULE = "go: go.mod file not found in current directory or any parent directory"
_DIAL = "dial tcp: lookup proxy.golang.org on [::1]:53: dial udp [::1]:53: socket: operation not permitted"
_OUTSIDE = (
    _NO_MODULE
    + ".\n\t'go get' is no longer supported outside a module.\n"
    + "\tTo build and install a command, use 'go install' with a version,\n"
    + "\tlike 'go install example.com/cmd@latest'\n"
    + "\tFor more information, see https://golang.org/doc/go-get-install-deprecation\n"
    + "\tor run 'go help get' or 'go help install'.\n"
)
_MATCHED = 'go: warning: "{}" matched no packages\n'


def _go(player: Player, words: list[str], node: Simple) -> Answer:
    if len(words) < 2:
        raise Unsure
    command = words[1]
    if command == "version":
        return "go version go1.19.8 linux/amd64\n", "", 0
    _, names = _arguments(words[2:], ("-o", "-run", "-ldflags", "-tags", "-C"))
    module = _above(player, "go.mod")
    if command == "mod":
        return _go_mod(player, module, names)
    if command in ("get", "install"):
        return _go_get(player, command, module, names)
    if command in ("build", "run", "test", "vet"):
        return _go_build(player, command, module, names)
    raise Unsure


def _unreached(package: str) -> str:
    """A version that the proxy is asked for, and what comes of it."""
    path, _, version = package.partition("@")
    if version in ("", "latest"):
        return f'module {path}: Get "https://proxy.golang.org/{path}/@v/list": {_DIAL}'
    return f'{path}@{version}: Get "https://proxy.golang.org/{path}/@v/{version}.info": {_DIAL}'


def _go_get(player: Player, command: str, module: str | None, names: list[str]) -> Answer:
    if command == "get":
        if module is None:
            return "", _OUTSIDE, 1
        if not names:
            return "", "go: no package to get in current directory\n", 1
        return "", f"go: {_unreached(names[0])}\n", 1
    if len(names) != 1:
        raise Unsure
    if "@" in names[0]:
        return "", f"go: {names[0]}: {_unreached(names[0])}\n", 1
    if module is None:
        text = "go: 'go install' requires a version when current directory is not in a module\n"
        return "", text + f"\tTry 'go install {names[0]}@latest' to install the latest version\n", 1
    raise Unsure


def _go_mod(player: Player, module: str | None, names: list[str]) -> Answer:
    command, names = (names[0], names[1:]) if names else ("", [])
    if command == "init" and len(names) == 1 and module is None:
        path = posixpath.join(player.cwd, "go.mod")
        if player.world.writable(path):
            raise Unsure
        player.world.create(path).write(f"module {names[0]}\n\ngo 1.19\n")
        text = f"go: creating new go.mod: module {names[0]}\n"
        return "", text + "go: to add module requirements and sums:\n\tgo mod tidy\n", 0
    if command == "download":
        if names:
            return "", f"go: {_unreached(names[0])}\n", 1
        if module is None:
            return "", "go: no modules specified (see 'go help mod download')\n", 1
        if "require" not in player.world.files[module].text:
            return "", "go: no module dependencies to download\n", 0
        raise Unsure
    if command == "tidy" and not names:
        if module is None:
            return "", _NO_MODULE + "; see 'go help modules'\n", 1
        missing = _go_imports(player, module)
        if not missing:
            return "", _MATCHED.format("all"), 0
        _, package = missing[0]
        name = player.world.files[module].text.split()[1]
        text = f"go: finding module for package {package}\n{name} imports\n\t{package}: {_unreached(package)}\n"
        return "", text, 1
    raise Unsure


def _go_files(player: Player, folder: str) -> list[str]:
    return [name for name in player.world.names(folder) if name.endswith(".go")]


def _go_imports(player: Player, module: str) -> list[tuple[str, str]]:
    """Where the packages stand that are of no module. Raises Unsure where there is anything else to say."""
    folder = posixpath.dirname(module)
    if "require" in player.world.files[module].text or player.cwd != folder:
        raise Unsure
    found = []
    for name in _go_files(player, folder):
        for number, line in enumerate(player.world.files[posixpath.join(folder, name)].text.split("\n"), 1):
            match = re.match(r'(\s*(?:import\s+)?)"([\w-]+\.[\w.-]+/[^"]+)"', line)
            if match:
                found.append((f"{name}:{number}:{len(match[1]) + 1}", match[2]))
        if not found:
            raise Unsure
    return found


def _go_build(player: Player, command: str, module: str | None, names: list[str]) -> Answer:
    named = names[:1] if command == "run" else names
    if command == "run" and named and "@" in named[0]:
        return "", f"go: {named[0]}: {_unreached(named[0])}\n", 1
    if named and named[0].endswith(".go"):
        there = player.world.is_file(player.resolve(named[0]))
        if not there and command == "run":
            return "", f"stat {named[0]}: no such file or directory\n", 1
        if not there and module is None:
            if named[0].startswith("/"):
                return "", _NO_MODULE + "; see 'go help modules'\n", 1
            text = f"no required module provides package {named[0]}: {_NO_MODULE.removeprefix('go: ')}"
            return "", text + "; see 'go help modules'\n", 1
        if not there:
            if named[0].startswith("/"):
                raise Unsure
            return "", f"no required module provides package {named[0]}; to add it:\n\tgo get {named[0]}\n", 1
        if module is None:
            raise Unsure
    elif module is None:
        if named == ["./..."]:
            text = "pattern ./...: directory prefix . does not contain main module or its selected dependencies\n"
            return "", text, 1
        return "", _NO_MODULE + "; see 'go help modules'\n", 1
    if posixpath.dirname(module) == player.cwd and not _go_files(player, player.cwd):
        if named == ["./..."]:
            tail = {"test": "no packages to test\n", "vet": "no packages to vet\n"}.get(command, "")
            return "", _MATCHED.format("./...") + tail, int(bool(tail))
        if named in ([], ["."]):
            loaded = "go: no packages loaded from .\n"
            return "", loaded if command == "run" else f"no Go files in {player.cwd}\n", 1
        raise Unsure
    missing = _go_imports(player, module)
    if not missing or command not in ("build", "run"):
        raise Unsure
    place, package = missing[0]
    return "", f"{place}: no required module provides package {package}; to add it:\n\tgo get {package}\n", 1


def _gofmt(player: Player, words: list[str], node: Simple) -> Answer:
    _, names = _arguments(words[1:], ())
    if len(names) != 1 or player.world.is_file(player.resolve(names[0])):
        raise Unsure
    return "", f"stat {names[0]}: no such file or directory\n", 2


TOOLS: dict[str, Tool] = {"rustc": _rustc, "cargo": _cargo, "go": _go, "gofmt": _gofmt}
