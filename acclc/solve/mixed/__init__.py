"""Multicast, point-to-point and reductions in one problem: a linear program over trees, made column by column.

Every shard travels along trees of its own kind: an out-tree from its holders to whoever needs it, which copies at the
ranks on the way; an in-tree of its contributions to one rank; both, with one root, for a reduction that several need. A
path is the tree of what one rank needs. All share the links: minimise T, so many trees a shard, the load of every link
within T times its capacity. Trees are found when the prices of the links ask for them (column generation, as for
Steiner tree packing: Jain, Mahdian and Salavatipour, 2003). :mod:`.task` gathers alike shards, :mod:`.ways` finds the
cheapest tree for given prices, :mod:`.program` is the linear program, :mod:`.units` makes whole units of its solution.

Paths, trees over all ranks and their joins are found at their cheapest, so that the program's value is the optimum of
all such schedules; a tree to some of the ranks is found by a heuristic (the problem is Steiner's), so there may be
better. What a schedule loses against the proven bound is for its caller to say.
"""

from acclc.solve.mixed.variant import mixed_schedule

__all__ = ["mixed_schedule"]
