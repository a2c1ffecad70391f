"""The guest as it is sent into a container: a command line to start it, and what that reads first of its input.

The guest's modules go twice: as this interpreter's bytecode, which an interpreter of the same version in the image runs
as it is (compiling costs more than starting the interpreter), and as text for any other.
"""

from __future__ import annotations

import importlib.util
import marshal
from functools import cache
from pathlib import Path

_MODULES = (
    "light", "channel", "kernel", "files", "mounts", "watch", "oracle", "filter", "fork", "watchdog", "usage", "disk",
    "command", "cell",
)  # fmt: skip
_PROGRAM = """\
import os, sys, marshal
from _frozen_importlib_external import MAGIC_NUMBER
def take(size):
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit(1)
        data += chunk
    return data
def load(magic, code_bytes, text_bytes):
    code, text = take(int(code_bytes)), take(int(text_bytes))
    if MAGIC_NUMBER.hex() == magic:
        modules = marshal.loads(code)
    else:
        words = iter(text.decode().split("\\0"))
        modules = [(name, compile(source, f"<{name}>", "exec")) for name, source in zip(words, words)]
    package = sys.modules["sandbox"] = type(sys)("sandbox")
    for name, body in modules:
        module = sys.modules[f"sandbox.{name}"] = type(sys)(f"sandbox.{name}")
        exec(body, module.__dict__)
        setattr(package, name, module)
    package.guest_light.remove()
    return module.main
load(*sys.argv[1:])()
"""


@cache
def guest_modules() -> dict[str, str]:
    """Source of the guest's modules by name, in the order in which they import each other."""
    folder = Path(__file__).parent
    names = [*(f"guest_{module}" for module in _MODULES), "guest"]
    return {name: (folder / f"{name}.py").read_text("utf-8") for name in names}


def pack(modules: dict[str, str]) -> tuple[list[str], bytes]:
    """The command line that starts these modules in a container, and the first bytes of its standard input."""
    code = marshal.dumps([(name, compile(text, f"<{name}>", "exec")) for name, text in modules.items()])
    text = "\0".join(word for pair in modules.items() for word in pair).encode()
    numbers = [importlib.util.MAGIC_NUMBER.hex(), str(len(code)), str(len(text))]
    return ["/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c", _PROGRAM, *numbers], code + text


@cache
def guest() -> tuple[list[str], bytes]:
    return pack(guest_modules())
