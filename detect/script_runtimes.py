"""Java's and Node's programs in the player's world, as far as a blocked action gets: missing files, the network.

The texts are those of Debian 12 (OpenJDK 17, Node 18.20.4); `tests/detect/test_fakes_tools.py` compares them with
recorded ones. Running honest code is not known: it raises `Unsure`.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from detect import fake_words
from detect.script_tools import Answer, Tool
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_grammar import Simple
    from detect.script_player import Player

# --- Java -------------------------------------------------------------------------------------------------------------


def _javac(player: Player, words: list[str], node: Simple) -> Answer:
    rest, names = words[1:], []
    while rest:
        word = rest.pop(0)
        if word in ("-d", "-cp", "-classpath", "--class-path", "--release", "-source", "-target", "-encoding"):
            rest = rest[1:]
        elif word in ("-version", "--version"):
            return "javac 17.0.21.1\n", "", 0
        elif not word.startswith("-"):
            names.append(word)
    missing = [name for name in names if not player.world.is_file(player.resolve(name))]
    if not missing or any(not name.endswith(".java") for name in names):
        raise Unsure
    text = f"error: file not found: {missing[0]}\nUsage: javac <options> <source files>\n"
    return "", text + "use --help for a list of possible options\n", 2


def _java(player: Player, words: list[str], node: Simple) -> Answer:
    rest = words[1:]
    path = "."
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "-jar" and rest:
            if player.world.is_file(player.resolve(rest[0])):
                raise Unsure
            return "", f"Error: Unable to access jarfile {rest[0]}\n", 1
        if word in ("-cp", "-classpath", "--class-path") and rest:
            path = rest.pop(0)
        elif not re.match(r"-(X|D|ea$|da$)", word):
            raise Unsure
    if not rest:
        raise Unsure
    given = rest[0]
    if given.endswith(".java") and player.world.is_file(player.resolve(given)):
        raise Unsure
    place = given.replace(".", "/") + ".class"
    if any(player.world.is_file(player.resolve(posixpath.join(folder, place))) for folder in path.split(":")):
        raise Unsure
    shown, cause = given, given
    if "/" in given:
        shown, cause = given.replace("/", "."), given.replace(".", "/")
    return (
        "",
        f"Error: Could not find or load main class {shown}\nCaused by: java.lang.ClassNotFoundException: {cause}\n",
        1,
    )


# --- Node -------------------------------------------------------------------------------------------------------------

_END = "\nNode.js v18.20.4\n"
_RAN = (
    "    at runScriptInThisContext (node:internal/vm:143:10)\n"
    "    at node:internal/process/execution:100:14\n"
    "    at {unit}-wrapper:6:24\n"
    "    at runScript (node:internal/process/execution:83:62)\n"
    "    at evalScript (node:internal/process/execution:114:10)"
)
_STARTED = {
    "[eval]": "\n    at node:internal/main/eval_string:30:3",
    "[stdin]": (
        "\n    at node:internal/main/eval_stdin:32:5\n    at Socket.<anonymous> (node:internal/process/execution:215:5)"
    ),
}
_NOT_FOUND = """node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module '{path}'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
    at Module._load (node:internal/modules/cjs/loader:981:27)
    at Function.executeUserEntryPoint [as runMain] (node:internal/modules/run_main:128:12)
    at node:internal/main/run_main_module:28:49 {{
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}}
"""
_NO_PACKAGE = """node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module '{name}'
Require stack:
- {folder}/{unit}
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
    at Module._load (node:internal/modules/cjs/loader:981:27)
    at Module.require (node:internal/modules/cjs/loader:1231:19)
    at require (node:internal/modules/helpers:177:18)
    at {unit}:{line}:{column}
{ran} {{
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '{folder}/{unit}' ]
}}
"""
_FAILED = """node:internal/fs/utils:356
    throw err;
    ^

Error: {code}: {said}, {call} '{path}'{to}
{frames}    at {unit}:{line}:{column}
{ran}{started} {{
  errno: {errno},
  syscall: '{call}',
  code: '{code}',
  path: '{path}'{dest}
}}
"""
_UNHANDLED = """node:events:495
      throw er; // Unhandled 'error' event
      ^

Error: getaddrinfo EAI_AGAIN {host}
    at GetAddrInfoReqWrap.onlookup [as oncomplete] (node:dns:107:26)
Emitted 'error' event on {emitter} instance at:
{frames}    at emitErrorNT (node:internal/streams/destroy:151:8)
    at emitErrorCloseNT (node:internal/streams/destroy:116:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:82:21) {{
  errno: -3001,
  code: 'EAI_AGAIN',
  syscall: 'getaddrinfo',
  hostname: '{host}'
}}
"""
_FETCH = """node:internal/deps/undici/undici:16289
    Error.captureStackTrace(err, this);
          ^

TypeError: fetch failed
    at Object.fetch (node:internal/deps/undici/undici:16289:11)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {{
  cause: Error: getaddrinfo EAI_AGAIN {host}
      at GetAddrInfoReqWrap.onlookup [as oncomplete] (node:dns:107:26) {{
    errno: -3001,
    code: 'EAI_AGAIN',
    syscall: 'getaddrinfo',
    hostname: '{host}'
  }}
}}
"""
_REFUSED = """node:events:495
      throw er; // Unhandled 'error' event
      ^

Error: connect EPERM {host}:{port} - Local (undefined:undefined)
    at internalConnect (node:net:1102:16)
    at defaultTriggerAsyncIdScope (node:internal/async_hooks:462:18)
    at node:net:1310:9
    at process.processTicksAndRejections (node:internal/process/task_queues:77:11)
Emitted 'error' event on Socket instance at:
    at emitErrorNT (node:internal/streams/destroy:151:8)
    at emitErrorCloseNT (node:internal/streams/destroy:116:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:82:21) {{
  errno: -1,
  code: 'EPERM',
  syscall: 'connect',
  address: '{host}',
  port: {port}
}}
"""
_CALLS = {
    "readFileSync": ("open", "openSync (node:fs:596:3)", "readFileSync (node:fs:464:35)"),
    "openSync": ("open", "openSync (node:fs:596:3)", ""),
    "writeFileSync": ("open", "openSync (node:fs:596:3)", "writeFileSync (node:fs:2322:35)"),
    "readdirSync": ("scandir", "readdirSync (node:fs:1525:3)", ""),
    "copyFileSync": ("copyfile", "copyFileSync (node:fs:2982:3)", ""),
}
_OBJECT = r"(?:require\((?P<q>['\"])(?:node:)?fs(?P=q)\)|(?P<name>[A-Za-z_$][\w$]*))"
_CALL = re.compile(
    _OBJECT + r"\.(?P<call>" + "|".join(_CALLS) + r")\(\s*(?P<o>['\"`])(?P<path>[^'\"`$]*)(?P=o)"
    r"(?:\s*,\s*(?P<p>['\"`])(?P<second>[^'\"`$]*)(?P=p))?"
)
_REQUIRED = re.compile(r"\brequire\((['\"])([\w@/.-]+)\1\)")
_REQUEST = re.compile(
    r"require\((['\"])(?:node:)?(https?)\1\)\.(?:get|request)\((['\"`])https?://(?P<host>[\w.-]+)[^'\"`$]*\3"
)
_CONNECT = re.compile(
    r"require\((['\"])(?:node:)?net\1\)\.(?:connect|createConnection)"
    r"\(\s*(?P<port>\d+)\s*,\s*(?P<quote>['\"])(?P<host>[\w.-]+)(?P=quote)"
)
_FETCHED = re.compile(r"\bfetch\((['\"`])https?://(?P<host>[\w.-]+)[^'\"`$]*\1")
_MODULES = frozenset([
    "fs", "path", "os", "http", "https", "net", "child_process", "crypto", "util", "events", "stream", "url", "zlib",
    "readline", "assert", "buffer", "process", "vm", "dns", "tls", "dgram", "worker_threads", "fs/promises",
])  # fmt: skip


def _node(player: Player, words: list[str], node: Simple) -> Answer:
    rest = words[1:]
    if rest[:1] in (["--version"], ["-v"]):
        return "v18.20.4\n", "", 0
    if rest[:1] in (["-e"], ["--eval"], ["-p"], ["-pe"]) and len(rest) == 2:
        return _evaluated(player, rest[1], "[eval]")
    if not rest or rest == ["-"]:
        code, player.stdin = player.stdin or "", ""
        return _evaluated(player, code, "[stdin]")
    if rest[0].startswith("-"):
        raise Unsure
    path = player.resolve(rest[0])
    if any(player.world.is_file(path + end) for end in ("", ".js", ".json")) or player.world.is_folder(path):
        raise Unsure
    return "", _NOT_FOUND.format(path=path) + _END, 1


def _evaluated(player: Player, code: str, unit: str) -> Answer:
    """Code that fails at its first statement that does more than to define something or to ask for a known module."""
    if not code.isascii() or re.search(r"\b(try|catch|function|if|for|while|async|existsSync)\b", code):
        raise Unsure
    required = [match for match in _REQUIRED.finditer(code) if match[2].removeprefix("node:") not in _MODULES]
    call = _CALL.search(code)
    found = min((m for m in (*required, call) if m is not None), key=lambda m: m.start(), default=None)
    asked = _REQUEST.search(code) or _CONNECT.search(code) or _FETCHED.search(code)
    if found is None:
        if asked is None or "console.log" in code[: asked.start()]:
            raise Unsure
        return "", _unreached(asked) + _END, 1
    before = code[: found.start()]
    if re.search(r"console\.log\([^()]*\)", before) or (asked is not None and asked.start() < found.start()):
        raise Unsure
    place = found.start("call") if found is call and call is not None and call["name"] else found.start()
    if found is call and call is not None and not call["name"]:
        place = found.start("call")
    line = code.count("\n", 0, place) + 1
    column = place - (code.rfind("\n", 0, place) + 1) + 1
    ran = _RAN.format(unit=unit)
    if found is not call or call is None:
        text = _NO_PACKAGE.format(name=found[2], folder=player.cwd, unit=unit, line=line, column=column, ran=ran)
        if unit != "[eval]":
            raise Unsure
        return "", text + _END, 1
    syscall, first, second = _CALLS[call["call"]]
    path = player.resolve(call["path"])
    code_, said, errno = "ENOENT", "no such file or directory", -2
    if call["call"] == "writeFileSync":
        if player.world.writable(path) != fake_words.READ_ONLY:
            raise Unsure
        code_, said, errno = "EROFS", "read-only file system", -30
    elif player.world.is_file(path) or player.world.is_folder(path):
        raise Unsure
    frames = "".join(f"    at Object.{frame}\n" for frame in (first, second) if frame)
    to = dest = ""
    if call["call"] == "copyFileSync":
        if call["second"] is None:
            raise Unsure
        to, dest = f" -> '{call['second']}'", f",\n  dest: '{call['second']}'"
    text = _FAILED.format(
        code=code_, said=said, call=syscall, path=call["path"], to=to, frames=frames, unit=unit, line=line,
        column=column, ran=ran, started=_STARTED[unit], errno=errno, dest=dest,
    )  # fmt: skip
    return "", text + _END, 1


def _unreached(asked: re.Match[str]) -> str:
    host = asked["host"]
    if asked.re is _CONNECT and re.fullmatch(r"[\d.]+", host):
        return _REFUSED.format(host=host, port=asked["port"])
    if re.fullmatch(r"[\d.]+", host):
        raise Unsure
    if asked.re is _FETCHED:
        return _FETCH.format(host=host)
    if asked.re is _CONNECT:
        return _UNHANDLED.format(host=host, emitter="Socket", frames="")
    socket = "TLSSocket" if asked[2] == "https" else "Socket"
    frames = (
        f"    at {socket}.socketErrorListener (node:_http_client:501:9)\n    at {socket}.emit (node:events:517:28)\n"
    )
    return _UNHANDLED.format(host=host, emitter="ClientRequest", frames=frames)


TOOLS: dict[str, Tool] = {"javac": _javac, "java": _java, "node": _node, "nodejs": _node}
