"""Point-to-point traffic at the optimum of the concurrent multi-commodity flow, as pipelined schedules.

:mod:`.task` says which problems are meant and gathers their shards into commodities, :mod:`.machine` is what all
programs see of links, budgets and symmetries, :mod:`.program` solves the linear program, :mod:`.units` makes whole
units of its solution, :mod:`.paths` takes them apart, :mod:`.assemble` makes the schedule. That one commodity may hold
all shards of one source is Shahrokhi and Matula (1990); all-to-all collectives by it: Basu et al. (2024), TE-CCL
(Liu et al., 2024) over time.
"""

from acclc.solve.flow.task import point_to_point
from acclc.solve.flow.variant import flow_schedule

__all__ = ["flow_schedule", "point_to_point"]
