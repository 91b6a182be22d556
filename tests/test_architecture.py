"""Imports go one way, and what must stay apart stays apart."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LEVELS: dict[str, set[str]] = {
    "source": set(),
    "resources": set(),
    "diagnostics": {"source"},
    "syntax": {"source", "resources", "diagnostics"},
    "library": {"source"},
    "ir": {"source"},
    "sema": {"source", "diagnostics", "syntax", "library", "ir"},
    "importers": {"source", "diagnostics", "syntax", "ir"},
    "bounds": {"ir"},
    "verify": {"ir"},
    "simulate": {"ir", "bounds"},
    "solve": {"ir", "bounds", "simulate"},
    "lower": {"ir"},
    "export": {"ir"},
    "codegen": {"ir", "resources"},
    "view": {"ir", "simulate", "resources"},
}
"""Part of the compiler -> the parts it may import. What is not listed (driver, cli ...) may import all of them."""


def modules(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part(module: str) -> str | None:
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "acclc" and len(pieces) > 1 else None


@pytest.mark.parametrize("name", LEVELS)
def test_a_part_imports_only_what_lies_below_it(name: str) -> None:
    folder = ROOT / "acclc" / name
    files = modules(folder) if folder.is_dir() else [folder.with_suffix(".py")]
    assert files
    known = {p.stem for p in (ROOT / "acclc").iterdir() if p.is_dir() or p.suffix == ".py"}
    for path in files:
        parts = {part(m) for m in imported(path)} & known
        assert parts <= LEVELS[name] | {name}, f"{path.relative_to(ROOT)} imports {parts - LEVELS[name] - {name}}"


def test_the_runtime_imports_nothing_of_the_compiler_and_little_else() -> None:
    allowed = set(sys.stdlib_module_names) | {
        "acclc_runtime",
        "numpy",
        "msgspec",
        "cupy",
        "cupyx",
        "mpi4py",
        "pynvml",
        "torch",
        "__future__",
    }
    for path in modules(ROOT / "runtime" / "acclc_runtime"):
        tops = {m.split(".")[0] for m in imported(path)}
        assert tops <= allowed, f"{path.relative_to(ROOT)} imports {tops - allowed}"


def test_cupy_is_imported_by_few() -> None:
    users = [p.name for p in modules(ROOT / "runtime") if any(m.split(".")[0] == "cupy" for m in imported(p))]
    assert users == ["cuda.py", "cuda_memory.py", "gpu.py"]


def test_the_checkout_holds_no_copy_of_what_the_wheel_ships() -> None:
    assert not (ROOT / "acclc" / "_shipped").exists()
    assert not list((ROOT / "grammar").glob("__init__.py"))
    assert not list((ROOT / "templates").rglob("__init__.py"))


def test_long_files_have_a_reason() -> None:
    reasons = {"acclc/syntax/ast.py": "one page a type: the whole tree is read at once"}
    for path in modules(ROOT / "acclc") + modules(ROOT / "runtime"):
        lines = len(path.read_text().splitlines())
        name = str(path.relative_to(ROOT))
        assert lines <= 450 or name in reasons, f"{name} has {lines} lines"


def test_torch_is_imported_by_its_engine_alone() -> None:
    users = {p.name for p in modules(ROOT / "runtime") if any(m.split(".")[0] == "torch" for m in imported(p))}
    assert users == {"torch.py", "torch_arrays.py"}
