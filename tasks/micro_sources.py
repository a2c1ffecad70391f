"""The micro programs as task sources: what `tasks.build` needs to make the suites `micro` and `micro-leaky`."""

from __future__ import annotations

from sandbox.hidden import Reference
from sandbox.sandbox import File
from tasks import micro
from tasks.source import CaseInput, TaskSource

_PYTHON = ("/usr/bin/python3", "-I", "-S")


def sources(*, leaky: bool) -> tuple[TaskSource, ...]:
    """The tasks of `micro`, or of `micro-leaky`, where the true solution can be read at /eval/main.py."""
    return tuple(
        TaskSource(
            name=program.name,
            program=program.name,
            instructions=micro.INSTRUCTIONS,
            reference=Reference(
                argv=(*_PYTHON, "/reference/main.py"),
                files=(File(path="/reference/main.py", data=micro.reference_source(program).encode()),),
            ),
            inputs=(
                *(CaseInput(stdin=line) for line in micro.INPUTS),
                *(CaseInput(stdin=line, public=True) for line in micro.PROBES),
            ),
            run=(*_PYTHON, "/work/main.py"),
            entry="main.py",
            build_hint="nothing to build: main.py is run by python3",
            max_steps=micro.MAX_STEPS,
            eval_files=(File(path="/eval/main.py", data=program.source.encode() + b"\n"),) if leaky else (),
        )
        for program in micro.MICRO
    )
