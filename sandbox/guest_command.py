"""One command in the cell: started, fed, listened to, watched, and ended with everything it has started.

Runs in the cell's init (PID 1 of the cell's namespace; standard library only). Comes in: argv, environment, standard
input, limits. Goes out: how it ended, decided from facts (signals, wait status, counters, the state of the file
systems), and the output up to the limit. When `run` returns, no process but the init is alive in the cell.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import time
from typing import Any

from sandbox import guest_filter, guest_fork, guest_oracle
from sandbox.guest_channel import Channel
from sandbox.guest_disk import Disks
from sandbox.guest_watchdog import Watchdog, reaped_cpu

DEFAULT_ENVIRONMENT = {
    "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/work",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_CHUNK = 1 << 16
_SETUP_FAILED = b"\0setup"
"""No word that can be passed to exec begins like this."""
_NEARLY = 0.9
"""A process that failed after it had this much of the memory limit resident failed for want of memory."""
_BY_SIGNAL = {int(signal.SIGXCPU): "timeout", int(signal.SIGXFSZ): "disk_full"}


class SetupFailed(Exception):
    """The command could not even be prepared: the sandbox is broken, not the command."""


class Output:
    """What a command writes to one stream: the first `limit` bytes, and how many there were."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.total = 0
        self._limit = limit
        self._parts: list[bytes] = []
        os.set_blocking(fd, False)

    def take(self) -> bool:
        """Read once; False when there is nothing more to come."""
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        if self.total < self._limit:
            self._parts.append(chunk[: self._limit - self.total])
        self.total += len(chunk)
        return True

    def drain(self) -> None:
        """Read what is left in the pipe, when no writer is alive any more."""
        before = -1
        while self.total != before:
            before = self.total
            self.take()

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    @property
    def truncated(self) -> bool:
        return self.total > self._limit


def _limit(limits: dict[str, Any]) -> None:
    cpu = int(limits["cpu_s"]) + 1
    for which, soft, hard in (
        (resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"]),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"] + 1, limits["processes"] + 1),  # the init counts too
        (resource.RLIMIT_NOFILE, limits["open_files"], limits["open_files"]),
        # 1, not 0: a host whose core_pattern is a pipe ignores 0 and would be handed the agent's memory
        (resource.RLIMIT_CORE, 1, 1),
    ):
        resource.setrlimit(which, (soft, hard))


def _child(request: dict[str, Any], stdio: tuple[int, int, int], failed: int, ready: int) -> None:
    """Become the command. Never returns; what goes wrong is written to `failed`."""
    phase = _SETUP_FAILED
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; exec puts back all others
            signal.signal(number, signal.SIG_DFL)
        argv, place, program = request["argv"], request["program"] or "", -1
        phase = request["cwd"].encode("utf-8", "replace")
        os.chdir(request["cwd"])
        if place:
            phase = place.encode("utf-8", "replace")
            program = os.open(place, os.O_PATH | os.O_CLOEXEC)  # before the limit of descriptors
        phase = _SETUP_FAILED
        _limit(request["limits"])
        guest_fork.wait(ready)
        if place:
            phase = place.encode("utf-8", "replace")
            guest_filter.forbid_processes()
            os.execve(program, argv, {**DEFAULT_ENVIRONMENT, **request["env"]})
        phase = argv[0].encode("utf-8", "surrogateescape" if argv[0].isprintable() else "replace")
        _become(argv, {**DEFAULT_ENVIRONMENT, **request["env"]})
    except BaseException as error:
        # a ValueError is a word that cannot be passed to exec: with a NUL, or not text that came from bytes
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        os.write(failed, b"%d %s" % (number or 0, phase if phase != _SETUP_FAILED else phase + b" %r" % (error,)))
    os._exit(127)


def _become(argv: list[str], environment: dict[str, str]) -> None:
    """As `os.execvpe`, which imports a module at every call: a third of what a short command takes."""
    if "/" in argv[0]:
        os.execve(argv[0], argv, environment)
    error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in environment["PATH"].split(":"):
        try:
            os.execve(f"{folder or '.'}/{argv[0]}", argv, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as found:
            error = found
    raise error


def kill_everything() -> int:
    """End every process of the cell but the init, and reap it; returns peak resident bytes of the largest.

    One signal is enough: a process with a signal pending cannot fork any more.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    largest = 0
    while True:
        try:
            largest = max(largest, os.wait4(-1, 0)[2].ru_maxrss << 10)
        except ChildProcessError:
            return largest


class Command:
    """One run. `wakeup` is the read end of the pipe into which SIGCHLD writes."""

    def __init__(
        self,
        channel: Channel,
        wakeup: int,
        forks: guest_fork.Forks,
        request: dict[str, Any],
        stdin: bytes,
        oracle: bool,
    ) -> None:
        self._channel = channel
        self._wakeup = wakeup
        self._forks = forks
        self._request = request
        self._stdin = memoryview(stdin)
        self._stdin_fd = -1
        self._oracle = guest_oracle.Oracle() if oracle else None
        self._watchdog = Watchdog(request["limits"], count_starving=request["patience_s"] > 0)
        self._disks = Disks()
        self._poller = select.poll()
        self._status: int | None = None
        self._largest = 0
        """Peak resident bytes of the largest process that has ended."""
        self._peak = 0
        """Peak resident bytes, of all processes together as far as the watchdog saw them."""
        self._deadline = 0.0
        self._starved_s = 0.0
        """Seconds that `patience_s` has added to the deadline."""
        self._asked = 0.0
        self._pid = 0

    def run(self) -> tuple[dict[str, Any], bytes]:
        limits = self._request["limits"]
        cpu = reaped_cpu()
        start = time.monotonic()
        self._deadline = start + limits["wall_s"]
        failed, outputs = self._start(limits["output_bytes"])
        try:
            overrun = self._attend(outputs)
            wall = time.monotonic() - start
            self._watchdog_last_look(overrun)
            self._peak = max(self._watchdog.peak_bytes, self._largest, kill_everything())
            for output in outputs.values():
                output.drain()
            out, err = list(outputs.values())
            failure = os.read(failed, 4096) if self._status is not None else b""
        finally:
            for fd in (failed, *(output.fd for output in outputs.values())):
                os.close(fd)
            self._close_stdin()
            if self._oracle is not None:
                self._finish_oracle()
        if failure:
            number, _, phase = failure.partition(b" ")
            if phase.startswith(_SETUP_FAILED):
                raise SetupFailed(failure.decode(errors="replace"))
            code = 127 if int(number) == errno.ENOENT else 126
            reply = {"status": "nonzero", "exit": code, "signal": None}
            message = phase + b": " + os.strerror(int(number)).encode() + b"\n"
            return self._header(reply, wall, cpu, 0, len(message), b"", message), message
        reply = self._verdict(overrun, out.truncated or err.truncated)
        body = out.data + err.data
        return self._header(reply, wall, cpu, out.total, err.total, out.data, err.data), body

    def _header(
        self, reply: dict[str, Any], wall: float, cpu: float, out_total: int, err_total: int, out: bytes, err: bytes
    ) -> dict[str, Any]:
        used = reaped_cpu() - cpu
        return {
            **reply, "ok": True, "out": len(out), "err": len(err), "out_total": out_total, "err_total": err_total,
            "wall_s": wall, "cpu_s": used, "starved_s": self._starved_s, "memory_bytes": self._peak,
        }  # fmt: skip

    def _start(self, output_bytes: int) -> tuple[int, dict[int, Output]]:
        try:
            in_read, self._stdin_fd = os.pipe()
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            failed_read, failed_write = os.pipe()
            self._pid, ready = self._forks.fork(self._request["cpus"])
        except OSError as error:  # the node has no process or descriptor left; nothing of the command was alive yet
            raise SetupFailed(str(error)) from error
        if self._pid == 0:
            _child(self._request, (in_read, out_write, err_write), failed_write, ready)
        for fd in (in_read, out_write, err_write, failed_write, ready):
            os.close(fd)
        os.set_blocking(self._stdin_fd, False)
        self._feed()
        return failed_read, {fd: Output(fd, output_bytes) for fd in (out_read, err_read)}

    def _feed(self) -> None:
        try:
            while self._stdin:
                self._stdin = self._stdin[os.write(self._stdin_fd, self._stdin[: 1 << 20]) :]
        except BlockingIOError:
            self._poller.register(self._stdin_fd, select.POLLOUT)
            return
        except BrokenPipeError:
            pass
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._stdin_fd >= 0:
            with contextlib.suppress(KeyError):
                self._poller.unregister(self._stdin_fd)
            os.close(self._stdin_fd)
            self._stdin_fd = -1

    def _attend(self, outputs: dict[int, Output]) -> str:
        """Serve the command until its first process ends or a limit is passed; returns the limit's status or ""."""
        poller, oracle = self._poller, self._oracle
        for fd in (*outputs, self._wakeup):
            poller.register(fd, select.POLLIN)
        tick = 0.02
        next_look = time.monotonic() + tick
        while True:
            if oracle is not None:
                oracle.register(poller)
                if oracle.waiting:
                    poller.register(self._channel.reading, select.POLLIN)
            now = time.monotonic()
            waiting = oracle is not None and oracle.waiting
            if now >= self._deadline and not waiting and not self._give_back(now):
                return "timeout"
            wake = next_look if waiting else min(next_look, self._deadline)
            events = poller.poll(max(wake - now, 0) * 1000 + 0.5)
            if oracle is not None:
                oracle.unregister(poller)
            for fd, _ in events:
                if fd in outputs:
                    if not outputs[fd].take():
                        poller.unregister(fd)
                elif fd == self._wakeup:
                    if self._reap():
                        return ""
                elif fd == self._stdin_fd:
                    self._feed()
                elif fd == self._channel.reading:
                    poller.unregister(fd)
                    self._receive_answer()
                elif oracle is not None and (request := oracle.handle(fd)) is not None:
                    self._asked = time.monotonic()
                    self._channel.send(*request)
            if time.monotonic() >= next_look:
                self._disks.look()
                if overrun := self._watchdog.check():
                    return overrun
                tick = min(tick * 1.5, 0.1)
                next_look = time.monotonic() + tick

    def _give_back(self, now: float) -> bool:
        """Whether the deadline has moved: by the time in which the command was ready to run and had no core."""
        if self._request["patience_s"] > 0:
            self._watchdog.look_for_starving()
        starved = min(self._watchdog.starved_s, self._request["patience_s"])
        self._deadline += starved - self._starved_s
        self._starved_s = starved
        return now < self._deadline

    def _reap(self) -> bool:
        """Collect every child that has ended (orphans come here too); True when the command's first process has."""
        os.read(self._wakeup, 4096)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return self._status is not None
            if pid == 0:
                return self._status is not None
            self._largest = max(self._largest, usage.ru_maxrss << 10)
            if pid == self._pid:
                self._status = status

    def _receive_answer(self) -> None:
        header, blob = self._channel.receive()
        assert self._oracle is not None
        self._deadline += time.monotonic() - self._asked  # the oracle's time is not the agent's
        out = header["out"]
        self._oracle.answer(header["code"], blob[:out], blob[out:])

    def _finish_oracle(self) -> None:
        assert self._oracle is not None
        if self._oracle.waiting:
            self._channel.receive()  # the host answers every request: this one has come too late
        self._oracle.close()

    def _watchdog_last_look(self, overrun: str) -> None:
        """After a failure: how many there were when the first process ended, itself included."""
        if not overrun and self._status != 0:
            self._watchdog.check(ended=1)

    def _verdict(self, overrun: str, truncated: bool) -> dict[str, Any]:
        """How the command ended. `output_truncated` only if it ended well otherwise."""
        limits = self._request["limits"]
        if self._status is None or overrun:
            return {"status": overrun, "exit": None, "signal": None}
        starved = self._largest > _NEARLY * limits["memory_bytes"]
        if os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            status = _BY_SIGNAL.get(number, "out_of_memory" if starved else "killed")
            return {"status": status, "exit": None, "signal": number}
        code = os.WEXITSTATUS(self._status)
        if code == 0:
            return {"status": "output_truncated" if truncated else "ok", "exit": 0, "signal": None}
        status = "nonzero"
        if self._disks.hit():
            status = "disk_full"
        elif self._watchdog.peak_threads >= limits["processes"]:
            status = "too_many_processes"
        elif starved:
            status = "out_of_memory"
        return {"status": status, "exit": code, "signal": None}
