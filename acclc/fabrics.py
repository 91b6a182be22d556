"""What a machine gains from its several kinds of links together: bounds on parts of it, beside the bound on all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

from acclc.ir.problem import LinkClass, LinkId, Problem, Topology

OVER_THE_HOST = ("pcie", "host", "shm")
"""Kinds that are one fabric: a way over the host has some of each."""
ALL_SUBSETS = 3
"""With more fabrics only single ones and pairs are looked at: each costs a bound."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some fabrics alone. ``time_per_byte``: proven seconds a byte of shard; None where they do not connect all."""

    kinds: tuple[str, ...]
    single: bool
    time_per_byte: Fraction | None

    @property
    def name(self) -> str:
        """As people write it: ``nvlink + net``."""
        return " + ".join(self.kinds)


def fabrics(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Return the kinds of links of each fabric, in order of first use."""
    kinds = tuple(dict.fromkeys(_kind(c) for c in topology.classes))
    host = tuple(k for k in OVER_THE_HOST if k in kinds)
    return tuple(dict.fromkeys(host if k in OVER_THE_HOST else (k,) for k in kinds))


def _kind(cls: LinkClass) -> str:
    return cls.kind or "other"


def parts(problem: Problem) -> tuple[Part, ...]:
    """Return the bound on every proper part of a machine of several fabrics; single fabrics first."""
    from acclc.bounds import UnreachableError, bound

    found = fabrics(problem.topology)
    most = len(found) - 1 if len(found) <= ALL_SUBSETS else 2
    result = []
    for size in range(1, most + 1):
        for chosen in combinations(found, size):
            kinds = tuple(k for fabric in chosen for k in fabric)
            restricted = replace(problem, topology=restrict(problem.topology, kinds))
            time: Fraction | None
            try:
                time = bound(restricted).throughput.time_per_byte
            except UnreachableError:
                time = None
            result.append(Part(kinds, size == 1, time))
    return tuple(result)


def restrict(topology: Topology, kinds: tuple[str, ...]) -> Topology:
    """Return the topology with the links of some kinds only; budgets go on over what is left of them."""
    kept = [e for e in topology.links if _kind(e.cls) in kinds]
    number = {e.id: LinkId(n) for n, e in enumerate(kept)}
    budgets = (replace(b, links=tuple(number[e] for e in b.links if e in number)) for b in topology.budgets)
    return replace(
        topology,
        links=tuple(replace(e, id=number[e.id]) for e in kept),
        budgets=tuple(b for b in budgets if b.links),
    )
