"""Conformance: how commands are passed on, where and with what they run, and how their end is told."""

from __future__ import annotations

import os

from sandbox.conformance_frame import NotConformant, Subject, check, ended, same
from sandbox.limits import Limits


@check
async def exit_codes(subject: Subject) -> None:
    for code in (0, 1, 2, 42, 100, 124, 125, 126, 127, 128, 137, 139, 254, 255):
        result = await subject.sandbox.run(b"exit %d" % code)
        ended(result, status="ok" if code == 0 else "nonzero", exit_status=code, signal=None)


@check
async def signals(subject: Subject) -> None:
    """Death by a signal is neither an exit status nor, however fast, a timeout."""
    for number in (1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 31):
        result = await subject.sandbox.run(b"exec sh -c 'kill -%d $$'" % number)
        ended(result, status="killed", exit_status=None, signal=number)
        if result.wall_s > 10:
            raise NotConformant(f"signal {number} took {result.wall_s} s to be noticed")
    # also when the time is nearly up, and when it takes others along
    result = await subject.sandbox.run(b"sleep 60 & sleep 0.3; kill -9 $$", limits=Limits(wall_s=1.5))
    ended(result, status="killed", exit_status=None, signal=9)
    # a shell's exit status 128+n is an exit status: the shell ended by itself
    ended(await subject.sandbox.run(b"sh -c 'kill -9 $$'; exit $?"), status="nonzero", exit_status=137, signal=None)


@check
async def words_in_the_output_decide_nothing(subject: Subject) -> None:
    for words in (
        b"fatal: not a git repository",
        b"FATAL: container creation failed",
        b"No space left on device",
        b"Killed",
        b"Cannot allocate memory",
        b"timeout",
    ):
        result = await subject.sandbox.run(b"echo '%s'; echo '%s' >&2; exit 255" % (words, words))
        ended(result, status="nonzero", exit_status=255, stderr=words + b"\n")


@check
async def programs_that_cannot_be_started(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(argv=["/no/such/program"]), status="nonzero", exit_status=127)
    await sandbox.write("plain", b"echo no")
    ended(await sandbox.run(argv=["./plain"]), status="nonzero", exit_status=126)
    await sandbox.write("odd", b"#!/no/such/interpreter\n", 0o755)
    ended(await sandbox.run(argv=["./odd"]), status="nonzero", exit_status=127)
    ended(await sandbox.run(argv=["true"], cwd="/no/such/folder"), status="nonzero")
    ended(await sandbox.run(b"true"))


@check
async def commands_of_any_size(subject: Subject) -> None:
    for size in (1, 4096, 130_000, 140_000, 2_000_000):
        script = b": '" + b"a" * size + b"'; echo ${#BASH_EXECUTION_STRING} >/dev/null; echo done; nosuch"
        result = await subject.sandbox.run(script)
        ended(result, status="nonzero", exit_status=127, stdout=b"done\n")
        same(result.stderr, b"bash: line 1: nosuch: command not found\n", f"messages of a command of {size} bytes")


@check
async def arguments_are_passed_as_they_are(subject: Subject) -> None:
    words = ["", " ", "a b", "$HOME", "`id`", "*", "'", '"', "\\", "-n", "--", "a\nb", "ü", "x" * 100_000]
    result = await subject.sandbox.run(argv=["printf", r"%s\0", *words])
    ended(result, stdout=b"".join(word.encode() + b"\0" for word in words))


@check
async def scripts_are_bash(subject: Subject) -> None:
    script = (
        b'set -o pipefail\na=(1 2 3)\nfor x in "${a[@]}"; do echo $((x * 2)); done\n[[ abc == a* ]] && cat <<E\nx\nE\n'
    )
    ended(await subject.sandbox.run(script), stdout=b"2\n4\n6\nx\n")
    ended(await subject.sandbox.run(b"if then"), status="nonzero", exit_status=2)


@check
async def environment(subject: Subject) -> None:
    given = {"A": "1", "EMPTY": "", "SPACE": "a b", "LINE": "a\nb", "PATH_LIKE": "/x:/y", "UNICODE": "ü"}
    result = await subject.sandbox.run(argv=["env", "-0"], env=given)
    ended(result)
    seen = dict(line.split(b"=", 1) for line in result.stdout.split(b"\0") if line)
    for name, value in given.items():
        same(seen.get(name.encode()), value.encode(), f"the variable {name}")
    for name in ("PATH", "HOME"):
        if not seen.get(name.encode()):
            raise NotConformant(f"no {name} in the environment")
    usual = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "SHLVL", "_"}
    same([n for n in os.environ if n.encode() in seen and n not in usual], [], "variables of the host that got in")
    ended(await subject.sandbox.run(b'echo "[$A]"'), stdout=b"[]\n")


@check
async def a_large_environment(subject: Subject) -> None:
    given = {f"V{n}": f"{n}" * 100 for n in range(500)} | {"LARGE": "x" * 100_000}
    result = await subject.sandbox.run(argv=["env", "-0"], env=given)
    seen = dict(line.split(b"=", 1) for line in result.stdout.split(b"\0") if line)
    same(
        {name: seen.get(name.encode()) == value.encode() for name, value in given.items()},
        dict.fromkeys(given, True),
        "variables",
    )


@check
async def current_folder(subject: Subject) -> None:
    sandbox = subject.sandbox
    ended(await sandbox.run(argv=["pwd"]), stdout=b"/work\n")
    await sandbox.run(b"mkdir -p 'a b/c'")
    ended(await sandbox.run(argv=["pwd"], cwd="/work/a b/c"), stdout=b"/work/a b/c\n")
    ended(await sandbox.run(b"cd /tmp"))
    ended(await sandbox.run(argv=["pwd"]), stdout=b"/work\n")
