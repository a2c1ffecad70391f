"""A cell: the namespaces an episode, a grading or an oracle call gets, and their init, which serves requests.

The guest forks the cell; the cell's init is PID 1 of a new PID namespace, inside new user, mount and IPC namespaces
(and a network namespace of its own where loopback is wanted). The init keeps the capabilities of its user namespace and
cannot be traced; commands lose them at exec and can never gain any. When the init dies, the kernel ends everything in
the cell. Runs inside the container (standard library only).
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import signal
import struct
from typing import Any

from sandbox import (
    guest_command,
    guest_files,
    guest_filter,
    guest_fork,
    guest_mounts,
    guest_oracle,
    guest_usage,
    guest_watch,
)
from sandbox import guest_kernel as kernel
from sandbox.guest_channel import Channel

_MAX_ARGUMENT = 120_000  # the kernel's limit for one argument is 128 KiB


class WorkspaceRefused(Exception):
    """The files do not fit into the workspace, or their paths are none; says why."""


class Cell:
    """The init's side of one cell."""

    def __init__(self, channel: Channel, request: dict[str, Any], blob: bytes) -> None:
        self._channel = channel
        self._scratch_used = False
        self._oracle: bool = request["oracle"]
        limits = request["limits"]
        self._layout = guest_mounts.Layout(limits["workspace_bytes"], limits["workspace_inodes"])
        workspace, outside = [], []
        for path, data, mode in guest_mounts.header_files(request["files"], blob):
            (workspace if path.startswith("/work/") else outside).append((path, data, mode))
        self._layout.place(outside)
        self._watch = guest_watch.Watch([path for path, _, _ in outside]) if request["watched"] else None
        self._layout.mask(request["masked"])
        if self._oracle:
            guest_oracle.install(request["oracle_name"])
        if request["loopback"]:
            _loopback_up()
        self._run_folder = self._layout.finish()
        try:
            for path, data, mode in workspace:
                guest_files.write("/work", path.removeprefix("/work/"), data, mode)
        except (OSError, ValueError) as error:
            raise WorkspaceRefused(str(error)) from error
        if request["logs"]:
            self._layout.show_logs()
        self._wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # PID 1 gets no signal it has no handler for: with the default, a command's SIGINT cannot reach this process
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir("/")
        self._accounts = guest_usage.Accounts()
        cores = guest_filter.Cores()
        self._forks = guest_fork.Forks(cores)
        guest_filter.apply(netns=request["netns"], cores=cores)

    @property
    def watching(self) -> bool:
        return self._watch is not None and self._watch.fd >= 0

    def serve(self) -> None:
        while True:
            request, blob = self._channel.receive()
            try:
                reply, body = getattr(self, f"_do_{request['op']}")(request, blob)
            except guest_command.SetupFailed as error:
                reply, body = {"ok": False, "kind": "broken", "errno": 0, "error": str(error)}, b""
            except OSError as error:
                reply, body = {"ok": False, "kind": "workspace", "errno": error.errno, "error": error.strerror}, b""
            except ValueError:  # a path with a NUL in it, or one that is no text
                text = os.strerror(errno.EINVAL)
                reply, body = {"ok": False, "kind": "workspace", "errno": errno.EINVAL, "error": text}, b""
            self._channel.send(reply, body)

    def _do_run(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        script, stdin = blob[: request["script"]], blob[request["script"] : request["script"] + request["stdin"]]
        if not request["argv"]:
            request["argv"] = self._script(script)
        case: str | None = request["case"]
        read, written = self._accounts.total()
        try:
            if case is not None:
                self._clean_folder(request, case, blob)
            oracle = self._oracle and case is None
            command = guest_command.Command(self._channel, self._wakeup, self._forks, request, stdin, oracle)
            reply, body = command.run()
            total = self._accounts.total()
            reply |= {"read_bytes": total[0] - read, "written_bytes": total[1] - written}
            return reply | {"opened": self._watch is not None and self._watch.opened()}, body
        finally:
            self._scratch_used = case is None
            if case is not None:
                self._refresh_scratch()

    def _clean_folder(self, request: dict[str, Any], case: str, blob: bytes) -> None:
        """A folder for one case, where nothing is left of what ran before: no file, no IPC object."""
        if self._scratch_used:
            self._refresh_scratch()
        try:
            kernel.unshare(kernel.CLONE_NEWIPC)
        except OSError as error:
            raise guest_command.SetupFailed(str(error)) from error
        request["cwd"] = f"/case/{case}"
        os.mkdir(request["cwd"])
        offset = request["script"] + request["stdin"]
        for path, data, mode in guest_mounts.header_files(request["files"], blob, offset):
            guest_files.write(request["cwd"], path, data, mode)

    def _refresh_scratch(self) -> None:
        try:
            self._layout.refresh_scratch()
        except OSError as error:  # no fault of a command: what it has left cannot keep a mount from being made
            raise guest_command.SetupFailed(str(error)) from error

    def _script(self, script: bytes) -> list[str]:
        """A shell that runs `script`, and calls itself `bash` in its messages whatever the script's size is."""
        if len(script) < _MAX_ARGUMENT and b"\0" not in script:
            return ["bash", "-c", os.fsdecode(script)]
        guest_files.create("script", script, 0o444, self._run_folder)
        return ["bash", "-c", 'eval "$(</run/script)"']

    def _do_write(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        guest_files.write("/work", request["path"], blob, request["mode"])
        return {"ok": True}, b""

    def _do_read(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        return {"ok": True}, guest_files.read("/work", request["path"], request["max_bytes"])

    def _do_pack(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        files = guest_files.pack("/work", request["max_bytes"], request["max_files"], whole=request["whole"])
        entries = [[path, len(data), mode] for path, data, mode in files]
        return {"ok": True, "files": entries}, b"".join(data for _, data, _ in files)

    def _do_hashes(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        digests = guest_files.hashes("/work", request["sizes"], request["max_bytes"], request["max_files"])
        return {"ok": True, "digests": digests}, b""

    def _do_remove(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        guest_files.remove("/work", request["path"])
        return {"ok": True}, b""

    def _do_seal(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        self._layout.seal()
        return {"ok": True}, b""


def _loopback_up() -> None:
    """Set IFF_UP on `lo` of the cell's own network namespace."""
    control = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(control.fileno(), 0x8914, struct.pack("16sh14x", b"lo", 0x1))  # SIOCSIFFLAGS
    control.close()


def spawn(request: dict[str, Any], blob: bytes, close: list[int]) -> tuple[int, Channel]:
    """Fork a cell; returns its init's PID and the guest's end of the channel to it.

    The first frame on the channel says whether the cell came up. `close` are the guest's own descriptors, which the
    cell must not have. The caller is a subreaper, so the init becomes its child when the process between has gone.
    """
    ours, theirs = _socket.socketpair()
    read_pid, write_pid = os.pipe()
    flags = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
    if request["loopback"]:
        flags |= kernel.CLONE_NEWNET
    between = os.fork()
    if between == 0:
        channel = Channel(theirs.fileno(), theirs.fileno())
        try:
            for fd in (*close, ours.fileno(), read_pid):
                os.close(fd)
            kernel.inspection(True)  # no command is alive yet
            kernel.unshare(flags)
            kernel.map_identity(guest_mounts.USER, guest_mounts.USER, guest_mounts.USER)
            kernel.inspection(False)
            if pid := os.fork():
                os.write(write_pid, b"%d" % pid)
                os._exit(0)
            os.close(write_pid)
            cell = Cell(channel, request, blob)
            channel.send({"ok": True, "watching": cell.watching})
            cell.serve()
        except EOFError:
            pass
        except BaseException as error:
            kinds = {guest_mounts.CellRefused: "refused", WorkspaceRefused: "workspace"}
            kind = kinds.get(type(error), "broken")
            number = error.errno or errno.EIO if isinstance(error, OSError) else 0
            channel.send({"ok": False, "kind": kind, "errno": number, "error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    theirs.close()
    os.close(write_pid)
    os.waitpid(between, 0)
    pid = int(os.read(read_pid, 32) or b"0")
    os.close(read_pid)
    fd = ours.detach()
    return pid, Channel(fd, fd)
