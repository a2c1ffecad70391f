"""What Python programs that are run by hand start: `subprocess`, `os.system`, `os.popen`; and copies of `shutil`."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from detect.script_plain import Done, Module, Opened
from detect.script_values import Inner, Native
from detect.script_world import File, Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions
    from detect.script_player import Player

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


class CalledProcessError(Exception):
    pass


class Processes:
    """The part of a program's surroundings that starts others, in the player's world."""

    player: Player
    out: str
    err: str

    def repr(self, value: object, depth: int = 0) -> str:
        raise NotImplementedError

    def opened(self, given: str, mode: str = "r") -> Opened:
        raise NotImplementedError

    def _path(self, value: object) -> str:
        raise NotImplementedError

    def _asking(self) -> Expressions:
        raise NotImplementedError

    def _popen(self, line: str) -> Opened:
        out, err, status = self.player.child(line, unit="sh", dialect="dash")
        self.err += err
        opened = Opened(line, File(out), "r")
        opened.status = status << 8 or None
        return opened

    def _system(self, line: str) -> int:
        out, err, status = self.player.child(line, unit="sh", dialect="dash")
        self.out, self.err = self.out + out, self.err + err
        return status << 8

    def _copied(self, name: str) -> Callable:
        def call(_: Expressions, arguments: list, keywords: dict) -> object:
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
        def call(_: Expressions, arguments: list, keywords: dict) -> object:
            known = {"shell", "capture_output", "text", "check", "stdout", "stderr", "universal_newlines"}
            keywords.pop("timeout", None)
            if len(arguments) != 1 or set(keywords) - known:
                raise Unsure
            if name == "Popen":
                return self._begun(arguments[0], keywords)
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
            form = decoded if keywords.get("text") or keywords.get("universal_newlines") else encoded
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

    def _begun(self, given: object, keywords: dict) -> object:
        """`Popen`: the program has run when it is asked for what it said."""
        kept = {key: keywords.get(key) for key in ("stdout", "stderr")}
        asked = {key: value for key, value in keywords.items() if key not in ("stdout", "stderr")}
        done = self._subprocess("run")(self._asking(), [given], asked | {k: v for k, v in kept.items() if v})
        if not isinstance(done, Done):
            raise Unsure
        made = Module("subprocess.Popen", {})
        waited = Native(lambda _, a, k: done.members["returncode"])
        heard = (done.members["stdout"], done.members["stderr"])
        made.members = {
            "communicate": Native(lambda _, a, k: heard), "wait": waited, "poll": waited,
            "returncode": done.members["returncode"],
        }  # fmt: skip
        return made

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


def decoded(text: str) -> str:
    if not text.isascii():
        raise Unsure
    return text


def encoded(text: str) -> bytes:
    return text.encode("latin-1")
