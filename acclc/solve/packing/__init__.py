"""Spanning-tree packing: schedules at the optimal throughput for what goes from ranks to all, back, or both.

:mod:`.task` says which problems are meant, :mod:`.solver` finds trees (:mod:`.levels` divides machines of boxes,
:mod:`.splitting` removes the switches, :mod:`.trees` packs), :mod:`.check` looks at them again, :mod:`.assemble`
makes a pipelined schedule. Edmonds (1973), Bang-Jensen, Frank and Jackson (1995); for collectives ForestColl
(Zhao et al., 2024).
"""

from acclc.solve.packing.variant import packed_schedule

__all__ = ["packed_schedule"]
