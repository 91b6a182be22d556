"""The numpy backend and the compiled kernels: the same bits, whatever bits go in."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import acclc_runtime as rt
from acclc.artefact import Artefact, CompiledCollective, Proof
from acclc.bounds import bound
from acclc.driver import lower
from acclc.ir.problem import Collective, InPlace
from acclc.ir.result import Solution, Status
from acclc.solve.greedy import schedules_of
from acclc_runtime import dtypes
from acclc_runtime.backends.build import find_compiler

sys.path.append(str(Path(__file__).resolve().parents[2]))

from hand_built import problem_of, ring


def has_compiler() -> bool:
    try:
        find_compiler()
    except rt.BackendUnavailableError:
        return False
    return True


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> rt.Artefact:
    """all_reduce on a ring of five: partial sums travel, and chunks end with different lengths."""
    problem = problem_of(ring(5), Collective.ALL_REDUCE)
    problem = replace(problem, name="all_reduce", demands=(replace(problem.demands[0], in_place=InPlace.SAME),))
    variants = tuple(lower(problem, Solution(s), (0, None)) for s in schedules_of(problem)[-1:])
    compiled = CompiledCollective(problem, Proof(bound(problem), Status.FALLBACK, (), True, True, ()), variants)
    return rt.load(Artefact("ring5", "acclc 0", (compiled,)).save(tmp_path_factory.mktemp("agree") / "ring5"))


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize(
    ("dtype", "op"),
    [("f32", "sum"), ("f64", "min"), ("f16", "avg"), ("bf16", "sum"), ("bf16", "max"), ("i8", "avg"), ("i32", "prod")],
)
def test_same_bits(artefact: rt.Artefact, dtype: str, op: str) -> None:
    kind = dtypes.named(dtype)
    generator = np.random.default_rng(1)
    # Random bits: infinities, subnormals and NaNs of all kinds among them.
    xs = [np.frombuffer(generator.bytes(7001 * kind.item_bytes), kind.storage) for _ in range(5)]
    with artefact.local("cpu", mode="fibres") as compiled, artefact.local("numpy") as interpreted:
        assert compiled.backend == "cpu"
        ours = compiled.all_reduce(xs, op, dtype=dtype)
        theirs = interpreted.all_reduce(xs, op, dtype=dtype)
    for one, other in zip(ours, theirs, strict=True):
        assert np.array_equal(one.view(f"u{kind.item_bytes}"), other.view(f"u{kind.item_bytes}"))
