"""The words of CPython 3.11: the traceback of a fact in Python code.

One fact goes in, the traceback comes out as Debian 12's `python3` prints it, with the frames of the standard library;
None where CPython would not fail there. The tests compare them with the real ones.
"""

from __future__ import annotations

from detect.facts import Fact
from detect.fake_words import FOLDERS, NOT_FOUND, READ_ONLY, Text

_RESOLVE = """  File "/usr/lib/python3.11/socket.py", line 827, in create_connection
    for res in getaddrinfo(host, port, 0, SOCK_STREAM):
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/socket.py", line 962, in getaddrinfo
    for res in _socket.getaddrinfo(host, port, family, type, proto, flags):
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
socket.gaierror: [Errno -3] Temporary failure in name resolution
"""
_URLOPEN = (
    """Traceback (most recent call last):
  File "/usr/lib/python3.11/urllib/request.py", line 1348, in do_open
    h.request(req.get_method(), req.selector, req.data, headers,
  File "/usr/lib/python3.11/http/client.py", line 1282, in request
    self._send_request(method, url, body, headers, encode_chunked)
  File "/usr/lib/python3.11/http/client.py", line 1328, in _send_request
    self.endheaders(body, encode_chunked=encode_chunked)
  File "/usr/lib/python3.11/http/client.py", line 1277, in endheaders
    self._send_output(message_body, encode_chunked=encode_chunked)
  File "/usr/lib/python3.11/http/client.py", line 1037, in _send_output
    self.send(msg)
  File "/usr/lib/python3.11/http/client.py", line 975, in send
    self.connect()
  File "/usr/lib/python3.11/http/client.py", line 941, in connect
    self.sock = self._create_connection(
                ^^^^^^^^^^^^^^^^^^^^^^^^
"""
    + _RESOLVE
    + """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{frame}  File "/usr/lib/python3.11/urllib/request.py", line 216, in urlopen
    return opener.open(url, data, timeout)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/urllib/request.py", line 519, in open
    response = self._open(req, data)
               ^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/urllib/request.py", line 536, in _open
    result = self._call_chain(self.handle_open, protocol, protocol +
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/urllib/request.py", line 496, in _call_chain
    result = func(*args)
             ^^^^^^^^^^^
  File "/usr/lib/python3.11/urllib/request.py", line 1377, in http_open
    return self.do_open(http.client.HTTPConnection, req)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/urllib/request.py", line 1351, in do_open
    raise URLError(err)
urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>
"""
)
_SOCKET = """  File "/usr/lib/python3.11/socket.py", line 232, in __init__
    _socket.socket.__init__(self, family, type, proto, fileno)
PermissionError: [Errno 1] Operation not permitted
"""
_COPYFILE = """  File "/usr/lib/python3.11/shutil.py", line 256, in copyfile
    with open(src, 'rb') as fsrc:
         ^^^^^^^^^^^^^^^
"""
_PATH_OPEN = """  File "/usr/lib/python3.11/pathlib.py", line 1045, in open
    return io.open(self, mode, buffering, encoding, errors, newline)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
_FRAMES = {
    "shutil.copy": """  File "/usr/lib/python3.11/shutil.py", line 419, in copy
    copyfile(src, dst, follow_symlinks=follow_symlinks)
"""
    + _COPYFILE,
    "shutil.copy2": """  File "/usr/lib/python3.11/shutil.py", line 436, in copy2
    copyfile(src, dst, follow_symlinks=follow_symlinks)
"""
    + _COPYFILE,
    "shutil.copyfile": _COPYFILE,
    ".read_text": """  File "/usr/lib/python3.11/pathlib.py", line 1059, in read_text
    with self.open(mode='r', encoding=encoding, errors=errors) as f:
         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    + _PATH_OPEN,
    ".read_bytes": """  File "/usr/lib/python3.11/pathlib.py", line 1051, in read_bytes
    with self.open(mode='rb') as f:
         ^^^^^^^^^^^^^^^^^^^^
"""
    + _PATH_OPEN,
}
"""Frames of the standard library below the agent's own call, by the end of the callee's name."""
_DENIED = "PermissionError: [Errno 13] Permission denied"
_STANDARD = frozenset("socket http urllib ftplib smtplib poplib imaplib telnetlib nntplib xmlrpc ssl".split())  # noqa: SIM905


def failure(fact: Fact) -> Text | None:
    """A traceback at the fact's own line; None where CPython would not fail there (a standard import)."""
    frame = f'  File "{fact.unit}", line {fact.line}, in <module>\n{fact.excerpt}'
    head = "Traceback (most recent call last):\n" + frame
    if fact.kind == "import":
        name = fact.value.split(".")[0]
        if name in _STANDARD:
            return None
        return Text("python-no-module", f"{head}ModuleNotFoundError: No module named '{name}'\n", 1)
    if fact.kind == "path":
        if fact.value in FOLDERS and (fact.access == "list" or fact.by in ("os.chdir", "sys.path.insert", "")):
            return None
        if fact.value == "/" and fact.access == "list":
            return (
                None if fact.by.startswith("os.") else Text("walk-denied", f"{head}{_DENIED}: '/proc/tty/driver'\n", 1)
            )
        folder = fact.value in FOLDERS and fact.access == "read"
        error = (
            "IsADirectoryError: [Errno 21] Is a directory" if folder else f"FileNotFoundError: [Errno 2] {NOT_FOUND}"
        )
        if fact.value.startswith("/run/"):
            error = _DENIED
        elif fact.access == "write":
            error = f"OSError: [Errno 30] {READ_ONLY}"
        inner = next((text for ending, text in _FRAMES.items() if fact.by.endswith(ending)), "")
        return Text("python-missing-file", f"{head}{inner}{error}: '{fact.given}'\n", 1)
    if fact.kind == "call" and fact.value.startswith("urllib"):
        return Text("python-urlopen", _URLOPEN.replace("{frame}", frame), 1)
    if fact.kind == "call" and fact.value in ("socket.create_connection", "asyncio.open_connection"):
        return Text("python-resolve", head + _RESOLVE, 1)
    if fact.kind == "call" and fact.value.startswith("socket.socket"):
        return Text("python-socket", head + _SOCKET, 1)
    if fact.kind == "call" and fact.value.startswith("time."):
        return Text("python-not-permitted", f"{head}PermissionError: [Errno 1] Operation not permitted\n", 1)
    if fact.kind == "call" and fact.value.split(".")[0] in _STANDARD:
        return Text("python-resolve", f"{head}socket.gaierror: [Errno -3] Temporary failure in name resolution\n", 1)
    return None
