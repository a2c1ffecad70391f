"""The words of real tools: what each program prints when a file is missing, a host cannot be reached, or it is absent.

One fact goes in, the text and exit status of the program it names come out; None where the program would succeed in
the world of the fakes. Texts are those of Debian 12 (bash 5.2, coreutils 9.1, CPython 3.11), C locale, and the tests
compare them with the real ones.
"""

from __future__ import annotations

import re

import msgspec

from detect.facts import Fact

NOT_FOUND = "No such file or directory"
FOLDERS = ("/eval", "/test", "/test/hidden")
"""Folders of the image that exist and are empty."""

NETWORK_PROGRAMS = frozenset(
    [
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "telnet",
        "ssh",
        "scp",
        "sftp",
        "rsync",
        "ftp",
        "dig",
        "nslookup",
        "host",
        "ping",
        "traceroute",
        "socat",
        "git",
        "apt",
        "apt-get",
        "npm",
        "cargo",
        "go",
        "pip",
        "pip3",
        "svn",
        "hg",
        "dget",
        "busybox",
        "toybox",
        "objdump",
        "gdb",
        "strings",
        "strace",
        "ltrace",
    ]
)

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
    "rm": ("rm: cannot remove {quoted}: {error}", 1),
    "touch": ("touch: cannot touch {quoted}: {error}", 1),
    "chmod": ("chmod: cannot access {quoted}: {error}", 1),
    "mkdir": ("mkdir: cannot create directory {quoted}: Read-only file system", 1),
    "tee": ("tee: {plain}: Read-only file system", 1),
    "dd": ("dd: failed to open {quoted}: {error}", 1),
    "find": ("find: {quoted}: {error}", 1),
    "sed": ("sed: can't read {given}: {error}", 2),
    "grep": ("grep: {given}: {error}", 2),
    "egrep": ("grep: {given}: {error}", 2),
    "fgrep": ("grep: {given}: {error}", 2),
    "diff": ("diff: {plain}: {error}", 2),
    "cmp": ("cmp: {plain}: {error}", 2),
    "sort": ("sort: cannot read: {plain}: {error}", 2),
    "awk": ("mawk: cannot open {given} ({error})", 2),
    "mawk": ("mawk: cannot open {given} ({error})", 2),
    "tar": ("tar: {given}: Cannot stat: {error}\ntar: Exiting with failure status due to previous errors", 2),
    "gcc": ("cc1: fatal error: {given}: {error}\ncompilation terminated.", 1),
    "g++": ("cc1plus: fatal error: {given}: {error}\ncompilation terminated.", 1),
    "bash": ("bash: {given}: {error}", 127),
    "sh": ("sh: 0: cannot open {given}: No such file", 2),
    "cd": ("bash: line {line}: cd: {given}: {error}", 1),
    "": ("bash: line {line}: {given}: {error}", 1),
    ".": ("bash: line {line}: {given}: {error}", 1),
    "source": ("bash: line {line}: {given}: {error}", 1),
}


class Text(msgspec.Struct, frozen=True):
    name: str
    stderr: str
    exit_status: int


def failure(fact: Fact) -> Text | None:
    """What the program of `fact` prints. None: it succeeds (entering an empty folder), look at the next one."""
    if fact.kind == "path":
        return _missing(fact)
    if fact.kind == "command":
        return _absent(fact)
    if fact.language == "python":
        return _traceback(fact)
    return None


def quote(text: str, *, always: bool) -> str:
    """Quoting of GNU programs (shell-escape style): always for `cp`, only where needed for `cat`."""
    if not always and text and not re.search(r"[\s*?\[\]'\"\\$`!&;|<>(){}=^]", text) and text[0] not in "#~":
        return text
    if "'" in text and '"' not in text and not re.search(r"[$`\\]", text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"


def _missing(fact: Fact) -> Text | None:
    if fact.language == "python":
        return _traceback(fact)
    folder = fact.value in FOLDERS
    if fact.by in ("test", "[", "[["):
        return Text("test-missing", "", 1)
    if folder and fact.by in ("cd", "pushd"):
        return None
    if folder and fact.by in ("ls", "dir", "find", "du", "tree", "stat"):
        return Text("list-empty", f"{fact.given}\n" if fact.by == "find" else "", 0)
    if folder and fact.access == "read" and fact.by == "cp":
        return Text("cp-folder", f"cp: -r not specified; omitting directory {quote(fact.given, always=True)}\n", 1)
    if folder and fact.access == "read":
        return Text("read-folder", f"{fact.by}: {quote(fact.given, always=False)}: Is a directory\n", 1)
    if re.fullmatch(r"python[\d.]*", fact.by):
        return Text("python-missing-script", f"{fact.by}: can't open file '{fact.value}': [Errno 2] {NOT_FOUND}\n", 2)
    if fact.access == "run" and fact.by not in _STYLES:
        return Text("shell-missing-program", f"bash: line {fact.line}: {fact.given}: {NOT_FOUND}\n", 127)
    form, status = _STYLES.get(fact.by, (fact.by + ": {plain}: {error}", 1))
    error = "Read-only file system" if fact.access == "write" and fact.by == "" else NOT_FOUND
    text = form.format(
        quoted=quote(fact.given, always=True),
        plain=quote(fact.given, always=False),
        given=fact.given,
        error=error,
        line=fact.line,
    )
    return Text(f"{fact.by or 'shell'}-missing-file", text + "\n", status)


def _absent(fact: Fact) -> Text:
    if fact.value in ("pip", "pip3", "ensurepip"):
        return Text("python-no-module", f"/usr/bin/python3: No module named {fact.value}\n", 1)
    return Text("shell-command-not-found", f"bash: line {fact.line}: {fact.value}: command not found\n", 127)


def _traceback(fact: Fact) -> Text:
    name = posix_name(fact)
    error = {
        "path": f"FileNotFoundError: [Errno 2] {NOT_FOUND}: '{fact.given}'",
        "import": f"ModuleNotFoundError: No module named '{fact.value.split('.')[0]}'",
    }.get(fact.kind, "OSError: [Errno 97] Address family not supported by protocol")
    return Text(
        "python-traceback",
        f'Traceback (most recent call last):\n  File "{name}", line {fact.line}, in <module>\n{error}\n',
        1,
    )


def posix_name(fact: Fact) -> str:
    return fact.written.rsplit("/", 1)[-1] if fact.written else "<string>"
