"""What the network modules of Python say in a sandbox that has none: frames of the library, and the failures.

The frames are those of Debian 12's CPython 3.11.2.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from detect.script_plain import Module
from detect.script_traceback import Raised
from detect.script_values import Inner, Native
from detect.script_world import Unsure

if TYPE_CHECKING:
    from detect.script_expressions import Expressions

_LIB = "/usr/lib/python3.11/"


def _frame(file: str, line: int, name: str, code: str, marks: str = "") -> str:
    return f'  File "{_LIB}{file}", line {line}, in {name}\n    {code}\n' + (f"    {marks}\n" if marks else "")


def _call(file: str, line: int, name: str, before: str, call: str) -> str:
    """A frame whose call is marked."""
    return _frame(file, line, name, before + call, " " * len(before) + "^" * len(call.rstrip(":")))


_ADDRESSES = _call(
    "socket.py", 962, "getaddrinfo", "for res in ", "_socket.getaddrinfo(host, port, family, type, proto, flags):"
)
_CONNECTION = (
    _call("socket.py", 827, "create_connection", "for res in ", "getaddrinfo(host, port, 0, SOCK_STREAM):") + _ADDRESSES
)
_SOCKET = _frame("socket.py", 232, "__init__", "_socket.socket.__init__(self, family, type, proto, fileno)")
_NUMERIC = (
    _frame("socket.py", 851, "create_connection", "raise exceptions[0]")
    + _call("socket.py", 833, "create_connection", "sock = ", "socket(af, socktype, proto)")
    + _SOCKET
)
_SENT = (
    _frame("http/client.py", 1282, "request", "self._send_request(method, url, body, headers, encode_chunked)")
    + _frame("http/client.py", 1328, "_send_request", "self.endheaders(body, encode_chunked=encode_chunked)")
    + _frame("http/client.py", 1277, "endheaders", "self._send_output(message_body, encode_chunked=encode_chunked)")
    + _frame("http/client.py", 1037, "_send_output", "self.send(msg)")
    + _frame("http/client.py", 975, "send", "self.connect()")
)
_SECURE = _frame("http/client.py", 1447, "connect", "super().connect()")
_CONNECT = _call("http/client.py", 941, "connect", "self.sock = ", "self._create_connection(")
_ASKED = _frame("urllib/request.py", 1348, "do_open", "h.request(req.get_method(), req.selector, req.data, headers,")
_OPENED = (
    _call("urllib/request.py", 216, "urlopen", "return ", "opener.open(url, data, timeout)")
    + _call("urllib/request.py", 519, "open", "response = ", "self._open(req, data)")
    + _call("urllib/request.py", 536, "_open", "result = ", "self._call_chain(self.handle_open, protocol, protocol +")
    + _call("urllib/request.py", 496, "_call_chain", "result = ", "func(*args)")
)
_DO_OPEN = {  # the second call goes on in the next line
    "http": _call("urllib/request.py", 1377, "http_open", "return ", "self.do_open(http.client.HTTPConnection, req)"),
    "https": _call(
        "urllib/request.py", 1391, "https_open", "return ", "self.do_open(http.client.HTTPSConnection, req,"
    ),
}
_RETRIEVED = _call("urllib/request.py", 241, "urlretrieve", "with contextlib.closing(", "urlopen(url, data)").replace(
    "urlopen(url, data)\n", "urlopen(url, data)) as fp:\n"
)


class URLError(OSError):
    def __init__(self, reason: OSError) -> None:
        self.args = (reason,)
        self.reason = reason
        self.shown = "urllib.error.URLError"

    def __str__(self) -> str:
        return f"<urlopen error {self.reason}>"


def _unresolved(host: object) -> tuple[OSError, str]:
    """What a connection to `host` fails with, and the frames below `create_connection`."""
    if not isinstance(host, str) or not host:
        raise Unsure
    if re.fullmatch(r"[\d.]+|localhost", host):
        if not re.fullmatch(r"\d+(\.\d+){3}", host):
            raise Unsure
        return PermissionError(1, "Operation not permitted"), _NUMERIC
    error = socket.gaierror(-3, "Temporary failure in name resolution")
    error.shown = "socket.gaierror"  # type: ignore[attr-defined]
    return error, _CONNECTION


def _host(url: object) -> tuple[str, str]:
    match = re.match(r"(https?)://([\w.-]+)(:\d+)?(/|\Z|\?)", url.url if isinstance(url, Request) else str(url))
    if match is None:
        raise Unsure
    return match[1], match[2]


class Request:
    def __init__(self, url: str) -> None:
        self.url = url


class Connection:
    def __init__(self, host: str, *, secure: bool) -> None:
        self.host = host
        self.secure = secure


def _urlopen(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    raise _opening(interpreter, arguments[0], _OPENED)


def _retrieve(interpreter: Expressions, arguments: list, keywords: dict) -> object:
    raise _opening(interpreter, arguments[0], _RETRIEVED + _OPENED)


def _opening(interpreter: Expressions, url: object, frames: str) -> Inner:
    scheme, host = _host(url)
    reason, below = _unresolved(host)
    shown = f"{getattr(reason, 'shown', type(reason).__name__)}: {reason}"
    inner = _ASKED + _SENT + (_SECURE if scheme == "https" else "") + _CONNECT + below
    handled = interpreter.handled[-1] if interpreter.handled else None
    context = Raised(reason, (), shown, handled)
    context.below = inner
    last = _frame("urllib/request.py", 1351, "do_open", "raise URLError(err)")
    made = Inner(URLError(reason), frames + _DO_OPEN[scheme] + last)
    made.context = context
    return made


def _connection(*, secure: bool) -> Callable:
    def make(_: Expressions, arguments: list, keywords: dict) -> Connection:
        host = arguments[0] if arguments else keywords.get("host")
        if not isinstance(host, str):
            raise Unsure
        return Connection(host.partition(":")[0], secure=secure)

    return make


def _requested(connection: Connection, *, only_connect: bool) -> Native:
    def run(_: Expressions, arguments: list, keywords: dict) -> object:
        reason, below = _unresolved(connection.host)
        sent = "" if only_connect else _SENT
        raise Inner(reason, sent + (_SECURE if connection.secure else "") + _CONNECT + below)

    return Native(run)


def _create(_: Expressions, arguments: list, keywords: dict) -> object:
    (host, _port), *_rest = arguments
    reason, below = _unresolved(host)
    raise Inner(reason, below)


def _resolve(frames: str) -> Native:
    def run(_: Expressions, arguments: list, keywords: dict) -> object:
        reason, _below = _unresolved(arguments[0])
        if isinstance(reason, PermissionError):
            raise Unsure
        raise Inner(reason, frames)

    return Native(run)


def _socket(_: Expressions, arguments: list, keywords: dict) -> object:
    if arguments and arguments[0] != 2:
        raise Unsure
    raise Inner(PermissionError(1, "Operation not permitted"), _SOCKET)


def attribute(holder: object, name: str) -> object | None:
    """Of a connection or a request; None if it is neither. Raises Unsure."""
    if isinstance(holder, Connection):
        if name not in ("request", "connect", "close"):
            raise Unsure
        return Native(lambda _, a, k: None) if name == "close" else _requested(holder, only_connect=name == "connect")
    if isinstance(holder, Request):
        if name != "add_header":
            raise Unsure
        return Native(lambda _, a, k: None)
    if isinstance(holder, URLError) and name == "reason":
        return holder.reason
    return None


def members(name: str) -> dict[str, object]:
    if name == "urllib.request":
        request = Native(lambda _, a, k: Request(a[0]))
        return {"urlopen": Native(_urlopen), "urlretrieve": Native(_retrieve), "Request": request}
    if name == "urllib.error":
        return {"URLError": URLError, "HTTPError": type("HTTPError", (URLError,), {})}
    if name == "urllib":
        return {inner: Module(f"urllib.{inner}", members(f"urllib.{inner}")) for inner in ("request", "error")}
    if name == "http.client":
        return {
            "HTTPConnection": Native(_connection(secure=False)),
            "HTTPSConnection": Native(_connection(secure=True)),
        }
    if name == "http":
        return {"client": Module("http.client", members("http.client"))}
    if name == "socket":
        return {
            "create_connection": Native(_create), "gethostbyname": _resolve(""), "getaddrinfo": _resolve(_ADDRESSES),
            "socket": Native(_socket), "gaierror": socket.gaierror, "timeout": TimeoutError, "error": OSError,
            "AF_INET": 2, "SOCK_STREAM": 1, "SOCK_DGRAM": 2, "setdefaulttimeout": Native(lambda _, a, k: None),
        }  # fmt: skip
    return {}
