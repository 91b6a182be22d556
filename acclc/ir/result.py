"""What solvers and bounds return: schedules, bounds with certificates, and what was excluded and why.

Certificates are msgspec structs, not dataclasses: in a file a tag has to say which kind of certificate it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct

from acclc.ir.problem import LinkId, NodeId, Rank, ShardId
from acclc.ir.schedule import Schedule


class Status(StrEnum):
    """The end of a search; see the definitions of the project for the exact meaning."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    FALLBACK = "fallback"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Cut(Struct, frozen=True, tag="cut"):
    """A node set whose outgoing capacity limits a collective: ``load`` shard units must leave it.

    ``nodes`` is the set S. The claim: seconds per byte of shard >= load / capacity leaving S.
    """

    nodes: tuple[NodeId, ...]
    load: Fraction


class CutSum(Struct, frozen=True, tag="cut_sum"):
    """Weighted cuts with prices: proves a bound where budgets or uneven switches make a single cut too weak.

    With n_e the total weight of the cuts that link e leaves, ``potentials`` pi of the switches (flow through a
    switch is conserved) and ``budget_prices`` beta, any allocation carries at most
    sum_b beta_b cap_b + sum_e c_e max(0, n_e + pi_dst - pi_src - sum_{b on e} beta_b).
    The claim: seconds per byte of shard >= sum_S w_S load_S / that amount.
    """

    cuts: tuple[tuple[Fraction, Cut], ...]
    potentials: tuple[tuple[NodeId, Fraction], ...] = ()
    budget_prices: tuple[Fraction, ...] = ()


class Partition(Struct, frozen=True, tag="partition"):
    """Parts (disjoint node sets) between which messages must pass: 2(p-1) an element for an all_reduce over p parts.

    Nodes that copy or reduce and lie in no part are parts of their own; links that leave a part count (n_e = 1),
    links that leave a node which only passes on do not. Capacity as in ``CutSum``.
    """

    parts: tuple[tuple[NodeId, ...], ...]
    potentials: tuple[tuple[NodeId, Fraction], ...] = ()
    budget_prices: tuple[Fraction, ...] = ()


class FlowDual(Struct, frozen=True, tag="flow_dual"):
    """Lengths >= 0 of links; those of budgets are added to their links.

    The claim: time >= sum of the shards' shortest distances / sum of capacity x length.
    """

    lengths: tuple[tuple[LinkId, Fraction], ...]
    budget_prices: tuple[Fraction, ...] = ()


class TreeDual(Struct, frozen=True, tag="tree_dual"):
    """Lengths >= 0 of links, as of a flow's dual, where shards are copied or reduced on the way.

    A hop leads from one node that computes to another, through nodes that only pass on; each costs the length of its
    links. The claim: time >= sum of what the shards need at least / sum of capacity x length. A shard needs the most
    of: its shortest distance; the cheapest hop into each rank that must get something; of a reduced shard, the cheapest
    hop out of each contributor; as many of the cheapest hop of all as messages an element must pass between ranks.
    """

    lengths: tuple[tuple[LinkId, Fraction], ...]
    budget_prices: tuple[Fraction, ...] = ()


class LongestPath(Struct, frozen=True, tag="longest_path"):
    """A source and a target whose distance no schedule can undercut (steps, or seconds of latency)."""

    src: Rank
    dst: Rank
    path: tuple[LinkId, ...]


Certificate = Cut | CutSum | Partition | FlowDual | TreeDual | LongestPath


class LastStepSet(Struct, frozen=True, tag="last_step_set"):
    """A node set T with ranks: what first enters it in the last step cannot be passed on inside it in that step.

    With n shards that all ranks of T need and none of them holds, and c lanes that enter T, the claim is
    R >= ceil(C n / c + 1 - 1/|ranks of T|), whatever the steps. Reduced shards: what leaves T in the first step.
    """

    nodes: tuple[NodeId, ...]


class StepDual(Struct, frozen=True, tag="step_dual"):
    """A dual of the step-bounded linear program: a lower bound on R/C of schedules of at most ``steps`` steps.

    Shards with the same holders and needers are one kind, named by its first shard. ``lengths`` are
    (shard, end, link, step, z >= 0): of the way to the target ``end``, or, of a reduced shard, from the source
    ``end``. ``potentials`` are (shard, node, step, pi) of nodes that only pass on; ``budget_prices`` (budget, step,
    beta >= 0). With n shards of a kind and dist the shortest way in ``steps`` steps from any holder, the claim is
    R/C >= sum n dist / max_s (sum_e c_e y[e,s] + sum_b cap_b beta[b,s]), capacities in units of rate,
    y[e,s] = max(0, max over kinds of (sum of z over the ends + pi_dst - pi_src) - sum of beta of the link's budgets).
    """

    steps: int
    lengths: tuple[tuple[ShardId, Rank, LinkId, int, Fraction], ...]
    potentials: tuple[tuple[ShardId, NodeId, int, Fraction], ...] = ()
    budget_prices: tuple[tuple[int, int, Fraction], ...] = ()


Exclusion = LastStepSet | StepDual
"""What proves that points (C, S, R) do not exist where the throughput bound alone does not."""


@dataclass(frozen=True, slots=True)
class ThroughputBound:
    """Seconds >= ``time_per_byte`` x bytes of one shard, proven by ``certificate``; ``words`` says it to a person."""

    time_per_byte: Fraction
    certificate: Certificate
    words: str


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """At least ``steps`` steps and ``seconds`` seconds of link latency, whatever the size."""

    steps: int
    steps_certificate: LongestPath | None
    seconds: Fraction
    seconds_certificate: LongestPath | None
    words: str


@dataclass(frozen=True, slots=True)
class Bound:
    """Both lower bounds of a problem."""

    throughput: ThroughputBound
    latency: LatencyBound
    rounds_per_chunk: Fraction | None
    """``throughput.time_per_byte`` times the topology's unit; None where there is no common unit."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A point (C, S, R) that was shown not to exist. ``rounds`` is the largest R that is excluded at (C, S)."""

    chunks: int
    steps: int
    rounds: int
    reason: str
    """``bound`` (the bounds and exclusions of the same result prove it), ``step_bound`` (a bound whose certificate is
    too large to be kept), or ``infeasible`` (CP-SAT, no symmetry imposed, seed in ``detail``)."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Solution:
    """A schedule with what the solver claims of it."""

    schedule: Schedule
    solve_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Result:
    """What a solver returns: schedules in order of steps (a frontier), and the proofs beside them."""

    status: Status
    solutions: tuple[Solution, ...]
    bound: Bound
    excluded: tuple[Excluded, ...] = ()
    complete: bool = True
    """False when a deadline or an interrupt cut the search: more may exist."""
    reproducible: bool = True
    notes: tuple[str, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    """What proves the excluded points of reason ``bound``, beside the bound itself."""
