"""What the Python reader knows about functions by dotted name: which start programs, run code, list, write or print."""

from __future__ import annotations

import re

ROUTES = frozenset(
    ["route", "get", "post", "put", "delete", "patch", "add_url_rule", "add_parser", "add_argument", "help"]
)
SHELL_CALLS = frozenset(
    [
        "os.system",
        "os.popen",
        "ctypes.CDLL().system",
        "ctypes.cdll.LoadLibrary().system",
        "ctypes.CDLL().popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "commands.getoutput",
        "asyncio.create_subprocess_shell",
        "pty.spawn",
    ]
)
PROGRAM_CALLS = frozenset(
    [
        "subprocess.run",
        "subprocess.Popen",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "asyncio.create_subprocess_exec",
        "pty.spawn",
    ]
)
EXEC_CALLS = frozenset(
    [
        *(
            f"os.{start}{args}"
            for start in ("exec", "spawn")
            for args in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
        ),
        *("os.posix_spawn", "os.posix_spawnp"),
    ]
)
CODE_CALLS = frozenset(["exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile"])
PRINT_CALLS = frozenset(
    [
        "print",
        "sys.stdout.write",
        "sys.stderr.write",
        "re.compile",
        "re.match",
        "re.search",
        "re.sub",
        "re.fullmatch",
        "re.findall",
        "len",
        "ord",
        "logging.info",
        "logging.debug",
        "logging.warning",
        "logging.error",
        "ValueError",
        "RuntimeError",
        "SystemExit",
        "Exception",
    ]
)
LIST_CALLS = re.compile(
    r"os\.(?:listdir|scandir|walk|stat|lstat|access|readlink|chdir|fwalk)|os\.path\.(?:exists|isfile|isdir|getsize)|"
    r"glob\.i?glob|.*\.(?:exists|is_file|is_dir|iterdir|glob|rglob|stat)"
)
WRITE_CALLS = re.compile(
    r"os\.(?:remove|unlink|rmdir|mkdir|makedirs|rename|chmod|truncate)|.*\.(?:write_text|write_bytes|unlink|mkdir|touch)"
)
PATH_METHODS = frozenset(
    [
        "read_text",
        "read_bytes",
        "open",
        "exists",
        "is_file",
        "is_dir",
        "iterdir",
        "glob",
        "rglob",
        "stat",
        "write_text",
        "write_bytes",
        "unlink",
        "mkdir",
        "touch",
    ]
)
_HELD = ("os", "sys", "io", "subprocess", "shutil", "socket", "builtins", "importlib", "ctypes", "posix", "pty")
HELD = {"bltns": "builtins", **{prefix + name: name for name in _HELD for prefix in ("", "_")}}
"""Modules as others hold them, and what they are called: `random._os` is `os`."""
STRING = re.compile(r"[rbfuRBFU]{0,2}('''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")", re.S)
IMPORT = re.compile(r"^\s*(?:import|from)\s+([\w.]+)", re.M)
