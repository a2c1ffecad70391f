"""The programs suite: real programs of the base image, rebuilt in any language from what they do and their `--help`.

Comes in: an image. Goes out: one `TaskSource` per program. The program itself must not exist in the agent's and the
grader's sandboxes, so each source also masks the siblings that do the same work under another name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from containers.files import inside
from sandbox.hidden import Reference, TaskError
from tasks.programs import columns, encodings, text, values
from tasks.programs.cases import Cases
from tasks.source import EXAMPLES_MARK, HELP_MARK, TaskSource


class Program(msgspec.Struct, frozen=True):
    """`siblings` are programs of the image that do the whole task when given the right option."""

    generate: Callable[[Cases], None]
    siblings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.generate.__name__


PROGRAMS: tuple[Program, ...] = (
    *(
        Program(generate)
        for module, names in (
            (text, "wc nl fold fmt pr head tail tac rev expand unexpand uniq sort tr"),
            (columns, "cut paste comm join column cmp"),
            (encodings, "od hexdump"),
            (values, "seq expr factor numfmt basename dirname tsort bc"),
        )
        for generate in (getattr(module, name) for name in names.split())
    ),
    Program(encodings.base64, ("basenc",)),
    Program(encodings.base32, ("basenc",)),
    Program(encodings.cksum, ("sum", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum")),
    Program(encodings.sum, ("cksum",)),
    Program(encodings.md5sum, ("cksum",)),
    Program(encodings.sha1sum, ("cksum",)),
    Program(encodings.b2sum, ("cksum",)),
)

MAX_STEPS = 40
ENTRY = "program"
BUILD_HINT = "build.sh, else Makefile, else main.c, main.cc, main.py or main.sh; the result is the executable program"
BUILD = b"""set -e
if [ -f build.sh ]; then bash build.sh
elif [ -f Makefile ]; then make -s
elif [ -f main.c ]; then gcc -O1 -o program main.c -lm
elif [ -f main.cc ]; then g++ -O1 -o program main.cc
elif [ -f main.py ]; then printf '#!/bin/sh\\n%s\\n' 'exec python3 -E -s "${0%/*}/main.py" "$@"' > program
elif [ -f main.sh ]; then printf '#!/bin/sh\\n%s\\n' 'exec bash "${0%/*}/main.sh" "$@"' > program
fi
if [ ! -f program ]; then echo 'there is no program' >&2; exit 1; fi
chmod +x program
"""

_INSTRUCTIONS = f"""# Rebuild `NAME`

Write a program that behaves exactly like `NAME`. For the same arguments, standard input and files in the current
folder it must print the same bytes to standard output and exit with the same status. What goes to standard error does
not matter. The locale is C.UTF-8.

- Work in `/work`. What you leave there is built in a clean copy: by `build.sh` if there is one (run by bash), else by
  `Makefile`, else from `main.c`, `main.cc`, `main.py` or `main.sh`. The result must be the executable `/work/program`.
- GCC, G++, make, Python 3 (standard library) and a shell are there. There is no network, and no `NAME`.
- `reference ARGUMENTS < input` runs the real `NAME` and shows what it prints. Files that ARGUMENTS name go along.

## What `NAME --help` prints

```
{HELP_MARK}
```

## Examples

{EXAMPLES_MARK}
"""


def sources(image: Path) -> tuple[TaskSource, ...]:
    return tuple(source(program, image) for program in PROGRAMS)


def source(program: Program, image: Path) -> TaskSource:
    place = find_program(image, program.name)
    cases = Cases(program.name)
    program.generate(cases)
    return TaskSource(
        name=program.name,
        program=program.name,
        instructions=_INSTRUCTIONS.replace("NAME", program.name),
        reference=Reference(argv=(place,)),
        inputs=cases.inputs(),
        run=(f"/work/{ENTRY}",),
        entry=ENTRY,
        build=BUILD,
        build_hint=BUILD_HINT,
        max_steps=MAX_STEPS,
        help_argv=("--help",),
        masked=(place, *(find_program(image, sibling) for sibling in program.siblings)),
    )


def find_program(image: Path, name: str) -> str:
    """Absolute path of the program inside the image; raises `TaskError`."""
    for folder in ("/usr/bin", "/bin", "/usr/local/bin"):
        path = f"{folder}/{name}"
        real = inside(image, path)
        if real is not None and os.access(image / real.lstrip("/"), os.X_OK):
            return path
    raise TaskError(
        f"task {name}: the image has no program of this name",
        where=str(image),
        remedy="add the package that has it to containers/images/base.toml, and build the image again",
    )
