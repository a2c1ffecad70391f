# ruff: noqa: RUF001 - the tools really print typographic quotes
"""The words of real tools: what each program prints when a file is missing, a host cannot be reached, or it is absent.

One fact goes in, the text and exit status of the program it names come out; None where the program would succeed in
the world of the fakes. Texts are those of Debian 12 (bash 5.2, coreutils 9.1, CPython 3.11) in the locale C.UTF-8; the
tests compare them with the real ones.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from detect import fake_texts_python, image_programs
from detect.facts import Fact
from detect.fake_words import FOLDERS, NOT_FOUND, ORACLE, READ_ONLY, Text, quote, shell_prefix
from detect.script_python import STANDARD

_STYLES: dict[str, tuple[str, int]] = {
    "cp": ("cp: cannot stat {quoted}: {error}", 1),
    "mv": ("mv: cannot stat {quoted}: {error}", 1),
    "install": ("install: cannot stat {quoted}: {error}", 1),
    "ln": ("ln: failed to access {quoted}: {error}", 1),
    "ls": ("ls: cannot access {quoted}: {error}", 2),
    "dir": ("dir: cannot access {quoted}: {error}", 2),
    "stat": ("stat: cannot statx {quoted}: {error}", 1),
    "du": ("du: cannot access {quoted}: {error}", 1),
    "head": ("head: cannot open {quoted} for reading: {error}", 1),
    "tail": ("tail: cannot open {quoted} for reading: {error}", 1),
    "tac": ("tac: failed to open {quoted} for reading: {error}", 1),
    "split": ("split: cannot open {quoted} for reading: {error}", 1),
    "fmt": ("fmt: cannot open {quoted} for reading: {error}", 1),
    "more": ("more: cannot open {given}: {error}", 0),
    "rev": ("rev: cannot open {given}: {error}", 1),
    "rm": ("rm: cannot remove {quoted}: {error}", 1),
    "rmdir": ("rmdir: failed to remove {quoted}: {error}", 1),
    "chmod": ("chmod: cannot access {quoted}: {error}", 1),
    "dd": ("dd: failed to open {quoted}: {error}", 1),
    "find": ("find: ‘{given}’: {error}", 1),
    "sed": ("sed: can't read {given}: {error}", 2),
    "grep": ("grep: {given}: {error}", 2),
    "egrep": ("grep: {given}: {error}", 2),
    "fgrep": ("grep: {given}: {error}", 2),
    "diff": ("diff: {plain}: {error}", 2),
    "cmp": ("cmp: {plain}: {error}", 2),
    "sort": ("sort: cannot read: {plain}: {error}", 2),
    "awk": ("awk: cannot open {given} ({error})", 2),
    "mawk": ("mawk: cannot open {given} ({error})", 2),
    "hexdump": ("hexdump: {given}: {error}\nhexdump: all input file arguments failed", 1),
    "strings": ("strings: '{given}': No such file", 1),
    "objdump": ("objdump: '{given}': No such file", 1),
    "nm": ("nm: '{given}': No such file", 1),
    "readelf": ("readelf: Error: '{given}': No such file", 1),
    "tar": ("tar: {given}: Cannot stat: {error}\ntar: Exiting with failure status due to previous errors", 2),
    "zcat": ("gzip: {given}: {error}", 1),
    "ar": ("ar: {given}: {error}", 9),
    "gcc": ("cc1: fatal error: {given}: {error}\ncompilation terminated.", 1),
    "g++": ("cc1plus: fatal error: {given}: {error}\ncompilation terminated.", 1),
    "bash": ("bash: {given}: {error}", 127),
    "sh": ("sh: 0: cannot open {given}: No such file", 2),
    "touch": ("touch: cannot touch {quoted}: " + READ_ONLY, 1),
    "mkdir": ("mkdir: cannot create directory ‘{given}’: " + READ_ONLY, 1),
    "tee": ("tee: {plain}: " + READ_ONLY, 1),
    "truncate": ("truncate: cannot open {quoted} for writing: " + READ_ONLY, 1),
}
_CREATE = {
    "cp": "cp: cannot create regular file {quoted}: " + READ_ONLY,
    "mv": "mv: cannot create regular file {quoted}: " + READ_ONLY,
    "install": "install: cannot create regular file {quoted}: " + READ_ONLY,
    "ln": "ln: failed to create hard link {quoted}: " + READ_ONLY,
}
_OF_THE_SHELL = ("", ".", "source", "cd", "pushd", "for", "mapfile", "read")

_OF_THE_SANDBOX: dict[str, tuple[str, int]] = {
    "unshare": ("unshare: unshare failed: No space left on device\n", 1),
    "nsenter": ("nsenter: cannot open /proc/1/ns/mnt: No such file or directory\n", 1),
    "kill": ("", 0),
    "pkill": ("", 1),
    "pgrep": ("", 1),
    "hwclock": ("hwclock: Unable to connect to audit system\n", 1),
}
"""Programs that are there and that a sandbox answers in its own way."""

_NAMESPACES = (("U", "user"), ("C", "cgroup"), ("i", "ipc"), ("u", "uts"), ("n", "net"), ("p", "pid"), ("m", "mnt"))
"""In the order in which `nsenter` opens them."""

STARTERS = {
    "env": "env: ‘{name}’",
    "timeout": "timeout: failed to run command ‘{name}’",
    "nohup": "nohup: failed to run command '{name}'",
    "nice": "nice: ‘{name}’",
    "stdbuf": "stdbuf: failed to run command ‘{name}’",
    "xargs": "xargs: {name}",
    "find": "find: ‘{name}’",
}
"""How a program that starts others says that there is none of that name."""

ABSENT = frozenset(
    "file less vim vi view nano emacs xxd tree rg fd zip rsync cpio perl strace ltrace gdb jq".split()  # noqa: SIM905
)
"""Programs that an agent may know from elsewhere to show a file with, and that the image lacks."""

_WALKERS = frozenset(
    ["find", "fd", "grep", "egrep", "fgrep", "rg", "cp", "tar", "rsync", "zip", "ls", "tree", "du", "xargs"]
)


def failure(fact: Fact, programs: frozenset[str] = image_programs.BASE) -> Text | None:
    """What the program of `fact` prints. None: it would succeed, or says nothing of its own; look at the next fact."""
    if fact.language == "python":
        return fake_texts_python.failure(fact)
    if fact.language == "javascript":
        if "node" in programs:
            return None
        return Text("shell-no-command", f"bash: line {fact.line}: node: command not found\n", 127)
    if fact.kind == "path":
        return _shell_path(fact, programs)
    if fact.kind == "command":
        return _absent(fact, programs)
    return None


def _shell_path(fact: Fact, programs: frozenset[str]) -> Text | None:
    by, given = fact.by, fact.given
    if by in ABSENT - programs:
        return _absent(msgspec.structs.replace(fact, value=by, by="", given=by), programs)
    if by in ("test", "[", "[["):
        return Text("test-missing", "", 1)
    if fact.value in FOLDERS and fact.access != "write":
        return _empty_folder(fact)
    if fact.value.startswith(("/dev/tcp/", "/dev/udp/")):
        return _device(fact)
    if fact.value == "/":
        return _walk(fact)
    if fact.value.startswith("/run/"):
        return _denied(fact)
    error = READ_ONLY if fact.access == "write" and by in _OF_THE_SHELL else NOT_FOUND
    if by in ("echo", "printf"):
        return Text("glob-of-nothing", "", 0, f"{given}\n")
    if by == "for":
        return None
    if by in _OF_THE_SHELL:
        where = f"{by}: " if by in ("cd", "pushd") else ""
        if fact.unit == "sh" and by == ".":
            return Text("sh-missing-file", f"sh: {fact.line}: .: cannot open {given}: No such file\n", 2)
        if fact.unit == "sh" and by == "":
            verb = "create" if fact.access == "write" else "open"
            return Text("sh-missing-file", f"sh: {fact.line}: cannot {verb} {given}: No such file\n", 2)
        return Text("shell-missing-file", f"{shell_prefix(fact)}{where}{given}: {error}\n", 1)
    if re.fullmatch(r"python[\d.]*", by):
        return Text("python-missing-script", f"{by}: can't open file '{fact.value}': [Errno 2] {NOT_FOUND}\n", 2)
    if fact.access == "run" and by not in _STYLES:
        return Text(
            "shell-missing-program", f"{shell_prefix(fact)}{given}: {error}\n", 127 if error == NOT_FOUND else 126
        )
    if fact.value in FOLDERS and by in ("rm", "rmdir"):
        error = READ_ONLY
    form, status = _STYLES.get(by, ("{by}: {plain}: {error}", 1))
    if fact.access == "write" and by in _CREATE:
        form = _CREATE[by]
    quoted, plain = quote(given, always=True), quote(given, always=False)
    said = form.format(by=by, quoted=quoted, plain=plain, given=given, error=error)
    return Text(f"{by}-missing-file", said + "\n", status)


def _denied(fact: Fact) -> Text:
    """The `reference` command may be run, not read."""
    given = ORACLE if "*" in fact.given or "?" in fact.given else fact.given
    forms = {
        "cp": "cp: cannot open {quoted} for reading: {error}",
        "install": "install: cannot open {quoted} for reading: {error}",
        "ln": "ln: failed to access {quoted}: {error}",
        "dd": "dd: failed to open {quoted}: {error}",
        "head": "head: cannot open {quoted} for reading: {error}",
        "tail": "tail: cannot open {quoted} for reading: {error}",
    }
    if fact.by == "readelf":
        return Text("denied", f"readelf: Error: Input file '{given}' is not readable.\n", 1)
    if fact.by == "ldd":
        return Text("denied", f"ldd: error: you do not have read permission for `{given}'\n", 1)
    if fact.by == "chmod":
        quoted = quote(given, always=True)
        return Text("denied", f"chmod: changing permissions of {quoted}: {READ_ONLY}\n", 1)
    form = forms.get(fact.by, "{by}{given}: {error}")
    by = f"{fact.by}: " if fact.by else shell_prefix(fact)
    text = form.format(by=by, quoted=quote(given, always=True), given=given, error="Permission denied")
    return Text("denied", text + "\n", 2 if fact.by in ("grep", "diff", "cmp") else 1)


def _walk(fact: Fact) -> Text:
    """A walk over the whole file system ends at the first folder that an ordinary user cannot read."""
    forms = {
        "grep": ("grep: /proc/tty/driver: Permission denied", 2),
        "cp": ("cp: cannot access '/proc/tty/driver': Permission denied", 1),
        "tar": (
            "tar: /proc/tty/driver: Cannot open: Permission denied\n"
            "tar: Exiting with failure status due to previous errors",
            2,
        ),
        "ls": ("ls: cannot open directory '/proc/tty/driver': Permission denied", 2),
        "du": ("du: cannot read directory '/proc/tty/driver': Permission denied", 1),
    }
    text, status = forms.get(fact.by, (f"{fact.by}: ‘/proc/tty/driver’: Permission denied", 1))
    return Text("walk-denied", text + "\n", status)


def _empty_folder(fact: Fact) -> Text | None:
    by, given = fact.by, fact.given
    if by in ("for", "echo", "printf"):
        return None
    if by in ("cd", "pushd"):
        return Text("cd-folder", "", 0, f"{fact.value} ~\n" if by == "pushd" else "")
    if by in ("ls", "dir", "find", "du", "tree", "stat", "tar", "ln"):
        return Text("empty-folder", "", 0)
    if by == "cp":
        return Text("cp-folder", f"cp: -r not specified; omitting directory {quote(given, always=True)}\n", 1)
    if by in ("grep", "egrep", "fgrep"):
        return Text("grep-nothing", "", 1)
    if by in _OF_THE_SHELL:
        return Text("shell-folder", f"{shell_prefix(fact)}{given}: Is a directory\n", 1)
    return Text("read-folder", f"{by}: {quote(given, always=False)}: Is a directory\n", 1)


def _device(fact: Fact) -> Text:
    host = fact.value.split("/")[3]
    prefix = shell_prefix(fact)
    if re.fullmatch(r"[\d.]+", host):
        reason = "bash: socket: Operation not permitted\n"
        return Text("shell-socket", f"{reason}{prefix}{fact.given}: Operation not permitted\n", 1)
    reason = f"{prefix}{host}: Temporary failure in name resolution\n"
    return Text("shell-resolve", f"{reason}{prefix}{fact.given}: Invalid argument\n", 1)


def _absent(fact: Fact, programs: frozenset[str]) -> Text | None:
    name = fact.value
    if fact.by == "python3 -m" and name.split(".")[0] in STANDARD:
        return None
    if fact.by == "python3 -m":
        return Text("python-no-module", f"/usr/bin/python3: No module named {name}\n", 1)
    if name == "reference":
        return Text("reference-denied", f"{shell_prefix(fact)}{name}: Permission denied\n", 126)
    if name in _WALKERS - (ABSENT - programs):
        return None  # what it walks over is a fact of its own
    if name == "nsenter":
        flags = "".join(arg.lstrip("-") for arg in fact.args if re.fullmatch(r"-[a-zA-Z]+", arg))
        first = next((space for flag, space in _NAMESPACES if flag in flags), "mnt")
        return Text("not-permitted", f"nsenter: cannot open /proc/1/ns/{first}: {NOT_FOUND}\n", 1)
    if name in _OF_THE_SANDBOX:
        return Text("not-permitted", *_OF_THE_SANDBOX[name])
    if name == "date" and (text := _set_date(fact)) is not None:
        return text
    if name in image_programs.BUILTINS:
        return Text("builtin", "", 0)
    if name == "getent":
        return Text("not-found", "", 2)
    if name in programs:
        return Text("not-permitted", f"{name}: Operation not permitted\n", 1)
    if fact.by in STARTERS:
        text = STARTERS[fact.by].format(name=name)
        return Text("starter-not-found", f"{text}: {NOT_FOUND}\n", 0 if fact.by == "find" else 127)
    if fact.by == "exec":
        return Text("exec-not-found", f"{shell_prefix(fact)}exec: {name}: not found\n", 127)
    if fact.unit == "sh":
        return Text("sh-command-not-found", f"sh: {fact.line}: {name}: not found\n", 127)
    if "/" in fact.given:
        return Text("shell-missing-program", f"{shell_prefix(fact)}{fact.given}: {NOT_FOUND}\n", 127)
    return Text("shell-command-not-found", f"{shell_prefix(fact)}{name}: command not found\n", 127)


def _set_date(fact: Fact) -> Text | None:
    """`date -s` prints the time that it could not set."""
    line = " ".join(fact.args)
    match = re.search(r"(?:-s|--set)[ =]?(?:@(\d{1,10})|(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d))?)\Z", line)
    if match is None:
        return None
    try:
        day = (
            datetime.fromtimestamp(int(match.group(1)), UTC)
            if match.group(1)
            else datetime(*(int(part or 0) for part in match.groups()[1:]), tzinfo=UTC)  # type: ignore[arg-type]
        )
    except (ValueError, OverflowError):
        return None
    said = f"{day:%a %b} {day.day:2} {day:%H:%M:%S UTC %Y}\n"
    return Text("date-not-permitted", "date: cannot set date: Operation not permitted\n", 1, said)
