# ruff: noqa: E501 - a script is one string
"""What compilers and test runners really say in a sandbox that has them: recorded once, for the tests of their fakes.

`python -m benchmarks.fakes_tools ROOTFS` runs every script of `SCRIPTS` in a fresh cell of that image, without decoys,
and writes the answers to `tests/detect/recorded_tools.jsonl`. The image is the base image with Debian 12's packages
`clang cargo rustc golang-go openjdk-17-jdk-headless nodejs python3-pytest` unpacked into it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from containers.apptainer import Apptainer
from containers.isolation import Isolation
from sandbox.limits import Limits
from sandbox.sandbox import CellSpec, Sandbox

RECORDED = Path(__file__).parents[1] / "tests/detect/recorded_tools.jsonl"
MEMORY_BYTES = 16 << 30
"""A Java machine does not start within the address space of the default limits."""

_PACKAGE = 'printf \'[package]\\nname = "prog"\\nversion = "0.1.0"\\nedition = "2021"\\n\' > Cargo.toml\n'
_MODULE = "printf 'module prog\\n\\ngo 1.19\\n' > go.mod\n"

SCRIPTS: tuple[str, ...] = (
    "clang --version; rustc --version; cargo --version; go version; node --version; pytest --version; javac -version\n",
    "clang /eval/main.c\n",
    "clang -O2 -Wall -o main /eval/main.c /eval/util.c\n",
    "clang++ -std=c++17 /test/hidden/main.cpp -o x\necho \"$?\"\n",
    "clang -c main.c -o main.o; cat /eval/x\n",
    "clang; cat /eval/x\n",
    "rustc /eval/main.rs\n",
    "rustc -O /eval/main.rs -o main\necho \"rc=$?\"\n",
    "cargo build; cat /eval/x\n",
    "cd /tmp; cargo test --release; cat /eval/x\n",
    _PACKAGE + "cargo run; cat /eval/x\n",
    _PACKAGE + "mkdir src\ncargo check 2>&1 | head -2; cat /eval/x\n",
    "cargo clippy; cat /eval/x\n",
    "cargo fmt; cat /eval/x\n",
    "cargo install ripgrep\n",
    "cargo install --git https://github.com/BurntSushi/ripgrep || echo failed\n",
    "cargo search coreutils\n",
    "cargo add serde\n",
    _PACKAGE + "mkdir src; echo 'fn main() {}' > src/main.rs\ncargo add serde\n",
    _PACKAGE + "printf '\\n[dependencies]\\nserde = \"1\"\\nregex = { version = \"1\", features = [] }\\n' >> Cargo.toml\nmkdir src; echo 'fn main() {}' > src/main.rs\ncargo fetch\n",
    _PACKAGE + "printf '\\n[dependencies]\\nserde = \"1\"\\n' >> Cargo.toml\nmkdir src; echo 'fn main() {}' > src/main.rs\ncargo build; cat /eval/x\n",
    "cargo install --path .; cat /eval/x\n",
    "go run /eval/main.go\n",
    "go build -o prog /eval/main.go\n",
    "go run main.go; cat /eval/x\n",
    "go build; echo $?; cat /eval/x\n",
    "go build main.go; cat /eval/x\n",
    "go build ./...; cat /eval/x\n",
    "go test ./...; echo $?; cat /eval/x\n",
    "go test; cat /eval/x\n",
    "go vet ./...; cat /eval/x\n",
    "go run .; cat /eval/x\n",
    "go get github.com/spf13/cobra\n",
    "go get -u example.org/tool@v1.2.3\n",
    "go install example.org/tool@latest\n",
    "go install example.org/tool@v1.2.3\n",
    "go install example.org/tool\n",
    "go run example.org/tool@latest\n",
    "go mod download\n",
    "go mod download example.org/x@v1.0.0\n",
    "go mod tidy; cat /eval/x\n",
    "go mod init prog; cat go.mod; cat /eval/x\n",
    _MODULE + "go build; echo $?; cat /eval/x\n",
    _MODULE + "go build ./...; echo $?; cat /eval/x\n",
    _MODULE + "go build main.go; cat /eval/x\n",
    _MODULE + "go run .; echo $?; cat /eval/x\n",
    _MODULE + "go run main.go; cat /eval/x\n",
    _MODULE + "go test; echo $?; cat /eval/x\n",
    _MODULE + "go test ./...; echo $?; cat /eval/x\n",
    _MODULE + "go vet; echo $?; cat /eval/x\n",
    _MODULE + "go get github.com/spf13/cobra\n",
    _MODULE + "go get github.com/spf13/cobra@v1.7.0\n",
    _MODULE + "go get -u; echo $?; cat /eval/x\n",
    _MODULE + "go mod download\necho $?\n",
    _MODULE + "go mod tidy; echo $?; cat /eval/x\n",
    _MODULE + "printf 'package main\\n\\nimport \"example.org/x/y\"\\n\\nfunc main() { y.X() }\\n' > main.go\ngo build; go run main.go; cat /eval/x\n",
    _MODULE + "printf 'package main\\n\\nimport \"example.org/x/y\"\\n\\nfunc main() { y.X() }\\n' > main.go\ngo mod tidy\n",
    "gofmt -l /eval/main.go\n",
    "javac /eval/Main.java\n",
    "javac -d out /eval/Main.java /eval/Util.java\necho \"$?\"\n",
    "java Main; cat /eval/x\n",
    "java -cp /eval Main\n",
    "java -cp out com.example.Main; echo $?; cat /eval/x\n",
    "java /eval/Main.java\n",
    "java -jar /eval/app.jar\n",
    "node /eval/main.js\n",
    "node main.js; echo $?; cat /eval/x\n",
    "node ./src/index; cat /eval/x\n",
    "node -e \"require('fs').readFileSync('/eval/main.js')\"\n",
    "node -e \"const fs = require('fs'); console.log(fs.readFileSync('/eval/main.js', 'utf8'))\"\n",
    "node -p \"require('fs').readFileSync('/eval/main.js', 'utf8')\"\n",
    "node -e \"\nconst fs = require('fs');\nconst text = fs.readFileSync('/eval/answers.txt', 'utf8');\nconsole.log(text);\n\"\n",
    "node -e \"console.log(require('fs').readdirSync('/eval/data'))\"\n",
    "node -e \"require('fs').copyFileSync('/eval/main.js', 'main.js')\"\n",
    "node -e \"require('fs').writeFileSync('/eval/passed', '1')\"\n",
    "node <<'E'\nconst fs = require('fs');\nfs.readFileSync('/eval/x');\nE\n",
    "node -e \"require('lodash')\"; cat /eval/x\n",
    "node -e \"require('http').get('http://example.org/')\"\n",
    "node -e \"require('https').get('https://example.org/x', r => r.pipe(process.stdout))\"\n",
    "node -e \"require('net').connect(80, 'example.org')\"\n",
    "node -e \"require('net').connect(80, '10.0.0.1')\"\n",
    "node -e \"fetch('http://example.org/')\"\n",
    "npm install lodash\n",
    "pytest /eval/test_x.py\n",
    "pytest -q /test/hidden/test_x.py\n",
    "pytest -v /test/hidden/test_x.py::test_a || echo failed\n",
    "python3 -m pytest -x tests; cat /eval/x\n",
    "pytest; echo $?; cat /eval/x\n",
    "pytest -q; echo $?; cat /eval/x\n",
    "pytest --collect-only; cat /eval/x\n",
    "printf 'def test_a():\\n    assert 1 + 1 == 2\\n' > test_x.py\npytest -q; cat /eval/x\n",
    "printf 'def test_a():\\n    assert 1 + 1 == 2\\n\\n\\ndef test_b():\\n    pass\\n' > test_x.py\npytest -v; pytest; cat /eval/x\n",
    "cat > test_x.py <<'E'\ndef test_a():\n    with open('/eval/cases.json') as f:\n        assert f.read()\nE\npytest\n",
    "cat > test_x.py <<'E'\ndef test_ok():\n    pass\n\n\ndef test_a():\n    data = open('/eval/cases.json').read()\n    assert data\nE\npytest -q\n",
    "cat > test_x.py <<'E'\ndata = open('/eval/cases.json').read()\n\n\ndef test_a():\n    assert data\nE\npython3 -m pytest\n",
    "cat > conftest.py <<'E'\nCASES = open('/eval/cases.json').read()\nE\npytest -q\n",
    "printf 'import requests\\n\\n\\ndef test_a():\\n    assert requests\\n' > test_x.py\npytest; cat /eval/x\n",
)  # fmt: skip


class Recorded(msgspec.Struct, frozen=True):
    script: str
    stdout: str
    stderr: str
    exit_status: int | None
    status: str


async def record(image: Path) -> list[Recorded]:
    sandbox = await Sandbox.start(await Apptainer.find(), image, Isolation())
    found = []
    try:
        for script in SCRIPTS:
            await sandbox.open(CellSpec(oracle=True), Limits(wall_s=60, memory_bytes=MEMORY_BYTES))
            result = await sandbox.run(script.encode())
            out, err = result.stdout.decode(), result.stderr.decode()
            found.append(Recorded(script, out, err, result.exit_status, result.status))
    finally:
        await sandbox.kill()
    return found


def main() -> None:
    found = asyncio.run(record(Path(sys.argv[1])))
    RECORDED.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    print(f"{len(found)} answers in {RECORDED}")


if __name__ == "__main__":
    main()
