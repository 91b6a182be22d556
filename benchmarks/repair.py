"""Repair: a DGX-1 with any one or two NVLinks lost, every case, from an artefact of the whole machine.

    python benchmarks/repair.py [--quick] [--json FILE] [--goal pareto] [--collective all_gather]

There are 24 NVLinks between 16 pairs. A lost link is one of the one or two between a pair; two lost links are both of
one pair, or one each of two pairs: 16 and 8 + 120 cases. Each is repaired as `acclc repair` does it (search, verifiers,
kernels, writing left out), and `achieved` is what the verifier recomputes from the transfers. `--quick` takes every
twelfth case. `seconds` is the wall clock, `cpu` what the process used of one core; importing is not counted.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from acclc import compile_text
from acclc.artefact import Artefact
from acclc.driver import Options
from acclc.ir.problem import Topology
from acclc.repair import repair
from acclc.sema import topology_named
from acclc.verify import check_schedule
from acclc.verify.certificate import check_certificate


@dataclass(frozen=True)
class Row:
    case: str
    verified: bool
    seconds: float
    cpu_seconds: float
    """Of the process: what the wall clock says on a machine with nothing else to do."""
    bound: str
    """Rounds a chunk; a chunk takes one round on one NVLink."""
    achieved: str
    met: bool
    gap: float
    """Above the bound in throughput, as a fraction of it."""
    steps: int
    least_steps: int
    variants: str
    kept: str


def cases(topology: Topology) -> Iterator[tuple[str, ...]]:
    """What to take away, for every case."""
    names = [n.name for n in topology.nodes]
    pairs = [(f"{names[e.src]} <-> {names[e.dst]}", e.count) for e in topology.links if e.src < e.dst]
    yield from ((f"1 of {pair}",) for pair, _ in pairs)
    yield from ((f"2 of {pair}",) for pair, count in pairs if count >= 2)
    yield from ((f"1 of {a}", f"1 of {b}") for (a, _), (b, _) in combinations(pairs, 2))


def measure(artefact: Artefact, without: tuple[str, ...]) -> Row:
    """Repair one case, and look at it again."""
    started, used = time.perf_counter(), time.process_time()
    done = repair(artefact, Options(without=without)).collectives[0]
    seconds, used = time.perf_counter() - started, time.process_time() - used
    problem, proof = done.after.problem, done.after.proof
    reports = [check_schedule(problem, v.schedule) for v in done.after.variants]
    proven = check_certificate(problem, proof.bound)
    verified = proven.ok and all(r.ok for r in reports)
    unit, facts = problem.topology.unit, [r.facts for r in reports if r.facts is not None]
    assert unit is not None
    assert proven.facts is not None
    least, best = proven.facts.time_per_byte, min(f.time_per_shard_byte for f in facts)
    return Row(
        case=", ".join(without),
        verified=verified,
        seconds=round(seconds, 3),
        cpu_seconds=round(used, 3),
        bound=str(least * unit),
        achieved=str(best * unit),
        met=best == least,
        gap=float(best / least - 1),
        steps=min(f.steps for f in facts),
        least_steps=proven.facts.steps,
        variants=" ".join(v.id for v in done.after.variants),
        kept=" ".join(done.kept),
    )


def show(rows: Sequence[Row]) -> None:
    """Print the table, and what it comes to."""
    width = max(len(r.case) for r in rows)
    print(f"{'lost':{width}}  verified  seconds    cpu  bound  achieved     gap  steps  variants")
    for r in rows:
        gap = "met" if r.met else f"{r.gap:+.2%}"
        print(
            f"{r.case:{width}}  {'yes' if r.verified else 'NO':8}  {r.seconds:7.2f}  {r.cpu_seconds:5.2f}  {r.bound:>5}"
            f"  {r.achieved:>8}  {gap:>6}  {r.steps:5}  {r.variants}"
        )
    met = sum(r.met for r in rows)
    print(f"\n{len(rows)} cases, {sum(r.verified for r in rows)} verified, {met} at the bound")
    for what, times in (("wall", sorted(r.seconds for r in rows)), ("cpu", sorted(r.cpu_seconds for r in rows))):
        print(f"{what:4} median {times[len(times) // 2]:.2f} s, slowest {times[-1]:.2f} s")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every twelfth case")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--goal", default="pareto", choices=["pareto", "bandwidth", "latency"])
    parser.add_argument("--collective", default="all_gather", choices=["all_gather", "all_reduce", "reduce_scatter"])
    options = parser.parse_args()
    artefact = compile_text(f"{options.collective} on dgx1 {{ goal {options.goal} }}", "dgx1")
    chosen = list(cases(topology_named("dgx1")))[:: 12 if options.quick else 1]
    rows = [measure(artefact, without) for without in chosen]
    show(rows)
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.machine()}
        what = {"collective": options.collective, "goal": options.goal}
        Path(options.json).write_text(
            json.dumps({**machine, **what, "rows": [asdict(r) for r in rows]}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
