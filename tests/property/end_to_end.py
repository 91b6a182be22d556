"""Random machines and collectives as text, compiled by the greedy solver, and run against the definition."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acclc.artefact import Artefact, CompiledCollective, Proof
from acclc.bounds import bound
from acclc.diagnostics import DiagnosticError
from acclc.driver import lower
from acclc.ir.problem import Problem
from acclc.ir.result import Solution, Status
from acclc.ir.schedule import Schedule
from acclc.sema import analyse_text
from acclc.simulate import size_ranges
from acclc.solve.greedy import schedules_of
from acclc.verify import check_problem, check_schedule
from acclc_runtime import dtypes, load
from acclc_runtime.communicator import LocalGroup
from acclc_runtime.dtypes import OPERATORS, REDUCIBLE
from acclc_runtime.manifest import ManifestCollective
from acclc_runtime.reference import check, random_inputs

NAMED = (
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "send_recv",
)
ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
MOVED_ONLY = ("f8e4m3", "i16", "u32", "c64", "raw8")
CANARY = 37
"""Elements before and after every buffer that nobody may touch."""


def machine(rng: random.Random, ranks: int) -> str:
    """A strongly connected machine of one of several shapes, mixed lanes and rates, some with budgets."""
    shape = rng.choice(("direct", "direct", "switched", "two switches", "hosts"))
    lines = ["topology t {", "link l { 10 GB/s, 1 us }", "link m { 15 GB/s, 2 us }", f"gpu g[{ranks}]"]

    def wire() -> str:
        return f"{rng.randint(1, 3)} {rng.choice('lm')}"

    order = rng.sample(range(ranks), ranks)
    ring = [f"g[{a}] -> g[{b}]" for a, b in zip(order, order[1:] + order[:1], strict=True)]
    extra = [f"g[{a}] -> g[{b}]" for a in range(ranks) for b in range(ranks) if a != b and rng.random() < 0.25]
    links: list[str] = []
    match shape:
        case "direct":
            links = ring + extra + [e for e in ring if rng.random() < 0.2]  # the last: a pair of two link classes
        case "switched":
            lines.append("switch s")
            links = [f"g[{r}] <-> s" for r in range(ranks)] + rng.sample(extra, min(len(extra), 2))
        case "two switches":
            lines.append("switch s[2]")
            links = [f"g[{r}] <-> s[{r % 2}]" for r in range(ranks)] + ["s[0] <-> s[1]"]
            links += [f"g[{rng.randrange(ranks)}] <-> s[{k}]" for k in range(2)] if rng.random() < 0.3 else []
            links += rng.sample(extra, min(len(extra), 1))
        case "hosts":
            lines.append("host h[2]")
            links = [f"g[{r}] <-> h[{r % 2}]" for r in range(ranks)] + ["h[0] <-> h[1]"]
            links += rng.sample(extra, min(len(extra), 2))
    seen: set[str] = set()
    for link in links:
        lines.append(f"{link} : {'2 m' if link in seen else wire()}")
        seen.add(link)
    if rng.random() < 0.4:
        end = {"switched": "s", "two switches": "s[0]", "hosts": "h[0]"}.get(shape, f"g[{order[0]}]")
        lines.append(f'budget "shared" {{ {rng.choice((10, 15, 25))} GB/s both ways over {end} <-> * }}')
    return "\n".join([*lines, "}"])


def options(rng: random.Random) -> list[str]:
    found = []
    if rng.random() < 0.4:
        found.append(f"channels {rng.randint(1, 3)}")
    if rng.random() < 0.4:
        found.append(f"blocks up to {rng.randint(2, 4)}")
    return found


def statement(rng: random.Random, group: Sequence[int], where: str = "t", whole: bool = False) -> tuple[str, list[str]]:
    """A named collective on a group, and its own options."""
    kind = rng.choice(NAMED)
    own = []
    if kind in ROOTED:
        own.append(f"root g[{rng.choice(group)}]")
    if kind in REDUCING:
        own.append(f"op {rng.choice(OPERATORS)}")
    if kind == "send_recv":
        pairs = [(a, b) for a in group for b in group if a != b]
        own.append("pairs " + ", ".join(f"g[{a}] -> g[{b}]" for a, b in rng.sample(pairs, rng.randint(1, len(pairs)))))
    among = "" if whole else " among " + ", ".join(f"g[{r}]" for r in group)
    return f"{kind} on {where}{among}", own


def custom(rng: random.Random, ranks: int) -> str:
    """Chunks with one or several holders, reductions over different sets, needed anywhere."""
    lines = ["collective c on t {"]
    for n in range(rng.randint(1, 4)):
        have = rng.sample(range(ranks), rng.randint(1, ranks))
        need = rng.sample(range(ranks), rng.randint(1, ranks))
        word = ("reduce x%d over" if rng.random() < 0.5 else "chunk x%d at") % n
        lines.append(f"{word} " + ", ".join(f"g[{r}]" for r in have))
        lines.append(f"need x{n} at " + ", ".join(f"g[{r}]" for r in need))
    own = [f"op {rng.choice(OPERATORS)}"] if any(x.startswith("reduce") for x in lines) else []
    some = [*own, *options(rng)]
    return "\n".join([*lines, "}"]) + (f" with {{ {', '.join(some)} }}" if some else "")


def text(rng: random.Random) -> str:
    """A whole file that means something: a sub-group of a machine may not be connected by itself."""
    while True:
        source = _any_text(rng)
        try:
            analyse_text(source)
        except DiagnosticError as error:
            if {d.code for d in error.diagnostics} == {"not-connected"}:
                continue
            raise AssertionError(f"{source}\n{error}") from error
        return source


def _any_text(rng: random.Random) -> str:
    ranks = rng.randint(2, 6)
    kind = rng.choice(("named", "named", "named", "sub-group", "custom", "custom", "together"))
    top = machine(rng, ranks)
    if kind == "custom":
        return f"{top}\n{custom(rng, ranks)}"
    members = rng.sample(range(ranks), ranks)
    if kind == "together" and ranks >= 4:
        cut = rng.randint(2, ranks - 2)
        parts = [statement(rng, members[:cut]), statement(rng, members[cut:])]
        parts = [(head, [*own, f"weight {rng.randint(2, 3)}"] if rng.random() < 0.3 else own) for head, own in parts]
        parts.sort(key=lambda part: not part[1])  # a reduce after a statement without options needs the braces
        body = "\n".join(f"{head} {{ {', '.join(own)} }}" if own else head for head, own in parts)
        some = options(rng)
        return f"{top}\ntogether as both {{\n{body}\n}}" + (f" with {{ {', '.join(some)} }}" if some else "")
    group = members[: rng.randint(2, ranks)] if kind == "sub-group" else members
    head, own = statement(rng, group, whole=kind == "named")
    return f"{top}\n{head} {{ {', '.join([*own, *options(rng)])} }}"


def compiled(problem: Problem, types: tuple[str, ...] = (), most: int = 3) -> Artefact:
    """Compile with greedy schedules only; every level verified (``lower`` raises where one is refused)."""
    report = check_problem(problem)
    assert report.ok, str(report)
    by_id = {s.id: s for s in schedules_of(problem)}
    schedules = list(by_id.values())[:most]
    for schedule in schedules:
        checked = check_schedule(problem, schedule)
        assert checked.ok, str(checked)
    ranges = size_ranges(problem, schedules)
    variants = tuple(lower(problem, Solution(s), r) for s, r in zip(schedules, ranges, strict=True))
    proof = Proof(bound(problem), Status.FALLBACK, (), False, True, ())
    return Artefact("random_case", "test", (CompiledCollective(problem.without_spans(), proof, variants),), types)


def artefact_of(source: str, folder: Path, slot_depth: int | None = None, types: tuple[str, ...] = ()) -> Path:
    """Compile a text and save it. ``slot_depth`` replaces the compiler's own."""
    (problem,) = analyse_text(source).problems
    made = compiled(problem, types)
    if slot_depth is not None:
        made = with_depth(made, slot_depth)
    return made.save(folder / "random_case")


def with_depth(artefact: Artefact, slot_depth: int) -> Artefact:
    """The same artefact with other slot depths, verified again."""
    from acclc.codegen import generate
    from acclc.lower import lower_kernel
    from acclc.verify import check_kernel

    collectives = []
    for collective in artefact.collectives:
        variants = []
        for variant in collective.variants:
            kernel = lower_kernel(collective.problem, variant.program, slot_depth)
            report = check_kernel(collective.problem, variant.schedule, kernel)
            assert report.ok, str(report)
            variants.append(replace(variant, kernel=kernel, source=generate(kernel)))
        collectives.append(replace(collective, variants=tuple(variants)))
    return replace(artefact, collectives=tuple(collectives))


@dataclass(frozen=True)
class CallCase:
    """One call: what is varied from call to call of a group."""

    variant: str
    count: int
    dtype: str
    op: str | None
    in_place: bool
    shift: int
    """Bytes by which every buffer is off its alignment."""
    general: bool
    seed: int


def random_call(rng: random.Random, collective: ManifestCollective, dtype: str | None = None) -> CallCase:
    count = rng.choice((0, 1, 2, 15, 16, 17, rng.randint(1, 100), rng.randint(100, 1500)))
    types = REDUCIBLE if collective.reduces else (*REDUCIBLE, *MOVED_ONLY)
    op = None
    if collective.reduces:
        op = rng.choice([o for o in OPERATORS if o != "avg" or collective.contributors])
    return CallCase(
        variant=rng.choice(collective.variants).id,
        count=count,
        dtype=dtype or rng.choice(types),
        op=op,
        in_place=collective.in_place != "none" and rng.random() < 0.5,
        shift=rng.choice((0, 0, 1, 3, 8)),
        general=rng.random() < 0.3,
        seed=rng.randrange(1000),
    )


def run_schedule(task: Problem, schedule: Schedule, seed: int, calls: int) -> None:
    """Lower a schedule, which verifies every level, and make so many random calls on each backend.

    Counts that no chunk divides, empty ones, slices of a few bytes.
    """
    (sizes,) = size_ranges(task, [schedule])
    variant = lower(task, Solution(schedule), sizes)
    proof = Proof(bound(task), Status.FEASIBLE, (), False, True, ())
    made = Artefact("one", "test", (CompiledCollective(task.without_spans(), proof, (variant,)),), ())
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(made.save(Path(folder) / "one"))
        (collective,) = loaded.manifest.collectives
        with loaded.local("numpy") as group:
            for _ in range(calls):
                run_call(group, collective, random_call(rng, collective))
        with loaded.local("cpu", timeout_s=120, mode="threads", slice_bytes=192) as group:
            for _ in range(calls):
                run_call(group, collective, random_call(rng, collective, "i32"))


def run_call(group: LocalGroup, collective: ManifestCollective, case: CallCase) -> None:
    """Run a call between canaries and compare every output with the definition."""
    kind = dtypes.named(case.dtype)
    pristine = random_inputs(collective, case.count, case.dtype, case.seed, op=case.op, general=case.general)
    rows = [_buffers(collective, case, i, kind) for i in range(len(collective.ranks))]
    for (source, _, _), data in zip(rows, pristine, strict=True):
        if source is not None and data is not None:
            source[:] = data
    inputs, outputs = [r[0] for r in rows], [r[1] for r in rows]
    group.collective(collective.name, inputs, outputs, case.op, variant=case.variant, dtype=case.dtype)
    compared = check(collective, pristine, outputs, case.count, case.dtype, case.op)
    assert not compared.wrong, f"{case}: {compared.wrong} wrong, {compared.mismatches}"
    for (source, _, canaries), data in zip(rows, pristine, strict=True):
        assert all((c == 0xA5).all() for c in canaries), f"{case}: written outside of a buffer"
        if source is not None and data is not None and not case.in_place:
            assert np.array_equal(source.view(np.uint8), data.view(np.uint8)), f"{case}: an input was written to"


def _buffers(
    collective: ManifestCollective, case: CallCase, index: int, kind: dtypes.DType
) -> tuple[NDArray[Any] | None, NDArray[Any] | None, list[NDArray[np.uint8]]]:
    """One rank's input and output, and the bytes around them."""
    units_in, units_out = collective.input_units[index], collective.output_units[index]
    canaries: list[NDArray[np.uint8]] = []

    def new(units: int) -> NDArray[Any]:
        nbytes, margin = units * case.count * kind.item_bytes, CANARY * kind.item_bytes
        raw = np.full(nbytes + 2 * margin + case.shift, 0xA5, np.uint8)
        canaries.extend([raw[: margin + case.shift], raw[margin + case.shift + nbytes :]])
        return raw[margin + case.shift : margin + case.shift + nbytes].view(kind.storage)

    way = collective.in_place if case.in_place and units_in and units_out else "none"
    start = collective.positions[index] * case.count
    if way == "same":
        both = new(units_in)
        return both, both, canaries
    if way == "input_in_output":
        target = new(units_out)
        return target[start : start + units_in * case.count], target, canaries
    if way == "output_in_input":
        source = new(units_in)
        return source, source[start : start + units_out * case.count], canaries
    return new(units_in) if units_in else None, new(units_out) if units_out else None, canaries
