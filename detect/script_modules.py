"""What small Python programs ask of the interpreter and its standard library, in the world of a played script.

Builtins, methods of plain values, files, `sys`, `os`, `json`, `subprocess`, ... as far as they are known; whatever is
not raises `Unsure`. Nothing touches a real file or starts a program.
"""

from __future__ import annotations

import errno
import json
import math
import posixpath
import string
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from detect.script_interpreter import MAX_SIZE, Interpreter
from detect.script_plain import (
    METHODS,
    PLAIN_CALLS,
    TYPES,
    Done,
    Kind,
    Module,
    Opened,
    Path,
    Unordered,
    exit_,
    filter_,
    formatted,
    isinstance_,
    kind_of,
    least,
    map_,
    method,
    plain,
    sorted_,
    sum_,
    unsure,
)
from detect.script_python import STANDARD
from detect.script_values import (
    EXCEPTIONS,
    Class,
    Inner,
    Instance,
    Native,
)
from detect.script_world import File, Unsure

if TYPE_CHECKING:
    from detect.script_player import Player

_MATH = ("sqrt", "floor", "ceil", "gcd", "log2", "sin", "cos")
_RUN = (
    '  File "/usr/lib/python3.11/subprocess.py", line 1024, in __init__\n'
    "    self._execute_child(args, executable, preexec_fn, close_fds,\n"
    '  File "/usr/lib/python3.11/subprocess.py", line 1901, in _execute_child\n'
    "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
)
_WITH = (
    '  File "/usr/lib/python3.11/subprocess.py", line {}, in {}\n'
    "    with Popen(*popenargs, **kwargs) as {}:\n"
    "         {}\n"
)
_CHECKED = (
    '  File "/usr/lib/python3.11/subprocess.py", line 571, in run\n'
    "    raise CalledProcessError(retcode, process.args,\n"
)
_OUTPUT = (
    '  File "/usr/lib/python3.11/subprocess.py", line 466, in check_output\n'
    "    return run(*popenargs, stdout=PIPE, timeout=timeout, check=True,\n"
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
)
_COPY = {
    "copy": (419, "copyfile(src, dst, follow_symlinks=follow_symlinks)"),
    "copy2": (436, "copyfile(src, dst, follow_symlinks=follow_symlinks)"),
}
_PATH_OPEN = (
    '  File "/usr/lib/python3.11/pathlib.py", line 1045, in open\n'
    "    return io.open(self, mode, buffering, encoding, errors, newline)\n"
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
)
_PATH_CALLS = {
    "read_text": (1059, "with self.open(mode='r', encoding=encoding, errors=errors) as f:"),
    "read_bytes": (1051, "with self.open(mode='rb') as f:"),
    "write_text": (1079, "with self.open(mode='w', encoding=encoding, errors=errors, newline=newline) as f:"),
}


class CalledProcessError(Exception):
    pass


class JSONDecodeError(ValueError):
    pass


class Surroundings:
    """The interpreter's own state beyond the program: arguments, standard streams, the player whose world it is."""

    def __init__(self, player: Player, argv: Sequence[str]) -> None:
        self.player = player
        self.argv = list(argv)
        self.out = ""
        self.err = ""
        self.buffer = ""
        self.stdin = Opened("<stdin>", File(player.stdin or ""), "r")
        self.stdout = Opened("<stdout>", File(), "w")
        self.stderr = Opened("<stderr>", File(), "w")
        self._builtins = self._made_builtins()

    def flush(self) -> None:
        self.out, self.buffer = self.out + self.buffer, ""
        if len(self.out) > MAX_SIZE:
            raise Unsure

    def write(self, text: str, file: Opened | None = None) -> None:
        if file is None or file is self.stdout:
            self.buffer += text
            if len(self.buffer) >= 8192:
                raise Unsure  # where it is cut off is not followed
        elif file is self.stderr:
            self.err += text
        elif "w" in file.mode or "a" in file.mode:
            file.file.write(text)
        else:
            raise Unsure

    # --- text -------------------------------------------------------------------------------------------------------

    def text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, BaseException):
            return str(value)
        if isinstance(value, Path):
            return value.text
        if isinstance(value, Instance):
            made = value.of.find("__str__") or value.of.find("__repr__")
            if made is None and "args" in value.attributes:
                given = value.attributes["args"]
                return self.text(given[0]) if len(given) == 1 else "" if not given else self.repr(given)  # type: ignore
            raise Unsure
        return self.repr(value)

    def repr(self, value: object, depth: int = 0) -> str:
        if depth > 20:
            raise Unsure
        deeper = depth + 1
        if value is None or isinstance(value, bool | int | float | str | bytes | range):
            return repr(value)
        if isinstance(value, list):
            return "[" + ", ".join(self.repr(v, deeper) for v in value) + "]"
        if isinstance(value, tuple):
            inside = ", ".join(self.repr(v, deeper) for v in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.repr(k, deeper)}: {self.repr(v, deeper)}" for k, v in value.items()) + "}"
        if isinstance(value, set) and len(value) == 1:
            return "{" + self.repr(next(iter(value)), deeper) + "}"
        if isinstance(value, BaseException):
            return repr(value)
        raise Unsure

    # --- names ------------------------------------------------------------------------------------------------------

    def builtin(self, name: str) -> object | None:
        return self._builtins.get(name)

    def _made_builtins(self) -> dict[str, object]:
        made: dict[str, object] = {name: Native(plain(call)) for name, call in PLAIN_CALLS.items()}
        made |= {name: kind_of(kind) for name, kind in TYPES.items()}
        made |= EXCEPTIONS
        for name, call in (
            ("print", self._print), ("open", self._open), ("sorted", sorted_), ("sum", sum_), ("min", least(min)),
            ("max", least(max)), ("map", map_), ("filter", filter_), ("isinstance", isinstance_),
            ("input", self._input), ("repr", lambda _, a, k: self.repr(*a)), ("exit", exit_), ("quit", exit_),
        ):  # fmt: skip
            made[name] = Native(call)
        return made

    def module(self, name: str) -> object:
        """Raises ModuleNotFoundError, Unsure."""
        first = name.split(".")[0]
        if self.player.world.is_file(self.player.resolve(first + ".py")) or self.player.world.is_folder(
            self.player.resolve(first)
        ):
            raise Unsure
        if first not in STANDARD:
            raise ModuleNotFoundError(f"No module named '{first}'")
        return Module(name, self._members(name))

    def member(self, module: str, name: str) -> object:
        members = self._members(module)
        if name not in members:
            raise Unsure
        return members[name]

    def attribute(self, holder: object, name: str) -> object:
        if isinstance(holder, Module):
            if name in holder.members:
                return holder.members[name]
            inside = f"{holder.name}.{name}"
            if inside in ("os.path", "urllib.request"):
                return Module(inside, self._members(inside))
            raise Unsure
        if isinstance(holder, Opened):
            return self._file_attribute(holder, name)
        if isinstance(holder, Path):
            return self._path_attribute(holder, name)
        if isinstance(holder, Done) and name in holder.members:
            return holder.members[name]
        if isinstance(holder, BaseException) and name in ("args", "errno", "strerror", "filename"):
            return getattr(holder, name)
        if isinstance(holder, Kind) and name == "__name__":
            return holder.kind.__name__
        if isinstance(holder, Kind) and holder.kind is dict and name == "fromkeys":
            return Native(lambda _, a, k: dict.fromkeys(*a))
        if isinstance(holder, Class) and name == "__name__":
            return holder.name
        if isinstance(holder, Class) and (found := holder.find(name)) is not None:
            return found
        kind = type(holder)
        if kind in METHODS:
            if name == "sort" and kind is list:
                return Native(lambda i, a, k: holder.__setitem__(slice(None), sorted_(i, [list(holder), *a], k)))  # type: ignore
            if name == "format" and kind is str:
                return Native(lambda _, a, k: formatted(holder, a, k))  # type: ignore[arg-type]
            if name in METHODS[kind]:
                return Native(method(holder, name))
            if not hasattr(kind, name):
                raise Unsure
        if kind in (type({}.keys()), type({}.values()), type({}.items())):
            raise Unsure
        raise Unsure

    # --- files ------------------------------------------------------------------------------------------------------

    def is_file(self, value: object) -> bool:
        return isinstance(value, Opened)

    def is_path(self, value: object) -> bool:
        return isinstance(value, Path)

    def joined(self, left: object, right: object) -> Path:
        return Path(posixpath.join(self._path(left), self._path(right)))

    def lines(self, value: object) -> Iterator[object]:
        if not isinstance(value, Opened) or "b" in value.mode:
            raise Unsure
        text, value.rest = value.rest, ""
        return iter(text.splitlines(keepends=True))

    def _path(self, value: object) -> str:
        if isinstance(value, Path):
            return value.text
        if not isinstance(value, str):
            raise Unsure
        return value

    def opened(self, given: str, mode: str = "r") -> Opened:
        """Raises OSError, Unsure."""
        if not set(mode) <= set("rwabt") or len(set(mode) & set("rwa")) != 1:
            raise Unsure
        path, world = self.player.resolve(given), self.player.world
        if path == "/run/bin/reference" and "r" in mode:
            raise OSError(errno.EACCES, "Permission denied", given)
        if path == "/dev/null":
            return Opened(given, File(), mode)
        if path.startswith("/dev/"):
            raise Unsure
        if "r" in mode:
            if world.is_folder(path):
                raise OSError(errno.EISDIR, "Is a directory", given)
            if not world.is_file(path):
                raise OSError(errno.ENOENT, "No such file or directory", given)
            return Opened(given, world.files[path], mode)
        if reason := world.writable(path):
            raise OSError(_ERRORS[reason], reason, given)
        return Opened(given, world.create(path, append="a" in mode), mode)

    def _open(self, _: Interpreter, arguments: list, keywords: dict) -> Opened:
        if not 1 <= len(arguments) <= 2 or set(keywords) - {"encoding", "mode", "errors", "newline"}:
            raise Unsure
        mode = arguments[1] if len(arguments) == 2 else keywords.get("mode", "r")
        if not isinstance(mode, str):
            raise Unsure
        return self.opened(self._path(arguments[0]), mode)

    def _file_attribute(self, file: Opened, name: str) -> object:
        if name == "name":
            return file.name
        if name == "buffer":
            return Opened(file.name, file.file, file.mode + "b") if file is self.stdin else unsure()

        def read(_: Interpreter, arguments: list, keywords: dict) -> object:
            if "r" not in file.mode or keywords or len(arguments) > 1:
                raise Unsure
            size = arguments[0] if arguments else len(file.rest)
            if not isinstance(size, int) or size < 0:
                raise Unsure
            text, file.rest = file.rest[:size], file.rest[size:]
            return text.encode("latin-1") if "b" in file.mode else _decoded(text)

        def readline(_: Interpreter, arguments: list, keywords: dict) -> object:
            if "r" not in file.mode or "b" in file.mode or arguments:
                raise Unsure
            head, mark, file.rest = file.rest.partition("\n")
            return _decoded(head + mark)

        def readlines(_: Interpreter, arguments: list, keywords: dict) -> object:
            if arguments:
                raise Unsure
            return list(self.lines(file))

        def write(_: Interpreter, arguments: list, keywords: dict) -> object:
            (text,) = arguments
            if not isinstance(text, str) or "b" in file.mode:
                raise Unsure
            self.write(text, file)
            return len(text)

        def flush(_: Interpreter, arguments: list, keywords: dict) -> None:
            if file is self.stdout:
                self.flush()

        calls = {"read": read, "readline": readline, "readlines": readlines, "write": write, "flush": flush}
        calls["close"] = lambda _, a, k: None
        if name not in calls:
            raise Unsure
        return Native(calls[name])

    def _path_attribute(self, path: Path, name: str) -> object:
        world, where = self.player.world, self.player.resolve(path.text)
        if name in ("name", "parent", "suffix", "stem"):
            base = posixpath.basename(path.text)
            stem, suffix = posixpath.splitext(base)
            return {"name": base, "suffix": suffix, "stem": stem, "parent": Path(posixpath.dirname(path.text))}[name]
        if name in _PATH_CALLS:
            line, code = _PATH_CALLS[name]
            marks = "^" * (len(code) - len("with  as f:"))
            frames = f'  File "/usr/lib/python3.11/pathlib.py", line {line}, in {name}\n    {code}\n         {marks}\n'

            def call(_: Interpreter, arguments: list, keywords: dict) -> object:
                mode = {"read_text": "r", "read_bytes": "rb", "write_text": "w"}[name]
                try:
                    file = self.opened(path.text, mode)
                except OSError as error:
                    raise Inner(error, frames + _PATH_OPEN) from None
                if name != "write_text":
                    return file.file.text.encode("latin-1") if name == "read_bytes" else _decoded(file.file.text)
                (text,) = arguments
                self.write(text, file)
                return len(text)

            return Native(call)
        simple: dict[str, Callable[[], object]] = {
            "exists": lambda: world.is_file(where) or world.is_folder(where),
            "is_file": lambda: world.is_file(where),
            "is_dir": lambda: world.is_folder(where),
        }
        if name not in simple:
            raise Unsure
        return Native(lambda _, a, k: simple[name]())

    # --- functions --------------------------------------------------------------------------------------------------

    def _print(self, _: Interpreter, arguments: list, keywords: dict) -> None:
        if set(keywords) - {"sep", "end", "flush", "file"}:
            raise Unsure
        between, end = keywords.get("sep", " "), keywords.get("end", "\n")
        file = keywords.get("file")
        if file is not None and not isinstance(file, Opened):
            raise Unsure
        text = (" " if between is None else between).join(self.text(a) for a in arguments)
        self.write(text + ("\n" if end is None else end), file)
        if keywords.get("flush") and file in (None, self.stdout):
            self.flush()

    def _input(self, _: Interpreter, arguments: list, keywords: dict) -> str:
        if arguments:
            raise Unsure
        if not self.stdin.rest:
            raise Unsure
        head, _mark, self.stdin.rest = self.stdin.rest.partition("\n")
        return head

    def _members(self, name: str) -> dict[str, object]:
        world, resolve = self.player.world, self.player.resolve

        def on_path(call: Callable[[str], object]) -> Native:
            return Native(lambda _, a, k: call(self._path(a[0])) if len(a) == 1 and not k else unsure())

        if name == "sys":
            return {
                "argv": self.argv, "stdin": self.stdin, "stdout": self.stdout, "stderr": self.stderr,
                "exit": Native(exit_), "maxsize": 2**63 - 1, "platform": "linux", "executable": "/usr/bin/python3",
            }  # fmt: skip
        if name in ("os.path", "posixpath"):
            return {
                "join": Native(lambda _, a, k: posixpath.join(*[self._path(v) for v in a])),
                "exists": on_path(lambda p: world.is_file(resolve(p)) or world.is_folder(resolve(p))),
                "isfile": on_path(lambda p: world.is_file(resolve(p))),
                "isdir": on_path(lambda p: world.is_folder(resolve(p))),
                "basename": on_path(posixpath.basename),
                "dirname": on_path(posixpath.dirname),
                "abspath": on_path(resolve),
                "splitext": on_path(posixpath.splitext),
                "getsize": on_path(self._size),
            }
        if name == "os":
            return {
                "listdir": Native(lambda _, a, k: self._listed(*(a or ["."]))),
                "getcwd": Native(lambda _, a, k: self.player.cwd),
                "system": on_path(self._system),
                "walk": on_path(self._walked),
                "sep": "/",
                "linesep": "\n",
                "remove": on_path(self._removed),
                "makedirs": Native(self._makedirs),
            }
        if name == "unittest":
            from detect import script_unittest

            return script_unittest.members()
        if name == "json":
            return {"dumps": Native(self._dumps), "loads": on_path(_loaded), "load": Native(self._load)}
        if name == "math":
            known: dict[str, object] = {n: Native(plain(getattr(math, n))) for n in _MATH}
            return known | {"pi": math.pi, "inf": math.inf}
        if name == "string":
            return {n: getattr(string, n) for n in ("ascii_lowercase", "ascii_uppercase", "digits", "ascii_letters")}
        if name == "glob":
            return {"glob": on_path(lambda pattern: world.glob(pattern, self.player.cwd))}
        if name == "pathlib":
            return {"Path": on_path(Path)}
        if name == "shutil":
            return {n: Native(self._copied(n)) for n in ("copy", "copy2", "copyfile")}
        if name == "subprocess":
            made: dict[str, object] = {
                n: Native(self._subprocess(n)) for n in ("run", "call", "check_call", "check_output", "Popen")
            }
            return made | {"PIPE": -1, "DEVNULL": -3, "STDOUT": -2, "CalledProcessError": CalledProcessError}
        return {}

    def _size(self, path: str) -> int:
        where = self.player.resolve(path)
        if not self.player.world.is_file(where):
            if self.player.world.is_folder(where):
                raise Unsure
            error = OSError(errno.ENOENT, "No such file or directory", path)
            raise Inner(error, '  File "<frozen genericpath>", line 50, in getsize\n')
        return len(self.player.world.files[where].text)

    def _listed(self, given: object) -> list[str]:
        path = self._path(given)
        where = self.player.resolve(path)
        if not self.player.world.is_folder(where):
            raise OSError(errno.ENOENT, "No such file or directory", path)
        names = self.player.world.names(where)
        if len(names) > 1:
            return Unordered(names)
        return names

    def _walked(self, path: str) -> Iterator[tuple]:
        where = self.player.resolve(path)
        if where not in ("/eval", "/test", "/test/hidden"):
            raise Unsure
        found = [(path, ["hidden"] if where == "/test" else [], [])]
        if where == "/test":
            found.append((posixpath.join(path, "hidden"), [], []))
        return iter(found)

    def _removed(self, path: str) -> None:
        where = self.player.resolve(path)
        if not self.player.world.is_file(where):
            raise OSError(errno.ENOENT, "No such file or directory", path)
        if not where.startswith(("/work", "/tmp")):
            raise Unsure
        self.player.world.remove(where)

    def _makedirs(self, _: Interpreter, arguments: list, keywords: dict) -> None:
        path = self.player.resolve(self._path(arguments[0]))
        if self.player.world.is_folder(path) and keywords.get("exist_ok") is True:
            return
        if posixpath.dirname(path) != "/work" or self.player.world.is_folder(path) or self.player.world.writable(path):
            raise Unsure
        self.player.world.create_folder(path)

    def _system(self, line: str) -> int:
        out, err, status = self.player.child(line, unit="sh", dialect="dash")
        self.out, self.err = self.out + out, self.err + err
        return status << 8

    def _copied(self, name: str) -> Callable:
        def call(_: Interpreter, arguments: list, keywords: dict) -> object:
            if len(arguments) != 2 or keywords:
                raise Unsure
            source, target = (self._path(a) for a in arguments)
            frames = ""
            if name in _COPY:
                line, code = _COPY[name]
                frames = f'  File "/usr/lib/python3.11/shutil.py", line {line}, in {name}\n    {code}\n'
            frames += '  File "/usr/lib/python3.11/shutil.py", line {}, in copyfile\n    {}\n         {}\n'
            if name != "copyfile" and self.player.world.is_folder(self.player.resolve(target)):
                target = posixpath.join(target, posixpath.basename(source))
            try:
                read = self.opened(source, "rb")
            except OSError as error:
                raise Inner(error, frames.format(256, "with open(src, 'rb') as fsrc:", "^" * 15)) from None
            try:
                made = self.opened(target, "wb")
            except OSError as error:
                raise Inner(error, frames.format(258, "with open(dst, 'wb') as fdst:", "^" * 15)) from None
            made.file.text = read.file.text
            return target

        return call

    def _subprocess(self, name: str) -> Callable:
        def call(_: Interpreter, arguments: list, keywords: dict) -> object:
            known = {"shell", "capture_output", "text", "check", "stdout", "stderr", "universal_newlines"}
            if len(arguments) != 1 or set(keywords) - known or name == "Popen":
                raise Unsure
            given = arguments[0]
            if keywords.get("shell"):
                if not isinstance(given, str):
                    raise Unsure
                out, err, status = self.player.child(given, unit="/bin/sh", dialect="dash")
            else:
                if not isinstance(given, list) or not given or not all(isinstance(w, str) for w in given):
                    raise Unsure
                out, err, status = self._started(name, given)
            captured = bool(keywords.get("capture_output"))
            kept_out = captured or keywords.get("stdout") == -1 or name == "check_output"
            kept_err = captured or keywords.get("stderr") == -1
            if keywords.get("stderr") == -2:
                if not kept_out:
                    raise Unsure
                out, err, kept_err = out + err, "", True
            hidden_out, hidden_err = keywords.get("stdout") == -3, keywords.get("stderr") == -3
            if not kept_out and not hidden_out:
                self.out += out
            if not kept_err and not hidden_err:
                self.err += err
            form = _decoded if keywords.get("text") or keywords.get("universal_newlines") else _encoded
            if status and (keywords.get("check") or name in ("check_call", "check_output")):
                shown = given if isinstance(given, str) else self.repr(given)
                error = CalledProcessError(f"Command '{shown}' returned non-zero exit status {status}.")
                error.shown = "subprocess.CalledProcessError"  # type: ignore[attr-defined]
                frames = {"run": _CHECKED, "check_output": _OUTPUT + _CHECKED}.get(
                    name,
                    '  File "/usr/lib/python3.11/subprocess.py", line 413, in check_call\n'
                    "    raise CalledProcessError(retcode, cmd)\n",
                )
                raise Inner(error, frames)
            if name == "check_output":
                return form(out)
            if name != "run":
                return status
            heard = form(err) if kept_err and not hidden_err else None
            return Done(given, status, form(out) if kept_out else None, heard)

        return call

    def _started(self, name: str, words: list[str]) -> tuple[str, str, int]:
        from detect.script_grammar import Simple

        player = self.player
        there = player.shared.has(words[0]) if "/" not in words[0] else player.world.is_file(player.resolve(words[0]))
        if not there and words[0] != "reference":
            marks = "^" * len("Popen(*popenargs, **kwargs)")
            frames = {
                "run": _WITH.format(548, "run", "process", marks),
                "call": _WITH.format(389, "call", "p", marks),
            }.get(name)
            if frames is None:
                raise Unsure
            raise Inner(OSError(errno.ENOENT, "No such file or directory", words[0]), frames + _RUN)
        shell = player.subshell()
        shell.out, shell.err, shell.stdin, shell.functions = File(), File(), "", {}
        shell.top = False
        status = shell.finish(lambda: shell.command(words, Simple(tuple(words), (), 0, 0, 1)))
        return shell.out.text, shell.err.text, status

    def _dumps(self, _: Interpreter, arguments: list, keywords: dict) -> str:
        if len(arguments) != 1 or set(keywords) - {"indent", "sort_keys"}:
            raise Unsure
        self.repr(arguments[0])
        return json.dumps(arguments[0], **keywords)

    def _load(self, _: Interpreter, arguments: list, keywords: dict) -> object:
        (file,) = arguments
        if not isinstance(file, Opened):
            raise Unsure
        return _loaded(file.rest)


_ERRORS = {
    "No such file or directory": errno.ENOENT, "Read-only file system": errno.EROFS, "Is a directory": errno.EISDIR,
    "No space left on device": errno.ENOSPC, "Not a directory": errno.ENOTDIR,
}  # fmt: skip


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise Unsure from None


def _decoded(text: str) -> str:
    if not text.isascii():
        raise Unsure
    return text


def _encoded(text: str) -> bytes:
    return text.encode("latin-1")
