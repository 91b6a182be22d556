"""The generated module, and a runtime that stands alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from handmade import Made, collective, direct_artefact, ring_all_reduce, write_artefact

import acclc_runtime
import acclc_runtime as rt
from acclc.codegen.module import render_module

RUNTIME = Path(acclc_runtime.__file__).parent.parent

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"ortools", "lark", "networkx", "jinja2", "acclc", "click", "rich", "torch"}:
            raise ModuleNotFoundError(f"blocked: {name}")

sys.meta_path.insert(0, Blocker())
"""


def run_alone(code: str, *paths: Path) -> str:
    """Run Python code in a fresh process in which only the runtime, NumPy and msgspec can be imported."""
    header = BLOCKER + f"sys.path[:0] = {[str(RUNTIME), *map(str, paths)]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", header + code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def install_module(folder: Path) -> None:
    (folder / "__init__.py").write_text(render_module(rt.load(folder).manifest))


def test_the_blocker_blocks() -> None:
    out = run_alone("try:\n    import acclc\nexcept ModuleNotFoundError as error:\n    print(error)\n", RUNTIME.parent)
    assert out == "blocked: acclc\n"


def test_an_artefact_runs_where_the_compiler_is_absent(ring: Path) -> None:
    code = f"""
import numpy as np
import acclc_runtime as rt
m = rt.load({str(ring)!r})
with m.local("numpy") as g:
    out = g.all_reduce([np.full(1000, r, np.float32) for r in range(3)])
    print(out[2][999], g.describe(4000).splitlines()[-1])
from acclc_runtime.run import run_checks
print(all(row.ok for row in run_checks({str(ring)!r}, "numpy", sizes=(1000,))))
print(sorted(n for n in sys.modules if n.partition(".")[0] in ("acclc", "ortools", "lark", "networkx", "jinja2")))
"""
    assert run_alone(code) == ("3.0 all_reduce, 4000 B: variant ring (by_hand): best for 1 KiB and more\nTrue\n[]\n")


def test_the_module_is_imported_by_its_name(ring: Path) -> None:
    install_module(ring)
    code = """
import numpy as np
import ring3 as m
with m.local("numpy") as g:
    xs = [np.ones(4, np.float32) for _ in range(3)]
    print(m.all_reduce(g, xs, op="sum")[0], g.all_reduce(xs, outs=xs) is not None, xs[2])
print(m.manifest.name, m.describe().splitlines()[0])
"""
    out = run_alone(code, ring.parent)
    assert out == "[3. 3. 3. 3.] True [3. 3. 3. 3.]\nring3 ring3, compiled by acclc 0.0.0\n"


def test_the_module_needs_no_other_file_of_the_import_path(ring: Path, tmp_path: Path) -> None:
    """It finds its data beside itself, wherever the folder is moved and whatever it is called there."""
    install_module(ring)
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    ring.rename(moved)
    assert run_alone("import renamed\nprint(renamed.manifest.name)\n", moved.parent) == "ring3\n"


def test_names_that_are_keywords_or_taken_are_reached_by_name(tmp_path: Path) -> None:
    names = ("class", "local", "describe", "manifest")
    folder = direct_artefact(tmp_path / "odd", *[collective("all_reduce", name=n) for n in names])
    install_module(folder)
    code = """
import numpy as np, odd
with odd.local("numpy") as g:
    for name in ("class", "local", "describe", "manifest"):
        print(name, g.collective(name, [np.ones(2)] + [np.ones(2), np.ones(2)])[0])
print(getattr(odd, "class"), odd.describe().splitlines()[0])
"""
    assert run_alone(code, tmp_path).splitlines() == [
        "class [3. 3.]",
        "local [3. 3.]",
        "describe [3. 3.]",
        "manifest [3. 3.]",
        "<collective class> odd, compiled by acclc 0.0.0",
    ]


def test_the_module_is_deterministic_and_holds_no_path(ring: Path) -> None:
    manifest = rt.load(ring).manifest
    text = render_module(manifest)
    assert text == render_module(manifest)
    assert text.startswith('"""The artefact ring3, compiled by acclc 0.0.0: import it')
    assert "\n    all_reduce\n" in text
    assert str(ring.parent) not in text
    compile(text, "module", "exec")


def test_the_runtime_imports_only_what_it_states() -> None:
    """Every import statement of the package, outside functions or in them, names the standard library or these."""
    import ast

    allowed = {"numpy", "msgspec", "acclc_runtime", "cupy", "cupyx", "mpi4py", "pynvml", "torch", "cuda"}
    for file in sorted((RUNTIME / "acclc_runtime").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{file} imports {name}"


def test_loading_builds_and_executes_nothing(ring: Path) -> None:
    """Damage to everything but the manifest is no matter until a call needs it."""
    for file in ring.rglob("program.json"):
        file.write_text("broken")
    m = rt.load(ring)
    g = m.local("numpy")
    with pytest.raises(rt.DamagedFileError):
        g.collective("all_reduce", [np.ones(4) for _ in range(3)])


def test_two_artefacts_side_by_side(tmp_path: Path) -> None:
    paths = []
    for n in (2, 4):
        c = collective("all_reduce", range(n))
        paths.append(write_artefact(tmp_path / f"ring{n}", [(c, [Made("ring", ring_all_reduce(c))])]))
    with rt.load(paths[0]).local("numpy") as two, rt.load(paths[1]).local("numpy") as four:
        assert two.all_reduce([np.ones(5) for _ in range(2)])[0][0] == 2
        assert four.all_reduce([np.ones(5) for _ in range(4)])[0][0] == 4
