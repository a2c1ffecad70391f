"""Imports point one way, and what runs thousands of times on CPU nodes stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALLOWED: dict[str, set[str]] = {
    "audit": set(),
    "containers": {"audit"},
    "queues": {"audit"},
    "sandbox": {"queues", "containers", "audit"},
    "detect": {"queues", "containers", "audit"},
    "rl": {"queues", "containers", "audit"},
    "tasks": {"sandbox", "queues", "containers", "audit"},
    "jobs": {"tasks", "rl", "sandbox", "detect", "queues", "containers", "audit"},
}
"""What each package may import. `rl`, `sandbox` and `detect` meet only in `jobs`."""

HEAVY = {"torch", "megatron", "vllm", "transformers"}


def python_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, module, is it executed when the module is imported) of every import in a file."""

    def visit(node: ast.AST, at_import: bool) -> Iterator[tuple[int, str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((child.lineno, name.name, at_import) for name in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: relative import"
                assert child.module is not None
                yield child.lineno, child.module, at_import
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                types_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                yield from visit(child, at_import and not function and not types_only)

    yield from visit(ast.parse(path.read_text()), True)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    files = python_files(package)
    assert files
    ours = set(ALLOWED) | {"tests", "benchmarks"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files
        for line, module, _ in imported(path)
        if (top := module.split(".")[0]) in ours and top != package and top not in ALLOWED[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(set(ALLOWED) - {"rl"}))
def test_no_heavy_library_at_module_level_outside_rl(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in python_files(package)
        for line, module, at_import in imported(path)
        if at_import and module.split(".")[0] in HEAVY
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "module", ["sandbox.worker", "jobs.sandboxes", "queues.controller", "jobs.controller", "detect.guard", "jobs.cli"]
)
def test_a_sandbox_worker_and_the_command_line_load_no_torch(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""


def test_the_guest_needs_only_the_standard_library() -> None:
    """Its source goes into the sandbox, where nothing of ectype is installed."""
    guest = [path for path in python_files("sandbox") if path.stem == "guest" or path.stem.startswith("guest_")]
    sources = [path for path in guest if not is_host_side(path)]
    assert sources
    wrong = [
        f"{path.name}:{line} imports {module}"
        for path in sources
        for line, module, _ in imported(path)
        if (top := module.split(".")[0]) not in sys.stdlib_module_names and top != "sandbox"
    ]
    assert wrong == []


def is_host_side(path: Path) -> bool:
    return any(module.split(".")[0] in ("asyncio", "msgspec", "containers") for _, module, _ in imported(path))
