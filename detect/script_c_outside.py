"""What a C program that is run by hand has outside of itself: streams, files of the workspace, programs it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detect.script_c_values import Pointer, Stream, literal
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_player import Player

MAX_OUT = 65536


class Outside:
    def __init__(self, player: Player) -> None:
        self.player = player
        self.out, self.buffer, self.err = "", "", ""
        self.errno = 0
        self.stdin = Stream("<stdin>", player.stdin or "")
        self.stdout, self.stderr = Stream("<stdout>"), Stream("<stderr>")

    def write(self, text: str, stream: Stream | None = None) -> None:
        if stream is None or stream is self.stdout:
            self.buffer += text
        elif stream is self.stderr:
            self.err += text
        elif stream.file is not None:
            stream.file.write(text)
        else:
            raise Unsure
        if len(self.buffer) >= 4096 or len(self.out) + len(self.err) > MAX_OUT:
            raise Unsure  # where it is cut off is not followed

    def flush(self) -> None:
        self.out, self.buffer = self.out + self.buffer, ""

    def opened(self, path: str, mode: str) -> Stream | None:
        world, where = self.player.world, self.player.resolve(path)
        if mode[:1] == "r":
            if world.is_file(where) and where != "/run/bin/reference":
                return Stream(path, world.files[where].text)
            self.errno = 13 if where == "/run/bin/reference" else 2
            if world.is_folder(where):
                raise Unsure
            return None
        if mode[:1] not in ("w", "a"):
            raise Unsure
        if reason := world.writable(where):
            self.errno = {"No such file or directory": 2, "Read-only file system": 30}.get(reason, 0)
            return None if self.errno else self._unsure()
        return Stream(path, "", world.create(where, append=mode[:1] == "a"))

    def _unsure(self) -> None:
        raise Unsure

    def system(self, line: str) -> int:
        out, err, status = self.player.child(line, unit="sh", dialect="dash")
        self.out, self.err = self.out + out, self.err + err
        return status

    def piped(self, line: str) -> Stream:
        out, err, status = self.player.child(line, unit="sh", dialect="dash")
        self.err += err
        stream = Stream(line, out)
        stream.status = status
        return stream

    def text(self, text: str) -> Pointer:
        return literal(text)
