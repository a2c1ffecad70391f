"""What the shell reader knows about programs by name: which list, write, copy, only mention, or start others."""

from __future__ import annotations

import re

RESERVED = frozenset(
    ["if", "then", "elif", "else", "fi", "do", "done", "while", "until", "time", "!", "{", "}", "coproc"]
)
BRANCHES = {"if": 1, "fi": -1, "for": 1, "while": 1, "until": 1, "select": 1, "done": -1, "case": 1}
"""Words that open or close what may not run; `esac` closes a `case`."""
SHELLS = frozenset(["sh", "bash", "dash", "ash", "zsh", "ksh", "rbash"])
PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?(\+?)=(.*)\Z", re.S)
EMBEDDED_PATH = re.compile(r"(?:^|[=:<>@\"'(,\s])((?:\.\.?)?/[^\s\"'<>(),;:|&]+)")
SED_FILE = re.compile(r"(?:^|[;{}\d$/\s])[rRwW]\s*(/[^\s;}]+)")

LISTING = frozenset(
    [
        "ls",
        "dir",
        "vdir",
        "find",
        "tree",
        "du",
        "stat",
        "test",
        "[",
        "[[",
        "cd",
        "pushd",
        "file",
        "which",
        "readlink",
        "realpath",
        "locate",
        "fd",
    ]
)
WRITING = frozenset(
    [
        "rm",
        "rmdir",
        "unlink",
        "touch",
        "mkdir",
        "chmod",
        "chown",
        "truncate",
        "tee",
        "shred",
        "chattr",
        "mkfifo",
        "mknod",
    ]
)
COPYING = frozenset(["cp", "mv", "install", "ln", "rsync", "scp"])
MENTIONING = frozenset(
    [
        "echo",
        "printf",
        ":",
        "true",
        "false",
        "logger",
        "which",
        "command",
        "type",
        "git",
        "export",
        "alias",
        "kill",
        "basename",
        "dirname",
    ]
)
OPTIONS_WITH_VALUE = {
    "env": ("-u", "-C", "-S", "--unset", "--chdir"),
    "nice": ("-n", "--adjustment"),
    "timeout": ("-s", "-k", "--signal", "--kill-after"),
    "stdbuf": ("-i", "-o", "-e"),
    "sudo": ("-u", "-g"),
    "xargs": ("-I", "-n", "-L", "-P", "-d", "-a", "-s", "-E"),
    "exec": ("-a",),
    "ionice": ("-c", "-n"),
    "strace": ("-e", "-o", "-p", "-s"),
    "chroot": (),
}
WRAPPERS = frozenset(
    [
        "env",
        "nice",
        "timeout",
        "stdbuf",
        "sudo",
        "exec",
        "ionice",
        "nohup",
        "setsid",
        "time",
        "command",
        "builtin",
        "strace",
        "ltrace",
        "chroot",
        "unshare",
        "doas",
    ]
)
